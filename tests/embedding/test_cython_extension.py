"""The Cython extension of docs/embedding.md, built in a folder of its own against this copy of pydispatch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from embedding_build import ROOT, import_file

import pydispatch as pd
from pydispatch import include_folders

PROGRAM = """func.func @mixed_invocation(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %a, %b : tensor<?xf32>
  return %r : tensor<?xf32>
}"""


def documented(language: str, part: str) -> str:
    """The first block of code of a language that has a text in it."""
    text = (ROOT / "docs" / "embedding.md").read_text()
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if part in block)


def test_the_documented_extension_builds_and_runs(tmp_path: Path) -> None:
    (tmp_path / "short_cython.pyx").write_text(documented("cython", "def run(program"))
    setup = documented("python", "get_cython_include").replace(
        'Extension("short_c", ["short_c.c"], include_dirs=include),', ""
    )
    (tmp_path / "setup.py").write_text(setup)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "CFLAGS": "-O0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("short_cython.*.so")
    a, b = np.arange(8, dtype=np.float32), np.full(8, 2, np.float32)
    out = np.empty(8, np.float32)
    import_file(built).run(pd.device("cpu").load(pd.compile(PROGRAM)), a, b, out)
    np.testing.assert_array_equal(out, (a * b) ** 2)


def test_a_checkout_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links are made in a temporary folder then; a broken link is replaced."""
    place = tmp_path / "build"
    sources = Path(pd.get_cython_include()) / "pydispatch" / "_core"
    assert (sources / "capi.pxd").is_file()
    (place / "pydispatch").mkdir(parents=True)
    (place / "pydispatch" / "_core").symlink_to(tmp_path / "gone")
    assert include_folders._linked(place, sources.resolve()) == str(place)
    assert (place / "pydispatch" / "_core" / "capi.pxd").is_file()

    def refuse(path: Path, sources: Path) -> str:
        if path.name == "cyview":
            raise PermissionError(13, "read-only")
        return linked(path, sources)

    linked = include_folders._linked
    monkeypatch.setattr(include_folders, "_linked", refuse)
    assert (Path(pd.get_cython_include()) / "pydispatch" / "_core" / "capi.pxd").is_file()
