"""`iree_encoding`: tensors whose layout in memory IREE's compiler chooses. Encodings are stored as text."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
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
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive


@directive
class MaybeSized(CustomDirective):
    """Directive for `T{%d}` with one value per dynamic dimension, or `T`, as older programs write it."""

    type: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `T{%dims}`; all sizes may be omitted, also if T has dynamic dimensions."""
        type = parser.parse_type()
        self.type.set(state, (type,))
        has_sizes = parser._current_token.text == "{"
        self.dims.set(state, syntax.parse_dim_names(parser, type) if has_sizes else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `T{%d}`, or `T` without sizes."""
        state.print_whitespace(printer)
        printer.print_attribute(self.type.get(op)[0])
        syntax.print_dims(printer, self.dims.get(op))


class EncodingOp(IRDLOperation):
    """Base of conversions of a tensor to another encoding; shape and elements stay the same.

    An encoding is an attribute of the tensor type that states the layout of the elements in memory, such as #e in

        %1 = iree_encoding.set_encoding %0 encoding_dims{%m, %n} : tensor<?x4xf32> -> tensor<?x4xf32, #e>

    Attributes:
        encoding_dims: Dynamic sizes of the operation for which the encoding is chosen, such as M of a matrix product.
        result_dims: Sizes of the result's dynamic dimensions; older programs omit them.
    """

    source = operand_def(TensorType)
    encoding_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    custom_directives = (MaybeSized,)
    assembly_format = (
        "$source (`encoding_dims` `{` $encoding_dims^ `}`)? attr-dict `:` type($source) `->` "
        "custom<MaybeSized>(type($result), $result_dims)"
    )

    def verify_(self) -> None:
        """Check that both types are the same without their encodings."""
        actual, wanted = _unencoded(self.result.type), _unencoded(self.source.type)
        if actual != wanted:
            raise VerifyException(f"{self.source.type} and {self.result.type} differ in more than their encoding")


def _unencoded(type_: Attribute) -> Attribute:
    """Return a tensor type without its encoding."""
    assert isinstance(type_, TensorType)
    return TensorType(type_.element_type, type_.shape)


@op_definition
class SetEncodingOp(EncodingOp):
    """Conversion of a tensor to an encoding."""

    name = "iree_encoding.set_encoding"


@op_definition
class UnsetEncodingOp(EncodingOp):
    """Conversion of an encoded tensor to the default encoding."""

    name = "iree_encoding.unset_encoding"


Encoding = Dialect("iree_encoding", [SetEncodingOp, UnsetEncodingOp], [])
