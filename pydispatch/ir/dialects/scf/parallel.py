"""Loops whose iterations are independent: the syntax of `scf.parallel` and `scf.reduce`, and `scf.forall`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, IntegerAttr, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
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
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.scf.shared import check_types, parse_initial


def _parse_index_arguments(parser: Parser) -> list[Parser.Argument]:
    """Parse block arguments of type index, `(%i, %j)`."""
    names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False))
    return [name.resolve(IndexType()) for name in names]


def _parse_parallel(cls: type[scf.ParallelOp], parser: Parser) -> scf.ParallelOp:
    """Parse `(%i, %j) = (lower) to (upper) step (step) init (initial values) -> T {...}`, where T are the types of the
    reduced values; `init` and T are omitted without reductions.

    Example, the sum of an array:

        %sum = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%zero) -> f32 {
          %x = memref.load %array[%i] : memref<?xf32>
          scf.reduce(%x : f32) {
          ^bb0(%a: f32, %b: f32):
            %s = arith.addf %a, %b : f32
            scf.reduce.return %s : f32
          }
        }
    """
    arguments = _parse_index_arguments(parser)
    parser.parse_punctuation("=")
    lower = syntax.parse_index_operands(parser, "(", ")")
    parser.parse_keyword("to")
    upper = syntax.parse_index_operands(parser, "(", ")")
    parser.parse_keyword("step")
    step = syntax.parse_index_operands(parser, "(", ")")
    names = parser.parse_op_args_list() if parser.parse_optional_keyword("init") is not None else []
    start = parser.pos
    types = syntax.parse_types(parser) if parser.parse_optional_punctuation("->") is not None else []
    init = parser.resolve_operands(names, types, start)
    # The body, which ends with an scf.reduce: it has an operand and a region for each reduced value.
    body = parser.parse_region(arguments)
    block = body.block
    if not isinstance(block.last_op, scf.ReduceOp):  # the text may omit an empty one
        if isinstance(block.last_op, scf.YieldOp):  # the terminator that older releases write
            block.erase_op(block.last_op)
        block.add_op(scf.ReduceOp())
    segments = DenseArrayBase.from_list(i32, [len(lower), len(upper), len(step), len(init)])
    return cls.create(
        operands=[*lower, *upper, *step, *init], result_types=types, regions=[body],
        properties={"operandSegmentSizes": segments}, attributes=parser.parse_optional_attr_dict(),
    )  # fmt: skip


def _print_parallel(op: scf.ParallelOp, printer: Printer) -> None:
    """Print an scf.parallel without the name of the operation: ` (%i) = (%a) to (%b) step (%c) {...}`.

    With results, ` init (%x, %y) -> (f32, i32)` precedes the body: their initial values and types. A single type has no
    parentheses.
    """
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


def _parse_reduce(cls: type[scf.ReduceOp], parser: Parser) -> scf.ReduceOp:
    """Parse `(%a, %b : T, U) {...}, {...}`: the reduced values, and for each a region that combines two values.

    The operation ends the body of an `scf.parallel`; without reductions it is `scf.reduce`, without operands and
    regions. A region takes two values of its type, and ends with `scf.reduce.return`.
    """
    # The reduced values and their types.
    names: list[UnresolvedOperand] = []
    types: list[Attribute] = []
    start = parser.pos
    if parser.parse_optional_punctuation("(") is not None:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types.append(parser.parse_type())
        while parser.parse_optional_punctuation(",") is not None:
            types.append(parser.parse_type())
        parser.parse_punctuation(")")
    operands = parser.resolve_operands(names, types, start)
    regions: list[Region] = []
    # A `{` after the region of the last value opens the attribute dictionary.
    while len(regions) < len(names):
        if regions:
            parser.parse_punctuation(",")
        regions.append(parser.parse_region())
    return cls.create(operands=operands, regions=regions, attributes=parser.parse_optional_attr_dict())


def _print_reduce(op: scf.ReduceOp, printer: Printer) -> None:
    """Print `scf.reduce(%a, %b : T, U) {...}, {...}`, one region for each operand; without operands `scf.reduce`."""
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
    """Terminator of the body of `scf.forall`; its region has the insertions into the results."""

    name = "scf.forall.in_parallel"
    body = region_def()
    traits = traits_def(IsTerminator(), NoTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> InParallelOp:
        """Parse the region, which contains the insertions into the results of the `scf.forall`."""
        body = parser.parse_region()
        if not body.blocks:  # `{}`
            body.add_block(Block())
        return cls(regions=[body], attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        """Print the region, and then the attributes."""
        printer.print_string(" ")
        printer.print_region(self.body)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class ForallOp(IRDLOperation):
    """Loop nest whose iterations are independent.

    Attributes:
        static_lower, static_upper, static_step: For each loop an integer: the first index, the exclusive end, and the
            step. DYNAMIC stands for the next value of `dynamic_lower`, `dynamic_upper` or `dynamic_step`.
        outputs: Initial values of the results, tensors into which `scf.forall.in_parallel` inserts.
        mapping: Attribute that maps loops to threads or blocks of a GPU; it is preserved, and has no effect.
        body: Takes the index of each loop, then the current value of each output.
    """

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

    def bounds(self, kind: str) -> list[int | SSAValue]:
        """Return for each loop its lower bound, exclusive upper bound or step, as an integer or a value.

        `kind` is "lower", "upper" or "step".
        """
        return syntax.mixed(getattr(self, f"static_{kind}"), getattr(self, f"dynamic_{kind}"))

    @classmethod
    def parse(cls, parser: Parser) -> ForallOp:
        """Parse `(%i, ...) in (upper) shared_outs(%o = %init) -> types {body}`, or, instead of `in (upper)`, `= (lower)
        to (upper) step (step)`.

        The arguments of the body are the loop variables, then one for each of the `shared_outs`, the tensors that the
        iterations write into. A bound is an integer or a value: (8, %n) is stored as the integers [8, DYNAMIC] and the
        values [%n].
        """
        variables = _parse_index_arguments(parser)
        lower, upper, step = _parse_loop_bounds(parser, len(variables))
        outs, arguments = _parse_shared_outs(parser)
        types = [argument.type for argument in arguments]
        body = parser.parse_region([*variables, *arguments])
        if not isinstance(body.block.last_op, InParallelOp):  # the text may omit an empty one
            body.block.add_op(InParallelOp(regions=[Region(Block())]))
        attributes = parser.parse_optional_attr_dict()
        properties: dict[str, Attribute | None] = {
            "static_lower": lower.static, "static_upper": upper.static, "static_step": step.static,
            "mapping": attributes.pop("mapping", None),
        }  # fmt: skip
        operands = [lower.dynamic, upper.dynamic, step.dynamic, outs]
        return cls(
            operands=operands, result_types=[types], properties=properties, attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        """Print `(%i, ...) in (upper) shared_outs(%o = %init) -> types {body}`.

        Instead of `in (upper)`, print `= (lower) to (upper) step (step)` unless all loops go from 0 in steps of 1.
        """
        rank = len(self.static_upper)  # one upper bound for each loop
        args = self.body.block.args
        printer.print_string(" ")
        syntax.print_operands(printer, args[:rank])
        if self.bounds("lower") == [0] * rank and self.bounds("step") == [1] * rank:
            printer.print_string(" in ")
            self._print_bounds(printer, "upper")
        else:
            for keyword, kind in ((" = ", "lower"), (" to ", "upper"), (" step ", "step")):
                printer.print_string(keyword)
                self._print_bounds(printer, kind)
        if self.outputs:
            self._print_outputs(printer, args[rank:])
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        properties: dict[str, Attribute] = {} if self.mapping is None else {"mapping": self.mapping}
        syntax.print_attributes(printer, {**properties, **self.attributes}, keyword=False)

    def _print_outputs(self, printer: Printer, arguments: Sequence[SSAValue]) -> None:
        """Print ` shared_outs(%o = %init, ...) -> (types)`; `arguments` of the body stand for the outputs."""
        printer.print_string(" shared_outs(")
        pairs = list(zip(arguments, self.outputs, strict=True))
        printer.print_list(pairs, lambda pair: _print_initial(printer, *pair))
        printer.print_string(") -> (")
        printer.print_list(self.outputs, lambda o: printer.print_attribute(o.type))
        printer.print_string(")")

    def _print_bounds(self, printer: Printer, kind: str) -> None:
        """Print the bounds or steps that `bounds(kind)` returns, in parentheses."""
        printer.print_string("(")
        syntax.print_mixed(printer, self.bounds(kind))
        printer.print_string(")")

    def verify_(self) -> None:
        """Check the loops, the arguments of the body and the results.

        Each loop has two bounds and a step, which are integers or values: the upper bounds (8, %n) are
        `static_upper = [8, DYNAMIC]` and `dynamic_upper = [%n]`. The body's arguments for the outputs, and the results,
        have the types of the outputs.
        """
        rank = len(self.static_upper)
        if len(self.static_lower) != rank or len(self.static_step) != rank:
            raise VerifyException("scf.forall has as many lower bounds, upper bounds and steps as variables")
        for kind in ("lower", "upper", "step"):
            static, value_count = getattr(self, f"static_{kind}"), len(getattr(self, f"dynamic_{kind}"))
            if not all(isinstance(bound, IntegerAttr) for bound in static):
                raise VerifyException(f"static_{kind} of scf.forall is a list of integers")
            # Each DYNAMIC among the integers stands for one of the values.
            marker_count = sum(bound.value.data == syntax.DYNAMIC for bound in static)
            if marker_count != value_count:
                raise VerifyException(
                    f"static_{kind} of scf.forall leaves {marker_count} to values, {value_count} are given"
                )
        output_types = [value.type for value in self.outputs]
        check_types("the body of scf.forall takes", self.body.block.args, [IndexType()] * rank + output_types)
        check_types("scf.forall gives", self.results_, output_types)


def _print_initial(printer: Printer, arg: SSAValue, out: SSAValue) -> None:
    """Print `%arg = %out`: the argument of the body that is an output's current value, and its initial value."""
    printer.print_ssa_value(arg)
    printer.print_string(" = ")
    printer.print_ssa_value(out)


