"""Conversions of branches and loops, and of operations that forward their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from pydispatch.frontends.stablehlo.operators.interpreter import probes_of_loop, while_with_probes
from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer, callee_of
from pydispatch.graph.dtypes import DType
from pydispatch.graph.size_functions import ceil_div, maximum
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control
from pydispatch.operations.reductions import largest

_PASSED_ON = ("stablehlo.convert", "stablehlo.reshape")
"""Operations that copy their operand if it has the type of their result: the search for loop counters follows it."""


def _if(tracer: StablehloTracer, op: Operation, condition: Tensor) -> Results:
    """Convert a branch; its regions take no arguments and use values from outside."""
    if condition.rank:
        raise tracer.b.fail(f"the condition of 'stablehlo.if' is one truth value, got {condition}")
    then, otherwise = (partial(tracer.region, region, []) for region in op.regions)
    return control.if_(tracer.b, condition, then, otherwise)


def _case(tracer: StablehloTracer, op: Operation, index: Tensor) -> Results:
    """Convert a branch with a region for each index, counted from 0. An index out of range runs the last region."""
    if index.rank or not op.regions:
        raise tracer.b.fail("'stablehlo.case' takes one number and has at least one branch")
    return control.switch(tracer.b, index, [partial(tracer.region, region, []) for region in op.regions])


def _while(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert a loop: to a counted loop if its number of iterations can be derived, else to a general one.

    A body with probes, which record a value of each iteration for checks after the loop, is always a general loop.
    """
    if probes := probes_of_loop(op):
        return while_with_probes(tracer, op, operands, probes)
    cond, body = op.regions
    if (counted := _counted(tracer, op, operands)) is not None:
        return counted

    def condition(carried: list[Tensor]) -> Tensor:
        """Return the truth value that the region computes for the carried tensors."""
        return tracer.region(cond, carried)[0]

    return control.while_(tracer.b, operands, condition, lambda carried: tracer.region(body, carried))


# -- counted loops


def _counted(tracer: StablehloTracer, op: Operation, operands: Sequence[Tensor]) -> list[Tensor] | None:
    """Convert a loop with the condition `counter < bound` whose counter increases by a constant; None for other loops.

    The counter is not carried as a tensor, but is an expression of the iteration's index, so that slices that begin at
    it have known bounds. The same holds for every scalar integer that begins with a known number or size and increases
    by a constant without an overflow: loop variable n is starts[n] + iteration * steps[n]. The loop variables with the
    indices `others` are carried from iteration to iteration.

    Example: `while(%i = 2, %x = %a)` with the condition %i < 10, whose body returns %i + 3 and f(%x), becomes a loop of
    3 iterations that carries x. In iteration k, %i is 2 + 3 * k; after the loop it is 11.

    Args:
        tracer: Tracer of the function.
        op: The `stablehlo.while`.
        operands: Initial values of the loop variables.
    """
    cond, body = op.regions
    condition = _condition(cond)
    if condition is None:
        return None
    counter, bound_value = condition  # index of the counter among the loop variables, and its bound
    # The variables that advance by a constant, with their starts and steps, and the number of iterations.
    starts = {
        n: numbers[0]
        for n, x in enumerate(operands)
        if x.rank == 0 and x.dtype.is_integer and (numbers := x.known_integers())
    }
    steps = {n: step for n in starts if (step := _step(tracer, body, n))}  # without variables that do not advance
    bound = _bound(tracer, bound_value, cond, body, operands)
    if counter not in steps or bound is None:
        return None
    distance: Any = bound - starts[counter]
    count = maximum(ceil_div(distance, steps[counter]), 0)
    # A variable that leaves its type wraps around, unlike a size: it is carried as a tensor.
    steps = {n: step for n, step in steps.items() if _holds(operands[n].dtype, starts[n] + count * step)}
    if counter not in steps:
        return None
    others = [n for n in range(len(operands)) if n not in steps]

    def arguments(iteration: Size, carried: list[Tensor]) -> list[Tensor]:
        """Return all loop variables at the start of an iteration: carried tensors, and numbers with a known step."""
        by_index = dict(zip(others, carried, strict=True))
        # `_number` returns the number as a constant of the type of x.
        return [
            by_index[n] if n in by_index else _number(starts[n] + iteration * steps[n], x)
            for n, x in enumerate(operands)
        ]

    def iteration(index: Size, carried: list[Tensor]) -> list[Tensor]:
        """Run the body, and return the loop variables that are carried as tensors, those with the indices `others`."""
        results = tracer.region(body, arguments(index, carried))
        return [results[n] for n in others]

    results = control.for_(tracer.b, count, [operands[n] for n in others], iteration)
    return arguments(count, results)  # what a further iteration would begin with is what the loop returns


def _holds(dtype: DType, value: Size) -> bool:
    """Return whether an integer type has a number that is not below its range; sizes of calls fit 32 bits and more."""
    return dtype.bits >= 32 if isinstance(value, Expr) else value <= largest(dtype)


def _number(value: Size, like: Tensor) -> Tensor:
    """Return a size as a scalar constant of the type of another tensor; its element may be a symbolic size."""
    known: Any = np.empty((), dtype=object)
    known[()] = value
    return Tensor(like.dtype, (), known=known if isinstance(value, Expr) else known.astype(like.dtype.numpy))


