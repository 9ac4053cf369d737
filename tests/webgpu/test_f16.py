"""Kernels for devices that have f16: `targets="webgpu-f16"`, WGSL with `enable f16;`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))
import check_files

FILES = {path.stem: path for path in check_files.files()}
WITH_F16 = ("functions_f16", "linalg_bodies", "linalg_contractions", "tensor_moves")

PROGRAM = """
func.func @f(%a: tensor<500xf16>, %b: tensor<500xf16>, %n: tensor<500xi16>, %w: tensor<500xf32>, %s: f16)
    -> (tensor<500xf16>, tensor<500xf16>, tensor<500xf16>, tensor<500xf16>, tensor<500xi16>, tensor<500xf16>) {
  %sum = arith.addf %a, %b : tensor<500xf16>
  %scale = tensor.splat %s : tensor<500xf16>
  %scaled = arith.mulf %sum, %scale : tensor<500xf16>
  %product = arith.subf %b, %scaled : tensor<500xf16>
  %quotient = arith.divf %a, %b : tensor<500xf16>
  %rounded = arith.truncf %w : tensor<500xf32> to tensor<500xf16>
  %bits = arith.bitcast %product : tensor<500xf16> to tensor<500xi16>
  %numbers = arith.bitcast %n : tensor<500xi16> to tensor<500xf16>
  %least = arith.constant dense<6.0e-08> : tensor<500xf16>
  %most = arith.constant dense<0x7C00> : tensor<500xf16>
  %low = arith.maximumf %numbers, %least : tensor<500xf16>
  %held = arith.minimumf %low, %most : tensor<500xf16>
  return %product, %quotient, %rounded, %numbers, %bits, %held : tensor<500xf16>, tensor<500xf16>, tensor<500xf16>,
      tensor<500xf16>, tensor<500xi16>, tensor<500xf16>
}
"""


def text_of(artifact: Any) -> str:
    members = (executable.variants[0].member for executable in artifact.executables)
    return "".join(bytes(artifact.read(member)).decode() for member in members)


def arguments() -> list[Any]:
    """Every kind of f16, and f32 at the borders of what f16 holds."""
    rng = np.random.default_rng(3)
    n = rng.integers(-(1 << 15), 1 << 15, 500, np.int64).astype(np.int16)
    a, b = n[::-1].copy().view(np.float16), rng.permutation(n).view(np.float16)
    w = (rng.standard_normal(500) * np.exp2(rng.integers(-26, 18, 500))).astype(np.float32)
    w[:8] = 65519.996, 65520, -65520, np.inf, np.nan, 2.0**-25, 3 * 2.0**-26, -(2.0**-24)
    return [a, b, n, w, 1.5]


def same(found: Any, wanted: Any) -> None:
    """Bit by bit, but for NaN."""
    found = np.asarray(found)
    if wanted.dtype == np.float16:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = (np.where(np.isnan(wanted), np.float16(0), v).view(np.int16) for v in (found, wanted))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic_is_that_of_ieee_where_the_device_rounds_to_nearest() -> None:
    a, b, n, w, s = arguments()
    artifact = pd.compile(PROGRAM, targets="webgpu-f16")
    product, quotient, rounded, numbers, bits, held = pd.device("webgpu:0").load(artifact).f(a, b, n, w, s)
    wanted = b - (a + b) * np.float16(s)
    same(product, wanted)
    same(quotient, a / b)
    same(rounded, w.astype(np.float16))
    same(numbers, n.view(np.float16))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.asarray(bits)[known], wanted.view(np.int16)[known])
    same(held, np.maximum(n.view(np.float16), np.float16(6e-8)))


def test_elements_lie_in_arrays_of_f16() -> None:
    text = text_of(pd.compile(PROGRAM, targets="webgpu-f16"))
    assert text.startswith("enable f16;\n") and "array<f16>" in text
    plain = text_of(pd.compile(PROGRAM, targets="webgpu"))
    assert "f16;" not in plain and "array<atomic<u32>>" in plain
    without = "func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n%y = arith.addf %x, %x : tensor<8xf32>\n"
    artifact = pd.compile(without + "return %y : tensor<8xf32>\n}", targets="webgpu-f16")
    assert "enable" not in text_of(artifact) and not artifact.executables[0].variants[0].requires


def test_the_device_takes_the_variant_that_it_can_run() -> None:
    a, b, n, w, s = arguments()
    artifact = pd.compile(PROGRAM, targets=["webgpu-f16", "webgpu"])
    native, emulated = artifact.executables[0].variants
    assert (list(native.requires), list(emulated.requires)) == (["shader-f16"], [])
    with np.errstate(all="ignore"):
        wanted = a / b
    for device in ("webgpu:0", "webgpu:0?standard=1"):
        same(pd.device(device).load(artifact).f(a, b, n, w, s)[1], wanted)
    with pytest.raises(pd.DeviceUnavailableError, match=r"needs .*shader-f16"):
        pd.device("webgpu:0?standard=1").load(pd.compile(PROGRAM, targets="webgpu-f16"))


@pytest.mark.parametrize("name", WITH_F16)
def test_check_files(name: str) -> None:
    program = pd.device("webgpu:0").load(pd.compile(FILES[name], targets="webgpu-f16"))
    ran = 0
    for function in (f for f in program.functions.values() if not f.arguments and "f16" in f.name):
        function()
        ran += 1
    assert ran or name != "functions_f16"


def test_a_target_that_is_misspelled() -> None:
    with pytest.raises(pd.CompileError, match=r"there is no target 'webgpu-f61'; known: .*webgpu-f16"):
        pd.compile(PROGRAM, targets="webgpu-f61")
