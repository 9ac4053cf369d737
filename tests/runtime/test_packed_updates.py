"""Elements that share bytes, written at places that are no multiples of a byte: inserts, slices, concatenations and
scatters of i4, i2 and i1 on every device, against NumPy. On CUDA's interpreter with the search for races."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd

DEVICES = {"cpu?workers=2": "cpu", "vulkan:0": "vulkan", "ptx-interpreter?races=1": "cuda"}
DTYPES: dict[str, Any] = {
    "i4": ml_dtypes.int4, "i2": ml_dtypes.int2, "i1": np.bool_, "f4E2M1FN": ml_dtypes.float4_e2m1fn
}  # fmt: skip
CASES = 8
"""Random programs of each kind on each device; they are compiled as one."""


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def device(name: str) -> Any:
    return pd.device(name)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> Any:
    if element == "f4E2M1FN":
        return rng.choice([-6, -1.5, 0, 0.5, 1, 3], shape).astype(DTYPES[element])
    low, high = {"i4": (-8, 8), "i2": (-2, 2), "i1": (0, 2)}[element]
    return rng.integers(low, high, shape).astype(np.int8).astype(DTYPES[element])


def typed(shape: tuple[int, ...], element: str, dynamic: bool = False) -> str:
    return f"tensor<{''.join('?x' if dynamic else f'{n}x' for n in shape)}{element}>"


def check(place: str, texts: list[str], calls: list[tuple[list[Any], Any]]) -> None:
    program = device(place).load(pd.compile("\n".join(texts), targets=DEVICES[place]))
    for i, (arguments, wanted) in enumerate(calls):
        kept = [np.array(a) for a in arguments]
        got = np.asarray(program[f"f{i}"](*arguments))
        np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32), err_msg=texts[i])
        for before, after in zip(kept, arguments, strict=True):
            np.testing.assert_array_equal(before, np.asarray(after))


def corner(rng: np.random.Generator, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], list[int], list[int]]:
    """(sizes of the whole, of a part, its offsets, its strides)."""
    whole = tuple(int(n) for n in rng.integers(1, [70, 13, 9][rank - 1] + 1, rank))
    strides = [int(s) for s in rng.choice([1, 1, 1, 2, 3], rank)]
    part = tuple(int(rng.integers(1, -(-n // s) + 1)) for n, s in zip(whole, strides, strict=True))
    rooms = [n - (p - 1) * s for n, p, s in zip(whole, part, strides, strict=True)]
    return whole, part, [int(rng.integers(0, r)) for r in rooms], strides


def inside(offsets: list[int], sizes: tuple[int, ...], strides: list[int]) -> tuple[slice, ...]:
    return tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, sizes, strides, strict=True))


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("into", ["argument", "fill"])
def test_inserts(place: str, element: str, known: bool, into: str) -> None:
    """Into a copy of an argument, whose other elements stay, and into zeros."""
    rng = np.random.default_rng([len(element), known, len(into)])
    texts, calls = [], []
    for i in range(CASES):
        rank = i % 3 + 1
        whole, part, offsets, strides = corner(rng, rank)
        places = listed(offsets if known else [f"%o{k}" for k in range(rank)])
        places = f"[{places}] [{listed(part)}] [{listed(strides)}]"
        w, p = typed(whole, element), typed(part, element)
        zero = {"i1": "false", "f4E2M1FN": "0.0 : f4E2M1FN"}.get(element, f"0 : {element}")
        start = (
            f"""%z = arith.constant {zero}
          %e = tensor.empty() : {w}
          %d = linalg.fill ins(%z : {element}) outs(%e : {w}) -> {w}"""
            if into == "fill"
            else ""
        )
        names = f"%a: {p}, {'%d' if into == 'argument' else '%unused'}: {w}"
        names += "" if known else "".join(f", %o{k}: index" for k in range(rank))
        texts.append(f"""func.func @f{i}({names}) -> {w} {{
          {start}
          %r = tensor.insert_slice %a into %d{places} : {p} into {w}
          return %r : {w}
        }}""")  # fmt: skip
        a, d = numbers(rng, part, element), numbers(rng, whole, element)
        wanted = np.array(d) if into == "argument" else np.zeros_like(d)
        wanted[inside(offsets, part, strides)] = a
        calls.append(([a, d, *([] if known else offsets)], wanted))
    check(place, texts, calls)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
def test_slices_of_slices(place: str, element: str, known: bool) -> None:
    """What was taken from inside a byte is put inside another."""
    rng = np.random.default_rng([len(element), known])
    texts, calls = [], []
    for i in range(CASES):
        n, m = (int(x) for x in rng.integers(2, 60, 2))
        count = int(rng.integers(1, min(n, m) + 1))
        at, to = int(rng.integers(0, n - count + 1)), int(rng.integers(0, m - count + 1))
        x, y, p = typed((n,), element), typed((m,), element), typed((count,), element)
        o, q = (str(at), str(to)) if known else ("%o", "%q")
        texts.append(f"""func.func @f{i}(%x: {x}, %y: {y}{"" if known else ", %o: index, %q: index"}) -> {y} {{
          %p = tensor.extract_slice %x[{o}] [{count}] [1] : {x} to {p}
          %r = tensor.insert_slice %p into %y[{q}] [{count}] [1] : {p} into {y}
          return %r : {y}
        }}""")
        a, b = numbers(rng, (n,), element), numbers(rng, (m,), element)
        wanted = np.array(b)
        wanted[to : to + count] = a[at : at + count]
        calls.append(([a, b, *([] if known else [at, to])], wanted))
    check(place, texts, calls)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
def test_concatenations(place: str, element: str, known: bool) -> None:
    rng = np.random.default_rng([len(element), known])
    texts, calls = [], []
    for i in range(CASES):
        rank, axis = 1 + i % 2, i // 2 % (1 + i % 2)
        base = [int(n) for n in rng.integers(1, 12, rank)]
        arrays = []
        for _ in range(3):
            base[axis] = int(rng.integers(1, 20))
            arrays.append(numbers(rng, tuple(base), element))
        wanted = np.concatenate([np.asarray(a, np.float32) for a in arrays], axis)
        types = [typed(a.shape, element, not known) for a in arrays]
        names = listed(f"%a{k}: {t}" for k, t in enumerate(types))
        texts.append(f"""func.func @f{i}({names}) -> {typed(wanted.shape, element, not known)} {{
          %r = tensor.concat dim({axis}) %a0, %a1, %a2 : ({listed(types)}) -> {typed(wanted.shape, element, not known)}
          return %r : {typed(wanted.shape, element, not known)}
        }}""")
        calls.append((arrays, wanted))
    check(place, texts, calls)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
def test_chains_that_meet_in_a_byte(place: str, element: str, known: bool) -> None:
    """Runs side by side, and one that covers the end of another."""
    rng = np.random.default_rng([len(element), known])
    texts, calls = [], []
    for i in range(CASES):
        n = int(rng.integers(8, 90))
        cut = [int(c) for c in np.sort(rng.integers(0, n, 3))]
        parts = [(0, cut[1]), (cut[0], cut[1] - cut[0] + 1), (cut[1], n - cut[1])]
        w = typed((n,), element)
        lines, value, arrays = "", "%d", [numbers(rng, (n,), element)]
        wanted = np.array(arrays[0])
        for k, (at, size) in enumerate(parts):
            size = max(1, min(size, n - at))
            p = typed((size,), element)
            arrays.append(numbers(rng, (size,), element))
            wanted[at : at + size] = arrays[-1]
            place_ = at if known else f"%o{k}"
            lines += f"%r{k} = tensor.insert_slice %a{k} into {value}[{place_}] [{size}] [1] : {p} into {w}\n"
            value = f"%r{k}"
        names = listed(f"%a{k}: {typed(a.shape, element)}" for k, a in enumerate(arrays[1:]))
        names += "" if known else "".join(f", %o{k}: index" for k in range(3))
        texts.append(f"func.func @f{i}(%d: {w}, {names}) -> {w} {{\n{lines}return %r2 : {w}\n}}")
        calls.append(([*arrays, *([] if known else [at for at, _ in parts])], wanted))
    check(place, texts, calls)


@pytest.mark.parametrize("element", DTYPES)
def test_scatters(place: str, element: str) -> None:
    """Single elements, in any order, and rows of an odd length."""
    rng = np.random.default_rng(len(element))
    texts, calls = [], []
    for i in range(CASES):
        n, width = int(rng.integers(3, 200)), 1 if i % 2 else int(rng.integers(2, 8))
        count = int(rng.integers(1, n + 1))
        places = rng.permutation(n)[:count].astype(np.int32)[:, None]
        w, p = typed((n, width), element), typed((count, 1, width), element)
        texts.append(f"""func.func @f{i}(%a: {p}, %d: {w}, %i: tensor<{count}x1xi32>) -> {w} {{
          %r = tensor.scatter %a into %d[%i] scatter_dims([0]) unique : ({p}, {w}, tensor<{count}x1xi32>) -> {w}
          return %r : {w}
        }}""")
        a, d = numbers(rng, (count, 1, width), element), numbers(rng, (n, width), element)
        wanted = np.array(d)
        wanted[places[:, 0]] = a[:, 0]
        calls.append(([a, d, places], wanted))
    check(place, texts, calls)


@pytest.mark.parametrize("element", DTYPES)
def test_one_element(place: str, element: str) -> None:
    rng = np.random.default_rng(len(element))
    w = typed((3, 7), element)
    text = f"""func.func @f0(%a: {element}, %d: {w}, %i: index, %j: index) -> {w} {{
      %r = tensor.insert %a into %d[%i, %j] : {w}
      return %r : {w}
    }}"""
    d = numbers(rng, (3, 7), element)
    program = device(place).load(pd.compile(text, targets=DEVICES[place]))
    for i, j in ((0, 0), (1, 3), (2, 6)):
        a = numbers(rng, (), element)
        wanted = np.array(d)
        wanted[i, j] = a
        np.testing.assert_array_equal(np.asarray(program.f0(a.item(), d, i, j)), wanted)


@pytest.mark.parametrize("element", ["i4", "i2"])
def test_many_workgroups(place: str, element: str) -> None:
    """A large part at an odd place: workgroups meet in bytes too."""
    rng = np.random.default_rng(len(element))
    n, m, rows = 613, 601, 37
    w, p = typed((rows, n), element), typed((rows, m), element)
    text = f"""func.func @f0(%a: {p}, %d: {w}, %o: index) -> {w} {{
      %r = tensor.insert_slice %a into %d[0, %o] [{rows}, {m}] [1, 1] : {p} into {w}
      return %r : {w}
    }}"""
    a, d = numbers(rng, (rows, m), element), numbers(rng, (rows, n), element)
    wanted = np.array(d)
    wanted[:, 7 : 7 + m] = a
    check(place, [text], [([a, d, 7], wanted)])


def test_results_of_two_widths(place: str) -> None:
    """Of one kernel: a byte of one result is two elements, of the other four."""
    text = """func.func @f(%a: tensor<333xi8>) -> (tensor<333xi4>, tensor<333xi2>) {
      %x = arith.trunci %a : tensor<333xi8> to tensor<333xi4>
      %y = arith.trunci %a : tensor<333xi8> to tensor<333xi2>
      return %x, %y : tensor<333xi4>, tensor<333xi2>
    }"""
    a = np.random.default_rng(1).integers(-128, 128, 333).astype(np.int8)
    x, y = device(place).load(pd.compile(text, targets=DEVICES[place])).f(a)
    np.testing.assert_array_equal(np.asarray(x).astype(np.int8), a << 4 >> 4)
    np.testing.assert_array_equal(np.asarray(y).astype(np.int8), a << 6 >> 6)


def test_a_reduction_beside_its_operand(place: str) -> None:
    """Of one kernel: the elements of a matrix, two in a byte, and the largest of each of its rows."""
    text = """func.func @f(%a: tensor<4x3xi8>) -> (tensor<4x3xi4>, tensor<4xi4>) {
      %x = arith.trunci %a : tensor<4x3xi8> to tensor<4x3xi4>
      %least = arith.constant dense<-8> : tensor<4xi4>
      %y = linalg.reduce ins(%x : tensor<4x3xi4>) outs(%least : tensor<4xi4>) dimensions = [1]
        (%in: i4, %out: i4) {
          %m = arith.maxsi %in, %out : i4
          linalg.yield %m : i4
        }
      return %x, %y : tensor<4x3xi4>, tensor<4xi4>
    }"""
    a = np.random.default_rng(1).integers(-8, 8, (4, 3)).astype(np.int8)
    x, y = device(place).load(pd.compile(text, targets=DEVICES[place])).f(a)
    np.testing.assert_array_equal(np.asarray(x).astype(np.int8), a)
    np.testing.assert_array_equal(np.asarray(y).astype(np.int8), a.max(1))
