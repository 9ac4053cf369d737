"""`hal.executable.export`: one entry point of an executable."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i1,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    RegionVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive, request_space
from pydispatch.ir.dialects.hal.layout import PipelineLayoutAttr
from pydispatch.ir.dialects.hal.region import check_count, check_region
from pydispatch.ir.dialects.hal.tiles import check_tiles


@directive
class PropertyList(CustomDirective):
    """Directive for a list of properties `<name = value, ...>`.

    This class only parses it: `hal.dispatch.extern` prints the properties in its attribute dictionary. The subclass
    `Sizes` also prints it.
    """

    OPENS: ClassVar[str] = "<"  # the token by which `oilist` recognizes this clause

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `<name = value, ...>` with properties of the operation."""
        known = state.op_type.get_irdl_definition().properties

        def parse_entry() -> None:
            """Parse `name = value` of a property of the operation."""
            start = parser.pos
            name, value = parser._parse_attribute_entry()
            if name not in known:
                operation = state.op_type.name.rpartition(".")[2]  # without the dialect
                parser.raise_error(f"'{name}' is not a property of an {operation}", start, parser.pos)
            state.properties[name] = value

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_entry)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the properties are printed in the attribute dictionary."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that the angle brackets are never printed."""
        return False


@directive
class Sizes(PropertyList):
    """Directive for `<workgroup_size = [64, 1, 1], subgroup_size = 32, workgroup_local_memory = 1024>`.

    Each of these properties is optional; `workgroup`, `subgroup` and `memory` are the variables that hold them.
    """

    workgroup: AttributeVariable
    subgroup: AttributeVariable
    memory: AttributeVariable

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether the angle brackets are printed: the operation has at least one of the properties."""
        return any(variable.is_present(op) for variable in (self.workgroup, self.subgroup, self.memory))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the sizes that the operation has as `<name = value, ...>`: of workgroup, subgroup and local memory."""

        def print_entry(variable: AttributeVariable) -> None:
            """Print `name = value` of a property."""
            printer.print_string(f"{variable.name} = ")
            printer.print_attribute(op.properties[variable.name])

        printer.print_string(" ")
        with printer.in_angle_brackets():
            present = [variable for variable in (self.workgroup, self.subgroup, self.memory) if variable.is_present(op)]
            printer.print_list(present, print_entry)
        request_space(state)


@directive
class LabelledCount(CustomDirective):
    """Directive for a count region whose entry block has a label, as older releases write it; it is never printed.

    `{ ^bb0(%device: !hal.device, %size: index): ... }` is equal to `count(%device: !hal.device, %size: index) ->
    (index, index, index) { ... }`.
    """

    OPENS: ClassVar[str] = "{"  # the token by which `oilist` recognizes this clause

    region: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the region that computes the number of workgroups; a second one is a parse error."""
        start = parser.pos
        if state.regions[self.region.index] is not None:
            parser.raise_error("a second count region is given", start, start + 1)
        self.region.set(state, parser.parse_region())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: this older syntax is only parsed."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that this older syntax is never printed."""
        return False


@op_definition
class ExecutableExportOp(IRDLOperation):
    """Entry point of an executable: a kernel that dispatches can launch.

    Example: a dispatch with the workload %n launches n workgroups of 64 invocations.

        hal.executable.export public @f ordinal(0) layout(#layout)
            count(%device: !hal.device, %n: index) -> (index, index, index) {
          %c1 = arith.constant 1 : index
          hal.return %n, %c1, %c1 : index, index, index
        } <workgroup_size = [64 : index, 1 : index, 1 : index]>

    Attributes:
        ordinal: Index of the export in the executable; if absent, its position among the exports.
        layout: Bindings and constants of the kernel.
        workgroup_size: Invocations of a workgroup along x, y and z.
        subgroup_size: Invocations of a subgroup.
        workgroup_local_memory: Bytes of memory that a workgroup shares.
        condition: Host region that maps the device to an i1: whether the export may run on it. Empty if omitted.
        condition_fallback: Export of the same executable that runs instead if the condition is false. Without a
            fallback, the condition has no effect.
        count: Host region that maps the device and the workload, the numbers in brackets of a dispatch, to the numbers
            of workgroups along x, y and z. Empty if omitted.
    """

    name = "hal.executable.export"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    ordinal = opt_prop_def(IntegerAttr)
    layout = prop_def(PipelineLayoutAttr)
    workgroup_size = opt_prop_def(ArrayAttr)
    subgroup_size = opt_prop_def(IntegerAttr)
    workgroup_local_memory = opt_prop_def(IntegerAttr)
    condition_fallback = opt_prop_def(SymbolRefAttr)
    condition = region_def()
    count = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    custom_directives = (LabelledCount, Sizes)  # LabelledCount: a count region whose block has a label, as in old files
    assembly_format = (
        "custom<Visibility>($sym_visibility) $sym_name oilist(`ordinal` `(` custom<Index>($ordinal) `)` | `layout` "
        "`(` $layout `)` | `condition` custom<Condition>($condition) | `fallback` `(` $condition_fallback `)` | "
        "`count` custom<Count>($count) | custom<LabelledCount>(ref($count)) | custom<Sizes>($workgroup_size, "
        "$subgroup_size, $workgroup_local_memory)) attr-dict-with-keyword"
    )

    def verify_(self) -> None:
        """Check the regions of count and condition, the workgroup size and the attribute `pyd.tiles`.

        A fallback without a condition is refused.
        """
        check_count(self.count, has_device_argument=True)
        if self.condition.blocks:
            check_region(self.condition, [i1], "condition", has_device_argument=True, has_workload=False)
        if self.condition_fallback is not None and not self.condition.blocks:
            raise VerifyException("fallback(@export) is given, but there is no condition(...) region")
        check_sizes(self.workgroup_size)
        check_tiles(self, bindings=len(self.layout.bindings.data))  # a discardable attribute, see tiles.py


def check_sizes(sizes: ArrayAttr[Attribute] | None) -> None:
    """Check that a workgroup size is absent or three positive integers; raise VerifyException otherwise."""
    if sizes is None:
        return
    values = [s.value.data if isinstance(s, IntegerAttr) else -1 for s in sizes]  # -1: no integer, rejected below
    if len(values) != 3 or min(values) < 1:
        raise VerifyException(f"workgroup_size is three positive integers, got {sizes}")
