# ruff: noqa: E501  (tables of messages)
"""Whole kernels of the user: C functions with the author's macros, in every kind of object; executables without code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.backends.cpu.target import host_format
from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.errors import CompileError
from pydispatch.formats.elf.library import ExportFacts, read_tables

ROOT = Path(__file__).resolve().parents[2]
ARCH = {"x86_64": "x86_64", "arm_64": "aarch64", "riscv_64": "riscv64"}[host_format().removeprefix("embedded-elf-")]
KERNELS = """
#include "pydispatch/library_author.h"
static int32_t scale(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                     const pyd_workgroup_state_t* workgroup) {
  const float* x = pyd_binding(dispatch, 0);
  float* y = pyd_binding(dispatch, 1);
  uint32_t n = pyd_constant(dispatch, 0);
  for (uint32_t i = 64 * workgroup->workgroup_id_x; i < n && i < 64 * workgroup->workgroup_id_x + 64; ++i) y[i] = 3 * x[i];
  return pyd_binding_length(dispatch, 1) == 4 * (size_t)n && pyd_constant64(dispatch, 1) == 0x100000002 ? 0 : 7;
}
static int32_t scratch(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                       const pyd_workgroup_state_t* workgroup) {
  return workgroup->local_memory_size >= 5000 ? pyd_call_import(environment, 1, NULL) : 8;
}
#define EXPORTS(X) X(scale, 2, 3, 0) X(scratch, 0, 0, 5000)
#define IMPORTS(X) X("needed") X("?wanted")
"""
PLAIN = 'PYD_LIBRARY("my kernels", EXPORTS)\n'
IMPORTING = 'PYD_LIBRARY_WITH_IMPORTS("my kernels", EXPORTS, IMPORTS)\n'

PROGRAM = """
hal.executable private @exe {
  hal.executable.variant public @v target(<"llvm-cpu", "FORMAT">) OBJECTS {
    hal.executable.export public @scale ordinal(ORDINAL) layout(#hal.pipeline.layout<constants = CONSTANTS, bindings = [
      #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
        count(%device: !hal.device, %n: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %c1 = arith.constant 1 : index
      hal.return %x, %c1, %c1 : index, index, index
    }
    EXTRA
  }
}
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %n32 = arith.index_cast %n : index to i32
  %wide = arith.constant 0x100000002 : i64
  %y = flow.dispatch @exe::@scale[%n](%n32, %wide, %x) : (i32, i64, tensor<?xf32>{%n}) -> tensor<?xf32>{%n}
  return %y : tensor<?xf32>
}
"""
OTHER = "hal.executable.export public @other ordinal(0) layout(#hal.pipeline.layout<constants = 0, bindings = []>)"


def program(objects: str, constants: int = 3, ordinal: int = 0, extra: str = "") -> str:
    text = PROGRAM if constants == 3 else PROGRAM.replace("(%n32, %wide, %x) : (i32, i64,", "(%wide, %x) : (i64,")
    text = text.replace("FORMAT", host_format()).replace("OBJECTS", objects).replace("EXTRA", extra)
    return text.replace("CONSTANTS", str(constants)).replace("ORDINAL", str(ordinal))


def listed(name: str) -> str:
    return f'objects([#hal.executable.object<{{path = "{name}"}}>])'


def built(folder: Path, suffix: str, text: str = KERNELS + PLAIN) -> str:
    """The kernels as a file of this kind; its name."""
    tools, name, include = toolchain.find(), f"kernels{suffix}", [pd.get_include()]
    if suffix == ".c":
        (folder / name).write_text(text)
        return name
    emit = "bc" if suffix == ".bc" else "obj"
    data = tools.compile_c(text.encode(), arch=ARCH, emit=emit, include_dirs=include)
    if suffix == ".so":
        data = tools.link_shared([data], arch=ARCH, exports=["iree_hal_executable_library_query"])
    if suffix == ".a":
        body = data + b"\n" * (len(data) & 1)
        data = b"!<arch>\nkernels.o/      0           0     0     644     %-10d`\n" % len(data) + body
    (folder / name).write_bytes(data)
    return name


@pytest.mark.parametrize("suffix", [".c", ".o", ".a", ".bc", ".so"])
def test_every_kind_of_object(suffix: str, tmp_path: Path) -> None:
    artifact = pd.compile(program(listed(built(tmp_path, suffix))), object_search_path=[tmp_path])
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(x), 3 * x)
    (variant,) = artifact.executables[0].variants
    assert variant.alignment == 64
    facts = read_tables(bytes(artifact.read(variant.member)))
    assert facts is not None and facts.name == "my kernels"
    assert facts.exports == (ExportFacts("scale", 3, 2, 0), ExportFacts("scratch", 0, 0, 8192))


@pytest.mark.parametrize("suffix", [".c", ".o", ".a", ".bc"])
def test_plain_functions_get_tables(suffix: str, tmp_path: Path) -> None:
    """Functions without any table are exports by their names; the tables come from the declared layouts."""
    text = KERNELS.replace("static int32_t scale", "int32_t scale")
    artifact = pd.compile(program(listed(built(tmp_path, suffix, text))), object_search_path=[tmp_path])
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(x), 3 * x)


@pytest.mark.parametrize("suffix", [".c", ".so"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constants": 2}, "export 'scale' (ordinal 0) has 2 constants in its layout, the library 'my kernels' takes 3"),
        ({"ordinal": 1, "extra": OTHER}, "'scale' (ordinal 1) has ordinal 0 in the library 'my kernels', where 1 is 'scratch'"),
        ({"extra": OTHER.replace("ordinal(0)", "ordinal(1)").replace("bindings = []", "bindings = [#hal.pipeline.binding<storage_buffer>]")},
         "export 'other' (ordinal 1) has 1 bindings in its layout, the library 'my kernels' takes 0"),
        ({"extra": OTHER.replace("ordinal(0)", "ordinal(1)") + "\n" + OTHER.replace("ordinal(0)", "ordinal(2)").replace("@other", "@third")},
         "export 'third' (ordinal 2) is not in the library 'my kernels', which has 2: scale, scratch"),
    ],
)  # fmt: skip
def test_tables_that_disagree(suffix: str, options: dict[str, object], message: str, tmp_path: Path) -> None:
    name = built(tmp_path, suffix)
    with pytest.raises(CompileError) as caught:
        pd.compile(program(listed(name), **options), object_search_path=[tmp_path])  # type: ignore[arg-type]
    assert message in caught.value.message and caught.value.location is not None


def test_tables_are_read_only_where_they_are_sure() -> None:
    beyond = b"\x7fELF" + bytes(28) + b"\xff" * 8 + bytes(16) + b"\1\0" + bytes(200)  # program headers at 2^64 - 1
    assert read_tables(beyond) is None
    assert read_tables(b"") is None and read_tables(b"\x7fELF" + bytes(200)) is None
    tools = toolchain.find()
    code = tools.compile_c((KERNELS + PLAIN).encode(), arch=ARCH, include_dirs=[pd.get_include()])
    data = tools.link_shared([code], arch=ARCH, exports=["iree_hal_executable_library_query"])
    assert read_tables(data) is not None
    for cut in range(0, len(data), 97):
        read_tables(data[:cut])
    assert read_tables(data.replace(b"\x06\0\0\0\0\0\0\0", b"\x05\0\0\0\0\0\0\0")) is None


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64"])
@pytest.mark.parametrize("text", [PLAIN, IMPORTING])
def test_tables_of_every_architecture(arch: str, text: str) -> None:
    tools = toolchain.find()
    code = tools.compile_c((KERNELS + text).encode(), arch=arch, include_dirs=[pd.get_include()])
    facts = read_tables(tools.link_shared([code], arch=arch, exports=["iree_hal_executable_library_query"]))
    assert facts is not None and [e.name for e in facts.exports] == ["scale", "scratch"]


def test_the_author_header_is_strict_c_and_cpp() -> None:
    text = KERNELS.replace("pyd_binding(dispatch, 0)", "(float*)pyd_binding(dispatch, 0)")
    text = text.replace("y = pyd_binding", "y = (float*)pyd_binding") + IMPORTING
    for command in (["gcc", "-std=c11", "-x", "c"], ["g++", "-std=c++17", "-x", "c++"]):
        flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only", f"-I{pd.get_include()}"]
        done = subprocess.run(
            [*command, *flags, "-"],
            input=text, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_an_executable_without_code() -> None:
    """It is declared in the artifact, with layouts and grids; the code comes at run time."""
    artifact = pd.compile(program(""))
    (variant,) = artifact.executables[0].variants
    assert variant.extra == {"dynamic": True} and artifact.executables[0].exports == ["scale"]
    assert len(artifact.read(variant.member)) == 0 and variant.format == host_format()
    again = pd.Artifact.from_bytes(artifact.to_bytes())
    assert again.executables == artifact.executables


def test_a_source_without_code() -> None:
    """`hal.executable.source` too, for every target of the program."""
    text = program("").replace("hal.executable private @exe {", "hal.executable.source private @exe {")
    text = text.replace(f'  hal.executable.variant public @v target(<"llvm-cpu", "{host_format()}">)  {{\n', "")
    text = text.replace("    \n  }\n}\nfunc", "}\nfunc")
    artifact = pd.compile(text, targets=("x86_64", "aarch64"))
    assert [(v.format, v.extra) for v in artifact.executables[0].variants] == [
        ("embedded-elf-x86_64", {"dynamic": True}), ("embedded-elf-arm_64", {"dynamic": True})
    ]  # fmt: skip
