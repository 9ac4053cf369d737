# ruff: noqa: E501  (lines of MLIR and C)
"""Imports: structures as a C compiler lays them out, results of every width, optional ones, their signatures."""

from __future__ import annotations

import ctypes
import os
import random
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kernels import HOST_FORMAT, Loaded, buffer, load, variant

from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.compiler.emit.llvm.cpu.imports import MISSING_IMPORT
from pydispatch.compiler.emit.llvm.ops.scf import FAILED_ASSERTION
from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.imports import FIELDS, SCALARS, ImportSignature, c_declaration, layout

ARCH = {"embedded-elf-x86_64": "x86_64", "embedded-elf-arm_64": "aarch64", "embedded-elf-riscv_64": "riscv64"}[
    HOST_FORMAT
]
INCLUDES = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#pragma GCC visibility push(default)\n"
# MLIR's spelling of a value and what C must see; halves are bits in C.
VALUES = {
    "i1": ("true", "1"), "i8": ("-5", "-5"), "i16": ("-300", "-300"), "i32": ("-70000", "-70000"),
    "i64": ("-5000000000", "-5000000000ll"), "index": ("6000000000", "6000000000ull"),
    "i128": ("-7", "-7"), "f16": ("1.5", "0x3E00"), "bf16": ("-2.0", "0xC000"), "f32": ("2.5", "2.5f"),
    "f64": ("0.1", "0.1"),
}  # fmt: skip


def c_library(code: str, exports: list[str]) -> ctypes.CDLL:
    """The C code as a library of this process."""
    tools = toolchain.find()
    data = tools.link_shared([tools.compile_c((INCLUDES + code).encode(), arch=ARCH)], arch=ARCH, exports=exports)
    handle, path = tempfile.mkstemp(suffix=".so")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    library = ctypes.CDLL(path)
    Path(path).unlink()
    return library


def address(library: ctypes.CDLL, symbol: str) -> int:
    found = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    assert found is not None
    return found


def signatures() -> list[ImportSignature]:
    """Each type alone and in pairs, then mixtures; pointers come from memrefs."""
    made = [ImportSignature("f", results=(t,), arguments=(t,)) for t in VALUES]
    made += [ImportSignature("f", results=("i8", t), arguments=("i1", t, "i8")) for t in VALUES]
    made += [ImportSignature("f"), ImportSignature("f", fields=("processor_id",)), ImportSignature("f", arguments=("ptr",)),
             ImportSignature("f", results=("f64",), fields=("processor_data", "processor_id"))]  # fmt: skip
    rng = random.Random(5)
    for _ in range(24):
        results = tuple(rng.choice(list(VALUES)) for _ in range(rng.randrange(5)))
        arguments = tuple(rng.choice([*VALUES, "ptr"]) for _ in range(rng.randrange(7)))
        fields = tuple(rng.sample(list(FIELDS), rng.randrange(3)))
        made.append(ImportSignature("f", False, results, arguments, fields))
    return made


def checking_function(number: int, signature: ImportSignature) -> str:
    """C that compares what it gets, returns the number of the first argument that is wrong, and fills in results."""
    made = layout(signature.results, signature.arguments, signature.fields)
    text = c_declaration(f"f{number}", signature.results, signature.arguments, signature.fields)
    text += f"int32_t f{number}(void* params, void* context, void* reserved) {{\n"
    if made.members:
        text += f"struct f{number}_params* p = params;\n"
    else:
        text += "if (params != 0) return 98;\n"
    text += "if (reserved != 0) return 99;\n"
    for i, type_ in enumerate(signature.arguments):
        expected = "context" if type_ == "ptr" else VALUES[type_][1]
        text += f"if (p->a{i} != {expected}) return {i + 1};\n"
    if "processor_id" in signature.fields:
        text += "if (p->processor_id != 11) return 50;\n"
    if "processor_data" in signature.fields:
        text += "if (p->processor_data[2] != 1234) return 51;\n"
    for i, type_ in enumerate(signature.results):
        place = "result" if len(signature.results) == 1 else f"results.r{i}"
        text += f"p->{place} = {VALUES[type_][1]};\n"
    text += "return 0;\n}\n"
    offsets = []
    for i, member in enumerate(made.members):
        path = f"results.{member.name}" if i < made.result_count and made.result_count > 1 else member.name
        offsets.append(f"offsetof(struct f{number}_params, {path})")
    if made.members:
        offsets += [f"sizeof(struct f{number}_params)", f"_Alignof(struct f{number}_params)"]
    return text + f"const uint32_t offsets{number}[] = {{{', '.join([*offsets, '0'])}}};\n"


