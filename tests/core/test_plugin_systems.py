"""The C core for other operating systems: every file of it compiles, and together they link."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ziglang

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "csrc"))
from sources import sources  # noqa: E402

FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include", f"-I{ROOT}/tests/c"]
FOLDERS = sorted(p for p in (ROOT / "csrc").iterdir() if any(p.glob("*.c")))
MACOS, WINDOWS = "aarch64-macos", "x86_64-windows-gnu"


def check(command: list[object], tmp_path: Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("target", "system"), [(WINDOWS, "windows"), (MACOS, "macos")])
def test_other_systems_compile(tmp_path: Path, target: str, system: str) -> None:
    """`make test-cross` links for Windows and other machines: zig first builds C libraries for these, in a minute."""
    compile_for(target, system, tmp_path, links=target == MACOS)


def compile_for(target: str, system: str, tmp_path: Path, links: bool) -> None:
    """Compile each file of the core for a system, and link them."""
    zig = Path(ziglang.__file__).with_name("zig")
    compiler = [zig, "cc", "-target", target, *FLAGS, "-D_GNU_SOURCE"]

    def compile_one(source: Path) -> None:
        check([*compiler, "-c", source, "-o", tmp_path / f"{source.parent.name}-{source.stem}.o"], tmp_path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, [path for folder in FOLDERS for path in sources(folder, system)]))
    if links:
        # __builtin_cpu_supports reads this table of the compiler's runtime, which zig's lacks on these systems.
        stub = tmp_path / "cpu_model.c"
        stub.write_text("struct { unsigned vendor, type, subtype, features[1]; } __cpu_model;\n")
        objects = sorted(tmp_path.glob("*.o"))
        check([*compiler, "-shared", *objects, stub, "-o", "core", "-pthread", "-lm"], tmp_path)
    # Bridges exist exactly where embedded code is called by another convention than the host's.
    for name, bridge in (("plugin-bridge.o", b"cross"), ("executable-executable.o", b"call_import_across")):
        assert (bridge in (tmp_path / name).read_bytes()) == (target == WINDOWS), name
