"""Register blocks of products of i16 and i8 into i32, and of bf16 into f32: several steps of K in one instruction,
where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.ops.blocks import (
    Piece,
    block_of,
    emit_register_block,
    initial_sums,
    load,
    loop_over_k,
    pieces_of,
    shuffled,
    splat,
    store_sums,
)
from pydispatch.compiler.emit.llvm.types import memory_type_of
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.types import is_float

PMADD = {
    4: ("sse2", "llvm.x86.sse2.pmadd.wd"),
    8: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
}
"""Lanes of the result -> CPU feature, and the intrinsic that adds two products of i16 in each lane. If the CPU has
VNNI, LLVM merges the intrinsic with the addition to the accumulator."""

VPDPBUSD = {lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)}
"""Lanes of the result -> intrinsic that adds four products of an unsigned and a signed byte to each lane. On CPUs
without AVX-512, LLVM selects the AVX-VNNI instruction for it."""

VDPBF16PS = {lanes: f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" for lanes in (4, 8, 16)}
"""Lanes of the result -> intrinsic that adds two products of bf16 to each lane of f32."""

MATRIX_GROUP = 8
"""Steps of K of an instruction that multiplies two rows by two columns of bytes (smmla, ummla, usmmla)."""

PAIR_TYPE, GROUP_TYPE, TILE_TYPE = "<16 x i8>", "<8 x i8>", "<4 x i32>"
"""LLVM types of the operands of smmla: two rows or columns of 8 bytes; one of them; the 2x2 sums."""

TRANSPOSED = (0, 2, 1, 3)
"""Lanes of a row-major 2x2 matrix, in the order of its transpose."""


class Unsigned(NamedTuple):
    """Signedness of the factors of a product of integers.

    Attributes:
        lhs: Whether the elements of A are unsigned.
        rhs: Whether the elements of B are unsigned.
    """

    lhs: bool
    rhs: bool


class GroupForm(NamedTuple):
    """Form of the groups. A group is adjacent steps of K whose products one instruction adds up.

    Attributes:
        size: Number of steps of K in a group: 2 for elements of 16 bits, 4 for elements of 8 bits.
        element: LLVM type of the factors' elements: i16, i8 or bfloat.
        unsigned: Whether the elements of lhs, and of rhs, are unsigned integers.
    """

    size: int
    element: str
    unsigned: Unsigned


def multiply_groups(
    emitter: FunctionEmitter, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool, unsigned: Unsigned
) -> None:
    """Emit `accumulator += lhs @ rhs` for operands in groups of two, four or eight steps of K.

    A group is multiplied and summed by one instruction if the CPU has it.

    Args:
        emitter: The function's emitter.
        lhs: A, of shape [M, K..., group].
        rhs: B, of shape [K..., N, group].
        accumulator: C, of shape [M, N].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
        unsigned: Signedness of the elements.
    """
    if rhs.sizes[-1] == MATRIX_GROUP:  # eight steps of K; the code below is for two of 16 bits and four of 8
        _multiply_matrices(emitter, lhs, rhs, accumulator, starts_at_zero, unsigned)
        return
    rows, columns = block_of(emitter, accumulator)
    group_size, element = rhs.sizes[-1], memory_type_of(rhs.element)
    assert isinstance(group_size, int)
    form = GroupForm(group_size, element, unsigned)
    pieces = pieces_of(emitter, columns, accumulator.element)

    block = _GroupBlock(emitter, lhs, rhs, rows, pieces, form)
    emit_register_block(emitter, lhs, rhs, accumulator, pieces, starts_at_zero, block.step)


@dataclass(frozen=True)
class _GroupBlock:
    """Register block of factors in groups.

    Attributes:
        emitter: The function's emitter.
        lhs: A, of shape [M, K..., group]. A group has 32 bits.
        rhs: B, of shape [K..., N, group]. The groups of neighbouring columns are adjacent.
        rows: Rows of A and of the block.
        pieces: The vectors that a row of the block is cut into.
        form: Form of the groups.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    rhs: MemRef
    rows: int
    pieces: list[Piece]
    form: GroupForm

    def step(self, k: tuple[Index, ...], values: list[str]) -> list[str]:
        """Emit the addition of the products of group `k` to the sums `values`, row by row, and return the new sums."""
        types = [f"<{self.form.size * piece.lanes} x {self.form.element}>" for piece in self.pieces]
        vectors = [
            load(self.emitter, self.rhs, type_, *k, piece.first, 0)
            for type_, piece in zip(types, self.pieces, strict=True)
        ]
        sums: list[str] = []
        for row in range(self.rows):
            row_group = load(self.emitter, self.lhs, "i32", row, *k, 0)  # two elements of 16 bits, or four of 8
            for index, piece in enumerate(self.pieces):
                acc = values[row * len(self.pieces) + index]
                broadcast = splat(self.emitter, row_group, "i32", piece.lanes)
                left = self.emitter.body.let(f"bitcast <{piece.lanes} x i32> {broadcast} to {types[index]}")
                sums.append(group_products(self.emitter, piece, self.form, left, vectors[index], acc))
        return sums


