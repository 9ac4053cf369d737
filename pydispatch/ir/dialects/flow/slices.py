"""`flow.tensor.*`: operations on elements and slices of tensors.

A tensor type is followed by its dynamic sizes, `tensor<?xf32>{%d}`, which are operands such as `source_dims`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import CustomDirective, OperandVariable, ParsingState, PrintingState
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import ElementOf, directive
from pydispatch.ir.core.elements import element_type


@directive
class ElementResult(ElementOf):
    """Directive for an optional result type `-> T`; if it is omitted, the result has the tensor's element type."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set the result type to the T of `-> T` if that is next, else to the element type of the tensor."""
        super().parse(parser, state)
        if parser.parse_optional_punctuation("->") is not None:
            self.type.set(state, (parser.parse_type(),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> type` if the type of the result is not the tensor's element type, as for a vector of elements."""
        (result_type,), (tensor_type,) = self.type.get(op), self.tensor.get(op)  # fields of the base class
        if result_type != element_type(tensor_type):
            printer.print_string(" -> ")
            printer.print_attribute(result_type)


def _text_of(operand: UnresolvedOperand) -> str:
    """Return an operand as text: `%r`, or `%r#2` for a value after the first one of several under one name."""
    return f"%{operand.operand_name}" + (f"#{operand.index}" if operand.index else "")


@directive
class TiedTo(CustomDirective):
    """Directive for the text `%target as` between the arrow and the result type of an operation.

    In `flow.tensor.update %u, %t[%i] : tensor<2xf32> -> %t as tensor<4xf32>` it states that the result is tied to %t:
    the result reuses the memory of %t. Older releases omit the text; the result is tied also without it.

    Attributes:
        target: The operand to which the result is tied; its name has been parsed before.
    """

    target: OperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an optional `%target as`; raise a parse error if it names another operand. No state is set."""
        tied = parser.parse_optional_unresolved_operand()
        if tied is None:
            return
        parser.parse_keyword("as")
        names = state.operands[self.target.index]  # the name of the target, as the only element
        assert names is not None
        stated, expected = (_text_of(operand) for operand in (tied, names[0]))
        if stated != expected:
            parser.raise_error(f"the result is tied to {stated}, expected {expected}", tied.span.start, tied.span.end)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `%target as`."""
        self.target.print(printer, state, op)
        printer.print_string(" as")


@op_definition
class TensorLoadOp(IRDLOperation):
    """Host load of the element at `indices`, one per dimension, or of a vector of elements that begins there.

    `source_dims` are the sizes of the tensor's dynamic dimensions. Syntax: `%source[%i] : tensor<?xf32>{%n}`; for a
    vector of elements, its type follows, `-> vector<4xf32>`.
    """

    name = "flow.tensor.load"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    indices = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (ElementResult,)
    assembly_format = (
        "$source (`[` $indices^ `]`)? attr-dict `:` custom<Typed>(type($source), $source_dims) "
        "custom<ElementResult>(type($result), ref(type($source)))"
    )

    def verify_(self) -> None:
        """Check that there is an index for each dimension."""
        rank = len(self.source.type.get_shape())  # type: ignore[attr-defined]
        if len(self.indices) != rank:
            raise VerifyException(f"a tensor of rank {rank} takes {rank} index value(s), got {len(self.indices)}")


@op_definition
class TensorStoreOp(IRDLOperation):
    """Copy of the tensor `target` in which the host replaces the element at `indices` by `value`.

    `target_dims` are the sizes of the tensor's dynamic dimensions. Syntax: `%value, %target[%i] : tensor<?xf32>{%n}`;
    the types of the value and of the result follow from the tensor's.
    """

    name = "flow.tensor.store"
    value = operand_def()
    target = operand_def()
    target_dims = var_operand_def(IndexType)
    indices = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$value `,` $target (`[` $indices^ `]`)? attr-dict `:` custom<Typed>(type($target), $target_dims) "
        "custom<ElementOf>(type($value), ref(type($target))) custom<SameTypes>(type($result), ref(type($target)))"
    )


@op_definition
class TensorSliceOp(IRDLOperation):
    """Slice of a tensor, `%source[%starts... for %lengths...]`, with a start and a length per dimension.

    `source_dims` and `result_dims` are the sizes of the dynamic dimensions of the source and the result.
    """

    name = "flow.tensor.slice"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    start_indices = var_operand_def(IndexType)
    lengths = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $start_indices `for` $lengths `]` attr-dict `:` custom<Typed>(type($source), $source_dims) "
        "`->` custom<Typed>(type($result), $result_dims)"
    )


@op_definition
class TensorUpdateOp(IRDLOperation):
    """Tensor `%target` with `%update` written at an offset, `%update, %target[%i] : T{..} -> %target as U{..}`.

    `start_indices` has an index per dimension, the position of the update's first element. `target_dims` and
    `update_dims` are the sizes of the dynamic dimensions of the target and the update.
    """

    name = "flow.tensor.update"
    target = operand_def()
    target_dims = var_operand_def(IndexType)
    start_indices = var_operand_def(IndexType)
    update = operand_def()
    update_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (TiedTo,)
    assembly_format = (
        "$update `,` $target `[` $start_indices `]` attr-dict `:` custom<Typed>(type($update), $update_dims) `->` "
        "custom<TiedTo>(ref($target)) custom<Typed>(type($target), $target_dims) custom<SameTypes>(type($result), "
        "ref(type($target)))"
    )


OPERATIONS: list[type[Operation]] = [TensorLoadOp, TensorStoreOp, TensorSliceOp, TensorUpdateOp]
