"""Generated PTX: how a kernel is called, what it states about itself, functions of others, and that ptxas takes it."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "emit")]
import cuda_kernels  # noqa: E402
import tools  # noqa: E402

from pydispatch.compiler.backends.cuda.llvm import PTX_VERSIONS, generate, machine_of  # noqa: E402
from pydispatch.compiler.emit.llvm.nvptx.platform import entry_symbol  # noqa: E402
from pydispatch.errors import CompileError  # noqa: E402
from pydispatch.formats.ptx import interface, read  # noqa: E402
from pydispatch.ir import parse  # noqa: E402
from pydispatch.link.ptx import link  # noqa: E402

COPY = """
func.func @{name}() {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 100 : index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<100xf32>
  %b = hal.interface.binding.subspan binding(1) : memref<100xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
    %x = memref.load %a[%i] : memref<100xf32>
    %y = {body} : f32
    memref.store %y, %b[%i] : memref<100xf32>
  }}
  func.return
}}"""


def copy(body: str = "arith.negf %x", name: str = "kernel") -> str:
    return COPY.format(name=name, body=body)


def assembled(ptx: str, arch: str, tmp_path: Path) -> str:
    """What ptxas says; '' when nothing is wrong."""
    path = tmp_path / f"{arch}.ptx"
    path.write_text(ptx)
    command = [tools.ptxas(), f"-arch={arch}", str(path), "-o", str(tmp_path / "out.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr + done.stdout


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_ptxas_takes_it(arch: str, tmp_path: Path) -> None:
    """Points, a reduction over warps, workgroup memory, mathematics of both widths, atomics, in one text."""
    source = """
    func.func @kernel() attributes {pyd.invocations = 128 : i64, pyd.groups_per_core = 2 : i64} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 1000 : index
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1 : i32
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<1000xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<1000xf64>
      %c = hal.interface.binding.subspan binding(2) : memref<4xi32>
      %s = memref.alloc() : memref<1000xf32, #gpu.address_space<workgroup>>
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {
        %x = memref.load %a[%i] : memref<1000xf32>
        %y = math.tanh %x : f32
        memref.store %y, %s[%i] : memref<1000xf32, #gpu.address_space<workgroup>>
      }
      %r = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%zero) -> f32 {
        %x = memref.load %s[%i] : memref<1000xf32, #gpu.address_space<workgroup>>
        scf.reduce(%x : f32) {
        ^bb0(%l: f32, %r: f32):
          %t = arith.maximumf %l, %r : f32
          scf.reduce.return %t : f32
        }
      }
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {
        %x = arith.extf %r : f32 to f64
        %y = math.exp %x : f64
        memref.store %y, %b[%i] : memref<1000xf64>
        %old = memref.atomic_rmw addi %one, %c[%c1] : (i32, memref<4xi32>) -> i32
      }
      func.return
    }"""
    made = cuda_kernels.emit(source, bindings=3, arch=arch)
    assert assembled(made.ptx, arch, tmp_path) == ""
    assert "shfl.sync.down" in made.ptx and ".reqntid 128, 1, 1" in made.ptx and ".minnctapersm 2" in made.ptx
    version = PTX_VERSIONS[int(arch[3:])]
    assert f".version {version // 10}.{version % 10}\n.target {arch}\n" in made.ptx


def test_ptxas_refuses_the_same_with_a_wrong_register(tmp_path: Path) -> None:
    """The check above can fail."""
    broken = cuda_kernels.emit(copy(), bindings=2).ptx.replace("neg.f32", "neg.f31")
    assert "f31" in assembled(broken, "sm_80", tmp_path)


@pytest.mark.parametrize("arch", [*(f"sm_{n}" for n in PTX_VERSIONS), "sm_90a", "sm_100a", "sm_100f", "sm_120a"])
def test_every_architecture_has_code(arch: str) -> None:
    """LLVM knows all of them, and our reader what it writes."""
    made = cuda_kernels.emit(copy("math.exp %x"), bindings=2, arch=arch)
    module = read.read(made.ptx, "made.ptx")
    assert module.target == arch and [entry.name for entry in module.entries] == ["kernel"]
    assert interface.mismatch(module.entries[0], 0, 2) is None
    assert made.alignment == 4 and made.shared == {"kernel": 0}


def test_unknown_architectures() -> None:
    for name in ("sm_12", "gfx90a", "sm_", "80", "sm_75f", "sm_80a", "sm_89a", "sm_90f"):
        with pytest.raises(CompileError, match="no code can be generated for") as caught:
            machine_of(name)
        assert "sm_75" in str(caught.value)


def test_constants_grid_and_offsets() -> None:
    """Parameters: pointers, then words; 64-bit scalars are two; narrow ones the low bits; executable constants."""
    source = """
    func.func @kernel() {
      %i = hal.interface.constant.load ordinal(0) : i32
      %w = hal.interface.constant.load ordinal(1) : i64
      %d = hal.interface.constant.load ordinal(3) : f64
      %h = hal.interface.constant.load ordinal(5) : f16
      %b = hal.interface.constant.load ordinal(6) : i8
      %offset = hal.interface.constant.load ordinal(7) : index
      %k = hal.executable.constant.load "key" : i32
      %wide = hal.executable.constant.load "wide" : i64
      %x = hal.interface.workgroup.id[0] : index
      %y = hal.interface.workgroup.id[1] : index
      %z = hal.interface.workgroup.id[2] : index
      %cx = hal.interface.workgroup.count[0] : index
      %cz = hal.interface.workgroup.count[2] : index
      %sx = hal.interface.workgroup.size[0] : index
      %out = hal.interface.binding.subspan binding(0) offset(%offset) : memref<2x3x4x11xi64>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %c6 = arith.constant 6 : index
      %c7 = arith.constant 7 : index
      %c8 = arith.constant 8 : index
      %c9 = arith.constant 9 : index
      %i64 = arith.extsi %i : i32 to i64
      %d64 = arith.bitcast %d : f64 to i64
      %h16 = arith.bitcast %h : f16 to i16
      %h64 = arith.extui %h16 : i16 to i64
      %b64 = arith.extsi %b : i8 to i64
      %k64 = arith.extui %k : i32 to i64
      %x64 = arith.index_cast %cx : index to i64
      %z64 = arith.index_cast %cz : index to i64
      %s64 = arith.index_cast %sx : index to i64
      memref.store %i64, %out[%z, %y, %x, %c0] : memref<2x3x4x11xi64>
      memref.store %w, %out[%z, %y, %x, %c1] : memref<2x3x4x11xi64>
      memref.store %d64, %out[%z, %y, %x, %c2] : memref<2x3x4x11xi64>
      memref.store %h64, %out[%z, %y, %x, %c3] : memref<2x3x4x11xi64>
      memref.store %b64, %out[%z, %y, %x, %c4] : memref<2x3x4x11xi64>
      memref.store %k64, %out[%z, %y, %x, %c5] : memref<2x3x4x11xi64>
      memref.store %wide, %out[%z, %y, %x, %c6] : memref<2x3x4x11xi64>
      memref.store %x64, %out[%z, %y, %x, %c7] : memref<2x3x4x11xi64>
      memref.store %z64, %out[%z, %y, %x, %c8] : memref<2x3x4x11xi64>
      memref.store %s64, %out[%z, %y, %x, %c9] : memref<2x3x4x11xi64>
      func.return
    }"""
    keys = ("key", "wide", "wide")
    loaded = cuda_kernels.load(source, bindings=1, constants=8, keys=keys, workgroup_size=(32, 2, 1), races=True)
    low, high = 0x9ABCDEF0, 0x12345678
    double = struct.unpack("<2I", struct.pack("<d", -2.5))
    words = [-5, low, high, *double, 0xFFFF3C00, 0xAAAAAAFB, 16]
    room = np.zeros(2 * 3 * 4 * 11 + 2, np.int64)
    loaded.run(room, constants=words, grid=(4, 3, 2), executable_constants=[77, 5, 1])
    out = room[2:].reshape(2, 3, 4, 11)
    want = [
        -5,
        high << 32 | low,
        struct.unpack("<q", struct.pack("<d", -2.5))[0],
        0x3C00,
        -5,
        77,
        1 << 32 | 5,
        4,
        2,
        32,
    ]
    assert (out[..., :10] == want).all() and (room[:2] == 0).all() and (out[..., 10] == 0).all()
    module = read.read(loaded.made.ptx, "made.ptx")
    assert interface.parameter_sizes(module.entries[0]) == (8, *[4] * 8)
    assert {(v.name, v.space, v.size) for v in module.variables} == {("key", "const", 4), ("wide", "const", 8)}


def test_layout_and_kernel_disagree() -> None:
    source = copy()
    with pytest.raises(CompileError, match="binding 1 is not in the layout of export 'kernel', which has 1"):
        cuda_kernels.emit(source, bindings=1)
    load = "%w = hal.interface.constant.load ordinal(3) : i64\n  %c0 = arith"
    with pytest.raises(CompileError, match="constant 3 is not in the layout of export 'kernel', which has 4 words"):
        cuda_kernels.emit(source.replace("%c0 = arith", load, 1), bindings=2, constants=4)


def test_names() -> None:
    """Entries have names that PTX takes, constants and functions must have such names."""
    assert entry_symbol("main$async_0") == "main$async_0" and entry_symbol("a.b-c") == "a$2eb$2dc"
    assert entry_symbol("3d") == "$3d"
    names = ['"reduce_arith.addi é"', "plain"]
    source = "\n".join(copy(name=name) for name in names)
    exports = ["reduce_arith.addi é", "plain"]
    loaded = cuda_kernels.load(source, bindings=2, exports=exports)
    for number in range(2):
        a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
        loaded.run(a, b, export=number)
        assert np.array_equal(b, -a)
    with pytest.raises(CompileError, match="'a-b' cannot be the name of an executable constant for CUDA"):
        cuda_kernels.emit(copy(), bindings=2, keys=("a-b",))
    call = 'func.func private @f(f32) -> f32 attributes {hal.import.static, hal.import.name = "x.y"}'
    with pytest.raises(CompileError, match=r"'x\.y' cannot be the name of a function for CUDA"):
        cuda_kernels.emit(
            call + copy("func.call @f(%x) : (f32) -> f32 loc").replace("f32 loc : f32", "f32"), bindings=2
        )


def test_the_same_text_every_time_from_every_thread() -> None:
    source = copy("math.sin %x")
    texts: list[str] = []

    def work() -> None:
        variant = cuda_kernels.variant(source, bindings=2)
        texts.append(generate(variant, "sm_80").ptx)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 4 and len(set(texts)) == 1
    module = parse(source, "kernel.mlir")
    before = str(module)
    variant = cuda_kernels.variant(source, bindings=2)
    variant.module = module
    assert generate(variant, "sm_80").ptx == texts[0] and str(module) == before  # the variant stays as it is


@pytest.mark.parametrize(("size", "dynamic"), [(12288, 0), (12289, 49156), (25000, 100000)])
def test_workgroup_memory(size: int, dynamic: int, tmp_path: Path) -> None:
    """Up to 48 KiB it is the kernel's; more is given at launch."""
    type_ = f"memref<{size}xf32, #gpu.address_space<workgroup>>"
    source = f"""
    func.func @kernel() {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant {size} : index
      %last = arith.constant {size - 1} : index
      %a = hal.interface.binding.subspan binding(0) : memref<{size}xf32>
      %s = memref.alloc() : {type_}
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
        %x = memref.load %a[%i] : memref<{size}xf32>
        memref.store %x, %s[%i] : {type_}
      }}
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
        %j = arith.subi %last, %i : index
        %x = memref.load %s[%j] : {type_}
        memref.store %x, %a[%i] : memref<{size}xf32>
      }}
      func.return
    }}"""
    loaded = cuda_kernels.load(source, bindings=1, workgroup_size=(1024, 1, 1))
    assert loaded.made.shared["kernel"] == dynamic
    a = np.arange(size, dtype=np.float32)
    loaded.run(a)
    assert np.array_equal(a, np.arange(size, dtype=np.float32)[::-1])
    if size == 25000:
        with pytest.raises(CompileError, match="100000 bytes of workgroup memory, the limit on sm_75 is 65536"):
            cuda_kernels.emit(source, bindings=1, arch="sm_75")


