"""Artifacts of earlier compilations: read back where nothing has changed, and compiled again wherever something has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import extensions
from pydispatch.compiler.driver import artifact_cache, pipeline
from pydispatch.formats.storage import cache

SUM = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""

TRIPLE = """
#here = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
module attributes {hal.device.targets = [#hal.device.target<"local", [#here]> : !hal.device]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{#here = [#hal.executable.object<{path = "triple.c"}>]}>
  } {
    stream.executable.export public @triple workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @triple_of(memref<f32>, memref<f32>) attributes {hal.import.static, llvm.bareptr = true}
      func.func @triple(%b0: !stream.binding, %b1: !stream.binding) {
        %zero = arith.constant 0 : index
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<f32>
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<f32>
        func.call @triple_of(%x, %y) : (memref<f32>, memref<f32>) -> ()
        return
      }
    }
  }
  func.func @f(%x: tensor<f32>) -> tensor<f32> {
    %y = flow.dispatch @kernels::@triple(%x) : (tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}
"""


@pytest.fixture(autouse=True)
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each program that is compiled; the cache is empty and the working directory, too."""
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found: list[str] = []
    real = pipeline.compile

    def compile(source: Any, **options: Any) -> pd.Artifact:
        found.append(str(source)[:40])
        return real(source, **options)

    monkeypatch.setattr(pipeline, "compile", compile)
    return found


def triple(factor: int, folder: str = ".", include: str = "") -> None:
    """Writes a kernel that multiplies by a factor."""
    text = f"{include}\nvoid triple_of(const float* x, float* y) {{ *y = *x * ({factor}); }}\n"
    Path(folder, "triple.c").write_text(text)


def value(**options: Any) -> float:
    """What the kernel makes of 1."""
    program = pd.device("cpu").load(pd.compile(TRIPLE, **options))
    return float(program.f(np.array(1, np.float32)))


def test_the_same_bytes(compiled: list[str]) -> None:
    first, second = pd.compile(SUM), pd.compile(SUM)
    assert len(compiled) == 1
    assert first.to_bytes() == second.to_bytes()
    assert first.functions == second.functions and first.size == second.size
    np.testing.assert_array_equal(pd.device("cpu").load(second).f(np.arange(4, dtype=np.float32)), [0, 2, 4, 6])


def test_a_kernel_in_python(compiled: list[str]) -> None:
    """The key has the text of a kernel, which states the line of each operation."""

    def doubled(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["n"]]) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = 2 * x[i]

    x = np.arange(5, dtype=np.float32)
    first = pd.compile(pd.kernel(workgroup=64)(doubled))
    second = pd.compile(pd.kernel(workgroup=64)(doubled))
    assert len(compiled) == 1 and first.to_bytes() == second.to_bytes()
    np.testing.assert_array_equal(pd.device("cpu").load(second).doubled(x, np.zeros_like(x)), 2 * x)
    pd.compile(pd.kernel(workgroup=32)(doubled))
    assert len(compiled) == 2


def test_in_another_process_without_the_compiler(tmp_path: Path) -> None:
    """A program that is kept is read back before the compiler is imported and before LLVM's processes are started."""
    Path("f.mlir").write_text(SUM)
    code = (
        "import sys\nfrom pydispatch.cli.__main__ import main\n"
        "assert main(['compile', 'f.mlir', '-o', sys.argv[1]]) == 0\n"
        "from pydispatch.compiler.worker import llvm_process\n"
        "print('xdsl' in sys.modules, len(llvm_process.POOL.processes()))"
    )
    said = [subprocess.run([sys.executable, "-c", code, name], check=True, capture_output=True, text=True).stdout
            for name in ("a.pdx", "b.pdx")]  # fmt: skip
    assert said == ["True 1\n", "False 0\n"]
    assert Path("a.pdx").read_bytes() == Path("b.pdx").read_bytes()


