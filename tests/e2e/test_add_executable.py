"""Executables that a program only declares: their code is given to the device, and checked against the declaration."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.formats.elf import fatelf

ARCH = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())

KERNELS = """
#include "pydispatch/library_author.h"
#include EXTRA

static int32_t scale(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                     const pyd_workgroup_state_t* workgroup) {
  const float* in = pyd_binding(dispatch, 0);
  float* out = pyd_binding(dispatch, 1);
  uint32_t size = pyd_constant(dispatch, 0), first = workgroup->workgroup_id_x * 64;
  for (uint32_t i = first; i < size && i < first + 64; ++i) out[i] = EXPRESSION;
  return size == 13 ? 9 : 0;
}
#define EXPORTS(X) X(scale, 2, CONSTANTS, 0)
PYD_LIBRARY("given", EXPORTS)
"""

PROGRAM = """
#layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
hal.executable.source private @given {
  hal.executable.export public @scale ordinal(0) layout(#layout)
      count(%device: !hal.device, %size: index) -> (index, index, index) {
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
    %one = arith.constant 1 : index
    hal.return %x, %one, %one : index, index, index
  }
}
func.func @run(%a: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %size = tensor.dim %a, %zero : tensor<?xf32>
  %size_i32 = arith.index_cast %size : index to i32
  %r = flow.dispatch @given::@scale[%size](%size_i32, %a) : (i32, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
  return %r : tensor<?xf32>
}
"""
A = np.arange(200, dtype=np.float32)


def embedded(
    folder: Path, factor: float = 2.0, constants: int = 1, arch: str = ARCH, expression: str = "FACTOR * in[i]"
) -> bytes:
    """The kernels as an embedded ELF."""
    source = folder / "kernels.c"
    source.write_text(KERNELS.replace("EXTRA", "<stddef.h>"))
    tools = toolchain.find()
    code = tools.compile_c(
        source, arch=arch, cpu="generic", features=(), emit="obj", include_dirs=[pd.get_include()],
        defines=[f"FACTOR={factor}f", f"CONSTANTS={constants}", f"EXPRESSION={expression}"],
    )  # fmt: skip
    return tools.link_shared([code], arch=arch, exports=["iree_hal_executable_library_query"])


def system(folder: Path) -> Path:
    """The kernels as a library that needs libc."""
    source, library = folder / "system.c", folder / "system.so"
    source.write_text(
        KERNELS.replace("EXTRA", "<stdio.h>").replace("return size", 'if (size == 1) puts("one");\n  return size')
    )
    defines = ["-DFACTOR=3.0f", "-DCONSTANTS=1", "-DEXPRESSION=FACTOR * in[i]"]
    flags = ["-O2", "-shared", "-fPIC", *defines, f"-I{pd.get_include()}"]
    subprocess.run(["gcc", *flags, source, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM)


def test_an_embedded_elf_from_bytes_and_from_a_file(artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    device.add_executable("given", embedded(tmp_path, 2.0))
    program = device.load(artifact)
    np.testing.assert_array_equal(program.run(A), 2 * A)
    (tmp_path / "other.so").write_bytes(embedded(tmp_path, 5.0))
    device.add_executable("given", tmp_path / "other.so")
    np.testing.assert_array_equal(device.load(artifact).run(A), 5 * A)
    np.testing.assert_array_equal(program.run(A), 2 * A)  # what is loaded keeps its code


def test_a_system_library(artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    device.add_executable("given", system(tmp_path))
    program = device.load(artifact)
    assert program._module.flushes  # its kernels may print through C
    del device
    np.testing.assert_array_equal(program.run(A), 3 * A)


def test_one_file_for_every_architecture(artifact: pd.Artifact, tmp_path: Path) -> None:
    files = [(arch, embedded(tmp_path, 2.0, arch=arch)) for arch in ("riscv64", "aarch64", "x86_64")]
    device = pd.device("cpu")
    device.add_executable("given", fatelf.join(files))
    np.testing.assert_array_equal(device.load(artifact).run(A), 2 * A)


def test_a_missing_one_is_reported_like_a_missing_import(artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    with pytest.raises(pd.MissingImportError) as caught:
        device.load(artifact)
    assert caught.value.symbols == ("given",)
    for part in ("@given", "@scale", "device.add_executable('given'"):
        assert part in str(caught.value)
    device.add_executable("other", embedded(tmp_path))
    with pytest.raises(pd.MissingImportError, match="it was given 'other'"):
        device.load(artifact)


def test_the_layout_is_checked(artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    device.add_executable("given", embedded(tmp_path, constants=2))
    with pytest.raises(pd.Error, match="constant") as caught:
        device.load(artifact)
    assert "add_executable" in str(caught.value)


def test_other_machines_and_other_files_are_refused(tmp_path: Path) -> None:
    device = pd.device("cpu")
    other = "aarch64" if ARCH != "aarch64" else "x86_64"
    with pytest.raises(pd.ArtifactError, match=f"is for {other}, this machine is {ARCH}"):
        device.add_executable("given", embedded(tmp_path, arch=other))
    with pytest.raises(pd.ArtifactError, match="add_executable 'given'"):
        device.add_executable("given", b"no library at all")
    (tmp_path / "empty.c").write_text('#include <stdio.h>\nvoid f(void) { puts(""); }')
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "empty.c", "-o", tmp_path / "empty.so"], check=True)
    with pytest.raises(pd.ArtifactError, match="iree_hal_executable_library_query"):
        device.add_executable("given", tmp_path / "empty.so")
    with pytest.raises(OSError):
        device.add_executable("given", tmp_path / "missing.so")
    for name, whole in (("embedded.so", embedded(tmp_path)), ("system.so", system(tmp_path).read_bytes())):
        for percent in (40, 80, 95, 99):
            (tmp_path / name).write_bytes(whole[: len(whole) * percent // 100])
            with pytest.raises(pd.ArtifactError, match="is it cut off"):
                device.add_executable("given", tmp_path / name)


def test_a_kernel_that_fails_is_named(artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    device.add_executable("given", embedded(tmp_path))
    with pytest.raises(pd.KernelError) as caught:
        device.load(artifact).run(A[:13])
    error = caught.value
    assert (error.executable, error.export, error.workgroup, error.code) == ("given", "scale", (0, 0, 0), 9)


def stated(value: str) -> str:
    """The program, whose export says how its bindings are to be aligned."""
    end = "hal.return %x, %one, %one : index, index, index\n  }"
    return PROGRAM.replace(end, f"{end} attributes {{pydispatch.alignment = {value}}}")


@pytest.mark.parametrize(("text", "place"), [(PROGRAM, 0), (stated("4 : index"), 4), (stated("32 : i64"), 0)])
def test_only_bindings_that_lie_worse_than_stated_are_copied(text: str, place: int, tmp_path: Path) -> None:
    folder = tmp_path / "where"
    folder.mkdir()
    device = pd.device("cpu")
    device.add_executable("given", embedded(folder, expression="(uintptr_t)in % 64"))
    memory = np.zeros(100, np.float32)
    given = memory[1 + (-memory.ctypes.data % 64) // 4 :][:50]  # 4 bytes after a multiple of 64
    assert set(device.load(pd.compile(text)).run(given)) == {place}


@pytest.mark.parametrize("value", ["0 : index", "3 : index", "128 : index", "-4 : i64", '"4"', "1.0 : f32"])
def test_an_alignment_that_is_none(value: str) -> None:
    with pytest.raises(pd.CompileError, match=r"pydispatch.alignment = .* of export '@scale'") as error:
        pd.compile(stated(value))
    assert "expected a power of two up to 64" in str(error.value)
