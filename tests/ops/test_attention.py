"""Attentions of every form, compared with NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest
from attentions import BODIES, Letters, attention, one, online, scores
from harness import Body, examples, refused, run
from hypothesis import given
from hypothesis import strategies as st

import pydispatch as pd

SEEDS = st.integers(0, 2**32 - 1)
ELEMENTS = st.sampled_from([("f32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f64", "f64"), ("f32", "f16")])
"""Of the operands and of the result."""
SIZES = st.sampled_from(["static", "dynamic", "mixed"])


def shuffled(rng: random.Random, letters: str) -> str:
    return "".join(rng.sample(letters, len(letters)))


def some(rng: random.Random, letters: str) -> str:
    return "".join(c for c in letters if rng.random() < 0.6)


def any_letters(rng: random.Random, with_mask: bool) -> Letters:
    """b, c: batches, which some operands lack. m, o: rows. k, l: columns. d, e: features. n, p: of values."""
    batch, rows = "bc"[: rng.randint(0, 2)], "mo"[: rng.randint(1, 2)]
    columns, features, values = "kl"[: rng.randint(1, 2)], "de"[: rng.randint(1, 2)], "np"[: rng.randint(0, 2)]
    output = batch + rows + values
    key, value = some(rng, batch) + columns + features, some(rng, batch) + columns + values
    letters = Letters(*(shuffled(rng, text) for text in (batch + rows + features, key, value, output)))
    return letters._replace(mask=shuffled(rng, some(rng, letters.scores)) if with_mask else None)


@pytest.mark.parametrize("kind", BODIES)
@examples(1)
@given(sizes=SIZES, mask=st.sampled_from([None, "i1", "f32", "f16"]), seed=SEEDS, elements=ELEMENTS)
def test_attention(kind, sizes, mask, seed, elements):
    rng = random.Random(seed)
    letters = any_letters(rng, mask is not None)
    body = Body(sizes, seed=seed % 1000)
    lengths = {c: rng.choice([1, 2, 3, 4, 5, 8]) for c in letters.loops}
    one(body, letters, lengths, kind, mask, *elements)
    run(body)


@examples(1)
@given(sizes=SIZES, mask=st.sampled_from([None, "i1", "f32"]), seed=SEEDS)
def test_attention_without_a_scale(sizes, mask, seed):
    rng = random.Random(seed)
    letters = any_letters(rng, mask is not None)
    body = Body(sizes, seed=seed % 1000)
    lengths = {c: rng.choice([1, 2, 3, 4, 5, 8]) for c in letters.loops}
    one(body, letters, lengths, "none", mask, "f32", "f32", has_scale=False)
    run(body)


@examples(1)
@given(sizes=SIZES, base=st.booleans(), seed=SEEDS, mask=st.booleans())
def test_online_attention_over_parts_of_the_keys(sizes, base, seed, mask):
    """The parts give what the whole gives; the first part may have nothing to look at."""
    rng = random.Random(seed)
    letters = Letters("bmd", "kbd", "bnk", "bnm", "k" if mask else None)
    lengths = {"b": rng.choice([1, 3]), "m": rng.choice([1, 4, 7]), "d": 5, "n": rng.choice([2, 8])}
    body = Body(sizes, seed=seed % 1000)
    online(body, letters, lengths, base, rng)
    run(body)


@examples(1)
@given(batch=st.lists(st.sampled_from([1, 2, 3]), max_size=3), sizes=SIZES, mask=st.booleans(), seed=SEEDS)
def test_attention_of_matrices(batch, sizes, mask, seed):
    rng = random.Random(seed)
    m, d, k, n = (rng.choice([1, 3, 4, 8]) for _ in range(4))
    body = Body(sizes, seed=seed % 1000)
    letters = "abc"[: len(batch)]
    arrays = [body.random.standard_normal((*batch, *last)) for last in ((m, d), (k, d), (k, n))]
    values = [body.input(array, "f32", known=1) for array in arrays]
    given_mask = body.random.standard_normal((*batch, m, k)) if mask else None
    if given_mask is not None:
        values.append(body.input(given_mask, "f32"))
    out = body.empty((*batch, m, n), "f32")
    types = body.type_of(*values)
    made = body.value(f"tm_tensor.attention ins({', '.join(map(str, values))} : {types}) outs({out} : "
                      f"{body.type_of(out)}) -> {body.type_of(out)}", out.shape, "f32")  # fmt: skip
    names = Letters(*(letters + last for last in ("md", "kd", "kn", "mn", "mk")))
    query, key, value = arrays
    found = scores(names, query, key, d**-0.5, given_mask, "same")
    body.expect(made, attention(names, found, value), rtol=2e-5, atol=2e-5)
    run(body)


MAPS = ["(b, m, d, k, n) -> (b, m, d)", "(b, m, d, k, n) -> (b, k, d)", "(b, m, d, k, n) -> (b, k, n)",
        "(b, m, d, k, n) -> ()", "(b, m, d, k, n) -> (m, k)", "(b, m, d, k, n) -> (b, m, n)"]  # fmt: skip
SAME = "^bb0(%x: f32):\n iree_linalg_ext.yield %x : f32"


def program(maps: list[str] = MAPS, values: str = "%q, %k, %v, %s, %m", types: dict[str, str] | None = None,
            body: str = SAME) -> str:  # fmt: skip
    given = {"%q": "tensor<2x3x4xf32>", "%k": "tensor<2x5x4xf32>", "%v": "tensor<2x5x6xf32>", "%s": "f32",
             "%m": "tensor<3x5xi1>", "%o": "tensor<2x3x6xf32>", **(types or {})}  # fmt: skip
    arguments = ", ".join(f"{name}: {type}" for name, type in given.items())
    listed, out = ", ".join(given[name] for name in values.split(", ")), given["%o"]
    return f"""func.func @f({arguments}) -> {out} {{
  %r = iree_linalg_ext.attention {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}]}}
    ins({values} : {listed}) outs(%o : {out}) {{
  {body}
  }} -> {out}
  return %r : {out}
}}"""


def test_rows_of_a_fused_attention_that_are_masked_as_a_whole():
    """All operations are one kernel for these sizes."""
    types = {"%q": "tensor<2x64x32xf32>", "%k": "tensor<2x64x32xf32>", "%v": "tensor<2x64x16xf32>",
             "%m": "tensor<64x64xf32>", "%o": "tensor<2x64x16xf32>"}  # fmt: skip
    rng = np.random.default_rng(11)
    query, key, value = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 64, 32),) * 2 + ((2, 64, 16),))
    mask = np.where(rng.random((64, 64)) < 0.3, -np.inf, 0).astype(np.float32)
    mask[5] = -np.inf
    loaded = pd.device("cpu").load(pd.compile(program(types=types)))
    found = loaded.f(query, key, value, np.float32(0.2), mask, np.zeros((2, 64, 16), np.float32))
    names = Letters("bmd", "bkd", "bkn", "bmn", "mk")
    wanted = attention(names, scores(names, query, key, np.float32(0.2), mask, "same"), value)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)
    assert not wanted[:, 5].any()


def changed(number: int, map: str) -> list[str]:
    return [*MAPS[:number], f"(b, m, d, k, n) -> {map}", *MAPS[number + 1 :]]


def matrices(*shapes: str) -> str:
    """A `tm_tensor.attention` of query, key, value and output."""
    query, key, value, out = (f"tensor<{shape}xf32>" for shape in shapes)
    return f"""func.func @f(%q: {query}, %k: {key}, %v: {value}, %o: {out}) -> {out} {{
  %r = tm_tensor.attention ins(%q, %k, %v : {query}, {key}, {value}) outs(%o : {out}) -> {out}
  return %r : {out}
}}"""


REFUSED = {
    "expected 3 or 4 or 5 input(s), got 2": program(values="%q, %k"),
    "expected 4 input(s), got 5": program(values="%q, %k, %v, %m, %m"),
    "6 operand(s) need as many indexing maps, got 4": program(MAPS[:4]),
    "the key has size 5 where the query has 4": program(changed(1, "(b, d, k)")),
    "the value is tensor<2x5x6xf32> of rank 3, expected rank 2": program(changed(2, "(k, n)")),
    "each map of an attention selects different iterations": program(changed(1, "(b, k + d, d)")),
    "iteration d3 is one of the value and not of the output: the key has it too": program(
        changed(1, "(b, m, d)"), types={"%k": "tensor<2x3x4xf32>"}
    ),
    "there is nothing to attend to": program(changed(2, "(b, m, n)"), types={"%v": "tensor<2x3x6xf32>"}),
    "iteration d2 is neither one of the output": program(changed(1, "(b, k)"), types={"%k": "tensor<2x5xf32>"}),
    "the map of the mask has iterations that scores do not have": program(
        changed(4, "(m, n)"), types={"%m": "tensor<3x6xi1>"}
    ),
    "query and key have one element type, got f32 and f16": program(types={"%k": "tensor<2x5x4xf16>"}),
    "the value has floats for elements, got tensor<2x5x6xi32>": program(types={"%v": "tensor<2x5x6xi32>"}),
    "the mask has floats or i1 for elements, got tensor<3x5xi8>": program(types={"%m": "tensor<3x5xi8>"}),
    "the body takes one float, the score": program(body="^bb0(%x: f32, %y: f32):\n iree_linalg_ext.yield %x : f32"),
    "the body yields (i1), expected (f32)": program(
        body="^bb0(%x: f32):\n %t = arith.constant true\n iree_linalg_ext.yield %t : i1"
    ),
    "the body asks for iteration d2, which scores do not have": program(
        body="^bb0(%x: f32):\n %i = iree_linalg_ext.index 2 : index\n iree_linalg_ext.yield %x : f32"
    ),
    "the operation works on tensors, got memref<2x3x6xf32>": program(types={"%o": "memref<2x3x6xf32>"})
    .replace("%r = ", "")
    .replace("} -> memref<2x3x6xf32>", "}")
    .replace("%r", "%o"),
    "query, key and value are matrices or batches of them": matrices("4", "3x4", "3x5", "5"),
    "the key is tensor<2x3x5xf32>, expected the shape 2x3x4": matrices("2x6x4", "2x3x5", "2x3x5", "2x6x5"),
    "the value is tensor<2x4x5xf32>, expected the shape 2x3x5": matrices("2x6x4", "2x3x4", "2x4x5", "2x6x5"),
    "the output is tensor<2x6x4xf32>, expected the shape 2x6x5": matrices("2x6x4", "2x3x4", "2x3x5", "2x6x4"),
    "the columns of the query have a static number, got tensor<6x?xf32>": matrices("6x?", "3x?", "3x5", "6x5"),
    "expected an attention around it": "func.func @f() -> index {\n  %i = iree_linalg_ext.index 0 : index\n"
    "  return %i : index\n}",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    assert message in refused(REFUSED[message])
