"""Checks of the conditions on sizes that PyTorch's export has assumed, such as `L['x'].size()[1] % 2 <= 0`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from pydispatch.graph.builder import Builder
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Shape, Size
from pydispatch.operations.host_integers import HostCondition, HostInteger

_MAX_CHARACTERS = 4096  # of a guard; longer ones, which may come from a hostile file, are not checked
_LEAST_TRACED = 2
"""Least size that tracing assumes for all dynamic sizes, and that programs do not depend on."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"max": maximum, "min": minimum}
_COMPARISONS: dict[type[ast.cmpop], Callable[[HostInteger, HostInteger], HostCondition]] = {
    ast.Lt: HostInteger.__lt__, ast.LtE: HostInteger.__le__, ast.Gt: HostInteger.__gt__, ast.GtE: HostInteger.__ge__,
    ast.Eq: HostInteger.is_equal,
}  # fmt: skip
"""Comparisons that are checked. Inequalities (`!=`) are not: tracing assumes that sizes differ from 1 and from each
other, and programs compute the same without these assumptions."""


def check_guards(builder: Builder, guards: Iterable[str], shapes: Mapping[str, Shape]) -> None:
    """Add checks to the function that fail a call whose sizes do not satisfy a guard.

    These guards are not checked:

    - Comparisons with a number from 1 to `_LEAST_TRACED`.
    - Orders of quotients, such as 3 * (n // 3) < n. They state how many windows a pooling has, which the program
      computes for any size.
    - Guards that divide by a size, which may be 0, or that have other operations than those of sizes.

    Args:
        builder: Builder of the function, whose arguments are declared.
        guards: Comparisons of expressions over the sizes of arguments, as code of Python.
        shapes: Shapes of the arguments by name; those of parts of an argument have names such as x_0 for x[0].
    """
    for guard in guards:
        for comparison in _comparisons(guard):
            try:
                left, right = (_evaluated(side, shapes) for side in (comparison.left, comparison.comparators[0]))
                compare = _COMPARISONS[type(comparison.ops[0])]
            except (LookupError, ArithmeticError, RecursionError):
                continue
            is_order = not isinstance(comparison.ops[0], ast.Eq)
            if is_order and any(isinstance(node, ast.FloorDiv) for node in ast.walk(comparison)):
                continue
            bounds = [side for side in (left, right) if isinstance(side, int)]
            if len(bounds) == 2 or any(0 < bound <= _LEAST_TRACED for bound in bounds):
                continue
            holds = compare(HostInteger.of(builder, left), HostInteger.of(builder, right))
            text = ast.unparse(_Shown().visit(comparison))
            holds.require(
                f"the sizes of arguments do not satisfy {text}, which PyTorch's export has assumed; export the model "
                "with arguments of such sizes"
            )


def _comparisons(guard: str) -> list[ast.Compare]:
    """Return the comparisons of two expressions that a guard consists of; none for other conditions."""
    if len(guard) > _MAX_CHARACTERS:
        return []
    try:
        condition = ast.parse(guard, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    parts = condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]
    return [part for part in parts if isinstance(part, ast.Compare) and len(part.ops) == 1]


def _evaluated(node: ast.expr, shapes: Mapping[str, Shape]) -> Size:
    """Return the value of an expression over sizes. Raise LookupError if it has other operations."""
    match node:
        case ast.Constant(value) if type(value) is int and abs(value) < 1 << 62:
            return value
        case ast.BinOp(left, ast.FloorDiv() | ast.Mod() as op, ast.Constant(int() as divisor)) if divisor > 0:
            return _ARITHMETIC[type(op)](_evaluated(left, shapes), divisor)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as op, right):
            return _ARITHMETIC[type(op)](_evaluated(left, shapes), _evaluated(right, shapes))
        case ast.UnaryOp(ast.USub(), operand):
            return 0 - _evaluated(operand, shapes)
        case ast.Call(ast.Name(name), [_, _, *_] as arguments, []):
            return reduce(_FUNCTIONS[name], [_evaluated(argument, shapes) for argument in arguments])
        case ast.Subscript(ast.Call(ast.Attribute(tensor, "size"), [], []), ast.Constant(axis)) if type(axis) is int:
            return shapes[_name_of(tensor)][axis]
    raise LookupError


def _name_of(node: ast.expr) -> str:
    """Return the name of an argument, or of a part of one: "x" for L['x'], "x_0" for L['x'][0]."""
    match node:
        case ast.Subscript(ast.Name("L"), ast.Constant(str() as name)):
            return name
        case ast.Subscript(value, ast.Constant(str() | int() as key)):
            return f"{_name_of(value)}_{key}"
    raise LookupError


class _Shown(ast.NodeTransformer):
    """Transformer that replaces L['x'] by x, for messages."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Return the argument's name for a subscript of L, and other nodes with their parts replaced."""
        match node:
            case ast.Subscript(ast.Name("L"), ast.Constant(str() as name)):
                return ast.Name(name)
        return self.generic_visit(node)  # type: ignore[return-value]
