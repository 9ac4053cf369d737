"""Infrastructure of assembly format directives: their registry, and access to already parsed types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalResultVariable,
    ParsingState,
    PrintingState,
    ResultVariable,
    TypeDirective,
    VariadicResultVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

DirectiveT = TypeVar("DirectiveT", bound=CustomDirective)
"""Class of directives that is registered."""
SHARED: dict[str, type[CustomDirective]] = {}
"""The directives that every format may name."""

_RESULTS = (ResultVariable, VariadicResultVariable, OptionalResultVariable)
"""Classes of the variables of an assembly format that stand for results, not operands."""


def directive(cls: type[DirectiveT]) -> type[DirectiveT]:
    """Register a custom directive, with the parameters that it inherits: `irdl_custom_directive` would ignore these.

    Parameters are the annotated fields, which are the arguments of the directive in an assembly format.
    """
    inherited = getattr(cls, "parameters", {})
    definition = irdl_custom_directive(cls)
    definition.parameters = {**inherited, **definition.parameters}
    return definition


def for_every_format(cls: type[DirectiveT]) -> type[DirectiveT]:
    """Register a directive for use in every format, and return the class. Use as a decorator."""
    SHARED[cls.__name__] = directive(cls)
    return cls


class Implied(CustomDirective):
    """Base of directives for types that are inferred, and thus not printed."""

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing, since the types are inferred when the text is parsed."""


def request_space(state: PrintingState) -> None:
    """Set the printing state so that a space precedes the next token: the last printed token is a word."""
    state.last_was_punctuation, state.should_emit_space = False, True


def parsed_types(types: TypeDirective, state: ParsingState) -> Sequence[Attribute]:
    """Return the types that an earlier directive has parsed for `types`, one for each operand or result."""
    variable: Any = types.inner  # `$x` in `type($x)`
    parsed_groups = state.result_types if isinstance(variable, _RESULTS) else state.operand_types
    parsed = parsed_groups[variable.index]  # the types of one operand or result of the definition, maybe variadic
    assert parsed is not None
    return parsed


def require(word: str, clause: Any, parser: Parser, state: ParsingState, start: int) -> None:
    """Raise a parse error if a clause is missing although its attribute is required.

    Args:
        word: Keyword of the clause.
        clause: Directive after the keyword.
        parser: The parser, after the operation.
        state: Parsed parts of the operation.
        start: Offset of the operation in the text, for the error.
    """
    variable = getattr(clause, "value", clause)  # a clause is a variable, or a directive with a variable `value`
    if not isinstance(variable, AttributeVariable) or variable.is_optional or variable.name in state.properties:
        return
    operation_name = state.op_type.name.rpartition(".")[2]  # without the dialect
    base = getattr(variable, "unique_base", None)  # the class of the attribute, if there is only one
    sample = "..." if base is None else f"#{base.name}<...>"
    parser.raise_error(
        f"{_with_article(operation_name)} needs {_with_article(word)}: {word}({sample})", start, parser.pos
    )


def _with_article(word: str) -> str:
    """Return a noun with its indefinite article for messages; a plural stays without one."""
    return word if word.endswith("s") else f"{'an' if word[0] in 'aeio' else 'a'} {word}"
