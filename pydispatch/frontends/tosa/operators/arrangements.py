"""Constants, and the same elements in another arrangement."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.ir import Operation

from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import indexing, shapes
from pydispatch.frontends.ops.custom import custom_call
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer
from pydispatch.frontends.tosa.types import dtype_of, shape_of


def _concat(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    return shapes.concat(t.b, x, t.axis(op, x[0]))


def _pad(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    amounts = t.listed(op, x, 1, "padding", 2 * x[0].rank)
    if any(not isinstance(n, Expr) and n < 0 for n in amounts):
        raise t.b.fail(f"the padding {amounts} has a negative number")
    value: Tensor = x[2] if len(x) > 2 else t.zero_point(op, [], 0, "input_zp", x[0].dtype)
    t.same_type(x[0], value)
    return shapes.pad(t.b, x[0], amounts[::2], amounts[1::2], value)


def _reshape(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    sizes = t.listed(op, x, 1, "new_shape")
    declared = shape_of(op.results[0].type)
    if sizes.count(-1) > 1 and declared is not None and len(declared) == len(sizes):
        sizes = [n if n != -1 or m is None else m for n, m in zip(sizes, declared, strict=True)]
    return shapes.reshape(t.b, x[0], sizes)


def _reverse(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    return indexing.reverse(t.b, x[0], [t.axis(op, x[0])])


def _slice(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    starts, sizes = (t.listed(op, x, at, name, x[0].rank) for at, name in ((1, "start"), (2, "size")))
    limits: list[Size] = [
        whole if size == -1 else start + size for start, size, whole in zip(starts, sizes, x[0].shape, strict=True)
    ]
    return shapes.slice_(t.b, x[0], starts, limits)


def _tile(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    repeats = t.listed(op, x, 1, "multiples", x[0].rank)
    if any(not isinstance(n, Expr) and n < 0 for n in repeats):
        raise t.b.fail(f"the multiples {repeats} have a negative number")
    return shapes.tile(t.b, x[0], repeats)


def _transpose(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    order = t.listed(op, x, 1, "perms", x[0].rank)
    return shapes.transpose(t.b, x[0], [n for n in order if isinstance(n, int)])


def _call(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    assert isinstance(op, func.CallOp)
    return t.call(op.callee.root_reference.data, x)


def _custom(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """Call the kernel `domain::operator`, or `operator` without a domain, and return its results."""
    name, domain = t.text(op, "operator_name", "identifier"), t.text(op, "domain_name", "config")
    results: list[Any] = []
    for result in op.results:
        declared = shape_of(result.type)
        like = next((y.shape for y in x if declared is not None and y.rank == len(declared)), None)
        if declared is None or (None in declared and like is None):
            raise t.b.fail(f"the sizes of a result of '{name}' are not known: its type is {result.type}")
        shape = tuple((like or ())[axis] if n is None else n for axis, n in enumerate(declared))
        results.append((dtype_of(result.type), shape))
    return custom_call(t.b, f"{domain}::{name}" if domain else name, x, results)


ROWS: dict[str, Convert] = {
    "tosa.const": lambda t, op, x: t.constant(op), "arith.constant": lambda t, op, x: t.constant(op),
    "tensor.cast": lambda t, op, x: x[0], "tosa.concat": _concat, "tosa.pad": _pad, "tosa.reshape": _reshape,
    "tosa.reverse": _reverse, "tosa.slice": _slice, "tosa.tile": _tile, "tosa.transpose": _transpose,
    "func.call": _call, "tosa.custom": _custom,
}  # fmt: skip
