"""Lowering of `pyd.mma` to NVPTX: the share of one of 32 invocations in a block of a matrix product.

`fma`: for each step some loads of 16 bytes from workgroup memory, and a multiply-add for each accumulator.
`tensor`: `ldmatrix` and `mma.sync` of 16x8x16 (16x8x8 on sm_75), with exact products and f32 sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, StringAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.nvptx.generation import generation_of, require_generation
from pydispatch.compiler.emit.llvm.types import memory_type_of, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.types import bit_width, is_float
from pydispatch.ir.dialects.pyd.mma import adjacent_elements_of, lane_layout

_SIDE, _LANE_SUMS = 16, 4
"""Rows, columns and steps of K of the fragments of A and B, which are square; and sums of an instruction per lane."""

WIDE = 16
"""Bytes of the widest load."""

_FIRST_GENERATION = {"f16": 75, "bf16": 80}
"""Element type -> number of the first architecture whose tensor cores `ldmatrix` and `mma.sync` support for it."""
_SHORT_GENERATION = 75
"""Number of the architecture whose tensor cores take 8 steps of K; newer ones take 16."""


def _mma(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.mma`: the share of one lane of a warp in C += A @ B for a block, by tensor cores or multiply-adds.

    Operands are the lane, A and B in workgroup memory, and the sums that the lane holds as a memref of one dimension.
    """
    lane = emitter.index(op.operands[0])
    a, b, c = (emitter.memref(operand) for operand in op.operands[1:])
    if cast(StringAttr, attribute(op, "form")).data == "tensor":
        _tensor(emitter, lane, a, b, c)
    else:
        _fma(emitter, lane, a, b, c)


def _offset(emitter: FunctionEmitter, memref: MemRef, row: Index, column: Index) -> Index:
    """Return the offset of the element at a row and a column, in elements."""
    body = emitter.body
    return body.plus(
        memref.offset, body.plus(body.times(row, memref.strides[0]), body.times(column, memref.strides[1]))
    )


def _pointer(emitter: FunctionEmitter, memref: MemRef, base: str, offset: Index) -> str:
    """Emit a pointer to the element at `offset` from `base`, in elements."""
    if offset == 0:
        return base
    return emitter.body.let(f"getelementptr inbounds {memory_type_of(memref.element)}, ptr {base}, i64 {offset}")


def _load_sums(emitter: FunctionEmitter, memref: MemRef) -> tuple[list[str], list[str]]:
    """Emit the loads of a lane's sums, the elements of `memref`, and return (their addresses, their values)."""
    count, type_ = memref.sizes[0], scalar(memref.element)
    assert isinstance(count, int)
    addresses = [
        _pointer(emitter, memref, memref.aligned, emitter.body.plus(memref.offset, slot)) for slot in range(count)
    ]
    align = bit_width(memref.element) // 8
    return addresses, [emitter.body.let(f"load {type_}, ptr {address}, align {align}") for address in addresses]


def _store_sums(emitter: FunctionEmitter, memref: MemRef, addresses: Sequence[str], values: Sequence[str]) -> None:
    """Emit the stores of a lane's sums, `values`, to the `addresses` that they were loaded from, in `memref`."""
    type_, align = scalar(memref.element), bit_width(memref.element) // 8
    for address, value in zip(addresses, values, strict=True):
        emitter.body.emit(f"store {type_} {value}, ptr {address}, align {align}")


# Multiply-adds


