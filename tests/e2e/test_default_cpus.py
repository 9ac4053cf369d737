"""Code for this machine without `cpu=`: generic, and for all that the machine has."""

from __future__ import annotations

import logging
import platform
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli import __main__ as cli
from pydispatch.compiler.target.native import host
from pydispatch.runtime.program import variants

TEXT = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = arith.addf %a, %a : tensor<8xf32>
  return %b : tensor<8xf32>
}"""
X = np.arange(8, dtype=np.float32)
IS_WIDE = "avx2" in host()[2]
PROGRAMS = Path(__file__).parent / "programs"


def product(element: str, sums: str) -> tuple[str, np.ndarray[Any, Any]]:
    """Return a program that multiplies by constant weights, and the weights as 64-bit floats."""
    random = np.random.default_rng(3)
    bits: Any = random.integers(-128, 128, (256, 128)).astype(np.int8)
    values = bits.astype(np.float64)
    if element == "f32":
        bits = bits.astype(np.float32)
    elif element == "f16":
        bits = (bits / 16).astype(np.float16)
        values = bits.astype(np.float64)
    elif element == "bf16":
        values = (bits.astype(np.int32) % 64 + 64).astype(np.float64)  # exact: 7 bits
        bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    text = f"""func.func @main(%x: tensor<32x256x{element}>) -> tensor<32x128x{sums}> {{
      %w = stablehlo.constant dense<"0x{bits.tobytes().hex().upper()}"> : tensor<256x128x{element}>
      %y = stablehlo.dot %x, %w : (tensor<32x256x{element}>, tensor<256x128x{element}>) -> tensor<32x128x{sums}>
      return %y : tensor<32x128x{sums}>
    }}"""
    return text, values


@pytest.fixture(autouse=True)
def default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYDISPATCH_CPU")


def requirements(artifact: Any) -> list[bool]:
    """Return for each variant whether it needs more than every machine of the architecture has."""
    (executable,) = artifact.executables
    return [bool(variant.requires) for variant in executable.variants]


def test_generic_code_and_code_for_this_machine() -> None:
    has_more = requirements(pd.compile(TEXT, cpu="native"))
    expected = [False, True] if has_more == [True] else [False]
    for options in ({}, {"targets": "cpu"}):
        artifact = pd.compile(TEXT, **options)  # type: ignore[arg-type]
        assert requirements(artifact) == expected
        np.testing.assert_array_equal(pd.device("cpu").load(artifact).main(X), 2 * X)


def test_what_is_stated_is_compiled_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requirements(pd.compile(TEXT, cpu="generic")) == [False]
    assert len(requirements(pd.compile(TEXT, targets=("x86_64",)))) == 1
    assert len(requirements(pd.compile(TEXT, cpu="native"))) == 1
    monkeypatch.setenv("PYDISPATCH_CPU", "generic")
    assert requirements(pd.compile(TEXT)) == [False]
    monkeypatch.setenv("PYDISPATCH_CPU", "generic, nonsense")
    with pytest.raises(pd.CompileError, match="CPU 'nonsense' is not known"):
        pd.compile(TEXT)


def test_the_command_compiles_both_and_inspect_shows_them(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "f.mlir"
    source.write_text(TEXT)
    assert cli.main(["compile", str(source)]) == 0
    assert cli.main(["inspect", str(tmp_path / "f.pdx")]) == 0
    shown = capsys.readouterr().out
    assert len(requirements(pd.compile(TEXT))) == 1 or "    this CPU takes embedded_elf_x86_64_native\n" in shown


@pytest.mark.skipif(not IS_WIDE, reason="this machine has no AVX2")
def test_loading_generic_code_says_once_what_is_faster(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    path = tmp_path / "generic.pdx"
    pd.compile(TEXT, cpu="generic").save(path)
    fast = tmp_path / "fast.pdx"
    pd.compile(TEXT).save(fast)
    with caplog.at_level(logging.INFO, "pydispatch.runtime"):
        for each in (path, path, fast):
            pd.device("cpu").load(each)
    said = [record.getMessage() for record in caplog.records if "narrower vectors" in record.getMessage()]
    assert len(said) == 1 and "generic.pdx" in said[0] and "cpu=('generic', 'x86-64-v" in said[0]


@pytest.mark.skipif(not IS_WIDE, reason="this machine has no AVX2")
def test_objects_for_generic_code_are_linked_into_both_variants() -> None:
    text = (PROGRAMS / "keys.mlir").read_text().replace("module attributes {hal.device.targets = [#device]}", "module")
    key = '#key = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64"'
    generic = text.replace(key, f'{key}, {{cpu = "generic"}}')
    assert generic != text
    artifact = pd.compile(generic, object_search_path=[PROGRAMS])
    assert requirements(artifact) == [False, True]
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).main(41), 42)
    with pytest.raises(pd.CompileError, match="no objects of 'kernels' match the target"):
        pd.compile(text.replace(key, f'{key}, {{cpu = "x86-64-v2"}}'), object_search_path=[PROGRAMS])


def members(artifact: Any, path: Path) -> dict[str, bytes]:
    """Return the code of each variant by its name."""
    artifact.save(path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist() if name.endswith(".so")}


@pytest.mark.parametrize(("element", "sums"), [("i8", "i32"), ("f16", "f32"), ("bf16", "f32")])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4", "sapphirerapids"])
def test_generic_code_beside_it_changes_no_code_for_a_cpu(cpu: str, element: str, sums: str, tmp_path: Path) -> None:
    """Products of bytes and constant panels are those of the capable CPU."""
    text, _ = product(element, sums)
    alone, both = (
        members(pd.compile(text, targets=("x86_64",), cpu=cpus), tmp_path / "f.pdx") for cpus in (cpu, ("generic", cpu))
    )
    assert len(both) == 2 * len(alone) and set(alone.values()) <= set(both.values())


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="it runs code for x86-64")
@pytest.mark.parametrize(("element", "dtype"), [("i8", np.int8), ("f16", np.float16)])
def test_generic_code_computes_the_same_from_panels_for_another_cpu(element: str, dtype: Any) -> None:
    text, weights = product(element, "i32" if element == "i8" else "f32")
    x = np.random.default_rng(4).integers(-128, 128, (32, 256)).astype(dtype)
    y = pd.device("cpu").load(pd.compile(text, targets=("x86_64",), cpu=("generic", "sapphirerapids"))).main(x)
    np.testing.assert_allclose(y, x.astype(np.float64) @ weights, rtol=1e-5, atol=1e-2 if element == "f16" else 0)


def test_generic_code_next_to_other_code_is_optimised_less(tmp_path: Path) -> None:
    """Its loops are neither unrolled nor interleaved, which saves most of the time that it takes to compile it."""
    text, _ = product("f32", "f32")
    alone, both, next_to_arm = (
        members(pd.compile(text, targets=targets, cpu=cpus), tmp_path / "f.pdx") for targets, cpus in [
            ("x86_64", "generic"), ("x86_64", ("generic", "x86-64-v3")), (("x86_64", "aarch64"), ("generic",))]
    )  # fmt: skip
    (code,) = alone.values()
    (fallback,) = (data for name, data in both.items() if "v3" not in name)
    assert len(fallback) < len(code)
    assert code in next_to_arm.values()  # code for other architectures is none for these machines


def chain(sizes: list[int]) -> str:
    """Return a program that multiplies 16 rows by a matrix for each two adjacent sizes, with a tanh after each."""
    matrices = [f"%w{i}: tensor<{k}x{n}xf32>" for i, (k, n) in enumerate(pairwise(sizes))]
    lines = [f"func.func @main(%x0: tensor<16x{sizes[0]}xf32>, {', '.join(matrices)}) -> tensor<16x{sizes[-1]}xf32> {{"]
    for i, (k, n) in enumerate(pairwise(sizes)):
        types = f"(tensor<16x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<16x{n}xf32>"
        lines += [
            f"  %m{i} = stablehlo.dot %x{i}, %w{i} : {types}",
            f"  %x{i + 1} = stablehlo.tanh %m{i} : tensor<16x{n}xf32>",
        ]
    return "\n".join([*lines, f"  return %x{len(sizes) - 1} : tensor<16x{sizes[-1]}xf32>", "}"])


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="it runs code for x86-64")
def test_kernels_that_differ_only_in_sizes_share_the_code_for_other_cpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = [96, 160, 224, 101, 288]
    artifact = pd.compile(chain(sizes), targets=("x86_64",), cpu=("generic", "x86-64-v3"), dump=tmp_path)
    modules = [path.read_text() for path in tmp_path.glob("*.ll") if "optimized" not in path.name]
    shared = [text for text in modules if ".shared" in text]
    assert len(shared) == 1 and shared[0].count("call i32 @") == 2  # 101 columns have another loop at their edge
    assert len(modules) == 3 + 4 + 2  # both variants have a module of library tables
    monkeypatch.setattr(variants, "best_of", lambda *unused: 0)  # the first variant is generic
    random = np.random.default_rng(3)
    x = expected = random.standard_normal((16, sizes[0]), dtype=np.float32)
    weights = [random.standard_normal(shape, dtype=np.float32) / 8 for shape in pairwise(sizes)]
    for matrix in weights:
        expected = np.tanh(expected @ matrix)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).main(x, *weights), expected, rtol=1e-3, atol=1e-4)


def test_kernels_that_differ_in_more_than_integers_share_no_code(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<70000xf32>, %b: tensor<80000xi32>) -> (tensor<70000xf32>, tensor<80000xi32>) {
      %c = stablehlo.exponential %a : tensor<70000xf32>
      %d = stablehlo.popcnt %b : tensor<80000xi32>
      return %c, %d : tensor<70000xf32>, tensor<80000xi32>
    }"""
    pd.compile(text, targets=("x86_64",), cpu=("generic", "x86-64-v3"), dump=tmp_path)
    modules = [path.read_text() for path in tmp_path.glob("*.ll") if "optimized" not in path.name]
    assert len(modules) == 6 and not any(".shared" in text for text in modules)
