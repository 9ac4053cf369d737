"""Builds the wheel with every Python from 3.10 on, installs it where there is NumPy alone, and runs an artifact there.

Exits with 3 when there is no Python besides the version that `make test` runs with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / "build" / "suites" / "pythons"
PARTS = ("csrc", "_core", "pydispatch", "setup.py", "pyproject.toml", "README.md", "MANIFEST.in")
SMOKE = """
import sys, threading, numpy as np, pydispatch as pd
a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
program = pd.device("cpu").load(sys.argv[1])
assert program.mixed_invocation(a, b).tolist() == [96.0] * 8
call = program.mixed_invocation.prepare(a, b)
assert call().tolist() == [96.0] * 8
threads = [threading.Thread(target=lambda: [program.mixed_invocation(a, b) for _ in range(1000)]) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
try:
    program.mixed_invocation(a.astype(np.float64), b)
except pd.InvalidArgumentError:
    pass
else:
    raise AssertionError("a wrong type was taken")
"""


def pythons() -> dict[tuple[int, int], str]:
    """(major, minor) -> an interpreter, of those on PATH and those of pyenv."""
    folders = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser())
    folders += sorted(pyenv.glob("versions/*/bin"))
    found: dict[tuple[int, int], str] = {sys.version_info[:2]: sys.executable}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")) if folder.is_dir() else []:
            if not re.fullmatch(r"python3\.\d+", path.name):
                continue
            asked = subprocess.run(
                [str(path), "-c", "import sys, venv; print(*sys.version_info[:2])"], capture_output=True, text=True
            )  # a shim of pyenv may be there without what it stands for
            if asked.returncode == 0:
                major, minor = map(int, asked.stdout.split())
                if (major, minor) >= (3, 10):
                    found.setdefault((major, minor), str(path))
    return dict(sorted(found.items()))


def call(*command: object, cwd: Path = WORK) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYENV_VERSION"))}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def fresh(python: str, folder: Path, *packages: str) -> Path:
    call(python, "-m", "venv", "--clear", folder)
    made = folder / "bin" / "python"
    call(made, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return made


def check(version: str, python: str, artifact: Path) -> None:
    folder = WORK / version
    tree = folder / "tree"
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            skip = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(source, tree / part, dirs_exist_ok=True, ignore=skip)
        else:
            tree.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / part)
    builder = fresh(python, folder / "build", "setuptools>=77", "wheel", "cython>=3.1", "numpy>=2.0")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    call(builder, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder / "dist", ".", cwd=tree)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert f"-cp{version.replace('.', '')}-" in wheel.name, wheel.name
    user = fresh(python, folder / "use", "numpy", str(wheel))
    call(user, "-c", SMOKE, artifact, cwd=folder)


def main() -> int:
    found = pythons()
    print(f"found: {', '.join(f'{a}.{b} ({path})' for (a, b), path in found.items())}", flush=True)
    if len(found) == 1:
        print("there is no other Python from 3.10 on, on PATH or in pyenv")
        return 3
    WORK.mkdir(parents=True, exist_ok=True)
    artifact = WORK / "mixed.pdx"
    words = ["-m", "pydispatch.cli", "compile", ROOT / "examples" / "mixed" / "program.mlir", "-o", artifact]
    call(sys.executable, *words, cwd=ROOT)
    failed = 0
    for (major, minor), python in found.items():
        version = f"{major}.{minor}"
        print(f"{version}: building and using the wheel", flush=True)
        try:
            check(version, python, artifact)
        except (RuntimeError, AssertionError) as error:
            failed += 1
            print(f"{version}: FAILED\n{error}", flush=True)
        else:
            print(f"{version}: passed", flush=True)
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
