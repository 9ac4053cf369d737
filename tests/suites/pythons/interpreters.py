"""The Pythons on this machine that pydispatch may be used with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FETCHED = ROOT / "build" / "pythons"  # what debian.py makes
WANTED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")
ASK = """
import sys, sysconfig, venv
free = sysconfig.get_config_var("Py_GIL_DISABLED")
print(f"{sys.version_info[0]}.{sys.version_info[1]}{'t' if free else ''}", sys.version.split()[0])
"""


@dataclass(frozen=True)
class Interpreter:
    """name: 3.13, or 3.13t without a GIL. release: 3.13.0. path: what starts it."""

    name: str
    release: str
    path: str


def environment() -> dict[str, str]:
    """The environment without what is meant for the Python that runs this file."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYENV_VERSION", "VIRTUAL_ENV"))}


def ask(path: Path) -> Interpreter | None:
    """What an interpreter says of itself; None for one that does not start or has no venv, as a shim of pyenv."""
    try:
        asked = subprocess.run([str(path), "-c", ASK], capture_output=True, text=True, env=environment())
    except OSError:
        return None
    name, release = asked.stdout.split() if asked.returncode == 0 else ("", "")
    return Interpreter(name, release, str(path)) if name in WANTED else None


def interpreters() -> list[Interpreter]:
    """One of each version: those of debian.py, those on PATH, those of pyenv, and the one that runs this file."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser())
    folders = [Path(sys.base_prefix, "bin"), *sorted(FETCHED.glob("*/bin"))]
    own = Path(sys.prefix, "bin")  # has no headers
    folders += [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p and Path(p) != own]
    folders += sorted(pyenv.glob("versions/*/bin"))
    found: dict[str, Interpreter] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")) if folder.is_dir() else []:
            if re.fullmatch(r"python3\.\d+t?", path.name):
                interpreter = ask(path)
                if interpreter is not None:
                    found.setdefault(interpreter.name, interpreter)
    return [found[name] for name in WANTED if name in found]
