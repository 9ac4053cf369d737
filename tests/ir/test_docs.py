"""docs/ir.md names every operation of ours, its class and its fields."""

from pathlib import Path

from pydispatch.ir.dialects import (
    arith,
    iree_codegen,
    iree_encoding,
    iree_tensor_ext,
    math,
    ml_program,
    stream,
    tm_tensor,
)
from pydispatch.ir.dialects.affine import dialect as affine
from pydispatch.ir.dialects.check import dialect as check
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.iree_linalg_ext import dialect as linalg_ext
from pydispatch.ir.dialects.linalg import dialect as linalg
from pydispatch.ir.dialects.linalg import named
from pydispatch.ir.dialects.scf.dialect import Scf
from pydispatch.ir.dialects.tensor import dialect as tensor
from pydispatch.ir.dialects.util import dialect as util

DIALECTS = [
    hal.Hal, stream.Stream, flow.Flow, util.Util, iree_codegen.Codegen, iree_tensor_ext.TensorExt, arith.Arith,
    math.Math, affine.Affine, Scf, tensor.Tensor, check.Check, ml_program.MLProgram, linalg.Linalg,
    linalg_ext.LinalgExt, tm_tensor.TMTensor, iree_encoding.Encoding,
]  # fmt: skip


def test_table_is_complete() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ir.md").read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for dialect in DIALECTS:
        for op in dialect.operations:
            if not op.__module__.startswith("pydispatch") or op in named.OPERATIONS:
                continue
            assert f".{op.__name__}`" in rows[op.name]
            definition = op.get_irdl_definition()
            for name, _ in (*definition.operands, *definition.results, *definition.regions):
                assert name in rows[op.name], (op.name, name)


def test_named_operations_are_listed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    for op in named.OPERATIONS:
        assert f"`{op.name.partition('.')[2]}`" in text, op.name
