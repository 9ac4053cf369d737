"""Unsigned weights of 4 or 8 bits: products by them, which unpack them in registers, and `pyd.unpack`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.alias_scopes import ProductRole
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import (
    Piece,
    Step,
    address,
    block_of,
    initial_sums,
    load,
    pieces_of,
    run_steps,
    splat,
    store_sums,
    unrolling,
)
from pydispatch.compiler.emit.llvm.ops.groups import GroupForm, Unsigned, group_products
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float

BYTES = 4
"""Size in bytes of a group: 4 weights of 8 bits or 8 weights of 4 bits, at adjacent indices of K in one column."""

SHORT_GROUPS = 8
"""Maximum number of groups of K for which the loop over them is unrolled completely: blocks of 32 steps with one scale
have up to 8 groups."""


def multiply_weights(
    emitter: FunctionEmitter, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool
) -> None:
    """Emit C = A @ B or C += A @ B for a register block, where B are weights of 4 or 8 bits in groups of four bytes.

    A group is the 8 or 4 weights of a column at adjacent steps of K. A and C are f32, or A are signed bytes and C is
    i32.

    Args:
        emitter: The function's emitter.
        lhs: A, [row][group][step in the group].
        rhs: B, [group][column][step in the group].
        accumulator: C, [row][column].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
    """
    bits = bit_width(rhs.element)
    rhs = _bytes_of(emitter, rhs) if bits == 4 else rhs  # memory is accessed by bytes
    rows, columns = block_of(emitter, accumulator)
    pieces = pieces_of(emitter, columns, accumulator.element)
    block = _WeightBlock(emitter, lhs, rhs, pieces, rows, bits)
    step = block.add_floats if is_float(accumulator.element) else block.add_bytes
    groups = rhs.sizes[0]
    if isinstance(groups, int) and groups <= SHORT_GROUPS:
        unroll = groups  # completely
    else:  # up to 8 groups in an iteration, fewer if one group already has many independent multiplications
        unroll = unrolling(rows * len(pieces))
    start = initial_sums(emitter, accumulator, rows, pieces, starts_at_zero)
    sums = run_steps(emitter, groups, [piece.type for _ in range(rows) for piece in pieces], start, unroll, step)
    store_sums(emitter, accumulator, rows, pieces, sums)


def _fields(bits: int) -> list[tuple[int, int]]:
    """Return (row, first bit) of each weight in a 32-bit word of weights of `bits` bits; a row is a step of K.

    Byte b has the weight of row b, or with weights of 4 bits, that of row b in its low half and that of row 4 + b in
    its high half:

        bit     0 4 8 12 16 20 24 28
        row     0 4 1  5  2  6  3  7
    """
    return [(BYTES * half + byte, 8 * byte + bits * half) for half in range(8 // bits) for byte in range(BYTES)]


def _bytes_of(emitter: FunctionEmitter, weights: MemRef) -> MemRef:
    """Return a view of weights of 4 bits as bytes (i8) of two weights each; groups of them begin at whole bytes.

    Offset and strides count bytes, so that they are halved. The sizes are those of `weights`: they count weights.
    """
    offset, strides = weights.offset, list[Index]()
    for stride in weights.strides[:-1]:
        if not isinstance(stride, int):
            raise emitter.error("pyd.contract needs groups of weights at known distances")
        strides.append(stride // 2)
    half = offset // 2 if isinstance(offset, int) else emitter.body.let(f"lshr i64 {offset}, 1")
    return replace(weights, element=i8, offset=half, strides=(*strides, 1))


@dataclass(frozen=True)
class _WeightBlock:
    """Emitter of the product of rows of A by packed weights for one register block, in integers or floats.

    It multiplies one group at a time: the steps of K whose weights of a column share four bytes. Weights of 8 bits have
    4 steps in a group, one in each byte. Weights of 4 bits have 8: byte b has step b in its low half, and step b + 4 in
    its high half. `multiply_weights` creates an instance, and passes `add_floats` or `add_bytes` to `run_steps`.

    Attributes:
        emitter: Emitter of the function.
        lhs: The factor A, [row][group][step in the group].
        rhs: The weights, [group][column][byte].
        pieces: Vectors that a row of the block is cut into.
        rows: Rows of A and of the block.
        bits: Bits of a weight, 4 or 8.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    rhs: MemRef
    pieces: list[Piece]
    rows: int
    bits: int

    def add_bytes(self, k: Index, values: list[str]) -> list[str]:
        """Emit the products of weights and signed bytes of A in group `k`, added to `values`.

        Each row and column adds up 4 products at once: those of 4 bytes of A and 4 bytes of weights. A group of weights
        of 4 bits has 8 steps: the low halves of its bytes are the first 4, the high halves the others.

        Args:
            k: Number of the group.
            values: The sums, [row][piece], as a flat list that is changed and returned.
        """
        # A vector has the four bytes of a group for each column of its piece, a part of a row of C.
        loaded = [
            load(self.emitter, self.rhs, f"<{BYTES * piece.lanes} x i8>", k, piece.first, 0) for piece in self.pieces
        ]
        if self.bits == 8:
            self._add_four_steps(k, 0, loaded, values)
            return values
        for half in range(2):
            halves = [
                _half(self.emitter, piece, vector, half) for piece, vector in zip(self.pieces, loaded, strict=True)
            ]
            self._add_four_steps(k, BYTES * half, halves, values)
        return values

    def _add_four_steps(self, k: Index, first: int, weights: list[str], values: list[str]) -> None:
        """Emit the products of four steps of group `k`, from step `first` of the group on, added to `values`.

        weights: for each piece the vector of the four weights of each column, as bytes.
        """
        form = GroupForm(size=BYTES, element="i8", unsigned=Unsigned(lhs=False, rhs=True))
        for row in range(self.rows):
            # The row's bytes of 4 steps as one i32: every column multiplies the same ones by its weights.
            steps = load(self.emitter, self.lhs, "i32", row, k, first)
            for index, piece in enumerate(self.pieces):
                broadcast = splat(self.emitter, steps, "i32", piece.lanes)
                type_ = f"<{BYTES * piece.lanes} x i8>"
                left = self.emitter.body.let(f"bitcast <{piece.lanes} x i32> {broadcast} to {type_}")
                position = row * len(self.pieces) + index
                values[position] = group_products(self.emitter, piece, form, left, weights[index], values[position])

    def add_floats(self, k: Index, values: list[str]) -> list[str]:
        """Emit the products of weights, widened to f32, and elements of A in group `k`, added to `values`.

        Args:
            k: Number of the group.
            values: The sums, [row][piece], as a flat list that is changed and returned.
        """
        # A vector has the word of a group for each column of its piece, a part of a row of C.
        loaded = [load(self.emitter, self.rhs, f"<{piece.lanes} x i32>", k, piece.first, 0) for piece in self.pieces]
        for step, first_bit in _fields(self.bits):
            widened = [
                _widened(self.emitter, piece, words, first_bit, self.bits)
                for piece, words in zip(self.pieces, loaded, strict=True)
            ]
            self._add_step(k, step, widened, values)
        return values

    def _add_step(self, k: Index, step: int, weights: list[str], values: list[str]) -> None:
        """Emit the products of one step of group `k`, added to `values`; `weights` has a vector of f32 for each piece.

        The weight of each column is multiplied by the element of A of each row.
        """
        for row in range(self.rows):
            factor = load(self.emitter, self.lhs, "float", row, k, step)
            for index, piece in enumerate(self.pieces):
                broadcast = splat(self.emitter, factor, "float", piece.lanes)
                position = row * len(self.pieces) + index
                operands = ((piece.type, value) for value in (broadcast, weights[index], values[position]))
                values[position] = self.emitter.intrinsic(f"llvm.fmuladd.v{piece.lanes}f32", piece.type, *operands)


