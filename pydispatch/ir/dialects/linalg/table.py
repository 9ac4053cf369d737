"""Indexing maps and body kinds of the named `linalg` operations, written as subscripts.

Subscripts are written as in an einsum, one word for each dimension: `m k, k n -> m n`. `oh+kh` is the dimension of a
sliding window: oh * stride + kh * dilation, where the n-th such dimension takes the n-th stride and dilation. A word
that is absent after the arrow is reduced. An empty operand is a scalar. The loops are the words after the arrow,
followed by the other words in the order of their first use.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

UNARY = (
    "abs", "ceil", "floor", "negf", "exp", "log", "sqrt", "rsqrt", "square", "reciprocal", "round", "tanh", "erf",
)  # fmt: skip
"""Named operations, without their dialect, that apply a function of one number to each element."""
BINARY = ("add", "sub", "mul", "div", "div_unsigned", "max", "min", "powf")
"""Named operations on two inputs of one shape, element by element."""
TERNARY = ("select",)
"""Named operations on three inputs of one shape, element by element."""
ELEMENTWISE = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2), **dict.fromkeys(TERNARY, 3), "copy": 1}
"""Operations whose operands all have the subscripts of the output -> number of inputs."""

ELEMENTWISE_KINDS = {
    **dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2), **dict.fromkeys(TERNARY, 3),
    **dict.fromkeys(("max_signed", "min_signed", "max_unsigned", "min_unsigned"), 2),
}  # fmt: skip
"""Scalar function of `linalg.elementwise` or of an older operation -> number of inputs."""

CONTRACTIONS = {
    "matmul": "m k, k n -> m n",
    "matmul_unsigned": "m k, k n -> m n",
    "matmul_transpose_a": "k m, k n -> m n",
    "matmul_transpose_b": "m k, n k -> m n",
    "batch_matmul": "b m k, b k n -> b m n",
    "batch_matmul_transpose_a": "b k m, b k n -> b m n",
    "batch_matmul_transpose_b": "b m k, b n k -> b m n",
    "batch_reduce_matmul": "b m k, b k n -> m n",
    "quantized_matmul": "m k, k n, , -> m n",
    "quantized_batch_matmul": "b m k, b k n, , -> b m n",
    "matvec": "m k, k -> m",
    "vecmat": "k, k n -> n",
    "batch_matvec": "b m k, b k -> b m",
    "batch_vecmat": "b k, b k n -> b n",
    "dot": "k, k -> ",
    "mmt4d": "m k i l, n k j l -> m n i j",
    "batch_mmt4d": "b m k i l, b n k j l -> b m n i j",
}
"""Named operation -> subscripts of inputs and output, as in `numpy.einsum`: "m k, k n -> m n". An input without
subscripts is a scalar: the zero points of a quantized product."""

CONVOLUTIONS = (
    "conv_1d", "conv_2d", "conv_3d",
    "conv_1d_nwc_wcf", "conv_1d_ncw_fcw",
    "conv_2d_nhwc_hwcf", "conv_2d_nhwc_fhwc", "conv_2d_nchw_fchw",
    "conv_2d_nhwc_hwcf_q", "conv_2d_nhwc_fhwc_q", "conv_2d_nchw_fchw_q",
    "conv_2d_ngchw_fgchw", "conv_2d_ngchw_gfchw", "conv_2d_ngchw_gfchw_q",
    "conv_2d_nhwgc_gfhwc", "conv_2d_nhwgc_gfhwc_q",
    "conv_3d_ndhwc_dhwcf", "conv_3d_ndhwc_dhwcf_q", "conv_3d_ncdhw_fcdhw",
    "depthwise_conv_1d_nwc_wc", "depthwise_conv_1d_nwc_wcm", "depthwise_conv_1d_ncw_cw",
    "depthwise_conv_2d_nhwc_hwc", "depthwise_conv_2d_nhwc_hwcm", "depthwise_conv_2d_nchw_chw",
    "depthwise_conv_2d_nhwc_hwc_q", "depthwise_conv_2d_nhwc_hwcm_q",
    "depthwise_conv_3d_ndhwc_dhwc", "depthwise_conv_3d_ndhwc_dhwcm", "depthwise_conv_3d_ncdhw_cdhw",
)  # fmt: skip
"""Named convolutions, whose names state the dimensions of image and weights by letters: see `_convolution`."""

POOLINGS = tuple(
    f"pooling_{layout}_{kind}"
    for layout in ("nwc", "ncw", "nhwc", "nchw", "ndhwc", "ncdhw")
    for kind in ("sum", "max", "min", "max_unsigned", "min_unsigned")
)
"""Named poolings, whose names state the dimensions of the image, and how elements of a window are combined."""


class Meaning(NamedTuple):
    """Definition of a named `linalg` operation, such as `matmul`: its loops, maps and body.

    Attributes:
        inputs: For each input, one word per dimension: a loop "m", or the sum of two loops "oh+kh"; () for a scalar.
        output: One word per dimension of the output, each a loop.
        body: Kind of the body: `mac` (multiply-accumulate), `mac_q` (the same with two zero points as last inputs), or
            `pool_sum`, `pool_max` and `pool_min`.
        unsigned: Whether integers are unsigned: operands are zero-extended to the type of the output.

    Example: `conv_1d_nwc_wcf` is

        Meaning(inputs=(("n", "ow+kw", "c"), ("kw", "c", "f")), output=("n", "ow", "f"), body="mac")

    with the loops (`dims`) n, ow, f, kw, c, of which kw and c are reductions.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    body: str
    unsigned: bool = False

    @property
    def dims(self) -> list[str]:
        """Return the loops: those of the output, then the reductions in the order of their first use."""
        input_loops = [loop for subscript in self.inputs for word in subscript for loop in word.split("+")]
        return list(dict.fromkeys([*self.output, *input_loops]))  # each loop once, in the order of first use


