"""`pydispatch check`: which functions run, what is printed, and that a crash is one failed test."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import fork_server
import pytest
from documents import commands

from pydispatch.cli import check as command
from pydispatch.cli.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PASSES = """
func.func @adds() -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %d = arith.addf %c, %c : tensor<4xf32>
  return %d : tensor<4xf32>
}
func.func @takes(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
"""
TRAPS = """
stream.executable private @e {
  stream.executable.export public @f workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @f(%out: !stream.binding) {
      %c0 = arith.constant 0 : index
      %far = arith.constant 70368744177664 : index
      %one = arith.constant 1.0 : f32
      %m = stream.binding.subspan %out[%c0] : !stream.binding -> memref<1xf32>
      memref.store %one, %m[%far] : memref<1xf32>
      return
    }
  }
}
func.func @crashes() -> tensor<1xf32> {
  %r = flow.dispatch @e::@f() : () -> tensor<1xf32>
  return %r : tensor<1xf32>
}
"""


def check(*words):
    return fork_server.run(["-m", "pydispatch.cli", "check", *words])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.mlir").write_text(PASSES)
    return tmp_path


def test_functions_without_arguments_are_tests(folder):
    done = check(folder / "a.mlir")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"ok   {folder}/a.mlir @adds", "1 passed, 0 failed"]


def test_a_file_that_does_not_compile_is_a_failed_test(folder):
    (folder / "b.mlir").write_text("func.func @f() { no.such }")
    done = check(folder, f"--junit={folder}/out.xml")
    assert done.returncode == 1
    assert "b.mlir:1:18: error: operation 'no.such' is not known" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
    suite = ElementTree.parse(folder / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "no.such" in suite.find("testcase/failure").get("message")


def test_a_file_of_several_programs(folder):
    """Lines `// -----` separate programs, in each of which a name may be used again; lines are those of the file."""
    wrong = """
