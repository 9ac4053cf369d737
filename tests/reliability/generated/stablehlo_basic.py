"""Elementwise StableHLO operations, views, reductions and sorts."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from graph_programs import Array
from stablehlo_form import Attributes, Form, Types, any_axis, listed, same


def _order(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    first = 1 if is_open and given[0].ndim else 0
    rest = list(range(first, given[0].ndim))
    rng.shuffle(rest)
    return {"order": [*range(first), *rest]}


def _slice(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    bounds = []
    for n in given[0].shape:
        start = rng.randint(0, n)
        bounds.append((start, rng.randint(start, n), rng.choice([1, 1, 2])))
    return {"bounds": bounds}


def _sides(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if not given[0].ndim:
        raise ValueError("no axis")
    return {"low": [rng.randint(0, 2) for _ in given[0].shape], "high": [rng.randint(0, 2) for _ in given[0].shape]}


def _shape(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    sizes = list(given[0].shape)
    if len(sizes) > 1 and rng.randrange(2):
        axis = rng.randrange(len(sizes) - 1)
        sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
    else:
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return {"shape": sizes}


def _spread(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    at, n = rng.randint(0, given[0].ndim), rng.randint(1, 3)
    return {"at": at, "shape": [*given[0].shape[:at], n, *given[0].shape[at:]]}


def _direction(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    return {"direction": rng.choice(list(COMPARED))}


COMPARED = {"GT": np.greater, "LE": np.less_equal, "EQ": np.equal, "NE": np.not_equal}
FOLDS = {"add": ("0.0", np.sum), "maximum": ("0xFF800000", np.max), "minimum": ("0x7F800000", np.min)}


def _folded(fold: str) -> Form:
    start, meaning = FOLDS[fold]
    return Form(
        "f",
        lambda x, axis: meaning(x, axis=axis, initial={"add": 0, "maximum": -np.inf, "minimum": np.inf}[fold]),
        lambda names, types, result, a: (
            f"$_c = stablehlo.constant dense<{start}> : tensor<f32>\n"
            f"$ = stablehlo.reduce({names[0]} init: $_c) applies stablehlo.{fold} across dimensions = [{a['axis']}] : "
            f"({types[0]}, tensor<f32>) -> {result}"
        ),
        any_axis,
    )


def _sorted(names: Types, types: Types, result: str, a: Attributes) -> str:
    return (
        f'$ = "stablehlo.sort"({names[0]}) ({{\n^bb0(%l: tensor<f32>, %r: tensor<f32>):\n'
        "%lt = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        f'"stablehlo.return"(%lt) : (tensor<i1>) -> ()\n}}) {{dimension = {a["axis"]} : i64, is_stable = true}} '
        f": ({types[0]}) -> {result}"
    )


def _product(names: Types, types: Types, result: str, a: Attributes) -> str:
    batch = ", ".join(map(str, range(a["rank"] - 2)))
    clause = f"batching_dims = [{batch}] x [{batch}], " if batch else ""
    last = a["rank"] - 1
    return (
        f"$ = stablehlo.dot_general {names[0]}, {names[0]}, {clause}contracting_dims = [{last}] x [{last}] : "
        f"({types[0]}, {types[0]}) -> {result}"
    )


def _ranked(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if given[0].ndim < (3 if is_open else 2):
        raise ValueError("too few axes")
    return {"rank": given[0].ndim}


UNARY = {
    "tanh": np.tanh, "abs": np.abs, "negate": np.negative, "cosine": np.cos, "sine": np.sin, "floor": np.floor,
    "ceil": np.ceil, "sign": np.sign, "round_nearest_even": np.rint, "logistic": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
BASIC: dict[str, Form] = {
    **{name: Form("f", meaning, same(name)) for name, meaning in UNARY.items()},
    **{name: Form("ff", meaning, same(name)) for name, meaning in BINARY.items()},
    **{f"{name}_i": Form("ii", meaning, same(name)) for name, meaning in BINARY.items()},
    "and": Form("bb", np.logical_and, same("and")),
    "not": Form("b", np.logical_not, same("not")),
    "compare": Form("ff", lambda x, y, direction: COMPARED[direction](x, y),
                    lambda names, types, result, a: f"$ = stablehlo.compare {a['direction']}, {', '.join(names)} : "
                    f"({', '.join(types)}) -> {result}", _direction),
    "select": Form("bff", np.where, lambda names, types, result, a: f"$ = stablehlo.select {', '.join(names)} : "
                   f"{types[0]}, {result}"),
    "to_integer": Form("f", lambda x: x.astype(np.int32), listed("convert")),
    "to_float": Form("i", lambda x: x.astype(np.float32), listed("convert")),
    "of_truth": Form("b", lambda x: x.astype(np.float32), listed("convert")),
    "transpose": Form("f", lambda x, order: x.transpose(order), listed("transpose", ", dims = {order}"), _order),
    "reverse": Form("f", np.flip, lambda names, types, result, a: f"$ = stablehlo.reverse {names[0]}, dims = "
                    f"[{a['axis']}] : {result}", any_axis),
    "concatenate": Form("ff", lambda x, y, axis: np.concatenate([x, y], axis),
                        listed("concatenate", ", dim = {axis}"), any_axis),
    "slice": Form("f", lambda x, bounds: x[tuple(slice(*each) for each in bounds)],
                  lambda names, types, result, a: f"$ = stablehlo.slice {names[0]} ["
                  f"{', '.join(f'{low}:{high}:{step}' for low, high, step in a['bounds'])}] : ({types[0]}) -> {result}",
                  _slice, True),
    "pad": Form("f", lambda x, low, high: np.pad(x, list(zip(low, high, strict=True)), constant_values=0.5),
                lambda names, types, result, a: "$_c = stablehlo.constant dense<0.5> : tensor<f32>\n"
                f"$ = stablehlo.pad {names[0]}, $_c, low = {a['low']}, high = {a['high']}, interior = "
                f"{[0] * len(a['low'])} : ({types[0]}, tensor<f32>) -> {result}", _sides, True),
    "reshape": Form("f", lambda x, shape: x.reshape(shape), listed("reshape"), _shape, True),
    "broadcast": Form("f", lambda x, at, shape: np.broadcast_to(np.expand_dims(x, at), shape).copy(),
                      lambda names, types, result, a: f"$ = stablehlo.broadcast_in_dim {names[0]}, dims = "
                      f"{[d for d in range(len(a['shape'])) if d != a['at']]} : ({types[0]}) -> {result}",
                      _spread, True),
    **{f"reduce_{fold}": _folded(fold) for fold in FOLDS},
    "sort": Form("f", lambda x, axis: np.sort(x, axis, kind="stable"), _sorted, any_axis),
    "product": Form("f", lambda x, rank: x @ np.swapaxes(x, -1, -2), _product, _ranked),
}  # fmt: skip
