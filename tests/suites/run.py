"""Runs suites that `make test` leaves out: `make test-NAME`.

    python tests/suites/run.py NAME        one suite; fails where the machine lacks what it needs
    python tests/suites/run.py --all       every suite; those that cannot run here are named at the end
    python tests/suites/run.py --list      what `make test` leaves out, a line each
    python tests/suites/run.py --check NAME  fails, with the names that there are, when there is no such suite

A suite is a folder here:

    about.txt         what it proves, in one sentence
    requirements.txt  packages; the suite then runs in a virtual environment of its own, build/suites/NAME/venv, on
                      top of the one that runs this file. Without requirements.txt it runs in that one
    run.py            runs it, and exits with 3 when the machine lacks what it needs. Without this file pytest runs
                      the suite's test_*.py
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRESS = [sys.executable, str(ROOT / "tests" / "progress.py")]
LACKING = 3


def suites() -> dict[str, str]:
    """Name -> what the suite proves."""
    return {p.parent.name: p.read_text().strip() for p in sorted(HERE.glob("*/about.txt"))}


def left_out() -> dict[str, str]:
    """`make` target -> what it is for: the suites, and the targets of the Makefile that are marked with `##`."""
    marked = re.findall(r"^([\w-]+):.*?##\s*(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {**dict(marked), **{f"test-{name}": about for name, about in suites().items()}}


def python_of(name: str) -> Path | None:
    """The Python that a suite runs with; None when its packages cannot be had."""
    requirements = HERE / name / "requirements.txt"
    if not requirements.exists():
        return Path(sys.executable)
    folder = ROOT / "build" / "suites" / name / "venv"
    python, stamp = folder / "bin" / "python", folder / ".made"
    key = hashlib.sha256((requirements.read_text() + sys.version + sys.prefix).encode()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == key):
        venv.create(folder, with_pip=True, clear=True)
        inherit(folder)
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(requirements)]
        if subprocess.run([*PROGRESS, f"test-{name}: packages", str(python), *words]).returncode:
            print(f"test-{name}: its packages ({requirements.relative_to(ROOT)}) could not be installed; pip says")
            print("above which. They come over the network, or from PIP_INDEX_URL or PIP_FIND_LINKS")
            return None
        stamp.write_text(key)
    return python


def inherit(folder: Path) -> None:
    """Lets a virtual environment find what this one has, after its own packages: pydispatch, as built, and pytest."""
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "pydispatch_tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")


def run(name: str) -> int:
    """The exit code of a suite; LACKING when it cannot run here."""
    print(f"== test-{name}: {suites()[name]}", flush=True)
    python = python_of(name)
    if python is None:
        return LACKING
    folder = HERE / name
    script = folder / "run.py"
    command = [str(script)] if script.exists() else ["-m", "pytest", *map(str, sorted(folder.glob("test_*.py")))]
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    return subprocess.run([*PROGRESS, f"test-{name}", str(python), *command], cwd=ROOT, env=environment).returncode


def run_all() -> int:
    codes = {name: run(name) for name in suites()}
    for name, code in codes.items():
        verdict = "passed" if code == 0 else "cannot run on this machine" if code == LACKING else f"FAILED ({code})"
        print(f"test-{name}: {verdict}")
    return int(any(code not in (0, LACKING) for code in codes.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("make test leaves out:")
        for target, about in left_out().items():
            print(f"  make {target:<14} {about}")
        return 0
    if args.all:
        return run_all()
    if args.name not in suites():
        print(f"there is no suite '{args.name}' (make test-{args.name}); there are: {', '.join(suites())}")
        return 2
    return 0 if args.check else run(args.name)


if __name__ == "__main__":
    sys.exit(main())