def _definition(text: str, body: str, unsigned: bool = False) -> Meaning:
    """Return a definition with the subscripts `text`, such as `m k, k n -> m n`, and this kind of body."""
    inputs, output = text.split("->")
    return Meaning(tuple(tuple(i.split()) for i in inputs.split(",")), tuple(output.split()), body, unsigned)


_CONVOLUTION_NAME = re.compile(
    r"(?P<depthwise>depthwise_)?conv_(?P<rank>\d)d(?:_(?P<image>[a-z]+)_(?P<kernel>[a-z]{2,}))?(?P<zero_points>_q)?"
)
"""Name of a convolution, such as `depthwise_conv_2d_nhwc_hwcm_q`."""


def _convolution(name: str) -> Meaning:
    """Return the definition of a convolution, given by name.

    The name lists the dimensions of the input and of the kernel by letters: batch n, depth d, height h, width w, group
    g, channel c, filter f, multiplier m. Without letters it has spatial dimensions only. Spatial loops have two
    letters: `oh` is the loop over the height of the output, and `kh` that over the height of the kernel. The suffix
    `_q` adds two scalar inputs, the zero points.

    Examples of inputs and output, as an einsum:

        conv_2d_nhwc_hwcf               n oh+kh ow+kw c, kh kw c f -> n oh ow f
        conv_1d                         ow+kw, kw -> ow
        depthwise_conv_2d_nhwc_hwcm_q   n oh+kh ow+kw c, kh kw c m, , -> n oh ow c m
    """
    match = _CONVOLUTION_NAME.fullmatch(name)
    assert match is not None
    is_depthwise, has_zero_points = match["depthwise"] is not None, match["zero_points"] is not None
    spatial = "dhw"[3 - int(match["rank"]) :]  # w for one dimension, hw for two, dhw for three
    layout, kernel = match["image"] or spatial, match["kernel"] or spatial
    image = tuple(f"o{c}+k{c}" if c in spatial else c for c in layout)
    weights = tuple(f"k{c}" if c in spatial else c for c in kernel)
    # The output has the layout of the input. Channels are summed into filters, unless each channel is convolved alone.
    output_layout = layout if is_depthwise else layout.replace("c", "f")
    output = [f"o{c}" if c in spatial else c for c in output_layout]
    if "m" in kernel:  # m results per channel
        output.append("m")
    zero_points: tuple[tuple[str, ...], ...] = ((), ()) if has_zero_points else ()
    # The body: multiply-accumulate, with the zero points subtracted first for "mac_q".
    return Meaning((image, weights, *zero_points), tuple(output), "mac_q" if has_zero_points else "mac")


def _pooling(name: str) -> Meaning:
    """Return the definition of a pooling, given by name, such as `pooling_nhwc_max_unsigned`.

    The second input is the window, of which only the shape is used.
    """
    _, layout, kind = name.split("_", 2)
    spatial = [c for c in layout if c in "dhw"]
    image = tuple(f"o{c}+k{c}" if c in spatial else c for c in layout)
    output = tuple(f"o{c}" if c in spatial else c for c in layout)
    window = tuple(f"k{c}" for c in spatial)
    body = f"pool_{kind.removesuffix('_unsigned')}"
    return Meaning((image, window), output, body, unsigned=kind.endswith("unsigned"))


@cache
def meaning(name: str) -> Meaning:
    """Return the definition of a contraction, convolution or pooling by its name without the dialect.

    Raises KeyError for other names.
    """
    if name in CONVOLUTIONS:
        return _convolution(name)
    if name in POOLINGS:
        return _pooling(name)
    body = "mac_q" if name.startswith("quantized") else "mac"
    return _definition(CONTRACTIONS[name], body, unsigned=name.endswith("unsigned"))
