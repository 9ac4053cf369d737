"""pyd.transpose: rows are loaded as vectors, exchanged with each other at halving distances, and stored as columns."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import address, vector_bits
from pydispatch.compiler.emit.llvm.types import memory
from pydispatch.compiler.emit.llvm.values import MemRef
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import alignment, bit_width

MOST_LANES = 16
"""Rows of a square that is turned in registers: with more, they would not fit."""


def _transpose(f: FunctionEmitter, op: Operation) -> None:
    source, target = (f.memref(operand) for operand in op.operands)
    if target.read_only:
        raise f.error("pyd.transpose into a binding that is only read", READ_ONLY_NOTE)
    if bit_width(source.element) % 8:
        raise f.error(f"pyd.transpose moves whole bytes, got {source.element}")
    if source.strides[1] != 1 or target.strides[1] != 1:
        raise f.error("pyd.transpose needs rows that are contiguous in both of its operands")
    rows, columns = source.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    side = min(MOST_LANES, vector_bits(f) // bit_width(source.element))
    while rows % side or columns % side:
        side //= 2
    for row in range(0, rows, side):
        for column in range(0, columns, side):
            _square(f, source, target, row, column, side)


def _square(f: FunctionEmitter, source: MemRef, target: MemRef, row: int, column: int, side: int) -> None:
    type_, align = f"<{side} x {memory(source.element)}>", alignment(source.element)
    values = [
        f.body.let(f"load {type_}, ptr {address(f, source, row + i, column)}, align {align}{f.access(source)}")
        for i in range(side)
    ]
    distance = side // 2
    while distance:
        for i in range(side):
            if not i & distance:
                values[i], values[i + distance] = _exchange(f, type_, values[i], values[i + distance], side, distance)
        distance //= 2
    for i, value in enumerate(values):
        f.body.emit(
            f"store {type_} {value}, ptr {address(f, target, column + i, row)}, align {align}{f.access(target)}"
        )


def _exchange(f: FunctionEmitter, type_: str, low: str, high: str, side: int, distance: int) -> tuple[str, str]:
    """Return two rows `distance` apart with their off-diagonal squares exchanged."""
    upper = [c if not c & distance else side + c - distance for c in range(side)]
    lower = [c + distance if not c & distance else side + c for c in range(side)]
    return _shuffled(f, type_, low, high, upper), _shuffled(f, type_, low, high, lower)


def _shuffled(f: FunctionEmitter, type_: str, a: str, b: str, lanes: list[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return f.body.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(lanes)} x i32> <{mask}>")


ROWS: dict[str, Lowering] = {"pyd.transpose": _transpose}
