"""Conversions of Resize and Upsample, which sample images at positions between and at their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.sizes import Expr, Size, is_static
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, normalization, reductions, shapes, slicing
from pydispatch.operations.formulas import formula
from pydispatch.operations.host_integers import read_integers
from pydispatch.operations.resize_axis import Filter, Number, ResizedAxis, resize_axis

_TRANSFORMATIONS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                    "tf_crop_and_resize", "tf_half_pixel_for_nn")  # fmt: skip
"""Values of the attribute `coordinate_transformation_mode`."""
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
"""Values of the attribute `nearest_mode`, the rounding of a position to the index of an element."""


@ONNX.converts("Resize")
def _resize(
    call: NodeCall, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    """Resize the axes in the attribute `axes` to the operand `sizes` or by the factors in `scales`.

    x [1, 3, 4, 4] with the scales [1, 1, 2, 2], or with the sizes [1, 3, 8, 8], becomes [1, 3, 8, 8]. `roi` is used by
    the transformation tf_crop_and_resize alone: the starts of the region of interest along all axes, then its ends, as
    fractions of the axes.

    Raise CompileError if the node has neither scales nor sizes, or lacks the region of interest that its transformation
    uses.
    """
    if call.version < 11:  # then `scales` is the second operand
        roi, scales = None, roi
    mode = call.text("mode", "nearest", ("nearest", "linear", "cubic", "bilinear"))
    axes = call.axes(call.integers("axes", list(range(x.rank))), x.rank)
    how = _filter(call, "linear" if mode == "bilinear" else mode)
    beyond = call.real("extrapolation_value", 0.0)  # value of elements outside of the operand
    policy = call.text("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))

    # For each axis its new size, its scale and its region of interest.
    old = [x.shape[d] for d in axes]
    wanted: Sequence[Size]  # new sizes
    ratios: Sequence[Number | None]  # scales that the node states; None for new size / old size
    if scales is not None and scales.shape != (0,):  # version 11 omits scales by an empty vector
        wanted, ratios = _scaled_sizes(call, old, scales)
    elif sizes is not None:
        wanted, ratios = _target_sizes(call, old, sizes, policy)
    else:
        raise call.fail("it has neither scales nor sizes")
    regions: Sequence[tuple[Number, Number]] = [(0.0, 1.0)] * len(axes)  # (start, end) as fractions of an axis
    if how.transformation == "tf_crop_and_resize":
        regions = _regions_of_interest(call, roi, len(axes))
    described = zip(axes, wanted, ratios, regions, strict=True)
    resized = [ResizedAxis(axis, size, ratio, *region) for axis, size, ratio, region in described]
    return _resize_axes(call, x, resized, how, beyond)


def _filter(call: NodeCall, mode: str) -> Filter:
    """Read the attributes that state how elements are computed; `mode` is "nearest", "linear" or "cubic"."""
    default = "half_pixel" if call.version >= 11 else "asymmetric"
    return Filter(
        mode=mode,
        transformation=call.text("coordinate_transformation_mode", default, _TRANSFORMATIONS),
        nearest=call.text("nearest_mode", "round_prefer_floor" if call.version >= 11 else "floor", _NEAREST),
        cubic=call.real("cubic_coeff_a", -0.75),
        antialias=call.flag("antialias"),
        exclude_outside=call.flag("exclude_outside"),
    )


def _regions_of_interest(call: NodeCall, roi: Tensor | None, axis_count: int) -> Sequence[tuple[Number, Number]]:
    """Return the region of interest along each axis as (start, end), fractions of the axis."""
    if roi is None:
        raise call.fail("its region of interest is missing")
    bounds = _numbers(call, roi, "region of interest", 2 * axis_count)
    return list(zip(bounds[:axis_count], bounds[axis_count:], strict=True))


@ONNX.converts("Upsample")
def _upsample(call: NodeCall, x: Tensor, scales: Tensor | None = None) -> Tensor:
    """Resize all axes of x by the factors in `scales`, which are an attribute before version 9."""
    mode = call.text("mode", "nearest", ("nearest", "linear", "bilinear"))
    if scales is None:
        scales = call.b.constant(np.array(call.reals("scales"), np.float32))
    wanted, ratios = _scaled_sizes(call, x.shape, scales)
    resized = [ResizedAxis(d, size, ratio) for d, (size, ratio) in enumerate(zip(wanted, ratios, strict=True))]
    how = Filter("linear" if mode == "bilinear" else mode, transformation="asymmetric")
    return _resize_axes(call, x, resized, how, beyond=0.0)  # not used: no position is outside of x


def _numbers(call: NodeCall, of: Tensor, what: str, count: int) -> list[Number]:
    """Return the elements of a vector: as numbers if they are constant, else as f32 tensors of rank 0.

    Raise CompileError, with `what` as the name of the vector, if it does not have `count` elements.
    """
    if of.rank != 1 or of.shape[0] != count:
        raise call.fail(f"its {what} is {of}; expected {count} numbers")
    known = call.maybe_numbers(of)
    if known is not None:
        return [float(n) for n in known.astype(np.float32)]
    parts = [
        shapes.reshape(call.b, slicing.slice_axis(call.b, of, axis=0, start=n, limit=n + 1), []) for n in range(count)
    ]
    return [elementwise.convert(call.b, part, F32) for part in parts]


def _scaled_sizes(call: NodeCall, old: Sequence[Size], scales: Tensor) -> tuple[list[Size], list[Number]]:
    """Return the sizes `old` multiplied by the factors in `scales`, and the factors, one for each axis."""
    factors = _numbers(call, scales, "scales", len(old))
    return [_scaled_size(call, n, factor) for n, factor in zip(old, factors, strict=True)], factors


def _scaled_size(call: NodeCall, size: Size, factor: Number) -> Size:
    """Return floor(size * factor). A constant factor of a dynamic size is approximated by a fraction with a denominator
    of at most 1000, because sizes are expressions of integers.

    A factor that is computed at run time gives a new dynamic size. A check at run time fails if this size is negative.
    """
    if isinstance(factor, Tensor):
        b = call.b
        scaled = formula(b, lambda n, s: (n * s).unary("floor").to(I64), reductions.size_as(b, size, F32), factor)
        (read,) = read_integers(b, scaled)
        (read >= 0).require(f"{call.node.op_type}: a scale is negative")
        return read.size(hint="resized")  # a dynamic size with a symbol of this name
    if not (math.isfinite(factor) and 0 < factor < 1 << 20):
        raise call.fail(f"a scale is {factor}; expected more than 0 and less than 2^20")
    if not isinstance(size, Expr):
        return int(np.float64(factor) * size)
    fraction = Fraction(factor).limit_denominator(1000)
    return size * fraction.numerator // fraction.denominator


def _target_sizes(
    call: NodeCall, old: Sequence[Size], sizes: Tensor, policy: str
) -> tuple[Sequence[Size], Sequence[Number | None]]:
    """Return the new sizes of axes of the sizes `old`, and their scales; None stands for new size / old size.

    With the policy "stretch" the new sizes are the operand `sizes`. With "not_larger" and "not_smaller" all axes have
    the smallest or the largest of the scales, which keeps the aspect ratio, and new sizes are rounded. Axes of [4, 8]
    with the sizes [8, 8] become [4, 8] with "not_larger", and [8, 16] with "not_smaller".

    Raise CompileError if `sizes` does not have a size for each axis.
    """
    wanted = call.sizes(sizes, "sizes")
    if len(wanted) != len(old):
        raise call.fail(f"{len(wanted)} sizes are given for {len(old)} axes")
    if policy == "stretch":
        return wanted, [None] * len(old)
    choose = "min" if policy == "not_larger" else "max"
    if not is_static([*wanted, *old]):
        return _dynamic_sizes(call.b, old, wanted, choose)
    ratios = [int(n) / int(m) for n, m in zip(wanted, old, strict=True)]  # type: ignore[arg-type]
    ratio = min(ratios) if choose == "min" else max(ratios)
    return [int(ratio * int(n) + 0.5) for n in old], [ratio] * len(old)  # type: ignore[arg-type]


def _dynamic_sizes(
    b: Builder, old: Sequence[Size], wanted: Sequence[Size], choose: str
) -> tuple[Sequence[Size], Sequence[Number | None]]:
    """Return the new sizes of axes for their common scale: the "min" or "max" of wanted size / old size, and the scale.

    They are computed on vectors of the sizes, and the host reads the rounded new sizes back in each call.
    """
    before, after = (slicing.stack(b, [reductions.size_as(b, n, F32) for n in part], axis=0) for part in (old, wanted))
    common = reductions.reduce(b, choose, elementwise.binary(b, "div", after, before))
    scaled = formula(b, lambda n, s: (n * s + 0.5).unary("floor").to(I64), before, common)
    return [n.size(hint="resized") for n in read_integers(b, scaled)], [common] * len(old)


def _resize_axes(call: NodeCall, x: Tensor, axes: Sequence[ResizedAxis], how: Filter, beyond: float) -> Tensor:
    """Resize axes one after the other, and return the result in the type of x.

    Args:
        call: The node.
        x: The operand.
        axes: The axes with their new sizes, and the mapping from new to old elements.
        how: Interpolation and coordinate transformation of all axes.
        beyond: Value of new elements whose positions are outside of an old axis. Only the transformation
            tf_crop_and_resize has such elements, since its region of interest may exceed the image.
    """
    b, dtype = call.b, x.dtype
    # Interpolation needs floats of at least 32 bits; "nearest" copies elements.
    if how.mode != "nearest":
        x = elementwise.convert(b, x, normalization.wide(dtype) if dtype.is_float else F32)
    masks = []  # (axis, which of its new elements are outside of the old axis)
    for resized in axes:
        x, outside = resize_axis(b, x, resized, how)
        # `numbers`: the values that are known at compile time, else None.
        if outside is not None and (outside.numbers is None or outside.numbers.any()):
            masks.append((resized.axis, outside))
    # Replace the elements outside last, so that no later axis interpolates between replaced elements.
    for axis, outside in masks:
        mask = shapes.reshape(b, outside, [x.shape[d] if d == axis else 1 for d in range(x.rank)])
        x = formula(b, lambda o, v: o.where(beyond if v.dtype.is_float else int(beyond), v), mask, x)
    return elementwise.convert(b, x, dtype)
