"""Conversions of signal processing operators: Fourier transforms, window functions, mel filters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.graph.dtypes import C64, C128, F32, I64
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, fourier, gathers, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula

_MAX_LENGTH = 1 << 24  # bounds the tables of factors that a transform of this length needs


def _complex(call: NodeCall, x: Tensor) -> Tensor:
    """Return x [..., 1] as real numbers [...], or x [..., 2] as complex numbers [...]."""
    b, last = call.b, x.rank - 1
    count = x.shape[last] if x.rank > 1 else 0
    if isinstance(count, Expr) or count not in (1, 2):
        raise call.fail(f"its operand is {x}; expected a last axis of 1 or 2")
    parts = [shapes.reshape(b, shapes.slice_axis(b, x, last, n, n + 1), x.shape[:last]) for n in range(count)]
    if len(parts) == 1:
        return parts[0]
    return b.wrap(C128 if x.dtype.bits == 64 else C64, parts[0].shape, *(b.value(p) for p in parts))


def _pairs(call: NodeCall, x: Tensor) -> Tensor:
    """Return complex numbers [...] as real and imaginary parts [..., 2]."""
    parts = [call.b.wrap(x.dtype.real, x.shape, part) for part in call.b.parts(x)]
    return shapes.stack(call.b, parts, x.rank)


def _length(call: NodeCall, of: Tensor, what: str) -> int:
    """Return a constant operand as a length. Raise CompileError if it is computed or not from 1 to _MAX_LENGTH; `what`
    names it.
    """
    length = int(call.numbers(of, what).reshape(-1)[0])
    if not 1 <= length <= _MAX_LENGTH:
        raise call.fail(f"its {what} is {length}")
    return length


def _fft(call: NodeCall, x: Tensor, axis: int, length: int | None, inverse: bool, one_sided: bool) -> Tensor:
    """Return the Fourier transform of x along an axis.

    The axis is first cropped or zero-padded to `length`, unless that is None. With `one_sided`, only the size // 2 + 1
    non-redundant frequencies of a real signal are returned.
    """
    b, size = call.b, x.shape[axis]
    if length is not None and length != size:
        if isinstance(size, Expr):
            raise call.fail(f"axis {axis} of {x} has a size that calls decide")
        if size > length:
            x = shapes.slice_axis(b, x, axis, 0, length)
        else:
            x = shapes.pad(b, x, [0] * x.rank, [length - size if d == axis else 0 for d in range(x.rank)], 0.0)
    spectrum = fourier.fft(b, x, axis, inverse)
    size = x.shape[axis]
    return shapes.slice_axis(b, spectrum, axis, 0, size // 2 + 1) if one_sided else spectrum


def _dft(call: NodeCall, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    """Return the Fourier transform of x, which is [..., 1] if real and [..., 2] if complex, as pairs [..., 2]."""
    if call.version < 20:
        which = call.integer("axis", 1)
    else:
        which = -2 if axis is None else int(call.numbers(axis, "axis").reshape(-1)[0])
    along = call.axis(which, x.rank)
    inverse, one_sided = call.flag("inverse"), call.flag("onesided")
    if along == x.rank - 1 or (inverse and one_sided):
        raise call.fail("an inverse transform of one side, or one along the last axis, is not supported")
    count = None if length is None else _length(call, length, "dft_length")
    return _pairs(call, _fft(call, _complex(call, x), along, count, inverse, one_sided))


def _stft(
    call: NodeCall, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None
) -> Tensor:
    """Return the short-time Fourier transform of signals x [batch, length, 1 or 2] as [batch, frames,
    frequencies, 2].
    """
    b = call.b
    signal = _complex(call, x)
    total, hop = signal.shape[1], _length(call, step, "frame_step")
    if length is not None:
        size = _length(call, length, "frame_length")
    else:
        known = window.shape[0] if window is not None else total
        if isinstance(known, Expr):
            raise call.fail("the length of its window must be known")
        size = known
    if isinstance(total, Expr) or total < size:
        raise call.fail(f"its signal {x} is shorter than {size}, or has a length that calls decide")
    frames = 1 + (total - size) // hop
    positions = hop * np.arange(frames)[:, None] + np.arange(size)[None, :]
    parts = [b.wrap(signal.dtype.real, signal.shape, part) for part in b.parts(signal)]
    frame_parts = [gathers.take(b, part, b.constant(positions), 1) for part in parts]
    if window is not None:
        frame_parts = [elementwise.binary(b, "mul", t, window) for t in frame_parts]
    if len(frame_parts) == 1:
        framed = frame_parts[0]
    else:
        framed = b.wrap(signal.dtype, frame_parts[0].shape, *(b.value(t) for t in frame_parts))
    return _pairs(call, _fft(call, framed, 2, None, False, call.flag("onesided", True)))


def _window(factors: Sequence[float]) -> Conversion:
    """Return the conversion of a window function that is a sum of cosines.

    `factors` are those of the constant, of the cosine with one period in the window, of the cosine with two periods.
    """

    def convert(call: NodeCall, size: Tensor) -> Tensor:
        to, periodic = dtype_of(call.integer("output_datatype", 1)), call.flag("periodic", True)
        (count,) = call.sizes(size, "size")
        length = reductions.size_as(call.b, count if periodic else count - 1, I64)

        def written(i: Element, n: Element) -> Element:
            angle = i.to(F32) * (2 * math.pi) / n.to(F32)
            total = angle * 0.0 + factors[0]
            for harmonic, factor in enumerate(factors[1:], 1):
                total = total + (angle * float(harmonic)).unary("cos") * factor
            return total

        return cast_to(call, formula(call.b, written, shapes.iota(call.b, [count], 0, I64), length), to)

    return convert


def _mel_weights(call: NodeCall, bins: Tensor, length: Tensor, rate: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
    """Return a matrix [frequencies, bins] of triangular filters that are evenly spaced on the mel scale."""
    to = dtype_of(call.integer("output_datatype", 1))
    count, size = _length(call, bins, "num_mel_bins"), _length(call, length, "dft_length")
    samples = _length(call, rate, "sample_rate")
    low, high = (float(call.numbers(t, "an edge").reshape(-1)[0]) for t in (lowest, highest))
    if count > 1 << 16 or size > 1 << 20:
        raise call.fail(f"a matrix for {count} bins of {size} is too large")
    mels = [2595 * math.log10(1 + hertz / 700) for hertz in (low, high)]
    edges = mels[0] + np.arange(count + 2) * (mels[1] - mels[0]) / (count + 2)
    positions = ((size + 1) * 700 * (10 ** (edges / 2595) - 1) // samples).astype(np.int64)
    rows = np.arange(size // 2 + 1)[:, None]
    left, middle, right = positions[:-2], positions[1:-1], positions[2:]
    with np.errstate(all="ignore"):
        rising = np.where(middle == left, 1.0, (rows - left) / (middle - left))
        falling = (right - rows) / (right - middle)
    weights = np.where((rows >= left) & (rows <= middle), rising, 0.0)
    weights = np.where((rows >= middle) & (rows < right), falling, weights)
    return call.b.constant(weights, to)


TABLE: dict[str, Conversion] = {
    "DFT": _dft,
    "STFT": _stft,
    "HannWindow": _window((0.5, -0.5)),
    "HammingWindow": _window((25 / 46, -21 / 46)),
    "BlackmanWindow": _window((0.42, -0.5, 0.08)),
    "MelWeightMatrix": _mel_weights,
}