def _fma(emitter: FunctionEmitter, lane: Index, lhs: MemRef, rhs: MemRef, accumulator: MemRef) -> None:
    """Emit one lane's share of the product of a block, C += A @ B, as scalar multiply-adds.

    A lane is one of the 32 invocations of a warp. `lane_layout` distributes C: lanes are arranged in 4 rows of 8, each
    has `run` x `run` adjacent elements, and this repeats over the block. With f32, `run` is 4: lane 9, in row 1 and
    column 1 of the lanes, has C[4..7, 4..7]; in a block of 32x32 it also has C[20..23, 4..7].

    Args:
        emitter: Emitter of the function.
        lane: Index of the invocation in its warp.
        lhs: A, of shape [rows, steps of K].
        rhs: B, of shape [steps of K, columns].
        accumulator: The sums that the lane holds, of one dimension, in the order of the slots of `lane_layout`.
    """
    body, run = emitter.body, adjacent_elements_of(bit_width(accumulator.element))
    (rows, depth), columns = lhs.sizes, rhs.sizes[1]
    assert isinstance(rows, int) and isinstance(depth, int) and isinstance(columns, int)
    layout = lane_layout("fma", rows, columns, run)
    # The first row and column of C that the lane has: (lane // 8) * row_step and (lane % 8) * column_step.
    row = body.times(body.shift_right(lane, 3), layout.row_step)
    column = body.times(body.low_bits(lane, 7), layout.column_step)
    row_pointer = _pointer(emitter, lhs, lhs.aligned, _offset(emitter, lhs, row, column=0))
    column_pointer = _pointer(emitter, rhs, rhs.aligned, _offset(emitter, rhs, row=0, column=column))
    left = _LaneFactor(emitter, lhs, row_pointer, dim=0, offsets=layout.rows, run=run)
    right = _LaneFactor(emitter, rhs, column_pointer, dim=1, offsets=layout.columns, run=run)
    sum_addresses, sums = _load_sums(emitter, accumulator)
    for step in range(depth):
        row_factors, column_factors = left.load(step), right.load(step)
        for slot, (i, j) in enumerate(zip(layout.rows, layout.columns, strict=True)):
            sums[slot] = _multiply_add(emitter, accumulator, row_factors[i], column_factors[j], sums[slot])
    _store_sums(emitter, accumulator, sum_addresses, sums)


@dataclass(frozen=True)
class _LaneFactor:
    """The rows of A, or the columns of B, that a lane multiplies by scalar multiply-adds.

    Attributes:
        emitter: Emitter of the function.
        memref: A or B.
        base: Pointer to the lane's first row (of A) or column (of B).
        dim: Dimension of the rows or columns in the memref.
        offsets: Rows or columns of the lane's sums, counted from its first one; they repeat, since several sums are in
            a row or column.
        run: Number of adjacent rows or columns that one load reads, of up to 16 bytes.
    """

    emitter: FunctionEmitter
    memref: MemRef
    base: str
    dim: int
    offsets: Sequence[int]
    run: int

    def load(self, step: int) -> dict[int, str]:
        """Emit the loads of the elements that the lane multiplies in a step of K, and return them by offset.

        For offsets 0 to 3 and 16 to 19 with `run` 4, the runs that begin at 0 and at 16 are loaded. The result maps
        each of the eight offsets to its element.
        """
        factors: dict[int, str] = {}
        first_offsets = {offset - offset % self.run for offset in self.offsets}
        for first in sorted(first_offsets):
            factors.update((first + i, value) for i, value in enumerate(self._load_run(step, first)))
        return factors

    def _load_run(self, step: int, first: int) -> list[str]:
        """Emit the loads of the run that begins at offset `first`: one load if its elements are contiguous.

        That load is aligned to its size: `first`, the lane's first row or column and the stride of K are multiples of
        `run`.
        """
        stride, stride_of_k = self.memref.strides[self.dim], self.memref.strides[1 - self.dim]
        assert isinstance(stride, int) and isinstance(stride_of_k, int)
        emitter, memref, run = self.emitter, self.memref, self.run
        type_, size = scalar(memref.element), bit_width(memref.element) // 8
        if stride == 1:
            address = _pointer(emitter, memref, self.base, step * stride_of_k + first)
            vector, align = f"<{run} x {type_}>", min(WIDE, run * size)
            wide = emitter.body.let(f"load {vector}, ptr {address}, align {align}{emitter.access_metadata(memref)}")
            return [emitter.body.let(f"extractelement {vector} {wide}, i64 {i}") for i in range(run)]
        offsets = (step * stride_of_k + (first + i) * stride for i in range(run))
        addresses = [_pointer(emitter, memref, self.base, offset) for offset in offsets]
        access = emitter.access_metadata(memref)
        return [emitter.body.let(f"load {type_}, ptr {address}, align {size}{access}") for address in addresses]


