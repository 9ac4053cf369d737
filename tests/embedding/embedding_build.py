"""Builds and imports extensions that use the function table."""

from __future__ import annotations

import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import pydispatch as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(source: Path, folder: Path, include: str | None = None, *flags: str) -> Path:
    """Compiles one file into an extension module of its name, as strictly as it goes."""
    target = folder / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
               "-I", include or pd.get_include(), "-I", sysconfig.get_path("include"), str(source), "-o", str(target),
               "-pthread", *flags]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def import_file(path: Path) -> ModuleType:
    """The extension module in a file."""
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
