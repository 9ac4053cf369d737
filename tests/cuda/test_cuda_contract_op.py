"""pyd.mma and pyd.rematerialize: how they are written, what is refused, and which lane has which element."""

from __future__ import annotations

import pytest

import pydispatch.ir as ir
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.pyd.mma import LANES, lane_layout

TEXT = """
func.func @f(%lane: index, %a: memref<32x16xf16, strided<[24, 1]>, 3>,
             %b: memref<16x16xf16, 3>, %c: memref<16xf32, 5>) {
  %again = pyd.rematerialize %lane : index
  pyd.mma %again, %a, %b, %c tensor : memref<32x16xf16, strided<[24, 1]>, 3>, memref<16x16xf16, 3>, memref<16xf32, 5>
  func.return
}
"""

REFUSED = {
    "fma : memref<16x8xf32>, memref<8x32xf32>, memref<8xf32>": "16x32x8 and 8 slots",
    "fma : memref<12x8xf32>, memref<8x32xf32>, memref<12xf32>": "multiples of 16x32x1",
    "fma : memref<16x8xf32>, memref<9x32xf32>, memref<16xf32>": "differ in K",
    "fma : memref<16x8xf16>, memref<8x32xf16>, memref<16xf32>": "pyd.mma fma of f16 into f32",
    "tensor : memref<16x8xf16>, memref<8x16xf16>, memref<8xf32>": "multiples of 16x16x16",
    "tensor : memref<16x16xf32>, memref<16x16xf32>, memref<8xf32>": "pyd.mma tensor of f32 into f32",
    "tensor : memref<16x?xf16>, memref<?x16xf16>, memref<8xf32>": "two static matrices",
    "dot : memref<16x16xf16>, memref<16x16xf16>, memref<8xf32>": "expected fma or tensor",
}


def test_text_comes_back() -> None:
    once = str(ir.parse(TEXT, "m.mlir"))
    assert "pyd.mma" in once and "pyd.rematerialize" in once
    assert str(ir.parse(once, "m.mlir")) == once


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    types = text.split(" : ")[1].split(", ")
    names = ", ".join(f"%{v}: {t}" for v, t in zip("abc", types, strict=True))
    program = f"func.func @f(%l: index, {names}) {{\n  pyd.mma %l, %a, %b, %c {text}\n  func.return\n}}"
    with pytest.raises(CompileError) as caught:
        ir.parse(program, "m.mlir")
    assert REFUSED[text] in str(caught.value)


@pytest.mark.parametrize(("types", "message"), [
    ("memref<2x4xf32>, memref<2x4xf32, 3>", "copies one static row"),
    ("memref<1x?xf32>, memref<1x?xf32, 3>", "copies one static row"),
    ("memref<1x4xf32>, memref<1x2xf32, 3>", "copies one static row"),
    ("memref<1x4xf32>, memref<1x4xi32, 3>", "their elements differ"),
    ("memref<1x3xf32>, memref<1x3xf32, 3>", "copies 4, 8 or 16 bytes"),
    ("memref<1x2xi8>, memref<1x2xi8, 3>", "copies 4, 8 or 16 bytes"),
])  # fmt: skip
def test_asynchronous_copies_that_are_refused(types: str, message: str) -> None:
    source, target = types.split(", ", 1)
    program = f"func.func @f(%a: {source}, %b: {target}) {{\n  pyd.copy_async %a, %b : {types}\n  func.return\n}}"
    with pytest.raises(CompileError, match=message):
        ir.parse(program, "m.mlir")


@pytest.mark.parametrize(
    ("form", "height", "width", "run"),
    [("fma", 32, 64, 4), ("fma", 16, 32, 4), ("fma", 8, 16, 2), ("tensor", 64, 64, 4)],
)
def test_every_element_has_one_place(form: str, height: int, width: int, run: int) -> None:
    layout = lane_layout(form, height, width, run)
    places = {
        (row + lane // layout.across * layout.row_step, column + lane % layout.across * layout.column_step)
        for lane in range(LANES) for row, column in zip(layout.rows, layout.columns, strict=True)
    }  # fmt: skip
    assert len(layout.rows) * LANES == height * width
    assert places == {(i, j) for i in range(height) for j in range(width)}
