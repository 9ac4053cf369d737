"""An operation on tensors of another package: a dialect and one rule class, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A package as a stranger writes it: the operation for xDSL, its rule, and what registers both.
PACKAGE = """
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def

from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.ir.values import Dim


@irdl_op_definition
class ReverseOp(IRDLOperation):
    name = "acme.reverse"
    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = "$input `axis` $axis attr-dict `:` type($input) `->` type($result)"


Acme = Dialect("acme", [ReverseOp], [])


class Reverse(TensorOp):
    name = "acme.reverse"
    view = True

    def size(self, op, result, axis):
        return Dim(op.input, axis)

    def element(self, e, build, op, result, indices):
        axis = op.axis.value.data
        last = build.minus(e.dims(op.input)[axis], 1)
        indices[axis] = build.minus(last, indices[axis])
        return e.at(build, op.input, indices)


RULES = [Reverse]


def register(extensions):
    extensions.dialect("acme", "mirrors:Acme")
    extensions.tensor_operations("mirrors:RULES")
"""

PROGRAM = """
func.func @static(%x: tensor<5x6xf32>, %y: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %0 = math.sqrt %x : tensor<5x6xf32>
  %1 = acme.reverse %0 axis 1 : i32 : tensor<5x6xf32> -> tensor<5x6xf32>
  %2 = arith.addf %1, %y : tensor<5x6xf32>
  return %2 : tensor<5x6xf32>
}
func.func @dynamic(%x: tensor<?x?xi32>) -> tensor<?x?xi32> {
  %0 = arith.addi %x, %x : tensor<?x?xi32>
  %1 = acme.reverse %0 axis 0 : i32 : tensor<?x?xi32> -> tensor<?x?xi32>
  %2 = arith.subi %1, %x : tensor<?x?xi32>
  return %2 : tensor<?x?xi32>
}
func.func @rows(%x: tensor<?x7xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %0 = acme.reverse %x axis 0 : i32 : tensor<?x7xf32> -> tensor<?x7xf32>
  %n = tensor.dim %0, %c0 : tensor<?x7xf32>
  %init = tensor.splat %zero[%n] : tensor<?xf32>
  %1 = linalg.reduce ins(%0 : tensor<?x7xf32>) outs(%init : tensor<?xf32>) dimensions = [1]
    (%in: f32, %out: f32) { %s = arith.addf %in, %out : f32  linalg.yield %s : f32 }
  %2 = acme.reverse %1 axis 0 : i32 : tensor<?xf32> -> tensor<?xf32>
  return %2 : tensor<?xf32>
}
func.func @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = acme.reverse %x axis 0 : i32 : tensor<4xf32> -> tensor<4xf32>
  return %x : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed in."""
    folder = tmp_path_factory.mktemp("mirrors")
    return install(folder, "mirrors", PACKAGE)


def install(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.py").write_text(text)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pydispatch.extensions]\n{name} = {name}:register\n")
    return folder


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python code beside the package, where `program` is compiled."""
    begin = f"import numpy as np, pydispatch as pd\nartifact = pd.compile('''{PROGRAM}''')\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    environment.pop("PYDISPATCH_EXTENSIONS", None)
    return subprocess.run(
        [sys.executable, "-c", begin + code], env=environment, capture_output=True, text=True, timeout=300
    )


def check(folder: Path, code: str) -> None:
    done = run(folder, f"program = pd.device('cpu').load(artifact)\n{code}")
    assert done.returncode == 0, done.stderr


def test_values(folder: Path) -> None:
    check(
        folder,
        """
random = np.random.default_rng(0)
x, y = random.random((2, 5, 6), np.float32)
np.testing.assert_allclose(program.static(x, y), np.sqrt(x)[:, ::-1] + y, rtol=1e-6)
for rows, columns in ((1, 1), (4, 3), (129, 65), (0, 3), (3, 0)):
    x = random.integers(-99, 99, (rows, columns), np.int32)
    np.testing.assert_array_equal(program.dynamic(x), (2 * x)[::-1] - x)
for rows in (1, 2, 1000):
    x = random.random((rows, 7), np.float32)
    np.testing.assert_allclose(program.rows(x), x.sum(1), rtol=1e-5)
assert (program.unused(np.arange(4, dtype=np.float32)) == np.arange(4)).all()
""",
    )


def test_it_is_fused_with_its_neighbours(folder: Path) -> None:
    check(
        folder,
        """
names = [name for d in artifact.executables for name in d.exports]
assert len(names) == 3, names  # one for each function that computes something
""",
    )


def test_an_unused_one_is_dropped(folder: Path) -> None:
    check(
        folder,
        """
assert not [name for d in artifact.executables for name in d.exports if "unused" in name]
""",
    )


def test_two_rules_for_one_operation(tmp_path: Path) -> None:
    text = PACKAGE + "\nReverse.name = 'tensor.pad'\n"
    done = run(install(tmp_path, "mirrors", text), "")
    assert "the rule of 'tensor.pad' is both in pydispatch" in done.stderr
    assert "package mirrors 1.0" in done.stderr


def test_without_a_rule(tmp_path: Path) -> None:
    text = PACKAGE.replace("    extensions.tensor_operations", "    # ")
    done = run(install(tmp_path, "mirrors", text), "")
    assert "'acme.reverse' is not supported in host code" in done.stderr
