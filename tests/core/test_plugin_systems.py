"""The C core for other operating systems: every file of it compiles. `make test-cross` links them."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ziglang

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "c"), str(ROOT / "csrc")]

import run as c_tests  # noqa: E402
from sources import sources  # noqa: E402

FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include", f"-I{ROOT}/tests/c"]
OBJECTS = ROOT / "build" / "cross"
"""Objects for other systems, named after what they are compiled from; later runs use those that are still right."""
FOLDERS = sorted(p for p in (ROOT / "csrc").iterdir() if any(p.glob("*.c")))
MACOS, WINDOWS = "aarch64-macos", "x86_64-windows-gnu"


def check(command: list[object], tmp_path: Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("target", "system"), [(WINDOWS, "windows"), (MACOS, "macos")])
def test_other_systems_compile(tmp_path: Path, target: str, system: str) -> None:
    """Nothing is linked: zig would first build C libraries for these systems, for a minute."""
    compile_for(target, system, tmp_path, links=False)


@functools.cache
def compiler_version() -> bytes:
    return Path(ziglang.__file__).with_name("zig").stat().st_mtime_ns.to_bytes(8, "little")


def object_for(source: Path, target: str) -> Path:
    """Return the path of the object of a file of the core: its name changes with the file, its headers and flags."""
    texts = [path.read_bytes() for path in sorted(c_tests.read_for(source))]
    key = hashlib.sha256(b"\0".join([compiler_version(), *map(os.fsencode, FLAGS), *texts])).hexdigest()[:16]
    return OBJECTS / target / f"{source.parent.name}-{source.stem}-{key}.o"


def compile_for(target: str, system: str, tmp_path: Path, links: bool) -> None:
    """Compile each file of the core for a system, and link the objects."""
    zig = Path(ziglang.__file__).with_name("zig")
    compiler = [zig, "cc", "-target", target, *FLAGS, "-D_GNU_SOURCE"]
    objects = {path: object_for(path, target) for folder in FOLDERS for path in sources(folder, system)}
    (OBJECTS / target).mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> None:
        fresh = objects[source].with_suffix(f".{os.getpid()}.o")
        check([*compiler, "-c", source, "-o", fresh], tmp_path)
        fresh.replace(objects[source])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, [source for source, built in objects.items() if not built.exists()]))
    if links:
        # __builtin_cpu_supports reads this table of the compiler's runtime, which zig's lacks on these systems.
        stub = tmp_path / "cpu_model.c"
        stub.write_text("struct { unsigned vendor, type, subtype, features[1]; } __cpu_model;\n")
        check([*compiler, "-shared", *objects.values(), stub, "-o", "core", "-pthread", "-lm"], tmp_path)
    # Bridges exist exactly where embedded code is called by another convention than the host's.
    built = {f"{source.parent.name}-{source.stem}": path for source, path in objects.items()}
    for name, bridge in (("plugin-bridge", b"cross"), ("executable-executable", b"call_import_across")):
        assert (bridge in built[name].read_bytes()) == (target == WINDOWS), name
