"""Type check and syntax of initial values, shared by the operations of the `scf` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException


def check_types(what: str, values: Sequence[SSAValue], expected: Sequence[Attribute]) -> None:
    """Raise VerifyException unless values have the expected types.

    `what` begins the message, "scf.for gives" for example; `(actual types), expected (types)` follows.
    """
    actual = [value.type for value in values]
    if actual != list(expected):
        texts = [", ".join(map(str, types)) for types in (actual, expected)]
        raise VerifyException(f"{what} ({texts[0]}), expected ({texts[1]})")


def parse_initial(parser: Parser) -> tuple[Parser.UnresolvedArgument, Any]:
    """Parse the initial value of a loop-carried variable, `%variable = %value`.

    Return (argument of the body, initial value), both without a type, which the text states later.
    """
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()