def group_products(emitter: FunctionEmitter, piece: Piece, form: GroupForm, lhs: str, rhs: str, acc: str) -> str:
    """Emit `acc[i] + sum(lhs[g * i + s] * rhs[g * i + s] for s in range(g))` for each lane i, and return its name.

    Args:
        emitter: The function's emitter.
        piece: The lanes of the accumulator.
        form: Size g of a group, type and signedness of its elements.
        lhs, rhs: Names of the factors, vectors of g times as many lanes as `acc`.
        acc: Name of the accumulator.
    """
    group_size, element, unsigned = form
    lanes, type_ = piece.lanes, f"<{group_size * piece.lanes} x {element}>"
    if is_float(piece.element):
        return _pairs_of_halves(emitter, piece, type_, (lhs, rhs), acc)
    if group_size == 4 and (name := _byte_product_intrinsic(emitter, lanes, unsigned)):
        # The multiplication commutes, and intrinsics of mixed signs take the unsigned bytes first.
        first, second = (rhs, lhs) if unsigned.rhs and not unsigned.lhs else (lhs, rhs)
        return emitter.intrinsic(name, piece.type, (piece.type, acc), (type_, first), (type_, second))
    # pmaddwd of x86 multiplies pairs of i16, and adds the products of a pair.
    pmadd_feature, pmadd = PMADD.get(lanes, ("", ""))
    if group_size == 2 and emitter.platform.arch == "x86_64" and pmadd_feature in emitter.platform.features:
        # A group of two integers is two signed i16: `pyd.contract` allows unsigned elements in groups of i8 only.
        products = emitter.intrinsic(pmadd, piece.type, (type_, lhs), (type_, rhs))
        return emitter.body.let(f"add {piece.type} {acc}, {products}")
    return _products_of_widened_elements(emitter, piece, form, (lhs, rhs), acc)


def _products_of_widened_elements(
    emitter: FunctionEmitter, piece: Piece, form: GroupForm, factors: tuple[str, str], acc: str
) -> str:
    """Emit the sum of `group_products` without an instruction for it, from multiplications of 32-bit integers.

    Step s of all groups is every g-th element, where g is the size of a group: these are shuffled out and widened.
    """
    lanes, body, type_ = piece.lanes, emitter.body, f"<{form.size * piece.lanes} x {form.element}>"
    for step in range(form.size):
        mask = ", ".join(f"i32 {form.size * lane + step}" for lane in range(lanes))
        widened = []
        for factor, is_unsigned in zip(factors, form.unsigned, strict=True):
            elements = body.let(f"shufflevector {type_} {factor}, {type_} poison, <{lanes} x i32> <{mask}>")
            extend = "zext" if is_unsigned else "sext"
            widened.append(body.let(f"{extend} <{lanes} x {form.element}> {elements} to {piece.type}"))
        product = body.let(f"mul {piece.type} {widened[0]}, {widened[1]}")
        acc = body.let(f"add {piece.type} {acc}, {product}")
    return acc


