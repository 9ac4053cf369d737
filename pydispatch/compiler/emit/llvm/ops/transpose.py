"""pyd.transpose: rows are loaded as vectors, become columns by shuffles of two rows each, and are stored."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import address, shuffled, vector_bits
from pydispatch.compiler.emit.llvm.types import memory_type_of
from pydispatch.compiler.emit.llvm.values import MemRef
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import alignment, bit_width

MOST_LANES = 16
"""Maximum number of rows of a square that is transposed in registers: a larger one does not fit into them."""

INTERLEAVED_BITS = 128
"""Maximum width in bits of the rows of a square that is transposed by interleaving them: x86 and Arm have an
instruction for each half of two such vectors. Interleaving longer vectors needs a table of lanes in a register. They
are transposed by exchanging squares, which mostly needs no table."""


def _transpose(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.transpose`, which stores the transposed elements of a memref of static shape in another one, to
    transpositions of square blocks in registers.

    A source of 16x24 f32, with vectors of 16 lanes, is moved in six squares of 8x8, the largest that fill it.
    """
    source, target = (emitter.memref(operand) for operand in op.operands)
    if target.read_only:
        raise emitter.error("pyd.transpose into a binding that is only read", READ_ONLY_NOTE)
    if bit_width(source.element) % 8:
        raise emitter.error(f"pyd.transpose moves whole bytes, got {source.element}")
    if source.strides[1] != 1 or target.strides[1] != 1:
        raise emitter.error("pyd.transpose needs rows that are contiguous in both of its operands")
    rows, columns = source.sizes
    target_rows, target_columns = target.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    assert isinstance(target_rows, int) and isinstance(target_columns, int)
    side = min(MOST_LANES, vector_bits(emitter) // bit_width(source.element))
    while rows % side or columns % side:  # squares are within the source, so that loads need no bounds
        side //= 2
    # A target may have fewer rows and columns than the transposed source: the common part is moved.
    for row in range(0, min(rows, target_columns), side):
        for column in range(0, min(columns, target_rows), side):
            _square(emitter, source, target, row, column, side)


def _square(emitter: FunctionEmitter, source: MemRef, target: MemRef, row: int, column: int, side: int) -> None:
    """Emit the transposition in registers of the block of `side` x `side` elements at (`row`, `column`) of the source.

    Its rows are loaded as vectors, shuffled into its columns, and stored as rows of the block at (`column`, `row`) of
    the target. Elements beyond the rows and columns of the target are not stored. `side` is a power of two.
    """
    type_, align = f"<{side} x {memory_type_of(source.element)}>", alignment(source.element)
    metadata = emitter.access_metadata(source)
    values = [
        emitter.body.let(f"load {type_}, ptr {address(emitter, source, row + i, column)}, align {align}{metadata}")
        for i in range(side)
    ]
    # Machines have instructions that interleave rows of up to 128 bits. Interleaving longer rows would need a table of
    # lanes in a register; exchanging squares needs none.
    columns_of = _interleaved if side * bit_width(source.element) <= INTERLEAVED_BITS else _exchanged
    target_rows, target_columns = target.sizes
    assert isinstance(target_rows, int) and isinstance(target_columns, int)
    lanes = min(side, target_columns - row)  # elements that are stored in each row of the target
    stored_rows = max(0, target_rows - column)  # the slice below has at most `side` rows
    for i, value in enumerate(columns_of(emitter, type_, values)[:stored_rows]):
        if lanes < side:  # rows of the target end within the square
            value = shuffled(emitter, type_, value, value, range(lanes))
        pointer = address(emitter, target, column + i, row)
        stored_type = f"<{lanes} x {memory_type_of(source.element)}>"
        emitter.body.emit(f"store {stored_type} {value}, ptr {pointer}, align {align}{emitter.access_metadata(target)}")


def _interleaved(emitter: FunctionEmitter, type_: str, rows: list[str]) -> list[str]:
    """Return the columns of a square of `rows`, each a vector of `type_`, by interleaving.

    Each round interleaves the elements of row i with those of row i + side / 2: the halves of the result become rows
    2 i and 2 i + 1. After log2(side) rounds the rows are the columns of the square.
    """
    side = len(rows)
    half = side // 2
    # The lanes of the two halves of an interleaved pair of rows: 0 4 1 5 and 2 6 3 7 for rows of four elements.
    low, high = ([start + lane // 2 + lane % 2 * side for lane in range(side)] for start in (0, half))
    for _ in range(half.bit_length()):
        pairs = zip(rows[:half], rows[half:], strict=True)
        rows = [shuffled(emitter, type_, x, y, lanes) for x, y in pairs for lanes in (low, high)]
    return rows


def _exchanged(emitter: FunctionEmitter, type_: str, rows: list[str]) -> list[str]:
    """Return the columns of a square of `rows`, each a vector of `type_`, by exchanging squares.

    In each round, rows at a distance exchange their off-diagonal squares; the distance is halved from round to round.
    """
    side, columns = len(rows), list(rows)
    distance = side // 2
    while distance:
        for i in range(side):
            if not i & distance:  # the upper row of a pair; j is the lower one
                j = i + distance
                columns[i], columns[j] = _exchange(emitter, type_, columns[i], columns[j], side, distance)
        distance //= 2
    return columns


def _exchange(emitter: FunctionEmitter, type_: str, low: str, high: str, side: int, distance: int) -> tuple[str, str]:
    """Return the rows `low` and `high`, `distance` apart, with their off-diagonal squares exchanged.

    Each row is a vector of type `type_` with `side` lanes, which are squares of `distance` columns in pairs. With the
    pairs [a b] in `low` and [c d] in `high`, the rows become [a c] and [b d].
    """
    # The lanes of the new rows; those of `high` are numbered after those of `low`. With rows of four elements they are
    # 0 1 4 5 and 2 3 6 7 at the distance 2, and 0 4 2 6 and 1 5 3 7 at the distance 1.
    is_right = [bool(column & distance) for column in range(side)]  # whether a column is in the right one of a pair
    upper = [side + column - distance if is_right[column] else column for column in range(side)]
    lower = [side + column if is_right[column] else column + distance for column in range(side)]
    return shuffled(emitter, type_, low, high, upper), shuffled(emitter, type_, low, high, lower)


ROWS: dict[str, Lowering] = {"pyd.transpose": _transpose}
"""Name of an operation → function that emits LLVM IR for it."""
