"""`pd.imported`: functions that kernels and programs in Python call and that are linked when a program is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main

F32 = Annotated[float, pd.f32]
I32 = Annotated[int, pd.i32]
Vector = Annotated[pd.View, pd.f32["n"]]

C = """#include <pydispatch/plugin.h>
typedef struct { float result; float x; float scale; } params_t;
static int leak(void* params, void* context, void* reserved) {
  params_t* p = params;
  p->result = p->x > 0 ? p->x : p->scale * p->x;
  return 0;
}
PYD_PLUGIN("leak", "leaky", PYD_PLUGIN_FN("leak", leak))
"""
WGSL = "fn leak(x: f32, scale: f32) -> f32 { return select(scale * x, x, x > 0f); }"
PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .f32 result) leak(.param .f32 x, .param .f32 scale)
{
  .reg .f32 %f<4>;
  .reg .pred %p<2>;
  ld.param.f32 %f1, [x];
  ld.param.f32 %f2, [scale];
  mul.rn.f32 %f3, %f1, %f2;
  setp.gt.f32 %p1, %f1, 0f00000000;
  selp.f32 %f3, %f1, %f3, %p1;
  st.param.f32 [result], %f3;
  ret;
}
"""


@pd.imported("leak")
def leaky(x: F32, scale: F32) -> F32:
    return np.where(np.asarray(x) > 0, x, scale * np.asarray(x))  # type: ignore[return-value]


@pd.kernel(workgroup=64)
def activate(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = leaky(x[i], 0.25) + 1.0


@pd.program
def model(x: Annotated[np.ndarray[Any, Any], pd.f32["m", 4]]) -> Any:
    return leaky(x * 2, 0.5) + 1


def of_kernel(x: Any) -> Any:
    return np.where(x > 0, x, 0.25 * x) + 1


@pytest.fixture(params=["cpu", "webgpu", "cuda"])
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """(target, a device that has the function)."""
    target: str = request.param
    suffix, text = {"cpu": (".c", C), "webgpu": (".wgsl", WGSL), "cuda": (".ptx", PTX)}[target]
    path = tmp_path / f"leak{suffix}"
    path.write_text(text)
    if target == "cpu":
        assert main(["plugin", "build", str(path), "-o", str(tmp_path / "leak.sos")]) == 0
        path = tmp_path / "leak.sos"
    device = pd.device({"cpu": "cpu?workers=2", "webgpu": "webgpu:0", "cuda": "ptx-interpreter"}[target])
    device.add_plugin(str(path))
    return target, device


def test_in_kernels_and_programs(linked: tuple[str, Any]) -> None:
    target, device = linked
    x = np.linspace(-1, 1, 48, dtype=np.float32)
    found = device.load(pd.compile(activate, targets=target)).activate(x, np.zeros_like(x))
    np.testing.assert_allclose(np.asarray(found), of_kernel(x), rtol=1e-6)
    rows = x.reshape(12, 4)
    found = device.load(pd.compile(model, targets=target)).model(rows)
    np.testing.assert_allclose(np.asarray(found), np.where(rows > 0, 2 * rows, rows) + 1, rtol=1e-6)
    np.testing.assert_allclose(model.python(rows), np.asarray(found), rtol=1e-6)


def test_nobody_defines_it() -> None:
    @pd.imported
    def nowhere(x: F32) -> F32:
        return x

    @pd.program
    def calls(x: Annotated[np.ndarray[Any, Any], pd.f32["n"]]) -> Any:
        return nowhere(x)

    with pytest.raises(pd.MissingImportError, match=r"'nowhere', which @\w+ calls"):
        pd.device("cpu").load(pd.compile(calls, targets="cpu"))


def test_declarations_that_are_wrong() -> None:
    def view(x: Vector) -> F32:
        return 0.0

    def nothing(x: F32):  # type: ignore[no-untyped-def]
        return x

    for function, message in ((view, "parameter 'x' needs the type of a number"), (nothing, "its result needs")):
        with pytest.raises(pd.InvalidArgumentError, match=message):
            pd.imported(function)
    with pytest.raises(pd.InvalidArgumentError, match="expected a function, got 7"):
        pd.imported(7)  # type: ignore[call-overload]
    with pytest.raises(pd.InvalidArgumentError, match="'a-b' is no name of a function of C"):
        pd.imported("a-b")(nothing)


def test_calls_that_are_wrong() -> None:
    @pd.imported
    def first(x: F32, n: I32) -> F32:
        return x

    @pd.kernel
    def few(x: Vector) -> None:
        x[pd.global_id(0)] = first(x[0])

    @pd.kernel
    def wrong(x: Vector) -> None:
        x[pd.global_id(0)] = first(x[0], x[1])

    @pd.program
    def shapes(x: Annotated[np.ndarray[Any, Any], pd.f32[4]], y: Annotated[np.ndarray[Any, Any], pd.i32[2]]) -> Any:
        return first(x, y)

    @pd.program
    def types(x: Annotated[np.ndarray[Any, Any], pd.f32[4]]) -> Any:
        return first(x, x)

    for source, message in (
        (few, r"takes 2 arguments, got 1(.|\n)*write first\(x, n\)"), (wrong, "f32"),
        (shapes, "arrays of different shapes: .4,., .2,."), (types, "'x1' of kernel 'first'"),
    ):  # fmt: skip
        with pytest.raises(pd.CompileError, match=message):
            pd.compile(source, targets="cpu")
