"""Kernels compute with nothing that they did not write: see `machine_memory`."""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import machine_levels
from machine_memory import CARELESS, reads_unwritten
from machine_works import WORKS, program

import pydispatch as pd

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 remembers subnormal operands")

CPUS = machine_levels.parameters(["generic", "x86-64-v3", "x86-64-v4", "native"])


def test_it_is_found(tmp_path: Path) -> None:
    """A kernel that reads memory of its workgroup before it writes it."""
    assert reads_unwritten(CARELESS, {"careless": [[]]}, tmp_path, "generic") == ["careless"]


@pytest.mark.parametrize("cpu", CPUS)
def test_contractions(cpu: str, tmp_path: Path) -> None:
    calls = {w.name: [w.inputs(whole=False, rows=rows) for rows in w.rows or (0,)] for w in WORKS}
    assert reads_unwritten(program(WORKS), calls, tmp_path, cpu) == []


ADDED = """
func.func @added(%x: tensor<?x96xf32>, %w: tensor<96x75xf32>, %c: tensor<?x75xf32>) -> tensor<?x75xf32> {
  %r = linalg.matmul ins(%x, %w : tensor<?x96xf32>, tensor<96x75xf32>) outs(%c : tensor<?x75xf32>) -> tensor<?x75xf32>
  return %r : tensor<?x75xf32>
}
"""


@pytest.mark.parametrize("cpu", CPUS)
def test_sums_that_begin_with_an_argument(cpu: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    calls = [
        [rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 96), (96, 75), (rows, 75))]
        for rows in (1, 3, 17, 40)
    ]
    assert reads_unwritten(ADDED, {"added": calls}, tmp_path, cpu) == []
    loaded: Any = pd.device("cpu").load(pd.compile(ADDED, targets="cpu", cpu=cpu))
    for x, w, c in calls:
        np.testing.assert_allclose(loaded.added(x, w, c), x @ w + c, rtol=1e-4, atol=1e-4)


def images() -> Iterator[tuple[str, str, tuple[tuple[int, ...], ...]]]:
    """(name, MLIR, shapes of its arguments) of convolutions and poolings with channels first and last."""
    for stride in (1, 2):
        config = f"{{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}"
        out = (15 - 3) // stride + 1
        for name, op, x, w, y in (
            ("depthwise_nchw", "depthwise_conv_2d_nchw_chw", (1, 24, 15, 15), (24, 3, 3), (1, 24, out, out)),
            ("depthwise_nhwc", "depthwise_conv_2d_nhwc_hwc", (1, 15, 15, 21), (3, 3, 21), (1, out, out, 21)),
            ("nchw", "conv_2d_nchw_fchw", (1, 5, 15, 15), (11, 5, 3, 3), (1, 11, out, out)),
            ("nhwc", "conv_2d_nhwc_hwcf", (1, 15, 15, 5), (3, 3, 5, 11), (1, out, out, 11)),
            ("grouped", "conv_2d_ngchw_fgchw", (1, 3, 4, 15, 15), (5, 3, 4, 3, 3), (1, 3, 5, out, out)),
            ("pool_nchw", "pooling_nchw_max", (1, 21, 15, 15), (3, 3), (1, 21, out, out)),
            ("pool_nhwc", "pooling_nhwc_sum", (1, 15, 15, 21), (3, 3), (1, out, out, 21)),
        ):  # fmt: skip
            a, b, c = (f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in (x, w, y))
            yield (
                f"{name}_{stride}",
                f"""
func.func @{name}_{stride}(%x: {a}, %w: {b}) -> {c} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {c}
  %z = linalg.fill ins(%zero : f32) outs(%e : {c}) -> {c}
  %r = linalg.{op} {config} ins(%x, %w : {a}, {b}) outs(%z : {c}) -> {c}
  return %r : {c}
}}
""",
                (x, w),
            )


@pytest.mark.parametrize("cpu", CPUS)
def test_images(cpu: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    every = list(images())
    calls = {name: [[rng.standard_normal(s).astype(np.float32) for s in shapes]] for name, _, shapes in every}
    assert reads_unwritten("".join(text for _, text, _ in every), calls, tmp_path, cpu) == []


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normalized(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def attention(x: Any) -> Any:
    return softmax(x @ x.swapaxes(-1, -2)) @ x


def running(x: Any) -> Any:
    return np.cumsum(x, axis=-1) + np.cumsum(x, axis=0)


def reduced(x: Any) -> Any:
    return x.sum(axis=0) * x.max(axis=0) + x.min() + x.sum()


def turned(x: Any) -> Any:
    return np.exp(x.T) + np.tanh(x @ x.T) @ x[:, :1]


SHAPES: dict[Any, tuple[tuple[int, ...], ...]] = {
    softmax: ((7, 37), (3, 1031), (64, 64)), normalized: ((7, 37), (5, 768)), attention: ((3, 17, 24), (2, 64, 32)),
    running: ((7, 37), (3, 1031)), reduced: ((7, 37), (1031, 19)), turned: ((7, 7), (37, 37)),
}  # fmt: skip


@pytest.mark.parametrize("function", SHAPES)
@pytest.mark.parametrize("cpu", CPUS)
def test_programs(function: Any, cpu: str, tmp_path: Path) -> None:
    """With sizes that are known and sizes that calls decide."""
    rng = np.random.default_rng(1)
    for shape in SHAPES[function]:
        calls = {function.__name__: [[rng.uniform(-0.5, 0.5, shape).astype(np.float32)]]}
        for sizes in (shape, tuple("nmk"[: len(shape)])):
            assert reads_unwritten(text_of(function, sizes), calls, tmp_path, cpu) == [], sizes


def text_of(function: Any, sizes: tuple[Any, ...]) -> str:
    """A function of one array as a program, for arrays of these sizes."""

    @functools.wraps(function)
    def typed(x: Any) -> Any:
        return function(x)

    del typed.__wrapped__  # type: ignore[attr-defined]
    typed.__annotations__ = {"x": Annotated[np.ndarray, pd.f32[sizes]], "return": np.ndarray}
    return str(pd.program(typed).mlir())
