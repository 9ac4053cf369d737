"""The example, in every form and with every kind of object, against NumPy."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.compiler.toolchain import tools

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mixed"
ARCH = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
FORMAT = {"x86_64": "x86_64", "aarch64": "arm_64", "riscv64": "riscv_64"}[ARCH]


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b + b) * (a * b)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's functions as .c, .o, .bc and .a."""
    import subprocess

    folder = tmp_path_factory.mktemp("objects")
    source = EXAMPLE / "functions.c"
    (folder / "functions.c").write_text(source.read_text())
    for suffix, emit in (("o", "obj"), ("bc", "bc")):
        data = tools.find().compile_c(source, arch=ARCH, cpu="generic", features=(), emit=emit)
        (folder / f"functions.{suffix}").write_bytes(data)
    subprocess.run(["ar", "rcs", folder / "functions.a", folder / "functions.o"], check=True)
    return folder


def text_of(form: str, suffix: str) -> str:
    """The example for this machine alone, with another kind of object."""
    text = (EXAMPLE / form).read_text().replace("functions.c", f"functions.{suffix}")
    text = text.replace(
        "[#x86_64, #aarch64, #riscv64]", {"x86_64": "[#x86_64]", "aarch64": "[#aarch64]"}.get(ARCH, "[#riscv64]")
    )
    return text.replace("embedded-elf-x86_64", f"embedded-elf-{FORMAT}") if form == "program_hal.mlir" else text


@pytest.mark.parametrize("suffix", ["c", "o", "bc", "a"])
@pytest.mark.parametrize("form", ["program.mlir", "program_hal.mlir"])
def test_every_form_and_object_agrees(form: str, suffix: str, objects: Path) -> None:
    artifact = pd.compile(text_of(form, suffix), object_search_path=[objects])
    program = pd.device("cpu").load(artifact)
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    assert program.mixed_invocation(a, b).tolist() == [96.0] * 8


@pytest.fixture(scope="module")
def program(objects: Path) -> pd.Program:
    return pd.device("cpu").load(pd.compile(text_of("program.mlir", "c"), object_search_path=[objects]))


@settings(max_examples=60, deadline=None)
@given(
    n=st.one_of(st.integers(0, 300), st.sampled_from([64 * 64, 8191, 8192, 8193, 100_003])), seed=st.integers(0, 2**31)
)
def test_any_length(program: pd.Program, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32)
    kept = a.copy(), b.copy()
    np.testing.assert_array_equal(program.mixed_invocation(a, b), expected(a, b))
    assert np.array_equal(a, kept[0]) and np.array_equal(b, kept[1])


def test_sizes_that_disagree_are_refused_and_named(program: pd.Program) -> None:
    with pytest.raises(pd.InvalidArgumentError) as caught:
        program.mixed_invocation(np.zeros(8, np.float32), np.zeros(7, np.float32))
    text = str(caught.value)
    assert "argument 0 ('a')" in text and "argument 1 ('b')" in text and "8" in text and "7" in text


def test_the_same_bytes_again(objects: Path) -> None:
    text = text_of("program.mlir", "c")
    artifact = pd.compile(text, object_search_path=[objects])
    assert artifact.manifest.producers["toolchain"] == tools.find().fingerprint()  # they decide the bytes too
    first = artifact.to_bytes()
    assert pd.compile(text, object_search_path=[objects]).to_bytes() == first


def test_any_number_of_workers_gives_the_same_bits(objects: Path) -> None:
    artifact = pd.compile(text_of("program.mlir", "c"), object_search_path=[objects])
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(500_001, np.float32), rng.standard_normal(500_001, np.float32)
    results = [pd.device(f"cpu?workers={w}").load(artifact).mixed_invocation(a, b).tobytes() for w in (1, 2, 3, 8)]
    assert len(set(results)) == 1


def test_missing_object_names_the_places_and_the_flag() -> None:
    text = text_of("program.mlir", "o").replace("functions.o", "nowhere/functions.o")
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(text, object_search_path=["/tmp"])
    assert "nowhere/functions.o" in str(caught.value) and "--iree-hal-executable-object-search-path" in str(
        caught.value
    )
    assert caught.value.location is not None


@pytest.mark.skipif(ARCH != "x86_64", reason="CPU levels of x86-64")
def test_several_cpu_levels_in_one_artifact(objects: Path) -> None:
    levels = ["generic", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
    artifact = pd.compile(text_of("program.mlir", "c"), object_search_path=[objects], cpu=levels)
    variants = artifact.executables[0].variants
    assert len(variants) == 4
    assert [bool(v.requires) for v in variants] == [False, True, True, True]
    a, b = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).mixed_invocation(a, b), expected(a, b))
