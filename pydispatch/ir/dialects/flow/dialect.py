"""The `flow` dialect: dispatches of named exports and operations on whole tensors."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, SymbolRefAttr
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.flow import calls, slices, tensors
from pydispatch.ir.dialects.flow.base import CALL, SIGNATURE, DispatchLikeOp
from pydispatch.ir.dialects.flow.parameter import FlowParameterAttr
from pydispatch.ir.dialects.hal.interface import WorkgroupOp
from pydispatch.ir.dialects.hal.region import check_count
from pydispatch.ir.dialects.stream import ExecutableLikeOp, ExportLikeOp


@directive
class EntryPoints(CustomDirective):
    """Directive for one entry point `@executable::@export`, or several in braces.

    `value` is the array of the symbol references.
    """

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `@executable::@export`, or several in braces."""
        start = parser.pos
        if parser._current_token.text == "{":
            entries = parser.parse_comma_separated_list(parser.Delimiter.BRACES, parser.parse_attribute)
        else:
            entry = parser.parse_optional_attribute()
            entries = [] if entry is None else [entry]
        if not entries or not all(isinstance(e, SymbolRefAttr) and e.nested_references.data for e in entries):
            end = max(parser.pos, start + 1)  # the error marks at least one character, also if nothing was parsed
            parser.raise_error("expected @executable::@export", start, end)
        self.value.set(state, ArrayAttr(entries))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print one entry point, or several in braces."""
        entries = self.value.get(op)
        assert isinstance(entries, ArrayAttr)
        state.print_whitespace(printer)
        printer.print_string("{" if len(entries) > 1 else "")
        printer.print_list(entries, printer.print_attribute)
        printer.print_string("}" if len(entries) > 1 else "")


@op_definition
class DispatchOp(DispatchLikeOp):
    """Dispatch of an export, whose count region computes the grid from the `workload` operands.

    Several `entry_points` are the same export in several variants of an executable.
    """

    name = "flow.dispatch"
    entry_points = prop_def(ArrayAttr[SymbolRefAttr])
    custom_directives = (EntryPoints,)
    assembly_format = f"custom<EntryPoints>($entry_points) {CALL} attr-dict `:` {SIGNATURE}"

    @property
    def entry_point(self) -> SymbolRefAttr:
        """Return the first entry point, `@executable::@export` or `@executable::@variant::@export`."""
        return self.entry_points.data[0]


@op_definition
class DispatchWorkgroupsOp(DispatchLikeOp):
    """Dispatch whose kernel is the inline region `body`.

    The region `count` maps the workload to the grid, three index values; it is empty if the text omits it.
    """

    name = "flow.dispatch.workgroups"
    body = region_def()
    count = region_def()
    assembly_format = (
        f"{CALL} `:` {SIGNATURE} attr-dict-with-keyword `=` custom<NamedRegion>($body) "
        "(`count` custom<Count>($count)^)?"
    )

    def verify_(self) -> None:
        """Verify the dispatch, and that the region `count` computes a grid."""
        super().verify_()
        check_count(self.count, has_device_argument=False)


@op_definition
class DispatchRegionOp(IRDLOperation):
    """Dispatch whose kernel computes the tensor operations of the region `body`.

    The region `count` maps the workload to the grid, three index values; it is empty if the text omits it.
    """

    name = "flow.dispatch.region"
    workload = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    results_ = var_result_def()
    body = region_def()
    count = region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`[` $workload^ `]`)? custom<ShapedResults>(type($results_), $result_dims) attr-dict-with-keyword $body "
        "(`count` custom<Count>($count)^)?"
    )

    def verify_(self) -> None:
        """Raise VerifyException if the region that computes the workgroup counts is wrong."""
        check_count(self.count, has_device_argument=False)


@op_definition
class ExecutableOp(ExecutableLikeOp):
    """Executable: exports and one module of kernels."""

    name = "flow.executable"


@op_definition
class ExecutableEndOp(IRDLOperation):
    """Terminator of an executable's body in older releases."""

    name = "flow.executable_end"
    assembly_format = "attr-dict"


@op_definition
class ExecutableExportOp(ExportLikeOp):
    """Export of an executable: the symbol by which dispatches call one of its kernels."""

    name = "flow.executable.export"


@op_definition
class DispatchWorkgroupIDOp(WorkgroupOp):
    """Workgroup id along a dimension."""

    name = "flow.dispatch.workgroup.id"


@op_definition
class DispatchWorkgroupCountOp(WorkgroupOp):
    """Number of workgroups along a dimension."""

    name = "flow.dispatch.workgroup.count"


@op_definition
class DispatchWorkgroupSizeOp(WorkgroupOp):
    """Workgroup size along a dimension."""

    name = "flow.dispatch.workgroup.size"


@op_definition
class ReturnOp(IRDLOperation):
    """Terminator of the regions of `flow` operations."""

    name = "flow.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


OPERATIONS: list[type[Operation]] = [
    DispatchOp, DispatchWorkgroupsOp, DispatchRegionOp, ExecutableOp, ExecutableEndOp, ExecutableExportOp,
    DispatchWorkgroupIDOp, DispatchWorkgroupCountOp, DispatchWorkgroupSizeOp, ReturnOp,
]  # fmt: skip

Flow = Dialect("flow", [*OPERATIONS, *calls.OPERATIONS, *tensors.OPERATIONS, *slices.OPERATIONS], [FlowParameterAttr])