def calling_kernel(number: int, signature: ImportSignature) -> str:
    """A kernel that calls the function once and stores what comes back."""
    lines = [f"func.func @k{number}() {{", "%c0 = arith.constant 0 : index"]
    pointer = "%out0 = hal.interface.binding.subspan binding(0) : memref<64xi8>\n%ptr, %po, %ps, %pt = memref.extract_strided_metadata %out0 : memref<64xi8> -> memref<i8>, index, index, index"
    lines.append(pointer)
    types, operands = [], []
    for i, type_ in enumerate(signature.arguments):
        types.append("memref<i8>" if type_ == "ptr" else type_)
        operands.append("%ptr" if type_ == "ptr" else f"%a{i}")
        if type_ != "ptr":
            lines.append(f"%a{i} = arith.constant {VALUES[type_][0]}{'' if type_ == 'i1' else f' : {type_}'}")
    results = ", ".join(f"%r{i}" for i in range(len(signature.results)))
    head = f"{results} = " if results else ""
    declared = f"({', '.join(types)}) -> ({', '.join(signature.results)})"
    lines.append(f"{head}func.call @f{number}({', '.join(operands)}) : {declared}")
    for i, type_ in enumerate(signature.results):
        place = "i64" if type_ == "index" else type_
        if type_ == "index":
            lines.append(f"%x{i} = arith.index_cast %r{i} : index to i64")
        source = f"%x{i}" if type_ == "index" else f"%r{i}"
        lines.append(f"%at{i} = arith.constant {16 * i} : index")
        lines.append(
            f"%v{i} = hal.interface.binding.subspan binding(0) offset(%at{i}) : memref<1x{place}>\nmemref.store {source}, %v{i}[%c0] : memref<1x{place}>"
        )
    fields = ", ".join(f'"{name}"' for name in signature.fields)
    attributes = f"attributes {{llvm.bareptr = true, hal.import.fields = [{fields}]}}"
    declaration = f"func.func private @f{number}({', '.join(types)}) -> ({', '.join(signature.results)}) {attributes}"
    return "\n".join([declaration, *lines, "func.return", "}"])


def test_structures_are_those_of_c() -> None:
    """Every signature is laid out, filled, read and answered by a C function that was compiled from our declaration."""
    cases = list(enumerate(signatures()))
    names = [f"f{i}" for i, _ in cases]
    library = c_library(
        "\n".join(checking_function(*case) for case in cases), [*names, *(f"offsets{i}" for i, _ in cases)]
    )
    source = "\n".join(calling_kernel(*case) for case in cases)
    kernel = load(
        source, {name: address(library, name) for name in names}, bindings=1, exports=tuple(f"k{i}" for i, _ in cases)
    )  # type: ignore[misc]
    kernel.environment.processor[2] = 1234
    out = buffer(np.zeros(128, np.uint8))
    kernel.contexts[:] = [out.ctypes.data] * len(names)
    for number, signature in cases:
        made = layout(signature.results, signature.arguments, signature.fields)
        measured = list((ctypes.c_uint32 * (len(made.members) + 2)).in_dll(library, f"offsets{number}"))
        if made.members:
            assert measured == [*(m.offset for m in made.members), made.size, made.align], signature
        out[:] = 0
        assert kernel.run(out, export=number) == 0, (signature, signature.prototype)
        for i, type_ in enumerate(signature.results):
            assert bytes(out[16 * i : 16 * i + SCALARS[type_][0]]) == expected_bytes(type_), (i, signature)


