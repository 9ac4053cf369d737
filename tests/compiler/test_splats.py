"""Constants whose elements are all equal take the memory of one element, from the source to the artifact."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.driver.pipeline import compile_to

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends" / "onnx"))
from wire import model, node, tensor, value

SIZE = 1 << 23
"""Elements of the constants."""
MOST_BYTES = SIZE * 4 // 2
T = f"tensor<{SIZE}xf32>"

MLIR = f"""func.func @main(%x: {T}) -> {T} {{
  %c = arith.constant dense<1.5> : {T}
  %d = arith.addf %c, %c : {T}
  %e = arith.addf %d, %x : {T}
  return %e : {T}
}}"""
STABLEHLO = f"""func.func @main(%x: {T}) -> {T} {{
  %c = stablehlo.constant dense<1.5> : {T}
  %d = stablehlo.add %c, %c : {T}
  %e = stablehlo.add %d, %x : {T}
  return %e : {T}
}}"""
BLOB = MLIR.replace("dense<1.5>", 'dense<"0x0000C03F">')
SIZES = tensor("s", [1], 7, (9, np.int64(SIZE).tobytes()))
FILL = tensor("f", [1], 1, (9, np.float32(1.5).tobytes()))


def onnx(folder: Path) -> Path:
    """Return the file of a model that adds a ConstantOfShape to itself and to its input."""
    nodes = [node("Expand", ["f", "s"], ["c"]), node("Add", ["c", "c"], ["d"]), node("Add", ["d", "x"], ["y"])]
    path = folder / "splat.onnx"
    path.write_bytes(model(nodes, [value("x", SIZE)], [value("y", SIZE)], [SIZES, FILL]))
    return path


@pytest.mark.parametrize("source", [MLIR, BLOB, STABLEHLO, "onnx"], ids=["arith", "blob", "stablehlo", "onnx"])
def test_large_splats_are_not_expanded(source: str, tmp_path: Path) -> None:
    given = onnx(tmp_path) if source == "onnx" else source
    tracemalloc.start()
    try:
        compile_to("executables", given)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    artifact = pd.compile(given)
    assert most < MOST_BYTES and len(artifact.to_bytes()) < MOST_BYTES
    program = pd.device("cpu").load(artifact)
    made = next(iter(program.functions.values()))(np.arange(SIZE, dtype=np.float32))
    assert made[0] == 3 and made[-1] == np.float32(SIZE + 2)


def test_a_large_splat_that_is_a_result() -> None:
    t = "tensor<2048xi8>"
    text = f"func.func @main() -> {t} {{ %c = arith.constant dense<-3> : {t}\nreturn %c : {t} }}"
    assert ir.parse(text).is_structurally_equivalent(ir.parse(ir.print_module(ir.parse(text))))
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text)).main(), np.full(2048, -3, np.int8))
