"""The library's `scf` dialect with the syntax of `scf.parallel` and with `scf.forall`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, IntegerAttr, i1, i32
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.refine import refine


def _index_arguments(p: Parser) -> list[Parser.Argument]:
    """`(%i, %j)`, of type index."""
    names = p.parse_comma_separated_list(p.Delimiter.PAREN, lambda: p.parse_argument(expect_type=False))
    return [name.resolve(IndexType()) for name in names]


def _parse_parallel(cls: type[scf.ParallelOp], p: Parser) -> scf.ParallelOp:
    """`(%i, %j) = (...) to (...) step (...) init (...) -> T {...}`."""
    arguments = _index_arguments(p)
    p.parse_punctuation("=")
    lower = syntax.parse_index_operands(p, "(", ")")
    p.parse_keyword("to")
    upper = syntax.parse_index_operands(p, "(", ")")
    p.parse_keyword("step")
    step = syntax.parse_index_operands(p, "(", ")")
    names = p.parse_op_args_list() if p.parse_optional_keyword("init") is not None else []
    start = p.pos
    types = syntax.parse_types(p) if p.parse_optional_punctuation("->") is not None else []
    init = p.resolve_operands(names, types, start)
    body = p.parse_region(arguments)
    block = body.block
    if not isinstance(block.last_op, scf.ReduceOp):
        if isinstance(block.last_op, scf.YieldOp):  # The terminator that older releases write.
            block.erase_op(block.last_op)
        block.add_op(scf.ReduceOp())
    segments = DenseArrayBase.from_list(i32, [len(lower), len(upper), len(step), len(init)])
    return cls.create(
        operands=[*lower, *upper, *step, *init], result_types=types, regions=[body],
        properties={"operandSegmentSizes": segments}, attributes=p.parse_optional_attr_dict(),
    )  # fmt: skip


def _print_parallel(op: scf.ParallelOp, printer: Printer) -> None:
    printer.print_string(" ")
    syntax.print_operands(printer, op.body.block.args)
    for keyword, values in ((" = ", op.lowerBound), (" to ", op.upperBound), (" step ", op.step)):
        printer.print_string(keyword)
        syntax.print_operands(printer, values)
    if op.initVals:
        printer.print_string(" init ")
        syntax.print_operands(printer, op.initVals)
        printer.print_string(" -> ")
        if len(op.res) > 1:
            printer.print_string("(")
        printer.print_list(op.res, lambda r: printer.print_attribute(r.type))
        if len(op.res) > 1:
            printer.print_string(")")
    printer.print_string(" ")
    printer.print_region(op.body, print_entry_block_args=False)
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _parse_reduce(cls: type[scf.ReduceOp], p: Parser) -> scf.ReduceOp:
    """`(%a, %b : T, U) {...}, {...}`."""
    names = []
    types: list[Attribute] = []
    start = p.pos
    if p.parse_optional_punctuation("(") is not None:
        while (name := p.parse_optional_unresolved_operand()) is not None:
            names.append(name)
            p.parse_optional_punctuation(",")
        p.parse_punctuation(":")
        types.append(p.parse_type())
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        p.parse_punctuation(")")
    operands = p.resolve_operands(names, types, start)
    regions: list[Region] = []
    while p._current_token.text == "{" and len(regions) < len(names):
        regions.append(p.parse_region())
        p.parse_optional_punctuation(",")
    return cls.create(operands=operands, regions=regions, attributes=p.parse_optional_attr_dict())


def _print_reduce(op: scf.ReduceOp, printer: Printer) -> None:
    if op.args:
        printer.print_string("(")
        printer.print_list(op.args, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list(op.args, lambda a: printer.print_attribute(a.type))
        printer.print_string(") ")
        printer.print_list(op.reductions, printer.print_region)
    syntax.print_attributes(printer, op.attributes, keyword=False)


refine(scf.ParallelOp, syntax=(_parse_parallel, _print_parallel))
refine(scf.ReduceOp, syntax=(_parse_reduce, _print_reduce))


@irdl_op_definition
class InParallelOp(IRDLOperation):
    """Ends the body of `scf.forall`."""

    name = "scf.forall.in_parallel"
    body = region_def()
    traits = traits_def(IsTerminator(), NoTerminator())

    @classmethod
    def parse(cls, p: Parser) -> InParallelOp:
        body = p.parse_region()
        if not body.blocks:
            body.add_block(Block())
        return cls(regions=[body], attributes=p.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.body)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class ForallOp(IRDLOperation):
    """Iterations that are independent of each other. static_* have the dynamic index where a value stands."""

    name = "scf.forall"
    dynamic_lower = var_operand_def(IndexType)
    dynamic_upper = var_operand_def(IndexType)
    dynamic_step = var_operand_def(IndexType)
    outputs = var_operand_def()
    static_lower = prop_def(ArrayAttr)
    static_upper = prop_def(ArrayAttr)
    static_step = prop_def(ArrayAttr)
    mapping = opt_prop_def(Attribute)
    results_ = var_result_def()
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def bounds(self, which: str) -> list[int | SSAValue]:
        """The bounds called `which`, "lower", "upper" or "step"."""
        values = iter(getattr(self, f"dynamic_{which}"))
        static = getattr(self, f"static_{which}")
        return [next(values) if a.value.data == syntax.DYNAMIC else a.value.data for a in static]

    @classmethod
    def parse(cls, p: Parser) -> ForallOp:
        arguments = _index_arguments(p)
        rank = len(arguments)
        lower, step = _constant(rank, 0), _constant(rank, 1)
        if p.parse_optional_keyword("in") is not None:
            upper = _parse_bounds(p)
        else:
            p.parse_punctuation("=")
            lower = _parse_bounds(p)
            p.parse_keyword("to")
            upper = _parse_bounds(p)
            p.parse_keyword("step")
            step = _parse_bounds(p)
        outs: Sequence[SSAValue] = []
        types: list[Attribute] = []
        if p.parse_optional_keyword("shared_outs") is not None:
            pairs = p.parse_comma_separated_list(p.Delimiter.PAREN, lambda: _shared(p))
            start = p.pos
            p.parse_punctuation("->")
            types = syntax.parse_types(p)
            outs = p.resolve_operands([pair[1] for pair in pairs], types, start)
            arguments += [pair[0].resolve(type) for pair, type in zip(pairs, types, strict=True)]
        body = p.parse_region(arguments)
        if not isinstance(body.block.last_op, InParallelOp):
            body.block.add_op(InParallelOp(regions=[Region(Block())]))
        attributes = p.parse_optional_attr_dict()
        properties: dict[str, Attribute | None] = {
            "static_lower": lower[1], "static_upper": upper[1], "static_step": step[1],
            "mapping": attributes.pop("mapping", None),
        }  # fmt: skip
        operands = [lower[0], upper[0], step[0], outs]
        return cls(
            operands=operands, result_types=[types], properties=properties, attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        rank = len(self.static_upper)
        args = self.body.block.args
        printer.print_string(" ")
        syntax.print_operands(printer, args[:rank])
        if self.bounds("lower") == [0] * rank and self.bounds("step") == [1] * rank:
            printer.print_string(" in ")
            self._print_bounds(printer, "upper")
        else:
            for keyword, which in ((" = ", "lower"), (" to ", "upper"), (" step ", "step")):
                printer.print_string(keyword)
                self._print_bounds(printer, which)
        if self.outputs:
            printer.print_string(" shared_outs(")
            pairs = list(zip(args[rank:], self.outputs, strict=True))
            printer.print_list(pairs, lambda pair: _print_shared(printer, *pair))
            printer.print_string(") -> (")
            printer.print_list(self.outputs, lambda o: printer.print_attribute(o.type))
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        given: dict[str, Attribute] = {} if self.mapping is None else {"mapping": self.mapping}
        syntax.print_attributes(printer, {**given, **self.attributes}, keyword=False)

    def _print_bounds(self, printer: Printer, which: str) -> None:
        printer.print_string("(")
        printer.print_list(self.bounds(which), lambda b: _print_bound(printer, b))
        printer.print_string(")")

    def verify_(self) -> None:
        rank = len(self.static_upper)
        if len(self.static_lower) != rank or len(self.static_step) != rank:
            raise VerifyException("scf.forall has as many lower bounds, upper bounds and steps as variables")
        for which in ("lower", "upper", "step"):
            static, given = getattr(self, f"static_{which}"), len(getattr(self, f"dynamic_{which}"))
            if not all(isinstance(each, IntegerAttr) for each in static):
                raise VerifyException(f"static_{which} of scf.forall is a list of integers")
            dynamic = sum(each.value.data == syntax.DYNAMIC for each in static)
            if dynamic != given:
                raise VerifyException(f"static_{which} of scf.forall leaves {dynamic} to values, {given} are given")
        shared = [value.type for value in self.outputs]
        _same_types("the body of scf.forall takes", self.body.block.args, [IndexType()] * rank + shared)
        _same_types("scf.forall gives", self.results_, shared)


def _same_types(what: str, values: Sequence[SSAValue], expected: Sequence[Attribute]) -> None:
    given = [value.type for value in values]
    if given != list(expected):
        texts = [", ".join(map(str, types)) for types in (given, expected)]
        raise VerifyException(f"{what} ({texts[0]}), expected ({texts[1]})")


def _print_bound(printer: Printer, bound: Any) -> None:
    if isinstance(bound, int):
        printer.print_string(str(bound))
    else:
        printer.print_ssa_value(bound)


def _print_shared(printer: Printer, arg: SSAValue, out: SSAValue) -> None:
    printer.print_ssa_value(arg)
    printer.print_string(" = ")
    printer.print_ssa_value(out)


def _shared(p: Parser) -> tuple[Parser.UnresolvedArgument, Any]:
    argument = p.parse_argument(expect_type=False)
    p.parse_punctuation("=")
    return argument, p.parse_unresolved_operand()


def _constant(rank: int, value: int) -> tuple[list[SSAValue], ArrayAttr[Attribute]]:
    return [], ArrayAttr([IntegerAttr(value, 64)] * rank)


def _parse_bounds(p: Parser) -> tuple[list[SSAValue], ArrayAttr[Attribute]]:
    values: list[SSAValue] = []
    static: list[Attribute] = []

    def one() -> None:
        name = p.parse_optional_unresolved_operand()
        if name is None:
            static.append(IntegerAttr(p.parse_integer(allow_boolean=False), 64))
        else:
            values.append(p.resolve_operand(name, IndexType()))
            static.append(IntegerAttr(syntax.DYNAMIC, 64))

    p.parse_comma_separated_list(p.Delimiter.PAREN, one, " in bounds")
    return values, ArrayAttr(static)


def _verify_if(op: scf.IfOp) -> None:
    """Each branch gives what the operation promises."""
    expected = [r.type for r in op.results]
    if expected and not op.false_region.blocks:
        raise VerifyException("an scf.if with results needs an else branch")
    for region in (op.true_region, op.false_region):
        last = region.blocks.last.last_op if region.blocks.last is not None else None
        if isinstance(last, scf.YieldOp):
            _same_types("a branch of scf.if yields", last.operands, expected)


def _verify_for(op: scf.ForOp) -> None:
    """What goes around the loop has one type everywhere."""
    carried, body = [v.type for v in op.iter_args], op.body.block
    _same_types("the body of scf.for takes", body.args, [op.lb.type, *carried])
    _same_types("scf.for gives", op.results, carried)
    if isinstance(body.last_op, scf.YieldOp):
        _same_types("the body of scf.for yields", body.last_op.operands, carried)


def _verify_while(op: scf.WhileOp) -> None:
    """What goes around the loop has one type everywhere."""
    carried, results = [v.type for v in op.arguments], [r.type for r in op.results]
    before, after = op.before_region.block, op.after_region.block
    condition, end = before.last_op, after.last_op
    if not isinstance(condition, scf.ConditionOp) or not isinstance(end, scf.YieldOp):
        raise VerifyException("the first region of scf.while ends with scf.condition, the second with scf.yield")
    _same_types("the first region takes", before.args, carried)
    _same_types("the second region takes", after.args, results)
    _same_types("scf.condition passes", condition.operands[1:], results)
    _same_types("the second region yields", end.operands, carried)


def _verify_execute(op: scf.ExecuteRegionOp) -> None:
    """Whichever block ends the region yields the results."""
    first = op.region.blocks.first
    if first is None:
        raise VerifyException("scf.execute_region needs a block")
    _same_types("the region of scf.execute_region takes", first.args, [])
    for block in op.region.blocks:
        if isinstance(block.last_op, scf.YieldOp):
            _same_types("scf.execute_region yields", block.last_op.operands, [r.type for r in op.results])


def _print_execute(op: scf.ExecuteRegionOp, printer: Printer) -> None:
    if op.results:
        printer.print_string(" -> (")
        printer.print_list(op.results, lambda r: printer.print_attribute(r.type))
        printer.print_string(")")
    printer.print_string(" ")
    printer.print_region(op.region, print_entry_block_args=False)
    syntax.print_attributes(printer, op.attributes, keyword=False)


def _parse_execute(cls: type[scf.ExecuteRegionOp], p: Parser) -> scf.ExecuteRegionOp:
    """`-> (T, ...) {...}`; a single type needs no parentheses."""
    types = syntax.parse_types(p) if p.parse_optional_punctuation("->") is not None else []
    body = p.parse_region()
    return cls.create(result_types=types, regions=[body], attributes=p.parse_optional_attr_dict())


def _parse_if(cls: type[scf.IfOp], p: Parser) -> scf.IfOp:
    """`%c -> (T, ...) {...} else {...}`; a single type needs no parentheses."""
    condition = p.parse_operand(i1)
    types = syntax.parse_types(p) if p.parse_optional_punctuation("->") is not None else []
    then = cls.parse_region_with_yield(p)
    other = cls.parse_region_with_yield(p) if p.parse_optional_keyword("else") is not None else Region()
    return cls(condition, types, then, other, p.parse_optional_attr_dict())


def _initial(p: Parser) -> tuple[Parser.UnresolvedArgument, Any]:
    argument = p.parse_argument(expect_type=False)
    p.parse_punctuation("=")
    return argument, p.parse_unresolved_operand()


def _parse_for(cls: type[scf.ForOp], p: Parser) -> scf.ForOp:
    """`unsigned %i = %a to %b step %c iter_args(%x = %y) -> (T) : U {...}`; a single type needs no parentheses."""
    unsigned = p.parse_optional_keyword("unsigned") is not None
    variable = p.parse_argument(expect_type=False)
    p.parse_punctuation("=")
    bounds = [p.parse_unresolved_operand()]
    for keyword in ("to", "step"):
        p.parse_keyword(keyword)
        bounds.append(p.parse_unresolved_operand())
    start = p.pos
    pairs: list[tuple[Parser.UnresolvedArgument, Any]] = []
    types: list[Attribute] = []
    if p.parse_optional_keyword("iter_args") is not None:
        pairs = p.parse_comma_separated_list(p.Delimiter.PAREN, lambda: _initial(p))
        p.parse_punctuation("->")
        types = syntax.parse_types(p)
    carried = p.resolve_operands([value for _, value in pairs], types, start)
    arguments = [argument.resolve(type) for (argument, _), type in zip(pairs, types, strict=True)]
    type = p.parse_type() if p.parse_optional_punctuation(":") is not None else IndexType()
    lower, upper, step = (p.resolve_operand(bound, type) for bound in bounds)
    body = p.parse_region((variable.resolve(type), *arguments))
    last = body.blocks.last
    if not pairs and last is not None and not isinstance(last.last_op, scf.YieldOp):
        last.add_op(scf.YieldOp())
    op = cls(lower, upper, step, carried, body)
    op.attributes |= p.parse_optional_attr_dict()
    if unsigned:
        op.attributes["unsignedCmp"] = syntax.UNIT
    return op


def _parse_while(cls: type[scf.WhileOp], p: Parser) -> scf.WhileOp:
    """`(%x = %y) : (T) -> (T) {...} do {...}`; a loop that carries nothing needs no first parentheses."""
    pairs = p.parse_optional_comma_separated_list(p.Delimiter.PAREN, lambda: _initial(p)) or []
    p.parse_punctuation(":")
    start = p.pos
    type = p.parse_function_type()
    types = list(type.inputs.data)
    carried = p.resolve_operands([value for _, value in pairs], types, start)
    before = p.parse_region([argument.resolve(t) for (argument, _), t in zip(pairs, types, strict=True)])
    p.parse_keyword("do")
    op = cls(carried, type.outputs.data, before, p.parse_region())
    attributes = p.parse_optional_attr_dict_with_keyword()
    op.attributes |= attributes.data if attributes is not None else {}
    return op


refine(scf.IfOp, syntax=(_parse_if, scf.IfOp.print), check=_verify_if)
refine(scf.ForOp, syntax=(_parse_for, scf.ForOp.print), check=_verify_for)
refine(scf.WhileOp, syntax=(_parse_while, scf.WhileOp.print), check=_verify_while)
refine(scf.ExecuteRegionOp, syntax=(_parse_execute, _print_execute), check=_verify_execute)

_EXTRA: list[type[Operation]] = [ForallOp, InParallelOp]
Scf = Dialect("scf", [*scf.Scf.operations, *_EXTRA], [*scf.Scf.attributes])