def expected_bytes(type_: str) -> bytes:
    """The value of VALUES in memory, by NumPy and Python."""
    text = VALUES[type_][1].rstrip("ul")
    floats = {"f32": "<f4", "f64": "<f8"}
    if type_ in floats:
        return np.array(float(text.rstrip("f")), floats[type_]).tobytes()
    return int(text, 0).to_bytes(SCALARS[type_][0], "little", signed=text.startswith("-"))


def test_offsets_in_the_text_are_the_layout() -> None:
    for signature in signatures():
        made = layout(signature.results, signature.arguments, signature.fields)
        inner = [m.offset for m in made.members]
        assert [int(n) for n in re.findall(r"; +// (\d+)(?:$|:)", signature.prototype, re.M)] == inner
        assert ImportSignature.from_json(signature.to_json()) == signature


def test_declaration_text() -> None:
    assert c_declaration("my.mul", ["i32", "f32"], ["ptr", "f16"], ["processor_id", "processor_data"]) == (
        "struct my_mul_params {  // 32 bytes, aligned to 8\n"
        "  struct {\n"
        "    int32_t r0;  // 0\n"
        "    float r1;    // 4\n"
        "  } results;\n"
        "  void* a0;                        // 8\n"
        "  uint16_t a1;                     // 16: the bits of an IEEE half\n"
        "  uint32_t processor_id;           // 20\n"
        "  const uint64_t* processor_data;  // 24\n"
        "};\n"
        "int32_t my_mul(void* params, void* context, void* reserved);  // 0 is success\n"
    )
    assert "|params| is NULL" in c_declaration("9lives") and "int32_t _9lives(" in c_declaration("9lives")
    with pytest.raises(ValueError, match="the argument type 'i7' cannot be a member of a C structure"):
        c_declaration("f", arguments=["i7"])
    with pytest.raises(ValueError, match="the field 'color'"):
        c_declaration("f", fields=["color"])


ALIASES = """
func.func private @first(f64) -> f64 attributes {hal.import.name = "shared"}
func.func private @second(memref<2x?xf32>, i32) attributes {hal.import.name = "shared", hal.import.optional}
func.func private @third(memref<2xf32>) attributes {hal.import.name = "?other", llvm.bareptr}
func.func private @helper(%x: f64) -> f64 {
  %y = func.call @first(%x) : (f64) -> f64
  func.return %y : f64
}
func.func @one() {
  %x = arith.constant 0.1 : f64
  %y = func.call @helper(%x) : (f64) -> f64
  %out = hal.interface.binding.subspan binding(0) : memref<1xf64>
  %c0 = arith.constant 0 : index
  memref.store %y, %out[%c0] : memref<1xf64>
  func.return
}
func.func @two() {
  %n = arith.constant 3 : index
  %m = hal.interface.binding.subspan binding(0) : memref<2x?xf32>{%n}
  %k = arith.constant 7 : i32
  func.call @second(%m, %k) : (memref<2x?xf32>, i32) -> ()
  %x = arith.constant 0.1 : f64
  %y = func.call @first(%x) : (f64) -> f64
  %s = memref.reinterpret_cast %m to offset: [1], sizes: [2], strides: [1] : memref<2x?xf32> to memref<2xf32, strided<[1], offset: 1>>
  %t = memref.cast %s : memref<2xf32, strided<[1], offset: 1>> to memref<2xf32>
  func.return
}
func.func @three() {
  %m = hal.interface.binding.subspan binding(0) : memref<2xf32>
  func.call @third(%m) : (memref<2xf32>) -> ()
  func.return
}
"""


