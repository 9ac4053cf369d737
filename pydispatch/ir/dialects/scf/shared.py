"""Type check and syntax of initial values, shared by the operations of the `scf` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException


def check_types(clause: str, values: Sequence[SSAValue], expected: Sequence[Attribute]) -> None:
    """Raise VerifyException unless values have the expected types.

    `clause` begins the message, for example "scf.for gives" in "scf.for gives (i32), expected (f32)".
    """
    actual = [value.type for value in values]
    if actual != list(expected):
        actual_text, expected_text = (", ".join(map(str, types)) for types in (actual, expected))
        raise VerifyException(f"{clause} ({actual_text}), expected ({expected_text})")


def parse_initial(parser: Parser) -> tuple[Parser.UnresolvedArgument, Any]:
    """Parse the initial value of a loop-carried variable, `%variable = %value`.

    Return (argument of the body, initial value), both without a type, which the text states later.
    """
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()
