"""A convolution by transformed tiles, compared with the convolution, and packing as iree_linalg_ext writes it."""

from __future__ import annotations

import random

import pytest
from harness import Body, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st
from transforms import packing, winograd


@examples(2)
@given(tile=st.sampled_from([1, 2, 4, 6]), kernel=st.sampled_from([1, 2, 3, 5]), inner=st.booleans(),
       sizes=st.sampled_from(["static", "dynamic"]), element=st.sampled_from(["f16", "f32", "f64"]),
       seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_a_convolution(tile, kernel, sizes, inner, element, seed):
    body = Body(sizes, seed=seed % 1000)
    winograd(body, tile, kernel, inner, element, random.Random(seed))
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
    packing(body)
    run(body)
