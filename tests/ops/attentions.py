"""Programs with one attention, by the letters of its iterations, and what NumPy says of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from harness import Array, Body, Value

EPSILON = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 2e-5, "f64": 1e-12}

BODIES = {
    "none": None,
    "same": "",
    "soft cap": "%t = math.tanh %score : {0}\n%two = arith.constant 2.0 : {0}\n%score1 = arith.mulf %t, %two : {0}",
    "causal": "%m = iree_linalg_ext.index {m} : index\n%k = iree_linalg_ext.index {k} : index\n"
    "%never = arith.constant 0x{inf} : {0}\n%seen = arith.cmpi ule, %k, %m : index\n"
    "%score1 = arith.select %seen, %score, %never : {0}",
}
"""What a body does with a score."""
MINUS_INFINITY = {"f32": "FF800000", "f64": "FFF0000000000000"}


class Letters(NamedTuple):
    """The iterations of each operand, a letter each: "bmd" is [b, m, d]."""

    query: str
    key: str
    value: str
    output: str
    mask: str | None = None

    @property
    def loops(self) -> str:
        return "".join(sorted({*self.query, *self.key, *self.value, *self.output}))

    @property
    def scores(self) -> str:
        """The rows and after them the columns."""
        columns = [c for c in self.value if c not in self.output]
        rows = [c for c in self.loops if c in self.query + self.key and c in self.output]
        return "".join(rows + columns)

    @property
    def rows(self) -> str:
        return "".join(c for c in self.scores if c in self.output)

    def map(self, letters: str) -> str:
        dims = ", ".join(f"d{n}" for n in range(len(self.loops)))
        return f"affine_map<({dims}) -> ({', '.join(f'd{self.loops.index(c)}' for c in letters)})>"


def scores(letters: Letters, query: Array, key: Array, scale: float, mask: Array | None, body: str) -> Array:
    wide = [a.astype(np.float64) for a in (query, key)]
    found = scale * np.einsum(f"{letters.query},{letters.key}->{letters.scores}", *wide)
    if body == "soft cap":
        found = 2 * np.tanh(found)
    elif body == "causal":
        places = np.indices(found.shape)
        row, column = places[letters.scores.index("m")], places[letters.scores.index("k")]
        found = np.where(column <= row, found, -np.inf)
    if mask is not None:
        assert letters.mask is not None
        whole = np.einsum(f"{letters.mask},{letters.scores}->{letters.scores}", mask.astype(np.float64),
                          np.ones(found.shape))  # fmt: skip
        found = np.where(whole != 0, found, -np.inf) if mask.dtype == np.bool_ else found + whole
    return found


def attention(letters: Letters, found: Array, value: Array) -> Array:
    """A row of which everything is masked has weights of zero."""
    along = tuple(letters.scores.index(c) for c in letters.scores if c not in letters.output)
    powers = np.exp(found - np.maximum(found.max(along, keepdims=True), -3e38))
    sums = powers.sum(along, keepdims=True)
    weights = np.divide(powers, sums, out=np.zeros_like(powers), where=sums > 0)
    return np.einsum(f"{letters.scores},{letters.value}->{letters.output}", weights, value.astype(np.float64))


def written(
    body: Body, name: str, letters: Letters, inputs: Sequence[Value], outputs: Sequence[Value], kind: str,
    score: str = "f32", attributes: str = "", has_scale: bool = True,
) -> list[Value]:  # fmt: skip
    """The operation `name` on query, key, value, perhaps a scale and perhaps a mask."""
    maps = [letters.query, letters.key, letters.value, *([""] if has_scale else [])]
    maps += [letters.mask] if letters.mask is not None else []
    maps += [letters.output] + [letters.rows] * (len(outputs) - 1)
    region = ""
    if (lines := BODIES[kind]) is not None:
        names = {c: letters.loops.index(c) for c in "mk" if c in letters.loops}
        text = lines.format(score, inf=MINUS_INFINITY[score], **names)
        region = f" {{\n^bb0(%score: {score}):\n{text}\n"
        region += f"iree_linalg_ext.yield %score{1 if text else ''} : {score}\n}}"
    made = f"%v{len(body.lines)}"
    body.line(
        f"{made}{f':{len(outputs)}' if len(outputs) > 1 else ''} = iree_linalg_ext.{name} "
        f"{{{attributes}indexing_maps = [{', '.join(letters.map(m) for m in maps)}]}} "
        f"ins({', '.join(map(str, inputs))} : {body.type_of(*inputs)}) "
        f"outs({', '.join(map(str, outputs))} : {body.type_of(*outputs)}){region} -> {body.type_of(*outputs)}"
    )
    if len(outputs) == 1:
        return [Value(made, outputs[0].shape, outputs[0].element)]
    return [Value(f"{made}#{n}", o.shape, o.element) for n, o in enumerate(outputs)]


def one(
    body: Body, letters: Letters, lengths: Mapping[str, int], kind: str, mask: str | None, element: str, result: str,
    has_scale: bool = True,
) -> None:  # fmt: skip
    """One attention. mask: the type of its elements. Without a scale it is 1 / sqrt(number of features)."""
    inputs = [body.fractions([lengths[c] for c in text], element) for text in letters[:3]]
    values, scale = [v for v, _ in inputs], 0.5
    if has_scale:
        values.append(body.scalar(scale, "f16" if element == "f16" else "f32"))
    else:
        features = (lengths[c] for c in letters.query if c not in letters.scores)
        scale = float(np.prod([*features])) ** -0.5
    given_mask = None
    if mask is not None:
        shape = [lengths[c] for c in letters.mask]
        if mask == "i1":
            given_mask = body.random.random(shape) < 0.8
        else:
            given_mask = body.random.standard_normal(shape)
        values.append(body.input(given_mask, mask))
        given_mask = body.inputs[-1][1]
    out = body.empty([lengths[c] for c in letters.output], result)
    score = "f64" if element == "f64" else "f32"
    (made,) = written(body, "attention", letters, values, [out], kind, score, has_scale=has_scale)
    query, key, value = (a for _, a in inputs)
    found = scores(letters, query, key, scale, given_mask, kind)
    epsilon = max(EPSILON[element], EPSILON[result])
    body.expect(made, attention(letters, found, value), rtol=epsilon, atol=epsilon)


def online(body: Body, letters: Letters, lengths: dict[str, int], base: bool, rng: random.Random) -> None:
    """The online attentions of three parts of the keys. base: maxima are scaled for powers of two."""
    mask = letters.mask is not None
    rows = [lengths[c] for c in letters.rows]
    query = body.fractions([lengths[c] for c in letters.query], "f32")
    state = [body.filled(x, shape, "f32") for x, shape in (
        (0.0, [lengths[c] for c in letters.output]), (float("-inf"), rows), (0.0, rows))]  # fmt: skip
    every, values = [], []
    attributes = "" if base else "decomposition_config = {use_exp2 = false}, "
    for part in range(3):
        lengths["k"] = rng.choice([1, 2, 5, 8])
        key, value = (body.fractions([lengths[c] for c in text], "f32") for text in letters[1:3])
        seen = np.full(lengths["k"], part > 0)
        inputs = [query[0], key[0], value[0], body.scalar(0.3, "f32")] + ([body.input(seen, "i1")] if mask else [])
        state = written(body, "online_attention", letters, inputs, state, "same", attributes=attributes)
        every.append(scores(letters, query[1], key[1], 0.3, seen if mask else None, "same"))
        values.append(value[1])
    found, value = np.concatenate(every, axis=2), np.concatenate(values, axis=2)
    most = found.max(2)
    total = np.exp(found - most[..., None]).sum(2)
    product = attention(letters, found, value) * total[:, None, :]
    for made, wanted in zip(state, (product, most * (np.log2(np.e) if base else 1), total), strict=True):
        body.expect(made, wanted, rtol=3e-5, atol=3e-5)
