"""Every option of every subcommand with wrong values: an exit code and a message, never a traceback, never a hang."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pydispatch.cli.__main__ import _parser, main

PROGRAM = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
VALUES = ("", "x", "-1", "9" * 30, "٣", "\udcff", "/dev/full", "/dev/zero", "pipe", "missing/x", "=",
          "@/dev/zero", "@pipe",
          "4xf32=@/dev/zero", "4xf٣2=1", "4xf32=٣", "99999999999999xf32", "nan")  # fmt: skip
WORDS = {
    "compile": ["p.mlir", "-o", "o.pdx"], "run": ["p.pdx", "--input=4xf32=1"], "check": ["p.mlir", "--jobs=1"],
    "export": ["p.pdx", "--web", "-osite"], "inspect": ["p.pdx"], "match": ["p.mlir"], "devices": ["cpu"],
    "completion": ["bash"], "stubgen": ["p.pdx"],
    "fatelf join": ["p.pdx"], "fatelf dump": ["p.pdx"],
    "fatelf split": ["p.pdx"], "fatelf select": ["p.pdx"],
    "bench": ["p.pdx", "--input=4xf32=1", "--seconds=0.001", "--warm-up=0"],
}  # fmt: skip
SLOW = ("dump", "compile_to", "output")  # these compile first: fewer values
WRITES = ("output", "junit", "json", "plot", "summary", "trace")  # a pipe without a reader makes them wait


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("values")
    (made / "p.mlir").write_text(PROGRAM)
    os.mkfifo(made / "pipe")
    assert main(["compile", str(made / "p.mlir")]) == 0
    return made


def _subcommands() -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for name, parser in _verbs(_parser(None)).items():
        verbs = _verbs(parser)
        found |= {f"{name} {verb}": inner for verb, inner in verbs.items()} or {name: parser}
    return found


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def test_every_subcommand_is_here() -> None:
    known = {*WORDS, "plugin build"}  # which needs a C compiler for each value
    missing, gone = sorted(_subcommands().keys() - known), sorted(known - _subcommands().keys())
    assert not missing, f"add to WORDS what {', '.join(missing)} is called with in a folder with p.mlir and p.pdx"
    assert not gone, f"there is no subcommand {', '.join(gone)}: remove it from WORDS"


@pytest.mark.parametrize("command", WORDS)
def test_wrong_values(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    faults = []
    for action in _subcommands()[command]._actions:
        if action.nargs == 0:
            continue
        values = VALUES[5:9] if action.dest in SLOW and command != "run" else VALUES
        for value in values:
            if action.dest in WRITES and "pipe" in value:
                continue
            base = WORDS[command]
            flag = next((o for o in action.option_strings if o.startswith("--")), None)
            words = [*command.split(), *base, f"{flag}={value}"] if flag else [*command.split(), value, *base[1:]]
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))  # as stderr is
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setattr(sys, "stderr", err)
            try:
                code: object = main(words)
            except SystemExit as error:
                code = error.code
            except Exception as error:
                faults.append(f"{words}: {type(error).__name__}: {error}")
                continue
            err.flush()
            out.flush()
            told, printed = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (err, out))
            if code not in (0, 1, 2) or "Traceback" in told or (code and not told + printed):
                faults.append(f"{words!r}: exit code {code}: {told}")
            if "[Errno" in told:
                faults.append(f"{words!r}: a number in place of words: {told}")
    (folder / "p.mlir").write_text(PROGRAM)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("words", [["run", "p.pdx", "--input=4xf32=1"], ["inspect", "p.pdx"], ["devices", "cpu"]])
def test_output_that_cannot_be_written(words: list[str], folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pydispatch.cli.__main__", *words], stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder,  # noqa: E501
            check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip() == "pydispatch: error: cannot write standard output: No space left on device"


def test_a_reader_that_has_seen_enough(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "pydispatch.cli.__main__", "inspect", "p.pdx"], stdout=writer, stderr=subprocess.PIPE, cwd=folder,  # noqa: E501
        check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
