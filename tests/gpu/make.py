"""Compiles the programs of tests/gpu, so that a machine without the compiler can run them.

    python tests/gpu/make.py [folder]        writes tests/gpu/data unless a folder is given

`run.py` compiles them anew where the compiler is, and takes the files of tests/gpu/data where it is not.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "tests" / "cuda" / "data"
EXAMPLE = ROOT / "examples" / "cuda"
sys.path.insert(0, str(DATA.parent))

GENERATED = """module {
func.func @pointwise(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.tanh %x : tensor<?xf32>
  %1 = math.exp %y : tensor<?xf32>
  %2 = arith.mulf %0, %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
func.func @integers(%x: tensor<?xi32>, %y: tensor<?xi32>) -> tensor<?xi32> {
  %0 = arith.muli %x, %y : tensor<?xi32>
  %1 = arith.xori %0, %x : tensor<?xi32>
  %2 = arith.maxsi %1, %y : tensor<?xi32>
  return %2 : tensor<?xi32>
}
func.func @halves(%x: tensor<?xf16>) -> tensor<?xf16> {
  %0 = arith.mulf %x, %x : tensor<?xf16>
  return %0 : tensor<?xf16>
}
func.func @softmax(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %init = tensor.empty() : tensor<64x100xf32>
  %0 = linalg.softmax dimension(1) ins(%x : tensor<64x100xf32>) outs(%init : tensor<64x100xf32>) -> tensor<64x100xf32>
  return %0 : tensor<64x100xf32>
}
func.func @total(%x: tensor<?xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
    ins(%x : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func @matmul(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @matmul_f16(%a: tensor<256x128xf16>, %b: tensor<128x192xf16>) -> tensor<256x192xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x192xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<256x192xf32>) -> tensor<256x192xf32>
  %r = linalg.matmul ins(%a, %b : tensor<256x128xf16>, tensor<128x192xf16>) outs(%f : tensor<256x192xf32>)
    -> tensor<256x192xf32>
  return %r : tensor<256x192xf32>
}
func.func @filled(%v: i64, %w: i16, %n: index) -> (tensor<?xi64>, tensor<?xi16>, tensor<?xi64>) {
  %0 = flow.tensor.splat %v : tensor<?xi64>{%n}
  %1 = flow.tensor.splat %w : tensor<?xi16>{%n}
  %2 = flow.tensor.clone %0 : tensor<?xi64>{%n}
  return %0, %1, %2 : tensor<?xi64>, tensor<?xi16>, tensor<?xi64>
}
func.func @collatz(%x: tensor<i32>) -> tensor<i32> {
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %first = tensor.extract %x[] : tensor<i32>
  %r:2 = scf.while (%n = %first, %steps = %zero) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi ne, %n, %c1 : i32
    scf.condition(%more) %n, %steps : i32, i32
  } do {
  ^bb0(%n: i32, %steps: i32):
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %half = arith.divui %n, %c2 : i32
    %odd = arith.remui %n, %c2 : i32
    %up = arith.muli %n, %c3 : i32
    %up1 = arith.addi %up, %c1 : i32
    %is = arith.cmpi eq, %odd, %c1 : i32
    %next = arith.select %is, %up1, %half : i32
    %count = arith.addi %steps, %c1 : i32
    scf.yield %next, %count : i32, i32
  }
  %out = tensor.from_elements %r#1 : tensor<i32>
  return %out : tensor<i32>
}
}"""

STRAY = """.version 7.0
.target sm_75
.address_size 64
.visible .entry stray(.param .u64 a, .param .u64 b, .param .u32 n) {
  .reg .b64 %rd<6>;
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.lo.u32 %r3, %r2, %r1;
  mul.wide.u32 %rd3, %r3, 1073741824;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd5], %f1;
  ret;
}
"""
"""Thread t is n x t GiB away from its buffers."""


def programs(folder: Path) -> None:
    """Writes every program into a folder."""
    from cuda_device_programs import CONSTANTS, REVERSE, SCALE
    from cuda_programs import MIXED, MUL, TWO, export, layout, size, source, target, vectors

    import pydispatch as pd

    keyed = {target(f"sm_{n}"): [DATA / f"kernels_sm_{n}.ptx"] for n in (75, 80, 90)}
    block = size(128, more=", workgroup_local_memory = 65536 : index")
    exports = (
        TWO + export("scale", 2, layout(6, "in", "out")) + export("reverse", 3, layout(0, "in", "out"), block, 128)
        + export("affine", 4, layout(1, "in", "out"))
    )  # fmt: skip
    host = f"{MIXED}\n{SCALE}\n{REVERSE}\n{vectors('affine', 'i32', inputs=1)}\n{vectors('simple_mul')}"
    pd.compile(source(keyed, exports, host, CONSTANTS), targets="cuda").save(folder / "kernels.pdx")
    pd.compile(source({}, MUL, vectors("simple_mul")), targets="cuda").save(folder / "declared.pdx")
    pd.compile(EXAMPLE / "program.mlir").save(folder / "example.pdx")
    pd.compile(EXAMPLE / "functions.mlir").save(folder / "functions.pdx")
    pd.compile(GENERATED, targets="sm_80").save(folder / "generated.pdx")
    stray = folder / "stray.ptx"
    stray.write_text(STRAY)
    text = source({target(): [stray]}, export("stray", 0, layout(1, "in", "out")), vectors("stray", inputs=1))
    pd.compile(text, targets="cuda").save(folder / "stray.pdx")
    stray.unlink()


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data"
    chosen.mkdir(parents=True, exist_ok=True)
    programs(chosen)
