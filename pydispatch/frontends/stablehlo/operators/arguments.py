"""Recognition of `jax.numpy.argmax` and `argmin`: reductions of pairs of an element and its index by a region."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, OpResult, Region, SSAValue

from pydispatch.frontends.stablehlo.operators.elementwise import comparison
from pydispatch.frontends.stablehlo.tracer import StablehloTracer
from pydispatch.graph.dtypes import Kind
from pydispatch.graph.values import Tensor
from pydispatch.operations import reductions

BETTER = {"max": "gt", "min": "lt"}
"""Reduction -> the comparison for which the running element stays: `running gt other` for a maximum."""


def argument_of(
    tracer: StablehloTracer, op: Operation, tensors: Sequence[Tensor], starts: Sequence[Tensor], axes: Sequence[int]
) -> list[Tensor] | None:
    """Return the results of a reduction that JAX writes for `argmax` or `argmin`, of which only the index is used; None
    for another reduction.

    JAX reduces pairs of an element and its index by a region: for the argmax of x f32[5] along axis 0,

        %i = stablehlo.iota dim = 0 : tensor<5xi32>
        %0:2 = stablehlo.reduce(%x init: -inf), (%i init: 0) across dimensions = [0] ...

    The two results become two reductions without pairs, whose loops are vectorized on CPUs: one of the elements to the
    extreme, and `reductions.arg_reduce`. As in JAX, the index is that of the first NaN, or without NaN that of the
    first of equal elements.

    Args:
        tracer: Tracer of the function.
        op: The reduction.
        tensors: Its tensors; for `argmax` the elements and their indices.
        starts: Their initial values, of rank 0.
        axes: The axes that are reduced.
    """
    # Only pairs with indices along a single axis match, and only if the first result, the extreme, has no uses.
    if len(tensors) != 2 or len(axes) != 1 or op.results[0].uses or not _is_iota(tracer, op.operands[1], axes[0]):
        return None
    name = next((name for name in BETTER if _is_choice(tracer, op.regions[0], name)), None)
    values, (start, index) = tensors[0], starts
    size = values.shape[axes[0]]
    if name is None or values.dtype.kind is Kind.COMPLEX or not isinstance(size, int) or size < 1:
        return None
    # A maximum begins with the least number and index 0. Another initial value might itself be the result.
    worst = {"max": reductions.least, "min": reductions.largest}[name](values.dtype)
    # `_number`: the initial value if it is constant, else None.
    if _number(start) != worst or _number(index) != 0:
        return None
    extreme = reductions.reduce(tracer.b, name, values, axes)  # the first result: not used, but it must exist
    return [extreme, reductions.arg_reduce(tracer.b, name, values, axes[0], dtype=tensors[1].dtype)]


def _number(start: Tensor) -> float | int | None:
    """Return the number that a reduction starts with, from its initial value of rank 0; None if it is not constant."""
    return None if start.numbers is None else start.numbers.reshape(-1)[0].item()


def _is_iota(tracer: StablehloTracer, value: SSAValue, axis: int) -> bool:
    """Return whether each element of a value is its own index along an axis."""
    op = value.op if isinstance(value, OpResult) else None
    return op is not None and op.name == "stablehlo.iota" and tracer.integer(op, "iota_dimension") == axis


def _is_choice(tracer: StablehloTracer, region: Region, name: str) -> bool:
    """Return whether a region of (element, index, other element, other index) has exactly the operations of JAX.

    They keep the element if it is better or NaN, and the index also if the elements are equal and it is smaller:

        keeps = value better other_value or value is NaN
        keeps_index = keeps or (value == other_value and index < other_index)
        return keeps ? value : other_value, keeps_index ? index : other_index

    name: "max" or "min". `expected` and `actual` list operations as (name, numbers of operands): arguments are 0 to 3,
    results count on from 4, and -1 is a value from outside of the region. An operation in another order is no match.
    """
    value, index, other_value, other_index = range(4)
    # The results are 4, 5, 6 (keeps); 7, 8, 9; 10 (keeps_index), 11; 12. "ne" of a value and itself is true for NaN.
    expected = [
        (BETTER[name], value, other_value), ("ne", value, value), ("or", 4, 5), ("eq", value, other_value),
        ("lt", index, other_index), ("and", 7, 8), ("or", 6, 9), ("select", 6, value, other_value),
        ("select", 10, index, other_index), ("return", 11, 12),
    ]  # fmt: skip
    block = region.block
    numbers: dict[SSAValue, int] = {argument: position for position, argument in enumerate(block.args)}
    actual = []
    for op in block.ops:
        kind, total_order = comparison(op) if op.name == "stablehlo.compare" else (op.name.split(".")[-1], None)
        if total_order is not None:  # an order in which NaN has a position, as in TOTALORDER
            return False
        actual.append((kind, *(numbers.get(operand, -1) for operand in op.operands)))
        numbers |= {result: len(numbers) for result in op.results}
    return len(block.args) == 4 and actual == expected
