"""The compiled device library in the repository: generated code needs neither a C compiler nor a linker."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from pydispatch.compiler import devlib
from pydispatch.compiler.devlib import prebuilt

WITHOUT_TOOLS = """
import sys
sys.modules["ziglang"] = None
import numpy as np, pydispatch as pd
text = '''func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = math.exp %x : tensor<?xf32>
  %z = math.erf %y : tensor<?xf32>
  return %z : tensor<?xf32>
}'''
artifact = pd.compile(text, targets=['x86_64', 'aarch64', 'riscv64'])
assert len(artifact.manifest.executables[0].variants) == 3 and artifact.manifest.producers["toolchain"]
x = np.linspace(-3, 0, 1000, dtype=np.float32)
y = pd.device("cpu").load(artifact).f(x)
assert abs(y[-1] - 0.84270079) < 1e-6 and (np.diff(y) >= 0).all()
try:
    pd.compile(sys.argv[1])
except pd.CompileError as error:
    print(error)
"""


def forget_archive() -> None:
    """Let the archive be read again."""
    prebuilt._library.cache_clear()
    prebuilt._labels.cache_clear()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("prebuilt") / "library.tar.xz"
    prebuilt.write(path)
    return path


def test_generated_code_compiles_without_tools(tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path), "PYDISPATCH_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", WITHOUT_TOOLS, "examples/mixed/program.mlir"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no clang >= 17 on PATH" in done.stdout and "pip install 'pydispatch[c]'" in done.stdout


@pytest.mark.parametrize(
    ("arch", "cpu", "features"),
    [("x86_64", "x86-64", ()), ("x86_64", "x86-64-v2", ()), ("x86_64", "haswell", ()), ("x86_64", "x86-64-v4", ()),
     ("aarch64", "neoverse-n1", ()), ("riscv64", "generic", ("+zfa",)), ("nvptx64", "sm_80", ("+ptx70",))],
)  # fmt: skip
def test_a_level_is_what_compiling_for_the_machine_gives(library, monkeypatch, arch, cpu, features):
    monkeypatch.setenv("PYDISPATCH_CACHE_SIZE", "0")
    made = text_of(arch, cpu, features)
    try:
        monkeypatch.setattr(prebuilt, "FILE", library)
        forget_archive()
        assert "sources" in prebuilt._library() and prebuilt.level_of(arch, cpu, features) is not None
        before = text_of(arch, cpu, features)
    finally:
        monkeypatch.undo()
        forget_archive()
    assert made == before


def text_of(arch, cpu, features):
    """LLVM IR, without the numbers that LLVM puts behind names of types."""
    from llvmlite import binding as llvm

    modules = [(stem, prebuilt.module(stem, arch, cpu, features)) for stem in ("float_exp", "trig64", "round")]
    text = str(llvm.parse_bitcode(devlib.llvm_process.call(devlib.join.joined, modules)))
    return re.sub(r"(%struct\.\w+?)(\.[0-9]+)+", r"\1", text)


def test_the_library_in_the_repository_is_of_its_sources():
    """A checkout must compile without clang: after a change to the sources, run `make device-library`."""
    assert prebuilt.members(prebuilt.FILE)["sources"].decode() == prebuilt.sources()


def test_the_same_sources_and_clang_give_the_same_library(library, tmp_path, monkeypatch):
    made, kept = prebuilt.members(library), prebuilt.members(prebuilt.FILE)
    assert made.keys() == kept.keys()
    monkeypatch.setenv("PYDISPATCH_CACHE_SIZE", "0")
    moved = tmp_path / "elsewhere"
    shutil.copytree(prebuilt.SOURCES, moved)
    monkeypatch.setattr(prebuilt, "SOURCES", moved)
    assert prebuilt._compiled("round", "x86_64", "generic", ()) == made["x86_64/round"]
    if made["compiler"] != kept["compiler"]:
        pytest.skip(f"this machine has {made['compiler'].decode()}, the library is of {kept['compiler'].decode()}")
    assert [name for name in made if made[name] != kept[name]] == []


def test_a_library_of_other_sources_does_not_count(library, monkeypatch):
    try:
        monkeypatch.setattr(prebuilt, "FILE", library)
        monkeypatch.setattr(prebuilt, "sources", lambda: "other")
        forget_archive()
        assert prebuilt._library() == {}
    finally:
        monkeypatch.undo()
        forget_archive()
