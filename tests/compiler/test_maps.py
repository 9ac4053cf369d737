# ruff: noqa: E501  (lines of programs)
"""What stands between operations goes: copies are read through, dimensions of size 1 and reshapes leave no dispatch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.ir import Operation

import pydispatch as pd
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.fusion import simplify
from pydispatch.formats.artifact import dispatches


def count(artifact: pd.Artifact) -> int:
    """The dispatches of function f."""
    return len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["f"])


def f32(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def generic(
    name: str, maps: list[str], iterators: str, inputs: list[tuple[str, str]], out: tuple[str, str], body: str
) -> str:
    """Text of a linalg.generic of floats. iterators: a letter for each loop."""
    kinds = ", ".join('"parallel"' if i == "p" else '"reduction"' for i in iterators)
    loops = ", ".join(f"d{i}" for i in range(len(iterators)))
    shown = ", ".join(f"affine_map<({loops}) -> ({m})>" for m in maps)
    arguments = ", ".join(f"%i{n}: f32" for n in range(len(inputs) + 1))
    return (
        f"%{name} = linalg.generic {{indexing_maps = [{shown}], iterator_types = [{kinds}]}} "
        f"ins({', '.join(v for v, _ in inputs)} : {', '.join(t for _, t in inputs)}) outs({out[0]} : {out[1]}) {{\n"
        f"^bb0({arguments}):\n{body}\n}} -> {out[1]}\n"
    )


YIELD_FIRST = "linalg.yield %i0 : f32"
CONVOLUTION = "%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %i2, %p : f32\nlinalg.yield %s : f32"


def convolution(h: int, c: int, n: int, k: int, channels_first: bool) -> str:
    """Pad, convolve, scale each channel by a reciprocal square root, add, clamp: channels last at both ends."""
    o, first = h, (1, n, h, h)
    image, moved, padded = (1, h, h, c), (1, c, h, h), (1, c, h + k - 1, h + k - 1)
    low, high = (k - 1) // 2, k // 2
    body = f"%e0 = tensor.empty() : {f32(moved)}\n"
    body += generic(
        "x", ["d0, d2, d3, d1", "d0, d1, d2, d3"], "pppp", [("%image", f32(image))], ("%e0", f32(moved)), YIELD_FIRST
    )
    body += f"%zero = arith.constant 0.0 : f32\n%e1 = tensor.empty() : {f32((n, c, k, k))}\n"
    body += generic(
        "w",
        ["d2, d3, d1, d0", "d0, d1, d2, d3"],
        "pppp",
        [("%filter", f32((k, k, c, n)))],
        ("%e1", f32((n, c, k, k))),
        YIELD_FIRST,
    )
    body += f"""%pad = tensor.pad %x low[0, 0, {low}, {low}] high[0, 0, {high}, {high}] {{
^bb0(%a: index, %b: index, %d: index, %e: index):
  tensor.yield %zero : f32 }} : {f32(moved)} to {f32(padded)}
