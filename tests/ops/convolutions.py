"""Convolutions and poolings, and the sums over windows that they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import DTYPES, FLOATS, INTEGERS, Array, Body

# name: the dimensions of image, kernel and result. x y z are places of the result, X Y Z those of the kernel;
# the image has a window where it has x y z.
NAMED = {
    "conv_1d": ("x", "X", "x"),
    "conv_2d": ("xy", "XY", "xy"),
    "conv_3d": ("xyz", "XYZ", "xyz"),
    "conv_1d_nwc_wcf": ("nxc", "Xcf", "nxf"),
    "conv_1d_ncw_fcw": ("ncx", "fcX", "nfx"),
    "conv_2d_nhwc_hwcf": ("nxyc", "XYcf", "nxyf"),
    "conv_2d_nhwc_fhwc": ("nxyc", "fXYc", "nxyf"),
    "conv_2d_nchw_fchw": ("ncxy", "fcXY", "nfxy"),
    "conv_2d_ngchw_fgchw": ("ngcxy", "fgcXY", "ngfxy"),
    "conv_2d_ngchw_gfchw": ("ngcxy", "gfcXY", "ngfxy"),
    "conv_2d_nhwgc_gfhwc": ("nxygc", "gfXYc", "nxygf"),
    "conv_3d_ndhwc_dhwcf": ("nxyzc", "XYZcf", "nxyzf"),
    "conv_3d_ncdhw_fcdhw": ("ncxyz", "fcXYZ", "nfxyz"),
    "depthwise_conv_1d_nwc_wc": ("nxc", "Xc", "nxc"),
    "depthwise_conv_1d_nwc_wcm": ("nxc", "Xcm", "nxcm"),
    "depthwise_conv_1d_ncw_cw": ("ncx", "cX", "ncx"),
    "depthwise_conv_2d_nhwc_hwc": ("nxyc", "XYc", "nxyc"),
    "depthwise_conv_2d_nhwc_hwcm": ("nxyc", "XYcm", "nxycm"),
    "depthwise_conv_2d_nchw_chw": ("ncxy", "cXY", "ncxy"),
    "depthwise_conv_3d_ndhwc_dhwc": ("nxyzc", "XYZc", "nxyzc"),
    "depthwise_conv_3d_ndhwc_dhwcm": ("nxyzc", "XYZcm", "nxyzcm"),
    "depthwise_conv_3d_ncdhw_cdhw": ("ncxyz", "cXYZ", "ncxyz"),
    "conv_2d_nhwc_hwcf_q": ("nxyc", "XYcf", "nxyf"),
    "conv_2d_nhwc_fhwc_q": ("nxyc", "fXYc", "nxyf"),
    "conv_2d_nchw_fchw_q": ("ncxy", "fcXY", "nfxy"),
    "conv_2d_ngchw_gfchw_q": ("ngcxy", "gfcXY", "ngfxy"),
    "conv_2d_nhwgc_gfhwc_q": ("nxygc", "gfXYc", "nxygf"),
    "conv_3d_ndhwc_dhwcf_q": ("nxyzc", "XYZcf", "nxyzf"),
    "depthwise_conv_2d_nhwc_hwc_q": ("nxyc", "XYc", "nxyc"),
    "depthwise_conv_2d_nhwc_hwcm_q": ("nxyc", "XYcm", "nxycm"),
}
TYPES = [("f32", "f32"), ("i8", "i32"), ("f64", "f64"), ("f16", "f32"), ("bf16", "f32"), ("i16", "i32"), ("i32", "i32")]
POOLED = {"nwc": "nxc", "ncw": "ncx", "nhwc": "nxyc", "nchw": "ncxy", "ndhwc": "nxyzc", "ncdhw": "ncxyz"}
PLACES = "xyz"


def windows(image: Array, dims: str, steps: Sequence[int], gaps: Sequence[int], sizes: dict[str, int]) -> Array:
    """The image with two dimensions, result and kernel, for each place: the kernel's stand behind."""
    where = [d for d in dims if d in PLACES]
    out = image
    for i, place in enumerate(where):
        axis = dims.index(place)
        rows = np.arange(sizes[place])[:, None] * steps[i] + np.arange(sizes[place.upper()]) * gaps[i]
        out = np.moveaxis(np.take(out, rows, axis=axis), axis + 1, -1)
    return out


