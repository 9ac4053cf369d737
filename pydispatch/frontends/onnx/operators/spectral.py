"""Conversions of signal processing operators: Fourier transforms, window functions, mel filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import C64, C128, F32, F64, I64
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, fourier, gathers, reductions, shapes, slicing
from pydispatch.operations.chosen_axes import ChosenAxes, as_rows
from pydispatch.operations.formulas import Element, formula

_MAX_LENGTH = 1 << 24  # bounds the tables of factors that a transform of this length needs


def _complex(call: NodeCall, x: Tensor) -> Tensor:
    """Return x [..., 1] as real numbers [...], or x [..., 2] as complex numbers [...]."""
    b, last = call.b, x.rank - 1
    count = x.shape[last] if x.rank > 1 else 0
    if isinstance(count, Expr) or count not in (1, 2):
        raise call.fail(f"its operand is {x}; expected a last axis of 1 or 2")
    parts = [shapes.reshape(b, slicing.slice_axis(b, x, last, n, n + 1), x.shape[:last]) for n in range(count)]
    if len(parts) == 1:
        return parts[0]
    return b.wrap(C128 if x.dtype.bits == 64 else C64, parts[0].shape, *(b.value(p) for p in parts))


def _pairs(call: NodeCall, x: Tensor) -> Tensor:
    """Return complex numbers [...] as real and imaginary parts [..., 2]."""
    parts = [call.b.wrap(x.dtype.real, x.shape, part) for part in call.b.parts(x)]
    return slicing.stack(call.b, parts, x.rank)


def _length(call: NodeCall, of: Tensor, what: str) -> Size:
    """Return a length, such as that of a transform, from an operand of one element; it must be at least 1.

    A constant length that is not from 1 to _MAX_LENGTH raises CompileError. A length that is computed when the program
    runs is only checked to be positive. `what` names the operand in errors.
    """
    (length,) = call.sizes(of, what)
    if not isinstance(length, Expr) and not 1 <= length <= _MAX_LENGTH:
        raise call.fail(f"its {what} is {length}; expected 1 to {_MAX_LENGTH}")
    call.b.require_positive(length, f"{call.node.op_type}: its {what} is 0")
    return length


def _fft(call: NodeCall, x: Tensor, axis: int, length: Size | None, inverse: bool, one_sided: bool) -> Tensor:
    """Return the Fourier transform of x along an axis.

    Args:
        call: The node.
        x: Real or complex tensor.
        axis: The axis, not negative.
        length: Size to which the axis is cropped or zero-padded first; None for its own size.
        inverse: Whether the inverse transform is computed.
        one_sided: Whether only the size // 2 + 1 non-redundant frequencies of a real signal are returned.
    """
    b, size = call.b, x.shape[axis]
    if length is not None and length != size:
        # Crop if the axis is longer than `length`, pad if it is shorter; for dynamic sizes this is known at run time
        # only. The size that results is an expression of minima and maxima, which equals `length`.
        x = slicing.slice_axis(b, x, axis, start=0, limit=minimum(size, length))
        missing = maximum(length - size, 0)
        x = slicing.pad(b, x, [0] * x.rank, [missing if d == axis else 0 for d in range(x.rank)], 0.0)
        x = b.as_shape(x, [*x.shape[:axis], length, *x.shape[axis + 1 :]])
    spectrum = fourier.fft(b, x, axis, inverse)
    size = x.shape[axis]
    return slicing.slice_axis(b, spectrum, axis, start=0, limit=size // 2 + 1) if one_sided else spectrum


@ONNX.converts("DFT")
def _dft(call: NodeCall, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    """Return the Fourier transform of x, which is [..., 1] if real and [..., 2] if complex, as pairs [..., 2].

    `length` is the size to which the axis is cropped or zero-padded. The axis is an attribute before version 20, and an
    operand since then, by default -2, the last axis before the pairs. For an axis that is computed at run time
    (ChosenAxes), x is reshaped to [before, axis, after], transformed, and reshaped back.

    Raise CompileError for an inverse transform of one side, and for one along the last axis, that of the pairs.
    """
    if call.version < 20 or axis is None:
        along: int | ChosenAxes = call.axis(call.integer("axis", 1) if call.version < 20 else -2, x.rank)
    else:
        axes = call.axes_of(axis, x.rank, "axis")
        along = axes if isinstance(axes, ChosenAxes) else axes[0]
    inverse, one_sided = call.flag("inverse"), call.flag("onesided")
    if along == x.rank - 1 or (inverse and one_sided):
        raise call.fail("an inverse transform of one side, or one along the last axis, is not supported")
    count, signal = None if length is None else _length(call, length, "dft_length"), _complex(call, x)
    # `_pairs` returns real and imaginary parts along a new last axis.
    if not isinstance(along, ChosenAxes):
        return _pairs(call, _fft(call, signal, along, count, inverse, one_sided))
    # Checked at run time: axis signal.rank of x is that of the pairs, which `signal` does not have.
    (along.axes[0] < signal.rank).require("DFT: its axis is the last one")
    signal_axis = ChosenAxes(call.b, along.axes, signal.rank)  # the same axis: x has one axis more, its last one
    spectrum = _fft(
        call, as_rows(call.b, signal, signal_axis), axis=1, length=count, inverse=inverse, one_sided=one_sided
    )
    # `replaced` returns the signal's shape with another size of the transformed axis.
    return _pairs(call, shapes.reshape(call.b, spectrum, signal_axis.replaced(signal.shape, spectrum.shape[1])))


@ONNX.converts("STFT")
def _stft(
    call: NodeCall, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None
) -> Tensor:
    """Return the short-time Fourier transform of signals x [batch, length, 1 or 2] as [batch, frames, frequencies, 2].

    Frames begin each `step` elements, have `length` elements, and are multiplied by `window`. Their default length is
    that of the window, or of the signal. Only frames that fit into the signal exist: 10 elements with the step 3 and
    the length 4 have the frames 0 to 3, 3 to 6 and 6 to 9. With the attribute onesided, the default, there are
    length // 2 + 1 frequencies, else `length`.
    """
    b = call.b
    signal = _complex(call, x)
    total, hop = signal.shape[1], _length(call, step, "frame_step")
    if length is not None:
        size = _length(call, length, "frame_length")
    else:
        size = window.shape[0] if window is not None else total
    b.require_positive(total - size + 1, f"STFT: its signal {x} is shorter than a frame")
    frames = 1 + (total - size) // hop
    frame, sample = shapes.iota(b, [frames, 1], axis=0, dtype=I64), shapes.iota(b, [1, size], axis=1, dtype=I64)
    # Position in the signal of element j of frame i: [frames, length].
    positions = formula(b, lambda i, j, hop: i * hop + j, frame, sample, reductions.size_as(b, hop, I64))
    # Take the frames of the real and, if the signal is complex, of the imaginary parts: [batch, frames, length] each.
    parts = [b.wrap(signal.dtype.real, signal.shape, part) for part in b.parts(signal)]
    frame_parts = [gathers.take(b, part, positions, axis=1) for part in parts]
    if window is not None:
        frame_parts = [elementwise.binary(b, "mul", t, window) for t in frame_parts]
    if len(frame_parts) == 1:
        framed = frame_parts[0]
    else:
        framed = b.wrap(signal.dtype, frame_parts[0].shape, *(b.value(t) for t in frame_parts))
    # `_pairs` returns real and imaginary parts along a new last axis.
    return _pairs(
        call, _fft(call, framed, axis=2, length=None, inverse=False, one_sided=call.flag("onesided", default=True))
    )


def _window(factors: Sequence[float], call: NodeCall, size: Tensor) -> Tensor:
    """Return a window function of `size` elements that is a sum of cosines.

    `factors` belong to three terms: the constant, the cosine with one period in the window, and the one with two.
    The period of a window that is not periodic is one element shorter, so that both ends are equal.
    """
    to, periodic = dtype_of(call.integer("output_datatype", 1)), call.flag("periodic", default=True)
    (count,) = call.sizes(size, "size")
    length = reductions.size_as(call.b, count if periodic else count - 1, I64)

    def window_element(i: Element, n: Element) -> Element:
        """Return element i of n: the sum of the factors times the cosines of their harmonics."""
        angle = i.to(F32) * (2 * math.pi) / n.to(F32)
        total = angle.const(factors[0])
        for harmonic, factor in enumerate(factors[1:], 1):
            total = total + (angle * float(harmonic)).unary("cos") * factor
        return total

    return cast_to(call, formula(call.b, window_element, shapes.iota(call.b, [count], axis=0, dtype=I64), length), to)


@ONNX.converts("MelWeightMatrix")
def _mel_weights(call: NodeCall, bins: Tensor, length: Tensor, rate: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
    """Return a matrix [frequencies, bins] of triangular filters that are evenly spaced on the mel scale.

    `bins` is the number of filters, `length` the length of a transform: length // 2 + 1 frequencies are used. `rate` is
    the sampling rate in hertz. The edges of the filters begin at `lowest` and are below `highest`, both in hertz.

    Edges of the filters are indices of Fourier coefficients, rounded down; a filter without a rising side has the
    weight 1 at its middle. Both follow ONNX's reference implementation.
    """
    to = dtype_of(call.integer("output_datatype", 1))
    count, size = _length(call, bins, "num_mel_bins"), _length(call, length, "dft_length")
    b, frequencies = call.b, size // 2 + 1
    # The count + 2 edges of all filters, then the weight of each frequency (row) in each filter (column).
    scalars = (shapes.reshape(b, t, []) for t in (lowest, highest, bins, length, rate))
    edges = formula(b, _mel_edge, shapes.iota(b, [count + 2], axis=0, dtype=I64), *scalars)
    row = shapes.iota(b, [frequencies, 1], axis=0, dtype=I64)
    # Filter n rises from edge n to edge n + 1 and falls to edge n + 2: adjacent filters overlap.
    left, middle, right = (slicing.slice_axis(b, edges, axis=0, start=n, limit=count + n) for n in range(3))
    return cast_to(call, formula(b, _triangle_weight, row, left, middle, right), to)


def _mel_edge(i: Element, low: Element, high: Element, count: Element, size: Element, rate: Element) -> Element:
    """Return the index of the Fourier coefficient at edge i of `count` filters, which are evenly spaced in mels.

    A frequency of f hertz is log(1 + f / 700) on the mel scale, up to a factor. low, high: in hertz. size: length of
    the transform. rate: sampling rate.
    """
    first, last = ((v.to(F64) / 700.0 + 1.0).unary("log") for v in (low, high))
    # Edge 0 is at `low`. Edge count + 2 would be at `high`, so that all edges are below `high`.
    position = first + i.to(F64) * (last - first) / (count.to(F64) + 2.0)
    hertz = (position.unary("exp") - 1.0) * 700.0
    return ((size.to(F64) + 1.0) * hertz / rate.to(F64)).unary("floor").to(I64)


def _triangle_weight(row: Element, left: Element, middle: Element, right: Element) -> Element:
    """Return the weight of a frequency in the filter that rises from `left` to `middle` and falls to `right`."""
    width = middle - left
    rising = width.is_equal(0).where(1.0, (row - left).to(F32) / width.to(F32))
    falling = (right - row).to(F32) / (right - middle).to(F32)
    is_rising, is_falling = (row >= left) & (row <= middle), (row >= middle) & (row < right)
    return is_falling.where(falling, is_rising.where(rising, 0.0))


ONNX.register({
    "HannWindow": partial(_window, (0.5, -0.5)),
    "HammingWindow": partial(_window, (25 / 46, -21 / 46)),
    "BlackmanWindow": partial(_window, (0.42, -0.5, 0.08)),
})  # fmt: skip
