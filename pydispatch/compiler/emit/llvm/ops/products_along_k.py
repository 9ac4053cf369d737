"""Register blocks whose vectors are along K: rows of A and columns of B are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.alias_scopes import ProductRole
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.ops.blocks import (
    Piece,
    address,
    load,
    load_widened,
    loop_of_steps,
    multiply_add,
    run_steps,
    shuffled,
    unrolling,
    vector_bits,
)
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float


@dataclass(frozen=True)
class _ProductAlongK:
    """Register block whose vectors are along K: rows of A and columns of B are contiguous.

    Each lane of a vector has a partial sum over K; the lanes are added at the end. The methods emit products, and
    return the new sums in the order of the sums they are passed.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    """A [row, k]."""
    rhs: MemRef
    """B [k, column]."""
    rows: int
    """Rows of A and of the block."""
    columns: int
    """Columns of B and of the block."""
    vector: Piece
    """Full vector of partial sums."""
    parts: int
    """Vectors along K with separate sums, a power of two, so that multiply-adds do not wait for each other."""

    @property
    def count(self) -> int:
        """The number of sums of the block."""
        return self.rows * self.columns

    def multiply(self, k: Index, unit: Piece, values: list[str]) -> list[str]:
        """Emit the products of all rows and columns for the steps k, k + 1, ..., k + unit.lanes - 1, one in each lane.

        They are added to the vectors `values` of partial sums, [row][column].
        """
        left = [load(self.emitter, self.lhs, unit.type, row, k) for row in range(self.rows)]
        right = [load_widened(self.emitter, self.rhs, unit, k, column) for column in range(self.columns)]
        pairs = ((i, j) for i in range(self.rows) for j in range(self.columns))
        return [
            multiply_add(self.emitter, unit, left[i], right[j], acc) for (i, j), acc in zip(pairs, values, strict=True)
        ]

    def multiply_block(self, block: Index, values: list[str]) -> list[str]:
        """Emit the products of the block of steps of K with the number `block`.

        A block has `parts` vectors of steps, each with sums of its own: `values` are [part][row][column]. With 2 parts
        of 8 lanes, block 3 has the steps 48 to 55 and 56 to 63.
        """
        body, lanes = self.emitter.body, self.vector.lanes
        sums_of_step: list[str] = []
        for part in range(self.parts):
            k = body.plus(body.times(block, lanes * self.parts), part * lanes)
            sums_of_part = values[part * self.count : (part + 1) * self.count]
            sums_of_step += self.multiply(k, self.vector, sums_of_part)
        return sums_of_step

    def multiply_vector(self, index: Index, values: list[str]) -> list[str]:
        """Emit the products of vector `index` of steps of K, counted from step 0; `values` are [row][column]."""
        return self.multiply(self.emitter.body.times(index, self.vector.lanes), self.vector, values)

    def sum_blocks(self, blocks: Index) -> list[str]:
        """Emit the loop over the blocks of steps of K, and return the vectors of partial sums, [row][column]."""
        emitter, type_, count = self.emitter, self.vector.type, self.parts * self.count
        zeros = ["zeroinitializer"] * count
        sums = run_steps(emitter, blocks, [type_] * count, zeros, unroll=1, step=self.multiply_block)
        # [part][row][column]: add the upper half of the parts to the lower one, until one part is left.
        while len(sums) > self.count:
            half = len(sums) // 2
            pairs = zip(sums[:half], sums[half:], strict=True)
            sums = [_sum(emitter, type_, x, y, self.vector.element) for x, y in pairs]
        return sums

    def add_vectors(self, low: Index, high: Index, sums: list[str]) -> list[str]:
        """Emit a loop that adds the products of the vectors low <= index < high of steps of K to `sums`."""
        types = [self.vector.type] * self.count
        return loop_of_steps(self.emitter, low, high, types, sums, unroll=1, step=self.multiply_vector)

    def add_single_steps(self, low: Index, high: Index, totals: list[str]) -> list[str]:
        """Emit a loop that adds the products of the steps low <= k < high of K to the scalars `totals`."""
        body, element = self.emitter.body, self.vector.element
        lane = Piece(first=0, lanes=1, element=element)  # `load` and `multiply_add` take vectors
        sums = [body.let(f"insertelement {lane.type} poison, {scalar(element)} {total}, i64 0") for total in totals]
        types = [lane.type] * self.count
        sums = loop_of_steps(
            self.emitter, low, high, types, sums, unroll=1, step=lambda k, values: self.multiply(k, lane, values)
        )
        return [body.let(f"extractelement {lane.type} {value}, i64 0") for value in sums]


