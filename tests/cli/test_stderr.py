"""What commands say on the standard error stream: colors on terminals, what is done, what was fused."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = math.exp %a : tensor<8xf32>
  %c = math.absf %b : tensor<8xf32>
  return %c : tensor<8xf32>
}
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pydispatch.cli", *words]


def on_a_terminal(words: list[str], folder: Path, **variables: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | variables
    try:
        subprocess.run(command(*words), stderr=theirs, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return text.decode()
            text += part
    finally:
        os.close(ours)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "pydispatch: \x1b[1;31merror:\x1b[0m "),
        ({"NO_COLOR": "1"}, "pydispatch: error: "),
        ({"TERM": "dumb"}, "pydispatch: error: "),
    ],
)
def test_errors_are_colored_on_terminals_alone(tmp_path: Path, variables: dict[str, str], text: str) -> None:
    assert on_a_terminal(["inspect", "missing.pdx"], tmp_path, **variables).startswith(text)
    ran = subprocess.run(command("inspect", "missing.pdx"), cwd=tmp_path, capture_output=True, text=True)
    assert ran.stderr.startswith("pydispatch: error: ") and "\x1b" not in ran.stderr


def test_the_place_of_an_error_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("func.func @f(")
    found = on_a_terminal(["compile", "f.mlir"], tmp_path)
    assert found.startswith("pydispatch: f.mlir:1:14: \x1b[1;31merror:\x1b[0m "), found


def test_what_is_done_and_what_was_fused(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(PROGRAM)
    environment = {**os.environ, "PYDISPATCH_CACHE_SIZE": "0"}

    def said(*words: str) -> str:
        ran = subprocess.run(command(*words), cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stderr

    assert said("compile", "f.mlir") == ""
    explained = said("compile", "f.mlir", "--explain")
    assert "absf" in explained and "exp" in explained
    once, twice = said("compile", "f.mlir", "-v"), said("compile", "f.mlir", "-vv")
    assert "pydispatch.compiler" in once and len(twice.splitlines()) > len(once.splitlines())
    loaded = said("run", "f.pdx", "--input=8xf32=1", "--verbose")
    assert "pydispatch.runtime" in loaded
