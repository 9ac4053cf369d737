"""Conversions of constants, and of operations that rearrange elements."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.frontends.tosa.types import dtype_of, shape_of
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import indexing, shapes, slicing
from pydispatch.operations.custom import custom_call


def _pad(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Pad with a value by the numbers in `padding`: before axis 0, after it, before axis 1, and so on."""
    amounts = tracer.sizes_of(op, inputs, index=1, name="padding", count=2 * inputs[0].rank)
    if any(not isinstance(n, Expr) and n < 0 for n in amounts):
        raise tracer.b.fail(f"the padding {amounts} has a negative number")
    # Older releases have no operand for the value: they pad with the zero point, which `zero_point` reads from an
    # attribute, since it is passed no operands.
    value: Tensor = (
        inputs[2] if len(inputs) > 2 else tracer.zero_point(op, [], index=0, name="input_zp", dtype=inputs[0].dtype)
    )
    tracer.same_type(inputs[0], value)
    return slicing.pad(tracer.b, inputs[0], amounts[::2], amounts[1::2], value)


def _reshape(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Reshape to the sizes `new_shape`, of which one may be -1: it is computed from the number of elements.

    If several are -1, those whose size is static in the result's type are replaced by it.
    """
    sizes = tracer.sizes_of(op, inputs, index=1, name="new_shape")
    declared = shape_of(op.results[0].type)
    if sizes.count(-1) > 1 and declared is not None and len(declared) == len(sizes):
        sizes = [n if n != -1 or m is None else m for n, m in zip(sizes, declared, strict=True)]
    return shapes.reshape(tracer.b, inputs[0], sizes)


def _slice(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return, along each axis, `size` elements from `start` on; with the size -1, those up to the end of the axis."""
    starts, sizes = (tracer.sizes_of(op, inputs, at, name, inputs[0].rank) for at, name in ((1, "start"), (2, "size")))
    limits: list[Size] = [
        whole if size == -1 else start + size for start, size, whole in zip(starts, sizes, inputs[0].shape, strict=True)
    ]
    return slicing.slice_(tracer.b, inputs[0], starts, limits)


def _tile(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Repeat the whole tensor along each axis as often as `multiples` states."""
    repeats = tracer.sizes_of(op, inputs, index=1, name="multiples", count=inputs[0].rank)
    if any(not isinstance(n, Expr) and n < 0 for n in repeats):
        raise tracer.b.fail(f"the multiples {repeats} have a negative number")
    return shapes.tile(tracer.b, inputs[0], repeats)


def _transpose(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Permute the axes: axis d of the result is axis perms[d] of the operand."""
    order = tracer.sizes_of(op, inputs, index=1, name="perms", count=inputs[0].rank)
    return shapes.transpose(tracer.b, inputs[0], [n for n in order if isinstance(n, int)])


def _custom(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Emit a call of the user's kernel `domain::operator`, or `operator` without a domain, and return its results.

    A dynamic size of a result is taken from the first operand of the same rank.
    """
    # The second names are those of the attributes in older releases of TOSA.
    name, domain = tracer.text(op, "operator_name", "identifier"), tracer.text(op, "domain_name", "config")
    results: list[Any] = []
    for result in op.results:
        declared = shape_of(result.type)
        # The shape from which the dynamic sizes are taken.
        like = next((y.shape for y in inputs if declared is not None and y.rank == len(declared)), None)
        if declared is None or (None in declared and like is None):
            raise tracer.b.fail(f"the sizes of a result of '{name}' are not known: its type is {result.type}")
        shape = tuple((like or ())[axis] if n is None else n for axis, n in enumerate(declared))
        results.append((dtype_of(result.type), shape))
    return custom_call(tracer.b, f"{domain}::{name}" if domain else name, inputs, results)


ROWS: dict[str, Convert] = {
    "tosa.const": lambda t, op: t.constant(op),
    "arith.constant": lambda t, op: t.constant(op),
    "tensor.cast": lambda t, op, x: x,
    "tosa.concat": lambda t, op, *inputs: slicing.concat(t.b, inputs, t.axis(op, inputs[0])),
    "tosa.pad": _pad, "tosa.reshape": _reshape,
    "tosa.reverse": lambda t, op, x: indexing.reverse(t.b, x, [t.axis(op, x)]),
    "tosa.slice": _slice, "tosa.tile": _tile, "tosa.transpose": _transpose,
    "func.call": lambda t, op, *inputs: t.call(op.callee.root_reference.data, inputs),
    "tosa.custom": _custom,
}  # fmt: skip
"""Operations -> their conversions: convert(tracer, operation, operands...) -> results."""
