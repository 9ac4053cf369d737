"""Custom directives that assembly formats of several dialects share; formats know them by the names of their classes.

A directive reads into a `ParsingState` and prints from an operation. Types that directives state are those of operands,
which are resolved when the whole operation has been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalResultVariable,
    ParsingState,
    PrintingState,
    RegionVariable,
    ResultVariable,
    TypeDirective,
    VariadicOperandVariable,
    VariadicResultVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.elements import with_element

DirectiveT = TypeVar("DirectiveT", bound=CustomDirective)
SHARED: dict[str, type[CustomDirective]] = {}


def directive(cls: type[DirectiveT]) -> type[DirectiveT]:
    """`irdl_custom_directive`, for classes that inherit parameters too."""
    inherited = getattr(cls, "parameters", {})
    made = irdl_custom_directive(cls)
    made.parameters = {**inherited, **made.parameters}
    return made


def shared(cls: type[DirectiveT]) -> type[DirectiveT]:
    """A directive that every format may use."""
    SHARED[cls.__name__] = directive(cls)
    return cls


def word_printed(state: PrintingState) -> None:
    """What was printed last is a word: what follows stands apart from it."""
    state.last_was_punctuation, state.should_emit_space = False, True


def require(word: str, clause: Any, parser: Parser, state: ParsingState, start: int) -> None:
    """An error when the clause `word` is missing and there is no such operation without its attribute."""
    variable = getattr(clause, "value", clause)
    if not isinstance(variable, AttributeVariable) or variable.is_optional or variable.name in state.properties:
        return
    what = state.op_type.name.rpartition(".")[2]
    base = getattr(variable, "unique_base", None)
    sample = "..." if base is None else f"#{base.name}<...>"
    parser.raise_error(f"{_article(what)} needs {_article(word)}: {word}({sample})", start, parser.pos)


def _article(word: str) -> str:
    return word if word.endswith("s") else f"{'an' if word[0] in 'aeio' else 'a'} {word}"


# --- types ---


@shared
class Typed(CustomDirective):
    """`T{%d}`: a type and a value for each `?` in it."""

    type: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        type = parser.parse_type()
        self.type.set(state, (type,))
        self.dims.set(state, syntax.parse_dim_names(parser, type))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_attribute(self.type.get(op)[0])
        syntax.print_dims(printer, self.dims.get(op))


@shared
class ElementOf(CustomDirective):
    """Nothing is written: the first type is the element of the second."""

    type: TypeDirective
    whole: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        whole = stated(self.whole, state)[0]
        if not hasattr(whole, "get_element_type"):
            parser.raise_error(f"expected a tensor type, got {whole}", parser.pos)
        self.type.set(state, (whole.get_element_type(),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


_RESULTS = (ResultVariable, VariadicResultVariable, OptionalResultVariable)


def stated(types: TypeDirective, state: ParsingState) -> Sequence[Attribute]:
    """What has been read for a type directive."""
    inner: Any = types.inner
    found = (state.result_types if isinstance(inner, _RESULTS) else state.operand_types)[inner.index]
    assert found is not None
    return found


@shared
class Results(CustomDirective):
    """`-> T` or `-> (T, U)`, or nothing when there are no results."""

    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        given = parser.parse_optional_punctuation("->") is not None
        self.types.set(state, syntax.parse_types(parser) if given else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if types := self.types.get(op):
            printer.print_string(" -> ")
            syntax.print_types(printer, types)
            word_printed(state)


@shared
class SameTypes(CustomDirective):
    """Nothing is written: values have the types of others."""

    types: TypeDirective
    others: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.types.set(state, stated(self.others, state))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


@shared
class Absent(CustomDirective):
    """Nothing is written: there are no such values."""

    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.types.set(state, ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


@shared
class TruthOf(CustomDirective):
    """Nothing is written: a result is i1 in the shape of another type."""

    type: TypeDirective
    other: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.type.set(state, (with_element(stated(self.other, state)[0], i1),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass


@shared
class Signature(CustomDirective):
    """`(T{%d}, ...) -> (T{%d}, %operand{%d}, %operand as T{%d})`: results may be written into operands."""

    arguments: VariadicOperandVariable
    types: TypeDirective
    argument_dims: VariadicOperandVariable
    result_types: TypeDirective
    result_dims: VariadicOperandVariable
    tied: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        names = state.operands[self.arguments.index]
        assert names is not None
        signature = syntax.parse_shaped_signature(parser, names)
        self.types.set(state, signature.argument_types)
        self.argument_dims.set(state, signature.argument_dims)
        self.result_types.set(state, signature.result_types)
        self.result_dims.set(state, signature.result_dims)
        if (tied := syntax.tied_attr(signature.tied)) is not None:
            self.tied.set(state, tied)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        tied = self.tied.get(op)
        assert tied is None or isinstance(tied, DenseArrayBase)
        state.print_whitespace(printer)
        syntax.print_shaped_signature(
            printer, self.arguments.get(op), self.argument_dims.get(op), self.result_types.get(op),
            self.result_dims.get(op), syntax.tied_list(tied),
        )  # fmt: skip


@shared
class PlainSignature(CustomDirective):
    """`(T, ...) -> (T, %operand, %operand as T)`: the same without sizes."""

    arguments: VariadicOperandVariable
    types: TypeDirective
    result_types: TypeDirective
    tied: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        names = state.operands[self.arguments.index]
        assert names is not None
        signature = syntax.parse_shaped_signature(parser, names, with_dims=False)
        self.types.set(state, signature.argument_types)
        self.result_types.set(state, signature.result_types)
        if (tied := syntax.tied_attr(signature.tied)) is not None:
            self.tied.set(state, tied)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        tied = self.tied.get(op)
        assert tied is None or isinstance(tied, DenseArrayBase)
        state.print_whitespace(printer)
        syntax.print_shaped_signature(
            printer, self.arguments.get(op), [], self.result_types.get(op), [], syntax.tied_list(tied)
        )


@shared
class ShapedResults(CustomDirective):
    """`-> (T{%d}, U)`, or nothing."""

    types: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types: list[Attribute] = []
        dims: list[UnresolvedOperand] = []
        if parser.parse_optional_punctuation("->") is not None:
            types, dims, _ = syntax.parse_tied_results(parser, [], [], with_dims=True)
        self.types.set(state, types)
        self.dims.set(state, dims)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        types = self.types.get(op)
        groups = iter(syntax.split_dims(types, self.dims.get(op)))

        def one(type: Attribute) -> None:
            printer.print_attribute(type)
            syntax.print_dims(printer, next(groups))

        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(types, one)
        word_printed(state)


@shared
class TypeValue(CustomDirective):
    """A property that is a type."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, parser.parse_type())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.value.print(printer, state, op)


