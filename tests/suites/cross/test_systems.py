"""The example of examples/embedding/standalone, built for other systems, and run under wine for Windows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "csrc"), str(ROOT / "tests" / "embedding"), str(ROOT / "tests" / "core")]
from sources import sources  # noqa: E402
from test_plugin_systems import compile_for  # noqa: E402
from test_standalone import FOLDERS, PROGRAM  # noqa: E402

import pydispatch as pd  # noqa: E402

FLAGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include", "-D_GNU_SOURCE"]
# __builtin_cpu_supports reads this table of the compiler's runtime, which zig's lacks here: no features are found.
CPU_MODEL = "struct { unsigned vendor, type, subtype, features[1]; } __cpu_model;\n"
WINE = shutil.which("wine64") or shutil.which("wine64", path="/usr/lib/wine") or shutil.which("wine")


def built(target: str, system: str, folder: Path) -> Path:
    """The program, with all warnings as errors."""
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS]

    def call(*words: object) -> None:
        done = subprocess.run([*compiler, *map(str, words)], capture_output=True, text=True, cwd=folder)
        assert not done.returncode, done.stderr

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.stem}.o"
        call("-c", source, "-o", target)
        return target

    (folder / "cpu_model.c").write_text(CPU_MODEL)
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [p for name in FOLDERS for p in sources(ROOT / "csrc" / name, system)]))
    main = ROOT / "examples" / "embedding" / "standalone" / "main.c"
    call(main, "cpu_model.c", *objects, "-o", folder / "main.exe", "-pthread", "-lm")
    return folder / "main.exe"


@pytest.mark.parametrize(
    ("target", "system"),
    [("x86_64-windows-gnu", "windows"), ("x86_64-macos", "macos"), ("aarch64-macos", "macos")],
)
def test_the_core_links(target: str, system: str, tmp_path: Path) -> None:
    compile_for(target, system, tmp_path, links=True)


def test_macos_links(tmp_path: Path) -> None:
    """Nothing here can run it; the first bytes are those of a 64-bit Mach-O file."""
    assert built("aarch64-macos", "macos", tmp_path).read_bytes()[:4] == b"\xcf\xfa\xed\xfe"


def test_windows_runs_what_linux_runs(tmp_path: Path) -> None:
    """The same file: its code is mapped by VirtualAlloc and called by another convention than the host's."""
    program = built("x86_64-windows-gnu", "windows", tmp_path)
    pd.compile(PROGRAM, targets="x86_64").save(tmp_path / "program.pdx")
    if WINE is None:
        pytest.skip("built, but not run: there is no wine (apt-get install wine64)")

    def run(*words: str) -> tuple[int, list[str], str]:
        environment = {**os.environ, "WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"}
        done = subprocess.run([WINE, program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout.split(), done.stderr

    assert run("program.pdx", "mul", "1", "2", "1.5")[:2] == (0, ["1", "4", "2.25"])
    assert run("program.pdx", "weighted", "1", "2", "1.5")[:2] == (0, ["2", "6", "6"])
    code, _, text = run("program.pdx", "nothing", "1")
    assert code == 1 and "the program has no function 'nothing'. It has: mul, weighted" in text
    code, _, text = run("missing.pdx", "mul", "1")
    assert code == 1 and "cannot open 'missing.pdx': Windows error 2" in text