def _pairs_of_halves(emitter: FunctionEmitter, piece: Piece, type_: str, factors: tuple[str, str], acc: str) -> str:
    """Emit `acc[i] + a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1]` of bf16 factors for each lane i of f32.

    A bf16 has the bits of the upper half of an f32. So without an instruction for the sum, each pair of bf16 is taken
    as an i32, with the first element in its low half: shifted left by 16, it is the first element as f32; with the low
    16 bits cleared, the second one.

    Args:
        emitter: The function's emitter.
        piece: The lanes of the accumulator.
        type_: LLVM type of a factor, a vector of twice as many bf16.
        factors: Names of a and b.
        acc: Name of the accumulator.
    """
    # Instructions on vectors shorter than 512 bits are AVX512VL.
    needs = {"avx512bf16"} if piece.lanes == 16 else {"avx512bf16", "avx512vl"}
    if piece.lanes in VDPBF16PS and needs <= emitter.platform.features:
        pair_type = f"<{2 * piece.lanes} x bfloat>"
        left, right = (emitter.body.let(f"bitcast {type_} {factor} to {pair_type}") for factor in factors)
        operands = ((piece.type, acc), (pair_type, left), (pair_type, right))
        return emitter.intrinsic(VDPBF16PS[piece.lanes], piece.type, *operands)
    words = f"<{piece.lanes} x i32>"
    pairs = [emitter.body.let(f"bitcast {type_} {factor} to {words}") for factor in factors]
    for instruction, constant in (("shl", 16), ("and", -65536)):  # the first, the second elements as f32
        constants = ", ".join(f"i32 {constant}" for _ in range(piece.lanes))
        halves = [emitter.body.let(f"{instruction} {words} {pair}, <{constants}>") for pair in pairs]
        wide = [(piece.type, emitter.body.let(f"bitcast {words} {half} to {piece.type}")) for half in halves]
        acc = emitter.intrinsic(f"llvm.fmuladd.v{piece.lanes}f32", piece.type, *wide, (piece.type, acc))
    return acc


def _byte_product_intrinsic(emitter: FunctionEmitter, lanes: int, unsigned: Unsigned) -> str:
    """Return the name of the intrinsic that adds four products of bytes to each lane; "" if the CPU has none.

    Intrinsics of mixed signs take the unsigned factor first, whichever it is.
    """
    features = emitter.platform.features
    is_mixed = unsigned.lhs != unsigned.rhs
    if emitter.platform.arch == "x86_64" and is_mixed and lanes in VPDPBUSD:
        # Vectors shorter than 512 bits need AVX512VL in addition, or AVX-VNNI alone.
        if lanes == 16:
            has_vpdpbusd = "avx512vnni" in features
        else:
            has_vpdpbusd = {"avx512vnni", "avx512vl"} <= features or "avxvnni" in features
        return VPDPBUSD[lanes] if has_vpdpbusd else ""
    if emitter.platform.arch == "aarch64" and lanes == 4:
        if is_mixed:
            name, feature = "usdot", "i8mm"
        else:
            name, feature = "udot" if unsigned.lhs else "sdot", "dotprod"
        return f"llvm.aarch64.neon.{name}.v4i32.v16i8" if feature in features else ""
    return ""


# Products of 2x8 and 8x2 bytes


