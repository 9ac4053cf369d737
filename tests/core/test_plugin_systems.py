"""The loader's layer for other operating systems: Windows and macOS compiled, the generic one compiled and run."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include", f"-I{ROOT}/tests/c"]
ROOMS = ("base", "elf", "fatelf", "imports", "plugin")
SHARED = [p for room in ROOMS for p in sorted((ROOT / "csrc" / room).glob("*.c"))]


def layer(system: str) -> list[Path]:
    return [ROOT / "csrc" / "platform" / f"{name}_{system}.c" for name in ("mem", "file", "dl")]


def check(command: list[object], tmp_path: Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "system"), [("x86_64-windows-gnu", "windows"), ("aarch64-macos", "macos"), ("x86_64-macos", "macos")]
)
def test_other_systems_compile(tmp_path: Path, target: str, system: str) -> None:
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS]

    def compile_one(source: Path) -> None:
        check([*compiler, "-c", source, "-o", tmp_path / f"{source.parent.name}-{source.stem}.o"], tmp_path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, [*SHARED, *layer(system)]))
    # Bridges exist exactly where embedded code is called by another convention than the host's.
    bridge = (tmp_path / "plugin-bridge.o").read_bytes()
    assert (b"cross" in bridge) == (target == "x86_64-windows-gnu")


@pytest.mark.parametrize("test", ["test_static", "test_manager"])
def test_the_generic_layer_runs(tmp_path: Path, test: str) -> None:
    """Everything but the system's libraries, whose refusal says what to do."""
    source = ROOT / "tests" / "c" / "plugin" / f"{test}.c"
    check(["gcc", *FLAGS, "-DPYD_PLATFORM_GENERIC", source, *SHARED, *layer("generic"), "-o", "run", "-pthread"], tmp_path)
    check([tmp_path / "run"], tmp_path)
