"""Quantized integers in another scale."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import DTYPES, I32, I64, DType, Kind
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.reductions import largest, least
from pydispatch.frontends.tosa.operators.fixed_point import scaled
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer


def _unsigned(dtype: DType) -> DType:
    return DTYPES[f"u{dtype.bits}"] if dtype.kind is Kind.INT else dtype


def _number(t: Tracer, op: Operation, x: list[Tensor], at: int, name: str, unsigned: bool) -> Tensor:
    """Return a zero point as i64: a tensor without axes."""
    zero = shapes.reshape(t.b, t.zero_point(op, x, at, name, I32), [])
    seen = _unsigned(zero.dtype) if unsigned and at < len(x) else zero.dtype
    return formula(t.b, lambda n: n.bits(seen).to(I64), zero)


def _factors(t: Tracer, op: Operation, x: list[Tensor], at: int, name: str, per_channel: bool) -> Tensor:
    """Return the multipliers or the shifts, along the last axis of the values or without axes."""
    found = x[at] if at < len(x) else t.b.constant(list(t.numbers(op, name)), I64)
    channels = x[0].shape[-1:] if per_channel else (1,)
    t.rank(found, 1, f"the {name}")
    if found.shape != channels and not (per_channel and found.shape == (1,)):
        raise t.b.fail(f"the {name} is {found}, expected {channels[0] if channels else 1} number(s)")
    return found if per_channel and x[0].rank else shapes.reshape(t.b, found, [])


def _rescale(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    dtype, given = t.dtype(op), x[0].dtype
    if not (dtype.is_integer and given.is_integer):
        raise t.b.fail(f"integers are rescaled, got {x[0]} to {dtype}")
    unsigned_in, unsigned_out = (bool(t.number(op, name, 0)) for name in ("input_unsigned", "output_unsigned"))
    double = t.word(op, "rounding_mode", "") == "DOUBLE_ROUND" or bool(t.number(op, "double_round", 0))
    wide = bool(t.number(op, "scale32", 1))
    if double and not wide:
        raise t.b.fail("DOUBLE_ROUND needs scale32 = true")
    per_channel = bool(t.number(op, "per_channel", 0))
    seen = _unsigned(given) if unsigned_in else given
    made = _unsigned(dtype) if unsigned_out else dtype
    low, high = int(least(made)), int(largest(made))

    def rescaled(u: Element, multiplier: Element, shift: Element, zero: Element, out: Element) -> Element:
        value = u.bits(seen).to(I64) - zero
        value = scaled(value, multiplier.to(I64), shift.to(I64), double) + out
        return value.at_least(low).at_most(high).to(dtype)

    factors = [_factors(t, op, x, at, name, per_channel) for at, name in ((1, "multiplier"), (2, "shift"))]
    zeros = [_number(t, op, x, 3, "input_zp", unsigned_in), _number(t, op, x, 4, "output_zp", unsigned_out)]
    return formula(t.b, rescaled, x[0], *factors, *zeros)


ROWS: dict[str, Convert] = {"tosa.rescale": _rescale}