OPTIONS = {
    "targets": ("x86_64", "aarch64"),
    "cpu": ("x86-64-v2", "x86-64-v3"),
    "cpu_features": ("", "+avx2"),
    "reassociate": (True, False),
    "object_search_path": ([], ["other"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_in_the_key(name: str, compiled: list[str]) -> None:
    base = {} if name == "targets" else {"targets": "x86_64"}
    for _ in range(2):
        for option in OPTIONS[name]:
            pd.compile(SUM, **base, **{name: option})
    assert len(compiled) == 2


def test_the_text_its_path_and_the_working_directory_are_in_the_key(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("f.mlir").write_text(SUM)
    Path("g.mlir").write_text(SUM)
    for _ in range(2):
        for source in (SUM, SUM.replace("addf", "mulf"), "f.mlir", Path("g.mlir")):
            pd.compile(source)
    assert len(compiled) == 4
    Path("f.mlir").write_text(SUM.replace("addf", "mulf"))
    assert "mulf" in next(iter(pd.compile("f.mlir").executables[0].exports))
    assert len(compiled) == 5
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    pd.compile(SUM)
    assert len(compiled) == 6


PARTS: dict[str, Callable[[], object]] = {
    "_package": lambda: "another", "_versions": lambda: ["xdsl 0"], "_processor": lambda: "another",
    "caches_of_this_machine": lambda: ({}, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_what_it_is_made_with_is_in_the_key(part: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pd.compile(SUM)
    monkeypatch.setattr(artifact_cache, part, PARTS[part])
    pd.compile(SUM)
    assert len(compiled) == 2


def test_a_file_of_the_package_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(pd, "__path__", [str(tmp_path / "package")])
    seen = []
    for text in ("a = 1\n", "a = 22\n"):
        (tmp_path / "package" / "a.py").write_text(text)
        seen.append(artifact_cache._package.__wrapped__())
    (tmp_path / "package" / "b.py").write_text(text)
    seen.append(artifact_cache._package.__wrapped__())
    assert len(set(seen)) == 3


def test_versions_of_packages() -> None:
    import xdsl

    assert f"xdsl {xdsl.__version__}" in artifact_cache._versions()
    assert {entry.split()[0] for entry in artifact_cache._versions()} >= {"llvmlite", "numpy", "xdsl"}


def test_another_linker_changes_the_key(compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it is: the name may stay."""
    pd.compile(SUM)
    tool = tmp_path / "ld.lld"
    tool.write_text("#!/bin/sh\necho LLD 99.0.0\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PYDISPATCH_LLD", str(tool))
    states = [artifact_cache.programs.state()]
    tool.write_text("#!/bin/sh\necho LLD 100.0.0\n")
    states.append(artifact_cache.programs.state())
    monkeypatch.delenv("PYDISPATCH_LLD")
    states.append(artifact_cache.programs.state())
    assert all(a != b for i, a in enumerate(states) for b in states[:i])
    pd.compile(SUM)
    assert len(compiled) == 1


def test_a_changed_object_and_header(compiled: list[str]) -> None:
    Path("factor.h").write_text("#define FACTOR 3\n")
    triple(3)
    assert value() == value() == 3 and len(compiled) == 1
    triple(5)
    assert value() == 5 and len(compiled) == 2
    Path("triple.c").write_text('#include "factor.h"\nvoid triple_of(const float* x, float* y) { *y = *x * FACTOR; }\n')
    assert value() == value() == 3 and len(compiled) == 3
    Path("factor.h").write_text("#define FACTOR 7\n")
    assert value() == value() == 7 and len(compiled) == 4


def test_a_header_of_an_object_that_was_compiled_before(compiled: list[str]) -> None:
    """The object comes from the cache, and what it includes counts for the program all the same."""
    Path("factor.h").write_text("#define FACTOR 3\n")
    Path("triple.c").write_text('#include "factor.h"\nvoid triple_of(const float* x, float* y) { *y = *x * FACTOR; }\n')
    assert value() == 3
    other = TRIPLE.replace("func.func @f", "func.func @g").replace("module attributes", "module @m attributes")
    pd.compile(other)
    Path("factor.h").write_text("#define FACTOR 7\n")
    assert float(pd.device("cpu").load(pd.compile(other)).g(np.array(1, np.float32))) == 7


def test_an_object_that_comes_first_now(compiled: list[str]) -> None:
    Path("first").mkdir()
    Path("second").mkdir()
    triple(3, "second")
    paths = ["first", "second"]
    assert value(object_search_path=paths) == value(object_search_path=paths) == 3 and len(compiled) == 1
    triple(4, "first")
    assert value(object_search_path=paths) == 4
    Path("first", "triple.c").unlink()
    assert value(object_search_path=paths) == 3


def test_a_file_that_changes_meanwhile(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows then which content the result has."""
    triple(3)
    real = pipeline.compile

    def compile(source: Any, **options: Any) -> pd.Artifact:
        artifact = real(source, **options)
        triple(5)
        return artifact

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "compile", compile)
        assert value() == 3
    assert value() == 5


def test_a_file_that_has_gone(compiled: list[str]) -> None:
    triple(3)
    assert value() == 3
    Path("triple.c").unlink()
    with pytest.raises(pd.CompileError, match=r"triple\.c.*not found"):
        value()


def test_options_that_show_what_happens(
    compiled: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        pd.compile(SUM, explain=True)
        assert capsys.readouterr().err
        pd.compile(SUM, dump=tmp_path / "dump")
    assert len(compiled) == 4


WRONG = ({"targets": 3}, {"reassociate": 1}, {"progress": 3}, {"weights": ""}, {"dump": ""})


@pytest.mark.parametrize("options", WRONG)
def test_wrong_options_are_errors_every_time(options: dict[str, Any]) -> None:
    pd.compile(SUM)
    with pytest.raises(pd.InvalidArgumentError):
        pd.compile(SUM, **options)
    with pytest.raises(TypeError):
        pd.compile(SUM, unknown=None)


def test_other_targets_are_compiled(compiled: list[str]) -> None:
    """The tools of GPUs are not in the key."""
    for _ in range(2):
        pd.compile(SUM, targets="vulkan")
    assert len(compiled) == 2


def test_extensions_are_not_in_the_key(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "has_installed_parts", lambda: True)
    for _ in range(2):
        pd.compile(SUM)
    assert len(compiled) == 2


def test_none_are_kept_without_a_cache(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SIZE, "0")
    for _ in range(2):
        pd.compile(SUM)
    assert len(compiled) == 2


def test_a_damaged_entry(compiled: list[str], tmp_path: Path) -> None:
    first = pd.compile(SUM)
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    data = entry.read_bytes()
    for damaged in (data[:-1], data[:100], b"", data[:-1] + b"\1"):
        entry.write_bytes(damaged)
        assert pd.compile(SUM).to_bytes() == first.to_bytes()
    assert len(compiled) == 5


def test_errors_come_every_time(compiled: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(pd.CompileError, match="not known"):
            pd.compile(SUM.replace("addf", "no_such_operation"))
    assert len(compiled) == 2


WEIGHTS = np.random.default_rng(2).standard_normal((256, 128)).astype(np.float32)


def product(weights: np.ndarray[Any, Any]) -> str:
    """A product with weights that the text has inline."""
    return f"""
    func.func @f(%x: tensor<2x256xf32>, %zeros: tensor<2x128xf32>) -> tensor<2x128xf32> {{
      %w = arith.constant dense<"0x{weights.tobytes().hex()}"> : tensor<256x128xf32>
      %y = linalg.matmul ins(%x, %w : tensor<2x256xf32>, tensor<256x128xf32>)
                         outs(%zeros : tensor<2x128xf32>) -> tensor<2x128xf32>
      return %y : tensor<2x128xf32>
    }}"""


@pytest.mark.parametrize("is_file", [True, False])
def test_weights_are_cached_once(is_file: bool, compiled: list[str], tmp_path: Path) -> None:
    """An entry refers to weights of the text; other weights are another program."""

    def compile(weights: np.ndarray[Any, Any]) -> pd.Artifact:
        Path("f.mlir").write_text(product(weights))
        return pd.compile("f.mlir" if is_file else product(weights), targets="cpu")

    first, second = compile(WEIGHTS), compile(WEIGHTS)
    assert len(compiled) == 1 and first.to_bytes() == second.to_bytes() and first.size == second.size > WEIGHTS.nbytes
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    assert entry.stat().st_size < WEIGHTS.nbytes / 2
    x = np.random.default_rng(3).standard_normal((2, 256)).astype(np.float32)
    zeros = np.zeros((2, 128), np.float32)
    for weights, artifact in ((WEIGHTS, second), (-WEIGHTS, compile(-WEIGHTS))):
        np.testing.assert_allclose(pd.device("cpu").load(artifact).f(x, zeros), x @ weights, rtol=1e-4, atol=1e-4)
    assert len(compiled) == 2
    data = entry.read_bytes()
    for damaged in (data[:-1], data[:100]):
        entry.write_bytes(damaged)
        assert compile(WEIGHTS).to_bytes() == first.to_bytes()
    assert len(compiled) == 4
