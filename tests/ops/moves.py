"""Operations of `tensor` that move elements, with what NumPy makes of them.

Each function takes a body and a value with its array, and gives a value with its array, so that they form chains.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy as np
from harness import DTYPES, Array, Body, Value

Pair = tuple[Value, Array]
Random = random.Random


def list_of(body: Body, numbers: list[int]) -> str:
    return "[" + ", ".join(body.size(n) for n in numbers) + "]"


def extract_slice(body: Body, pair: Pair, rng: Random) -> Pair:
    """A slice with any step; dimensions of one may be dropped."""
    value, array = pair
    offsets, sizes, steps = [], [], []
    for n in array.shape:
        step = rng.choice([1, 1, 2, 3])
        offset = rng.randint(0, max(0, n - 1))
        room = max(0, -(-(n - offset) // step))
        offsets.append(offset)
        steps.append(step)
        sizes.append(rng.choice([room, room, rng.randint(0, room), min(1, room)]))
    picked = array[tuple(slice(o, o + s * t, t) for o, s, t in zip(offsets, sizes, steps, strict=True))]
    picked = picked[tuple(slice(0, s) for s in sizes)]
    dropped = [i for i, n in enumerate(sizes) if n == 1 and not body.is_dynamic(1) and rng.random() < 0.5]
    result = picked.reshape([n for i, n in enumerate(sizes) if i not in dropped])
    text = (
        f"tensor.extract_slice {value}{list_of(body, offsets)} {list_of(body, sizes)} {list_of(body, steps)} : "
        f"{body.type_of(value)} to {body.type(result.shape, value.element)}"
    )
    return body.value(text, result.shape, value.element), result


def insert_slice(body: Body, pair: Pair, rng: Random) -> Pair:
    """A new tensor into part of this one."""
    value, array = pair
    offsets, sizes, steps = [], [], []
    for n in array.shape:
        step = rng.choice([1, 1, 2])
        offset = rng.randint(0, max(0, n - 1))
        room = max(0, -(-(n - offset) // step))
        offsets.append(offset)
        steps.append(step)
        sizes.append(rng.choice([room, rng.randint(0, room), min(1, room)]))
    dropped = [i for i, n in enumerate(sizes) if n == 1 and not body.is_dynamic(1) and rng.random() < 0.5]
    shape = [n for i, n in enumerate(sizes) if i not in dropped]
    source, new = body.numbers(shape, value.element, 0, 2 if value.element == "i1" else 90)
    result = np.array(array)  # what is computed without dimensions may be a scalar of NumPy
    if new.size:
        where = tuple(slice(o, o + (s - 1) * t + 1, t) for o, s, t in zip(offsets, sizes, steps, strict=True))
        result[where] = new.reshape(sizes)
    text = (
        f"tensor.insert_slice {source} into {value}{list_of(body, offsets)} {list_of(body, sizes)} "
        f"{list_of(body, steps)} : {body.type_of(source)} into {body.type_of(value)}"
    )
    return body.value(text, array.shape, value.element), result


def padded(body: Body, pair: Pair, low: list[int], high: list[int], filler: int) -> Pair:
    value, array = pair
    constant = body.scalar(filler, value.element)
    result = np.pad(array, list(zip(low, high, strict=True)), constant_values=filler) if array.ndim else array
    arguments = ", ".join(f"%p{i}: index" for i in range(array.ndim))
    # A static size stays static where nothing that is dynamic is added to it.
    static = frozenset(i for i in value.static if not body.is_dynamic(low[i]) and not body.is_dynamic(high[i]))
    text = (
        f"tensor.pad {value} low{list_of(body, low)} high{list_of(body, high)} {{\n"
        f"  ^bb0({arguments}):\n    tensor.yield {constant} : {value.element}\n  }} : {body.type_of(value)} to "
        f"{body.type(result.shape, value.element, static)}"
    )
    return body.value(text, result.shape, value.element)._replace(static=static), result


def pad(body: Body, pair: Pair, rng: Random) -> Pair:
    low = [rng.choice([0, 0, 1, 2, 3]) for _ in pair[1].shape]
    high = [rng.choice([0, 1, 2, 5]) for _ in pair[1].shape]
    return padded(body, pair, low, high, rng.randint(0, 1))


def collapse(body: Body, pair: Pair, rng: Random) -> Pair:
    """Neighbouring dimensions become one. Types say which sizes are known, so the whole shape must be of one kind."""
    value, array = pair
    if body.sizes == "mixed" or array.ndim == 0:
        return pair
    cuts = [0, *sorted(rng.sample(range(1, array.ndim), rng.randint(0, array.ndim - 1))), array.ndim]
    groups = [list(range(a, b)) for a, b in pairwise(cuts)]
    shape = [int(np.prod([array.shape[i] for i in g])) for g in groups]
    text = f"tensor.collapse_shape {value} {groups} : {body.type_of(value)} into {body.type(shape, value.element)}"
    return body.value(text, shape, value.element), array.reshape(shape)


def expand(body: Body, pair: Pair, rng: Random) -> Pair:
    """Dimensions become several, of their divisors."""
    value, array = pair
    if body.sizes == "mixed" or array.ndim > 4:
        return pair
    shape: list[int] = []
    groups: list[list[int]] = []
    for n in array.shape:
        parts = [n]
        divisors = [d for d in range(1, n + 1) if n % d == 0] if n else [1, 3]
        if rng.random() < 0.6:
            d = rng.choice(divisors)
            parts = [n // d, d] if rng.random() < 0.5 else [d, n // d]
        groups.append(list(range(len(shape), len(shape) + len(parts))))
        shape += parts
    text = (
        f"tensor.expand_shape {value} {groups} output_shape {list_of(body, shape)} : {body.type_of(value)} into "
        f"{body.type(shape, value.element)}"
    )
    return body.value(text, shape, value.element), array.reshape(shape)


def reshape(body: Body, pair: Pair, rng: Random) -> Pair:
    """tensor.reshape to a shape that is a tensor."""
    value, array = pair
    shape = [array.size]
    if array.size and rng.random() < 0.7:
        d = rng.choice([d for d in range(1, array.size + 1) if array.size % d == 0])
        shape = [d, array.size // d]
    index = [body.value(f"arith.constant {n} : index", None, "index") for n in shape]
    kind = f"tensor<{len(shape)}xindex>"
    target = body.value(f"tensor.from_elements {', '.join(map(str, index))} : {kind}", [len(shape)], "index")
    text = f"tensor.reshape {value}({target}) : ({body.type_of(value)}, {kind}) -> {body.type(shape, value.element)}"
    return body.value(text, shape, value.element), array.reshape(shape)


def concat(body: Body, pair: Pair, rng: Random) -> Pair:
    value, array = pair
    if array.ndim == 0:
        return pair
    axis = rng.randrange(array.ndim)
    values, arrays = [value], [array]
    for _ in range(rng.randint(0, 2)):
        shape = list(array.shape)
        shape[axis] = rng.choice([0, 1, 2, 5])
        other, new = body.numbers(shape, value.element, 0, 2)
        place = rng.randint(0, len(values))
        values.insert(place, other)
        arrays.insert(place, new)
    result = np.concatenate(arrays, axis)
    text = (
        f"tensor.concat dim({axis}) {', '.join(map(str, values))} : ({body.type_of(*values)}) -> "
        f"{body.type(result.shape, value.element)}"
    )
    return body.value(text, result.shape, value.element), result


def gather(body: Body, pair: Pair, rng: Random) -> Pair:
    """Whole slices picked along some dimensions; the first dimensions of the result are those of the indices."""
    value, array = pair
    axes = sorted(rng.sample(range(array.ndim), rng.randint(1, min(2, array.ndim)))) if array.ndim else []
    if not axes or any(array.shape[a] == 0 for a in axes) or array.ndim > 4:
        return pair
    lead = rng.choice([[3], [1], [2, 3], [0]])
    count = int(np.prod(lead))
    places = [[rng.randrange(array.shape[a]) for _ in range(count)] for a in axes]
    picks = np.stack([np.array(p, np.int64).reshape(lead) for p in places], -1)
    indices = body.input(picks, rng.choice(["i32", "i64", "index"]), known=1)
    rest = [n for i, n in enumerate(array.shape) if i not in axes]
    moved = np.moveaxis(array, axes, range(len(axes)))
    result = moved[tuple(picks[..., i] for i in range(len(axes)))].reshape([*lead, *rest])
    text = (
        f"tensor.gather {value}[{indices}] gather_dims({axes}) : ({body.type_of(value, indices)}) -> "
        f"{body.type(result.shape, value.element)}"
    )
    return body.value(text, result.shape, value.element), result


def scatter(body: Body, pair: Pair, rng: Random) -> Pair:
    """Whole slices into distinct places of one dimension."""
    value, array = pair
    if array.ndim == 0 or array.shape[0] == 0:
        return pair
    count = rng.randint(1, array.shape[0])
    picks = np.array(rng.sample(range(array.shape[0]), count))
    indices = body.input(picks[:, None], rng.choice(["i32", "i64", "index"]), known=1)
    source, new = body.numbers([count, *array.shape[1:]], value.element, 0, 2)
    result = np.array(array)  # what is computed without dimensions may be a scalar of NumPy
    result[picks] = new
    text = (
        f"tensor.scatter {source} into {value}[{indices}] scatter_dims([0]) unique : "
        f"({body.type_of(source, value, indices)}) -> {body.type_of(value)}"
    )
    return body.value(text, array.shape, value.element), result


def insert(body: Body, pair: Pair, rng: Random) -> Pair:
    value, array = pair
    if array.size == 0:
        return pair
    where = [rng.randrange(n) for n in array.shape]
    new = body.scalar(1, value.element)
    result = np.array(array)  # what is computed without dimensions may be a scalar of NumPy
    result[tuple(where)] = 1
    indices = ", ".join(body.value(f"arith.constant {i} : index", None, "index").name for i in where)
    text = f"tensor.insert {new} into {value}[{indices}] : {body.type_of(value)}"
    return body.value(text, array.shape, value.element), result


def cast(body: Body, pair: Pair, _: Random) -> Pair:
    """To sizes that are not known, past a barrier, and back."""
    value, array = pair
    hidden = f"tensor<{'?x' * array.ndim}{value.element}>"
    far = body.value(f"tensor.cast {value} : {body.type_of(value)} to {hidden}", array.shape, value.element)
    held = body.value(f"util.optimization_barrier {far} : {hidden}", array.shape, value.element)
    return body.value(f"tensor.cast {held} : {hidden} to {body.type_of(value)}", array.shape, value.element), array


def transpose(body: Body, pair: Pair, rng: Random) -> Pair:
    value, array = pair
    order = rng.sample(range(array.ndim), array.ndim)
    result = array.transpose(order)
    out = body.empty(result.shape, value.element)
    text = (
        f"linalg.transpose ins({value} : {body.type_of(value)}) outs({out} : {body.type_of(out)}) permutation = {order}"
    )
    return body.value(text, result.shape, value.element), result


def broadcast(body: Body, pair: Pair, rng: Random) -> Pair:
    value, array = pair
    if array.ndim > 3:
        return pair
    axis, n = rng.randint(0, array.ndim), rng.choice([1, 2, 3])
    result = np.repeat(np.expand_dims(array, axis), n, axis)
    out = body.empty(result.shape, value.element)
    text = (
        f"linalg.broadcast ins({value} : {body.type_of(value)}) outs({out} : {body.type_of(out)}) dimensions = [{axis}]"
    )
    return body.value(text, result.shape, value.element), result


def double(body: Body, pair: Pair, _: Random) -> Pair:
    """Arithmetic between moves, so that they are fused into something."""
    value, array = pair
    op = "arith.ori" if value.element == "i1" else "arith.addf" if "f" in value.element else "arith.muli"
    if value.element == "index":
        return pair
    made = body.value(f"{op} {value}, {value} : {body.type_of(value)}", array.shape, value.element)
    return made, {"arith.ori": array, "arith.addf": array + array, "arith.muli": array * array}[op]


def reverse(body: Body, pair: Pair, rng: Random) -> Pair:
    """Backwards along one dimension: an outer tensor is read in a body."""
    value, array = pair
    if array.ndim == 0:
        return pair
    axis, n = rng.randrange(array.ndim), array.ndim
    last = body.index(array.shape[axis] - 1)
    where = [f"%i{i}" if i != axis else "%j" for i in range(n)]
    lines = [f"%i{i} = linalg.index {i} : index" for i in range(n)]
    lines += [
        f"%j = arith.subi {last}, %i{axis} : index",
        f"%e = tensor.extract {value}[{', '.join(where)}] : {body.type_of(value)}",
        f"linalg.yield %e : {value.element}",
    ]
    dims = ", ".join(f"d{i}" for i in range(n))
    out = body.empty(array.shape, value.element)
    (made,) = body.generic([f"({dims}) -> ({dims})"], "p" * n, [], [out], "\n".join(lines))
    return made, np.flip(array, axis)


def generate(body: Body, pair: Pair, rng: Random) -> Pair:
    """tensor.generate that reads another tensor."""
    value, array = pair
    if array.size == 0:
        return pair
    n = rng.choice([1, 3, 5])
    size = body.index(n)
    type_ = f"tensor<?x{value.element}>" if body.is_dynamic(n) else f"tensor<{n}x{value.element}>"
    lines = [f"%c{i} = arith.constant {m} : index\n    %r{i} = arith.remui %p, %c{i} : index"
             for i, m in enumerate(array.shape)]  # fmt: skip
    read = ", ".join(f"%r{i}" for i in range(array.ndim))
    text = (
        f"tensor.generate {size if body.is_dynamic(n) else ''} {{\n  ^bb0(%p: index):\n    "
        + "\n    ".join([*lines, f"%e = tensor.extract {value}[{read}] : {body.type_of(value)}"])
        + f"\n    tensor.yield %e : {value.element}\n  }} : {type_}"
    )
    result = np.array([array[tuple(p % m for m in array.shape)] for p in range(n)], DTYPES[value.element])
    return body.value(text, [n], value.element), result


MOVES: list[Callable[[Body, Pair, Random], Pair]] = [
    extract_slice, insert_slice, pad, collapse, expand, reshape, concat, gather, scatter, insert, cast, transpose,
    broadcast, double, reverse, generate,
]  # fmt: skip


def pack(body: Body, shape: list[int], tiles: list[int], places: list[int], order: list[int], filler: int, element: str,
         inner: str = "static") -> tuple[Pair, Pair]:  # fmt: skip
    """linalg.pack and back with linalg.unpack: what is packed, and what comes back. inner: of the tiles' sizes."""
    value, array = body.numbers(shape, element, 0, 100)
    pads = [(0, 0)] * len(shape)
    for place, tile in zip(places, tiles, strict=True):
        pads[place] = (0, -shape[place] % tile)
    padded = np.pad(array, pads, constant_values=filler)
    split = [[n] for n in padded.shape]
    for place, tile in zip(places, tiles, strict=True):
        split[place] = [padded.shape[place] // tile, tile]
    starts = [0, *accumulate(len(s) for s in split)]
    outer = [starts[i] for i in (order or range(len(shape)))]
    turned = padded.reshape([n for s in split for n in s]).transpose([*outer, *(starts[p] + 1 for p in places)])
    words = f"outer_dims_perm = {order} " if order else ""
    if inner == "static":
        sizes, tail = str(tiles), "".join(f"{t}x" for t in tiles)
    else:
        names = [body.index(t) for t in tiles]
        sizes, tail = f"[{', '.join(names)}]", "?x" * len(tiles)
    words += f"inner_dims_pos = {places} inner_tiles = {sizes}"
    head = turned.shape[: len(shape)]
    lead = "".join("?x" if body.is_dynamic(n) else f"{n}x" for n in head)
    packed_type = f"tensor<{lead}{tail}{element}>"
    dims = [body.index(n) for n in head if body.is_dynamic(n)] + (names if inner != "static" else [])
    into = body.value(f"tensor.empty({', '.join(dims)}) : {packed_type}", turned.shape, element)
    constant = body.scalar(filler, element)
    with_padding = f"padding_value({constant} : {element}) " if any(high for _, high in pads) or filler % 2 else ""
    packed = body.value(
        f"linalg.pack {value} {with_padding}{words} into {into} : {body.type_of(value)} -> {packed_type}",
        turned.shape, element,
    )  # fmt: skip
    out = body.empty(shape, element)
    text = f"linalg.unpack {packed} {words} into {out} : {packed_type} -> {body.type_of(out)}"
    back = body.value(text, shape, element)
    text = f"tensor.cast {packed} : {packed_type} to {body.type(turned.shape, element)}"
    whole = body.value(text, turned.shape, element)
    return (whole, turned), (back, array)
