"""`make test-gpu` runs, here on the fake driver; without a GPU it fails and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "gpu" / "run.py"
KEPT = ROOT / "tests" / "gpu" / "data"
PRELUDE = ["--prelude", Path(__file__).with_name("fake_prelude.py")]


def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RUN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})


@pytest.mark.parametrize("kept", [True, False], ids=["programs that are kept", "programs compiled now"])
def test_everything_runs_on_the_fake_driver(tmp_path: Path, kept: bool) -> None:
    data = ["--data", KEPT] if kept else []
    names = [] if kept else ["example", "generated", "scalars", "functions"]
    done = run(*PRELUDE, *data, *names, PYDISPATCH_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("cuda:0: Fake GPU, compute capability 9.0")
    assert " 0 failed" in done.stdout.splitlines()[-1] and done.stdout.splitlines()[-1].endswith("on Fake GPU")


def test_a_checkout_that_is_not_installed(tmp_path: Path) -> None:
    """With NumPy in reach, and nothing that an installation leaves behind (-S)."""
    places = {str(Path(np.__file__).parents[1])}
    command = [sys.executable, "-S", RUN, *PRELUDE, "--data", KEPT, "example", "generated"]
    more = {"PYDISPATCH_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})
    assert done.returncode == 0 and "4 passed, 0 failed" in done.stdout, done.stdout + done.stderr


def test_a_failure_is_one(tmp_path: Path) -> None:
    (tmp_path / "kernels.pdx").write_bytes(b"nothing")
    done = run(*PRELUDE, "--data", tmp_path, "scalars")
    assert done.returncode == 1 and "FAILED scalars" in done.stdout and "0 passed, 1 failed" in done.stdout


def test_without_a_gpu_it_fails() -> None:
    done = run("--data", KEPT, "--device", "cuda:77")
    assert done.returncode == 1 and done.stdout.startswith("no GPU to test on: "), done.stdout + done.stderr


def test_the_benchmark_runs_on_the_fake_driver(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "bench" / "cuda_calls.py", "--quick", *PRELUDE]
    more = {"PYDISPATCH_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})
    assert done.returncode == 0, done.stderr
    for line in ("Fake GPU, compute", "prepared call ", "a + b, generated", "product 128 x 128 x 128, f16"):
        assert line in done.stdout, done.stdout