CALLER = """
func.func private @twice(memref<?xf32>, f32, i8, i1, f16) -> f32 attributes {ATTRIBUTES}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 100 : index
  %true = arith.constant true
  %i = arith.constant -3 : i8
  %h = arith.constant 1.5 : f16
  %a = hal.interface.binding.subspan binding(0) : memref<?xf32>{%n}
  %b = hal.interface.binding.subspan binding(1) : memref<100xf32>
  %s = arith.constant 2.0 : f32
  %r = func.call @twice(%a, %s, %i, %true, %h) : (memref<?xf32>, f32, i8, i1, f16) -> f32
  scf.parallel (%p) = (%c0) to (%n) step (%c1) {
    %x = memref.load %a[%p] : memref<?xf32>
    %y = arith.addf %x, %r : f32
    memref.store %y, %b[%p] : memref<100xf32>
  }
  func.return
}"""

TWICE = """
.version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) twice(
  .param .b64 p0, .param .b64 p1, .param .b64 p2, .param .b64 p3, .param .b64 p4,
  .param .b32 scale, .param .b32 i, .param .b32 flag, .param .b32 half
)
{
  .reg .pred %p<3>;
  .reg .b16 %h<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [p1];
  ld.param.u64 %rd2, [p3];
  ld.param.f32 %f1, [scale];
  mov.u32 %r1, %tid.x;
$loop:
  cvt.u64.u32 %rd3, %r1;
  setp.ge.u64 %p1, %rd3, %rd2;
  @%p1 bra $done;
  mul.lo.u64 %rd4, %rd3, 4;
  add.u64 %rd4, %rd1, %rd4;
  ld.f32 %f2, [%rd4];
  mul.rn.f32 %f2, %f2, %f1;
  st.f32 [%rd4], %f2;
  add.u32 %r1, %r1, 64;
  bra $loop;
$done:
  ld.param.s32 %r2, [i];
  ld.param.u32 %r3, [flag];
  ld.param.b16 %h1, [half];
  cvt.f32.f16 %f3, %h1;
  add.s32 %r2, %r2, %r3;
  cvt.rn.f32.s32 %f4, %r2;
  add.rn.f32 %f4, %f4, %f3;
  st.param.f32 [result], %f4;
  ret;
}
"""


@pytest.mark.parametrize("attributes", ["{hal.import.static}", "{}"])
def test_functions_of_others(attributes: str) -> None:
    """All invocations call together; narrow scalars travel as C has them; what the function wrote is waited for."""
    made = cuda_kernels.emit(CALLER.replace("{ATTRIBUTES}", attributes), bindings=2)
    assert re.search(r"\.extern \.func\s+\(\.param \.b32 \w+\) twice\s*\(", made.ptx)
    assert made.blocks["kernel"] == (64, 1, 1) and "bar" in made.ptx
    linked = link.link(made.ptx, [link.open_library(TWICE, "twice.ptx")])
    assert not linked.unresolved
    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    want = a * 2
    cuda_kernels.Loaded(made, ["kernel"], 0, True, linked.data).run(a, b)
    assert np.array_equal(a, want) and np.array_equal(b, want + np.float32(-3 + 1 + 1.5))


OPTIONAL = """
func.func private @maybe(f32) -> f32 attributes {hal.import.optional}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %a = hal.interface.binding.subspan binding(0) : memref<4xf32>
  %x = memref.load %a[%c0] : memref<4xf32>
  %has = pyd.import.available @maybe : i1
  %y = scf.if %has -> (f32) {
    %r = func.call @maybe(%x) : (f32) -> f32
    scf.yield %r : f32
  } else {
    %z = arith.negf %x : f32
    scf.yield %z : f32
  }
  memref.store %y, %a[%c0] : memref<4xf32>
  func.return
}"""