@shared
class TypedConstant(CustomDirective):
    """`value`, whose type is that of the result; `value -> T` for a result that says less about its sizes."""

    value: AttributeVariable
    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        value = parser.parse_attribute()
        type = getattr(value, "type", None)
        if parser.parse_optional_punctuation("->") is not None:
            type = parser.parse_type()
        if not isinstance(type, Attribute):
            parser.raise_error("expected a typed constant", start, parser.pos)
        self.value.set(state, value)
        self.type.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.value.print(printer, state, op)
        (type,) = self.type.get(op)
        if getattr(self.value.get(op), "type", None) != type:
            printer.print_string(" -> ")
            printer.print_attribute(type)


@shared
class Index(CustomDirective):
    """A number of type index, with or without its type; printed without."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, syntax.parse_integer_attr(parser, IndexType()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.value.get(op)
        assert isinstance(value, IntegerAttr)
        state.print_whitespace(printer)
        printer.print_string(str(value.value.data))

    def is_present(self, op: IRDLOperation) -> bool:
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        return True


# --- operands ---


@shared
class One(CustomDirective):
    """Exactly one value, of operands of which other operations have several."""

    values: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.values.set(state, (parser.parse_unresolved_operand(),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_ssa_value(self.values.get(op)[0])


@shared
class Mixed(CustomDirective):
    """`[4, %n]`: numbers and index values. The property has the dynamic index where a value stands."""

    BRACKETS: ClassVar[tuple[str, str]] = ("[", "]")

    values: VariadicOperandVariable
    numbers: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        names: list[UnresolvedOperand] = []
        numbers: list[int] = []

        def one() -> None:
            name = parser.parse_optional_unresolved_operand()
            if name is not None:
                names.append(name)
            numbers.append(syntax.DYNAMIC if name is not None else parser.parse_integer(allow_boolean=False))

        delimiter = parser.Delimiter.SQUARE if self.BRACKETS[0] == "[" else parser.Delimiter.PAREN
        parser.parse_comma_separated_list(delimiter, one, " in a list of numbers and values")
        self.values.set(state, names)
        definitions = state.op_type.get_irdl_definition().properties
        bases = definitions[self.numbers.name].constr.get_bases() or set()
        self.numbers.set(state, _numbers(numbers, DenseArrayBase in bases))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_string(self.BRACKETS[0])
        printer.print_list(syntax.mixed(self.numbers.get(op), self.values.get(op)), lambda v: print_mixed(printer, v))
        printer.print_string(self.BRACKETS[1])


@shared
class MixedInParens(Mixed):
    """`(4, %n)`."""

    BRACKETS: ClassVar[tuple[str, str]] = ("(", ")")


def _numbers(values: Sequence[int], dense: bool) -> Attribute:
    return DenseArrayBase.from_list(i64, values) if dense else ArrayAttr([IntegerAttr(v, 64) for v in values])


def print_mixed(printer: Printer, value: int | SSAValue) -> None:
    """A number or a value."""
    if isinstance(value, int):
        printer.print_string(str(value))
    else:
        printer.print_ssa_value(value)


# --- names and words ---


@shared
class Visibility(CustomDirective):
    """`public`, `private`, `nested` or nothing."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if (visibility := parser.parse_optional_visibility_keyword()) is not None:
            self.value.set(state, visibility)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        visibility = self.value.get(op)
        if isinstance(visibility, StringAttr):
            state.print_whitespace(printer)
            printer.print_string(visibility.data)