def test_one_symbol_with_several_types() -> None:
    """Each declaration has its own structure; f64 stays f64; the signatures say who calls what."""
    seen: list[object] = []

    def shared(params: int, context: int, reserved: int) -> int:
        if not seen:
            value = ctypes.c_double.from_address(params + 8)
            seen.append(value.value)
            ctypes.c_double.from_address(params).value = value.value * 3
        else:
            seen.append([ctypes.c_int64.from_address(params + 8 * i).value for i in range(2, 7)])
            seen.append(ctypes.c_int32.from_address(params + 56).value)
        return 0

    kernel = load(ALIASES, {"shared": shared}, bindings=1, exports=("one", "two", "three"))
    assert kernel.binary.imports == ("?other", "shared") or kernel.binary.imports == ("shared", "?other")
    out = buffer(np.zeros(1))
    assert kernel.run(out) == 0 and out[0] == 0.1 * 3
    assert kernel.run(out, export=1) == 0
    assert seen == [0.1, [0, 2, 3, 3, 1], 7, seen[3], seen[4]]
    assert kernel.run(out, export=2) == MISSING_IMPORT
    described = kernel.binary.notes["imports"]
    assert isinstance(described, list)
    shown = [(d["symbol"], d["optional"], d["results"], d["arguments"], d["exports"]) for d in described]
    assert shown == [
        ("other", True, [], ["ptr"], ["three"]),
        ("shared", False, [], ["ptr", "ptr", *["index"] * 5, "i32"], ["two"]),
        ("shared", False, ["f64"], ["f64"], ["one", "two"]),
    ]
    assert described[2]["c"].startswith(
        "struct shared_params {  // 16 bytes, aligned to 8\n  double result;  // 0\n  double a0;      // 8\n"
    )


OPTIONAL = """
func.func private @fast(f32) -> f32 attributes {hal.import.optional}
func.func private @needed(f32) -> f32
func.func private @maybe(%x: f32) -> f32 {
  %has = pyd.import.available @fast : i1
  %y = scf.if %has -> (f32) {
    %a = func.call @fast(%x) : (f32) -> f32
    scf.yield %a : f32
  } else {
    %b = arith.mulf %x, %x : f32
    scf.yield %b : f32
  }
  func.return %y : f32
}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %out = hal.interface.binding.subspan binding(0) : memref<2xf32>
  %x = memref.load %out[%c0] : memref<2xf32>
  %y = func.call @maybe(%x) : (f32) -> f32
  memref.store %y, %out[%c0] : memref<2xf32>
  func.return
}
func.func @asks() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %out = hal.interface.binding.subspan binding(0) : memref<2xi8>
  %a = pyd.import.available @fast : i1
  %b = pyd.import.available @needed : i1
  %c = pyd.import.available @maybe : i1
  %d = arith.andi %b, %c : i1
  %a8 = arith.extui %a : i1 to i8
  %d8 = arith.extui %d : i1 to i8
  memref.store %a8, %out[%c0] : memref<2xi8>
  memref.store %d8, %out[%c1] : memref<2xi8>
  func.return
}
func.func @dares() {
  %x = arith.constant 1.0 : f32
  %y = func.call @fast(%x) : (f32) -> f32
  func.return
}
"""


@pytest.mark.parametrize("there", [True, False])
def test_optional_imports(there: bool) -> None:
    def fast(params: int, context: int, reserved: int) -> int:
        ctypes.c_float.from_address(params).value = ctypes.c_float.from_address(params + 4).value + 100
        return 0

    kernel = load(OPTIONAL, {"fast": fast} if there else {}, bindings=1, exports=("kernel", "asks", "dares"))
    assert kernel.binary.imports == ("?fast", "needed")
    out = buffer(np.array([3, 0], np.float32))
    assert kernel.run(out) == 0 and out[0] == (103 if there else 9)
    flags = buffer(np.full(2, 9, np.uint8))
    assert kernel.run(flags, export=1) == 0 and list(flags) == [there, 1]
    assert kernel.run(out, export=2) == (0 if there else MISSING_IMPORT)


def test_a_guarded_call_is_checked_once() -> None:
    """The address is loaded once, so that LLVM drops the check of the call behind the guard."""
    shown: dict[str, bytes | str] = {}
    compile_variant(variant(OPTIONAL, bindings=1, exports=("kernel",)), dump=shown.__setitem__)
    assert str(shown[".optimized.ll"]).count(str(MISSING_IMPORT)) == 0
    compile_variant(variant(OPTIONAL, bindings=1, exports=("dares",)), dump=shown.__setitem__)
    assert str(shown[".optimized.ll"]).count(str(MISSING_IMPORT)) == 1


