"""Stages of Fourier transforms, compared with NumPy's transform of the whole."""

from __future__ import annotations

import random

import pytest
from harness import Body, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st
from transforms import fourier


@examples(2)
@given(batch=st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=2), stages=st.integers(1, 8), dynamic=st.booleans(),
       element=st.sampled_from(["f16", "f32", "f64"]), seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_all_stages_are_a_transform(batch, stages, element, dynamic, seed):
    body = Body("dynamic" if dynamic else "static", seed=seed % 1000)
    fourier(body, batch, stages, element, random.Random(seed))
    run(body)


def program(stage: str = "2 : index", type: str = "tensor<8xf32>", other: str = "", factors: str = "") -> str:
    return f"""func.func @f(%a: {type}, %b: {other or type}, %c: tensor<2xf32>, %d: tensor<1xf32>) -> {type} {{
  %s = arith.constant {stage}
  %r:2 = iree_linalg_ext.fft ins(%s{", %c, %d" if factors else ""} : {stage.partition(": ")[2]}{factors})
    outs(%a, %b : {type}, {other or type}) : {type}, {other or type}
  return %r#0 : {type}
}}"""


REFUSED = {
    "the operation works on tensors, got memref<8xf32>": """func.func @f(%a: memref<8xf32>) {
  %s = arith.constant 2 : index
  iree_linalg_ext.fft ins(%s : index) outs(%a, %a : memref<8xf32>, memref<8xf32>)
  return
}""",
    "the stage is an index, got i32": program("2 : i32"),
    "a transform of tensor<8xf32> has no stage 4": program("4 : index"),
    "a transform of tensor<8xf32> has no stage 0": program("0 : index"),
    "has a power of two for its size, got tensor<6xf32>": program(type="tensor<6xf32>"),
    "the imaginary part is tensor<4xf32>, expected the shape 8": program(other="tensor<4xf32>"),
    "the elements of tensor<8xf64> and tensor<8xf32> differ": program(other="tensor<8xf64>"),
    "a transform has floats along a dimension, got tensor<8xi32>": program(type="tensor<8xi32>"),
    "the imaginary part of the factors is tensor<1xf32>, expected the shape 2": program(
        factors=", tensor<2xf32>, tensor<1xf32>"
    ),
    "a transform works on tensors with a static last size, got tensor<?xf32>": program(type="tensor<?xf32>"),
    "the stage of a transform is a constant": program().replace(
        "arith.constant 2 : index", "util.unfoldable_constant 2 : index"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    assert message in refused(REFUSED[message])
