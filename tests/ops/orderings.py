"""Operations of `iree_linalg_ext` and `tm_tensor`, with what NumPy makes of them.

Each function adds an operation on random small numbers to a body, and what is expected of its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import DTYPES, FLOATS, Array, Body, Value

Shape = Sequence[int]


def operation(
    body: Body, text: str, ins: Sequence[Value], outs: Sequence[Value], code: str, elements: Sequence[str], yields: str
) -> list[Value]:
    """text: the name and what follows it. code: lines over %a0, %a1 … of the types `elements`; it ends with %r."""
    dialect = text.partition(".")[0]
    operands = f"ins({', '.join(map(str, ins))} : {body.type_of(*ins)}) " if ins else ""
    types = body.type_of(*outs)
    name = f"%v{len(body.lines)}"
    region = ""
    if code:
        arguments = ", ".join(f"%a{i}: {e}" for i, e in enumerate(elements))
        region = f"{{\n  ^bb0({arguments}):\n    {code}\n    {dialect}.yield %r : {yields}\n  }} "
    body.line(
        f"{name}{f':{len(outs)}' if len(outs) > 1 else ''} = {text} {operands}"
        f"outs({', '.join(map(str, outs))} : {types}) {region}-> {types}"
    )
    if len(outs) == 1:
        return [Value(name, outs[0].shape, outs[0].element)]
    return [Value(f"{name}#{i}", v.shape, v.element) for i, v in enumerate(outs)]


def small(body: Body, shape: Shape, element: str, high: int = 9) -> tuple[Value, Array]:
    """Numbers of which many are equal."""
    return body.numbers(shape, element, 0, 2 if element == "i1" else high)


def compared(element: str, a: str, b: str, more: bool) -> str:
    """%r: a before b."""
    if element in FLOATS:
        return f"%r = arith.cmpf {'ogt' if more else 'olt'}, {a}, {b} : {element}"
    unsigned = element == "i1"
    word = ("ugt" if more else "ult") if unsigned else ("sgt" if more else "slt")
    return f"%r = arith.cmpi {word}, {a}, {b} : {element}"


def order_of(array: Array, along: int, more: bool) -> Array:
    """The places of the elements in their order, equal ones in that of the array."""
    keys = array.astype(np.float64)
    return np.argsort(-keys if more else keys, axis=along, kind="stable")


def sort(
    body: Body, shape: Shape, along: int, element: str, other: str | None, more: bool, dialect: str = "iree_linalg_ext"
) -> None:
    """By the elements of one tensor; a second one shows where equal ones went."""
    key, array = small(body, shape, element)
    outs, arrays = [key], [array]
    if other is not None:
        place = np.arange(int(np.prod(shape))).reshape(shape) % 100
        outs.append(body.input(place, other))
        arrays.append(body.inputs[-1][1])
    elements = [e for value in outs for e in (value.element, value.element)]
    found = operation(
        body, f"{dialect}.sort dimension({along})", [], outs, compared(element, "%a0", "%a1", more), elements, "i1"
    )
    order = order_of(array, along, more)
    for value, each in zip(found, arrays, strict=True):
        body.expect(value, np.take_along_axis(each, order, along))


def topk(
    body: Body, shape: Shape, along: int, count: int, element: str, indices: str, more: bool, given: bool,
    dialect: str = "iree_linalg_ext",
) -> None:  # fmt: skip
    key, array = small(body, shape, element)
    place = np.broadcast_to(
        np.arange(shape[along]).reshape([-1 if d == along else 1 for d in range(len(shape))]), shape
    )
    place = np.ascontiguousarray(place, DTYPES[indices])
    ins = [key]
    if given:
        place = (place * 3 + 1) % 100
        ins.append(body.input(place, indices))
    best = [count if d == along else n for d, n in enumerate(shape)]
    outs = [body.empty(best, element), body.empty(best, indices)]
    found = operation(
        body, f"{dialect}.topk dimension({along})", ins, outs, compared(element, "%a0", "%a1", more),
        [element, element], "i1",
    )  # fmt: skip
    order = np.take(order_of(array, along, more), np.arange(count), along)
    for value, each in zip(found, (array, place), strict=True):
        body.expect(value, np.take_along_axis(each, order, along))


def arg_compare(body: Body, shape: Shape, along: int, element: str, indices: str, base: int | None) -> None:
    """The largest element, which every element is larger than to begin with."""
    key, array = body.numbers(shape, element)
    rest = [n for d, n in enumerate(shape) if d != along]
    start = [body.filled(-9, rest, element), body.filled(0, rest, indices)]
    text = f"iree_linalg_ext.arg_compare dimension({along})"
    types = body.type_of(*start)
    more = "" if base is None else f" index_base({body.index(base)} : index)"
    name = f"%v{len(body.lines)}"
    body.line(
        f"{name}:2 = {text} ins({key} : {body.type_of(key)}) outs({start[0]}, {start[1]} : {types}){more} {{\n"
        f"  ^bb0(%a0: {element}, %a1: {element}):\n    {compared(element, '%a0', '%a1', True)}\n"
        f"    iree_linalg_ext.yield %r : i1\n  }} -> {types}"
    )
    values = array.astype(np.float64)
    if shape[along]:
        wanted, place = values.max(along), values.argmax(along) + (base or 0)
    else:
        wanted, place = np.full(rest, -9), np.zeros(rest)
    body.expect(Value(f"{name}#0", tuple(rest), element), wanted)
    body.expect(Value(f"{name}#1", tuple(rest), indices), place)


COMBINERS: dict[str, Any] = {"add": np.add, "max": np.maximum, "sub": np.subtract}


def combined(kind: str, element: str, a: str, b: str) -> str:
    """%r: two elements combined."""
    if kind == "max":
        return f"%r = arith.{'maximumf' if element in FLOATS else 'maxsi'} {a}, {b} : {element}"
    return f"%r = arith.{kind}{'f' if element in FLOATS else 'i'} {a}, {b} : {element}"


def scan(
    body: Body, shape: Shape, along: int, element: str, kind: str, inclusive: bool, dialect: str = "iree_linalg_ext"
) -> None:
    values, array = body.numbers(shape, element, -1, 2)
    rest = [n for d, n in enumerate(shape) if d != along]
    start, first = body.numbers(rest, element)
    text = f"{dialect}.scan dimension({along}) inclusive({'true' if inclusive else 'false'})"
    outs = [body.empty(shape, element), start]
    found = operation(body, text, [values], outs, combined(kind, element, "%a0", "%a1"), [element, element], element)
    results, last = np.zeros(shape, DTYPES[element]), first
    rows = [np.take(array, i, along) for i in range(shape[along])]
    for i, row in enumerate(rows):
        if inclusive:
            last = row if i == 0 else COMBINERS[kind](last, row).astype(DTYPES[element])
        elif i:
            last = COMBINERS[kind](last, rows[i - 1]).astype(DTYPES[element])
        np.moveaxis(results, along, 0)[i] = last
    body.expect(found[0], results)
    body.expect(found[1], last)


def scatter(
    body: Body, whole: Shape, count: int, element: str, indices: str, kind: str, unique: bool, masked: bool,
    order: Sequence[int], into_zeros: bool,
) -> None:  # fmt: skip
    """Slices of the dimensions that `order` does not name. Some indices lie outside."""
    rest = [n for d, n in enumerate(whole) if d not in order]
    updates, new = small(body, [count, *rest], element)
    if into_zeros:
        target, old = body.filled(0, whole, element), np.zeros(whole, DTYPES[element])
    else:
        target, old = small(body, whole, element)
    sizes = [whole[d] for d in order]
    if unique:
        every = int(np.prod([n + 2 for n in sizes]))
        picked = body.random.permutation(every)[:count] if every >= count else np.zeros(0, int)
        coordinates = np.stack(np.unravel_index(picked, [n + 2 for n in sizes]), -1).reshape(-1, len(order)) - 1
    else:
        coordinates = np.stack([body.random.integers(-1, n + 1, count) for n in sizes], -1)
    places = body.input(coordinates.reshape(count, len(order)), indices, 1)
    ins, wanted = [updates, places], np.ones(count, bool)
    if masked:
        mask, wanted = small(body, [count], "i1")
        ins.append(mask)
    code = "%r = arith.select %yes, %a0, %a1 : " + element if kind == "update" else ""
    if kind == "update":
        body.line("%yes = arith.constant true")
    found = operation(
        body,
        f"iree_linalg_ext.scatter dimension_map = {list(order)} unique_indices({'true' if unique else 'false'})",
        ins, [target], code or combined(kind, element, "%a0", "%a1"), [element, element], element,
    )  # fmt: skip
    result = old.copy()
    for place, update, counts in zip(coordinates, new, wanted, strict=True):
        if counts and all(0 <= i < n for i, n in zip(place, sizes, strict=True)):
            at: list[Any] = [slice(None)] * len(whole)
            for d, i in zip(order, place, strict=True):
                at[d] = i
            result[tuple(at)] = update if kind == "update" else COMBINERS[kind](update, result[tuple(at)])
    body.expect(found[0], result)


def gather(body: Body, whole: Shape, batch: Shape, element: str, indices: str, order: Sequence[int]) -> None:
    """Indices outside are moved to the border."""
    source, array = body.numbers(whole, element, 0, 2 if element == "i1" else 90)
    sizes = [whole[d] for d in order]
    coordinates = np.stack([body.random.integers(-1, n + 1, tuple(batch)) for n in sizes], -1)
    places = body.input(coordinates, indices, 1)
    rest = [n for d, n in enumerate(whole) if d not in order]
    out = body.empty([*batch, *rest], element)
    found = operation(
        body, f"iree_linalg_ext.gather dimension_map = {list(order)}", [source, places], [out], "", [], ""
    )
    result = np.zeros([*batch, *rest], DTYPES[element])
    for where in np.ndindex(*batch):
        at: list[Any] = [slice(None)] * len(whole)
        for d, i, n in zip(order, coordinates[where], sizes, strict=True):
            at[d] = min(max(i, 0), n - 1)
        if all(whole):
            result[where] = array[tuple(at)]
    body.expect(found[0], result)


def map_store(body: Body, shape: Shape, element: str, steps: int, name: str = "map_store") -> None:
    """Element i goes to `steps` * i + 1 where i is even; some lie outside."""
    source, array = body.numbers(shape, element, 1, 90)
    whole = [max(1, n * steps - 2) if d == 0 else n for d, n in enumerate(shape)]
    out, result = body.numbers(whole, element, 0, 2)
    result = result.copy()
    step, two, zero, one = (body.index(n) for n in (steps, 2, 0, 1))
    arguments = ", ".join(f"%i{d}: index" for d in range(len(shape)))
    places = ", ".join(["%q", *(f"%i{d}" for d in range(1, len(shape)))])
    types = ", ".join(["index"] * len(shape))
    body.line(
        f"%v{len(body.lines)} = iree_linalg_ext.{name} {source} into {out} {{\n  ^bb0({arguments}):\n"
        f"    %p = arith.muli %i0, {step} : index\n    %q = arith.addi %p, {one} : index\n"
        f"    %m = arith.remui %i0, {two} : index\n    %even = arith.cmpi eq, %m, {zero} : index\n"
        f"    iree_linalg_ext.yield {places}, %even : {types}, i1\n"
        f"  }} : {body.type_of(source)} into {body.type_of(out)} -> {body.type_of(out)}"
    )
    for i in range(0, shape[0], 2):
        if i * steps + 1 < whole[0]:
            result[i * steps + 1] = array[i]
    body.expect(Value(f"%v{len(body.lines) - 1}", tuple(whole), element), result)


def map_load(body: Body, shape: Shape, element: str, name: str = "map_load") -> None:
    """Element i comes from i - 1; what lies outside is 7."""
    source, array = body.numbers(shape, element, 1, 90)
    whole = [n + 3 if d == 0 else n for d, n in enumerate(shape)]
    out = body.empty(whole, element)
    padding, one = body.scalar(7, element), body.index(1)
    arguments = ", ".join(f"%i{d}: index" for d in range(len(shape)))
    places = ", ".join(["%q", *(f"%i{d}" for d in range(1, len(shape)))])
    types = ", ".join(["index"] * len(shape))
    body.line(
        f"%v{len(body.lines)} = iree_linalg_ext.{name} {source} into {out} {{\n  ^bb0({arguments}):\n"
        f"    %q = arith.subi %i0, {one} : index\n"
        f"    iree_linalg_ext.yield {places}, {padding} : {types}, {element}\n"
        f"  }} : {body.type_of(source)} into {body.type_of(out)} -> {body.type_of(out)}"
    )
    result = np.full(whole, 7).astype(DTYPES[element])
    result[1 : shape[0] + 1] = array
    body.expect(Value(f"%v{len(body.lines) - 1}", tuple(whole), element), result)
