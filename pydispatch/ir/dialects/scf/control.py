"""Branches and loops that run in order: the syntax and the checks that xDSL lacks."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, UnitAttr, i1
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.scf.shared import check_types, parse_initial


def _verify_if(op: scf.IfOp) -> None:
    """Check that the branches of scf.if yield values of the types of its results.

    With results, an else branch is required. A branch that does not end with scf.yield is not checked here."""
    expected = [r.type for r in op.results]
    if expected and not op.false_region.blocks:
        raise VerifyException("an scf.if with results needs an else branch")
    for region in (op.true_region, op.false_region):
        last = region.blocks.last.last_op if region.blocks.last is not None else None
        if isinstance(last, scf.YieldOp):
            check_types("a branch of scf.if yields", last.operands, expected)


def _verify_for(op: scf.ForOp) -> None:
    """Check the types of the carried values of scf.for: in its body, where they are yielded, and in its results.

    The body takes the loop index first, then the carried values."""
    carried, body = [v.type for v in op.iter_args], op.body.block
    check_types("the body of scf.for takes", body.args, [op.lb.type, *carried])
    check_types("scf.for gives", op.results, carried)
    if isinstance(body.last_op, scf.YieldOp):
        check_types("the body of scf.for yields", body.last_op.operands, carried)


def _verify_while(op: scf.WhileOp) -> None:
    """Check that the values passed between the regions of scf.while have matching types.

    The first region takes the initial or last yielded values; its scf.condition passes other values to the second
    region, or to the results if the loop ends. The second region yields values to the first.
    """
    carried, results = [v.type for v in op.arguments], [r.type for r in op.results]
    before, after = op.before_region.block, op.after_region.block
    condition, end = before.last_op, after.last_op
    if not isinstance(condition, scf.ConditionOp) or not isinstance(end, scf.YieldOp):
        raise VerifyException("the first region of scf.while ends with scf.condition, the second with scf.yield")
    check_types("the first region takes", before.args, carried)
    check_types("the second region takes", after.args, results)
    check_types("scf.condition passes", condition.operands[1:], results)
    check_types("the second region yields", end.operands, carried)


def _verify_execute(op: scf.ExecuteRegionOp) -> None:
    """Check that the region of scf.execute_region takes no values, and that each scf.yield in it yields values of the
    result types.
    """
    first = op.region.blocks.first
    if first is None:
        raise VerifyException("scf.execute_region needs a block")
    check_types("the region of scf.execute_region takes", first.args, expected=[])
    for block in op.region.blocks:
        if isinstance(block.last_op, scf.YieldOp):
            check_types("scf.execute_region yields", block.last_op.operands, [r.type for r in op.results])


def _print_execute(op: scf.ExecuteRegionOp, printer: Printer) -> None:
    """Print `scf.execute_region` with its result types and region."""
    if op.results:
        printer.print_string(" -> (")
        printer.print_list(op.results, lambda r: printer.print_attribute(r.type))
        printer.print_string(")")
    printer.print_string(" ")
    printer.print_region(op.region, print_entry_block_args=False)
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _parse_execute(cls: type[scf.ExecuteRegionOp], parser: Parser) -> scf.ExecuteRegionOp:
    """Parse `-> (T, ...) {...}`; a single type needs no parentheses."""
    types = syntax.parse_types(parser) if parser.parse_optional_punctuation("->") is not None else []
    body = parser.parse_region()
    return cls.create(result_types=types, regions=[body], attributes=parser.parse_optional_attr_dict())


def _parse_if(cls: type[scf.IfOp], parser: Parser) -> scf.IfOp:
    """Parse `%c -> (T, ...) {...} else {...}`; a single type needs no parentheses."""
    condition = parser.parse_operand(i1)
    types = syntax.parse_types(parser) if parser.parse_optional_punctuation("->") is not None else []
    then = cls.parse_region_with_yield(parser)
    other = cls.parse_region_with_yield(parser) if parser.parse_optional_keyword("else") is not None else Region()
    return cls(condition, types, then, other, parser.parse_optional_attr_dict())


def _parse_for(cls: type[scf.ForOp], parser: Parser) -> scf.ForOp:
    """Parse `unsigned %i = %a to %b step %c iter_args(%x = %y) -> (T) : U {...}`; a single type needs no
    parentheses."""
    # The variable, its bounds and its step. Their type follows later, and is index if the text omits it.
    is_unsigned = parser.parse_optional_keyword("unsigned") is not None
    variable = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    bounds = [parser.parse_unresolved_operand()]
    for keyword in ("to", "step"):
        parser.parse_keyword(keyword)
        bounds.append(parser.parse_unresolved_operand())
    # The carried values.
    start = parser.pos
    pairs: list[tuple[Parser.UnresolvedArgument, Any]] = []  # (argument of the body, initial value), both unresolved
    types: list[Attribute] = []
    if parser.parse_optional_keyword("iter_args") is not None:
        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_initial(parser))
        parser.parse_punctuation("->")
        types = syntax.parse_types(parser)
    carried = parser.resolve_operands([value for _, value in pairs], types, start)
    arguments = [argument.resolve(type) for (argument, _), type in zip(pairs, types, strict=True)]
    bound_type = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else IndexType()
    lower, upper, step = (parser.resolve_operand(bound, bound_type) for bound in bounds)
    # The body. Its terminator may be omitted if no values are carried.
    body = parser.parse_region((variable.resolve(bound_type), *arguments))
    last = body.blocks.last
    if not pairs and last is not None and not isinstance(last.last_op, scf.YieldOp):
        last.add_op(scf.YieldOp())
    op = cls(lower, upper, step, carried, body)
    op.attributes |= parser.parse_optional_attr_dict()
    if is_unsigned:  # the loop compares its index with the bound as unsigned numbers
        op.attributes["unsignedCmp"] = UnitAttr()
    return op


def _parse_while(cls: type[scf.WhileOp], parser: Parser) -> scf.WhileOp:
    """Parse `(%x = %y) : (T) -> (U) {...} do {...}`; the first list is omitted if the loop carries no values.

    The first region computes the condition, and passes values to the second region, the body, or to the results. T are
    the types of the initial values and of the first region's arguments, U those of the results and of the second
    region's arguments.
    """
    pairs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_initial(parser)) or []
    parser.parse_punctuation(":")
    start = parser.pos
    type = parser.parse_function_type()
    types = list(type.inputs.data)
    carried = parser.resolve_operands([value for _, value in pairs], types, start)
    before = parser.parse_region([argument.resolve(t) for (argument, _), t in zip(pairs, types, strict=True)])
    parser.parse_keyword("do")
    op = cls(carried, type.outputs.data, before, parser.parse_region())
    attributes = parser.parse_optional_attr_dict_with_keyword()
    op.attributes |= attributes.data if attributes is not None else {}
    return op


refine(scf.IfOp, syntax=(_parse_if, scf.IfOp.print), check=_verify_if)
refine(scf.ForOp, syntax=(_parse_for, scf.ForOp.print), check=_verify_for)
refine(scf.WhileOp, syntax=(_parse_while, scf.WhileOp.print), check=_verify_while)
refine(scf.ExecuteRegionOp, syntax=(_parse_execute, _print_execute), check=_verify_execute)
