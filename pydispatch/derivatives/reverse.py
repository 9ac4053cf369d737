"""Reverse mode over the operations that a function records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents
from pydispatch.derivatives.rules.table import RULES
from pydispatch.derivatives.stated import erase_markers
from pydispatch.graph.values import Tensor
from pydispatch.programs.trace import Trace


def differentiated(
    trace: Trace,
    inputs: Sequence[Tensor],
    function: Callable[[list[Tensor]], list[Tensor]],
    seeds: Callable[[list[Tensor]], list[Tensor]],
) -> tuple[list[Tensor], list[Tensor]]:
    """Record a function, and then the gradients of its results with respect to its inputs.

    To record is to add operations to the program. With the input x, the function `lambda t: [t[0] * t[0]]` and the seed
    [d], the operations compute x * x and then d * x + d * x: ([x * x], [d * x + d * x]) is returned.

    Args:
        trace: Builder of the program.
        inputs: Tensors of floats.
        function: Is passed a tensor for each input, records the operations, and returns the results.
        seeds: Is passed the results, and returns the cotangent of each, of its type and shape.

    Returns:
        The results, and for each input its gradient: the sum over all results of their cotangents times their
        derivatives by the input.

    Raises:
        CompileError: An operation that depends on an input has no derivative; the error has its line.
    """
    # Record the function. A marker, a cast to the same type, gives each input a value of its own: one tensor may be two
    # inputs, or be used elsewhere.
    markers = [trace.add(UnrealizedConversionCastOp.get([value], [value.type])) for value in map(trace.value, inputs)]
    marked = [trace.wrap(of.dtype, of.shape, marker.results[0]) for of, marker in zip(inputs, markers, strict=True)]
    trace.differentiations += 1  # while it is not 0, calls of programs with stated derivatives are marked
    try:
        results = function(marked)
    finally:
        trace.differentiations -= 1
    # Record the gradients.
    recorded = _operations_after(markers[-1])
    starts = [(trace.value(of), seed) for of, seed in zip(results, seeds(results), strict=True)]
    cotangents = Cotangents(trace, [trace.value(of) for of in marked], RULES)
    cotangents.pull_back(recorded, starts)
    gradients = [cotangents.of(trace.value(of)) or cotangents.zeros(trace.value(of)) for of in marked]
    # Erase the markers: the inputs are used in their place. Calls of programs whose derivative the user has stated have
    # markers of their own (`derivatives/stated.py`). If `function` is differentiated within another function that is
    # differentiated, the outer one still reads them: the outermost erases them.
    for marker in markers:
        trace.replace(marker, marker.inputs)
    if trace.differentiations == 0:
        erase_markers(trace)
    return results, gradients


def _operations_after(op: Operation) -> list[Operation]:
    """Return the operations that follow an operation in its block, in order."""
    following = []
    after = op.next_op
    while after is not None:
        following.append(after)
        after = after.next_op
    return following
