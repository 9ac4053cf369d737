"""Stages of Fourier transforms, compared with NumPy's transform of the whole."""

from __future__ import annotations

import random

import numpy as np
import pytest
from harness import Body, Value, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st

EPSILON = {"f16": 1e-2, "f32": 1e-5, "f64": 1e-12}


def stage(body: Body, number: int, real: Value, imaginary: Value, factors: list[Value]) -> tuple[Value, Value]:
    constant = body.value(f"arith.constant {number} : index", None, "index")
    name, types = f"%v{len(body.lines)}", body.type_of(real, imaginary)
    given = [constant, *factors]
    body.line(
        f"{name}:2 = iree_linalg_ext.fft ins({', '.join(map(str, given))} : {body.type_of(*given)}) "
        f"outs({real}, {imaginary} : {types}) : {types}"
    )
    return Value(f"{name}#0", real.shape, real.element, 1), Value(f"{name}#1", real.shape, real.element, 1)


@examples(2)
@given(batch=st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=2), stages=st.integers(1, 8), dynamic=st.booleans(),
       element=st.sampled_from(["f16", "f32", "f64"]), seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_all_stages_are_a_transform(batch, stages, element, dynamic, seed):
    rng, n = random.Random(seed), 1 << stages
    body = Body("dynamic" if dynamic else "static", seed=seed % 1000)
    parts = [body.random.uniform(-1, 1, (*batch, n)) for _ in range(2)]
    reversed_bits = [int(f"{i:0{stages}b}"[::-1], 2) for i in range(n)]
    real, imaginary = (body.input(part[..., reversed_bits], element, known=1) for part in parts)
    for number in range(1, stages + 1):
        half = 1 << number - 1
        powers = np.exp(-1j * np.pi * np.arange(half) / half)
        factors = []
        if rng.random() < 0.5:
            factors = [body.input(part, element, known=1) for part in (powers.real, powers.imag)]
        real, imaginary = stage(body, number, real, imaginary, factors)
    wanted = np.fft.fft(parts[0] + 1j * parts[1])
    epsilon = EPSILON[element] * stages
    for value, part in ((real, wanted.real), (imaginary, wanted.imag)):
        body.expect(value, part, rtol=epsilon, atol=epsilon * np.sqrt(n))
    run(body)


def program(stage: str = "2 : index", type: str = "tensor<8xf32>", other: str = "", factors: str = "") -> str:
    return f"""func.func @f(%a: {type}, %b: {other or type}, %c: tensor<2xf32>, %d: tensor<1xf32>) -> {type} {{
  %s = arith.constant {stage}
  %r:2 = iree_linalg_ext.fft ins(%s{", %c, %d" if factors else ""} : {stage.partition(": ")[2]}{factors})
    outs(%a, %b : {type}, {other or type}) : {type}, {other or type}
  return %r#0 : {type}
}}"""


REFUSED = {
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
