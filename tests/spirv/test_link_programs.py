# ruff: noqa: E501  (lines of MLIR and of tables)
"""Whole programs: functions in objects, linked while compiling, and libraries that the device gets before loading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_functions import check_halving, halving
from link_cases import compiled

import pydispatch as pd
from pydispatch.compiler.backends.vulkan import functions
from pydispatch.errors import SystemError_

PROGRAM = """
#vulkan = #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">
#cpu = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"any", [TARGETS]> : !hal.device
module @functions attributes {hal.device.targets = [#device]} {
  stream.executable private @executable OBJECTS {
    stream.executable.export public @kernel workgroups(%workload: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%workload]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @mul_workgroup(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
          attributes {llvm.bareptr = true ATTRIBUTES}
      MORE
      func.func @kernel(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
        %p2, %o2, %n2, %s2 = iree_codegen.extract_strided_metadata %out : memref<?xf32> -> memref<f32>, index, index, index
        func.call @mul_workgroup(%p0, %o0, %p1, %o1, %p2, %o2, %size, %first)
            : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
    }
  }
  func.func public @multiply(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %lhs, %c0 : tensor<?xf32>
    %0 = flow.dispatch @executable::@kernel[%dim](%lhs, %rhs, %dim) : (tensor<?xf32>{%dim}, tensor<?xf32>{%dim}, index) -> tensor<?xf32>{%dim}
    return %0 : tensor<?xf32>
  }
}
"""
PLACES = """
layout(binding = 0) readonly buffer Lhs { float lhs[]; };
layout(binding = 1) readonly buffer Rhs { float rhs[]; };
layout(binding = 2) buffer Out { float made[]; };
"""
MUL = (
    PLACES
    + """
void mul_workgroup(uint l, uint lo, uint r, uint ro, uint o, uint oo, uint size, uint first) {
  uint end = min(size, first + 64);
  for (uint i = first + gl_LocalInvocationIndex; i < end; i += gl_WorkGroupSize.x)
    made[o + oo + i] = lhs[l + lo + i] * rhs[r + ro + i] SCALE;
}
"""
)
SIZES = "layout(local_size_x_id = 0) in;\n"
FALLBACK = """
      func.func private @slow(%l: memref<f32>, %lo: index, %r: memref<f32>, %ro: index, %o: memref<f32>, %oo: index,
                              %size: index, %first: index) {
        %c64 = arith.constant 64 : index
        %last = arith.addi %first, %c64 : index
        %end = arith.minui %last, %size : index
        %left = memref.reinterpret_cast %l to offset: [%lo], sizes: [%size], strides: [1]
            : memref<f32> to memref<?xf32, strided<[1], offset: ?>>
        %made = memref.reinterpret_cast %o to offset: [%oo], sizes: [%size], strides: [1]
            : memref<f32> to memref<?xf32, strided<[1], offset: ?>>
        %one = arith.constant 1 : index
        scf.for %i = %first to %end step %one {
          %x = memref.load %left[%i] : memref<?xf32, strided<[1], offset: ?>>
          memref.store %x, %made[%i] : memref<?xf32, strided<[1], offset: ?>>
        }
        return
      }
"""

A = np.arange(150, dtype=np.float32)
B = np.linspace(-2, 2, 150, dtype=np.float32)


@pytest.fixture
def device() -> Iterator[Any]:
    yield pd.device("vulkan:0")


def program(objects: str = "", attributes: str = "", more: str = "", targets: str = "#vulkan") -> str:
    text = PROGRAM.replace("TARGETS", targets).replace("ATTRIBUTES", attributes).replace("MORE", more)
    clause = f"attributes {{hal.executable.objects = #hal.executable.objects<{{{objects}}}>}}" if objects else ""
    return text.replace("OBJECTS", clause)


def library(path: Path, scale: str = "", text: str = MUL) -> Path:
    path.write_bytes(compiled(SIZES + text.replace("SCALE", scale) + "\nvoid main() {}\n"))
    return path


def result(loaded: Any) -> np.ndarray:
    return np.asarray(loaded.multiply(A, B).download())


def objects(name: str) -> str:
    return f'#vulkan = [#hal.executable.object<{{path = "{name}"}}>]'


@pytest.mark.parametrize("attributes", ["", ", hal.import.static"])
def test_functions_in_an_object(tmp_path: Path, device: Any, attributes: str) -> None:
    library(tmp_path / "lib.spv")
    artifact = pd.compile(program(objects("lib.spv"), attributes), object_search_path=[tmp_path])
    loaded = device.load(artifact)
    assert loaded.imports == ()
    np.testing.assert_array_equal(result(loaded), A * B)


@pytest.mark.parametrize("suffix", [".glsl", ".comp"])
def test_functions_in_glsl_need_no_main(tmp_path: Path, device: Any, suffix: str) -> None:
    """gl_WorkGroupSize is the kernel's."""
    (tmp_path / f"lib{suffix}").write_text("#version 450\n" + MUL.replace("SCALE", "* 2.0"))
    artifact = pd.compile(program(objects(f"lib{suffix}")), object_search_path=[tmp_path])
    np.testing.assert_array_equal(result(device.load(artifact)), 2 * A * B)


def test_the_sizes_of_a_library_do_not_depend_on_its_conditional_extensions(tmp_path: Path, device: Any) -> None:
    head = "#version 450\n#ifdef GL_EXT_missing\n#extension GL_EXT_missing : require\n#endif\n"
    (tmp_path / "lib.glsl").write_text(head + MUL.replace("SCALE", "* 2.0"))
    data = pd.compile(program(objects("lib.glsl")), object_search_path=[tmp_path])
    np.testing.assert_array_equal(result(device.load(data)), 2 * A * B)
    text = functions._with_sizes(head)
    assert text.splitlines()[1:3] == [functions._SIZES_BY_CONSTANTS, "#line 2"]


def test_errors_of_objects(tmp_path: Path) -> None:
    def refused(name: str, match: str, attributes: str = "") -> None:
        with pytest.raises(pd.CompileError, match=match):
            pd.compile(program(objects(name), attributes), object_search_path=[tmp_path])

    (tmp_path / "bad.glsl").write_text("#version 450\nvoid f() { x = 1; }\n")
    refused("bad.glsl", r"(?s)bad.glsl does not compile:.*'x' : undeclared identifier")
    (tmp_path / "size.glsl").write_text("#version 450\nlayout(local_size_x = 4) in;" + MUL.replace("SCALE", ""))
    refused("size.glsl", r"(?s)gl_WorkGroupSize of a library is that of the kernel.*local_size_x_id")
    (tmp_path / "torn.spv").write_bytes(library(tmp_path / "lib.spv").read_bytes()[:-8])
    refused("torn.spv", r"torn.spv: .*(word|function does not end)")
    (tmp_path / "lib.o").write_bytes(b"\x7fELF")
    refused("lib.o", "of kind '.o' cannot be used for Vulkan")
    library(tmp_path / "other.spv", "", MUL.replace("mul_workgroup", "mul_workgroups"))
    refused("other.spv", r"(?s)'mul_workgroup' is declared as hal.import.static.*did you mean 'mul_workgroups'.*other.spv",
            ", hal.import.static")  # fmt: skip
    library(tmp_path / "few.spv", "", MUL.replace(", uint first)", ")").replace("first", "0"))
    refused(
        "few.spv", r"does not fit its call: the program calls void mul_workgroup\(buffer \{float\[\]\}, uint, uint, "
    )
    library(
        tmp_path / "writes.spv",
        "",
        MUL.replace("readonly", "").replace("made[o + oo + i]", "lhs[l + i] = made[o + oo + i]"),
    )
    refused("writes.spv", "writes the buffer at binding 0, which the kernel declares as only read")


def test_a_library_of_the_device(tmp_path: Path, device: Any) -> None:
    artifact = pd.compile(program())
    with pytest.raises(pd.MissingImportError) as error:
        device.load(artifact)
    text = str(error.value)
    assert "executable '@executable' has 1 unresolved function" in text
    assert "'mul_workgroup', which @kernel calls" in text
    assert "void mul_workgroup(uint offset0, uint, uint offset1, uint, uint offset2, uint, uint, uint)" in text
    assert "no library is registered" in text and "device.add_plugin('lib.spv')" in text
    device.add_plugin(library(tmp_path / "near.spv", "", MUL.replace("mul_workgroup", "mul_workgroupz")))
    with pytest.raises(pd.MissingImportError, match=r"(?s)did you mean 'mul_workgroupz'\?.*searched: .*near.spv"):
        device.load(artifact)
    path = library(tmp_path / "lib.spv")
    device.add_plugin(str(path))
    loaded = device.load(artifact)
    np.testing.assert_array_equal(result(loaded), A * B)
    (found,) = loaded.imports
    assert (found.symbol, found.executable, found.exports) == ("mul_workgroup", "executable", ("kernel",))
    assert found.provider == str(path) and found.searched == (str(path),)
    assert found.declaration.startswith("void mul_workgroup(uint offset0")
    artifact.save(tmp_path / "p.pdx")
    np.testing.assert_array_equal(result(device.load(tmp_path / "p.pdx")), A * B)


def test_who_is_asked(tmp_path: Path, device: Any) -> None:
    """The last one first, then by priority; what was taken back is not asked; loaded programs keep what they have."""
    artifact = pd.compile(program())
    first = device.add_plugin(library(tmp_path / "1.spv", "+ 1.0"))
    device.add_plugin(library(tmp_path / "2.spv", "+ 2.0").read_bytes())
    two = device.load(artifact)
    np.testing.assert_array_equal(result(two), A * B + 2)
    high = device.add_plugin(library(tmp_path / "3.spv", "+ 3.0"), priority=5)
    device.add_plugin(library(tmp_path / "4.spv", "+ 4.0"))
    np.testing.assert_array_equal(result(device.load(artifact)), A * B + 3)
    device.remove_plugin(high)
    np.testing.assert_array_equal(result(device.load(artifact)), A * B + 4)
    np.testing.assert_array_equal(result(two), A * B + 2)
    device.remove_plugin(first)
    with pytest.raises(pd.InvalidArgumentError, match="expected what add_plugin of this device returned, once"):
        device.remove_plugin(first)


def test_optional_imports_and_fallbacks(tmp_path: Path, device: Any) -> None:
    artifact = pd.compile(program("", ", hal.import.fallback = @slow", FALLBACK))
    missing = device.load(artifact)
    np.testing.assert_array_equal(result(missing), A)
    (found,) = missing.imports
    assert found.optional and found.provider is None and found.searched == ()
    device.add_plugin(library(tmp_path / "lib.spv"))
    given = device.load(artifact)
    np.testing.assert_array_equal(result(given), A * B)
    assert given.imports[0].optional and given.imports[0].provider == str(tmp_path / "lib.spv")


def test_a_static_function_with_a_fallback(tmp_path: Path, device: Any) -> None:
    library(tmp_path / "other.spv", "", MUL.replace("mul_workgroup", "unrelated"))
    text = program(objects("other.spv"), ", hal.import.static, hal.import.fallback = @slow", FALLBACK)
    np.testing.assert_array_equal(result(device.load(pd.compile(text, object_search_path=[tmp_path]))), A)


def test_plugins_that_are_refused(tmp_path: Path, device: Any) -> None:
    with pytest.raises(pd.ArtifactError, match=r"is no SPIR-V, which a Vulkan device takes; it is machine code"):
        device.add_plugin(b"\x7fELF" + bytes(60))
    with pytest.raises(pd.ArtifactError, match="--keep-uncalled"):
        device.add_plugin(b"void f() {}" * 4)
    with pytest.raises(pd.InvalidArgumentError, match="offers no function"):
        device.add_plugin(compiled("void main() {}"))
    with pytest.raises(pd.InvalidArgumentError, match="has no parameters, got flavor"):
        device.add_plugin(library(tmp_path / "lib.spv"), flavor="fast")
    with pytest.raises(
        pd.InvalidArgumentError, match=r"expected the path or the bytes of a SPIR-V module \(.*, got int"
    ):
        device.add_plugin(3)
    with pytest.raises(SystemError_, match=r"add_plugin: cannot read '.*absent.spv': No such file or directory; give"):
        device.add_plugin(tmp_path / "absent.spv")


def test_libraries_that_do_not_fit_a_program(tmp_path: Path, device: Any) -> None:
    """Found before a driver sees anything; the device goes on."""
    artifact = pd.compile(program())
    few = device.add_plugin(library(tmp_path / "few.spv", "", MUL.replace(", uint first)", ")").replace("first", "0")))
    with pytest.raises(pd.InvalidArgumentError, match=r"'mul_workgroup' of .*few.spv does not fit its call"):
        device.load(artifact)
    device.remove_plugin(few)
    writes = MUL.replace("readonly", "").replace("made[o + oo + i]", "lhs[l + i] = made[o + oo + i]")
    bad = device.add_plugin(library(tmp_path / "writes.spv", "", writes))
    with pytest.raises(
        pd.InvalidArgumentError, match="writes the buffer at binding 0, which the kernel declares as only read"
    ):
        device.load(artifact)
    device.remove_plugin(bad)
    device.add_plugin(library(tmp_path / "lib.spv"))
    np.testing.assert_array_equal(result(device.load(artifact)), A * B)


def test_one_artifact_for_both_devices(tmp_path: Path, device: Any) -> None:
    """The same program text; on the CPU the function is C, on Vulkan it is GLSL."""
    import ctypes

    artifact = pd.compile(program("", "", "", "#cpu, #vulkan"))
    device.add_plugin(library(tmp_path / "lib.spv"))
    np.testing.assert_array_equal(result(device.load(artifact)), A * B)

    class Params(ctypes.Structure):
        _fields_ = [("l", ctypes.POINTER(ctypes.c_float)), ("lo", ctypes.c_size_t), ("r", ctypes.POINTER(ctypes.c_float)),
                    ("ro", ctypes.c_size_t), ("o", ctypes.POINTER(ctypes.c_float)), ("oo", ctypes.c_size_t),
                    ("size", ctypes.c_size_t), ("first", ctypes.c_size_t)]  # fmt: skip

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Params), ctypes.c_void_p, ctypes.c_void_p)
    def function(params: Any, context: Any, reserved: Any) -> int:
        p = params.contents
        for i in range(p.first, min(p.size, p.first + 64)):
            p.o[p.oo + i] = p.l[p.lo + i] * p.r[p.ro + i]
        return 0

    cpu = pd.device("cpu?workers=1")
    cpu.add_import("mul_workgroup", function)
    np.testing.assert_array_equal(cpu.load(artifact).multiply(A, B), A * B)


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_a_function_of_indices(tmp_path: Path, device: Any, type_: str) -> None:
    """An index has 64 bits in the kernel of i64, and 32 in that of i32; the function is the same."""
    (tmp_path / "half.glsl").write_text("#version 450\nint halved(int i) { return i / 2; }\n")
    target = '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">'
    clause = f"attributes {{hal.executable.objects = #hal.executable.objects<{{{objects('half.glsl')}}}>}}"
    text = halving(type_).replace("private @executable {", f"private @executable {clause} {{")
    artifact = pd.compile(f"#vulkan = {target}\n{text}", targets="vulkan", object_search_path=[tmp_path])
    check_halving(device.load(artifact), type_)