def multiply_along_k(
    emitter: FunctionEmitter, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool
) -> None:
    """Emit a register block whose vectors are along K, because rows of A and columns of B are contiguous.

    Each sum of C has vectors of partial sums, whose lanes are added at the end. Three loops follow each other: over
    blocks of several vectors of steps of K, over the vectors that are in no whole block, and over the single steps that
    are in no whole vector. With 45 steps, vectors of 8 lanes and blocks of 2 vectors, they are over the steps 0 to 31,
    32 to 39 and 40 to 44.

    Args:
        emitter: The function's emitter.
        lhs: A, of shape [M, K].
        rhs: B, of shape [K, N].
        accumulator: C, of shape [M, N].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
    """
    rows, columns = accumulator.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    lanes = max(1, vector_bits(emitter) // bit_width(accumulator.element))
    # `parts`: vectors along K with separate sums, as many as keep the multipliers busy, since the next multiply-add on
    # one sum has to wait for the one before.
    vector = Piece(first=0, lanes=lanes, element=accumulator.element)
    product = _ProductAlongK(emitter, lhs, rhs, rows, columns, vector, parts=unrolling(rows * columns))
    size = lhs.sizes[1] if isinstance(lhs.sizes[1], int) else rhs.sizes[0]  # it may be static in one operand only

    blocks = _divided(emitter, size, lanes * product.parts)
    sums = product.sum_blocks(blocks)
    covered = emitter.body.times(blocks, product.parts)  # vectors that are in blocks
    all_vectors = _divided(emitter, size, lanes)
    has_more_vectors = product.parts > 1 and covered != all_vectors  # a block of one part is one vector
    if has_more_vectors:
        sums = product.add_vectors(covered, all_vectors, sums)
    totals = _sums_of_lanes(emitter, vector, sums)
    tail = emitter.body.times(all_vectors, lanes)  # the first step after the last whole vector
    if tail != size:
        totals = product.add_single_steps(tail, size, totals)
    _store_totals(emitter, accumulator, totals, starts_at_zero)


def _divided(emitter: FunctionEmitter, size: Index, divisor: int) -> Index:
    """Return the quotient of a size and a constant, rounded down; emit the division if the size is dynamic."""
    return size // divisor if isinstance(size, int) else emitter.body.let(f"udiv i64 {size}, {divisor}")


def _store_totals(emitter: FunctionEmitter, accumulator: MemRef, totals: list[str], starts_at_zero: bool) -> None:
    """Emit the stores of the scalars `totals`, [row][column], into `accumulator`, the block C.

    Without `starts_at_zero`, the values that C has are added to them.
    """
    columns = accumulator.sizes[1]
    assert isinstance(columns, int)
    element = scalar(accumulator.element)
    for index, total in enumerate(totals):
        pointer = address(emitter, accumulator, index // columns, index % columns)
        access = emitter.access_metadata(accumulator, role=ProductRole.SUMS)
        attributes = f"align {alignment(accumulator.element)}{access}"
        if not starts_at_zero:
            old_total = emitter.body.let(f"load {element}, ptr {pointer}, {attributes}")
            total = _sum(emitter, element, old_total, total, accumulator.element)
        emitter.body.emit(f"store {element} {total}, ptr {pointer}, {attributes}")


def _sum(emitter: FunctionEmitter, type_: str, lhs: str, rhs: str, element: Attribute) -> str:
    """Emit the sum of two values of the LLVM type `type_`, and return its name; `element` is their element type."""
    return emitter.body.let(f"{'fadd' if is_float(element) else 'add'} {type_} {lhs}, {rhs}")


class _FoldedVector(NamedTuple):
    """Intermediate vector of `_sums_of_lanes`, which holds partial sums of several of its input vectors.

    Attributes:
        value: Name of the vector.
        lanes: Number of its lanes.
        owners: Indices of these input vectors. Each has equally many adjacent lanes, in the order of `owners`.
    """

    value: str
    lanes: int
    owners: list[int]

    @property
    def width(self) -> int:
        """The number of lanes of each owner."""
        return self.lanes // len(self.owners)


def _sums_of_lanes(emitter: FunctionEmitter, piece: Piece, values: list[str]) -> list[str]:
    """Emit the sum of the lanes of each vector of `values`, and return the names of the sums, which are scalars.

    The upper half of a vector is added to the lower half until one lane is left. Two vectors share an addition of
    halves, with the same bits as separate additions. For vectors x and y of four lanes, the first addition computes the
    vector x0+x2, x1+x3, y0+y2, y1+y3. A second addition, of the halves of x and of y in this vector, computes the sum
    of x in one lane and the sum of y in another. The owner of a lane is the input vector whose elements it sums.

    Args:
        emitter: The function's emitter.
        piece: Number of lanes, a power of two, and element type of the vectors.
        values: Names of the vectors.
    """
    lanes = piece.lanes
    # LLVM's own reduction of one vector of integers, whose sum does not depend on the order.
    if len(values) == 1 and not is_float(piece.element):
        name = f"llvm.vector.reduce.add.v{lanes}i{bit_width(piece.element)}"
        return [emitter.intrinsic(name, scalar(piece.element), (piece.type, values[0]))]
    if len(values) > lanes:  # log2(lanes) rounds join at most `lanes` vectors into one
        return _sums_of_lanes(emitter, piece, values[:lanes]) + _sums_of_lanes(emitter, piece, values[lanes:])
    count = 1 << (len(values) - 1).bit_length()  # a power of two, so that all vectors have a partner
    padded = values + ["poison"] * (count - len(values))  # the sums of these are not read
    vectors = [_FoldedVector(value, lanes, owners=[index]) for index, value in enumerate(padded)]
    # Each round halves the lanes of an owner and joins pairs of vectors, until each owner has one lane.
    while vectors[0].width > 1:
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [(vectors[0],)]
        vectors = [_add_halves(emitter, pair, piece.element) for pair in pairs]
    (total,) = vectors
    type_ = f"<{total.lanes} x {scalar(piece.element)}>"
    lane_of_value = (total.owners.index(index) for index in range(len(values)))
    return [emitter.body.let(f"extractelement {type_} {total.value}, i64 {lane}") for lane in lane_of_value]


def _add_halves(emitter: FunctionEmitter, operands: tuple[_FoldedVector, ...], element: Attribute) -> _FoldedVector:
    """Emit the addition of the halves of each owner's lanes, and return the vector of the sums.

    The owner of a lane is the input vector of `_sums_of_lanes` whose elements the lane sums. For two operands
    x0 x1 x2 x3 and y0 y1 y2 y3 of one owner each, the result is x0+x2 x1+x3 y0+y2 y1+y3: the sum of the vectors
    x0 x1 y0 y1 and x2 x3 y2 y3, which are shuffled from the operands.

    Args:
        emitter: The function's emitter.
        operands: One or two vectors of equally many lanes, an even number for each owner.
        element: Type of a lane.
    """
    lanes, width = operands[0].lanes, operands[0].width
    # The result takes lanes from the operands in turn, block by block. A block is 16 bytes where an owner fits into
    # them, because shuffles within 16 bytes are inexpensive, else the whole operand.
    half, lanes_of_16_bytes = width // 2, 128 // bit_width(element)
    block = lanes_of_16_bytes if width <= lanes_of_16_bytes else lanes
    # For each lane of the result: the lane of the lower half that it adds. The lanes of the second operand are numbered
    # after those of the first. Example: 0 1 4 5 for the operands x and y above.
    low_lanes, owners = list[int](), list[int]()
    for start in range(0, lanes, block):
        for index, operand in enumerate(operands):
            for lane in range(start, min(start + block, lanes), width):
                low_lanes += range(index * lanes + lane, index * lanes + lane + half)
                owners.append(operand.owners[lane // width])
    high_lanes = [lane + half for lane in low_lanes]
    type_, sum_type = (f"<{count} x {scalar(element)}>" for count in (lanes, len(low_lanes)))
    x, y = operands[0].value, operands[-1].value
    low, high = (shuffled(emitter, type_, x, y, chosen) for chosen in (low_lanes, high_lanes))
    return _FoldedVector(_sum(emitter, sum_type, low, high, element), len(low_lanes), owners)