def test_optional_functions() -> None:
    """Whoever links answers whether they are there; nothing may call one without asking."""
    made = cuda_kernels.emit(OPTIONAL, bindings=1)
    assert "pyd_has_maybe" in made.ptx
    library = (
        TWICE.split(".visible")[0]
        + """
.visible .func (.param .b32 result) maybe(.param .b32 x)
{
  .reg .f32 %f<2>;
  ld.param.f32 %f1, [x];
  add.rn.f32 %f1, %f1, 0f40A00000;
  st.param.f32 [result], %f1;
  ret;
}
"""
    )
    for libraries, want in (([link.open_library(library, "maybe.ptx")], 7.0), ([], -2.0)):
        linked = link.link(made.ptx, libraries, ("maybe",))
        a = np.array([2, 0, 0, 0], np.float32)
        cuda_kernels.Loaded(made, ["kernel"], 0, True, linked.data).run(a)
        assert a[0] == want
    unguarded = re.sub(r"%y = scf\.if.*?\n  }\n", "%y = func.call @maybe(%x) : (f32) -> f32\n", OPTIONAL, flags=re.S)
    with pytest.raises(CompileError, match="a call of the optional import 'maybe' that nothing guards"):
        cuda_kernels.emit(unguarded, bindings=1)


def test_optional_functions_are_queried_in_several_branches() -> None:
    """No query uses the answer of another branch, which does not dominate it."""
    query, select = "%has = pyd.import.available @maybe : i1", "arith.select %has"
    branches = f"""
  %zero = arith.constant 0.0 : f32
  %is_positive = arith.cmpf ogt, %x, %zero : f32
  %y = scf.if %is_positive -> (f32) {{
    {query}
    %v = {select}, %x, %zero : f32
    scf.yield %v : f32
  }} else {{
    {query}
    %v = {select}, %zero, %x : f32
    scf.yield %v : f32
  }}
"""
    source = re.sub(r"  %has = .*?\n  }\n", branches, OPTIONAL, flags=re.S)
    made = cuda_kernels.emit(source, bindings=1)
    linked = link.link(made.ptx, [], ("maybe",))
    for x, want in ((2.0, 0.0), (-2.0, -2.0)):
        a = np.array([x, 0, 0, 0], np.float32)
        cuda_kernels.Loaded(made, ["kernel"], 0, True, linked.data).run(a)
        assert a[0] == want