def _condition(region: Region) -> tuple[int, SSAValue] | None:
    """Return (index, bound) if a region computes `counter < bound`, with its argument number `index` as the counter.

    Return None for other regions. Loop variables have the numbers of the region's arguments.
    """
    block = region.blocks.first
    terminator = block.last_op if block is not None else None
    if block is None or terminator is None or len(terminator.operands) != 1:
        return None
    test = terminator.operands[0].owner
    direction: Any = getattr(test, "properties", {}).get("comparison_direction")
    if not isinstance(test, Operation) or direction is None or direction.data != "LT":
        return None
    left, right = test.operands
    if not isinstance(left, BlockArgument) or left.owner is not block:
        return None
    return left.index, right


def _bound(
    tracer: StablehloTracer, value: SSAValue, cond: Region, body: Region, operands: Sequence[Tensor]
) -> Size | None:
    """Return the bound of a loop as a size, or None if it is not known: it must be a loop variable that the body
    returns unchanged, a constant in the condition, or a value from outside of the loop.

    value: the bound in the region `cond`, the condition. body: the other region of the loop. operands: initial values
    of the loop variables.
    """
    if isinstance(value, BlockArgument) and value.owner is cond.blocks[0]:  # a loop variable
        terminator: Any = body.blocks[0].last_op
        if terminator.operands[value.index] is not body.blocks[0].args[value.index]:  # the body changes it
            return None
        numbers = operands[value.index].known_integers()
    elif isinstance(value, OpResult) and value.owner.parent is cond.blocks[0]:  # computed in the condition
        if value.owner.name != "stablehlo.constant":
            return None
        numbers = tracer.constant(value.owner).known_integers()
    else:
        numbers = tracer.value(value).known_integers()
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


# Levels of called functions in which the step of a loop's counter is looked up. A deeper step makes a general loop.
_MAX_CALL_DEPTH = 8
Frame = Mapping[SSAValue, SSAValue]
"""Arguments of the called functions that the analysis has entered -> the operands that they were called with."""


def _step(tracer: StablehloTracer, body: Region, index: int) -> int | None:
    """Return the constant, above 0, that an iteration adds to loop variable `index`; else None."""
    block = body.blocks[0]
    terminator: Any = block.last_op
    # The analysis starts in the body, outside of any call: `frame` maps no arguments of called functions.
    return _added(tracer, terminator.operands[index], block.args[index], frame={}, depth=0)


def _added(tracer: StablehloTracer, value: SSAValue, argument: SSAValue, frame: Frame, depth: int) -> int | None:
    """Return the constant, above 0, that `value` exceeds `argument` by; else None.

    The constant is 3 for `stablehlo.add %i, %c` and %c = 3, with the operands in either order, and for `call @f(%i)` if
    @f returns such a sum of its argument. Copies of %i are followed to their source.

    Args:
        tracer: Tracer of the function, which knows the called functions.
        value: Next value of a loop variable: in the body, or in a function that the body calls.
        argument: The loop variable at the start of an iteration, an argument of the body.
        frame: Arguments of the called function that contains `value` -> the operands of its call, with copies followed
            to their source; empty for the body itself.
        depth: Number of calls that enclose `value`, limited because functions may call each other in a circle.
    """
    value = _source(value, frame)  # without copies
    if not isinstance(value, OpResult) or depth > _MAX_CALL_DEPTH:
        return None
    op = value.owner
    if isinstance(op, func.CallOp):  # continue with the value that the callee returns for it
        callee = tracer.functions.get(callee_of(op))
        inner: Block | None = callee.body.blocks.first if callee is not None else None
        if inner is None or inner.last_op is None or len(inner.args) != len(op.operands):
            return None
        passed: dict[SSAValue, SSAValue] = {a: _source(v, frame) for a, v in zip(inner.args, op.operands, strict=True)}
        return _added(tracer, inner.last_op.operands[value.index], argument, passed, depth + 1)
    # A sum of the argument and a constant.
    if op.name != "stablehlo.add":
        return None
    sides = [_source(operand, frame) for operand in op.operands]
    if argument not in sides:
        return None
    other = sides[1 - sides.index(argument)]
    if not isinstance(other, OpResult) or other.owner.name != "stablehlo.constant":
        return None
    numbers = tracer.constant(other.owner).known_integers()
    step = numbers[0] if numbers is not None and len(numbers) == 1 else None
    return step if isinstance(step, int) and step > 0 else None


def _source(value: SSAValue, frame: Frame) -> SSAValue:
    """Return the original of a value that may be a copy; a value that is no copy is returned unchanged.

    Conversions and reshapes (_PASSED_ON) that do not change the type are replaced by their operand. Arguments of called
    functions are replaced by the operands of the call, which `frame` has.
    """
    while True:
        if value in frame:
            value = frame[value]
        elif (
            isinstance(value, OpResult)
            and value.owner.name in _PASSED_ON
            and (value.owner.operands[0].type == value.type)
        ):
            value = value.owner.operands[0]
        else:
            return value


# -- operations that forward their operands


def same_operands(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Return the operands unchanged: the operation only states an order or where tensors are stored."""
    return operands


ROWS: dict[str, Convert] = {
    "sdy.sharding_constraint": same_operands,
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.optimization_barrier": same_operands,
    "stablehlo.while": _while,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
