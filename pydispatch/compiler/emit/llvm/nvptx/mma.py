"""pyd.mma: what one of 32 invocations does of a block of a matrix product, as NVPTX code of LLVM.

`fma`: for each step some loads of 16 bytes from workgroup memory, and a multiply-add for each accumulator.
`tensor`: `ldmatrix` and `mma.sync` of 16x8x16 (16x8x8 on sm_75), with exact products and f32 sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, StringAttr
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.types import memory, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.types import bit_width, is_float
from pydispatch.ir.dialects.pyd.mma import lane_layout, run_of

WIDE = 16
"""Bytes of the widest load."""


def _mma(f: FunctionEmitter, op: Operation) -> None:
    lane = f.index(op.operands[0])
    a, b, c = (f.memref(operand) for operand in op.operands[1:])
    if cast(StringAttr, attribute(op, "form")).data == "tensor":
        _tensor(f, lane, a, b, c)
    else:
        _fma(f, lane, a, b, c)


def _offset(f: FunctionEmitter, m: MemRef, row: Index, column: Index) -> Index:
    body = f.body
    return body.plus(m.offset, body.plus(body.times(row, m.strides[0]), body.times(column, m.strides[1])))


def _pointer(f: FunctionEmitter, m: MemRef, base: str, offset: Index) -> str:
    return base if offset == 0 else f.body.let(f"getelementptr inbounds {memory(m.element)}, ptr {base}, i64 {offset}")


def _sums(f: FunctionEmitter, c: MemRef) -> tuple[list[str], list[str]]:
    """(places, values) of the accumulators."""
    count, type_ = c.sizes[0], scalar(c.element)
    assert isinstance(count, int)
    places = [_pointer(f, c, c.aligned, f.body.plus(c.offset, slot)) for slot in range(count)]
    align = bit_width(c.element) // 8
    return places, [f.body.let(f"load {type_}, ptr {place}, align {align}") for place in places]


def _write(f: FunctionEmitter, c: MemRef, places: Sequence[str], values: Sequence[str]) -> None:
    type_, align = scalar(c.element), bit_width(c.element) // 8
    for place, value in zip(places, values, strict=True):
        f.body.emit(f"store {type_} {value}, ptr {place}, align {align}")


# Multiply-adds


def _fma(f: FunctionEmitter, lane: Index, a: MemRef, b: MemRef, c: MemRef) -> None:
    body, run = f.body, run_of(bit_width(c.element))
    (rows, depth), columns = a.sizes, b.sizes[1]
    assert isinstance(rows, int) and isinstance(depth, int) and isinstance(columns, int)
    layout = lane_layout("fma", rows, columns, run)
    row = body.times(body.shift_right(lane, 3), layout.down)
    column = body.times(body.low_bits(lane, 7), layout.right)
    left = _pointer(f, a, a.aligned, _offset(f, a, row, 0))
    right = _pointer(f, b, b.aligned, _offset(f, b, 0, column))
    places, sums = _sums(f, c)
    groups = [sorted(set(r - r % run for r in found)) for found in (layout.rows, layout.columns)]
    for step in range(depth):
        factors = [
            {first + i: value for first in starts for i, value in enumerate(_run(f, m, base, along, step, first, run))}
            for m, base, along, starts in ((a, left, 0, groups[0]), (b, right, 1, groups[1]))
        ]
        for slot, (i, j) in enumerate(zip(layout.rows, layout.columns, strict=True)):
            sums[slot] = _multiply_add(f, c, factors[0][i], factors[1][j], sums[slot])
    _write(f, c, places, sums)


def _run(f: FunctionEmitter, m: MemRef, base: str, along: int, step: int, first: int, run: int) -> list[str]:
    """Load neighbours of a row or column, by one load where they are contiguous."""
    stride, across = m.strides[along], m.strides[1 - along]
    assert isinstance(stride, int) and isinstance(across, int)
    type_, size = scalar(m.element), bit_width(m.element) // 8
    if stride == 1:
        place = _pointer(f, m, base, step * across + first)
        vector = f"<{run} x {type_}>"
        wide = f.body.let(f"load {vector}, ptr {place}, align {min(WIDE, run * size)}{f.access(m)}")
        return [f.body.let(f"extractelement {vector} {wide}, i64 {i}") for i in range(run)]
    places = [_pointer(f, m, base, step * across + (first + i) * stride) for i in range(run)]
    return [f.body.let(f"load {type_}, ptr {place}, align {size}{f.access(m)}") for place in places]


def _multiply_add(f: FunctionEmitter, c: MemRef, a: str, b: str, sum_: str) -> str:
    type_ = scalar(c.element)
    if is_float(c.element):
        name = f"llvm.fma.f{bit_width(c.element)}"
        return f.intrinsic(name, type_, (type_, a), (type_, b), (type_, sum_))
    return f.body.let(f"add {type_} {sum_}, {f.body.let(f'mul {type_} {a}, {b}')}")


# Tensor cores


def _tensor(f: FunctionEmitter, lane: Index, a: MemRef, b: MemRef, c: MemRef) -> None:
    (rows, depth), columns = a.sizes, b.sizes[1]
    assert isinstance(rows, int) and isinstance(depth, int) and isinstance(columns, int)
    places, sums = _sums(f, c)
    left, right = _matrices(f, a, lane), _matrices(f, b, lane)
    for step in range(0, depth, 16):
        strips = [_fragment(f, a, left, i, step, a.strides[0] == 1) for i in range(0, rows, 16)]
        pairs = [_fragment(f, b, right, step, j, b.strides[0] != 1) for j in range(0, columns, 16)]
        blocks = [pair[2 * half : 2 * half + 2] for pair in pairs for half in range(2)]
        for i, strip in enumerate(strips):
            for j, block in enumerate(blocks):
                slot = 4 * (i * len(blocks) + j)
                sums[slot : slot + 4] = _product(f, a, strip, block, sums[slot : slot + 4])
    _write(f, c, places, sums)


def _matrices(f: FunctionEmitter, m: MemRef, lane: Index) -> str:
    """Emit the pointer that a lane passes to `ldmatrix`: to the start of a line of eight neighbours in a matrix of 8x8.

    Four matrices are 16x16 elements; the first two are neighbours along the first dimension.
    """
    body = f.body
    next_ = body.times(body.shift_right(lane, 4), 8)
    if m.strides[1] == 1:
        row, column = body.low_bits(lane, 15), next_
    else:
        row = body.times(body.low_bits(body.shift_right(lane, 3), 1), 8)
        column = body.plus(body.low_bits(lane, 7), next_)
    place = _pointer(f, m, m.aligned, _offset(f, m, row, column))
    return body.let(f"addrspacecast ptr {place} to ptr addrspace(3)")


def _fragment(f: FunctionEmitter, m: MemRef, base: str, row: int, column: int, turned: bool) -> list[str]:
    """Load four registers with the 16x16 elements from (row, column) on. turned: lines go across what a register holds.
    """
    offset = row * cast(int, m.strides[0]) + column * cast(int, m.strides[1])
    place = base
    if offset:
        place = f.body.let(f"getelementptr inbounds {memory(m.element)}, ptr addrspace(3) {base}, i64 {offset}")
    type_, trans = "{ i32, i32, i32, i32 }", ".trans" if turned else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{trans}.b16.p3"
    four = f.intrinsic(name, type_, ("ptr addrspace(3)", place))
    return [f.body.let(f"extractvalue {type_} {four}, {i}") for i in range(4)]


def _product(f: FunctionEmitter, m: MemRef, a: Sequence[str], b: Sequence[str], sums: Sequence[str]) -> list[str]:
    """16x8 sums with 16 products each; sm_75 does eight at a time."""
    if "sm_75" in f.platform.features and len(b) == 2:
        return _product(f, m, a[2:], b[1:], _product(f, m, a[:2], b[:1], sums))
    if isinstance(m.element, BFloat16Type):
        name, type_, given = "llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32", [*a, *b]
    else:
        name, type_ = f"llvm.nvvm.mma.m16n8k{8 * len(b)}.row.col.f32.f32", "<2 x half>"
        given = [f.body.let(f"bitcast i32 {word} to {type_}") for word in (*a, *b)]
    result = "{ float, float, float, float }"
    arguments = [(type_, value) for value in given] + [("float", value) for value in sums]
    four = f.intrinsic(name, result, *arguments)
    return [f.body.let(f"extractvalue {result} {four}, {i}") for i in range(4)]


def _rematerialize(f: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.rematerialize` to a move in inline assembly, which LLVM cannot look through."""
    word = f.body.let(f"trunc i64 {f.get(op.operands[0])} to i32")
    same = f.body.let(f'call i32 asm sideeffect "mov.b32 $0, $1;", "=r,r"(i32 {word})')
    f.define(op.results[0], f.body.let(f"zext i32 {same} to i64"))


ROWS: dict[str, Lowering] = {"pyd.mma": _mma, "pyd.rematerialize": _rematerialize}