def test_helpers_are_inlined_and_may_not_recurse() -> None:
    helper = """
    func.func private @helper(%m: memref<100xf32>, %s: f32) -> f32 {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 100 : index
      %go = arith.cmpf ogt, %s, %s : f32
      cf.cond_br %go, ^a, ^b
    ^a:
      func.return %s : f32
    ^b:
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {
        %x = memref.load %m[%i] : memref<100xf32>
        %y = arith.addf %x, %s : f32
        memref.store %y, %m[%i] : memref<100xf32>
      }
      %t = memref.load %m[%c1] : memref<100xf32>
      func.return %t : f32
    }
    func.func @kernel() {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      %m = hal.interface.binding.subspan binding(0) : memref<100xf32>
      %x = func.call @helper(%m, %one) : (memref<100xf32>, f32) -> f32
      %y = func.call @helper(%m, %x) : (memref<100xf32>, f32) -> f32
      memref.store %y, %m[%c0] : memref<100xf32>
      func.return
    }"""
    a = np.arange(100, dtype=np.float32)
    want = a + 1 + 2
    want[1], want[0] = 4, want[1]
    want[0] = want[1]
    cuda_kernels.load(helper, bindings=1, races=True).run(a)
    assert np.array_equal(a, want)
    again = helper.replace(
        "func.return %s : f32", "%q = func.call @helper(%m, %s) : (memref<100xf32>, f32) -> f32\n func.return %q : f32"
    )
    with pytest.raises(CompileError, match="function 'helper' calls itself"):
        cuda_kernels.emit(again, bindings=1)


NEEDS = """
func.func @kernel() attributes {{pyd.invocations = 32 : i64}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %in = hal.interface.binding.subspan binding(0) : memref<1x4xf32>
  %row = memref.alloc() : memref<1x4xf32, 3>
  %a = memref.alloc() : memref<16x16x{element}, 3>
  %b = memref.alloc() : memref<16x16x{element}, 3>
  %c = memref.alloc() : memref<8xf32, 5>
  scf.parallel (%lane) = (%c0) to (%c32) step (%c1) {{
    {operation}
    %sum = memref.load %c[%c0] : memref<8xf32, 5>
    memref.store %sum, %in[%c0, %c1] : memref<1x4xf32>
    scf.reduce
  }}
  func.return
}}"""
TENSOR = (
    "pyd.mma %lane, %a, %b, %c tensor : "
    "memref<16x16x{element}, 3>, memref<16x16x{element}, 3>, memref<8xf32, 5>"
)  # fmt: skip


@pytest.mark.parametrize(("operation", "element", "least", "what"), [
    (TENSOR, "f16", 75, "pyd.mma tensor of f16"),
    (TENSOR, "bf16", 80, "pyd.mma tensor of bf16"),
    ("pyd.copy_async %in, %row : memref<1x4xf32>, memref<1x4xf32, 3>", "f16", 80, "pyd.copy_async"),
    ("pyd.commit_copies pending = 0 : i64", "f16", 80, "pyd.commit_copies"),
])  # fmt: skip
def test_operations_that_older_architectures_lack(operation: str, element: str, least: int, what: str) -> None:
    text = NEEDS.format(element=element, operation=operation.format(element=element))
    for arch in (70, 75, 80, 90):
        if arch >= least:
            assert re.search(r"mma\.sync|cp\.async", cuda_kernels.emit(text, arch=f"sm_{arch}", bindings=1).ptx)
            continue
        with pytest.raises(CompileError, match=f"{what} needs sm_{least} or newer, and the target is sm_{arch}"):
            cuda_kernels.emit(text, arch=f"sm_{arch}", bindings=1)
