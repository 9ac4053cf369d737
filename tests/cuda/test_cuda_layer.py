"""What devices of plans share, on the interpreter: bindings that lie unaligned, element types, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_programs import export, layout, source, target
from tools import DATA

import pydispatch as pd

AFFINE = export("simple_mul", 0, layout(1, "in", "in", "out")) + export("simple_mul_inplace", 1, layout(1, "in", "out"))
SLICED = """func.func @sliced(%a: tensor<100xf32>, %b: tensor<100xf32>) -> (tensor<63xf32>, tensor<100xf32>) {
    %n = arith.constant 63 : i32
    %d = arith.constant 63 : index
    %x = tensor.extract_slice %a[1] [63] [1] : tensor<100xf32> to tensor<63xf32>
    %y = tensor.extract_slice %b[7] [63] [1] : tensor<100xf32> to tensor<63xf32>
    %r = flow.dispatch @executable::@simple_mul[%d](%n, %x, %y)
      : (i32, tensor<63xf32>, tensor<63xf32>) -> tensor<63xf32>
    %s = flow.dispatch @executable::@simple_mul_inplace[%d](%n, %r, %y) : (i32, tensor<63xf32>, tensor<63xf32>) -> %y
    %t = tensor.insert_slice %s into %b[30] [63] [1] : tensor<63xf32> into tensor<100xf32>
    return %r, %t : tensor<63xf32>, tensor<100xf32>
  }"""


@pytest.fixture
def device() -> Any:
    return pd.device("ptx-interpreter?races=1")


def test_bindings_that_lie_unaligned_are_copied(device: Any) -> None:
    artifact = pd.compile(source({target(): [DATA / "kernels_sm_75.ptx"]}, AFFINE, SLICED), targets="cuda")
    f = device.load(artifact).sliced
    a, b = np.random.default_rng(3).standard_normal((2, 100), dtype=np.float32)
    left, right = a.copy(), b.copy()
    expected = a[1:64] * b[7:70]
    whole = b.copy()
    whole[30:93] = b[7:70] * expected
    call = f.prepare(a, b)
    for found in (f(a, b), f(device.upload(a), device.upload(b)), call(), call()):
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], whole)
    np.testing.assert_array_equal(a, left)
    np.testing.assert_array_equal(b, right)
    kinds = [timing.command.split()[0] for timing in f.profile(a, b)]
    assert kinds.index("copy") < kinds.index("@executable::@simple_mul")


@pytest.mark.parametrize(
    "dtype",
    ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN"],
)
def test_element_types(device: Any, dtype: str) -> None:
    kinds: dict[str, Any] = {
        "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32,
        "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    }  # fmt: skip
    t, op = f"tensor<?x{dtype}>", "addi" if dtype[0] == "i" else "addf"
    text = f"""func.func @twice(%a: {t}) -> {t} {{
      %r = arith.{op} %a, %a : {t}
      return %r : {t}
    }}"""
    f = device.load(pd.compile(text, targets="cuda")).twice
    a = np.arange(-20, 20).astype(kinds[dtype])
    doubled = (a.astype(np.float64) * 2).astype(a.dtype)
    again = (doubled.astype(np.float64) * 2).astype(a.dtype)
    for given, expected in ((a, doubled), (device.upload(a), doubled), (f(a), again)):
        found = np.asarray(f(given))
        assert found.dtype == a.dtype
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


ENDLESS = """.version 7.0
.target sm_75
.address_size 64
.visible .entry endless(.param .u64 a, .param .u64 b) {
$again:
  bra $again;
}
"""
HOST = """func.func @straight(%a: tensor<4xf32>) -> tensor<4xf32> {
    %d = arith.constant 1 : index
    %r = flow.dispatch @executable::@endless[%d](%a) : (tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
  func.func @looped(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    %c0 = arith.constant 0 : index
    %d = arith.constant 1 : index
    %r = scf.for %i = %c0 to %n step %d iter_args(%x = %a) -> tensor<4xf32> {
      %t = flow.dispatch @executable::@endless[%d](%x) : (tensor<4xf32>) -> tensor<4xf32>
      scf.yield %t : tensor<4xf32>
    }
    return %r : tensor<4xf32>
  }"""


@pytest.mark.parametrize("call", ["straight(a)", "looped(a, 2)"])
def test_ctrl_c_ends_a_kernel_that_does_not(tmp_path: Path, call: str) -> None:
    (tmp_path / "k.ptx").write_text(ENDLESS)
    text = source({target(): ["k.ptx"]}, export("endless", 0, layout(0, "in", "out")), HOST)
    pd.compile(text, targets="cuda", object_search_path=tmp_path).save(tmp_path / "k.pdx")
    script = f"""import numpy as np, pydispatch as pd
p, a = pd.device("ptx-interpreter").load("k.pdx"), np.zeros(4, np.float32)
try:
    print("running", flush=True)
    p.{call}
except KeyboardInterrupt:
    print("stopped")"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert out == "stopped\n" and process.returncode == 0