%e2 = tensor.splat %zero : {f32(first)}
"""
    body += generic(
        "y", ["d0, d4, d2 + d5, d3 + d6", "d1, d4, d5, d6", "d0, d1, d2, d3"], "pppprrr",
        [("%pad", f32(padded)), ("%w", f32((n, c, k, k)))], ("%e2", f32(first)), CONVOLUTION,
    )  # fmt: skip
    scale = "%eps = arith.constant 1.0e-3 : f32\n%v = arith.addf %i0, %eps : f32\n%r = math.rsqrt %v : f32\nlinalg.yield %r : f32"
    body += f"%e3 = tensor.empty() : {f32((n,))}\n"
    body += generic("scale", ["d0", "d0"], "p", [("%variance", f32((n,)))], ("%e3", f32((n,))), scale)
    last = (1, o, o, n)
    wide = (1, 1, 1, n)
    body += f"%e4 = tensor.empty() : {f32(wide)}\n"
    body += generic("wide", ["d3", "d0, d1, d2, d3"], "pppp", [("%scale", f32((n,)))], ("%e4", f32(wide)), YIELD_FIRST)
    body += f"%e5 = tensor.empty() : {f32(last)}\n"
    body += generic(
        "all", ["0, 0, 0, d3", "d0, d1, d2, d3"], "pppp", [("%wide", f32(wide))], ("%e5", f32(last)), YIELD_FIRST
    )
    body += f"%e6 = tensor.empty() : {f32(last)}\n"
    body += generic(
        "z", ["d0, d3, d1, d2", "d0, d1, d2, d3"], "pppp", [("%y", f32(first))], ("%e6", f32(last)), YIELD_FIRST
    )
    clamp = "%m = arith.mulf %i0, %i1 : f32\n%zz = arith.constant 0.0 : f32\n%c = arith.maximumf %m, %zz : f32\nlinalg.yield %c : f32"
    result = first if channels_first else last
    identity = ["0, d1, d2, d3", "0, d1, d2, d3", "d0, d1, d2, d3"]
    body += generic("r", identity, "pppp", [("%z", f32(last)), ("%all", f32(last))], ("%e6", f32(last)), clamp)
    if channels_first:
        body += f"%e7 = tensor.empty() : {f32(first)}\n"
        body += generic(
            "t", ["d0, d2, d3, d1", "d0, d1, d2, d3"], "pppp", [("%r", f32(last))], ("%e7", f32(first)), YIELD_FIRST
        )
    return f"""func.func @f(%image: {f32(image)}, %filter: {f32((k, k, c, n))}, %variance: {f32((n,))}) -> {f32(result)} {{
{body}return %{"t" if channels_first else "r"} : {f32(result)} }}"""


def convolved(image: np.ndarray, filter: np.ndarray, variance: np.ndarray, channels_first: bool) -> np.ndarray:
    k, h = filter.shape[0], image.shape[1]
    low, high = (k - 1) // 2, k // 2
    padded = np.pad(image[0].astype(np.float64), ((low, high), (low, high), (0, 0)))
    y = sum(padded[i : i + h, j : j + h] @ filter[i, j].astype(np.float64) for i in range(k) for j in range(k))
    y = np.maximum(y / np.sqrt(variance.astype(np.float64) + 1e-3), 0)[None]
    return y.transpose(0, 3, 1, 2) if channels_first else y


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(("h", "c", "n", "k"), [(9, 5, 37, 3), (1, 3, 8, 1), (6, 1, 1, 2), (14, 16, 64, 3)])
def test_a_convolution_with_its_normalization_is_one_dispatch(
    h: int, c: int, n: int, k: int, channels_first: bool
) -> None:
    rng = np.random.default_rng(h)
    artifact = pd.compile(convolution(h, c, n, k, channels_first), cpu=["generic", "native"])
    assert count(artifact) == 1
    values = (rng.standard_normal((1, h, h, c)), rng.standard_normal((k, k, c, n)), rng.random(n))
    arrays = [v.astype(np.float32) for v in values]
    for device in (pd.device("cpu"), pd.device("local-sync")):
        got = device.load(artifact).f(*arrays)
        np.testing.assert_allclose(got, convolved(*arrays, channels_first), rtol=2e-5, atol=1e-5)


NORM = """func.func @f(%x: tensor<1x1x{n}xf32>, %g: tensor<{n}xf32>) -> tensor<1x1x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %size = arith.constant {n}.0 : f32
  %i = tensor.splat %zero : tensor<1x1xf32>
  %sum = linalg.reduce {{ arith.addf }} ins(%x : tensor<1x1x{n}xf32>) outs(%i : tensor<1x1xf32>) dimensions = [2]
  %count = tensor.splat %size : tensor<1x1xf32>
  %mean = arith.divf %sum, %count : tensor<1x1xf32>
  %e = tensor.empty() : tensor<1x1x{n}xf32>
  %all = linalg.broadcast ins(%mean : tensor<1x1xf32>) outs(%e : tensor<1x1x{n}xf32>) dimensions = [2]
  %d = arith.subf %x, %all : tensor<1x1x{n}xf32>
  %s = arith.mulf %d, %d : tensor<1x1x{n}xf32>
  %sum2 = linalg.reduce {{ arith.addf }} ins(%s : tensor<1x1x{n}xf32>) outs(%i : tensor<1x1xf32>) dimensions = [2]
  %var = arith.divf %sum2, %count : tensor<1x1xf32>
  %root = math.rsqrt %var : tensor<1x1xf32>
  %all2 = linalg.broadcast ins(%root : tensor<1x1xf32>) outs(%e : tensor<1x1x{n}xf32>) dimensions = [2]
  %y = arith.mulf %d, %all2 : tensor<1x1x{n}xf32>
  %gg = tensor.expand_shape %g [[0, 1, 2]] output_shape [1, 1, {n}] : tensor<{n}xf32> into tensor<1x1x{n}xf32>
  %z = arith.mulf %y, %gg : tensor<1x1x{n}xf32>
  return %z : tensor<1x1x{n}xf32>
}}"""


@pytest.mark.parametrize(("n", "dispatched"), [(5, 1), (768, 1), (100_000, 3)])
def test_the_norm_of_one_row_is_one_dispatch_where_one_workgroup_is_enough(n: int, dispatched: int) -> None:
    artifact = pd.compile(NORM.format(n=n))
    assert count(artifact) == dispatched
    rng = np.random.default_rng(n)
    x, g = rng.standard_normal((1, 1, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    d = x.astype(np.float64) - x.mean(dtype=np.float64)
    np.testing.assert_allclose(
        pd.device("cpu").load(artifact).f(x, g), d / np.sqrt((d**2).mean()) * g, rtol=1e-4, atol=1e-5
    )


@st.composite
def reshaped(draw: st.DrawFn) -> tuple[str, tuple[int, ...], list[object]]:
    """A program of moves and elementwise steps, the shape that it begins with, and the steps."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3, 4]), min_size=1, max_size=4)))
    start, steps, text, name = shape, [], "", "%x"
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["transpose", "expand", "collapse", "slice", "pad", "double"]))
        new, made = shape, f"%v{number}"
        if kind == "transpose":
            order = draw(st.permutations(range(len(shape))))
            new = tuple(shape[d] for d in order)
            text += f"%e{number} = tensor.empty() : {f32(new)}\n{made} = linalg.transpose ins({name} : {f32(shape)}) "
            text += f"outs(%e{number} : {f32(new)}) permutation = {list(order)}\n"
            steps.append(("transpose", tuple(order)))
        elif kind == "expand" and len(shape) < 6:
            at = draw(st.integers(0, len(shape) - 1))
            part = draw(st.sampled_from([d for d in range(1, shape[at] + 1) if shape[at] % d == 0]))
            new = (*shape[:at], part, shape[at] // part, *shape[at + 1 :])
            rows = [[d] if d < at else [d, d + 1] if d == at else [d + 1] for d in range(len(shape))]
            text += (
                f"{made} = tensor.expand_shape {name} {rows} output_shape {list(new)} : {f32(shape)} into {f32(new)}\n"
            )
            steps.append(("reshape", new))
        elif kind == "collapse" and len(shape) > 1:
            at = draw(st.integers(0, len(shape) - 2))
            new = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
            rows = [[d] if d < at else [d, d + 1] if d == at else [d + 1] for d in range(len(new))]
            text += f"{made} = tensor.collapse_shape {name} {rows} : {f32(shape)} into {f32(new)}\n"
            steps.append(("reshape", new))
        elif kind == "slice":
            offsets = [draw(st.integers(0, n - 1)) for n in shape]
            new = tuple(draw(st.integers(1, n - o)) for n, o in zip(shape, offsets, strict=True))
            text += f"{made} = tensor.extract_slice {name}{offsets} {list(new)} {[1] * len(new)} : {f32(shape)} to {f32(new)}\n"
            steps.append(("slice", offsets, new))
        elif kind == "pad":
            low, high = ([draw(st.integers(0, 1)) for _ in shape] for _ in range(2))
            new = tuple(n + a + b for n, a, b in zip(shape, low, high, strict=True))
            arguments = ", ".join(f"%p{number}_{d}: index" for d in range(len(shape)))
            text += f"%c{number} = arith.constant 0.5 : f32\n{made} = tensor.pad {name} low{low} high{high} {{\n^bb0({arguments}):\n"
            text += f"tensor.yield %c{number} : f32 }} : {f32(shape)} to {f32(new)}\n"
            steps.append(("pad", low, high))
        else:
            text += f"{made} = arith.addf {name}, {name} : {f32(shape)}\n"
            steps.append(("double",))
        shape, name = new, made
    program = f"func.func @f(%x: {f32(start)}) -> {f32(shape)} {{\n{text}return {name} : {f32(shape)} }}"
    return program, start, steps


@pytest.mark.parametrize("unit", ["1", "2", "?"])
def test_a_result_with_a_constant_index_after_a_reshape(unit: str) -> None:
    """A dimension of size 1 may be indexed by 0. In a larger one, elements would keep their initial values."""
    result = f"tensor<12x{unit}x64xf32>"
    body = f"%e = tensor.empty() : {f32((4, 3, 64))}\n"
    exp = "%r = math.exp %i0 : f32\nlinalg.yield %r : f32"
    body += generic("a", ["d0, d1, d2"] * 2, "ppp", [("%x", f32((4, 3, 64)))], ("%e", f32((4, 3, 64))), exp)
    body += f"%c = tensor.collapse_shape %a [[0, 1], [2]] : {f32((4, 3, 64))} into {f32((12, 64))}\n"
    absf = "%r = math.absf %i0 : f32\nlinalg.yield %r : f32"
    body += generic("y", ["d0, d1", "d0, 0, d1"], "pp", [("%c", f32((12, 64)))], ("%init", result), absf)
    text = f"func.func @f(%x: {f32((4, 3, 64))}, %init: {result}) -> {result} {{\n{body}\nreturn %y : {result}\n}}"
    if unit == "1":
        x = np.random.default_rng(0).standard_normal((4, 3, 64), np.float32)
        got = pd.device("cpu").load(pd.compile(text)).f(x, np.zeros((12, 1, 64), np.float32))
        np.testing.assert_allclose(got, np.exp(x).reshape(12, 1, 64), rtol=1e-6)
    else:
        dimension = "dynamic dimension" if unit == "?" else "dimension of size 2"
        with pytest.raises(pd.CompileError, match=f"of result 0, .*, has index 0 alone for a {dimension}"):
            pd.compile(text)


def test_a_window_of_dynamic_size_over_a_loop_of_one_iteration() -> None:
    """The loop stays: without it, the line would have to be sliced to a size that only the call knows."""
    row, line = "tensor<1x?xf32>", "tensor<?xf32>"
    add = "%r = arith.addf %i0, %i1 : f32\nlinalg.yield %r : f32"
    body = generic("y", ["d0, d1", "d0 + d1", "d0, d1"], "pp", [("%a", row), ("%b", line)], ("%init", row), add)
    text = f"func.func @f(%a: {row}, %b: {line}, %init: {row}) -> {row} {{\n{body}\nreturn %y : {row}\n}}"
    a, b = np.arange(7, dtype=np.float32).reshape(1, 7), np.ones(7, np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text)).f(a, b, a), a + b)


