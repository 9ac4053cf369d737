"""Base classes and syntax of handles that the operations of the `transform` dialect share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, StringAttr, UnitAttr, i64
from xdsl.dialects.transform import (
    AffineMapType,
    AnyOpType,
    AnyParamType,
    AnyValueType,
    OperationType,
    ParamType,
    TypeParamType,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, opt_prop_def, region_def, traits_def, var_operand_def, var_result_def
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
from xdsl.traits import NoTerminator

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives import KeywordChoice, directive

TYPES: list[type[Attribute]] = [
    AffineMapType, AnyOpType, AnyValueType, AnyParamType, OperationType, ParamType, TypeParamType,
]  # fmt: skip


@directive
class HandleTypes(CustomDirective):
    """Directive for the types of handles: `: (T, ...) -> (T, ...)`, `: T, T`, `: T -> T`, or one type for all operands.

    Nothing is printed if there are no handles.
    """

    handles: VariadicOperandVariable  # the operands, which an earlier directive has parsed
    types: TypeDirective  # types of the operands
    results: TypeDirective  # types of the results

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `: (types) -> results` or `: types -> results`, or `: type`, one type for all handles and no result.

        An operation without handles may omit all of this.
        """
        names = state.operands[self.handles.index] or ()
        types: Sequence[Attribute] = ()
        results: Sequence[Attribute] = ()
        if names or parser._current_token.text == ":":
            parser.parse_punctuation(":")
            if parser._current_token.text == "(":
                delimiter = parser.Delimiter.PAREN
            else:
                delimiter = parser.Delimiter.NONE
            types = parser.parse_comma_separated_list(delimiter, parser.parse_type, " in operand types")
            if parser.parse_optional_punctuation("->") is not None:
                results = syntax.parse_types(parser)
            if len(types) == 1 and not results:  # one type for all handles
                types = types * len(names)
        self.types.set(state, types)
        self.results.set(state, results)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `: (types) -> results`."""
        types, results = self.types.get(op), self.results.get(op)
        if types or results:
            printer.print_string(" : ")
            printer.print_attribute(FunctionType.from_lists(types, results))


@directive
class Positions(CustomDirective):
    """Directive for positions among the operands, results or loops of an operation.

    They are `[0, -1]` (the first and the last), `[all]` or `[except(0)]` (all but the first).
    """

    numbers: AttributeVariable  # the listed numbers, of which negative ones count from the end; empty for `all`
    is_all: AttributeVariable  # unit attribute, set for `all`
    is_inverted: AttributeVariable  # unit attribute, set for `except`

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `[all]`, `[0, 1]` or `[except(0, 1)]`.

        Set the property `numbers` to the listed integers, and the unit attribute `is_all` for `all` or `is_inverted`
        for `except`.
        """
        numbers: Sequence[int] = ()

        def parse_number() -> int:
            """Parse an integer; a negative one counts from the end of the list."""
            return parser.parse_integer(allow_boolean=False)

        with parser.in_square_brackets():
            if parser.parse_optional_keyword("all") is not None:
                self.is_all.set(state, UnitAttr())
            elif parser.parse_optional_keyword("except") is not None:
                self.is_inverted.set(state, UnitAttr())
                numbers = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_number)
            else:
                numbers = parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_number)
        self.numbers.set(state, DenseArrayBase.from_list(i64, numbers))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `[all]` if `is_all` is set, `[except(0, 1)]` if `is_inverted` is set, else `[0, 1]`."""
        listed = self.numbers.get(op)
        assert isinstance(listed, DenseArrayBase)
        text = ", ".join(str(v) for v in listed.get_values())
        if self.is_all.is_present(op):
            text = "all"
        elif self.is_inverted.is_present(op):
            text = f"except({text})"
        printer.print_string(f"[{text}]")


@directive
class FailureMode(KeywordChoice):
    """Failure mode of an operation: propagate a failure inside it, or suppress the failure."""

    WORDS: ClassVar[Sequence[str]] = ("propagate", "suppress")
    WHAT: ClassVar[str] = "failure mode"


ATTRIBUTES_AND_TYPES = "attr-dict custom<HandleTypes>(ref($handles), type($handles), type($results_))"
"""End of a format, after the handles: the attribute dictionary, and `: (T, ...) -> U` or `: T`."""


class TransformOp(IRDLOperation):
    """Base of operations on handles, most of which take one handle: `%handle : T -> T`.

    A handle is an SSA value that refers to a list of operations, values or parameters of the transformed program. In
    the format, `OneOperand` requires exactly one operand, although `handles` is variadic.
    """

    handles = var_operand_def()
    results_ = var_result_def()  # the name `results` is taken by `Operation`
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (HandleTypes, Positions, FailureMode)
    assembly_format = f"custom<OneOperand>($handles) {ATTRIBUTES_AND_TYPES}"

    def positions(self, count: int) -> list[int] | None:
        """Return the indices that a `PositionOp` selects in a list of `count` items; None if one is out of range.

        For 3 items, `[0, -1]` selects [0, 2], `[except(0)]` [1, 2] and `[all]` [0, 1, 2]; for `[5]` the result is None.
        Only a `PositionOp` has the property `positions`.
        """
        listed = self.properties["positions"]
        assert isinstance(listed, DenseArrayBase)
        if "is_all" in self.properties:
            return list(range(count))
        numbers = [int(v) + (count if v < 0 else 0) for v in listed.get_values()]
        if any(not 0 <= n < count for n in numbers):
            return None
        return [n for n in range(count) if n not in numbers] if "is_inverted" in self.properties else numbers


class PositionOp(TransformOp):
    """Base of operations with positions after the operand: `%handle[0, -1] : (T) -> U`, `[all]` or `[except(0)]`."""

    positions_ = opt_prop_def(DenseArrayBase, prop_name="positions")  # listed integers; empty for `all`
    is_all = opt_prop_def(UnitAttr)  # set for `all`
    is_inverted = opt_prop_def(UnitAttr)  # set for `except`
    assembly_format = (
        "custom<OneOperand>($handles) custom<Positions>($positions, $is_all, $is_inverted) " + ATTRIBUTES_AND_TYPES
    )


class RegionOp(TransformOp):
    """Base of operations with a body whose terminator may be omitted if it yields nothing."""

    body = region_def()
    traits = traits_def(NoTerminator())


def strings_of(attribute: Attribute | None) -> list[str]:
    """Return the strings in an array attribute; [] for other attributes and None."""
    if not isinstance(attribute, ArrayAttr):
        return []
    return [a.data for a in attribute.data if isinstance(a, StringAttr)]
