"""A convolution by transformed tiles, compared with the convolution, and packing as iree_linalg_ext writes it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from harness import Body, Value, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st


def convolution(image, filters):
    """[n, h, w, c] by [h, w, c, f]."""
    windows = np.lib.stride_tricks.sliding_window_view(image, filters.shape[:2], (1, 2))
    return np.einsum("nhwcij,ijcf->nhwf", windows, filters)


def transform(body: Body, name: str, attributes: str, source: Value, shape, element: str) -> Value:
    out = body.empty(shape, element)
    return body.value(
        f"iree_linalg_ext.winograd.{name}_transform {attributes} ins({source} : {body.type_of(source)}) "
        f"outs({out} : {body.type_of(out)}) -> {body.type_of(out)}",
        shape, element,
    )  # fmt: skip


@examples(2)
@given(tile=st.sampled_from([1, 2, 4, 6]), kernel=st.sampled_from([1, 2, 3, 5]), inner=st.booleans(),
       sizes=st.sampled_from(["static", "dynamic"]), element=st.sampled_from(["f16", "f32", "f64"]),
       seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_a_convolution(tile, kernel, sizes, inner, element, seed):
    rng = random.Random(seed)
    body, whole = Body(sizes, seed=seed % 1000), tile + kernel - 1
    n, c, f = rng.randint(1, 3), rng.choice([1, 3, 8]), rng.choice([1, 4, 5])
    h, w = (rng.randint(kernel, kernel + 12) for _ in "hw")
    image, filters = body.random.uniform(-1, 1, (n, h, w, c)), body.random.uniform(-1, 1, (kernel, kernel, c, f))
    channels_first, filters_first = rng.random() < 0.5, rng.random() < 0.5
    places = "image_dimensions([2, 3])" if channels_first else "image_dimensions([1, 2])"
    words = f"output_tile_size({tile}) kernel_size({kernel})"
    at = " input_tile_dimensions([{}])".format if inner else (lambda _: "")
    x = body.input(image.transpose(0, 3, 1, 2) if channels_first else image, element)
    k = body.input(filters.transpose(3, 2, 0, 1) if filters_first else filters, element)
    rows, columns = (-(-(size - kernel + 1) // tile) for size in (h, w))
    tiles = (whole, whole)

    def shape(*others):
        return (*others, *tiles) if inner else (*tiles, *others)

    result = "f64" if element == "f64" else "f32"
    xt = transform(body, "input", f"{words} {places}{at('4, 5')}", x, shape(n, rows, columns, c), result)
    layout = "kernel_dimensions([2, 3])" if filters_first else "kernel_dimensions([0, 1])"
    kt = transform(body, "filter", f"{words} {layout}{at('2, 3')}", k, shape(c, f), result)
    maps = ["nhwcab", "cfab", "nhwfab"] if inner else ["abnhwc", "abcf", "abnhwf"]
    loops = "abnhwfc"
    written = [f"({', '.join(loops)}) -> ({', '.join(m)})" for m in maps]
    zero = body.filled(0.0, shape(n, rows, columns, f), result)
    (product,) = body.generic(written, "ppppppr", [xt, kt], [zero], f"""
      %m = arith.mulf %a0, %a1 : {result}
      %s = arith.addf %o0, %m : {result}
      linalg.yield %s : {result}""")  # fmt: skip
    plain = (n, f, rows * tile, columns * tile) if channels_first else (n, rows * tile, columns * tile, f)
    made = transform(body, "output", f"{words} {places}{at('4, 5')}", product, plain, element)
    # The rows and columns of whole tiles: beyond the image there are zeros.
    missing = [count * tile + kernel - 1 - size for count, size in ((rows, h), (columns, w))]
    padded = np.pad(image, ((0, 0), (0, missing[0]), (0, missing[1]), (0, 0)))
    wanted = convolution(padded, filters)
    # Of larger tiles, differences of large numbers are taken.
    epsilon = {"f16": 6e-2, "f32": 2e-4, "f64": 1e-10}[element] * (10 if whole > 8 else 1)
    body.expect(made, wanted.transpose(0, 3, 1, 2) if channels_first else wanted, rtol=epsilon, atol=epsilon * c)
    run(body)


def program(kind: str, words: str, source: str, result: str) -> str:
    return f"""func.func @f(%a: {source}, %o: {result}) -> {result} {{
  %r = iree_linalg_ext.winograd.{kind}_transform {words} ins(%a : {source}) outs(%o : {result}) -> {result}
  return %r : {result}
}}"""


SIZES = "output_tile_size(6) kernel_size(3)"
NHWC, HWCF = f"{SIZES} image_dimensions([1, 2])", f"{SIZES} kernel_dimensions([0, 1])"
REFUSED = {
    "the transformed image is tensor<8x8x1x2x3x4xf32>, expected the shape 8x8x1x2x2x4": program(
        "input", NHWC, "tensor<1x10x10x4xf32>", "tensor<8x8x1x2x3x4xf32>"
    ),
    "image_dimensions are [1, 2] or [2, 3], got [0, 1]": program(
        "input", f"{SIZES} image_dimensions([0, 1])", "tensor<1x10x10x4xf32>", "tensor<8x8x1x2x2x4xf32>"
    ),
    "tensor<1x2x10x4xf32> is smaller than the kernel of 3x3": program(
        "input", NHWC, "tensor<1x2x10x4xf32>", "tensor<8x8x1x0x2x4xf32>"
    ),
    "tensor<10x10x4xf32> has rank 3, expected 4": program(
        "input", NHWC, "tensor<10x10x4xf32>", "tensor<8x8x1x2x2x4xf32>"
    ),
    "output_tile_size is from 1 to 16, got 0": program(
        "input", NHWC.replace("6", "0"), "tensor<1x10x10x4xf32>", "tensor<8x8x1x2x2x4xf32>"
    ),
    "input_tile_dimensions are two dimensions of a tensor of rank 6, got [0, 6]": program(
        "input", f"{NHWC} input_tile_dimensions([0, 6])", "tensor<1x10x10x4xf32>", "tensor<8x8x1x2x2x4xf32>"
    ),
    "a transform is one of floats, got tensor<3x3x4x5xi32>": program(
        "filter", HWCF, "tensor<3x3x4x5xi32>", "tensor<8x8x4x5xf32>"
    ),
    "tensor<3x2x4x5xf32> has kernels of 2, expected 3": program(
        "filter", HWCF, "tensor<3x2x4x5xf32>", "tensor<8x8x4x5xf32>"
    ),
    "the transformed filter is tensor<8x8x5x4xf32>, expected the shape 8x8x4x5": program(
        "filter", HWCF, "tensor<3x3x4x5xf32>", "tensor<8x8x5x4xf32>"
    ),
    "tensor<8x7x1x2x2x4xf32> has tiles of 7, expected 8": program(
        "output", NHWC, "tensor<8x7x1x2x2x4xf32>", "tensor<1x12x12x4xf32>"
    ),
    "the image is tensor<1x12x10x4xf32>, expected the shape 1x12x12x4": program(
        "output", NHWC, "tensor<8x8x1x2x2x4xf32>", "tensor<1x12x10x4xf32>"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    assert message in refused(REFUSED[message])


def test_packing():
    body = Body()
    source, numbers = body.numbers((5, 7), "f32")
    pad = body.scalar(9.0, "f32")
    packed = body.value(
        f"iree_linalg_ext.pack {source} padding_value({pad} : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] "
        f"inner_tiles = [4, 2] into {body.empty((2, 3, 4, 2), 'f32')} : (tensor<5x7xf32> tensor<2x3x4x2xf32>) "
        "-> tensor<2x3x4x2xf32>", (2, 3, 4, 2), "f32",
    )  # fmt: skip
    back = body.value(
        f"iree_linalg_ext.unpack {packed} outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 2] into "
        f"{body.empty((5, 7), 'f32')} : (tensor<2x3x4x2xf32> tensor<5x7xf32>) -> tensor<5x7xf32>", (5, 7), "f32",
    )  # fmt: skip
    whole = np.pad(numbers, ((0, 1), (0, 1)), constant_values=9.0)
    body.expect(packed, whole.reshape(3, 2, 2, 4).transpose(2, 0, 3, 1))
    body.expect(back, numbers)
    run(body)
