"""The syntax of `affine.parallel`, which xDSL only has in its generic form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pydispatch.ir.core import syntax
from pydispatch.ir.core.refine import refine
from pydispatch.ir.core.semi_affine import SemiAffineParser

_REDUCTIONS = ("addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori",
               "andi", "maxnumf", "minnumf", "xori")  # fmt: skip
"""Names that `affine.parallel` accepts in `reduce ("addf")`: MLIR's kinds of atomic updates, in its order."""


class _Bounds:
    """Parser of the lower or the upper bounds of `affine.parallel`, such as `(0, max(%a, symbol(%b)))`.

    Each loop has a group of expressions: the largest is its lower bound, the smallest its upper bound. `%x` is a
    dimension of the map and `symbol(%x)` a symbol, as in MLIR. `extremum`, "max" for lower and "min" for upper bounds,
    is the word before a group of several expressions.
    """

    def __init__(self, parser: Parser, extremum: str) -> None:
        """Parse the bounds of all loops, in parentheses; `extremum` is "max" for lower bounds, "min" for upper ones."""
        self._parser = parser
        self._affine = SemiAffineParser(parser._parser_state)  # reads the same tokens
        self._dims: dict[str, SSAValue] = {}  # name of a dimension operand -> value
        self._symbols: dict[str, SSAValue] = {}  # name of a symbol operand -> value
        self._extremum = extremum
        self._expressions: list[AffineExpr] = []  # of all loops
        self._groups: list[int] = []  # number of expressions of each bound
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, self._parse_group, " in bounds")

    @property
    def count(self) -> int:
        """Return the number of loops that the text gives bounds for; the caller compares it with the loop variables."""
        return len(self._groups)

    @property
    def operands(self) -> list[SSAValue]:
        """Return the operands of the map: its dimensions, then its symbols."""
        return [*self._dims.values(), *self._symbols.values()]

    def properties(self, side: str) -> dict[str, Attribute]:
        """Return the properties of the bounds, as the operation stores them; `side` is "lower" or "upper"."""
        map = AffineMap(len(self._dims), len(self._symbols), tuple(self._expressions))
        groups = DenseIntOrFPElementsAttr.from_list(TensorType(i32, [len(self._groups)]), self._groups)
        return {f"{side}BoundsMap": AffineMapAttr(map), f"{side}BoundsGroups": groups}

    def _parse_group(self) -> None:
        """Parse the bounds of one loop: an expression, or several in `min(...)` or `max(...)`.

        Append the expressions to `_expressions` and their number to `_groups`. `_extremum` is "min" or "max".
        """
        before = len(self._expressions)
        if self._parser.parse_optional_keyword(self._extremum) is not None:
            self._parser.parse_comma_separated_list(self._parser.Delimiter.PAREN, self._parse_expression, " in a bound")
        else:
            self._parse_expression()
        self._groups.append(len(self._expressions) - before)

    def _parse_expression(self) -> None:
        """Parse one affine expression, and append it to the list of the bounds' expressions."""
        self._expressions.append(self._affine._parse_affine_expr(self._parse_value))

    def _parse_value(self) -> AffineExpr | None:
        """Parse a dimension `%x` or a symbol `symbol(%x)`; return None for other tokens, which xDSL's parser reads.

        `_dims` and `_symbols` have the operands that were parsed as dimensions and as symbols.
        """
        if self._parser._current_token.kind is MLIRTokenKind.PERCENT_IDENT:
            return AffineExpr.dimension(self._parse_operand_position(self._dims))
        if self._parser.parse_optional_keyword("symbol") is None:
            return None
        with self._parser.in_parens():
            return AffineExpr.symbol(self._parse_operand_position(self._symbols))

    def _parse_operand_position(self, known: dict[str, SSAValue]) -> int:
        """Parse an operand, add it to `known` (`_dims` or `_symbols`) on first use, and return its position there."""
        token = self._parser._current_token
        operand: UnresolvedOperand = self._parser.parse_unresolved_operand()
        if token.text not in known:
            known[token.text] = self._parser.resolve_operand(operand, IndexType())
        return list(known).index(token.text)


