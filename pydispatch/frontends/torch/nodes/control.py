"""Conversions of conditions and loops, whose branches and bodies are nested graphs."""

from __future__ import annotations

from pydispatch.frontends.torch.promotion import Operand, Operands, as_tensor
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.schema import ExportedGraph
from pydispatch.frontends.torch.trace import Tracer
from pydispatch.graph.dtypes import BOOL
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, shapes, slicing


@converts("higher_order.cond")
def cond(
    tracer: Tracer, predicate: Operand, then: ExportedGraph, otherwise: ExportedGraph, operands: Operands = ()
) -> tuple[Tensor, ...]:
    """Run `then` if the predicate is true, else `otherwise`, with the same operands, and return its results."""
    condition = as_tensor(tracer.b, predicate, BOOL)
    tensors = list(operands)
    results = control.if_(
        tracer.b, condition, lambda: tracer.tensors(then, tensors), lambda: tracer.tensors(otherwise, tensors)
    )
    return tuple(results)


@converts("higher_order.while_loop")
def while_loop(
    tracer: Tracer, test: ExportedGraph, body: ExportedGraph, carried: Operands, extra: Operands = ()
) -> tuple[Tensor, ...]:
    """Run `body` as long as `test` holds, and return the final carried tensors.

    Both graphs are passed the carried tensors, then `extra`, which stays the same. `body` returns the next carried
    tensors.
    """
    initial, invariants = [as_tensor(tracer.b, x) for x in carried], list(extra)

    def holds(current: list[Tensor]) -> Tensor:
        """Return the result of `test`, one truth value, for the current carried tensors."""
        (truth,) = tracer.tensors(test, [*current, *invariants])
        return truth

    return tuple(
        control.while_(tracer.b, initial, holds, lambda current: tracer.tensors(body, [*current, *invariants]))
    )


@converts("higher_order.scan")
def scan(tracer: Tracer, body: ExportedGraph, init: Operands, xs: Operands, extra: Operands = ()) -> tuple[Tensor, ...]:
    """Run body(carried..., a slice of each x..., extra...) -> (next carried..., a slice of each result...) over all
    slices along the first axis of xs.

    Return the final carried tensors, which begin as `init`, and the slices of results, stacked along a new first axis.
    """
    carried, scanned = ([as_tensor(tracer.b, x) for x in tensors] for tensors in (init, xs))
    return _scan_rows(tracer, body, carried, scanned, invariants=list(extra))


@converts("higher_order.map_impl")
def map_(tracer: Tracer, body: ExportedGraph, xs: Operands, extra: Operands = ()) -> tuple[Tensor, ...]:
    """Run body(a slice of each x..., extra...) for all slices along the first axis of xs, and stack the results."""
    scanned = [as_tensor(tracer.b, x) for x in xs]
    return _scan_rows(tracer, body, carried=[], scanned=scanned, invariants=list(extra))


def _scan_rows(
    tracer: Tracer, body: ExportedGraph, carried: list[Tensor], scanned: list[Tensor], invariants: list[Operand]
) -> tuple[Tensor, ...]:
    """Run `body` for each slice along the first axis of the `scanned` tensors.

    A run of `body` is passed the carried tensors, the slices, and `invariants`, in this order. The carried tensors of
    the first run are `carried`. The run returns the carried tensors of the next run, followed by other results.

    Return the final carried tensors, then the other results of all runs, stacked along a new first axis.

    Raise CompileError if there are no `scanned` tensors, which state the number of runs.
    """
    if not scanned:
        raise tracer.b.fail("a scan without scanned tensors, whose first axis states the number of its steps")
    count, carried_count = scanned[0].shape[0], len(carried)

    def step(index: Size, carried_now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Run `body` for the slices at `index`. Return the next carried tensors, and the results to stack."""
        slices = [
            shapes.squeeze(tracer.b, slicing.slice_axis(tracer.b, x, axis=0, start=index, limit=index + 1), axes=[0])
            for x in scanned
        ]
        results = list(tracer.tensors(body, [*carried_now, *slices, *invariants]))
        return results[:carried_count], results[carried_count:]

    ends, stacks = control.scan(tracer.b, count, carried, step)
    return *ends, *stacks
