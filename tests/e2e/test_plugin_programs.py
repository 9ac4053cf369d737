"""Programs whose functions arrive at load time, run as a whole: calls, microkernels, optional imports, fallbacks."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from test_regions import STRIDES, region

IMPORT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class MulParams(ctypes.Structure):
    """The structure that the microkernel "mul" of test_regions is called with."""

    _fields_ = [
        ("a", ctypes.c_void_p), ("a_offset", ctypes.c_size_t), ("b", ctypes.c_void_p), ("b_offset", ctypes.c_size_t),
        ("c", ctypes.c_void_p), ("c_offset", ctypes.c_size_t), ("size", ctypes.c_size_t), ("group", ctypes.c_size_t),
        ("processor_id", ctypes.c_uint32), ("processor_data", ctypes.POINTER(ctypes.c_uint64)),
    ]  # fmt: skip


def floats(address: int, offset: int, count: int) -> np.ndarray:
    """`count` floats from element `offset` on."""
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address + 4 * offset))


def imported(function: Callable[[int, int, int], int]) -> object:
    return IMPORT(function)


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("n", [1, 8, 1000])
def test_microkernels(n: int, strides: str) -> None:
    groups: list[int] = []

    def mul(params: int, context: int, reserved: int) -> int:
        p = MulParams.from_address(params)
        groups.append(p.group)
        if p.size:
            a, b, c = (floats(x, o, p.size) for x, o in ((p.a, p.a_offset), (p.b, p.b_offset), (p.c, p.c_offset)))
            c[:] = a * b
        return 0 if p.processor_data else 9

    text = region("", 'fn_def_attrs {hal.import.fields = ["processor_id", "processor_data"]}', strides)
    device = pd.device("cpu?workers=2")
    device.add_import("mul", imported(mul))
    program = device.load(pd.compile(text))
    a, b = np.arange(n, dtype=np.float32), np.full(n, 4, np.float32)
    np.testing.assert_array_equal(program.scaled(a, b), a * b)
    assert sorted(groups) == [0, 1, 2]


CALLS = """
stream.executable private @exe {
  stream.executable.export public @apply workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @fast(f64, i16) -> (f64, i1) attributes {ATTRS}
    func.func private @slow(%x: f64, %k: i16) -> (f64, i1) {
      %y = arith.negf %x : f64
      %t = arith.constant false
      return %y, %t : f64, i1
    }
    func.func @apply(%a: !stream.binding, %b: !stream.binding) {
      %c0 = arith.constant 0 : index
      %k = arith.constant -9 : i16
      %in = stream.binding.subspan %a[%c0] : !stream.binding -> memref<1xf64>
      %out = stream.binding.subspan %b[%c0] : !stream.binding -> memref<1xf64>
      %x = memref.load %in[%c0] : memref<1xf64>
      %y, %t = func.call @fast(%x, %k) : (f64, i16) -> (f64, i1)
      %z = scf.if %t -> (f64) {
        %d = arith.addf %y, %y : f64
        scf.yield %d : f64
      } else {
        scf.yield %y : f64
      }
      memref.store %z, %out[%c0] : memref<1xf64>
      return
    }
  }
}
func.func @f(%x: tensor<1xf64>) -> tensor<1xf64> {
  %y = flow.dispatch @exe::@apply(%x) : (tensor<1xf64>) -> tensor<1xf64>
  return %y : tensor<1xf64>
}
"""


class FastParams(ctypes.Structure):
    """{ { double, bool }, double, int16_t }"""

    _fields_ = [("r0", ctypes.c_double), ("r1", ctypes.c_bool), ("a0", ctypes.c_double), ("a1", ctypes.c_int16)]


def fast(params: int, context: int, reserved: int) -> int:
    p = FastParams.from_address(params)
    p.r0, p.r1 = p.a0 + p.a1, True
    return 3 if p.a0 < 0 else 0


def test_several_results_and_a_failure() -> None:
    device = pd.device("cpu")
    device.add_import("fast", imported(fast))
    program = device.load(pd.compile(CALLS.replace("ATTRS", "")))
    assert program.f(np.array([0.1]))[0] == 2 * (0.1 - 9)
    with pytest.raises(pd.KernelError, match="3"):
        program.f(np.array([-1.0]))


def test_missing_imports() -> None:
    device = pd.device("cpu")
    with pytest.raises(pd.MissingImportError, match="fast"):
        device.load(pd.compile(CALLS.replace("ATTRS", "")))
    optional = device.load(pd.compile(CALLS.replace("ATTRS", "hal.import.optional")))
    words = "it called an unresolved optional import"
    with pytest.raises(pd.KernelError, match=f"returned {0x50594405}: {words}"):
        optional.f(np.array([0.1]))


def test_failed_assertion_in_words() -> None:
    text = CALLS.replace("ATTRS", "hal.import.optional").replace(
        "%y, %t = func.call @fast(%x, %k)",
        """%positive = arith.cmpf ogt, %x, %x : f64
      cf.assert %positive, "never"
      %y, %t = func.call @slow(%x, %k)""",
    )
    with pytest.raises(pd.KernelError, match=f"returned {0x50594409}: a cf.assert does not hold"):
        pd.device("cpu").load(pd.compile(text)).f(np.array([0.1]))


@pytest.mark.parametrize("there", [True, False])
def test_fallback_in_the_program(there: bool) -> None:
    device = pd.device("cpu")
    if there:
        device.add_import("fast", imported(fast))
    program = device.load(pd.compile(CALLS.replace("ATTRS", "hal.import.fallback = @slow")))
    assert program.f(np.array([0.5]))[0] == (2 * (0.5 - 9) if there else -0.5)
