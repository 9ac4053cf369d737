# ruff: noqa: E501  (lines of MLIR)
"""C functions of every kind called from kernels: conventions with real C objects, bitcode that inlines, imports."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kernels import HOST_FORMAT, Loaded, buffer, elementwise, load, variant

from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.compiler.emit.llvm.cpu.imports import MISSING_IMPORT
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import tools
from pydispatch.errors import CompileError

ARCH = {"embedded-elf-x86_64": "x86_64", "embedded-elf-arm_64": "aarch64", "embedded-elf-riscv_64": "riscv64"}[
    HOST_FORMAT
]
SCALARS = {
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "index": "int64_t",
    "f32": "float",
    "f64": "double",
}


def compiled(text: str, suffix: str, name: str = "user") -> ObjectFile:
    if suffix == ".c":
        return ObjectFile(name + suffix, text.encode())
    emit = "bc" if suffix == ".bc" else "obj"
    return ObjectFile(name + suffix, tools.find().compile_c(text.encode(), arch=ARCH, emit=emit))


@pytest.mark.parametrize("suffix", [".o", ".bc", ".c"])
def test_scalars_of_every_width(suffix: str) -> None:
    """Each function checks that it sees the value as C would, and returns a negative one."""
    code, decls, body, outputs, expected = ["#include <stdint.h>\n#include <stdbool.h>"], [], [], [], []
    for i, (name, c_name) in enumerate(SCALARS.items()):
        # The conversions to 64 bits happen in C: a wrongly extended argument shows in the upper bits.
        code.append(
            f"double f{i}({c_name} a, int64_t k) {{ return (double)a * 2 + k; }}\n{c_name} g{i}(void) {{ return ({c_name})-77; }}"
        )
        decls.append(f"func.func private @f{i}({name}, i64) -> f64 attributes {{hal.import.static}}\n"
                     f"func.func private @g{i}() -> {name} attributes {{hal.import.static}}")  # fmt: skip
        value = "-5.0" if name[0] == "f" else "-5"
        body.append(f"%v{i} = arith.constant {value} : {name}\n%k{i} = arith.constant 3 : i64\n"
                    f"%y{2 * i} = func.call @f{i}(%v{i}, %k{i}) : ({name}, i64) -> f64\n%r{i} = func.call @g{i}() : () -> {name}")  # fmt: skip
        widen = {
            "f64": f"%y{2 * i + 1} = arith.addf %r{i}, %r{i} : f64",
            "f32": f"%w{i} = arith.extf %r{i} : f32 to f64\n%y{2 * i + 1} = arith.addf %w{i}, %w{i} : f64",
        }
        integer = (
            f"%w{i} = arith.{'index_cast' if name == 'index' else 'extsi'} %r{i} : {name} to i64\n"
            if name not in ("i64", "f32", "f64")
            else f"%w{i} = arith.addi %r{i}, %zero : i64\n"
        )
        body.append(
            widen.get(name)
            or integer + f"%s{i} = arith.sitofp %w{i} : i64 to f64\n%y{2 * i + 1} = arith.addf %s{i}, %s{i} : f64"
        )
        outputs += ["f64", "f64"]
        expected += [-7.0, -154.0]
    code.append("bool truth(bool a, uint8_t b) { return a && b == 200; }")
    decls.append("func.func private @truth(%a: i1, %b: i8 {llvm.zeroext}) -> i1 attributes {hal.import.static}")
    body.append(
        "%t = arith.constant true\n%u = arith.constant -56 : i8\n%y14 = func.call @truth(%t, %u) : (i1, i8) -> i1"
    )
    source = (
        "\n".join(decls)
        + "\n"
        + elementwise("%zero = arith.constant 0 : i64\n" + "\n".join(body), [], [*outputs, "i1"])
    )
    kernel = load(source, constants=1, bindings=15, objects=[compiled("\n".join(code), suffix)])
    made = [buffer(np.zeros(1, np.float64)) for _ in outputs] + [buffer(np.zeros(1, np.bool_))]
    assert kernel.run(*made, constants=[1]) == 0
    assert [float(m[0]) for m in made[:-1]] == expected
    assert made[-1][0]


MEMREFS = """
func.func private @expanded(%a: memref<?x3xf32, strided<[?, 1], offset: ?>>, %n: index) -> i32 attributes {hal.import.static}
func.func private @bare(memref<f32>, index, memref<2xf32>) attributes {hal.import.static, llvm.bareptr = [true]}
func.func private @moved(memref<3xf32, strided<[1], offset: ?>>) attributes {hal.import.static, llvm.bareptr}
func.func @kernel() {
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %in = hal.interface.binding.subspan binding(0) : memref<24xf32>
  %out = hal.interface.binding.subspan binding(1) : memref<2xf32>
  %m = memref.reinterpret_cast %in to offset: [%c2], sizes: [%c5, 3], strides: [4, 1] : memref<24xf32> to memref<?x3xf32, strided<[?, 1], offset: ?>>
  %r = func.call @expanded(%m, %c5) : (memref<?x3xf32, strided<[?, 1], offset: ?>>, index) -> i32
  %c0 = arith.constant 0 : index
  %f = arith.sitofp %r : i32 to f32
  memref.store %f, %out[%c0] : memref<2xf32>
  %base, %off, %size, %stride = iree_codegen.extract_strided_metadata %in : memref<24xf32> -> memref<f32>, index, index, index
  func.call @bare(%base, %c5, %out) : (memref<f32>, index, memref<2xf32>) -> ()
  %part = memref.subview %in[%c2] [3] [1] : memref<24xf32> to memref<3xf32, strided<[1], offset: ?>>
  func.call @moved(%part) : (memref<3xf32, strided<[1], offset: ?>>) -> ()
  func.return
}
"""
MEMREFS_C = """
#include <stdint.h>
#include <stddef.h>
int32_t expanded(float* a, float* aligned, size_t offset, size_t n, size_t m, size_t s0, size_t s1, size_t k) {
  if (a != aligned || offset != 2 || n != 5 || m != 3 || s0 != 4 || s1 != 1 || k != 5) return -1;
  return (int32_t)aligned[offset + 3 * s0 + 2 * s1];
}
void bare(const float* base, size_t at, float* out) { out[1] = base[at]; }
void moved(float* first) { first[0] = -first[0]; }
"""


@pytest.mark.parametrize("suffix", [".o", ".bc", ".c"])
def test_memrefs(suffix: str) -> None:
    kernel = load(MEMREFS, bindings=2, objects=[compiled(MEMREFS_C, suffix)])
    data, out = buffer(np.arange(24, dtype=np.float32)), buffer(np.zeros(2, np.float32))
    assert kernel.run(data, out) == 0
    assert list(out) == [2 + 3 * 4 + 2, 5]
    assert data[2] == -2


def test_archive() -> None:
    body = compiled(MEMREFS_C, ".o").data
    member = b"user.o/         0           0     0     644     %-10d`\n" % len(body)
    archive = ObjectFile("lib.a", b"!<arch>\n" + member + body + b"\n" * (len(body) & 1))
    kernel = load(MEMREFS, bindings=2, objects=[archive])
    out = buffer(np.zeros(2, np.float32))
    kernel.run(buffer(np.arange(24, dtype=np.float32)), out)
    assert list(out) == [16, 5]


LOOP = """
func.func private @scale(memref<f32>, memref<f32>, index) attributes {hal.import.KIND, llvm.bareptr}
func.func @kernel() {
  %n = hal.interface.constant.load[0] : index
  %a = hal.interface.binding.subspan binding(0) alignment(64) : memref<?xf32>{%n}
  %b = hal.interface.binding.subspan binding(1) alignment(64) : memref<?xf32>{%n}
  %ab, %ao, %as, %at = iree_codegen.extract_strided_metadata %a : memref<?xf32> -> memref<f32>, index, index, index
  %bb, %bo, %bs, %bt = iree_codegen.extract_strided_metadata %b : memref<?xf32> -> memref<f32>, index, index, index
  func.call @scale(%ab, %bb, %n) : (memref<f32>, memref<f32>, index) -> ()
  func.return
}
"""
LOOP_C = """
#include <stddef.h>
#include <math.h>
static const float table[4] = {1, 2, 3, 4};
float helper(float x) { return x * 3.0f; }
void scale(const float* restrict a, float* restrict b, size_t n) {
  for (size_t i = 0; i < n; ++i) b[i] = helper(a[i]) + table[2] + sqrtf(a[i]);
}
"""


@pytest.mark.parametrize("suffix", [".bc", ".c"])
def test_bitcode_and_c_become_one_loop(suffix: str) -> None:
    """The user's function is inlined through the call and vectorised: no call of it is left, and vectors are there."""
    shown: dict[str, bytes | str] = {}
    source = LOOP.replace("KIND", "bitcode" if suffix == ".bc" else "static")
    program = variant(source, constants=1, bindings=2, cpu="generic", objects=[compiled(LOOP_C, suffix)])
    binary = compile_variant(program, dump=shown.__setitem__)
    optimised = str(shown[".optimized.ll"])
    body = optimised[optimised.index("kernel.export") :]
    body = optimised[optimised.index("define internal") :]
    assert not re.search(r"call .*@\"?(scale|helper|sqrtf)", optimised)
    assert re.search(r"fmul <\d+ x float>", body) and "llvm.loop.isvectorized" in body
    assert set(shown) == {".ll", ".optimized.ll", ".s", ".o", ".so"}
    kernel = Loaded(binary)
    a, b = buffer(np.arange(37, dtype=np.float32)), buffer(np.zeros(37, np.float32))
    kernel.run(a, b, constants=[37])
    np.testing.assert_allclose(b, a * 3 + 3 + np.sqrt(a), rtol=1e-6)