@shared
class Word(CustomDirective):
    """A property whose text is written without quotes."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.value.get(op)
        assert isinstance(value, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(value.data)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        return True


@directive
class Choice(Word):
    """One of `WORDS`."""

    WORDS: ClassVar[Sequence[str]] = ()
    WHAT: ClassVar[str] = ""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        word = parser.parse_identifier(f" for the {self.WHAT}")
        if word not in self.WORDS:
            known = " or ".join(self.WORDS) if len(self.WORDS) < 3 else f"one of {', '.join(self.WORDS)}"
            parser.raise_error(f"unknown {self.WHAT} '{word}', expected {known}", start, start + len(word))
        self.value.set(state, StringAttr(word))


@cache
def _number_of(word: int) -> IntegerAttr:
    return IntegerAttr(word, 64)


@directive
class WordOf(CustomDirective):
    """One of `WORDS`, as an identifier or in quotes; the property is its number."""

    WORDS: ClassVar[Sequence[str]] = ()
    WHAT: ClassVar[str] = ""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        word = parser.parse_optional_str_literal()
        if word is None:
            word = parser.parse_identifier(f" for the {self.WHAT}")
        if word not in self.WORDS:
            parser.raise_error(f"unknown {self.WHAT} '{word}', expected one of {', '.join(self.WORDS)}",
                               start, start + len(word))  # fmt: skip
        self.value.set(state, _number_of(self.WORDS.index(word)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.value.get(op)
        assert isinstance(value, IntegerAttr)
        state.print_whitespace(printer)
        printer.print_string(self.WORDS[value.value.data])


# --- regions ---


@shared
class NamedRegion(CustomDirective):
    """`(%a: T, %b: U) {...}`."""

    region: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.region.set(state, parser.parse_region(syntax.parse_signature_args(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        syntax.print_region_signature(printer, self.region.get(op), None)


@shared
class SymbolBody(CustomDirective):
    """A region of symbols; an empty one gets its block."""

    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        self.body.set(state, region)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_region(self.body.get(op), print_empty_block=False)
