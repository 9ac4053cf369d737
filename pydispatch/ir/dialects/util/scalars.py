"""`util` operations on single values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from pydispatch.ir.core.assembly import op_definition


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Type of a buffer in host memory."""

    name = "util.buffer"


@irdl_attr_definition
class UninitializedAttr(ParametrizedAttribute):
    """Initial value `#util.uninitialized : type` of a global that is stored before it is first loaded."""

    name = "util.uninitialized"
    type: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `: type`."""
        parser.parse_punctuation(":", " and the type of the value")
        return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `: type`."""
        printer.print_string(" : ")
        printer.print_attribute(self.type)


@op_definition
class OptimizationBarrierOp(IRDLOperation):
    """Identity on its operands that hides their values from the optimizer.

    Syntax: `%a, %b : T, U`. The types of the results are not written: they are T and U.
    """

    name = "util.optimization_barrier"
    operands_ = var_operand_def()
    results_ = var_result_def()
    assembly_format = (
        "$operands_ attr-dict `:` type($operands_) custom<SameTypes>(type($results_), ref(type($operands_)))"
    )


@op_definition
class UnfoldableConstantOp(IRDLOperation):
    """Constant that the compiler must not fold, such as `dense<0> : tensor<4xi32>`.

    `-> T` after the constant states a result type T that differs from its own, for example by dynamic sizes.
    """

    name = "util.unfoldable_constant"
    value = prop_def(Attribute)
    result = result_def()
    assembly_format = "attr-dict custom<TypedConstant>($value, type($result))"


@op_definition
class AlignOp(IRDLOperation):
    """Value rounded up to a multiple of `alignment`."""

    name = "util.align"
    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    alignment = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $alignment attr-dict `:` type($result)"


@op_definition
class SizeofOp(IRDLOperation):
    """Size of a value of the type `sized_type`, in bytes."""

    name = "util.sizeof"
    sized_type = prop_def(Attribute)
    size = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "custom<TypeValue>($sized_type) attr-dict"


@op_definition
class NullOp(IRDLOperation):
    """Null reference."""

    name = "util.null"
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@op_definition
class CastOp(IRDLOperation):
    """Conversion of a value to another type without a change of representation."""

    name = "util.cast"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


@op_definition
class UnreachableOp(IRDLOperation):
    """Terminator of a block that is never reached."""

    name = "util.unreachable"
    message = opt_prop_def(StringAttr)
    traits = traits_def(IsTerminator())
    assembly_format = "($message^)? attr-dict"


OPERATIONS: list[type[Operation]] = [
    OptimizationBarrierOp, UnfoldableConstantOp, AlignOp, SizeofOp, NullOp, CastOp, UnreachableOp,
]  # fmt: skip
ATTRIBUTES: list[type[Attribute]] = [BufferType, UninitializedAttr]
