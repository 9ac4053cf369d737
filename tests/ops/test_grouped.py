"""`group_matmul` on random groups, compared with NumPy, and the operands that it refuses."""

from __future__ import annotations

import random

import pytest
from harness import Body, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st


@examples(1)
@given(sizes=st.sampled_from(["static", "dynamic", "mixed"]), element=st.sampled_from(["f32", "f16", "i32"]),
       index=st.sampled_from(["i32", "i64", "index"]), seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_group_matmul(sizes, element, index, seed):
    """Some groups are empty, and the last rows may be in none."""
    rng = random.Random(seed)
    body = Body(sizes, seed=seed % 1000)
    m, k, n, groups = (rng.choice([1, 2, 3, 5, 8]) for _ in range(4))
    first = rng.choice([0, 0, 1, 3])
    ends = sorted(rng.randint(0, first + m + 1) for _ in range(groups))
    shapes = ((m, k), (groups, k, n), (m, n))
    rows, matrices, before = (body.random.integers(-4, 5, shape) for shape in shapes)
    values = [body.input(rows, element), body.input(matrices, element), body.input(ends, index)]
    values.append(body.scalar(first, "index"))
    wide = "f32" if element == "f16" else element
    out = body.input(before, wide)
    text = (
        f"iree_linalg_ext.group_matmul ins({', '.join(map(str, values))} : {body.type_of(*values)}) "
        f"outs({out} : {body.type_of(out)}) -> {body.type_of(out)}"
    )
    expected = before.copy()
    for row in range(m):
        group = next((g for g, end in enumerate(ends) if first + row < end), None)
        if group is not None:
            expected[row] += rows[row] @ matrices[group]
    body.expect(body.value(text, (m, n), wide), expected)
    run(body)


def program(rows: str = "3x4xf32", matrices: str = "2x4x5xf32", ends: str = "2xi64", first: str = "index",
            out: str = "3x5xf32") -> str:  # fmt: skip
    types = [*(f"tensor<{shape}>" for shape in (rows, matrices, ends)), first]
    out = f"tensor<{out}>"
    return f"""func.func @f(%r: {types[0]}, %m: {types[1]}, %e: {types[2]}, %i: {first}, %o: {out}) -> {out} {{
  %0 = iree_linalg_ext.group_matmul ins(%r, %m, %e, %i : {", ".join(types)}) outs(%o : {out}) -> {out}
  return %0 : {out}
}}"""


REFUSED = {
    "the matrices are tensor<4x5xf32>, expected three dimensions": program(matrices="4x5xf32"),
    "the tensor of rows is tensor<3x7xf32>, expected the shape ?x4": program(rows="3x7xf32"),
    "the tensor of ends is tensor<3xi64>, expected the shape 2": program(ends="3xi64"),
    "the tensor of ends has integers or index for elements": program(ends="2xf32"),
    "the number of the first row is an integer or index, got f32": program(first="f32"),
    "the output is tensor<3x4xf32>, expected the shape 3x5": program(out="3x4xf32"),
    "rows and matrices have one element type, got f16 and f32": program(rows="3x4xf16"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    assert message in refused(REFUSED[message])
