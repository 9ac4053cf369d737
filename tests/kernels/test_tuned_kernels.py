"""Kernels with configurations, of which the fastest is chosen, with a clock that is made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations import tuned_kernels

Vector = Annotated[pd.View, pd.f32["n"]]


def scaled(x: Vector, y: Vector, a: Annotated[float, pd.f32], each: pd.static = 1) -> None:
    i = pd.global_id(0) * each
    for j in range(each):
        if i + j < x.shape[0]:
            y[i + j] = a * x[i + j]


CONFIGS = [{"workgroup": 64}, {"workgroup": 32, "each": 2}, {"workgroup": 16, "each": 4}]
GRID = 4


def made(configs: Any = CONFIGS, key: Any = ("n",)) -> Any:
    return pd.kernel(grid=GRID, configs=configs, key=key)(scaled)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What was measured; each later configuration is said to be faster."""
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path))
    found = []

    def made_up(calls: Mapping[str, Callable[[], object]]) -> list[float]:
        for call in calls.values():
            call()
        found.append(list(calls))
        return [10.0 - number for number in range(len(calls))]

    monkeypatch.setattr(tuned_kernels, "microseconds", made_up)
    return found


def test_the_fastest_is_chosen_once_for_each_value_of_the_key(measured: list[list[str]]) -> None:
    kernel = made()
    for n in (100, 100, 50):
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        kernel(x, y, 3.0)
        np.testing.assert_array_equal(y, 3 * x)
        assert kernel.best(x, y, 3.0).statics == {"each": 4}
    assert measured == [["workgroup=64", "each=2, workgroup=32", "each=4, workgroup=16"]] * 2


def test_another_process_finds_it_in_the_database(measured: list[list[str]]) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert made().best(x, y, 3.0).statics == made().best(x, y, 3.0).statics == {"each": 4}
    assert len(measured) == 1
    made(CONFIGS[:2])(x, y, 3.0)  # others are measured
    assert len(measured) == 2


def test_measuring_leaves_arguments_alone(measured: list[list[str]]) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    made().best(x, y, 3.0)
    assert measured and not y.any()


def test_numbers_are_keys_too(measured: list[list[str]]) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel = made(key=["a"])
    for a in (1.0, 2.0, 1.0):
        kernel(x, y, a)
    assert len(measured) == 2


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_real_times(device: str) -> None:
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    if device != "cpu":
        opened: Any = pd.device(device)
        x, y = opened.upload(x), opened.upload(y)
    kernel = made(CONFIGS[:2])
    assert kernel.best(x, y, 2.0) in kernel.kernels
    assert not np.any(y)
    kernel(x, y, 2.0)
    np.testing.assert_array_equal(y, np.full(100, 2.0))


def test_compiles_as_its_first_configuration() -> None:
    x = np.arange(100, dtype=np.float32)
    program = pd.device("cpu").load(pd.compile(made(), targets="cpu"))
    np.testing.assert_array_equal(program.scaled(x, np.zeros_like(x), 2.0), 2 * x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"configs": []}, "expected one or more, got none"),
        ({"configs": [{"many": 2}]}, "no static parameter 'many'; there are each"),
        ({"configs": [{"workgroup": 0}]}, "expected one to three numbers"),
        ({"key": ["m"]}, "'m' is neither a number among its parameters nor the name of a size"),
        ({"key": ["x"]}, "'x' is neither"),
    ],
    ids=["none", "unknown", "workgroup", "size", "view"],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="kernel 'scaled'") as caught:
        made(**given)
    assert message in str(caught.value)


def test_a_wrong_number_of_arguments() -> None:
    with pytest.raises(pd.InvalidArgumentError, match="takes 3 arguments"):
        made()(np.ones(4, np.float32))


FUSED = [{"each": 1}, {"each": 8}]


@pd.kernel(workgroup=64, grid=lambda x, out, each: pd.cdiv(x.shape[0], 64 * each), configs=FUSED, key=["n"])
def doubled(x: Vector, out: Vector, each: pd.static = 1) -> None:
    first = pd.group_id(0) * 64 * each + pd.local_id(0)
    for j in range(first, min(first + 64 * each, x.shape[0]), 64):
        out[j] = 2 * x[j]


def test_in_patterns_and_programs_it_is_its_first_configuration(measured: list[list[str]]) -> None:
    @pd.pattern
    def twice(x: pd.f32["n"]):  # type: ignore[no-untyped-def, name-defined]  # noqa: F821, UP037
        return -(x * x)

    twice.replace(doubled)
    source = """
func.func @f(%x: tensor<100xf32>) -> tensor<100xf32> {
  %m = arith.mulf %x, %x : tensor<100xf32>
  %n = arith.negf %m : tensor<100xf32>
  return %n : tensor<100xf32>
}"""
    x = np.arange(100, dtype=np.float32)
    device = pd.device("cpu")
    np.testing.assert_array_equal(device.load(pd.compile(source, patterns=[twice], require_match=True)).f(x), 2 * x)

    @pd.program
    def main(x: Annotated[np.ndarray, pd.f32["n"]]):  # type: ignore[no-untyped-def]
        out = np.zeros_like(x)
        doubled(x, out)
        return out + 1

    np.testing.assert_array_equal(device.load(pd.compile(main)).main(x), 2 * x + 1)
    checked = np.zeros(100, np.float32)
    doubled.checked()(x, checked)
    np.testing.assert_array_equal(checked, 2 * x)
    assert not measured


def test_compiled_with_the_fastest(measured: list[list[str]]) -> None:
    """`tune=0` takes what was measured before, and measures nothing."""
    kernel = made()
    x = np.arange(100, dtype=np.float32)
    for seconds, stride in ((0, 1), (0.01, 4), (0, 4)):
        artifact = pd.compile(kernel, targets="cpu", cpu="native", tune=seconds, inputs={"x": (100,)})
        found = pd.device("cpu").load(artifact).scaled(x, np.zeros_like(x), 3.0)
        np.testing.assert_array_equal(np.asarray(found)[: 64 * stride], 3 * x[: 64 * stride])
        assert kernel.for_shapes({"y": (100,)}, False).statics.get("each", 1) == stride
    assert len(measured) == 1
    with pytest.raises(pd.InvalidArgumentError, match=r"size n is not known; give inputs=\{'x'"):
        pd.compile(kernel, targets="cpu", tune=1)


@pytest.mark.parametrize("options", [{"tune": 0}, {}])
def test_shapes_for_a_kernel_without_configurations(options: dict[str, Any]) -> None:
    @pd.kernel(workgroup=64)
    def doubled(x: Vector, y: Vector) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = 2 * x[i]

    with pytest.raises(pd.InvalidArgumentError, match="and inputs= with tune= for kernels with configs="):
        pd.compile(doubled, cpu="native", inputs={"x": (100,)}, **options)