def test_device_library_call_inlines() -> None:
    shown: dict[str, bytes | str] = {}
    source = elementwise("%y0 = math.exp %x0 : f32", ["f32"], ["f32"])
    compile_variant(variant(source, constants=1, bindings=2, cpu="generic"), dump=shown.__setitem__)
    assert 'call float @"expf"' in str(shown[".ll"]) and "expf" not in str(shown[".optimized.ll"])
    assert re.search(r"<\d+ x (float|double)>", str(shown[".optimized.ll"]))


def test_fields_of_bitcode() -> None:
    source = """
    func.func private @who(i32) -> i64 attributes {hal.import.bitcode = true, hal.import.fields = ["processor_id", "processor_data"]}
    """ + elementwise("%k = arith.constant 100 : i32\n%y0 = func.call @who(%k) : (i32) -> i64", [], ["i64"])
    code = "#include <stdint.h>\nint64_t who(int32_t k, uint32_t id, const uint64_t* data) { return k + id + (int64_t)data[3]; }"
    kernel = load(source, constants=1, bindings=1, objects=[compiled(code, ".bc")])
    kernel.environment.processor[3] = 5000
    out = buffer(np.zeros(1, np.int64))
    kernel.run(out, constants=[1])
    assert out[0] == 100 + 11 + 5000


