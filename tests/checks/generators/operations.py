"""Check files of the operations of linalg and tensor on fixed sizes, with the values that NumPy gives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import contractions
import convolutions
import generics
import moves
import orderings
from harness import Body

NOTE = "// Written by tests/checks/generators/operations.py; the expected values are NumPy's.\n\n"


def _contractions() -> Iterator[tuple[str, Body]]:
    ways = [("static", "i8", "i32"), ("dynamic", "f32", "f32"), ("mixed", "f16", "f32")]
    for i, op in enumerate(contractions.NAMED):
        for sizes, factor, element in ways:
            body = Body(sizes, seed=i)
            contractions.named(body, op, {"m": 3, "n": 5, "k": 4, "b": 2}, factor, element, zero=i % 2 == 0)
            yield f"{op}_{factor}_{sizes}", body
    for n in (1, 2):
        body = Body(seed=n)
        contractions.named(body, "matmul", {"m": 7, "n": n, "k": 13}, "i8", "i32", zero=False)
        yield f"matmul_narrow_{n}", body
    for i, equation in enumerate(["bmk,bnk->bmn", "mk,kn->nm", "bk,bk->b", "mkj,jkn->mn", "m,n->mn"]):
        body = Body("mixed", seed=i)
        order = sorted(set(equation) & set("bmnkj"), reverse=True)
        contractions.generic(body, equation, {"m": 3, "n": 4, "k": 5, "b": 2, "j": 2}, "f32", "f32", order)
        yield f"generic_{i}", body
    for i, zeros in enumerate([(0, 0), (0, 3), (-128, 127)]):
        body = Body("dynamic" if i == 2 else "static", seed=i)
        contractions.quantized(body, 3, 4, 5, zeros)
        yield f"quantized_{i}", body
    body = Body(seed=3)
    contractions.quantized(body, 3, 4, 5, (-3, 9), batch=2)
    yield "quantized_batch", body


def _convolutions() -> Iterator[tuple[str, Body]]:
    lengths = {"n": 1, "c": 2, "g": 2, "m": 2, "f": 3, "x": 3, "y": 2, "z": 2, "X": 2, "Y": 3, "Z": 2}
    for i, op in enumerate(convolutions.NAMED):
        for sizes, steps, gaps in (("static", (1, 2, 1), (1, 1, 2)), ("dynamic", (2, 1, 1), (1, 1, 1))):
            body = Body(sizes, seed=i)
            factor, element = convolutions.TYPES[i % 4]
            convolutions.convolution(body, op, lengths, steps, gaps, factor, element, zero=i % 3 != 0)
            yield f"{op}_{sizes}", body


def _poolings() -> Iterator[tuple[str, Body]]:
    lengths = {"n": 1, "c": 3, "x": 3, "y": 2, "z": 2, "X": 2, "Y": 3, "Z": 2}
    for i, layout in enumerate(convolutions.POOLED):
        for j, kind in enumerate(("sum", "max", "min", "max_unsigned", "min_unsigned")):
            body = Body("dynamic" if (i + j) % 2 else "static", seed=i)
            element = "i8" if j > 2 else ["f32", "i32", "f16"][j]
            convolutions.pooling(body, layout, kind, lengths, (2, 1, 1), (1, 2, 1), element)
            yield f"pooling_{layout}_{kind}", body


def _moves() -> Iterator[tuple[str, Body]]:
    elements = ["i32", "f32", "i8", "i64", "i1", "f16", "index", "i16", "f64", "bf16"]
    ways = [("static", [4, 6]), ("dynamic", [3, 5]), ("static", [2, 1, 4]), ("mixed", [7])]
    for i, move in enumerate(moves.MOVES):
        for j, (sizes, shape) in enumerate(ways):
            element = elements[(i + j) % len(elements)]
            body = Body(sizes, seed=i + j)
            pair = body.numbers(shape, element, 0, 2 if element == "i1" else 50)
            body.expect(*move(body, pair, random.Random(10 * i + j)))
            yield f"{move.__name__}_{element}_{j}_{sizes}", body


def _chains() -> Iterator[tuple[str, Body]]:
    for seed in range(24):
        rng = random.Random(seed)
        body = Body(["static", "dynamic", "mixed"][seed % 3], seed=seed)
        pair = body.numbers([3, 4], ["i32", "f32", "i8"][seed % 3 - 1], 0, 20)
        for _ in range(5):
            pair = rng.choice(moves.MOVES)(body, pair, rng)
        body.expect(*pair)
        yield f"chain_{seed}", body


def _packs() -> Iterator[tuple[str, Body]]:
    cases = [([4, 4], [2, 2], [0, 1], []), ([5, 7], [2, 3], [1, 0], [1, 0]), ([1, 9], [8, 4], [0, 1], []),
             ([3, 5, 2], [2], [1], [2, 0, 1]), ([13], [4], [0], [])]  # fmt: skip
    for i, (shape, tiles, places, order) in enumerate(cases):
        for sizes, inner in (("static", "static"), ("dynamic", "static"), ("dynamic", "dynamic")):
            body = Body(sizes, seed=i)
            packed, back = moves.pack(body, shape, tiles, places, order, 9, ["i32", "i8", "f32"][i % 3], inner)
            body.expect(*packed)
            body.expect(*back)
            yield f"pack_{i}_{sizes}_{inner}", body


def _elementwise() -> Iterator[tuple[str, Body]]:
    for i, op in enumerate([*generics.BINARY, *generics.UNARY]):
        body = Body(["static", "dynamic", "mixed"][i % 3], seed=i)
        generics.elementwise(body, op, [3, 4], ["f32", "f64", "f32"][i % 3])
        yield f"{op}", body
    for i, kind in enumerate(generics.REDUCTIONS):
        body = Body(["static", "dynamic"][i % 2], seed=i)
        generics.reduction(body, kind, [3, 4, 5], [[1], [0, 2], [0, 1, 2]][i % 3], "i32" if "i" in kind[-2:] else "f32")
        yield f"reduce_{kind}", body
    for sizes in ("static", "dynamic"):
        for axis in (0, 1, 2):
            body = Body(sizes, seed=axis)
            generics.softmax(body, [2, 3, 5], axis, "f32")
            yield f"softmax_{axis}_{sizes}", body
        body = Body(sizes, seed=1)
        generics.layer_norm(body, 5, 33)
        yield f"layer_norm_{sizes}", body
        body = Body(sizes, seed=1)
        generics.attention(body, 2, 5, 7, 4)
        yield f"attention_{sizes}", body


def _orderings() -> Iterator[tuple[str, Body]]:
    for i, (sizes, element) in enumerate([("static", "f32"), ("dynamic", "i32"), ("mixed", "f16"), ("dynamic", "i8")]):
        for shape, along in (([7], 0), ([3, 5], 0), ([2, 9], 1)):
            body = Body(sizes, seed=i)
            orderings.sort(body, shape, along, element, "i32", i % 2 == 0)
            orderings.topk(body, shape, along, 2, element, "i32", i % 2 == 1, i > 1)
            orderings.arg_compare(body, shape, along, element, "i32", 3 if i == 1 else None)
            orderings.scan(body, shape, along, element, ["add", "max"][i % 2], i > 1)
            yield f"ordering_{element}_{len(shape)}_{along}", body
        for unique in (False, True):
            for whole, order in (([5], [0]), ([4, 3], [0]), ([3, 4], [1, 0]), ([3, 2, 4], [1])):
                body = Body(sizes, seed=i)
                kind = ["add", "update", "sub"][i % 3]
                orderings.scatter(body, whole, 4, element, "i32", kind, unique, i == 2, order, i == 0)
                orderings.gather(body, whole, [3], element, "i64", order)
                yield f"indexing_{element}_{'x'.join(map(str, whole))}_{'unique' if unique else 'any'}", body
        body = Body(sizes, seed=i)
        orderings.map_store(body, [4, 3], element, 2)
        orderings.map_load(body, [4, 3], element)
        yield f"maps_{element}", body
    for sizes in ("static", "dynamic"):
        body = Body(sizes, seed=1)
        orderings.sort(body, [2, 300], 1, "i32", None, False)
        orderings.scan(body, [2100], 0, "i32", "add", False)
        orderings.scatter(body, [6, 5], 8200, "i32", "i32", "sub", False, False, [0], False)
        yield f"long_{sizes}", body


FILES = {
    "linalg_contractions": _contractions, "linalg_convolutions": _convolutions, "linalg_poolings": _poolings,
    "linalg_elementwise": _elementwise, "linalg_pack": _packs, "linalg_orderings": _orderings,
    "tensor_moves": _moves, "tensor_chains": _chains,
}  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of each file."""
    for name, functions in FILES.items():
        yield name, NOTE + "\n".join(body.check_text(function) for function, body in functions())
