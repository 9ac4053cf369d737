"""Which reductions become vectors, read off the assembly, and what they give when a NaN is among the numbers."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, variant

from pydispatch.compiler.backends.cpu.backend import compile_variant

rng = np.random.default_rng(5)
VECTOR = {
    "addf": ("reassoc", "addps"), "mulf": ("reassoc", "mulps"), "maximumf": ("", "pmaxsd"), "minimumf": ("", "pminsd"),
    "maxnumf": ("", "maxps"), "minnumf": ("", "minps"),
}  # fmt: skip


def reduction(op: str, flags: str, initial: str = "1.0") -> str:
    fastmath = f" fastmath<{flags}>" if flags else ""
    return f"""func.func @kernel() {{
      %n = hal.interface.constant.load[0] : i32
      %dim = arith.index_cast %n : i32 to index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %first = arith.constant {initial} : f32
      %b0 = hal.interface.binding.subspan binding(0) : memref<?xf32>{{%dim}}
      %b1 = hal.interface.binding.subspan binding(1) : memref<1xf32>
      %r = scf.for %i = %c0 to %dim step %c1 iter_args(%a = %first) -> (f32) {{
        %x = memref.load %b0[%i] : memref<?xf32>
        %s = arith.{op} %a, %x{fastmath} : f32
        scf.yield %s : f32
      }}
      memref.store %r, %b1[%c0] : memref<1xf32>
      func.return
    }}"""


def assembly(source: str) -> str:
    shown: dict[str, str | bytes] = {}
    made = variant(source, constants=1, bindings=2, cpu="x86-64-v3", format="embedded-elf-x86_64")
    compile_variant(made, dump=shown.__setitem__)
    return str(shown[".s"])


@pytest.mark.parametrize("op", VECTOR)
def test_vectors(op: str) -> None:
    flags, instruction = VECTOR[op]
    assert re.search(rf"v{instruction}\s.*ymm", assembly(reduction(op, flags)))


@pytest.mark.parametrize("op", ["addf", "mulf"])
def test_order_is_kept_without_flags(op: str) -> None:
    assert "ymm" not in assembly(reduction(op, ""))


@pytest.mark.parametrize("op", VECTOR)
@pytest.mark.parametrize("place", [None, 0, 11, 36])
def test_values(op: str, place: int | None) -> None:
    x = rng.uniform(0.9, 1.1, 37).astype(np.float32)
    if place is not None:
        x[place] = np.nan
    kernel = load(reduction(op, VECTOR[op][0]), constants=1, bindings=2)
    y = buffer(np.zeros(1, np.float32))
    assert kernel.run(buffer(x), y, constants=[37]) == 0
    ones = np.concatenate([[np.float32(1)], x])
    numpy = {"addf": np.sum, "mulf": np.prod, "maximumf": np.max, "minimumf": np.min, "maxnumf": np.nanmax,
             "minnumf": np.nanmin}[op]  # fmt: skip
    np.testing.assert_allclose(y[0], numpy(ones), rtol=1e-5)
    assert platform.machine() != "x86_64" or "ymm" in assembly(reduction(op, VECTOR[op][0]))
