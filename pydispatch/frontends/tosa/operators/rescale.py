"""Conversion of the rescaling of quantized integers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.tosa.operators.fixed_point import scaled
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import DTYPES, I32, I64, DType, Kind
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reductions import largest, least


def _unsigned(dtype: DType) -> DType:
    """Return the unsigned type of the same width as a signed one; any other type itself."""
    return DTYPES[f"u{dtype.bits}"] if dtype.kind is Kind.INT else dtype


def _zero_point(
    tracer: TosaTracer, op: Operation, inputs: Sequence[Tensor], at: int, name: str, unsigned: bool
) -> Tensor:
    """Return a zero point as an i64 scalar.

    at: index of the operand that holds it. name: its attribute in older releases, which have no such operand.
    unsigned: whether the bits of the operand are those of an unsigned number; an attribute has the number itself.
    """
    zero = shapes.reshape(tracer.b, tracer.zero_point(op, inputs, at, name, dtype=I32), [])
    read_as = _unsigned(zero.dtype) if unsigned and at < len(inputs) else zero.dtype
    return formula(tracer.b, lambda n: n.bitcast(read_as).to(I64), zero)


def _factors(
    tracer: TosaTracer, op: Operation, inputs: Sequence[Tensor], index: int, name: str, per_channel: bool
) -> Tensor:
    """Return the multipliers or shifts: with `per_channel` a vector along the last axis of inputs[0], else a scalar.

    index: operand that holds them. name: their attribute in older releases, "multiplier" or "shift". One number may
    stand for all channels. inputs[0]: the tensor that is rescaled.
    """
    factors = inputs[index] if index < len(inputs) else tracer.b.constant(list(tracer.integers(op, name)), I64)
    channels = inputs[0].shape[-1:] if per_channel else (1,)
    tracer.require_rank(factors, 1, f"the {name}")
    if factors.shape != channels and not (per_channel and factors.shape == (1,)):
        raise tracer.b.fail(f"the {name} is {factors}, expected {channels[0] if channels else 1} number(s)")
    return factors if per_channel and inputs[0].rank else shapes.reshape(tracer.b, factors, [])


def _rescale(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return integers of another scale: (value - input zero point) * multiplier / 2**shift + output zero point,
    saturated.

    Example: value 10, input zero point 2, multiplier 2**30, shift 31 and output zero point -1 give 8 / 2 - 1 = 3.

    The operands multiplier and shift have one number, or one per channel (the last axis). The integers are signless:
    the attributes `input_unsigned` and `output_unsigned` say that the bits of the operand, or of the result, are those
    of an unsigned number. So the bits 0xFF of an i8 are 255 with `input_unsigned`, else -1.

    Raise CompileError if the types are no integers, or DOUBLE_ROUND is stated for multipliers of 16 bits.
    """
    dtype, source = tracer.dtype(op), inputs[0].dtype
    if not (dtype.is_integer and source.is_integer):
        raise tracer.b.fail(f"integers are rescaled, got {inputs[0]} to {dtype}")
    unsigned_in, unsigned_out = (bool(tracer.integer(op, name, 0)) for name in ("input_unsigned", "output_unsigned"))
    # `double_round` is the attribute of older releases.
    double_round = tracer.word(op, "rounding_mode", "") == "DOUBLE_ROUND" or bool(tracer.integer(op, "double_round", 0))
    has_32_bit_multipliers = bool(tracer.integer(op, "scale32", 1))  # false: 16 bits
    if double_round and not has_32_bit_multipliers:
        raise tracer.b.fail("DOUBLE_ROUND needs scale32 = true")
    per_channel = bool(tracer.integer(op, "per_channel", 0))
    operand_type = _unsigned(source) if unsigned_in else source
    target = _unsigned(dtype) if unsigned_out else dtype
    low, high = int(least(target)), int(largest(target))

    def rescaled(u: Element, multiplier: Element, shift: Element, zero: Element, out: Element) -> Element:
        """Return the result for one element. zero: zero point of the operand. out: zero point of the result."""
        value = u.bitcast(operand_type).to(I64) - zero
        value = scaled(value, multiplier.to(I64), shift.to(I64), double_round) + out
        return value.max(low).min(high).to(dtype)

    # Scalars, or vectors that are broadcast along the last axis.
    factors = [_factors(tracer, op, inputs, at, name, per_channel) for at, name in ((1, "multiplier"), (2, "shift"))]
    zeros = [
        _zero_point(tracer, op, inputs, at=3, name="input_zp", unsigned=unsigned_in),
        _zero_point(tracer, op, inputs, at=4, name="output_zp", unsigned=unsigned_out),
    ]
    return formula(tracer.b, rescaled, inputs[0], *factors, *zeros)


ROWS: dict[str, Convert] = {"tosa.rescale": _rescale}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