@dataclass(frozen=True)
class _MatrixProduct:
    """Product of a register block of bytes, by instructions that multiply 2x8 by 8x2 bytes.

    An instruction adds to a tile: a vector with 2x2 sums of C, row-major. A last row or column without a neighbour is
    paired with itself.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    """A [M, K..., MATRIX_GROUP]."""
    rhs: MemRef
    """B [K..., N, MATRIX_GROUP]."""
    rows: int
    """Size of M."""
    columns: int
    """Size of N."""
    pieces: Sequence[Piece]
    """The vectors that a row of C is cut into, of at most four columns each."""
    intrinsic: str
    """LLVM's name of the instruction."""
    is_transposed: bool
    """Whether tiles are column-major: usmmla takes its unsigned factor first, which is then B."""

    @property
    def tiles(self) -> list[tuple[int, int]]:
        """The first row and column of each tile, row by row."""
        return [(row, column) for row in range(0, self.rows, 2) for column in range(0, self.columns, 2)]

    @property
    def tiles_along_longer_side(self) -> list[tuple[int, int]]:
        """The tiles in the order of their products.

        The outer loop of this order is over the longer side of the block: each of its pairs of rows (or columns) is
        loaded once, and dead after its tiles. The fewer pairs of the shorter side stay in registers.
        """
        is_wide = -(-self.columns // 2) > -(-self.rows // 2)
        return sorted(self.tiles, key=_column_first) if is_wide else self.tiles

    def step(self, k: tuple[Index, ...], values: list[str]) -> list[str]:
        """Emit the products of the group `k` of K, added to the sums `values` of each of `tiles`; return the new sums.

        Each pair of rows of A, and each pair of columns of B, is loaded once. The order of `tiles_along_longer_side`
        needs the fewest registers for the loaded pairs.
        """
        row_pairs, column_pairs, new_sums = dict[int, str](), dict[int, str](), dict[tuple[int, int], str]()
        old_sums = dict(zip(self.tiles, values, strict=True))
        for row, column in self.tiles_along_longer_side:
            if row not in row_pairs:
                row_pairs[row] = self._load_rows(k, row)
            if column not in column_pairs:
                column_pairs[column] = self._load_columns(k, column)
            a, b = row_pairs[row], column_pairs[column]
            left, right = (b, a) if self.is_transposed else (a, b)  # usmmla takes its unsigned factor first
            operands = ((TILE_TYPE, old_sums[row, column]), (PAIR_TYPE, left), (PAIR_TYPE, right))
            new_sums[row, column] = self.emitter.intrinsic(self.intrinsic, TILE_TYPE, *operands)
        return [new_sums[tile] for tile in self.tiles]

    def _load_rows(self, k: tuple[Index, ...], row: int) -> str:
        """Emit the loads of the bytes of group `k` of rows `row` and `row + 1` of A; return the vector with both.

        The last row of an odd number is loaded twice, since the instruction takes two.
        """
        first, second = (
            load(self.emitter, self.lhs, GROUP_TYPE, index, *k, 0) for index in (row, min(row + 1, self.rows - 1))
        )
        return self._concatenate(first, second)

    def _load_columns(self, k: tuple[Index, ...], column: int) -> str:
        """Emit the load of the bytes of group `k` of columns `column` and `column + 1` of B; return the vector.

        The last column of an odd number is duplicated, since the instruction takes two.
        """
        if column + 1 < self.columns:
            return load(self.emitter, self.rhs, PAIR_TYPE, *k, column, 0)  # the columns of a group are adjacent
        last_column = load(self.emitter, self.rhs, GROUP_TYPE, *k, column, 0)
        return self._concatenate(last_column, last_column)

    def _concatenate(self, first: str, second: str) -> str:
        """Emit the vector of two rows or columns of 8 bytes each, and return its name."""
        lanes = ", ".join(f"i32 {lane}" for lane in range(2 * MATRIX_GROUP))
        operands = f"{GROUP_TYPE} {first}, {GROUP_TYPE} {second}"
        return self.emitter.body.let(f"shufflevector {operands}, <{2 * MATRIX_GROUP} x i32> <{lanes}>")

    def tiles_of_rows(self, values: Sequence[str]) -> list[str]:
        """Shuffle row-major sums, a vector for each row and piece, into the vectors of `tiles`.

        Two rows of one piece of four lanes, a0 a1 a2 a3 and b0 b1 b2 b3, become the tiles a0 a1 b0 b1 and a2 a3 b2 b3;
        with `is_transposed`, a0 b0 a1 b1 and a2 b2 a3 b3. An odd last row or column is duplicated.
        """
        vectors: list[str] = []
        count = len(self.pieces)
        by_row = [values[start : start + count] for start in range(0, len(values), count)]
        for row in range(0, self.rows, 2):
            next_row = min(row + 1, self.rows - 1)
            for x, y, piece in zip(by_row[row], by_row[next_row], self.pieces, strict=True):
                for column in range(0, piece.lanes, 2):
                    next_column = min(column + 1, piece.lanes - 1)
                    # The lanes of `y` are numbered after those of `x`.
                    lanes = [column, next_column, piece.lanes + column, piece.lanes + next_column]
                    if self.is_transposed:
                        lanes = [lanes[lane] for lane in TRANSPOSED]
                    vectors.append(shuffled(self.emitter, piece.type, x, y, lanes))
        return vectors

    def rows_of_tiles(self, vectors: Sequence[str]) -> list[str]:
        """Shuffle the vectors of `tiles` back into row-major sums: the inverse of `tiles_of_rows`.

        The tiles a0 a1 b0 b1 and a2 a3 b2 b3 become the rows a0 a1 a2 a3 and b0 b1 b2 b3. The columns of a piece are
        those of one tile or of two neighbouring tiles.
        """
        sums: list[str] = []
        tiles_per_row = sum(-(-piece.lanes // 2) for piece in self.pieces)  # a last column may be alone in its tile
        for row in range(self.rows):
            first_tile = row // 2 * tiles_per_row
            tiles_of_row = iter(vectors[first_tile : first_tile + tiles_per_row])
            for piece in self.pieces:
                tiles = [next(tiles_of_row) for _ in range(0, piece.lanes, 2)]  # one or two
                # Lanes 0 to 3 are the first tile, 4 to 7 the second; a tile has [row, column] in lane 2 * row + column.
                lanes = [4 * (column // 2) + 2 * (row % 2) + column % 2 for column in range(piece.lanes)]
                if self.is_transposed:  # in a tile that is ordered by column, lanes 1 and 2 are exchanged
                    lanes = [lane - lane % 4 + TRANSPOSED[lane % 4] for lane in lanes]
                sums.append(shuffled(self.emitter, TILE_TYPE, tiles[0], tiles[-1], lanes))
        return sums


def _column_first(tile: tuple[int, int]) -> tuple[int, int]:
    """Return the (column, row) of a tile (row, column): the key that sorts tiles column by column."""
    row, column = tile
    return column, row


def _multiply_matrices(
    emitter: FunctionEmitter, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool, unsigned: Unsigned
) -> None:
    """Emit `accumulator += lhs @ rhs` by instructions that multiply two rows by two columns over eight steps of K.

    Sums are loaded and stored as one vector for each row and piece (a vector of a row of C). In the loops over K, they
    are carried as one vector for each 2x2 tile.

    Args:
        emitter: The function's emitter.
        lhs: A, of shape [M, K..., 8].
        rhs: B, of shape [K..., N, 8].
        accumulator: C, of shape [M, N].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
        unsigned: Signedness of the bytes of A and of B.
    """
    if emitter.platform.arch != "aarch64" or "i8mm" not in emitter.platform.features:
        raise emitter.error("pyd.contract multiplies groups of eight bytes only for aarch64 with i8mm")
    rows, columns = block_of(emitter, accumulator)
    pieces = pieces_of(emitter, columns, accumulator.element)
    if unsigned.lhs != unsigned.rhs:
        signs = "us"
    else:
        signs = "u" if unsigned.lhs else "s"
    intrinsic = f"llvm.aarch64.neon.{signs}mmla.v4i32.v16i8"
    # usmmla takes its unsigned factor first. If that is B, factors are exchanged, and tiles are ordered by column.
    is_transposed = unsigned.rhs and not unsigned.lhs
    product = _MatrixProduct(emitter, lhs, rhs, rows, columns, pieces, intrinsic, is_transposed)
    if starts_at_zero:
        start = ["zeroinitializer"] * len(product.tiles)
    else:
        start = product.tiles_of_rows(initial_sums(emitter, accumulator, rows, pieces, starts_at_zero))
    sums = loop_over_k(emitter, lhs, rhs, accumulator, [TILE_TYPE] * len(start), start, product.step)
    store_sums(emitter, accumulator, rows, pieces, product.rows_of_tiles(sums))
