# ruff: noqa: F821, UP037  (sizes of a pattern are names)
"""GLSL with macros and includes: in the attribute of an object, and in Python."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_programs import PUSH, binary, buffers, export, source

import pydispatch as pd
from pydispatch.files import recording

A = np.linspace(-3, 5, 70, dtype=np.float32)
B = np.linspace(2, 1, 70, dtype=np.float32)
HEAD = '// two kernels\n#version 450\n#include "inner/types.glsl"\n'
MAIN = "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = OP; }\n"
TEXT = HEAD + "layout(local_size_x = SIZE) in;\n" + MAIN
EXPORT = export("mul", 0, 1, ("in", "in", "out"), per=32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared" / "inner").mkdir(parents=True)
    (tmp_path / "shared" / "inner" / "types.glsl").write_text('#include "buffers.glsl"\n')
    (tmp_path / "shared" / "buffers.glsl").write_text(buffers("-a", "-b", "c") + PUSH)
    (tmp_path / "mul.comp").write_text(TEXT)
    return tmp_path


def program(more: str) -> str:
    return source(["mul.comp"], EXPORT, binary("mul")).replace('"mul.comp"', f'"mul.comp", {more}')


def compiled(folder: Path, more: str) -> pd.Artifact:
    return pd.compile(program(more), targets="vulkan", object_search_path=folder)


@pytest.mark.parametrize(
    ("defines", "expected"),
    [('"SIZE=32", "OP=a[i] * b[i]"', A * B), ('"SIZE=32", "ADD", "OP=(a[i] + b[i] * ADD)"', A + B)],
)
def test_macros_and_includes(device: Any, folder: Path, defines: str, expected: Any) -> None:
    with recording() as reads:
        artifact = compiled(folder, f'defines = [{defines}], include_dirs = ["shared"]')
    np.testing.assert_array_equal(np.asarray(device.load(artifact).mul(A, B)), expected)
    assert {Path(each).name for each in reads.existing} >= {"mul.comp", "types.glsl", "buffers.glsl"}


def test_messages_have_the_lines_of_the_file(folder: Path) -> None:
    (folder / "mul.comp").write_text(TEXT.replace("if (i < n)", "if (i < n)\n"))
    with pytest.raises(pd.CompileError, match=r"mul.comp does not compile:(.|\n)*mul.comp:6: .*'nothing' : undeclared"):
        compiled(folder, 'defines = ["SIZE=32", "OP=nothing"], include_dirs = ["shared"]')
    with pytest.raises(pd.CompileError, match=r"mul.comp:3: .*'#include' : (.|\n)*types.glsl"):
        compiled(folder, 'defines = ["SIZE=32", "OP=a[i]"]')


def test_glslc_gets_the_same(device: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for glslc, with its options, that runs the other compiler."""
    validator = shutil.which("glslangValidator")
    stand_in = folder / "bin" / "glslc"
    stand_in.parent.mkdir()
    stand_in.write_text(
        "#!/bin/sh\n"
        '[ "$1 $2 $3 $4 $5" = "-fshader-stage=comp --target-env=vulkan1.1 -O -MD -MF" ] || exit 1\n'
        f'depends=$6; shift 6\nexec {validator} -V -S comp --target-env vulkan1.1 --depfile "$depends" "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    artifact = compiled(folder, 'defines = ["SIZE=32", "OP=a[i] * b[i]"], include_dirs = ["shared"]')
    np.testing.assert_array_equal(np.asarray(device.load(artifact).mul(A, B)), A * B)


MODEL = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %a, %b : tensor<?xf32>
  return %r : tensor<?xf32>
}"""


@pytest.mark.parametrize("kind", ["path", "text"])
def test_in_python(device: Any, folder: Path, kind: str) -> None:
    @pd.pattern
    def product(a: pd.f32["n"], b: pd.f32["n"]):
        return a * b

    given = folder / "mul.comp" if kind == "path" else TEXT
    options: dict[str, Any] = {"constants": ("n",), "workgroups": (("n", 32),), "include_dirs": [folder / "shared"]}
    product.replace(pd.shader(given, **options, defines=["SIZE=32", "OP=(a[i] * b[i] + 100.0)"]))
    artifact = pd.compile(MODEL, patterns=[product], targets="vulkan")
    np.testing.assert_allclose(np.asarray(device.load(artifact).f(A, B)), A * B + 100, rtol=1e-6)


def test_functions_in_c_and_invalid_options(folder: Path) -> None:
    @pd.pattern
    def product(a: pd.f32["n"], b: pd.f32["n"]):
        return a * b

    (folder / "shared" / "more.h").write_text("#define MORE (100.0f * SCALE)\n")
    (folder / "k.c").write_text(
        '#include <stddef.h>\n#include "own.h"\n#include "more.h"\nvoid k(const float* a, const float* b, float* out, '
        "size_t n) { for (size_t i = 0; i < n; ++i) out[i] = a[i] * b[i] + MORE + OWN; }"
    )
    (folder / "own.h").write_text("#define OWN 1")
    product.replace(pd.CFunction(folder / "k.c", "k", defines=["SCALE=2"], include_dirs=[folder / "shared"]))
    artifact = pd.compile(MODEL, patterns=[product])
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(A, B), A * B + 201, rtol=1e-6)
    with pytest.raises(pd.InvalidArgumentError, match="CFunction: defines: expected a list of strings, got 'SCALE=2'"):
        pd.CFunction(folder / "k.c", "k", defines="SCALE=2")
    with pytest.raises(pd.InvalidArgumentError, match=r"WholeKernel: include_dirs: expected a list of folders"):
        pd.shader(folder / "mul.comp", include_dirs="/")
    with pytest.raises(pd.InvalidArgumentError, match=r"WholeKernel: defines: expected a list of strings, got \[1\]"):
        pd.shader(folder / "mul.comp", defines=[1])  # type: ignore[list-item]
