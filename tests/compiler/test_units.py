"""Dispatches share an executable, are compiled side by side and kept: the same bytes however that comes about."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.toolchain import llvm, machines
from pydispatch.compiler.worker import llvm_process
from pydispatch.formats.storage import cache

SIZES = (5, 17, 9, 33)


def chain(*sizes: int, type_: str = "f32", name: str = "f") -> str:
    """A function of products of matrices, each with a hyperbolic tangent after it: a dispatch for each weight."""
    arguments = [f"%x0: tensor<4x{sizes[0]}x{type_}>"]
    lines = [f"  %zero = arith.constant 0.0 : {type_}"]
    for i, (n, m) in enumerate(pairwise(sizes)):
        a, b, t = f"tensor<4x{n}x{type_}>", f"tensor<{n}x{m}x{type_}>", f"tensor<4x{m}x{type_}>"
        arguments.append(f"%w{i}: {b}")
        lines += [
            f"  %e{i} = tensor.empty() : {t}",
            f"  %z{i} = linalg.fill ins(%zero : {type_}) outs(%e{i} : {t}) -> {t}",
            f"  %m{i} = linalg.matmul ins(%x{i}, %w{i} : {a}, {b}) outs(%z{i} : {t}) -> {t}",
            f"  %x{i + 1} = math.tanh %m{i} : {t}",
        ]
    return "\n".join([f"func.func @{name}({', '.join(arguments)}) -> {t} {{", *lines, f"  return %x{i + 1} : {t}", "}"])


def check(artifact: pd.Artifact, *sizes: int, dtype: type = np.float32, name: str = "f") -> None:
    numbers = np.random.default_rng(0)
    weights = [(numbers.standard_normal(shape) / 4).astype(dtype) for shape in [(4, sizes[0]), *pairwise(sizes)]]
    expected = weights[0]
    for weight in weights[1:]:
        expected = np.tanh(expected @ weight)
    np.testing.assert_allclose(getattr(pd.device("cpu").load(artifact), name)(*weights), expected, 1e-5, 1e-6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SIZE, "0")


HALVES = """
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %r = arith.mulf %a, %half : tensor<8xf32>
  return %r : tensor<8xf32>
}
"""


CLAMPED = """
func.func @f(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<6.0> : tensor<f32>
  %r = stablehlo.clamp %low, %c, %high : (tensor<f32>, tensor<{m}x{n}xf32>, tensor<f32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}
"""


@pytest.fixture
def left_out(no_cache: None, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The passes of code generation that each module is compiled without, and the module's text."""
    asked: list[tuple[list[str], str]] = []
    real = llvm.LlvmModule.object

    def object_(module: llvm.LlvmModule, without: Collection[llvm.CodePass] = ()) -> bytes:
        asked.append(([*without], module.text()))
        return real(module, without)

    monkeypatch.setenv(llvm_process.PROCESSES_VARIABLE, "0")
    monkeypatch.setattr(llvm.LlvmModule, "object", object_)
    return asked


def test_strength_reduction_is_for_code_without_register_blocks(left_out: list[tuple[list[str], str]]) -> None:
    check(pd.compile(chain(*SIZES)), *SIZES)
    without = [passes for passes, text in left_out if "query" not in text]
    assert without == [["lsr"]] * (len(SIZES) - 1)
    left_out.clear()
    pd.compile(HALVES)
    assert not any(passes for passes, _ in left_out)


def test_constants_after_a_register_block_are_not_loaded_before_it(
    left_out: list[tuple[list[str], str]],
) -> None:
    numbers = np.random.default_rng(0)
    a, b = (numbers.standard_normal(shape, dtype=np.float32) for shape in ((28, 40), (40, 64)))
    clamped = pd.compile(CLAMPED.format(m=28, k=40, n=64))
    np.testing.assert_allclose(pd.device("cpu").load(clamped).f(a, b), (a @ b).clip(0, 6), rtol=1e-4, atol=1e-5)
    assert ["lsr", "machine-licm"] in [passes for passes, _ in left_out]


def check_steps(folder: Path) -> None:
    """Check the steps of K of products: no sum is on the stack, or copied from one register to another."""
    (assembly,) = (path.read_text() for path in folder.glob("*.s") if "vfmadd" in path.read_text())
    loops = re.split(r"^\.L\w+:$", assembly, flags=re.MULTILINE)
    # A step multiplies vectors by elements of A in all lanes; a polynomial has constants there, relative to %rip.
    element = re.compile(r"vbroadcastss\s[^,]*\(%r(?!ip)|\(%r(?!ip)[^)]*\)\{1to16\}")
    steps = [loop for loop in loops if loop.count("vfmadd") > 8 and element.search(loop)]
    assert steps
    for step in steps:
        body = step[: step.index("\tj")]
        assert "(%rsp)" not in body
        assert not re.search(r"vmov\w+\s+%zmm\d+, %zmm", body)


def test_sums_of_a_block_stay_in_registers(no_cache: None, tmp_path: Path) -> None:
    pd.compile(CLAMPED.format(m=196, k=64, n=384), targets="x86_64", cpu="x86-64-v4", dump=tmp_path)
    check_steps(tmp_path)


def test_scores_of_attention_stay_in_registers(no_cache: None, tmp_path: Path) -> None:
    """Constants of the exponential, which follows the product in another loop, occupy no register during it."""

    def attend(
        queries: pd.f32[8, 512, 64], keys: pd.f32[8, 512, 64], values: pd.f32[8, 512, 64]
    ) -> np.ndarray[Any, Any]:
        scores = np.einsum("htd,hsd->hts", queries, keys) * np.float32(0.125)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.einsum("hts,hsd->htd", powers / powers.sum(axis=-1, keepdims=True), values)

    pd.compile(pd.program(attend), targets="x86_64", cpu="znver5", dump=tmp_path)
    check_steps(tmp_path)


CONVOLUTION = """
func.func @f(%x: tensor<{x}xf32>, %w: tensor<3x3x8x{channels}xf32>) -> tensor<{x}xf32> {{
  %y = stablehlo.convolution(%x, %w) dim_numbers = [{dims}]x[0, 1, i, o]->[{dims}], window = {{pad = [[1, 1], [1, 1]]}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<{x}xf32>, tensor<3x3x8x{channels}xf32>) -> tensor<{x}xf32>
  return %y : tensor<{x}xf32>
}}
"""


@pytest.mark.parametrize(
    ("x", "channels", "dims", "groups", "level"),
    [
        pytest.param("1x14x14x16", 16, "b, 0, 1, f", 2, 3, id="groups, channels last"),
        pytest.param("1x16x14x14", 16, "b, f, 0, 1", 2, 2, id="groups, channels first"),
        pytest.param("1x14x14x8", 8, "b, 0, 1, f", 1, 2, id="channels last"),
    ],
)
def test_full_effort_is_for_strided_loads_under_conditions(
    no_cache: None, monkeypatch: pytest.MonkeyPatch, x: str, channels: int, dims: str, groups: int, level: int
) -> None:
    """A group whose channels are last is copied an element of each position at a time, with zeros around the image.

    Other images are copied by contiguous loads, which LLVM vectorizes under masks with less effort.
    """
    levels: list[int] = []
    real = llvm.LlvmModule.optimize

    def optimize(module: llvm.LlvmModule, effort: machines.Effort, promote_memory: bool) -> None:
        if not promote_memory:  # a kernel of register blocks
            levels.append(effort.level)
        real(module, effort, promote_memory)

    monkeypatch.setenv(llvm_process.PROCESSES_VARIABLE, "0")
    monkeypatch.setattr(llvm.LlvmModule, "optimize", optimize)
    pd.compile(CONVOLUTION.format(x=x, channels=channels, dims=dims, groups=groups), targets="cpu", cpu="x86-64-v4")
    assert levels == [level]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM gets."""
    texts: list[str] = []
    real = llvm.opened

    def opened(text: str, machine: machines.MachineDescription) -> AbstractContextManager[llvm.LlvmModule]:
        texts.append(text)
        return real(text, machine)

    monkeypatch.setattr(llvm, "opened", opened)
    return texts


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that no other test uses: what is done to it stays with it."""
    pool = llvm_process.WorkerPool(1)
    monkeypatch.setattr(llvm_process, "POOL", pool)
    yield
    pool.close()


def test_one_executable() -> None:
    artifact = pd.compile(chain(*SIZES))
    (executable,) = artifact.executables
    assert executable.name == "dispatches" and len(executable.exports) == 3
    check(artifact, *SIZES)


def test_elements_of_another_alignment_stay_apart() -> None:
    """Else slices of the one type would be copied for the sake of the other."""
    text = chain(*SIZES) + chain(*SIZES, type_="f64", name="g")
    artifact = pd.compile(text)
    assert [(len(e.exports), e.variants[0].alignment) for e in artifact.executables] == [(3, 4), (3, 8)]
    check(artifact, *SIZES)
    check(artifact, *SIZES, dtype=np.float64, name="g")


def test_a_name_of_the_program_is_left_to_it() -> None:
    artifact = pd.compile(chain(*SIZES, name="dispatches"))
    assert [e.name for e in artifact.executables] == ["dispatches_1"]
    check(artifact, *SIZES, name="dispatches")


def test_several_targets_each_have_one() -> None:
    artifact = pd.compile(chain(*SIZES), targets=["x86_64", "aarch64"], cpu=["generic", "x86-64-v3"])
    (executable,) = artifact.executables
    assert len(executable.variants) == 3
    check(artifact, *SIZES)


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    program = f"import sys, pydispatch as pd; pd.compile({chain(*SIZES)!r}).save(sys.argv[1])"
    made = []
    for processes in ("0", "1", "3"):
        path = tmp_path / f"{processes}.pdx"
        variables = {llvm_process.PROCESSES_VARIABLE: processes, cache.SIZE: "0"}
        subprocess.run([sys.executable, "-c", program, path], check=True, env={**os.environ, **variables})
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]


