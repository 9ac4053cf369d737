"""The commands of a shell with CUDA: compile, inspect and run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import fork_server
import pytest
from cuda_programs import MIXED, TWO, source, target
from test_cuda_target_functions import ukernel
from tools import DATA, compile_cu

import pydispatch as pd
from pydispatch.formats.artifact.manifest import Manifest


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return fork_server.run(["-m", "pydispatch.cli", *words])


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.mlir"
    path.write_text(source({target("sm_52"): [DATA / "kernels_sm_80.ptx"]}, TWO, MIXED))
    return path


def test_compile_with_the_flags_of_the_peer(tmp_path: Path) -> None:
    (tmp_path / "p.mlir").write_text(ukernel([DATA / "functions.c"]))
    artifact = tmp_path / "p.pdx"
    done = run("compile", tmp_path / "p.mlir", "--iree-hal-target-backends=cuda", "--iree-cuda-target=sm_86",
               "--iree-cuda-target-features=+ptx76", f"--dump={tmp_path}/dump", "-o", artifact)  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    dumped = {path.name.partition(".")[2] for path in (tmp_path / "dump").iterdir()}
    assert {"ll", "ptx"} <= dumped
    shown = run("inspect", artifact).stdout
    assert "kernel of cuda_nvptx_fb_sm_86  symbol  block   dynamic memory  scalars (bytes)" in shown
    assert "entry                          entry   64x1x1  0 B             4, 4" in shown
    assert "  sm_86  " in shown and "sm_80" not in shown  # the newest stands for the older ones
    inputs = ["--input=8xf32=2", "--input=8xf32=4"]
    done = run("run", artifact, "--device=ptx-interpreter", *inputs)
    assert done.stdout.endswith("8xf32=8 8 8 8 8 8 8 8\n"), done.stderr
    done = run("compile", tmp_path / "p.mlir", "--target=cpu", "--iree-cuda-target=sm_86")
    assert done.returncode == 1 and "--iree-cuda-target=sm_86 needs the target cuda: --target=cuda" in done.stderr
    done = run(
        "compile", tmp_path / "p.mlir", "--target=cuda", "--cuda-target=sm_75", "--cuda-target=sm_90", "-o", artifact
    )
    shown = run("inspect", artifact).stdout
    assert "cuda_nvptx_fb_sm_75" in shown and "cuda_nvptx_fb_sm_90" in shown


def test_warnings_are_lines_on_stderr(kernels: Path) -> None:
    done = run("compile", kernels, "--target=cuda")
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.startswith("pydispatch: warning: object '") and done.stderr.count("\n") == 1
    assert "is for sm_80, its target declares sm_52: devices are chosen by sm_80" in done.stderr
    shown = run("inspect", kernels.with_suffix(".pdx")).stdout
    assert "    warning: object '" in shown
    report = json.loads(run("inspect", "--json", kernels.with_suffix(".pdx")).stdout)
    variant = report["executables"][0]["variants"][0]
    assert len(variant["warnings"]) == 1 and variant["ptx"]["blocks"] == [[64, 1, 1], [64, 1, 1]]
    done = run("run", kernels, "--device=ptx-interpreter", "--input=8xf32=2", "--input=8xf32=4")
    assert done.stdout.endswith("8xf32=32 32 32 32 32 32 32 32\n") and "warning: object '" in done.stderr


def test_inspect_of_ptx() -> None:
    shown = run("inspect", DATA / "kernels_sm_80.ptx").stdout
    assert "kernels_sm_80.ptx: PTX 9.0 for sm_80, 5.4 KiB" in shown
    assert "kernel  scale               8, 8, 8, 8, 2, 4     -" in shown and "at most 64x1x1" in shown
    report = json.loads(run("inspect", "--json", DATA / "fixed_sm_90.ptx").stdout)
    assert report["kernels"] == [
        {"name": "fixed", "parameters": [8], "required": [32, 2, 1], "maximum": None, "line": 15}
    ]
    shown = run("inspect", DATA / "functions_sm_75.ptx").stdout
    assert "function  user_op               4, 4" in shown


def test_inspect_of_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text((DATA / "kernels_sm_80.ptx").read_text()[:900])
    done = run("inspect", tmp_path / "k.ptx")
    assert done.returncode == 1 and f"{tmp_path}/k.ptx:" in done.stderr
    done = run("inspect", "--verify", DATA / "kernels_sm_80.ptx")
    assert done.returncode == 1 and "--verify needs a .pdx artifact; this is PTX" in done.stderr


def test_inspect_of_cubins(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(compile_cu((DATA / "kernels.cu").read_text(), "-cubin", "-arch=sm_90"))
    shown = run("inspect", tmp_path / "k.cubin").stdout
    assert "k.cubin: cubin for sm_90" in shown and "kernel  scale               8, 8, 8, 8, 2, 4" in shown
    (tmp_path / "f.cubin").write_bytes(
        compile_cu((DATA / "functions.cu").read_text(), "-cubin", "-rdc=true", "-arch=sm_80")
    )
    shown = run("inspect", tmp_path / "f.cubin").stdout
    assert "relocatable cubin for sm_80" in shown and "function  user_op" in shown


def test_a_manifest_that_says_nonsense(tmp_path: Path) -> None:
    artifact = pd.compile(ukernel([DATA / "functions.c"]), targets="sm_80")
    for wrong, expected in (({"ptx": 5}, "expected an object, got 5"), ({"warnings": 3}, "warnings: expected a list")):
        text = json.loads(bytes(artifact.read("manifest.json")))
        text["executables"][0]["variants"][0] |= wrong
        with pytest.raises(pd.ArtifactError, match=expected):
            Manifest.from_json(text)
    for notes in ({"blocks": [7], "shared": [0]}, {"blocks": [[1]], "shared": ["a"]}):
        text = json.loads(bytes(artifact.read("manifest.json")))
        text["executables"][0]["variants"][0] |= {"ptx": notes}
        parts = {name: artifact.read(name) for name in artifact.members}
        manifest = Manifest.from_json(text)
        changed = pd.Artifact(manifest, {**parts, "manifest.json": memoryview(manifest.to_bytes())})
        changed.save(tmp_path / "changed.pdx")
        done = run("inspect", tmp_path / "changed.pdx")
        assert done.returncode == 1
        assert "the key \"ptx\" of variant 'cuda_nvptx_fb_sm_80' cannot be read" in done.stderr
