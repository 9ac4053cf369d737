"""The PTX of matrix products: what the inner loop is made of, and what ptxas says of registers."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Annotated, Any

import pytest
from tools import ptxas

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from products import convolution, generic, matmul

import pydispatch as pd


@functools.cache
def ptx_of(text: Any, target: str, folder: Path) -> str:
    """The PTX of a program, MLIR text or a kernel in Python, with one kernel."""
    path = folder / f"{len(list(folder.iterdir()))}.pdx"
    pd.compile(text, targets=target).save(path)
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".ptx"))
        return archive.read(name).rstrip(b"\0").decode()


def count(ptx: str, pattern: str) -> int:
    return len(re.findall(pattern, ptx))


def test_the_loop_of_f32_is_multiply_adds(tmp_path: Path) -> None:
    """128x128 tiles: 16 products for each 16 bytes that are read, nothing from memory one by one."""
    ptx = ptx_of(matmul(2048, 2048, 2048), "sm_80", tmp_path)
    assert count(ptx, r"fma\.rn\.f32") == 64 * 8 and count(ptx, r"ld\.shared\.v4") == 4 * 8
    assert not count(ptx, r"ld\.shared\.[bf]") and not count(ptx, r"ld\.global(\.nc)?\.[bf]")
    assert count(ptx, r"st\.global\.v4") == 16 and not count(ptx, r"st\.global\.[bf]")
    assert count(ptx, r"bar\.sync") == 2 and "tf32" not in ptx and ".local" not in ptx
    assert ".reqntid 256, 1, 1" in ptx


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_tensor_cores(element: str, tmp_path: Path) -> None:
    ptx = ptx_of(matmul(2048, 2048, 2048, element), "sm_80", tmp_path)
    assert count(ptx, rf"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.{element}\.{element}\.f32") == 64
    assert count(ptx, r"ldmatrix\.sync\.aligned\.m8n8\.x4") == 16 and count(ptx, r"bar\.sync") == 2
    assert not count(ptx, r"fma\.rn") and not count(ptx, r"(ld\.global(\.nc)?|st\.shared)\.[bu]")


def test_tensor_cores_of_turing(tmp_path: Path) -> None:
    ptx = ptx_of(matmul(256, 256, 256, "f16"), "sm_75", tmp_path)
    assert count(ptx, r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16\.f16\.f32") and "m16n8k16" not in ptx


@pytest.mark.parametrize(("element", "target"), [("f16", "sm_70"), ("bf16", "sm_75")])
@pytest.mark.parametrize("sums", ["f32", "same"])
def test_older_machines_multiply_halves_in_f32(element: str, target: str, sums: str, tmp_path: Path) -> None:
    program = matmul(256, 256, 256, element, element if sums == "same" else sums)
    assert "mma.sync" in ptx_of(program, "sm_80", tmp_path)
    older = ptx_of(program, target, tmp_path)
    assert "mma.sync" not in older and count(older, r"fma\.rn\.f32") >= 128


def test_f32_never_takes_tensor_cores(tmp_path: Path) -> None:
    assert "mma" not in ptx_of(matmul(1024, 1024, 1024), "sm_90", tmp_path)


def test_same_text_same_bytes(tmp_path: Path) -> None:
    for name in ("1.pdx", "2.pdx"):
        pd.compile(matmul(-1, 96, 64), targets="sm_80").save(tmp_path / name)
    assert (tmp_path / "1.pdx").read_bytes() == (tmp_path / "2.pdx").read_bytes()


def test_written_order_has_no_tiles(tmp_path: Path) -> None:
    pd.compile(matmul(64, 64, 64), targets="sm_80", reassociate=False).save(tmp_path / "p.pdx")
    with zipfile.ZipFile(tmp_path / "p.pdx") as archive:
        (ptx,) = (archive.read(n).decode() for n in archive.namelist() if n.endswith(".ptx"))
    assert "fma.rn" not in ptx and count(ptx, r"mul(\.rn)?\.f32")


NHWC = convolution("conv_2d_nhwc_hwcf", (1, 56, 56, 64), (3, 3, 64, 64), (1, 56, 56, 64), 1, 1)
PROGRAMS = {
    "f32": matmul(4096, 4096, 4096),
    "f32, 256": matmul(256, 256, 256),
    "f32, rows of the call": matmul(-1, 4096, 4096),
    "f16": matmul(4096, 4096, 4096, "f16"),
    "f16 from f16": matmul(512, 512, 512, "f16", "f16"),
    "f16, open": matmul(-1, -1, -1, "f16"),
    "f16, odd": matmul(4001, 4001, 4001, "f16"),
    "f64": matmul(1024, 1024, 1024, "f64", "f64"),
    "i8": matmul(1024, 1024, 1024, "i8", "i32"),
    "i64": matmul(512, 512, 512, "i64", "i64"),
    "transposed": generic(("(k, m)", "(n, k)", "(m, n)"), ((512, 512), (512, 512), (512, 512))),
    "convolution": NHWC,
}


@pd.kernel(workgroup=128)
def staged(
    a: Annotated[pd.View, pd.f16["m", "k"]],
    b: Annotated[pd.View, pd.f16["k", "n"]],
    c: Annotated[pd.View, pd.f32["m", "n"]],
) -> None:
    i, j = pd.group_id(1) * 64, pd.group_id(0) * 64
    total = pd.zeros((64, 64), pd.f32)
    for k in pd.range(0, a.shape[1], 32, stages=3):
        total += a[i : i + 64, k : k + 32] @ b[k : k + 32, j : j + 64]
    c[i : i + 64, j : j + 64] = total


@pytest.mark.parametrize("target", ["sm_90"])  # assemble.py has more
def test_ptxas_spills_nothing(target: str, tmp_path: Path) -> None:
    for name, program in {**PROGRAMS, "tiles that are copied asynchronously": staged}.items():
        source = tmp_path / "k.ptx"
        source.write_text(ptx_of(program, target, tmp_path))
        command = [ptxas(), f"-arch={target}", "-v", str(source), "-o", str(tmp_path / "k.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, f"{name}: {done.stderr}"