def _half(emitter: FunctionEmitter, piece: Piece, vector: str, half: int) -> str:
    """Emit the low (`half` 0) or high (1) halves of the bytes of a vector, as bytes: 0xA5 has 5 and 10.

    The vector has BYTES bytes for each lane of `piece`.
    """
    type_ = f"<{BYTES * piece.lanes} x i8>"
    if half:
        return emitter.body.let(f"lshr {type_} {vector}, {_constant(4, BYTES * piece.lanes, 'i8')}")
    return emitter.body.let(f"and {type_} {vector}, {_constant(15, BYTES * piece.lanes, 'i8')}")


def _widened(emitter: FunctionEmitter, piece: Piece, words: str, first_bit: int, bits: int) -> str:
    """Emit one weight of each of `words`, a vector of i32, as a vector of f32: `bits` bits from bit `first_bit` on."""
    type_, body = f"<{piece.lanes} x i32>", emitter.body
    if first_bit:
        words = body.let(f"lshr {type_} {words}, {_constant(first_bit, piece.lanes, 'i32')}")
    has_bits_above = first_bit + bits < 32  # above the weight, which the shift has not removed
    if has_bits_above:
        words = body.let(f"and {type_} {words}, {_constant((1 << bits) - 1, piece.lanes, 'i32')}")
    return body.let(f"sitofp {type_} {words} to {piece.type}")


def _constant(value: int, lanes: int, element: str) -> str:
    """Return the text of a vector constant of `lanes` times `value`, without its type; `element` is a lane's type."""
    return f"<{', '.join([f'{element} {value}'] * lanes)}>"