func.func @adds() {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %d = stablehlo.add %c, %c : tensor<2xi32>
  check.expect_eq_const %d, dense<[2, 5]> : tensor<2xi32>
  func.return
}
func.func @subtracts() {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %d = stablehlo.subtract %c, %c : tensor<2xi32>
  check.expect_eq_const %d, dense<0> : tensor<2xi32>
  func.return
}
"""
    text = "\n// -----\n".join(["// RUN: something %s\n", PASSES, wrong, "func.func @f() { no.such }\n"])
    (folder / "a.mlir").write_text(text)
    done = check(folder / "a.mlir")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = text.splitlines().index("  check.expect_eq_const %d, dense<[2, 5]> : tensor<2xi32>") + 1
    assert lines[0] == f"ok   {folder}/a.mlir @adds"
    assert lines[1] == f"FAIL {folder}/a.mlir @adds"
    assert lines[2] == (f"     {folder}/a.mlir:{at}:3: check.expect_eq: element [1] is 4, expected 5; "
                        "1 of 2 elements differ")  # fmt: skip
    assert lines[3] == f"ok   {folder}/a.mlir @subtracts"
    assert f"a.mlir:{len(text.splitlines())}:18: error: operation 'no.such' is not known" in lines[5]
    assert lines[-1] == "2 passed, 2 failed"


@pytest.mark.parametrize("character", ["\f", "\x1c", "\x85", "\u2028"])
def test_only_line_feeds_end_lines(folder, character, capsys):
    """A comment has other characters that Python's splitlines() takes for ends of lines."""
    head = f"// a comment{character}that goes on\n"
    (folder / "a.mlir").write_text(f"{head}// -----\n{head}{PASSES}\n// -----\n{head}func.func @f() {{ no.such }}\n")
    assert main(["check", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok   {folder}/a.mlir @adds" and lines[-1] == "1 passed, 1 failed"
    number_of_lines = (folder / "a.mlir").read_text().count("\n")
    assert f"a.mlir:{number_of_lines}:18: error: operation 'no.such' is not known" in lines[2]


def test_a_crash_is_a_failed_test(folder):
    (folder / "b.mlir").write_text(TRAPS)
    done = check(folder)
    assert done.returncode == 1
    assert "its process was ended by signal 11" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_a_crash_in_the_middle_of_the_outcomes_is_a_failed_test(folder, monkeypatch, capsys):
    class Child(command._Child):
        def _main(self, pipe, args):
            os.write(pipe.fileno(), b"\0\0\1\0half of a message")  # its length, 256, comes first
            os._exit(3)

    monkeypatch.setattr(command, "_Child", Child)
    assert main(["check", str(folder)]) == 1
    assert "its process exited with 3" in capsys.readouterr().out


def test_nothing_to_run(folder):
    done = check(folder / "a.mlir", "--filter=nothing")
    assert done.returncode == 1
    assert "there is no public function without arguments" in done.stderr
    assert done.stdout == "0 passed, 0 failed\n"
    empty = folder / "empty"
    empty.mkdir()
    done = check(empty)
    assert done.returncode == 1 and "no .mlir or .pdx file in this folder" in done.stderr
    done = check(folder / "missing.mlir")
    assert done.returncode == 1 and "missing.mlir" in done.stdout


def test_a_file_that_does_not_end_is_a_failed_test(folder, monkeypatch, capsys):
    (folder / "b.mlir").write_text("""
func.func @forever() {
  %true = util.unfoldable_constant true
  scf.while : () -> () {
    scf.condition(%true)
  } do {
    scf.yield
  }
  return
}
""")
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    class Child(command._Child):
        def receive(self):  # of the other file: only then the time of both is up
            super().receive()
            clock.now = 1e6

    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "_Child", Child)
    assert main(["check", str(folder), "--timeout=1000", "--jobs=2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok   {folder}/a.mlir @adds"
    assert lines[1:3] == [f"FAIL {folder}/b.mlir", "     it was ended after 1000 s (--timeout)"]
    assert lines[-1] == "1 passed, 1 failed"


def test_a_limit_of_no_time(folder):
    done = check(folder, "--timeout=0")
    assert done.returncode == 1 and "--timeout=0: expected more than 0 seconds" in done.stderr


WRONG = """
func.func @wrong() {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %d = stablehlo.add %c, %c : tensor<2xi32>
  check.expect_eq_const %d, dense<[2, 5]> : tensor<2xi32>
  func.return
}
"""


def test_several_devices(folder):
    """Each function runs on each device; lines, counts, the summary and JUnit name the device."""
    (folder / "b.mlir").write_text(WRONG)
    (folder / "c.mlir").write_text("func.func @f() { no.such }")
    options = ("--device=cpu", "--device=vulkan:0", f"--junit={folder}/out.xml", f"--summary={folder}/out.txt")
    done = check(folder, *options)
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stdout.splitlines() if line[:5] in ("ok   ", "FAIL ")]
    assert lines == [
        f"{state} {folder}/{name} on {device}"
        for state, name in (("ok  ", "a.mlir @adds"), ("FAIL", "b.mlir @wrong"), ("FAIL", "c.mlir"))
        for device in ("cpu", "vulkan:0")
    ]
    assert done.stdout.splitlines()[-3:] == [
        "cpu: 1 passed, 2 failed", "vulkan:0: 1 passed, 2 failed", "2 passed, 4 failed"
    ]  # fmt: skip
    summary = (folder / "out.txt").read_text().splitlines()
    differs = "check.expect_eq: element [1] is 4, expected 5; 1 of 2 elements differ"
    unknown = f"{folder}/c.mlir:1:18: error: operation 'no.such' is not known"
    assert [line.removeprefix(f"{folder}/") for line in summary] == [
        "a.mlir adds cpu ok",
        "a.mlir adds vulkan:0 ok",
        f"b.mlir wrong cpu FAIL {folder}/b.mlir:5:3: {differs}",
        f"b.mlir wrong vulkan:0 FAIL {folder}/b.mlir:5:3: {differs}",
        f"c.mlir - cpu FAIL {unknown}",
        f"c.mlir - vulkan:0 FAIL {unknown}",
    ]
    suite = ElementTree.parse(folder / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("6", "4")
    cases = {(case.get("name"), case.find("properties/property").get("value")) for case in suite}
    assert {("adds on cpu", "cpu"), ("adds on vulkan:0", "vulkan:0"), ("compile on cpu", "cpu")} < cases


def test_the_summary_is_the_same_in_each_run_and_order(folder):
    (folder / "b.mlir").write_text(WRONG)
    texts = []
    for files in (("a.mlir", "b.mlir"), ("b.mlir", "a.mlir")):
        done = check(*(folder / name for name in files), f"--summary={folder}/out.txt", "--jobs=1")
        assert done.returncode == 1 and " on " not in done.stdout.partition("\n")[0]
        texts.append((folder / "out.txt").read_text())
    assert texts[0] == texts[1]
    assert texts[0].splitlines()[0] == f"{folder}/a.mlir adds cpu ok"


def test_the_command_of_the_document(folder):
    (words,) = commands("docs/language.md")
    (folder / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    done = fork_server.run(["-m", "pydispatch.cli", *words[1:]], folder)
    assert done.returncode == 0, done.stdout
    summary = (folder / "checks.txt").read_text().splitlines()
    assert summary == sorted(summary) and summary[0].endswith(" cpu ok") and summary[1].endswith(" vulkan:0 ok")
    assert (folder / "checks.xml").is_file()


def test_devices_that_are_wrong(folder):
    done = check(folder, "--device=cpu", "--device=cpu")
    assert done.returncode == 1 and "--device: expected each device once, got cpu, cpu" in done.stderr
    done = check(folder, "--device=cpu", "--device=nowhere:0")
    assert done.returncode == 1
    assert "cpu: 1 passed, 0 failed" in done.stdout and "nowhere:0: 0 passed, 1 failed" in done.stdout
    done = check(folder, f"--summary={folder}/none/out.txt")
    assert done.returncode == 1 and "--summary" in done.stderr