def test_a_dump_has_the_same_code(tmp_path: Path, no_cache: None) -> None:
    """And a file for each dispatch."""
    dumped = pd.compile(chain(*SIZES), dump=tmp_path)
    assert dumped.to_bytes() == pd.compile(chain(*SIZES)).to_bytes()
    for suffix in ("ll", "optimized.ll", "s", "o"):
        assert len(list(tmp_path.glob(f"dispatches_*.f_dispatch_*_tanh.{suffix}"))) == 3
    assert len(list(tmp_path.glob("dispatches_*.so"))) == 1


def test_only_a_changed_kernel_is_compiled_again(folder: Path, compiled: list[str]) -> None:
    first = pd.compile(chain(*SIZES)).to_bytes()
    assert len(compiled) == 4  # and the tables
    compiled.clear()
    assert pd.compile(chain(*SIZES)).to_bytes() == first and compiled == []
    pd.compile(chain(*SIZES[:-1], 40))
    assert len(compiled) == 2
    compiled.clear()
    pd.compile(chain(*SIZES), cpu="x86-64-v3")
    assert len(compiled) == 4


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:40], lambda data: data[:-1] + b"?", lambda data: b"\x7fELF" + data[4:],
], ids=["empty", "cut off", "another byte", "another file"])  # fmt: skip
def test_damaged_entries_are_replaced(folder: Path, damage: Callable[[bytes], bytes], compiled: list[str]) -> None:
    first = pd.compile(chain(*SIZES)).to_bytes()
    entries = [path for path in folder.rglob("*") if path.is_file()]
    assert len(entries) >= 4
    for path in entries:
        path.write_bytes(damage(path.read_bytes()))
    compiled.clear()
    assert pd.compile(chain(*SIZES)).to_bytes() == first and len(compiled) == 4
    compiled.clear()
    assert pd.compile(chain(*SIZES)).to_bytes() == first and compiled == []