def image_shape(dims: str, steps: Sequence[int], gaps: Sequence[int], sizes: dict[str, int], room: int) -> list[int]:
    """room: places after those that are read."""
    where = [d for d in dims if d in PLACES]

    def length(d: str) -> int:
        if d not in PLACES:
            return sizes[d]
        i = where.index(d)
        return max(0, (sizes[d] - 1) * steps[i] + (sizes[d.upper()] - 1) * gaps[i] + 1 + room)

    return [length(d) for d in dims]


def attributes(steps: Sequence[int], gaps: Sequence[int]) -> str:
    def dense(values: Sequence[int]) -> str:
        return f"dense<[{', '.join(map(str, values))}]> : tensor<{len(values)}xi64>"

    return f"{{dilations = {dense(gaps)}, strides = {dense(steps)}}}"


def convolution(
    body: Body, op: str, sizes: dict[str, int], steps: Sequence[int], gaps: Sequence[int], factor: str, element: str,
    zero: bool = True, room: int = 0,
) -> None:  # fmt: skip
    """sizes: of n c f g m, of the result's x y z and of the kernel's X Y Z. room: of the image, see `image_shape`."""
    image_dims, kernel_dims, out_dims = NAMED[op]
    places = sum(d in PLACES for d in image_dims)
    if op in ("conv_1d", "conv_2d", "conv_3d"):
        steps, gaps, words = [1] * places, [1] * places, ""
    else:
        steps, gaps = steps[:places], gaps[:places]
        words = attributes(steps, gaps)
    points = []
    if op.endswith("_q"):
        factor, element = "i8", "i32"
        points = [(body.scalar(z, "i32"), z) for z in (-3, 5)]
    a, image = body.numbers(image_shape(image_dims, steps, gaps, sizes, room), factor)
    b, kernel = body.numbers([sizes[d] for d in kernel_dims], factor)
    shape = [sizes[d] for d in out_dims]
    if zero:
        c, acc = body.filled(0, shape, element), np.zeros(shape)
    else:
        c, acc = body.numbers(shape, element)
    result = body.named(op, [a, b, *(v for v, _ in points)], c, words)
    exact = np.int64 if element in INTEGERS else np.float64
    zeros = [z for _, z in points] or [0, 0]
    left = windows(image.astype(exact) - zeros[0], image_dims, steps, gaps, sizes)
    equation = f"{image_dims}{''.join(d.upper() for d in image_dims if d in PLACES)},{kernel_dims}->{out_dims}"
    total = acc + np.einsum(equation, left, kernel.astype(exact) - zeros[1])
    body.expect(result, np.asarray(total).astype(exact).astype(DTYPES[element]))


LIMITS = {
    **{e: (np.iinfo(DTYPES[e]).min, np.iinfo(DTYPES[e]).max) for e in INTEGERS},
    **dict.fromkeys(FLOATS, (-np.inf, np.inf)),
}


def pooling(
    body: Body, layout: str, kind: str, sizes: dict[str, int], steps: Sequence[int], gaps: Sequence[int], element: str,
    room: int = 0,
) -> None:  # fmt: skip
    """kind: sum, max, min, max_unsigned or min_unsigned. room: of the image, see `image_shape`."""
    dims = POOLED[layout]
    where = [d for d in dims if d in PLACES]
    steps, gaps = steps[: len(where)], gaps[: len(where)]
    a, image = body.numbers(image_shape(dims, steps, gaps, sizes, room), element)
    window = body.empty([sizes[d.upper()] for d in where], element)
    unsigned = kind.endswith("unsigned")
    low, high = LIMITS[element]
    start = {"sum": 0, "max": low, "min": high, "max_unsigned": 0, "min_unsigned": -1}[kind]
    out = body.filled(start, [sizes[d] for d in dims], element)
    result = body.named(f"pooling_{layout}_{kind}", [a, window], out, attributes(steps, gaps))
    view = image.view(image.dtype.str.replace("i", "u")) if unsigned else image
    begin = np.asarray(start).astype(image.dtype).view(view.dtype)
    views = windows(view, dims, steps, gaps, sizes)
    axes = tuple(range(len(dims), views.ndim))
    fn = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind.removesuffix("_unsigned")]
    exact = views.astype(np.float64) if element in FLOATS else views
    body.expect(result, fn.reduce(exact, axis=axes, initial=begin.astype(exact.dtype), dtype=exact.dtype).view(
        image.dtype if unsigned else exact.dtype))  # fmt: skip