def _multiply_add(emitter: FunctionEmitter, accumulator: MemRef, lhs: str, rhs: str, sum_: str) -> str:
    """Emit lhs * rhs + sum_ of scalars, fused for floats."""
    type_ = scalar(accumulator.element)
    if is_float(accumulator.element):
        name = f"llvm.fma.f{bit_width(accumulator.element)}"
        return emitter.intrinsic(name, type_, (type_, lhs), (type_, rhs), (type_, sum_))
    product = emitter.body.let(f"mul {type_} {lhs}, {rhs}")
    return emitter.body.let(f"add {type_} {sum_}, {product}")


# Tensor cores


def _tensor(emitter: FunctionEmitter, lane: Index, lhs: MemRef, rhs: MemRef, accumulator: MemRef) -> None:
    """Emit the product of a block by tensor cores, 16 steps of K at a time.

    An instruction multiplies 16x16 elements of A by 16x8 of B. Each lane holds four sums of each such product. A block
    of 32x16 has four products in each of these steps, and each lane has 16 sums.

    Args:
        emitter: Emitter of the function.
        lane: Index of the invocation in its warp of 32.
        lhs: A, of shape [rows, steps of K], of 16-bit floats.
        rhs: B, of shape [steps of K, columns], of the same type.
        accumulator: The f32 sums that the lane holds, of one dimension: those of the first 16x8 product, then those of
            the next one in the same 16 rows, and so on.
    """
    (rows, depth), columns = lhs.sizes, rhs.sizes[1]
    assert isinstance(rows, int) and isinstance(depth, int) and isinstance(columns, int)
    require_generation(emitter, _FIRST_GENERATION[str(lhs.element)], f"pyd.mma tensor of {lhs.element}")
    sum_addresses, sums = _load_sums(emitter, accumulator)
    left, right = _lane_address(emitter, lhs, lane), _lane_address(emitter, rhs, lane)
    for step in range(0, depth, _SIDE):
        # A register holds neighbours in a row of A, or in a column of B. The load transposes A if its columns are
        # contiguous in memory, and B if its rows are.
        row_fragments = [
            _fragment(emitter, lhs, left, row=i, column=step, transposed=lhs.strides[0] == 1)
            for i in range(0, rows, _SIDE)
        ]
        column_fragments = [
            _fragment(emitter, rhs, right, row=step, column=j, transposed=rhs.strides[0] != 1)
            for j in range(0, columns, _SIDE)
        ]
        # The four registers of 16x16 elements of B are two blocks of 16x8.
        blocks = [fragment[first : first + 2] for fragment in column_fragments for first in (0, 2)]
        for i, row_fragment in enumerate(row_fragments):
            for j, block in enumerate(blocks):
                # `lane_layout` orders the sums by product, row by row.
                first_sum = _LANE_SUMS * (i * len(blocks) + j)
                own = slice(first_sum, first_sum + _LANE_SUMS)
                sums[own] = _product(emitter, lhs.element, row_fragment, block, sums[own])
    _store_sums(emitter, accumulator, sum_addresses, sums)


def _lane_address(emitter: FunctionEmitter, memref: MemRef, lane: Index) -> str:
    """Emit the pointer that a lane passes to `ldmatrix`: to the start of a line of eight neighbours in a matrix of 8x8.

    Four matrices are 16x16 elements; the first two are neighbours along the first dimension. Lanes 0 to 7 point to the
    lines of the first matrix, lanes 8 to 15 to those of the second, and so on. Lines are rows if these are contiguous,
    else columns.
    """
    body = emitter.body
    right_half = body.times(body.shift_right(lane, 4), 8)  # lane // 16 * 8: 8 for lanes 16 to 31, the last two matrices
    if memref.strides[1] == 1:  # rows are contiguous
        row, column = body.low_bits(lane, 15), right_half  # row: lane % 16
    else:
        # lane // 8 % 2 * 8: 8 for lanes 8 to 15 and 24 to 31, the second and the fourth matrix
        lower_half = body.times(body.low_bits(body.shift_right(lane, 3), 1), 8)
        row, column = lower_half, body.plus(body.low_bits(lane, 7), right_half)
    address = _pointer(emitter, memref, memref.aligned, _offset(emitter, memref, row, column))
    return body.let(f"addrspacecast ptr {address} to ptr addrspace(3)")


