"""What commands say on the standard error stream: colors on terminals, what is done, what was fused."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import fork_server
import pytest

from pydispatch.cli.__main__ import main

PROGRAM = """
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = math.exp %a : tensor<8xf32>
  %c = math.absf %b : tensor<8xf32>
  return %c : tensor<8xf32>
}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """What a command writes to a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(words) == 1
    return stream.getvalue()


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "pydispatch: \x1b[1;31merror:\x1b[0m "),
        ({"NO_COLOR": "1"}, "pydispatch: error: "),
        ({"TERM": "dumb"}, "pydispatch: error: "),
    ],
)
def test_errors_are_colored_on_terminals_alone(
    tmp_path: Path, variables: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_a_terminal(["inspect", "missing.pdx"], monkeypatch, **variables).startswith(text)
    ran = fork_server.run(["-m", "pydispatch.cli", "inspect", "missing.pdx"], tmp_path)
    assert ran.stderr.startswith("pydispatch: error: ") and "\x1b" not in ran.stderr


def test_the_place_of_an_error_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.mlir").write_text("func.func @f(")
    found = on_a_terminal(["compile", str(tmp_path / "f.mlir")], monkeypatch)
    assert "f.mlir:1:14: \x1b[1;31merror:\x1b[0m " in found.splitlines()[0], found


def test_what_is_done_and_what_was_fused(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(PROGRAM)
    environment = {**os.environ, "PYDISPATCH_CACHE_SIZE": "0"}

    def said(*words: str) -> str:
        ran = fork_server.run(["-m", "pydispatch.cli", *words], tmp_path, environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stderr

    assert said("compile", "f.mlir") == ""
    explained = said("compile", "f.mlir", "--explain")
    assert "absf" in explained and "exp" in explained
    once, twice = said("compile", "f.mlir", "-v"), said("compile", "f.mlir", "-vv")
    assert "pydispatch.compiler" in once and len(twice.splitlines()) > len(once.splitlines())
    loaded = said("run", "f.pdx", "--input=8xf32=1", "--verbose")
    assert "pydispatch.runtime" in loaded