def test_codes_are_those_of_the_header() -> None:
    header = (Path(__file__).parents[2] / "csrc" / "include" / "pydispatch" / "library.h").read_text()
    assert f"PYD_LIBRARY_CODE_MISSING_IMPORT 0x{MISSING_IMPORT:X}" in header
    assert f"PYD_LIBRARY_CODE_FAILED_ASSERTION 0x{FAILED_ASSERTION:X}" in header


LOOP = """
func.func private @tick(i32, f32) -> f32 attributes {hal.import.name = "tick", hal.import.fields = ["processor_id"]KIND}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = hal.interface.constant.load[0] : index
  %out = hal.interface.binding.subspan binding(0) : memref<1xf32>
  %k = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
    %r = func.call @tick(%k, %s) : (i32, f32) -> f32
    scf.yield %r : f32
  }
  memref.store %sum, %out[%c0] : memref<1xf32>
  func.return
}
"""


def test_the_environment_is_read_outside_of_loops() -> None:
    shown: dict[str, bytes | str] = {}
    program = variant(LOOP.replace("KIND", ""), constants=1, bindings=1)
    kernel = Loaded(compile_variant(program, dump=shown.__setitem__), {"tick": lambda params, context, reserved: 0})
    text = str(shown[".optimized.ll"])
    body = text[text.index("define internal") :]
    calls = [line for line in body.splitlines() if re.search(r"call i32 %", line)]
    assert len(calls) == 1
    loop = body[body.rindex("\n\n", 0, body.index(calls[0])) : body.index(calls[0])]
    assert "load ptr" not in loop and "alloca" not in loop
    assert kernel.run(buffer(np.zeros(1, np.float32)), constants=[5]) == 0


@pytest.mark.parametrize(
    ("declaration", "call", "message"),
    [
        ("@f(i7)", "%x = arith.constant 1 : i7\nfunc.call @f(%x) : (i7) -> ()", "import 'f': the argument type 'i7' cannot be a member of a C structure"),
        ("@f() -> memref<f32>", "%m = func.call @f() : () -> memref<f32>", "import 'f': the result type 'memref<f32>' cannot be a member"),
        ("@f() attributes {hal.import.fields = [\"color\"]}", "func.call @f() : () -> ()", "unknown entry 'color'"),
        ("@f()", "%h = pyd.import.available @g : i1", "call of 'g', which the executable does not declare"),
    ],
)  # fmt: skip
def test_what_is_refused(declaration: str, call: str, message: str) -> None:
    source = f"func.func private {declaration}\nfunc.func @kernel() {{\n{call}\nfunc.return\n}}"
    with pytest.raises(CompileError) as caught:
        compile_variant(variant(source))
    assert message in caught.value.message and caught.value.location is not None


def test_assertions() -> None:
    """A failed one ends the workgroup with its own code, also out of a helper."""
    source = """
    func.func private @positive(%x: i32) -> i32 {
      %zero = arith.constant 0 : i32
      %ok = arith.cmpi sgt, %x, %zero : i32
      cf.assert %ok, "must be positive"
      func.return %x : i32
    }
    func.func @kernel() {
      %c0 = arith.constant 0 : index
      %x = hal.interface.constant.load[0] : i32
      %out = hal.interface.binding.subspan binding(0) : memref<1xi32>
      %y = func.call @positive(%x) : (i32) -> i32
      memref.store %y, %out[%c0] : memref<1xi32>
      func.return
    }"""
    kernel = load(source, constants=1, bindings=1)
    out = buffer(np.zeros(1, np.int32))
    assert kernel.run(out, constants=[3]) == 0 and out[0] == 3
    assert kernel.run(out, constants=[-3]) == FAILED_ASSERTION and out[0] == 3
