"""Conversions of 2-D Fourier transforms over the last two axes."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import F32
from pydispatch.graph.values import Tensor
from pydispatch.operations.fourier import complex_of, parts_of, rfft, unscaled_transform


def _check(tracer: TosaTracer, x: Tensor) -> None:
    """Raise CompileError unless x is f32 of rank 3."""
    tracer.require_rank(x, 3)
    if x.dtype != F32:
        raise tracer.b.fail(f"Fourier transforms are of f32, got {x}")


def _fft2d(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the real and imaginary parts of the 2-D FFT of complex numbers, whose parts are the two operands.

    With the attribute `inverse` it is the inverse transform, which is not divided by the number of elements.
    """
    tracer.same_type(*inputs)
    _check(tracer, inputs[0])  # raises unless it is f32 of rank 3
    sign = 1 if tracer.integer(op, "inverse", default=0) else -1  # of the exponent of exp(±2πi·jk/n)
    x = complex_of(tracer.b, inputs[0], inputs[1])
    rows = unscaled_transform(tracer.b, x, axis=2, sign=sign)
    return parts_of(tracer.b, unscaled_transform(tracer.b, rows, axis=1, sign=sign))


def _rfft2d(tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Return the real and imaginary parts of the 2-D FFT of real numbers [n, height, width].

    They are [n, height, width // 2 + 1]: the other columns are conjugates of these.
    """
    _check(tracer, x)
    return parts_of(tracer.b, unscaled_transform(tracer.b, rfft(tracer.b, x, axis=2), axis=1, sign=-1))


ROWS: dict[str, Convert] = {"tosa.fft2d": _fft2d, "tosa.rfft2d": _rfft2d}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
