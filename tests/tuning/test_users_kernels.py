# ruff: noqa: F821, UP037  (sizes of a pattern are names)
"""Kernels of users against generated ones: the faster one is taken, with a made-up clock."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from test_tuned_programs import FakeBench, choices_of, tuned

import pydispatch as pd
from pydispatch.formats.artifact import choices
from pydispatch.formats.artifact.choices import Choice
from pydispatch.patterns import Pattern

CALLS = """
stream.executable private @kernels {
  stream.executable.export public @double workgroups() -> (index, index, index) {
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }
  builtin.module {
    func.func private @twice(f32) -> f32 attributes {KIND hal.import.fallback = @slow}
    func.func private @slow(%x: f32) -> f32 {
      %y = arith.addf %x, %x : f32
      func.return %y : f32
    }
    func.func @double(%a: !stream.binding, %b: !stream.binding) {
      %c0 = arith.constant 0 : index
      %in = stream.binding.subspan %a[%c0] : !stream.binding -> memref<1xf32>
      %out = stream.binding.subspan %b[%c0] : !stream.binding -> memref<1xf32>
      %x = memref.load %in[%c0] : memref<1xf32>
      %y = func.call @twice(%x) : (f32) -> f32
      memref.store %y, %out[%c0] : memref<1xf32>
      return
    }
  }
}
func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {
  %y = flow.dispatch @kernels::@double(%x) : (tensor<1xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
"""


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def twice(params, context, reserved):  # type: ignore[no-untyped-def]
    ctypes.c_float.from_address(params).value = -1
    return 0


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(("fast", "result"), [("calls twice", -1), ("calls slow", 8)])
def test_an_optional_import_or_its_fallback(fast: str, result: float) -> None:
    source = CALLS.replace("KIND", "")
    artifact, _ = tuned(source, FakeBench(lambda config: 1.0 if config == fast else 2.0))
    default_us = 1.0 if fast == "calls twice" else 2.0
    assert choices_of(artifact) == [Choice("double", fast, 1.0, "calls twice", default_us, "a machine")]
    device = pd.device("cpu")
    device.add_import("twice", twice)
    program = device.load(artifact)
    assert program.f(np.array([4], np.float32))[0] == result
    assert bool(program.imports) == (fast == "calls twice")
    again, _ = tuned(source, FakeBench(), seconds=0)
    assert again.to_bytes() == artifact.to_bytes()


def test_kernels_of_other_imports_have_measurements_of_their_own() -> None:
    """The kernels differ in their names alone, and an import's name begins with that of its kernel."""
    executable, function = CALLS.replace("KIND", "").split("func.func @f(", 1)
    other, call = (
        text.replace("@kernels", "@others").replace("@double", "@triple").replace("@twice", "@triple_fast")
        for text in (executable, function)
    )
    source = executable.replace("@twice", "@double_fast") + other + f"func.func @f({function}func.func @g({call}"
    artifact, _ = tuned(source, FakeBench(lambda config: 1.0 if config == "calls slow" else 2.0))
    chosen = [(choice.subject, choice.chosen) for choice in choices_of(artifact)]
    assert chosen == [("double", "calls slow"), ("triple", "calls slow")]
    again, _ = tuned(source, FakeBench(), seconds=0)
    assert again.to_bytes() == artifact.to_bytes()


@pytest.mark.parametrize(("fast", "result"), [("calls twice", 1008), ("calls slow", 8)])
def test_a_linked_function_or_its_fallback(fast: str, result: float, tmp_path: Path) -> None:
    (tmp_path / "user.c").write_text("float twice(float x) { return x * 2 + 1000; }")
    objects = '#hal.executable.object<{path = "user.c"}>'
    source = CALLS.replace("KIND", "hal.import.static,").replace(
        "@kernels {", f"@kernels attributes {{hal.executable.objects = [{objects}]}} {{", 1
    )
    bench = FakeBench(lambda config: 1.0 if config == fast else 2.0)
    artifact, _ = tuned(source, bench, object_search_path=[tmp_path])
    assert choices_of(artifact)[0].chosen == fast
    assert pd.device("cpu").load(artifact).f(np.array([4], np.float32))[0] == result


SQUARES = """
func.func @f(%a: tensor<40xf32>, %b: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
  %d = arith.subf %a, %b : tensor<40xf32>
  %s = arith.mulf %d, %d : tensor<40xf32>
  %e = arith.subf %s, %b : tensor<40xf32>
  %t = arith.mulf %e, %e : tensor<40xf32>
  return %s, %t : tensor<40xf32>, tensor<40xf32>
}
"""
C = """#include <stddef.h>
void square(const float* a, const float* b, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = 1000 + (a[i] - b[i]) * (a[i] - b[i]);
}
"""
KERNEL, GENERATED = "C function square", "generated code"


def square(source: str = C, **options: object) -> Pattern:
    @pd.pattern(**options)
    def square_of_difference(a: pd.f32["n"], b: pd.f32["n"]):  # type: ignore[name-defined,no-untyped-def]
        d = a - b
        return d * d

    return square_of_difference.replace(pd.CFunction(source, "square"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("phase", ["preprocessing", "global-optimization"])
@pytest.mark.parametrize("fast", [KERNEL, GENERATED])
def test_a_kernel_of_a_pattern_or_what_is_generated(fast: str, phase: str) -> None:
    """Both matches are the same, so that they are measured once."""
    bench = FakeBench(lambda config: 1.0 if config == fast else 2.0)
    artifact, lines = tuned(SQUARES, bench, patterns=[square(phase=phase)])
    (choice,) = choices_of(artifact)
    assert choice.subject.endswith(", matched by square_of_difference")
    assert (choice.chosen, choice.default, choice.us) == (fast, KERNEL, 1.0)
    before = 4.0 if fast == GENERATED else 2.0
    assert lines[1].startswith(f"measured 1 of 1 choices: {before} -> 2.0 us a call")
    a, b = np.linspace(-3, 5, 40, dtype=np.float32), np.linspace(2, -1, 40, dtype=np.float32)
    more = 1000 if fast == KERNEL else 0
    s, t = pd.device("cpu").load(artifact).f(a, b)
    np.testing.assert_allclose(s, (a - b) ** 2 + more, rtol=1e-5)
    np.testing.assert_allclose(t, (s - b) ** 2 + more, rtol=1e-5)
    again, _ = tuned(SQUARES, FakeBench(), seconds=0, patterns=[square(phase=phase)])
    assert again.to_bytes() == artifact.to_bytes()


def test_another_kernel_is_measured_again() -> None:
    tuned(SQUARES, FakeBench(lambda config: 1.0 if config == GENERATED else 2.0), patterns=[square()])
    artifact, lines = tuned(SQUARES, FakeBench(), seconds=0, patterns=[square(C.replace("1000", "2000"))])
    assert choices.KEY not in artifact.manifest.extra and lines[0].startswith("measured 0 of 1 choices")


def test_an_import_that_nobody_gives_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Else the fallback would be compared with itself, and the answer kept."""
    source = CALLS.replace("KIND", "")
    artifact = pd.compile(source, cpu="native", tune=1e-3)
    assert choices.KEY not in artifact.manifest.extra
    assert "double: cannot be measured here" in capsys.readouterr().err
    device = pd.device("local-sync")
    device.add_import("twice", twice)
    artifact = pd.compile(source, cpu="native", tune=1e-3, tune_on=device)
    assert len(choices_of(artifact)) == 1