def _parse(cls: type[affine.ParallelOp], parser: Parser) -> affine.ParallelOp:
    """Parse `(%i, %j) = (0, max(%a, %b)) to (%n, symbol(%m) * 2) step (4, 1) reduce ("addf") -> (f32) {...}`.

    Here %i counts from 0 to %n in steps of 4, and %j from the larger of %a and %b to 2 * %m; ends are exclusive. The
    operation stores the lower bounds as the map (d0, d1) -> (0, d0, d1) with the groups [1, 2], which are the numbers
    of results for each loop. Its operands are %a, %b, %n and %m.
    """
    # The loop variables, and for each of them a lower bound, an upper bound and a step.
    start = parser.pos
    names = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False), " in loop variables"
    )
    parser.parse_punctuation("=")
    lower = _Bounds(parser, "max")
    parser.parse_keyword("to")
    upper = _Bounds(parser, "min")
    steps = [1] * len(names)
    if parser.parse_optional_keyword("step") is not None:
        steps = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer, " in steps")
    if not len(names) == lower.count == upper.count == len(steps):
        counts = f"{lower.count} start(s), {upper.count} end(s), {len(steps)} step(s)"
        parser.raise_error(f"{len(names)} loop variable(s) have {counts}", start, parser.pos)
    # The reductions and the body, whose arguments are the loop variables.
    reductions, types = _parse_reductions(parser)
    region = _parse_body(parser, [name.resolve(IndexType()) for name in names], has_results=bool(types))
    properties: dict[str, Attribute] = {
        "reductions": ArrayAttr(reductions),
        **lower.properties("lower"),
        **upper.properties("upper"),
        "steps": ArrayAttr([IntegerAttr(step, i64) for step in steps]),
    }
    return cls.create(
        operands=[*lower.operands, *upper.operands], result_types=types, properties=properties, regions=[region],
        attributes=parser.parse_optional_attr_dict(),
    )  # fmt: skip


def _parse_reductions(parser: Parser) -> tuple[list[Attribute], list[Attribute]]:
    """Parse `reduce ("addf", ...) -> (f32, ...)` or nothing; return the kind and the type of each result."""
    if parser.parse_optional_keyword("reduce") is None:
        return [], []
    kinds: list[Attribute] = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_reduction(parser), " in reductions"
    )
    parser.parse_punctuation("->")
    return kinds, syntax.parse_types(parser)


def _parse_body(parser: Parser, variables: list[Parser.Argument], *, has_results: bool) -> Region:
    """Parse the body of a loop. Add a block to an empty body `{}`, and the `affine.yield` that a text without results
    may omit.
    """
    region = parser.parse_region(variables)
    if not region.blocks:
        region.add_block(Block(arg_types=[IndexType()] * len(variables)))
    if not has_results and not isinstance(region.blocks[-1].last_op, affine.YieldOp):
        region.blocks[-1].add_op(affine.YieldOp.get())
    return region


def _parse_reduction(parser: Parser) -> StringAttr:
    """Parse the name of a reduction in quotes; a name that is not in `_REDUCTIONS` is a parse error."""
    start = parser.pos
    kind = parser.parse_str_literal(" for a reduction")
    if kind not in _REDUCTIONS:
        parser.raise_error(f"unknown reduction '{kind}', expected one of {', '.join(_REDUCTIONS)}", start, parser.pos)
    return StringAttr(kind)


