"""Patterns that are programs: `@pd.pattern` over `@pd.program`."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver import pipeline

Array = np.ndarray[Any, Any]
Vector = Annotated[Array, pd.f32["n"]]
View = Annotated[pd.View, pd.f32["n"]]
Rows = Annotated[Array, pd.f32["m", "n"]]


@pd.pattern
@pd.program
def gated(x: Vector, b: Vector) -> Any:
    """A kernel that shows that it ran adds 1000."""
    return x * b / (1 + np.exp(-x))


@gated.replace
@pd.kernel
def fused(x: View, b: View, out: View) -> None:
    i = pd.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i] * b[i] / (1 + pd.exp(-x[i])) + 1000.0


@pd.program
def known(p: Annotated[Array, pd.f32[100]], q: Annotated[Array, pd.f32[100]]) -> Any:
    return 2 * (p * q / (1 + np.exp(-p)))


@pd.program
def dynamic(p: Vector, q: Vector) -> Any:
    return 2 * (p * q / (1 + np.exp(-p)))


@pytest.mark.parametrize(("target", "device"), [("cpu", "cpu"), ("vulkan", "vulkan:0"), ("cuda", "ptx-interpreter")])
@pytest.mark.parametrize("program", [known, dynamic], ids=["known", "dynamic"])
def test_a_kernel_takes_its_place(program: Any, target: str, device: str) -> None:
    artifact = pd.compile(program, targets=target, patterns=[gated], require_match=True)
    p, q = np.random.default_rng(1).random((2, 100), np.float32)
    found = pd.device(device).load(artifact).functions[program.name](p, q)
    np.testing.assert_allclose(np.asarray(found), 2 * (p * q / (1 + np.exp(-p))) + 2000, rtol=1e-5)


def test_it_finds_what_other_frontends_write() -> None:
    text = """func.func @f(%a: tensor<7x5xf32>, %b: tensor<5x3xf32>) -> tensor<7x3xf32> {
      %z = arith.constant dense<0.0> : tensor<7x3xf32>
      %p = linalg.matmul ins(%a, %b : tensor<7x5xf32>, tensor<5x3xf32>) outs(%z : tensor<7x3xf32>) -> tensor<7x3xf32>
      %r = arith.maximumf %p, %z : tensor<7x3xf32>
      return %r : tensor<7x3xf32>
    }"""

    @pd.pattern
    @pd.program
    def product(x: Annotated[Array, pd.f32["m", "k"]], w: Annotated[Array, pd.f32["k", "n"]]) -> Any:
        return np.maximum(x @ w, 0)

    seen: list[tuple[int, ...]] = []

    def looked(match: Any) -> bool:
        seen.append((match.m, match.k, match.n))
        return False

    @pd.kernel
    def never(x: Annotated[pd.View, pd.f32["m", "k"]], w: Annotated[pd.View, pd.f32["k", "n"]],
              out: Annotated[pd.View, pd.f32["m", "n"]]) -> None:  # fmt: skip
        out[pd.global_id(1), pd.global_id(0)] = x[0, 0] + w[0, 0]

    product.replace(never, when=looked)
    artifact = pd.compile(text, targets="cpu", patterns=[product])
    a, b = np.random.default_rng(1).standard_normal((35,)), np.random.default_rng(2).standard_normal((15,))
    a, b = a.reshape(7, 5).astype(np.float32), b.reshape(5, 3).astype(np.float32)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(a, b), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)
    assert seen == [(7, 5, 3)]


def test_equal_names_are_equal_sizes() -> None:
    @pd.pattern
    @pd.program
    def square(x: Annotated[Array, pd.f32["n", "n"]]) -> Any:
        return np.exp(-x)

    @pd.kernel
    def kernel(x: Annotated[pd.View, pd.f32["n", "n"]], out: Annotated[pd.View, pd.f32["n", "n"]]) -> None:
        out[pd.global_id(1), pd.global_id(0)] = x[0, 0]

    square.replace(kernel)

    @pd.program
    def wide(x: Annotated[Array, pd.f32[3, 4]]) -> Any:
        return np.exp(-x)

    with pytest.raises(pd.CompileError, match="size n is 3 as size 0 of x and 4 as size 1 of x"):
        pd.compile(wide, targets="cpu", patterns=[square], require_match=True)


def test_a_reduction() -> None:
    @pd.pattern
    @pd.program
    def softmax(x: Rows) -> Any:
        powers = np.exp(x - np.max(x, axis=1, keepdims=True))
        return powers / np.sum(powers, axis=1, keepdims=True)

    @softmax.replace
    @pd.kernel(workgroup=1, grid=lambda x, out: x.shape[0])
    def ones(x: Annotated[pd.View, pd.f32["m", "n"]], out: Annotated[pd.View, pd.f32["m", "n"]]) -> None:
        row = pd.group_id(0)
        for j in range(x.shape[1]):
            out[row, j] = 1.0

    @pd.program
    def model(x: Annotated[Array, pd.f32[4, 6]]) -> Any:
        shifted = np.exp(x - np.max(x, axis=1, keepdims=True))
        return shifted / np.sum(shifted, axis=1, keepdims=True) + x

    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    artifact = pd.compile(model, targets="cpu", patterns=[softmax], require_match=True)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).model(x), x + 1, rtol=1e-6)


def softmax_of(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), like=scores)


def matches_of(pattern: Any, program: Any) -> list[Any]:
    """Return the matches of a pattern in a program, each as its predicate gets it."""
    matches: list[Any] = []

    @pd.kernel(grid=1)
    def never(out: Annotated[pd.View, pd.f32[1]]) -> None:
        out[0] = 0.0

    looking = pd.pattern(pattern).replace(never, when=matches.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.compile_to("preprocessing", program, patterns=[looking])
    return matches


def test_attention_of_one_head() -> None:
    @pd.program
    def attention(q: Annotated[Array, pd.f32["m", "d"]], k: Annotated[Array, pd.f32["n", "d"]],
                  v: Annotated[Array, pd.f32["n", "e"]], mask: Annotated[Array, pd.f32["m", "n"]]) -> Any:  # fmt: skip
        return softmax_of(q @ k.T * np.float32(0.25) + mask) @ v

    @pd.program
    def model(q: Annotated[Array, pd.f32[1, 16]], k: Annotated[Array, pd.f32[7, 16]],
              v: Annotated[Array, pd.f32[7, 3]], mask: Annotated[Array, pd.f32[1, 7]]) -> Any:  # fmt: skip
        return 1 + softmax_of(mask + q @ k.T * np.float32(0.25)) @ v

    @pd.program
    def other_scale(q: Annotated[Array, pd.f32[1, 16]], k: Annotated[Array, pd.f32[7, 16]],
                    v: Annotated[Array, pd.f32[7, 3]], mask: Annotated[Array, pd.f32[1, 7]]) -> Any:  # fmt: skip
        return softmax_of(q @ k.T * np.float32(0.5) + mask) @ v

    assert [(m.m, m.n, m.d, m.e) for m in matches_of(attention, model)] == [(1, 7, 16, 3)]
    assert matches_of(attention, other_scale) == []


@pytest.mark.parametrize("sizes", [(2, 3, 2, 2), (1, 3, 2, 2), (4, 1, 2, 2), (4, 1, 1, 2), (3, 2, 2, 1), (1, 1, 1, 1)])
def test_axes_of_one_element(sizes: tuple[int, int, int, int]) -> None:
    """Programs broadcast and transpose such axes by other operations than longer ones."""

    def program_of(s: Any, t: Any, g: Any, m: Any, n: Any) -> Any:
        def attention(q: Any, k: Any, v: Any, seen: Any) -> Any:
            scores = np.where(seen, np.einsum("stgmf,skgf->sgmtk", q, k), np.float32(-np.inf))
            return np.einsum("sgmtk,skgf->stgmf", softmax_of(scores), v)

        types = {"q": pd.f32[s, t, g, m, 4], "k": pd.f32[s, n, g, 4], "v": pd.f32[s, n, g, 4],
                 "seen": pd.i1[s, 1, 1, t, n]}  # fmt: skip
        attention.__annotations__ = {name: Annotated[Any, type] for name, type in types.items()}
        return pd.program(attention)

    (match,) = matches_of(program_of("s", "t", "g", "m", "n"), program_of(*sizes, 6))
    assert (match.s, match.t, match.g, match.m, match.n) == (*sizes, 6)


def test_a_broadcast_is_no_axis_of_one_element() -> None:
    @pd.program
    def column(x: Annotated[Array, pd.f32["m", "n"]], y: Annotated[Array, pd.f32["m", 1]]) -> Any:
        return np.exp(x) - y

    @pd.program
    def row(x: Annotated[Array, pd.f32[5, 1]], y: Annotated[Array, pd.f32[1, 1]]) -> Any:
        return np.exp(x) - y

    @pd.program
    def transposed(x: Annotated[Array, pd.f32["m", "n"]]) -> Any:
        return x.T

    @pd.program
    def number(x: Annotated[Array, pd.f32[1, 1]]) -> Any:
        return np.exp(x)

    @pd.program
    def planes(x: Annotated[Array, pd.f32["n"]]) -> Any:
        return np.broadcast_to(x, (2, 3, x.shape[0]))

    @pd.program
    def rows(x: Annotated[Array, pd.f32[4]]) -> Any:
        return np.broadcast_to(x, (3, 4))

    @pd.program
    def six_times(x: Annotated[Array, pd.f32["m", 1]]) -> Any:
        return np.broadcast_to(x, (x.shape[0], 6)).sum(axis=1)

    @pd.program
    def once(x: Annotated[Array, pd.f32[5, 1]]) -> Any:
        return x.sum(axis=1)

    assert matches_of(column, row) == []
    assert matches_of(planes, rows) == [] and matches_of(six_times, once) == []
    assert matches_of(transposed, number) == [], "the pattern would be its own operand"


@pytest.mark.parametrize(("sizes", "rows", "is_found"), [
    (("n", "m", "k"), "y", True), (("n", "m", "k"), "z", False), (("n", 5, "k"), 5, True), (("n", 5, 7), 7, False),
    ((4, 5, 5), "z", True), (("n", "m", "m"), "z", True), (("n", 1, 1), 2, False),
])  # fmt: skip
def test_rows_are_repeated_as_often_as_the_pattern_says(sizes: Any, rows: str | int, is_found: bool) -> None:
    @pd.program
    def repeated(x: Annotated[Array, pd.f32["n"]], y: Annotated[Array, pd.f32["m"]]) -> Any:
        return np.broadcast_to(x, (y.shape[0], x.shape[0])) * y.sum()

    def model(x: Any, y: Any, z: Any) -> Any:
        count = rows if isinstance(rows, int) else {"y": y, "z": z}[rows].shape[0]
        return np.broadcast_to(x, (count, x.shape[0])) * y.sum() + z.sum()

    model.__annotations__ = {name: Annotated[Array, pd.f32[size]] for name, size in zip("xyz", sizes, strict=True)}
    assert len(matches_of(repeated, pd.program(model))) == is_found


def test_programs_that_are_no_patterns() -> None:
    @pd.program
    def two(x: Vector) -> Any:
        return np.exp(x), np.tanh(x)

    @pd.program
    def part(x: Vector, y: Vector) -> Any:
        return np.exp(x)

    @pd.program
    def nothing(x: Vector) -> Any:
        return x

    @pd.program
    def doubled(x: Vector, y: Vector) -> Any:
        return np.broadcast_to(x, (2 * y.shape[0], x.shape[0])) * y.sum()

    @pd.program
    def taken(out: Vector) -> Any:
        return np.exp(out)

    for program, message in (
        (two, "returns results of 2 operations"), (part, "does not use its input 'y'"), (nothing, "computes nothing"),
        (doubled, "repeats elements as often as a size that it computes"),
    ):  # fmt: skip
        with pytest.raises((pd.CompileError, pd.InvalidArgumentError), match=message):
            pd.compile(known, targets="cpu", patterns=[pd.pattern(program)])
    with pytest.raises(pd.InvalidArgumentError, match="'out' is what kernels call something else"):
        pd.pattern(taken)
