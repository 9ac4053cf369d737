"""`flow.tensor.*`: operations on whole tensors.

A tensor type is followed by its dynamic sizes, `tensor<?xf32>{%d}`, which are operands such as `source_dims`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive


class _CastLikeOp(IRDLOperation):
    """Base of operations `%source : T{%d} -> U{%e}`, where %d and %e are the sizes of the dynamic dimensions."""

    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source attr-dict `:` custom<Typed>(type($source), $source_dims) `->` custom<Typed>(type($result), "
        "$result_dims)"
    )


@op_definition
class TensorReshapeOp(_CastLikeOp):
    """Reshape: the same elements in another shape."""

    name = "flow.tensor.reshape"


@op_definition
class TensorBitCastOp(_CastLikeOp):
    """Reinterpretation of a tensor's bytes as another type."""

    name = "flow.tensor.bitcast"


class _SameTypeOp(IRDLOperation):
    """Base of operations `%operand : T{%d}` with a result of type T; %d are the sizes of its dynamic dimensions."""

    operand = operand_def()
    operand_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$operand attr-dict `:` custom<Typed>(type($operand), $operand_dims) custom<SameTypes>(type($result), "
        "ref(type($operand)))"
    )


@op_definition
class TensorTieShapeOp(_SameTypeOp):
    """Association of a tensor with the sizes of its dynamic dimensions."""

    name = "flow.tensor.tie_shape"


@op_definition
class DispatchTieShapeOp(_SameTypeOp):
    """Association of a kernel's binding with the sizes of its dynamic dimensions."""

    name = "flow.dispatch.tie_shape"


@op_definition
class TensorCloneOp(_SameTypeOp):
    """Copy of a tensor."""

    name = "flow.tensor.clone"


class _FreshOp(IRDLOperation):
    """Base of operations `: T{%d}` that create a tensor with undefined elements; %d are its dynamic sizes."""

    result_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` custom<Typed>(type($result), $result_dims)"


@op_definition
class TensorEmptyOp(_FreshOp):
    """Tensor with undefined elements."""

    name = "flow.tensor.empty"


@op_definition
class TensorAllocaOp(_FreshOp):
    """Transient tensor with undefined elements."""

    name = "flow.tensor.alloca"


@op_definition
class TensorSplatOp(IRDLOperation):
    """Tensor whose elements are all `value`; `result_dims` are the sizes of its dynamic dimensions.

    Syntax: `%value : tensor<?xf32>{%n}`, the type of the result, from which that of the value follows.
    """

    name = "flow.tensor.splat"
    value = operand_def()
    result_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$value attr-dict `:` custom<Typed>(type($result), $result_dims) custom<ElementOf>(type($value), "
        "ref(type($result)))"
    )


class _ConstantOp(IRDLOperation):
    """Base of constants: `value`, or `value -> T` with a result type T that hides some sizes of the value.

    The result of `flow.tensor.dynamic_constant dense<[1, 2]> : tensor<2xi32> -> tensor<?xi32>` has a dynamic size.
    """

    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict custom<TypedConstant>($value, type($result))"

    def verify_(self) -> None:
        """Check that the type of the result is that of the value, with some sizes made dynamic.

        Values without a tensor type are accepted with any result type.
        """
        value_type, result_type = getattr(self.value, "type", None), self.result.type
        if not isinstance(value_type, TensorType) or not isinstance(result_type, TensorType):
            return
        same_rank = value_type.get_num_dims() == result_type.get_num_dims()
        # The zip is not strict, since the ranks may differ.
        sizes = zip(value_type.get_shape(), result_type.get_shape(), strict=False)
        same_sizes = all(result_size in (size, DYNAMIC_INDEX) for size, result_size in sizes)
        if value_type.element_type != result_type.element_type or not same_rank or not same_sizes:
            raise VerifyException(f"a constant of type {value_type} is no {result_type}")


@op_definition
class TensorConstantOp(_ConstantOp):
    """Constant tensor."""

    name = "flow.tensor.constant"


@op_definition
class TensorDynamicConstantOp(_ConstantOp):
    """Constant tensor whose sizes are opaque to the compiler."""

    name = "flow.tensor.dynamic_constant"


@op_definition
class TensorTransferOp(IRDLOperation):
    """Transfer of a tensor to `target`, a device or an affinity (a device with queues).

    Syntax: `%a : tensor<?xf32>{%n} to #target`; the result has the type of the operand.
    """

    name = "flow.tensor.transfer"
    operand = operand_def()
    operand_dims = var_operand_def(IndexType)
    target = prop_def(Attribute)
    result = result_def()
    assembly_format = (
        "$operand attr-dict `:` custom<Typed>(type($operand), $operand_dims) `to` $target "
        "custom<SameTypes>(type($result), ref(type($operand)))"
    )


@directive
class TypedValues(CustomDirective):
    """Directive for a list of typed values, `[%a : T{%d}, %b : U]`; `dims` are the dynamic sizes of all, flattened."""

    values: VariadicOperandVariable
    types: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `[%value : type{%dims}, ...]`."""
        names: list[UnresolvedOperand] = []
        types: list[Attribute] = []
        dims: list[UnresolvedOperand] = []

        def parse_value() -> None:
            """Parse `%value : type{%dims}` into `names`, `types` and `dims`."""
            names.append(parser.parse_unresolved_operand())
            parser.parse_punctuation(":")
            types.append(parser.parse_type())
            dims.extend(syntax.parse_dim_names(parser, types[-1]))

        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_value)
        self.values.set(state, names)
        self.types.set(state, types)
        self.dims.set(state, dims)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `[%value : type{%dims}, ...]`."""
        values = self.values.get(op)
        groups = iter(syntax.split_dims(self.types.get(op), self.dims.get(op)))

        def print_value(value: SSAValue) -> None:
            """Print `%value : type{%dims}`."""
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)
            syntax.print_dims(printer, next(groups))

        state.print_whitespace(printer)
        with printer.in_square_brackets():
            printer.print_list(values, print_value)


@op_definition
class TensorTraceOp(IRDLOperation):
    """Debug output of tensors under the title `key`, `"key" = [%a : T{%d}, …]`.

    `value_dims` are the sizes of the dynamic dimensions of all tensors, flattened.
    """

    name = "flow.tensor.trace"
    values = var_operand_def()
    value_dims = var_operand_def(IndexType)
    key = prop_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (TypedValues,)
    assembly_format = "$key `=` custom<TypedValues>($values, type($values), $value_dims) attr-dict"


OPERATIONS: list[type[Operation]] = [
    TensorReshapeOp, TensorBitCastOp, TensorTieShapeOp, DispatchTieShapeOp, TensorCloneOp, TensorEmptyOp,
    TensorAllocaOp, TensorSplatOp, TensorConstantOp, TensorDynamicConstantOp, TensorTransferOp, TensorTraceOp,
]  # fmt: skip