IMPORTS = """
func.func private @b_two(%f: f32, %m: memref<f32>, %i: i16, %flag: i1) -> (i32, f32) attributes {hal.import.fields = ["processor_id", "processor_data"], llvm.bareptr}
func.func private @alias(i8, f64) -> i1 attributes {hal.import.name = "a_one"}
func.func private @missing() attributes {hal.import.optional}
func.func private @unused()
func.func private @helper(%n: index) -> i64 {
  %x = arith.constant -3 : i8
  %y = arith.constant 2.5 : f64
  %b = func.call @alias(%x, %y) : (i8, f64) -> i1
  %r = arith.extui %b : i1 to i64
  func.return %r : i64
}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %out = hal.interface.binding.subspan binding(0) : memref<3xf32>
  %base, %off, %size, %stride = iree_codegen.extract_strided_metadata %out : memref<3xf32> -> memref<f32>, index, index, index
  %f = arith.constant 1.5 : f32
  %i = arith.constant -2 : i16
  %t = arith.constant true
  %r, %q = func.call @b_two(%f, %base, %i, %t) : (f32, memref<f32>, i16, i1) -> (i32, f32)
  %r32 = arith.sitofp %r : i32 to f32
  memref.store %r32, %out[%c0] : memref<3xf32>
  memref.store %q, %out[%c1] : memref<3xf32>
  %h = func.call @helper(%c2) : (index) -> i64
  %h32 = arith.sitofp %h : i64 to f32
  memref.store %h32, %out[%c2] : memref<3xf32>
  func.return
}
func.func @second() {
  func.call @missing() : () -> ()
  func.return
}
"""


