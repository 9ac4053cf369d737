"""`hal` operations inside kernels: bindings, constants, the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IndexType, IndexTypeConstr, IntegerAttr, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import Index, KeywordChoice, directive
from pydispatch.ir.dialects.hal.layout import (
    BINDING_FLAGS,
    BINDING_TYPES,
    PipelineLayoutAttr,
    parse_flags,
    print_flags,
)


@directive
class SetZero(CustomDirective):
    """Directive for the index of a descriptor set, which older releases write; it must be 0 and is not stored."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the index of a descriptor set; another one than 0 is a parse error."""
        start = parser.pos
        index = syntax.parse_integer_attr(parser, IndexType()).value.data
        if index != 0:
            parser.raise_error(f"descriptor set {index} cannot be used, there is one set: write set(0)",
                               start, parser.pos)  # fmt: skip

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the index of the descriptor set, always 0, is not stored."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that the index is never printed."""
        return False


@directive
class BindingKind(KeywordChoice):
    """Directive for `storage_buffer` or `uniform_buffer`."""

    WORDS: ClassVar[Sequence[str]] = BINDING_TYPES
    WHAT: ClassVar[str] = "binding type"


@directive
class BindingFlags(CustomDirective):
    """Directive for flags: `ReadOnly`, or several as `"ReadOnly|Indirect"`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the flags, and store them as an array of strings."""
        self.value.set(state, syntax.strings(parse_flags(parser, BINDING_FLAGS)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `ReadOnly`, or several flags as `"ReadOnly|Indirect"`."""
        flags = self.value.get(op)
        assert isinstance(flags, ArrayAttr)
        print_flags(printer, flags)

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether the operation states any flags; an empty list is not printed."""
        flags = self.value.get(op)
        return isinstance(flags, ArrayAttr) and bool(flags.data)


@op_definition
class InterfaceBindingSubspanOp(IRDLOperation):
    """View of the memory of a binding in a kernel, from a byte offset to the end; usually a memref.

    This is the memory of binding 0 from byte 64, as a matrix of %n rows:

        %m = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%c64) : memref<?x4xf32>{%n}

    Older releases write `set(0) binding(0) type(storage_buffer)` without a layout.

    Attributes:
        layout: Pipeline layout that has the binding; None in the syntax of older releases.
        binding: Ordinal of the binding in the layout.
        type: Kind of memory, "storage_buffer" or "uniform_buffer"; None if the layout states it.
        alignment: Number of bytes, a power of two, that divides the address of the binding.
        flags: Words of `BINDING_FLAGS` without None: ReadOnly states that the kernel does not write the binding.
        byte_offset: Start of the result in the binding, in bytes; 0 if absent.
        dynamic_dims: Sizes of the result's dynamic dimensions.
    """

    name = "hal.interface.binding.subspan"
    layout = opt_prop_def(PipelineLayoutAttr)
    binding = prop_def(IntegerAttr)
    type = opt_prop_def(StringAttr)
    alignment = opt_prop_def(IntegerAttr)
    flags = opt_prop_def(ArrayAttr[StringAttr])
    byte_offset = opt_operand_def(IndexType)
    dynamic_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoMemoryEffect())
    custom_directives = (SetZero, BindingKind, BindingFlags)
    assembly_format = (
        "oilist(`layout` `(` $layout `)` | `set` `(` custom<SetZero>() `)` | `binding` `(` custom<Index>($binding) "
        "`)` | `type` `(` custom<BindingKind>($type) `)` | `alignment` `(` custom<Index>($alignment) `)` | "
        "`offset` `(` $byte_offset `)` | `flags` `(` custom<BindingFlags>($flags) `)`) attr-dict `:` "
        "custom<Typed>(type($result), $dynamic_dims)"
    )

    def verify_(self) -> None:
        """Check that the layout has the binding, the alignment is a power of two, and all dynamic sizes are present."""
        ordinal = self.binding.value.data
        if self.layout is not None and not 0 <= ordinal < len(self.layout.bindings):
            raise VerifyException(
                f"binding({ordinal}) is not in the layout, which has {len(self.layout.bindings)} binding(s)"
            )
        if self.alignment is not None:
            alignment = self.alignment.value.data
            if alignment <= 0 or alignment & (alignment - 1):
                raise VerifyException(f"alignment({alignment}) is not a power of two")
        if len(self.dynamic_dims) != syntax.dynamic_dims(self.result.type):
            raise VerifyException(
                f"{self.result.type} has {syntax.dynamic_dims(self.result.type)} dynamic dimension(s), "
                f"but {len(self.dynamic_dims)} value(s) are given"
            )


@directive
class Ordinal(Index):
    """Directive for the index in `layout(...) ordinal(0)`. For an operation without a layout, `BareOrdinal` prints the
    index as `[0]` instead.
    """

    layout: AttributeVariable

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether the operation has a layout; the index is written after it."""
        return self.layout.is_present(op)


@directive
class BareOrdinal(Index):
    """Directive for `[0]`, the index of a constant without a layout, as older releases write it."""

    layout: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `[0]` if a bracket is next."""
        if parser.parse_optional_punctuation("[") is not None:
            super().parse(parser, state)
            parser.parse_punctuation("]")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the index of the constant as `[0]` if the operation has no layout; else `Ordinal` prints it."""
        if not self.layout.is_present(op):
            state.should_emit_space, state.last_was_punctuation = False, True  # no blank before the bracket's content
            with printer.in_square_brackets():
                super().print(printer, state, op)


@op_definition
class InterfaceConstantLoadOp(IRDLOperation):
    """Load of a push constant, a scalar that a dispatch passes to a kernel in one or two 32-bit words.

    Both of these load the i32 in word 3; older releases and pydispatch write the second:

        %n = hal.interface.constant.load layout(#layout) ordinal(3) alignment(4) : i32
        %n = hal.interface.constant.load[3] : i32

    Attributes:
        layout: Pipeline layout that has the constant; None in the second form.
        ordinal: Index of the constant's first 32-bit word.
        alignment: Number that divides the value.
        values: Values that the constant may have.
    """

    name = "hal.interface.constant.load"
    layout = opt_prop_def(PipelineLayoutAttr)
    ordinal = prop_def(IntegerAttr)
    alignment = opt_prop_def(IntegerAttr)
    values = opt_prop_def(ArrayAttr)
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (BareOrdinal, Ordinal)  # two forms of the property `ordinal`: `[3]`, or `ordinal(3)`
    assembly_format = (
        "custom<BareOrdinal>($ordinal, ref($layout)) oilist(`layout` `(` $layout `)` | `ordinal` `(` "
        "custom<Ordinal>(ref($ordinal), ref($layout)) `)` | `alignment` `(` custom<Index>($alignment) `)` | "
        "`values` `(` $values `)`) attr-dict `:` type($result)"
    )

    def verify_(self) -> None:
        """Check that the layout has the constant, if it states a number of constants."""
        ordinal = self.ordinal.value.data
        if self.layout is None or self.layout.constants.data == 0:
            return  # A layout that states no number of constants has as many as the dispatch passes.
        if not 0 <= ordinal < self.layout.constants.data:
            raise VerifyException(
                f"ordinal({ordinal}) is not in the layout, which has {self.layout.constants.data} constant(s)"
            )


@directive
class GridDimension(Index):
    """Directive for a dimension of the grid: 0, 1 or 2."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a dimension of the grid: 0, 1 or 2."""
        start = parser.pos
        dimension = syntax.parse_integer_attr(parser, IndexType())
        if not 0 <= dimension.value.data <= 2:
            parser.raise_error(f"dimension {dimension.value.data} is out of range, expected 0, 1 or 2",
                               start, parser.pos)  # fmt: skip
        self.value.set(state, dimension)


class WorkgroupOp(IRDLOperation):
    """Base of operations that read the grid, `[dimension] upper_bound N : index`.

    Attributes:
        dimension: 0, 1 or 2 for x, y or z.
        upper_bound: Bound of the result for IREE's range analysis; parsed but ignored.
    """

    dimension = prop_def(IntegerAttr)
    upper_bound = opt_prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (GridDimension,)
    assembly_format = (
        "`[` custom<GridDimension>($dimension) `]` (`upper_bound` $upper_bound^)? attr-dict `:` type($result)"
    )


@op_definition
class InterfaceWorkgroupIDOp(WorkgroupOp):
    """Index of the current workgroup along a dimension of the grid."""

    name = "hal.interface.workgroup.id"


@op_definition
class InterfaceWorkgroupCountOp(WorkgroupOp):
    """Number of workgroups along a dimension."""

    name = "hal.interface.workgroup.count"


@op_definition
class InterfaceWorkgroupSizeOp(WorkgroupOp):
    """Number of invocations of a workgroup along a dimension."""

    name = "hal.interface.workgroup.size"


OPERATIONS: list[type[Operation]] = [
    InterfaceBindingSubspanOp, InterfaceConstantLoadOp,
    InterfaceWorkgroupIDOp, InterfaceWorkgroupCountOp, InterfaceWorkgroupSizeOp,
]  # fmt: skip