def _print(op: affine.ParallelOp, printer: Printer) -> None:
    """Print `(%i, %j) = (0, max(%a, %b)) to (%n, symbol(%m) * 2) step (4, 1) reduce ("addf") -> (f32) {...}`.

    Of several expressions, the largest is the lower bound, and the smallest is the upper bound: a group is printed as
    `max(...)` among the lower bounds, and as `min(...)` among the upper ones. Steps are omitted if all are 1.
    """
    block = op.body.blocks.first
    assert block is not None
    lower_count = op.lowerBoundsMap.data.num_dims + op.lowerBoundsMap.data.num_symbols  # operands of the lower bounds
    printer.print_string(" ")
    syntax.print_operands(printer, block.args)
    printer.print_string(" = ")
    _print_bounds(printer, op.lowerBoundsMap.data, op.lowerBoundsGroups, op.operands[:lower_count], "max")
    printer.print_string(" to ")
    _print_bounds(printer, op.upperBoundsMap.data, op.upperBoundsGroups, op.operands[lower_count:], "min")
    steps = [step.value.data for step in op.steps]
    if any(step != 1 for step in steps):
        printer.print_string(f" step ({', '.join(map(str, steps))})")
    if op.res:
        printer.print_string(" reduce (")
        printer.print_list(op.reductions, printer.print_attribute)
        printer.print_string(") -> (")
        printer.print_list(op.res, lambda r: printer.print_attribute(r.type))
        printer.print_string(")")
    printer.print_string(" ")
    # Without results the terminator yields nothing, and _parse_body() adds it.
    printer.print_region(op.body, print_entry_block_args=False, print_block_terminators=bool(op.res))
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _print_bounds(printer: Printer, map: AffineMap, groups: Any, operands: Sequence[SSAValue], extremum: str) -> None:
    """Print the lower or the upper bounds of all loops, in parentheses.

    For the map (d0) -> (d0, 10, 5), the groups [2, 1], the operand %n and "min", print `(min(%n, 10), 5)`.

    Args:
        printer: The printer.
        map: Map whose results are the expressions of all bounds, in the order of the loops.
        groups: Dense constant with the number of expressions of each loop's bound.
        operands: Dimensions, then symbols of the map.
        extremum: "min" or "max", which precedes a group of several expressions in parentheses.
    """
    expressions = iter(map.results)

    def print_bound(size: int) -> None:
        """Print the next bound: an expression, or the extreme of several."""
        printer.print_string(f"{extremum}(" if size != 1 else "")
        printer.print_list(
            [next(expressions) for _ in range(size)], lambda e: _print_expression(printer, e, operands, map.num_dims)
        )
        printer.print_string(")" if size != 1 else "")

    printer.print_string("(")
    printer.print_list([int(size) for size in groups.get_values()], print_bound)
    printer.print_string(")")


def _print_expression(
    printer: Printer, expr: AffineExpr, operands: Sequence[SSAValue], dims: int, nested: bool = False
) -> None:
    """Print an affine expression with its operands in place of dimensions and symbols.

    For d0 + s0 * 2 and the operands (%n, %m), of which one is a dimension, print `%n + (symbol(%m) * 2)`.

    Args:
        printer: The printer.
        expr: The expression.
        operands: Operands of the map, dimensions before symbols.
        dims: Number of dimensions.
        nested: Whether the expression is an operand of another one, so that a binary expression needs parentheses.
    """
    if isinstance(expr, AffineDimExpr):
        printer.print_ssa_value(operands[expr.position])
    elif isinstance(expr, AffineSymExpr):
        printer.print_string("symbol(")
        printer.print_ssa_value(operands[dims + expr.position])
        printer.print_string(")")
    elif isinstance(expr, AffineBinaryOpExpr):
        printer.print_string("(" if nested else "")
        _print_expression(printer, expr.lhs, operands, dims, nested=True)
        printer.print_string(f" {expr.kind.get_token()} ")
        _print_expression(printer, expr.rhs, operands, dims, nested=True)
        printer.print_string(")" if nested else "")
    else:
        printer.print_string(str(expr))


def _verify(op: affine.ParallelOp) -> None:
    """Check that dimensions and symbols have operands, results have reductions, and loops have a positive step each.

    Check also that each loop has a group of at least one expression for either bound, and that the groups are all
    expressions.
    """
    lower, upper = op.lowerBoundsMap.data, op.upperBoundsMap.data
    expected = lower.num_dims + lower.num_symbols + upper.num_dims + upper.num_symbols
    if len(op.operands) != expected:
        raise VerifyException(f"the bounds take {expected} operand(s), got {len(op.operands)}")
    loop_count = len(op.body.block.args)
    for side, map, groups in (("lower", lower, op.lowerBoundsGroups), ("upper", upper, op.upperBoundsGroups)):
        sizes = list(groups.get_values())
        if len(sizes) != loop_count or min(sizes, default=1) < 1 or sum(sizes) != len(map.results):
            raise VerifyException(
                f"expected a group of {side} bounds for each of {loop_count} loop(s), {len(map.results)} bound(s) "
                f"in all, got the sizes {sizes}"
            )
    steps = [step.value.data for step in op.steps]
    if len(steps) != loop_count or min(steps, default=1) < 1:
        raise VerifyException(f"expected a positive step for each of {loop_count} loop(s), got {steps}")
    if len(op.reductions) != len(op.results):
        raise VerifyException(f"{len(op.reductions)} reduction(s) are given for {len(op.results)} result(s)")


refine(affine.ParallelOp, syntax=(_parse, _print), check=_verify)
