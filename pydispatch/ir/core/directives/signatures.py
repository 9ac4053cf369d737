"""The types of calls, whose results may be written into operands."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives.base import for_every_format


@for_every_format
class PlainSignature(CustomDirective):
    """Directive for a signature `(T, ...) -> (T, %operand, %operand as T)`, where a result may be tied to an operand:
    it is stored in the operand's memory.

    For the operands %a and %b, the text

        (tensor<4xf32>, tensor<3xi32>) -> (tensor<8xf32>, %b, %a as tensor<2x2xf32>)

    states three results: a new tensor; one in the memory of %b, with the type of %b; and one in the memory of %a, with
    another type. `tied` is then [-1, 1, 0]. A single result is written without parentheses.

    Attributes:
        arguments: The operands, which an earlier directive has parsed.
        types: Types of the operands.
        result_types: Types of the results.
        tied: The property with the index of the tied operand for each result, or -1; absent if no result is tied.
    """

    arguments: VariadicOperandVariable
    types: TypeDirective
    result_types: TypeDirective
    tied: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the signature, in which types have no sizes of dynamic dimensions."""
        self._parse(parser, state, with_dims=False)

    def _parse(self, parser: Parser, state: ParsingState, with_dims: bool) -> syntax.ShapedSignature:
        """Parse a signature, set the types of arguments and results and the tied operands, and return it.

        `with_dims` says whether the sizes of dynamic dimensions, `{%d}`, follow the types.
        """
        names = state.operands[self.arguments.index]  # the arguments, which an earlier directive has parsed
        assert names is not None
        signature = syntax.parse_shaped_signature(parser, names, with_dims)
        self.types.set(state, signature.argument_types)
        self.result_types.set(state, signature.result_types)
        if (tied := syntax.tied_attr(signature.tied)) is not None:
            self.tied.set(state, tied)
        return signature

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the signature, in which types have no sizes of dynamic dimensions."""
        self._print(printer, state, op, (), ())

    def _print(
        self,
        printer: Printer,
        state: PrintingState,
        op: IRDLOperation,
        argument_dims: Sequence[SSAValue],
        result_dims: Sequence[SSAValue],
    ) -> None:
        """Print the signature, such as `(tensor<?xf32>{%n}) -> %a as tensor<?xi32>{%n}` for a result that is tied to
        the operand %a: it is stored in the operand's memory.

        Args:
            printer: The printer.
            state: The printing state.
            op: The operation.
            argument_dims: Sizes of the dynamic dimensions of all arguments, in order; empty if the syntax has none.
            result_dims: Those of all results.
        """
        tied = self.tied.get(op)
        assert tied is None or isinstance(tied, DenseArrayBase)
        state.print_whitespace(printer)
        syntax.print_shaped_signature(
            printer, self.arguments.get(op), argument_dims, self.result_types.get(op), result_dims,
            syntax.tied_list(tied),
        )  # fmt: skip


@for_every_format
class Signature(PlainSignature):
    """Directive for a signature with sizes of dynamic dimensions, `(T{%d}, ...) -> (T{%d}, %operand{%d}, %operand as
    T{%d})`.

    In `(tensor<?x?xf32>{%m, %n}) -> %a as tensor<?xf32>{%k}`, `argument_dims` is (%m, %n) and `result_dims` is (%k).
    For tied results see `PlainSignature`.

    Attributes:
        argument_dims: Operands for the sizes of the arguments, one per dynamic dimension, in order.
        result_dims: Operands for those of the results.
    """

    argument_dims: VariadicOperandVariable
    result_dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the signature, with the dynamic sizes after its types."""
        signature = self._parse(parser, state, with_dims=True)
        self.argument_dims.set(state, signature.argument_dims)
        self.result_dims.set(state, signature.result_dims)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the signature with the sizes of dynamic dimensions of arguments and results."""
        self._print(printer, state, op, self.argument_dims.get(op), self.result_dims.get(op))
