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
    """Record a function, and then the gradients of its results by its inputs.

    Args:
        trace: Builder of the program.
        inputs: Tensors of floats.
        function: Records the function of the inputs, and returns its results.
        seeds: Returns the cotangent of each result, of its type and shape.

    Returns:
        The results, and for each input the sum over results of their cotangents times their derivatives.

    Raises:
        CompileError: An operation that depends on an input has no derivative; the error has its line.
    """
    # Markers give the inputs identities of their own: the same tensor may be two of them, or be used elsewhere.
    markers = [trace.add(UnrealizedConversionCastOp.get([value], [value.type])) for value in map(trace.value, inputs)]
    marked = [trace.wrap(of.dtype, of.shape, marker.results[0]) for of, marker in zip(inputs, markers, strict=True)]
    trace.differentiations += 1
    try:
        results = function(marked)
    finally:
        trace.differentiations -= 1
    recorded = _operations_after(markers[-1])
    starts = [(trace.value(of), seed) for of, seed in zip(results, seeds(results), strict=True)]
    cotangents = Cotangents(trace, [trace.value(of) for of in marked], RULES)
    cotangents.pull_back(recorded, starts)
    gradients = [cotangents.of(trace.value(of)) or cotangents.zeros(trace.value(of)) for of in marked]
    for marker in markers:
        trace.replace(marker, marker.inputs)
    # Markers of functions with rules of their own stay for enclosing differentiations, which read them too.
    if trace.differentiations == 0:
        erase_markers(trace)
    return results, gradients


def _operations_after(op: Operation) -> list[Operation]:
    """Return the operations of a block after one of them."""
    following = []
    while (after := op.next_op) is not None:
        following.append(op := after)
    return following
