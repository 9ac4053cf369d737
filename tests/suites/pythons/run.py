"""Builds the wheel with every Python that is found, installs and uses it: import, calls, threads, compile, embedding.

Pythons that are not found are named at the end as untested; `debian.py` beside this file makes some of them. Each is
used with the newest and with the oldest NumPy that has a wheel for it. The compiler runs where llvmlite has a wheel,
with the newest and the oldest xDSL of the range in pyproject.toml, and without zig. Exits with 3 when there is no
Python besides the version that `make test` runs with.

    python tests/suites/pythons/run.py [NAME ...]   only these, for example 3.13t
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from interpreters import WANTED, Interpreter, environment, interpreters

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORK = ROOT / "build" / "suites" / "pythons"
TREE = WORK / "tree"  # one for all: the C core is compiled once
PARTS = ("csrc", "_core", "pydispatch", "setup.py", "pyproject.toml", "README.md", "MANIFEST.in", "LICENSE")
OLDEST_NUMPY = {"3.10": "1.23.0", "3.11": "1.23.2", "3.12": "1.26.0", "3.13": "2.1.0", "3.14": "2.3.2",
                "3.13t": "2.1.0", "3.14t": "2.3.2"}  # fmt: skip
OLDEST_XDSL = "0.73.0"
EMBEDDED = """
import sys, numpy as np, pydispatch as pd
import short_c, short_cython
a, b, out = np.arange(8, dtype=np.float32), np.full(8, 4, np.float32), np.zeros(8, np.float32)
program = pd.device("cpu").load(sys.argv[1])
expected = program.mixed_invocation(a, b)
short_c.load(sys.argv[1], "mixed_invocation", 8)
assert short_c.run(a, b, out) is None and out.tolist() == expected.tolist()
short_cython.run(program, a, b, out)
assert out.tolist() == (expected * expected).tolist()
print("embedding")
"""


class Failed(Exception):
    pass


def call(*command: object, cwd: Path = WORK, path: Path | None = None) -> str:
    """What a command prints."""
    variables = environment() if path is None else {**environment(), "PYTHONPATH": str(path)}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def pip_wheel() -> Path:
    """pip as a file: Debian's Pythons have none of their own."""
    folder = WORK / "pip"
    if not list(folder.glob("*.whl")):
        call(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "pip")
    return next(folder.glob("*.whl"))


def copy_tree() -> None:
    """The sources, with the times that they have, so that what is compiled stays while they do."""
    shutil.rmtree(TREE / "pydispatch", ignore_errors=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            skip = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(source, TREE / part, dirs_exist_ok=True, ignore=skip)
        else:
            TREE.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, TREE / part)


def why_not_compile(python: Path) -> str:
    """Installs the compiler's packages. What pip says where one of them has no wheel for this Python, or nothing."""
    words = ["-m", "pip", "install", "-q", "--only-binary", ":all:", *packages("compiler")]
    try:
        call(python, *words, path=pip_wheel())
    except Failed as error:
        if "No matching distribution" not in str(error):
            raise
        return next(line for line in str(error).splitlines() if "No matching distribution" in line)
    return ""


def packages(extra: str) -> list[str]:
    """What pyproject.toml lists in an extra. Read by pattern: tomllib came with 3.11."""
    found = re.search(rf"^{extra} = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return re.findall(r'"([^"]+)"', found.group(1))


def embed(python: Path, folder: Path, artifact: Path) -> None:
    """Builds and runs the code of docs/embedding.md."""
    blocks = dict(reversed(re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), re.S)))
    folder.mkdir(parents=True, exist_ok=True)
    for language, file in (("c", "short_c.c"), ("cython", "short_cython.pyx"), ("python", "setup.py")):
        (folder / file).write_text(blocks[language])
    call(python, "setup.py", "-q", "build_ext", "--inplace", "--force", cwd=folder)
    print(call(python, "-W", "ignore", "-c", EMBEDDED, artifact, cwd=folder), end="")


def check(interpreter: Interpreter, artifact: Path) -> None:
    folder = WORK / interpreter.name
    shutil.rmtree(folder, ignore_errors=True)
    call(interpreter.path, "-m", "venv", "--without-pip", folder / "venv")
    python, pip = folder / "venv" / "bin" / "python", ["-m", "pip", "--disable-pip-version-check"]

    def install(*names: object) -> None:
        call(python, *pip, "install", "-q", "--only-binary", ":all:", *names, path=pip_wheel())

    install("setuptools>=77", "wheel", "cython>=3.1", "numpy>=2.0")
    words = ["wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder / "dist", "."]
    call(python, *pip, *words, cwd=TREE, path=pip_wheel())
    (wheel,) = (folder / "dist").glob("*.whl")
    tag = interpreter.name.replace(".", "")
    assert f"-cp{tag.rstrip('t')}-cp{tag}-" in wheel.name, wheel.name
    install(wheel)
    reason = why_not_compile(python)
    if reason:
        print(f"no compiler: {reason}")
    use = [python, HERE / "use.py", artifact, "no-compile" if reason else "compile"]
    print(call(*use, cwd=folder), end="")
    embed(python, folder / "embedding", artifact)
    install(f"numpy=={OLDEST_NUMPY[interpreter.name]}", *([] if reason else [f"xdsl=={OLDEST_XDSL}"]))
    print(call(*use, cwd=folder), end="")


def main(names: list[str]) -> int:
    found = [i for i in interpreters() if not names or i.name in names]
    print(f"found: {', '.join(f'{i.name} ({i.release}, {i.path})' for i in found)}", flush=True)
    untested = [name for name in names or WANTED if name not in {i.name for i in found}]
    if not names and len(found) == 1:
        print("there is no other Python from 3.10 on, on PATH or in pyenv")
        return 3
    copy_tree()
    artifact = WORK / "mixed.pdx"
    words = ["-m", "pydispatch.cli", "compile", ROOT / "examples" / "mixed" / "program.mlir", "-o", artifact]
    call(sys.executable, *words, cwd=ROOT)
    failed = []
    for interpreter in found:
        print(f"== {interpreter.name}", flush=True)
        begin = time.monotonic()
        try:
            check(interpreter, artifact)
        except (Failed, AssertionError) as error:
            failed.append(interpreter.name)
            print(f"{interpreter.name}: FAILED\n{error}", flush=True)
        else:
            print(f"{interpreter.name}: passed in {time.monotonic() - begin:.0f} s", flush=True)
    print(f"failed: {', '.join(failed) or 'none'}; untested, as none was found: {', '.join(untested) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