class _LoopBounds(NamedTuple):
    """Bounds or steps of the loops of a nest, outermost first.

    Attributes:
        dynamic: Bounds that are values, in order.
        static: An integer for each loop; DYNAMIC stands for the next value of `dynamic`.
    """

    dynamic: list[SSAValue]
    static: ArrayAttr[Attribute]


def _constant(rank: int, value: int) -> _LoopBounds:
    """Return bounds or steps of `rank` loops that all are `value`."""
    return _LoopBounds(dynamic=[], static=ArrayAttr([IntegerAttr(value, 64)] * rank))


def _parse_shared_outs(parser: Parser) -> tuple[Sequence[SSAValue], list[Parser.Argument]]:
    """Parse `shared_outs(%o = %init, ...) -> types`, or nothing.

    Return the initial tensors, and the argument of the body for each.
    """
    if parser.parse_optional_keyword("shared_outs") is None:
        return [], []
    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_initial(parser))
    start = parser.pos
    parser.parse_punctuation("->")
    types = syntax.parse_types(parser)
    initial_values = parser.resolve_operands([initial for _, initial in pairs], types, start)
    return initial_values, [argument.resolve(type) for (argument, _), type in zip(pairs, types, strict=True)]


def _parse_loop_bounds(parser: Parser, rank: int) -> tuple[_LoopBounds, _LoopBounds, _LoopBounds]:
    """Parse `in (upper)`, or `= (lower) to (upper) step (step)`; return lower bounds, upper bounds and steps.

    For `in`, the lower bounds of the `rank` loops are 0 and the steps 1.
    """
    if parser.parse_optional_keyword("in") is not None:
        return _constant(rank, 0), _parse_bounds(parser), _constant(rank, 1)
    parser.parse_punctuation("=")
    lower = _parse_bounds(parser)
    parser.parse_keyword("to")
    upper = _parse_bounds(parser)
    parser.parse_keyword("step")
    return lower, upper, _parse_bounds(parser)


def _parse_bounds(parser: Parser) -> _LoopBounds:
    """Parse bounds in parentheses, such as `(0, %n)`."""
    values: list[SSAValue] = []
    static: list[Attribute] = []

    def parse_bound() -> None:
        """Parse a value or an integer, and append it to `static`, a value as DYNAMIC and to `values`."""
        name = parser.parse_optional_unresolved_operand()
        if name is None:
            static.append(IntegerAttr(parser.parse_integer(allow_boolean=False), 64))
        else:
            values.append(parser.resolve_operand(name, IndexType()))
            static.append(IntegerAttr(syntax.DYNAMIC, 64))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_bound, " in bounds")
    return _LoopBounds(dynamic=values, static=ArrayAttr(static))
