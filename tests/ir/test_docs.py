"""docs/ir.md names every operation of ours, its class and its fields."""

from pathlib import Path

from pydispatch.compiler import operations
from pydispatch.ir import (
    affine,
    arith,
    check,
    codegen,
    flow,
    hal,
    linalg,
    linalg_named,
    math,
    ml_program,
    scf,
    stream,
    tensor,
    tensor_ext,
    util,
)

DIALECTS = [
    hal.Hal, stream.Stream, flow.Flow, util.Util, codegen.Codegen, tensor_ext.TensorExt, arith.Arith, math.Math,
    affine.Affine, scf.Scf, tensor.Tensor, check.Check, ml_program.MLProgram, linalg.Linalg,
]  # fmt: skip


def test_table_is_complete() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ir.md").read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for dialect in DIALECTS:
        for op in dialect.operations:
            if not op.__module__.startswith("pydispatch") or op in linalg_named.OPERATIONS:
                continue
            assert f".{op.__name__}`" in rows[op.name]
            definition = op.get_irdl_definition()
            for name, _ in (*definition.operands, *definition.results, *definition.regions):
                assert name in rows[op.name], (op.name, name)


def test_named_operations_are_listed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    for op in linalg_named.OPERATIONS:
        assert f"`{op.name.partition('.')[2]}`" in text, op.name


def test_the_list_of_operations_is_that_of_the_tables() -> None:
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    assert text[text.index(operations.HEADING) :] == operations.chapter(), (
        "docs/language.md ends with what `python -m pydispatch.compiler.operations` prints"
    )
