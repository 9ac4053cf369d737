"""Evaluation of the size expressions of a file, such as `Add(Symbol('s77', integer=True), Integer(-1))`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from pydispatch.frontends.torch.schema import SizeText, Symbolic
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Size

_MAX_CHARACTERS = 4096  # of an expression; `evaluate` returns None for a longer one, which may come from a hostile file
_MAX_EXPONENT = 8  # of a power, which becomes a product of as many factors


def symbol_name(size: SizeText) -> str | None:
    """Return the name of a size that is a single symbol; None for other sizes."""
    node = _parsed(size.text) if isinstance(size, Symbolic) else None
    return _name_of(node) if node is not None else None


def evaluate(size: SizeText, symbols: Mapping[str, Size]) -> Size | None:
    """Return the value of a size, which is a number or an expression over symbols.

    symbols: name of a symbol, such as s0 -> its value.

    Return None for unknown symbols and for functions that sizes do not support.
    """
    if not isinstance(size, Symbolic):
        return size
    node = _parsed(size.text)
    try:
        return None if node is None else _evaluated(node, symbols)
    except (KeyError, ZeroDivisionError, OverflowError, RecursionError):
        return None


def _parsed(text: str) -> ast.expr | None:
    """Parse an expression; None if it is invalid or too long."""
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _name_of(node: ast.expr) -> str | None:
    """Return the name in `Symbol('name', ...)`; None for other expressions."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol" and node.args:
        name = node.args[0]
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
    return None


def _modulo(lhs: Any, rhs: Any) -> Any:
    """Return the remainder, with the sign of `rhs` as in Python."""
    return lhs % rhs


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b, "Mul": lambda a, b: a * b, "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b, "Mod": _modulo, "PythonMod": _modulo, "Max": maximum, "Min": minimum,
}  # fmt: skip
"""Functions of two sizes by their names in expressions, which apply them to two or more operands from the left."""


def _evaluated(node: ast.expr, symbols: Mapping[str, Size]) -> Size:
    """Return the value of an expression. Raise KeyError for unknown symbols and for functions not in _FUNCTIONS."""
    if (name := _name_of(node)) is not None:
        return symbols[name]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
        raise KeyError
    function = node.func.id
    if function == "Integer":
        return _integer(node.args[0])
    if function == "Pow":
        base, exponent = _evaluated(node.args[0], symbols), _evaluated(node.args[1], symbols)
        if not isinstance(exponent, int) or not 0 < exponent <= _MAX_EXPONENT:
            raise KeyError
        return reduce(lambda a, b: a * b, [base] * exponent)
    return reduce(_FUNCTIONS[function], [_evaluated(argument, symbols) for argument in node.args])


def _integer(node: ast.expr) -> int:
    """Return the value of n, the argument of `Integer(n)`.

    Raise KeyError unless n is an integer with a magnitude below 2^62. `evaluate` turns this error into None, its result
    for all unsupported input.
    """
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        raise KeyError from None
    if type(value) is not int or abs(value) >= 1 << 62:
        raise KeyError
    return value