def test_imports() -> None:
    out = buffer(np.zeros(3, np.float32))
    seen: list[tuple[object, ...]] = []
    status = {"a_one": 0}

    def b_two(params: int, context: int, reserved: int) -> int:
        raw = ctypes.string_at(params, 48)
        # { {i32, float}, float, ptr, i16, i1, i32, ptr }
        seen.append((*struct.unpack_from("<f", raw, 8), *struct.unpack_from("<Q", raw, 16), *struct.unpack_from("<hB", raw, 24),
                     *struct.unpack_from("<I", raw, 28), *struct.unpack_from("<Q", raw, 32), context, reserved))  # fmt: skip
        ctypes.memmove(params, struct.pack("<if", -9, 0.25), 8)
        return 0

    def a_one(params: int, context: int, reserved: int) -> int:
        raw = ctypes.string_at(params, 16)  # { i1, i8, f64 }
        seen.append((struct.unpack_from("<b", raw, 1)[0], struct.unpack_from("<d", raw, 8)[0], context))
        ctypes.memmove(params, b"\1", 1)
        return status["a_one"]

    kernel = load(IMPORTS, {"b_two": b_two, "a_one": a_one}, bindings=1, exports=("kernel", "second"))
    assert kernel.binary.imports == ("a_one", "b_two", "?missing")
    assert [kernel.table.imports[i] for i in range(3)] == [b"a_one", b"b_two", b"?missing"]
    assert kernel.run(out) == 0
    assert list(out) == [-9, 0.25, 1]
    processor = ctypes.addressof(kernel.environment) + 32
    assert seen == [(1.5, out.ctypes.data, -2, 1, 11, processor, 1001, None), (-3, 2.5, 1000)]
    out[:] = 7
    status["a_one"] = 42
    assert kernel.run(out) == 42  # through the helper, and what follows the call does not run
    assert list(out) == [-9, 0.25, 7]
    assert kernel.run(out, export=1) == MISSING_IMPORT


def test_import_in_a_loop_keeps_the_stack() -> None:
    source = """
    func.func private @tick(i32)
    func.func @kernel() {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 200000 : index
      %x = arith.constant 1 : i32
      scf.for %i = %c0 to %n step %c1 { func.call @tick(%x) : (i32) -> () }
      func.return
    }"""
    places = set()

    def tick(params: int, context: int, reserved: int) -> int:
        places.add(params)
        return 0

    assert load(source, {"tick": tick}).run() == 0
    assert len(places) == 1


def test_query_and_tables() -> None:
    kernel = load(IMPORTS, bindings=1, exports=("kernel", "second"))
    query = kernel.library.iree_hal_executable_library_query
    assert not query(5, None) and not query(0, None)
    assert query(7, None) and query(0xFFFFFFFF, None)
    table = kernel.table
    assert table.header.contents.version == 6 and table.header.contents.name == b"executable"
    assert table.count == 2 and [table.names[i] for i in range(2)] == [b"kernel", b"second"]
    assert table.attrs[0].bindings == 1 and table.attrs[0].constants == 0 and table.attrs[0].flags == 0
    assert table.constants == 0 and not table.params and not table.sources


@pytest.mark.parametrize(
    ("source", "objects", "message", "note"),
    [
        (LOOP.replace("KIND", "static"), [], "refers to 'scale', which no object defines", "hal.executable.objects"),
        (LOOP.replace("KIND", "static"), [("void scalf(void) {}", ".c")], "(nearest: 'scalf')", "hal.executable.objects"),
        (LOOP.replace("KIND", "static"), [("#include <stddef.h>\nextern float pow9(float); void scale(float* a, float* b, size_t n) { b[0] = pow9(a[0]); }", ".o")],
         "object 'user.o' refers to 'pow9', which nothing defines", "without the C library"),
        (LOOP.replace("KIND", "static"), [("void scale(void) { oops }", ".c")], "user.c:1:20: error", None),
        (LOOP.replace("KIND", "bitcode, hal.import.fields = [\"processor_color\"]"), [], "unknown entry 'processor_color'", "processor_id, processor_data"),
        (MEMREFS.replace("-> i32 attributes", "-> (i32, i32) attributes").replace("%r = func.call", "%r, %r2 = func.call").replace("index) -> i32\n", "index) -> (i32, i32)\n"),
         [], "C returns at most one scalar", "memref<...>"),
    ],
)  # fmt: skip
def test_what_is_refused(source: str, objects: list[tuple[str, str]], message: str, note: str | None) -> None:
    with pytest.raises(CompileError) as caught:
        compile_variant(variant(source, constants=1, bindings=2, objects=[compiled(*o) for o in objects]))
    assert message in caught.value.message
    assert note is None or note in (caught.value.note or "")
