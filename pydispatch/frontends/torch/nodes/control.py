"""Choices and loops over graphs."""

from __future__ import annotations

from typing import Any

from pydispatch.frontends.graph.dtypes import BOOL
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import control, shapes
from pydispatch.frontends.torch.arguments import shown
from pydispatch.frontends.torch.promotion import Operand, Operands, as_tensor
from pydispatch.frontends.torch.schema import Graph, Other
from pydispatch.frontends.torch.trace import Conversion, Tracer


def cond(t: Tracer, predicate: Operand, then: Graph, otherwise: Graph, operands: Operands = ()) -> tuple[Tensor, ...]:
    condition = as_tensor(t, predicate, BOOL)
    given = list(operands)
    made = control.if_(t.b, condition, lambda: t.tensors(then, given), lambda: t.tensors(otherwise, given))
    return tuple(made)


def while_loop(t: Tracer, test: Graph, body: Graph, carried: Operands, extra: Operands = ()) -> tuple[Tensor, ...]:
    first, more = [as_tensor(t, x) for x in carried], list(extra)

    def holds(now: list[Tensor]) -> Tensor:
        (found,) = t.tensors(test, [*now, *more])
        return found

    return tuple(control.while_(t.b, first, holds, lambda now: t.tensors(body, [*now, *more])))


def scan(t: Tracer, body: Graph, init: Operands, xs: Operands, extra: Operands = ()) -> tuple[Tensor, ...]:
    """body(carried..., a slice of each x..., extra...) -> the next carried, then a slice of each result."""
    carried, rows, more = [as_tensor(t, x) for x in init], [as_tensor(t, x) for x in xs], list(extra)
    return _over_rows(t, body, carried, rows, more)


def map_(t: Tracer, body: Graph, xs: Operands, extra: Operands = ()) -> tuple[Tensor, ...]:
    return _over_rows(t, body, [], [as_tensor(t, x) for x in xs], list(extra))


def with_effects(t: Tracer, token: Tensor, operator: Any, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
    """Return the token that orders calls with effects, and no result of the call.

    The only such calls are checks, which are not part of a program, as those of exported programs are not.
    """
    if not isinstance(operator, Other) or operator.text not in _CHECKS:
        raise t.b.fail(f"operator {shown(operator)} has effects, which a program does not have")
    return token, None


_CHECKS = ("aten._linalg_check_errors.default",)


def _over_rows(
    t: Tracer, body: Graph, carried: list[Tensor], rows: list[Tensor], more: list[Operand]
) -> tuple[Tensor, ...]:
    if not rows:
        raise t.b.fail("a scan over nothing")
    count, kept = rows[0].shape[0], len(carried)

    def step(number: Size, now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        slices = [shapes.squeeze(t.b, shapes.slice_axis(t.b, x, 0, number, number + 1), [0]) for x in rows]
        made = list(t.tensors(body, [*now, *slices, *more]))
        return made[:kept], made[kept:]

    ends, stacks = control.scan(t.b, count, carried, step)
    return *ends, *stacks


CONTROL: dict[str, Conversion] = {
    "higher_order.cond": cond,
    "higher_order.with_effects": with_effects,
    "higher_order.while_loop": while_loop,
    "higher_order.scan": scan,
    "higher_order.map_impl": map_,
}