@pytest.mark.parametrize(("operand", "result"), [("?", "1"), ("1", "?")])
def test_a_dynamic_dimension_has_the_size_1_that_another_operand_states(operand: str, result: str) -> None:
    matrix, init = f"tensor<{operand}x5xf32>", f"tensor<{result}x5xf32>"
    add = "%r = arith.addf %i0, %i1 : f32\nlinalg.yield %r : f32"
    body = generic("y", ["d0, d1", "d0, d1"], "pp", [("%x", matrix)], ("%init", init), add)
    text = f"func.func @f(%x: {matrix}, %init: {init}) -> {init} {{\n{body}\nreturn %y : {init}\n}}"
    f = pd.device("cpu").load(pd.compile(text)).f
    row = np.arange(5, dtype=np.float32).reshape(1, 5)
    np.testing.assert_array_equal(f(row, row), row + row)
    for rows in (0, 3):
        arrays = [row.repeat(rows if size == "?" else 1, 0) for size in (operand, result)]
        with pytest.raises(pd.InvalidArgumentError, match="they must be equal"):
            f(*arrays)


def test_a_rule_that_inserts_operations_and_does_not_apply_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round would insert and erase them; `simplify` would never end."""

    def rule(op: Operation) -> None:
        insert_before(arith.ConstantOp.from_int_and_width(0, 32), op)

    monkeypatch.setitem(simplify.RULES, "math.exp", [rule])
    matrix = f32((4, 4))
    text = f"func.func @f(%x: {matrix}) -> {matrix} {{\n%y = math.exp %x : {matrix}\nreturn %y : {matrix}\n}}"
    with pytest.raises(pd.InternalError, match=r"rule inserted operations without replacing math\.exp"):
        pd.compile(text)


@pytest.mark.parametrize("indices", ["d0, d0", "0, d0"])
def test_a_copy_to_some_elements_is_refused(indices: str) -> None:
    """The other elements of the result keep those of `%init`: the copy is not its input."""
    matrix = f32((4, 4))
    body = generic("y", [indices] * 2, "p", [("%x", matrix)], ("%init", matrix), "linalg.yield %i0 : f32")
    text = f"func.func @f(%x: {matrix}, %init: {matrix}) -> {matrix} {{\n{body}\nreturn %y : {matrix}\n}}"
    with pytest.raises(pd.CompileError, match=r"linalg\.generic.* the map of result 0"):
        pd.compile(text)


@pytest.mark.parametrize(("indices", "rows"), [("d0, d0", 3), ("0, d0", 2), ("0, d0", 1)])
def test_a_constant_result_with_indices_that_are_no_permutation(indices: str, rows: int) -> None:
    result = f32((rows, 3))
    body = "%x = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>\n"
    body += f"%init = arith.constant dense<7.0> : {result}\n"
    negf = "%r = arith.negf %i0 : f32\nlinalg.yield %r : f32"
    body += generic("y", ["d0", indices], "p", [("%x", f32((3,)))], ("%init", result), negf)
    text = f"func.func @f() -> {result} {{\n{body}\nreturn %y : {result}\n}}"
    if rows == 1:
        np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text)).f(), [[-1, -2, -3]])
    else:
        with pytest.raises(pd.CompileError, match=r"linalg\.generic.* the map of result 0"):
            pd.compile(text)


@settings(max_examples=25, deadline=None)
@given(reshaped())
def test_moves_in_any_order_are_numpys(case: tuple[str, tuple[int, ...], list[object]]) -> None:
    program, shape, steps = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    want = x
    for step in steps:
        match step:
            case ("transpose", order):
                want = want.transpose(order)
            case ("reshape", new):
                want = want.reshape(new)
            case ("slice", offsets, new):
                want = want[tuple(slice(o, o + n) for o, n in zip(offsets, new, strict=True))]
            case ("pad", low, high):
                want = np.pad(want, list(zip(low, high, strict=True)), constant_values=0.5)
            case _:
                want = want + want
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(program)).f(x), want)
    got = pd.device("ptx-interpreter").load(pd.compile(program, targets="cuda")).f(x)
    np.testing.assert_array_equal(np.asarray(got), want)