def test_entries_that_are_no_files(folder: Path) -> None:
    first = pd.compile(chain(*SIZES)).to_bytes()
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()
        path.mkdir()
    assert pd.compile(chain(*SIZES)).to_bytes() == first


def test_no_cache(folder: Path, no_cache: None, compiled: list[str]) -> None:
    for _ in range(2):
        pd.compile(chain(*SIZES))
    assert len(compiled) == 8 and not [path for path in folder.rglob("*") if path.is_file()]


def die() -> None:
    os.write(2, b'lib.cpp:1: void f(): Assertion `x == y && "they disagree"\' failed.\n')
    os.kill(os.getpid(), signal.SIGABRT)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


KEPT: list[bytearray] = []


def starve() -> None:
    """No more memory for this process, neither new nor of what it had freed, but for Python's own small objects."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (1 << 16)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for size in (1 << 20, 1 << 16, 1 << 13):
        with contextlib.suppress(MemoryError):
            while True:
                KEPT.append(bytearray(size))


@pytest.mark.parametrize(("what", "words"), [
    (die, ("SIGABRT", "they disagree")), (kill, ("SIGKILL", "memory", "PYDISPATCH_LLVM_PROCESS=1")),
    (starve, ("memory", "PYDISPATCH_LLVM_PROCESS=1")),
])  # fmt: skip
def test_a_process_that_ends_is_an_error_of_its_dispatch(
    what: Callable[[], None], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, no_cache: None, one_process: None
) -> None:
    """Of the second of three; the next program compiles."""
    real = llvm_process.Process.ask
    seen: list[str] = []

    def ask(self: llvm_process.Process, *request: object) -> object:
        if request[0] == "open":
            seen.append(str(request[3][0]))  # type: ignore[index]
        if request[:2] == ("method", "optimize") and "dispatch_1" in seen[-1]:
            real(self, "call", __name__, what.__name__, ())
        return real(self, *request)

    monkeypatch.setattr(llvm_process.Process, "ask", ask)
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(chain(*SIZES))
    text = str(caught.value)
    for word in ("f_dispatch_1_matmul", *words):
        assert word in text, text
    assert "f_dispatch_0" not in text and "f_dispatch_2" not in text
    assert caught.value.location is not None
    monkeypatch.setattr(llvm_process.Process, "ask", real)
    check(pd.compile(chain(*SIZES)), *SIZES)
