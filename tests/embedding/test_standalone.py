"""The C core without Python: the example of examples/embedding/standalone on artifacts of every kind."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "c"), str(ROOT / "csrc")]

import run as c_tests  # noqa: E402
from install import FOLDERS  # noqa: E402

PROGRAM = """
func.func @mul(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xf32>
  %e = tensor.empty(%d) : tensor<?xf32>
  %r = linalg.mul ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @weighted(%a: tensor<3xf32>) -> tensor<3xf32> {
  %w = arith.constant dense<[2.0, 3.0, 4.0]> : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.mul ins(%a, %w : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
"""


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example."""
    return built_alone(ROOT / "examples" / "embedding" / "standalone" / "main.c", tmp_path_factory.mktemp("standalone"))


def built_alone(source: Path, folder: Path) -> Path:
    """A program, built with csrc, with ASAN and UBSAN, without anything of Python."""
    binary = folder / source.stem
    files = [Path(p) for p in c_tests.library([*FOLDERS])]
    assert not c_tests.compile_objects((file, "asan") for file in files)
    objects = [str(c_tests.object_of(file, "asan")) for file in files]
    options = [*c_tests.BASE, *c_tests.MODES["asan"], "-pthread", "-ldl", "-lm"]
    command = [c_tests.CC, str(source), *objects, *options, "-o", str(binary)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert not built.returncode, built.stderr
    return binary


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "program.pdx"
    pd.compile(PROGRAM).save(path)
    return path


def run(main: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **c_tests.ENVIRONMENT}
    return subprocess.run([main, *arguments], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize(("function", "expected"), [("mul", "1 4 2.25"), ("weighted", "2 6 6")])
def test_a_file_is_loaded_and_called(main: Path, artifact: Path, function: str, expected: str) -> None:
    ran = run(main, artifact, function, "1", "2", "1.5")
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, expected.split(), "")


def test_nothing_of_python_is_linked(main: Path) -> None:
    symbols = subprocess.run(["nm", "--undefined-only", main], capture_output=True, text=True, check=True).stdout
    assert "malloc" in symbols
    assert not [line for line in symbols.split() if line.startswith(("Py", "_Py"))]


def test_faults_are_named(main: Path, artifact: Path, tmp_path: Path) -> None:
    ran = run(main, artifact, "mull", "1")
    assert ran.returncode == 1 and "no function 'mull'. It has: mul, weighted" in ran.stderr
    ran = run(main, tmp_path / "none.pdx", "mul")
    assert ran.returncode == 1 and ran.stderr.startswith("8: ") and "none.pdx" in ran.stderr
    broken = tmp_path / "broken.pdx"
    broken.write_bytes(artifact.read_bytes()[:-100])
    ran = run(main, broken, "mul")
    assert ran.returncode == 1 and ran.stderr.startswith("2: ") and "broken.pdx" in ran.stderr
    data = bytearray(artifact.read_bytes())
    data[data.index(b"PDXP") + 40] ^= 1
    broken.write_bytes(data)
    ran = run(main, broken, "mul")
    assert ran.returncode == 1 and "program.bin" in ran.stderr


PARTS = """
util.func private @command(%x: tensor<?xf32>) -> %x
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
util.global private @b = #flow.parameter.named<"model"::"b"> : tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @w : tensor<4xf32>
  %b = util.global.load @b : tensor<4xf32>
  %y = arith.mulf %x, %w : tensor<4xf32>
  %z = arith.addf %y, %b : tensor<4xf32>
  %d = tensor.cast %z : tensor<4xf32> to tensor<?xf32>
  %r = util.call @command(%d) : (tensor<?xf32>) -> %d
  %s = tensor.cast %r : tensor<?xf32> to tensor<4xf32>
  return %s : tensor<4xf32>
}
"""


def safetensors(shape: list[int]) -> bytes:
    """A file with the tensor b: ones."""
    data = b"\0\0\x80\x3f" * math.prod(shape)
    header = json.dumps({"b": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


def test_commands_and_parameters_come_from_c(tmp_path: Path) -> None:
    parts = built_alone(ROOT / "tests" / "embedding" / "standalone_parts.c", tmp_path)
    program, weights = tmp_path / "parts.pdx", tmp_path / "w.safetensors"
    pd.compile(PARTS).save(program)
    weights.write_bytes(safetensors([4]))
    ran = run(parts, program, weights)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert ran.stdout == "22 82 182 322, 1 call, 2 released\n"
    ran = run(parts, program, weights, "without the command")
    assert ran.returncode == 1 and ran.stderr.startswith("4 [command] ")
    assert "host commands that nothing provides" in ran.stderr
    weights.write_bytes(safetensors([5]))
    ran = run(parts, program, weights)
    assert ran.returncode == 1 and "parameter 'b' of scope 'model'" in ran.stderr
    assert "axis 0: the tensor has 4 elements, the memory has 5" in ran.stderr
    weights.write_bytes(safetensors([4])[:-1])
    ran = run(parts, program, weights)
    assert ran.returncode == 1 and "two offsets within the file" in ran.stderr