def _unpack(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.unpack`, which stores packed weights of 4 or 8 bits as f32 or as bytes, to a loop over their groups.

    A group is one word of 4 bytes for each column, with the 8 or 4 weights at adjacent indices of K. Each iteration
    loads the words of all columns of a group. With the operand `terms`, it stores one row of f32 for each index of K:
    weights memref<2x16x8xi4> become memref<16x16xf32>, with (weight - terms[0]) * terms[1] and the addend terms[2], if
    any. Without it, it stores the weights of 4 bits as bytes in groups of four: memref<2x16x8xi4> becomes
    memref<4x16x4xi8>.
    """
    weights, target, *terms = (emitter.memref(operand) for operand in op.operands)
    if target.read_only:
        raise emitter.error("pyd.unpack into a binding that is only read", READ_ONLY_NOTE)
    # The weights of a group are adjacent, and so are the groups of neighbouring columns.
    if weights.strides[1:] != (weights.sizes[2], 1) or target.strides[-1] != 1:
        raise emitter.error("pyd.unpack needs columns that are contiguous in all operands")
    bits, (groups, columns, _) = bit_width(weights.element), weights.sizes
    words = _bytes_of(emitter, weights) if bits == 4 else weights
    assert isinstance(columns, int)
    if terms:
        step: Step = _FloatUnpacking(
            emitter, words, target, bits, _vectors_of_terms(emitter, target, terms[0])
        ).unpack_group
    else:
        step = partial(_unpack_bytes, emitter, words, target)
    # The loop carries no values: each step only stores.
    run_steps(emitter, groups, types=[], initial=[], unroll=1, step=step)


def _vectors_of_terms(emitter: FunctionEmitter, target: MemRef, terms: MemRef) -> list[tuple[Piece, list[str]]]:
    """Emit the loads of the terms for each piece of a row of `target`, and return (piece, vectors of its terms).

    terms: [term][column]: the zero points, the scales and, if it has three rows, the offsets.
    """
    count, columns = terms.sizes
    assert isinstance(columns, int) and isinstance(count, int)
    return [
        (
            piece,
            [load(emitter, terms, piece.type, term, piece.first, role=ProductRole.UNRELATED) for term in range(count)],
        )
        for piece in pieces_of(emitter, columns, target.element)
    ]


@dataclass(frozen=True)
class _FloatUnpacking:
    """Emitter of weights as (weight - zero) * scale + offset of f32.

    Attributes:
        emitter: Emitter of the function.
        words: The weights as bytes, [group][column][byte]; `_fields` states which rows the bits of a word are.
        target: The f32 weights, [row][column].
        bits: Size of a weight, 4 or 8.
        terms: For each piece of a row: vectors of the zero points, scales and offsets, if any, of its columns.
    """

    emitter: FunctionEmitter
    words: MemRef
    target: MemRef
    bits: int
    terms: list[tuple[Piece, list[str]]]

    def unpack_group(self, group: Index, values: list[str]) -> list[str]:
        """Emit the rows of `target` of a group, a word for each column; a `Step` of `run_steps` without values.

        With 4 bits, group 2 becomes the rows 16 to 23; the word 0x76543210 has the weights 0, 2, 4, 6, 1, 3, 5 and 7 of
        these rows.
        """
        body, rows_of_group = self.emitter.body, 32 // self.bits
        for piece, (zero, scale, *offset) in self.terms:
            type_ = f"<{piece.lanes} x i32>"
            loaded = load(self.emitter, self.words, type_, group, piece.first, 0, role=ProductRole.UNRELATED)
            for row_of_group, first_bit in _fields(self.bits):
                value = _widened(self.emitter, piece, loaded, first_bit, self.bits)
                value = body.let(f"fsub {piece.type} {value}, {zero}")
                value = body.let(f"fmul {piece.type} {value}, {scale}")
                for term in offset:
                    value = body.let(f"fadd {piece.type} {value}, {term}")
                row = body.plus(body.times(group, rows_of_group), row_of_group)
                _store(self.emitter, self.target, piece.type, value, row, piece.first)
        return values


def _unpack_bytes(
    emitter: FunctionEmitter, words: MemRef, target: MemRef, group: Index, values: list[str]
) -> list[str]:
    """Emit the unpacking of a group of weights of 4 bits, 8 steps of K, to two groups of bytes of `target`.

    The four bytes 0x40, 0x51, 0x62 and 0x73 of a column in group 3 become its bytes 0, 1, 2 and 3 in group 6, and 4, 5,
    6 and 7 in group 7.

    Args:
        emitter: The function's emitter.
        words: The weights as bytes, [group][column][byte].
        target: The widened weights, [group][column][byte], with twice as many groups.
        group: Number of the group in `words`.
        values: The values that the loop carries: none, see `Step`.
    """
    columns = target.sizes[1]
    assert isinstance(columns, int)
    for piece in pieces_of(emitter, columns, i32):
        type_ = f"<{BYTES * piece.lanes} x i8>"
        loaded = load(emitter, words, type_, group, piece.first, 0, role=ProductRole.UNRELATED)
        for half in range(2):
            row = emitter.body.plus(emitter.body.times(group, 2), half)
            _store(emitter, target, type_, _half(emitter, piece, loaded, half), row, piece.first, 0)
    return values


def _store(emitter: FunctionEmitter, target: MemRef, type_: str, value: str, *indices: Index) -> None:
    """Emit the store of a vector of the LLVM type `type_` into a memref at `indices`."""
    access = emitter.access_metadata(target)
    pointer = address(emitter, target, *indices)
    emitter.body.emit(f"store {type_} {value}, ptr {pointer}, align {alignment(target.element)}{access}")


ROWS: dict[str, Lowering] = {"pyd.unpack": _unpack}
"""Name of an operation → function that emits LLVM IR for it."""