def _fragment(
    emitter: FunctionEmitter, memref: MemRef, base: str, row: int, column: int, transposed: bool
) -> list[str]:
    """Emit the load of 16x16 elements of A or B into the registers of a warp, and return a lane's four registers (i32).

    `ldmatrix` loads four matrices of 8x8, one for each register: rows 0 to 7 and rows 8 to 15 of columns 0 to 7, then
    the same rows of columns 8 to 15. A register of a lane holds two elements that are neighbours along K, as `mma.sync`
    takes them.

    Args:
        emitter: Emitter of the function.
        memref: A or B, of 16-bit elements.
        base: Address that the lane passes for the 16x16 elements at (0, 0), from `_lane_address`.
        row, column: Position of the first element.
        transposed: Whether lines that are contiguous in memory run across K, not along it. Then `ldmatrix` transposes
            each matrix.
    """
    offset = row * cast(int, memref.strides[0]) + column * cast(int, memref.strides[1])
    address = base
    if offset:
        address = emitter.body.let(
            f"getelementptr inbounds {memory_type_of(memref.element)}, ptr addrspace(3) {base}, i64 {offset}"
        )
    type_, trans = "{ i32, i32, i32, i32 }", ".trans" if transposed else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{trans}.b16.p3"
    four = emitter.intrinsic(name, type_, ("ptr addrspace(3)", address))
    return [emitter.body.let(f"extractvalue {type_} {four}, {i}") for i in range(4)]


def _product(
    emitter: FunctionEmitter, element: Attribute, lhs: Sequence[str], rhs: Sequence[str], sums: Sequence[str]
) -> list[str]:
    """Emit the tensor core instruction for 16x8 sums of 16 products each, and return a lane's four sums.

    On sm_75 it is two instructions of 8 products each.

    Args:
        emitter: Emitter of the function.
        element: Type of the elements of A and B, f16 or bf16.
        lhs, rhs: Registers (i32) with a lane's elements of A and B: four and two, or two and one for 8 products.
        sums: The lane's four sums, f32, before.
    """
    if generation_of(emitter) == _SHORT_GENERATION and len(rhs) == 2:
        # The first two words of A, and the first of B, hold steps 0 to 7 of K; the remaining words hold steps 8 to 15.
        first_sums = _product(emitter, element, lhs[:2], rhs[:1], sums)
        return _product(emitter, element, lhs[2:], rhs[1:], first_sums)
    if isinstance(element, BFloat16Type):
        name, type_, words = "llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32", [*lhs, *rhs]
    else:
        name, type_ = f"llvm.nvvm.mma.m16n8k{8 * len(rhs)}.row.col.f32.f32", "<2 x half>"
        words = [emitter.body.let(f"bitcast i32 {word} to {type_}") for word in (*lhs, *rhs)]
    result = "{ float, float, float, float }"
    arguments = [(type_, value) for value in words] + [("float", value) for value in sums]
    four = emitter.intrinsic(name, result, *arguments)
    return [emitter.body.let(f"extractvalue {result} {four}, {i}") for i in range(4)]


def _rematerialize(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.rematerialize` of an index to a move in inline assembly; LLVM cannot see that its result is the index.

    So LLVM computes values again from the result, instead of keeping in registers the equal values that it computed
    from the index. The index fits 32 bits.
    """
    word = emitter.body.let(f"trunc i64 {emitter.get(op.operands[0])} to i32")
    opaque = emitter.body.let(f'call i32 asm sideeffect "mov.b32 $0, $1;", "=r,r"(i32 {word})')
    emitter.define(op.results[0], emitter.body.let(f"zext i32 {opaque} to i64"))


ROWS: dict[str, Lowering] = {"pyd.mma": _mma, "pyd.rematerialize": _rematerialize}
"""Name of an operation → function that emits LLVM IR for it."""
