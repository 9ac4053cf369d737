"""What an import may look like, through built plugins: every width, several results, extra fields, names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
stream.executable private @exe {
  stream.executable.export public @apply workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @widths(i1, i8, f16, i32, i64, f32, f64) -> (i8, i16, f64, f32, i1, f16)
    func.func private @one(i32) -> i32 attributes {hal.import.name = "shared"}
    func.func private @other(i32) -> i32 attributes {hal.import.name = "shared"}
    func.func private @fields(i8) -> i64 attributes {hal.import.fields = ["processor_id", "processor_data"]}
    func.func private @maybe(i32) -> i32 attributes {hal.import.optional}
    func.func @apply(%b: !stream.binding) {
      %c0 = arith.constant 0 : index
      %out = stream.binding.subspan %b[%c0] : !stream.binding -> memref<10xf64>
      %t = arith.constant true
      %i8 = arith.constant -3 : i8
      %h = arith.constant 0.5 : f16
      %i32 = arith.constant -70000 : i32
      %i64 = arith.constant -5000000000 : i64
      %f = arith.constant 0.25 : f32
      %d = arith.constant 1.0e100 : f64
      %r:6 = func.call @widths(%t, %i8, %h, %i32, %i64, %f, %d)
          : (i1, i8, f16, i32, i64, f32, f64) -> (i8, i16, f64, f32, i1, f16)
      %x = func.call @one(%i32) : (i32) -> i32
      %y = func.call @other(%x) : (i32) -> i32
      %z = func.call @fields(%i8) : (i8) -> i64
      %has = pyd.import.available @maybe : i1
      %m = scf.if %has -> (i32) {
        %v = func.call @maybe(%i32) : (i32) -> i32
        scf.yield %v : i32
      } else {
        %v = arith.constant 77 : i32
        scf.yield %v : i32
      }
      %v0 = arith.sitofp %r#0 : i8 to f64
      %v1 = arith.sitofp %r#1 : i16 to f64
      %v3 = arith.extf %r#3 : f32 to f64
      %v4 = arith.uitofp %r#4 : i1 to f64
      %v5 = arith.extf %r#5 : f16 to f64
      %v6 = arith.sitofp %y : i32 to f64
      %v7 = arith.sitofp %z : i64 to f64
      %v8 = arith.sitofp %m : i32 to f64
SETS
      return
    }
  }
}
func.func @f() -> tensor<10xf64> {
  %y = flow.dispatch @exe::@apply() : () -> tensor<10xf64>
  return %y : tensor<10xf64>
}
"""
STORES = "".join(
    f"      %i{i} = arith.constant {i} : index\n      memref.store {v}, %out[%i{i}] : memref<10xf64>\n"
    for i, v in enumerate(["%v0", "%v1", "%r#2", "%v3", "%v4", "%v5", "%v6", "%v7", "%v8", "%v8"])
)
TEXT = PROGRAM.replace("SETS\n", STORES.replace("%i8 =", "%j8 =").replace("[%i8]", "[%j8]"))

FIRST = """
#include <stdint.h>
int widths(void* raw, void* context, void* reserved) {
  struct { int8_t r0; int16_t r1; double r2; float r3; _Bool r4; uint16_t r5;
           _Bool a0; int8_t a1; uint16_t a2; int32_t a3; int64_t a4; float a5; double a6; }* p = raw;
  p->r0 = p->a1 - p->a0; p->r1 = (int16_t)(p->a3 / 10); p->r2 = (double)p->a4; p->r3 = p->a5 * 3;
  p->r4 = p->a6 > 1e99; p->r5 = p->a2;
  return 0;
}
int fields(void* raw, void* context, void* reserved) {
  struct { int64_t r; int8_t a; uint32_t processor_id; const uint64_t* data; }* p = raw;
  p->r = p->processor_id < 4096 && p->data ? p->a : 99;
  return 0;
}
"""
SECOND = """
#include <stdint.h>
int shared(void* raw, void* context, void* reserved) {
  struct { int32_t r, a; }* p = raw;
  p->r = p->a + 5;
  return 0;
}
int maybe(void* raw, void* context, void* reserved) {
  struct { int32_t r, a; }* p = raw;
  p->r = -p->a;
  return 0;
}
"""


def build(folder: Path, name: str, text: str, *exports: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", folder / f"{name}.c", "-o", folder / f"{name}.so"]
    subprocess.run([*cli, *(f"--export={e}" for e in exports)], check=True)
    return folder / f"{name}.so"


@pytest.mark.parametrize("there", [True, False])
def test_two_partial_plugins(tmp_path: Path, there: bool) -> None:
    device = pd.device("cpu")
    device.add_plugin(build(tmp_path, "first", FIRST, "widths", "fields"))
    artifact = pd.compile(TEXT)
    with pytest.raises(pd.MissingImportError, match="'shared', which @apply calls") as caught:
        device.load(artifact)
    assert caught.value.symbols == ("shared",) and "first" in str(caught.value)
    device.add_plugin(build(tmp_path, "second", SECOND, "shared", *(["maybe"] if there else [])))
    program = device.load(artifact)
    maybe = 70000 if there else 77
    np.testing.assert_array_equal(program.f(), [-4, -7000, -5e9, 0.75, 1, 0.5, -69990, -3, maybe, maybe])
    given = {i.symbol: Path(i.provider).name if i.provider else None for i in program.imports}
    second = "second.so" if there else None
    assert given == {"widths": "first.so", "fields": "first.so", "shared": "second.so", "maybe": second}
