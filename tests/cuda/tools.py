"""NVIDIA's tools that some tests use. None of them needs a GPU, and where they are not, those tests are not run.

The end of a run lists what was missing and how many tests that were (tests/conftest.py).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"the system has no {name} (CUDA toolkit)")
    return found


def ptxas() -> str:
    """The path of ptxas; skips the test when there is none."""
    return _tool("ptxas")


def nvcc() -> str:
    """The path of nvcc; skips the test when there is none."""
    return _tool("nvcc")


def nvjitlink() -> None:
    """Skips the test when nvJitLink cannot be loaded."""
    _module("nvjitlink", "nvidia-nvjitlink")


def nvrtc() -> None:
    """Skips the test when NVRTC cannot be loaded."""
    _module("nvrtc", "nvidia-cuda-nvrtc")


def _module(name: str, wheel: str) -> None:
    reason = f"the system has no {name} (pip install cuda-bindings {wheel})"
    try:
        found = importlib.util.find_spec(f"cuda.bindings.{name}")
    except ImportError:
        found = None
    if found is None:
        pytest.skip(reason)
    module = importlib.import_module(f"cuda.bindings.{name}")
    try:
        module.version() if name == "nvjitlink" else module.nvrtcVersion()
    except Exception:
        pytest.skip(reason)


def compile_cu(text: str, *flags: str) -> bytes:
    """What nvcc makes of a text, PTX unless the flags say otherwise. Skips the test when there is no nvcc."""
    path = nvcc()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "code.cu").write_text(text)
        kind = [] if any(f in flags for f in ("-cubin", "-fatbin", "-dc", "-ltoir")) else ["-ptx"]
        command = [path, *kind, *flags, "code.cu", "-o", "out"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return Path(folder, "out").read_bytes()


def assemble(ptx: str | bytes, arch: str, *flags: str) -> str:
    """What ptxas says against a text for an architecture, '' for nothing. Skips the test when there is no ptxas."""
    path = ptxas()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "code.ptx").write_bytes(ptx.encode() if isinstance(ptx, str) else ptx)
        command = [path, f"-arch={arch}", *flags, "code.ptx", "-o", "out.cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr
