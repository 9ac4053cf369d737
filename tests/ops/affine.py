"""A `linalg.generic` with any affine maps, with what NumPy makes of it: windows, contractions and broadcasts.

Indices are sums of multiples of loops and a constant, in tensors that may have more places than are read. Loops and
dimensions may have size 1 or 0, operands may be padded, and other operations may follow.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import moves
import numpy as np
from contractions import TYPES
from convolutions import LIMITS
from harness import DTYPES, INTEGERS, Body

Random = random.Random

LENGTHS = (1, 1, 1, 2, 2, 3, 4, 5, 8, 9, 16, 17, 33, 67, 300)
FACTORS = [*TYPES, ("f32", "f32"), ("f64", "f64"), ("i8", "i32"), ("bf16", "bf16"), ("i16", "i16")]
STEPS = 20_000
"""Of all loops together, at most."""
TERMS = {"f16": 500, "bf16": 60}
"""Of a sum of these types that is exact, at most."""


class Maps(NamedTuple):
    """The loops of a generic and the indices of its operands, the last of which is the result: text over d0, d1, ..."""

    sizes: Sequence[int]
    iterators: str
    indices: Sequence[Sequence[str]]

    def reduced(self) -> list[int]:
        return [d for d, kind in enumerate(self.iterators) if kind == "r"]

    def terms(self) -> int:
        return int(np.prod([self.sizes[d] for d in self.reduced()]))

    def place(self, index: str, sizes: Sequence[int]) -> Any:
        """What an index is in every step of loops of these sizes, a dimension for each."""
        return eval(index, {f"d{d}": n for d, n in enumerate(np.indices(sizes, sparse=True))})

    def shape(self, number: int, room: Sequence[int] = ()) -> list[int]:
        """Of an operand. room: places after those that are read, where an index is not a loop alone."""
        loops = {f"d{d}": n for d, n in enumerate(self.sizes)}
        read = [np.max(self.place(i, [max(1, n) for n in self.sizes])) + 1 for i in self.indices[number]]
        room = room or [0] * len(read)
        return [loops.get(i, int(n) + more) for i, n, more in zip(self.indices[number], read, room, strict=True)]


def index(rng: Random, sizes: Sequence[int], dims: list[int]) -> str:
    """One of some loops."""
    factors = {d: rng.choice([1, 1, 1, 2, 3]) * rng.choice([*[1] * 20, -1]) for d in dims}
    start = rng.choice([0, 0, 0, 1, 2]) - sum(n * max(0, sizes[d] - 1) for d, n in factors.items() if n < 0)
    terms = [f"d{d}" if n == 1 else f"d{d} * {n}" for d, n in factors.items()]
    return " + ".join([*terms, str(start)] if start or not terms else terms)


def indices(rng: Random, sizes: Sequence[int]) -> list[str]:
    """Of an operand. Some loops are missing, some in several dimensions."""
    dims = [d for d in range(len(sizes)) if rng.random() < 0.75]
    rng.shuffle(dims)
    found = []
    while dims:
        if rng.random() < 0.6:
            found.append(f"d{dims.pop()}")
        else:
            some = [dims.pop() for _ in range(min(len(dims), rng.choice([0, 1, 2, 2, 3])))]
            found.append(index(rng, sizes, some))
            dims += some[:1] if rng.random() < 0.1 else []
    return found


def draw(rng: Random, inputs: int, limit: int) -> Maps:
    """limit: of the terms of a sum."""
    while True:
        sizes = [rng.choice(LENGTHS) for _ in range(rng.randint(1, 7))]
        if rng.random() < 0.2:
            sizes = sizes[:1] * len(sizes)
        if rng.random() < 0.04:
            sizes[rng.randrange(len(sizes))] = 0
        iterators = "".join(rng.choice("ppr") for _ in sizes)
        result = [f"d{d}" for d, kind in enumerate(iterators) if kind == "p"]
        rng.shuffle(result)
        if np.prod(sizes) > STEPS:
            continue
        maps = Maps(sizes, iterators, [*(indices(rng, sizes) for _ in range(inputs)), result])
        known = {i for operand in maps.indices for i in operand}
        small = all(np.prod(maps.shape(n)) <= STEPS for n in range(inputs))
        if known >= {f"d{d}" for d in range(len(sizes))} and small and maps.terms() <= limit:
            return maps


def operand(body: Body, rng: Random, shape: list[int], element: str) -> moves.Pair:
    """Small numbers, in a fourth of the cases with padding around them."""
    top = 3 if element in INTEGERS else 2
    if rng.random() < 0.75:
        return body.numbers(shape, element, -top, top + 1)
    low, high = ([rng.choice([0, 0, 1, most]) if n > 4 else 0 for n in shape] for most in (2, 1))
    inner = [n - a - b for n, a, b in zip(shape, low, high, strict=True)]
    return moves.padded(body, body.numbers(inner, element, -top, top + 1), low, high, rng.randint(0, 1))


def generic(body: Body, maps: Maps, pairs: list[moves.Pair], out: moves.Pair, operation: str) -> moves.Pair:
    """operation: "add" or "max" of the first operand, where the others are only sizes, or of the "product" of all."""
    factor, element = pairs[0][0].element, out[0].element
    used = pairs if operation == "product" else pairs[:1]
    exact, kind, largest = (np.int64, "i", "maxsi") if element in INTEGERS else (np.float64, "f", "maximumf")
    join = largest if operation == "max" else f"add{kind}"
    cast = f"arith.ext{'s' if kind == 'i' else ''}{kind}"
    names = [f"%a{i}" if factor == element else f"%c{i}" for i in range(len(used))]
    lines = [f"{name} = {cast} %a{i} : {factor} to {element}" for i, name in enumerate(names) if factor != element]
    total = names[0]
    for i, name in enumerate(names[1:]):
        lines.append(f"%p{i} = arith.mul{kind} {total}, {name} : {element}")
        total = f"%p{i}"
    lines += [f"%s = arith.{join} %o0, {total} : {element}", f"linalg.yield %s : {element}"]
    loops = ", ".join(f"d{d}" for d in range(len(maps.sizes)))
    texts = [f"({loops}) -> ({', '.join(operand)})" for operand in maps.indices]
    (value,) = body.generic(texts, maps.iterators, [v for v, _ in pairs], [out[0]], "\n".join(lines))

    seen = [
        np.broadcast_to(array[tuple(maps.place(i, maps.sizes) for i in operand)], maps.sizes).astype(exact)
        for (_, array), operand in zip(used, maps.indices, strict=False)
    ]
    order = [*maps.reduced(), *(int(i[1:]) for i in maps.indices[-1])]
    terms = reduce(np.multiply, seen).transpose(order).reshape([maps.terms(), *out[1].shape])
    combine = np.maximum if operation == "max" else np.add
    result = combine.reduce(np.concatenate([out[1].astype(exact)[None], terms]), 0)
    return value, np.asarray(result).astype(DTYPES[element])


def any_generic(body: Body, rng: Random) -> moves.Pair:
    factor, element = rng.choice(FACTORS)
    maps = draw(rng, rng.choice([1, 2] if element in TERMS else [1, 2, 2, 2, 3]), TERMS.get(element, STEPS))
    shapes = [maps.shape(n, [rng.choice([0, 0, 0, 1, 3]) for _ in i]) for n, i in enumerate(maps.indices[:-1])]
    pairs = [operand(body, rng, shape, factor) for shape in shapes]
    for n, shape in enumerate(shapes):  # one tensor may be several operands
        if rng.random() < 0.5:
            pairs[n] = pairs[shapes.index(shape)]
    operation = rng.choice(["product", "product", "add", "max"])
    shape, start = maps.shape(-1), LIMITS[element][0] if operation == "max" else 0
    if rng.random() < 0.3:
        out = body.numbers(shape, element, -2, 3)
    else:
        out = body.filled(start, shape, element), np.full(shape, start, DTYPES[element])
    return generic(body, maps, pairs, out, operation)


def biased(body: Body, pair: moves.Pair, rng: Random) -> moves.Pair:
    """A number for each place of one dimension is added, and nothing is left below zero."""
    value, array = pair
    if not array.ndim:
        return pair
    axis = rng.randrange(array.ndim)
    bias, numbers = body.numbers([array.shape[axis]], value.element, -2, 3)
    add, top, zero = ("addi", "maxsi", "0") if value.element in INTEGERS else ("addf", "maximumf", "0.0")
    lines = f"""%z = arith.constant {zero} : {value.element}
    %s = arith.{add} %a0, %a1 : {value.element}
    %t = arith.{top} %s, %z : {value.element}
    linalg.yield %t : {value.element}"""
    loops = ", ".join(f"d{i}" for i in range(array.ndim))
    maps = [f"({loops}) -> ({m})" for m in (loops, f"d{axis}", loops)]
    (made,) = body.generic(maps, "p" * array.ndim, [value, bias], [body.empty(array.shape, value.element)], lines)
    along = numbers.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return made, np.maximum(array + along, 0).astype(array.dtype)
