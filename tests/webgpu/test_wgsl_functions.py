"""Functions in WGSL inside generated shaders: linked when the program is compiled, or when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_functions import check_halving, halving
from webgpu_programs import TARGET

import pydispatch as pd

PROGRAM = (Path(__file__).parents[2] / "examples" / "plugin" / "program.mlir").read_text()
MUL = """
@group(0) @binding(0) var<storage, read> lhs: array<f32>;   // the first buffer of the call
@group(0) @binding(1) var<storage, read> rhs: array<f32>;   // the second
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
var<private> local_invocation_index: u32;                   // that of the kernel
var<private> workgroup_size: vec3u;
const step = 64u;
struct Range { first: u32, end: u32 }
fn clipped(first: u32, size: u32) -> Range { return Range(first, min(size, first + step)); }
fn product(i: u32, j: u32) -> f32 { return lhs[i] * rhs[j]; }

fn simple_mul_workgroup(lhs_base: u32, lhs_offset: u32, rhs_base: u32, rhs_offset: u32,
                        out_base: u32, out_offset: u32, size: u32, first: u32) {
  let all = clipped(first, size);
  for (var i = all.first + local_invocation_index; i < all.end; i += workgroup_size.x) {
    result[out_base + out_offset + i] = product(lhs_base + lhs_offset + i, rhs_base + rhs_offset + i);
  }
}
"""


def static(objects: list[Path], text: str = PROGRAM) -> str:
    """The program with objects: the function is linked into its kernel when it is compiled."""
    listed = ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in objects)
    clause = f"attributes {{hal.executable.objects = #hal.executable.objects<{{{TARGET} = [{listed}]}}>}}"
    return text.replace("private @executable {", f"private @executable {clause} {{")


def vectors(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    return random.random(n, np.float32), random.random(n, np.float32)


def test_linked_at_load(device: Any, wgsl: Any) -> None:
    artifact = pd.compile(PROGRAM, targets="webgpu")
    wanted = r"fn simple_mul_workgroup\(offset0: u32, a1: i32, .*binding 0: array<f32>, binding 1"
    with pytest.raises(pd.MissingImportError, match=wanted) as error:
        device.load(artifact)
    assert "supply it with device.add_plugin('lib.wgsl')" in str(error.value)
    given = device.add_plugin(wgsl("mul", MUL))
    program = device.load(artifact)
    assert program.imports[0].provider.endswith("mul.wgsl")
    for n in (1, 63, 1000):
        a, b = vectors(n)
        np.testing.assert_array_equal(np.asarray(program.multiply(a, b)), a * b)
    device.remove_plugin(given)
    with pytest.raises(pd.MissingImportError):
        device.load(artifact)


def test_a_library_with_directives(wgsl: Any) -> None:
    text = MUL.replace("lhs[i] * rhs[j]", "\n#ifdef ADD\nlhs[i] + rhs[j]\n#else\nlhs[i] * rhs[j]\n#endif\n")
    given = static([wgsl("mul", text)]).replace('mul.wgsl"}', 'mul.wgsl", defines = ["ADD"]}')
    a, b = vectors()
    program = pd.device("webgpu:0").load(pd.compile(given, targets="webgpu"))
    np.testing.assert_array_equal(np.asarray(program.multiply(a, b)), a + b)
    wgsl("mul", text.replace("#endif", ""))
    with pytest.raises(pd.CompileError, match=r"mul.wgsl:\d+: a condition without #endif"):
        pd.compile(given, targets="webgpu")


def test_linked_at_compile_time(device: Any, wgsl: Any) -> None:
    artifact = pd.compile(static([wgsl("mul", MUL)]), targets="webgpu")
    assert not artifact.executables[0].variants[0].imports
    a, b = vectors()
    np.testing.assert_array_equal(np.asarray(device.load(artifact).multiply(a, b)), a * b)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size: u32, first: u32)", "size: u32)", r"it is \(u32, u32, .*called with \(u32, i32"),
        ("size: u32, first: u32)", "size: f32, first: u32)", "called with"),
        ("var<storage, read> lhs", "var<storage, read_write> lhs", "'lhs' is read_write, and the program only reads"),
        ("rhs: array<f32>", "rhs: array<u32>", r"'rhs' is array<u32>, and the buffer of the kernel is array<f32>"),
        ("binding(2)", "binding(3)", "'result' has binding 3, the call has 3 memrefs"),
        ("first: u32) {", "first: u32) -> u32 {", "it returns u32, wanted is nothing"),
    ],
)  # fmt: skip
def test_functions_that_do_not_fit(wgsl: Any, old: str, new: str, message: str) -> None:
    text = MUL.replace(old, new)
    assert text != MUL
    with pytest.raises(pd.CompileError, match=f"mul.wgsl: function 'simple_mul_workgroup' does not fit.*{message}"):
        pd.compile(static([wgsl("mul", text)], PROGRAM), targets="webgpu")


SCALE = """module {
  func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
    %r = flow.dispatch @e::@twice(%x) : (tensor<64xf32>) -> tensor<64xf32>
    return %r : tensor<64xf32>
  }
  stream.executable private @e {
    stream.executable.export public @twice workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @half(f32, i32) -> f32 attributes {hal.import.fallback = @other}
      func.func private @other(%x: f32, %n: i32) -> f32 {
        return %x : f32
      }
      func.func @twice(%b0: !stream.binding, %b1: !stream.binding) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %n = arith.constant 64 : index
        %two = arith.constant 2 : i32
        %in = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<64xf32>
        %out = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<64xf32>
        scf.parallel (%i) = (%zero) to (%n) step (%one) {
          %x = memref.load %in[%i] : memref<64xf32>
          %y = func.call @half(%x, %two) : (f32, i32) -> f32
          %z = func.call @half(%y, %two) : (f32, i32) -> f32
          memref.store %z, %out[%i] : memref<64xf32>
          scf.reduce
        }
        return
      }
    }
  }
}"""


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_a_function_of_indices(device: Any, wgsl: Any, type_: str) -> None:
    """An index has 64 bits in the kernel of i64, and 32 in that of i32; the function is the same."""
    halved = wgsl("halved", "fn halved(i: i32) -> i32 { return i / 2; }")
    check_halving(device.load(pd.compile(static([halved], halving(type_)), targets="webgpu")), type_)


def test_a_fallback_and_a_function_of_scalars(device: Any) -> None:
    artifact = pd.compile(SCALE, targets="webgpu")
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(x)), x)
    text = b"override factor = 0.5f;\nfn half(x: f32, n: u32) -> f32 { return x * factor * f32(n) / 4.0; }"
    given = device.add_plugin(text)
    try:
        np.testing.assert_array_equal(np.asarray(device.load(artifact).f(x)), x / 16)
    finally:
        device.remove_plugin(given)
