"""Lowering of `pyd.contract`: a register block of a matrix product as vector code.

The accumulators are phis of one loop over K, so nothing touches memory but the operands. Each step is
`llvm.fmuladd` on floats: fused where the target fuses, a product and a sum where it does not.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import (
    LINE_BYTES,
    Piece,
    address,
    block_of,
    load,
    loop,
    pieces_of,
    prefetch,
    run_all,
    run_steps,
    shuffled,
    splat,
    unrolling,
    vector_bits,
)
from pydispatch.compiler.emit.llvm.ops.groups import Unsigned, multiply_groups
from pydispatch.compiler.emit.llvm.ops.tile_registers import holds_block, multiply_tiles, tile_shape
from pydispatch.compiler.emit.llvm.ops.weights import multiply_weights
from pydispatch.compiler.emit.llvm.types import memory_type_of, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.op_info import Cost, info_of

FEW_CONSTANTS = 3
"""Number of scalar constants other than 0 up to which a function's sums stay in registers after a product.

LLVM keeps each constant in a vector register during the product, see `_clobber_vectors`. The largest block of sums
leaves 4 of the 32 registers of AVX-512, which constants share with operands: sums were spilled with 4 constants. A
greater value permits more spilled sums, a smaller one passes more sums through memory without need."""

WITHOUT_CONSTANTS = ("math.rsqrt", "math.roundeven")
"""Operations that are lowered to code without constants. Those of other `math` functions have about 8."""


def _contract(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.contract`, a product of register blocks, by the element types and layouts of its operands."""
    a, b, c = (emitter.memref(operand) for operand in op.operands)  # C = A @ B, or C += A @ B
    if c.read_only:
        raise emitter.error("pyd.contract into a binding that is only read", READ_ONLY_NOTE)
    starts_at_zero = attribute(op, "accumulate") is None
    if isinstance(op, ContractOp) and op.has_packed_weights:
        multiply_weights(emitter, a, b, c, starts_at_zero)
    elif a.element != c.element:  # narrow elements, in groups of steps of K
        unsigned = Unsigned(lhs=attribute(op, "unsigned_a") is not None, rhs=attribute(op, "unsigned_b") is not None)
        shape = tile_shape(emitter, op)
        if shape is None or not holds_block(emitter, shape, a, b, c):
            multiply_groups(emitter, a, b, c, starts_at_zero, unsigned)
        elif remainder := multiply_tiles(emitter, a, b, c, starts_at_zero, unsigned, steps=shape[2]):
            # The slices of A and B with the last groups of K, which do not fill a register.
            multiply_groups(emitter, *remainder, c, starts_at_zero=False, unsigned=unsigned)
    elif b.strides[-1] == 1 or (b.sizes[-1] == 1 and b.strides[-2] != 1):  # rows of B, or a column with gaps
        distance = attribute(op, "prefetch")
        prefetch_bytes = distance.value.data if isinstance(distance, IntegerAttr) else 0
        level = 1 if attribute(op, "into_l2") is None else 2
        _along_columns(emitter, a, b, c, starts_at_zero, prefetch_bytes, level)
    elif len(a.strides) == 2 and a.strides[1] == 1 and b.strides[0] == 1:  # rows of A and columns of B
        _along_k(emitter, a, b, c, starts_at_zero)
    else:
        raise emitter.error("pyd.contract needs rows of B, or K, of one dimension, in both A and B, to be contiguous")
    _clobber_vectors(emitter)  # so that no constants stay in registers that the sums need


def _clobber_vectors(emitter: FunctionEmitter) -> None:
    """Emit inline assembly that clobbers all vector registers, if the function has many scalar constants.

    LLVM hoists these constants out of the loop over blocks, into registers that the sums need, and then moves and
    spills sums in every step of K. No constant can stay in a register across the clobber: each is loaded again where it
    is used.

    Without it, 16x536x544 with tanh took 120 us on Zen 5 instead of 43, 512x512x512 bytes with a requantization 545
    instead of 300. Spilled sums depend on the stack's address, too: their reloads are slow where they cross cache
    lines. The same bytes with scales per column, 4 constants, took 645 or 1,120 us on Zen 4, by process; with this
    clobbering, always 608.

    With few constants, sums had better stay in registers for the code after the product: a convolution of 8x14x14x32
    with bias and relu takes 420 us with clobbering, which passes sums through memory, but 225 us without it, or 310
    next to buffers that alias the block's memory.
    """

    def clobbered_registers() -> str:
        """Return the vector registers as text, or "" if the function has few scalar constants."""
        return _vector_registers(emitter) if _scalar_constant_count(emitter) > FEW_CONSTANTS else ""

    # The text depends on the function alone: it is computed for its first product, and cached. Each product clobbers.
    if clobbered := emitter.once("vector registers", clobbered_registers):
        emitter.body.emit(f'call void asm sideeffect "", "{clobbered}"() nounwind')


def _vector_registers(emitter: FunctionEmitter) -> str:
    """Return the vector registers of the target as the clobber list of inline assembly, such as `~{v0},~{v1},...`."""
    arch, has = emitter.platform.arch, emitter.platform.features
    count = {"x86_64": 32 if "avx512f" in has else 16, "aarch64": 32, "riscv64": 32 * ("v" in has)}.get(arch, 0)
    prefix = "xmm" if arch == "x86_64" else "v"
    return ",".join(f"~{{{prefix}{register}}}" for register in range(count))


def _scalar_constant_count(emitter: FunctionEmitter) -> int:
    """Estimate how many scalar constants the function's code has; each function of `math` counts as 8.

    Zeros do not count: an instruction without a load clears a register where one is needed.
    """
    constants: set[Attribute] = set()
    functions = 0
    for op in walk(emitter.function):
        if isinstance(op, arith.ConstantOp) and not isinstance(op.result.type, IndexType) and not _is_zero(op.value):
            constants.add(op.value)
        functions += info_of(op).cost is Cost.FUNCTION and op.name not in WITHOUT_CONSTANTS
    return len(constants) + 8 * functions


def _is_zero(value: Attribute) -> bool:
    """Return whether a constant is the number 0."""
    return isinstance(value, IntegerAttr | FloatAttr) and value.value.data == 0


# Register blocks by layout of the operands


def _widened(emitter: FunctionEmitter, memref: MemRef, piece: Piece, *indices: Index) -> str:
    """Emit the load of the vector `piece.lanes` long at `indices` of an operand, and return its name.

    Elements that are shorter floats than `piece.element`, the type of the sums, are extended to it.
    """
    if memref.element == piece.element:
        return load(emitter, memref, piece.type, *indices)
    type_ = f"<{piece.lanes} x {memory_type_of(memref.element)}>"
    return emitter.body.let(f"fpext {type_} {load(emitter, memref, type_, *indices)} to {piece.type}")


def _multiply_add(emitter: FunctionEmitter, piece: Piece, lhs: str, rhs: str, acc: str) -> str:
    """Emit `lhs * rhs + acc` of vectors of integers or floats, and return its name."""
    if is_float(piece.element):
        suffix = f"v{piece.lanes}f{bit_width(piece.element)}"
        return emitter.intrinsic(
            f"llvm.fmuladd.{suffix}", piece.type, *((piece.type, value) for value in (lhs, rhs, acc))
        )
    product = emitter.body.let(f"mul {piece.type} {lhs}, {rhs}")
    return emitter.body.let(f"add {piece.type} {acc}, {product}")


def _along_columns(
    emitter: FunctionEmitter,
    lhs: MemRef,
    rhs: MemRef,
    accumulator: MemRef,
    starts_at_zero: bool,
    prefetch_bytes: int,
    prefetch_level: int,
) -> None:
    """Emit a block whose vectors are rows of B: each is multiplied by an element of A, broadcast to all lanes.

    `prefetch_bytes` is how far after a row of B the cache line is that its step prefetches; 0 for no prefetching. The
    line is loaded into the cache of level `prefetch_level`.
    """
    rows, columns = block_of(emitter, accumulator)
    pieces = pieces_of(emitter, columns, accumulator.element)
    element = scalar(lhs.element)

    def step(k: tuple[Index, ...], values: list[str]) -> list[str]:
        """Emit the addition of the products of step `k` to the sums `values`, row by row, and return the new sums."""
        vectors = [_widened(emitter, rhs, piece, *k, piece.first) for piece in pieces]
        if prefetch_bytes:
            for offset in range(0, columns * bit_width(rhs.element) // 8, LINE_BYTES):
                prefetch(emitter, address(emitter, rhs, *k, 0), prefetch_bytes + offset, prefetch_level)
        sums: list[str] = []
        for row in range(rows):
            factor = load(emitter, lhs, element, row, *k)
            broadcast = {lanes: splat(emitter, factor, element, lanes) for lanes in {piece.lanes for piece in pieces}}
            for index, piece in enumerate(pieces):
                acc = values[row * len(pieces) + index]
                sums.append(_multiply_add(emitter, piece, broadcast[piece.lanes], vectors[index], acc))
        return sums

    run_all(emitter, lhs, rhs, accumulator, pieces, starts_at_zero, step)


def _along_k(emitter: FunctionEmitter, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool) -> None:
    """Emit a block whose vectors are along K, in which rows of A and columns of B are contiguous.

    Each lane has a partial sum over K; the lanes are added at the end. Steps of K are processed in blocks of `parts`
    vectors with separate sums, so that multiply-adds do not wait for each other; the rest in single vectors, and then
    in single steps. Carried values are vectors in the order [part][row][column].
    """
    rows, columns = accumulator.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    element = scalar(accumulator.element)
    lanes = max(1, vector_bits(emitter) // bit_width(accumulator.element))
    piece = Piece(first=0, lanes=lanes, element=accumulator.element)
    size = lhs.sizes[1] if isinstance(lhs.sizes[1], int) else rhs.sizes[0]
    parts = unrolling(rows * columns)
    step_size = lanes * parts
    zero = "zeroinitializer"

    def products(k: Index, unit: Piece, values: list[str]) -> list[str]:
        """Emit the products of all rows and columns for `unit.lanes` steps from step `k` on, added to `values`.

        `values` are vectors of partial sums, [row][column]; return the new ones.
        """
        left = [load(emitter, lhs, unit.type, row, k) for row in range(rows)]
        right = [_widened(emitter, rhs, unit, k, column) for column in range(columns)]
        pairs = ((i, j) for i in range(rows) for j in range(columns))
        return [_multiply_add(emitter, unit, left[i], right[j], acc) for (i, j), acc in zip(pairs, values, strict=True)]

    def step(block: Index, values: list[str]) -> list[str]:
        """Emit the block of steps with the index `block`: `parts` vectors, each added to its own part of `values`.

        Part p multiplies the steps p * lanes to (p + 1) * lanes of the block, and has rows * columns sums.
        """
        sums_of_step: list[str] = []
        for part in range(parts):
            k = emitter.body.plus(emitter.body.times(block, step_size), part * lanes)
            sums_of_step += products(k, unit=piece, values=values[part * rows * columns : (part + 1) * rows * columns])
        return sums_of_step

    blocks: Index = size // step_size if isinstance(size, int) else emitter.body.let(f"udiv i64 {size}, {step_size}")
    count = rows * columns  # sums of one part
    sums = run_steps(emitter, blocks, [piece.type] * (count * parts), [zero] * (count * parts), unroll=1, step=step)
    while len(sums) > count:  # add the upper half of the parts to the lower one, until one part is left
        half = len(sums) // 2
        sums = [
            _sum(emitter, piece.type, x, y, accumulator.element) for x, y in zip(sums[:half], sums[half:], strict=True)
        ]

    def vectors_left(block: Index, values: list[str]) -> list[str]:
        """Emit the products of the vector of steps with the index `block`, counted from step 0, added to `values`."""
        return products(emitter.body.times(block, lanes), piece, values)

    covered = emitter.body.times(blocks, parts)  # vectors of steps in whole blocks
    all_vectors: Index = size // lanes if isinstance(size, int) else emitter.body.let(f"udiv i64 {size}, {lanes}")
    if parts > 1 and covered != all_vectors:
        sums = loop(emitter, covered, all_vectors, [piece.type] * count, sums, unroll=1, step=vectors_left)
    totals = _sums_of_lanes(emitter, piece, sums)
    tail = emitter.body.times(all_vectors, lanes)  # the first step that is in no whole vector
    if tail != size:
        lane = Piece(first=0, lanes=1, element=accumulator.element)
        lane_sums = [emitter.body.let(f"insertelement {lane.type} poison, {element} {v}, i64 0") for v in totals]
        lane_sums = loop(
            emitter,
            tail,
            size,
            [lane.type] * count,
            lane_sums,
            unroll=1,
            step=lambda k, values: products(k, lane, values),
        )
        totals = [emitter.body.let(f"extractelement {lane.type} {v}, i64 0") for v in lane_sums]
    for index, total in enumerate(totals):
        place = address(emitter, accumulator, index // columns, index % columns)
        attributes = f"align {alignment(accumulator.element)}{emitter.access_metadata(accumulator, block=True)}"
        if not starts_at_zero:
            old_total = emitter.body.let(f"load {element}, ptr {place}, {attributes}")
            total = _sum(emitter, element, old_total, total, accumulator.element)
        emitter.body.emit(f"store {element} {total}, ptr {place}, {attributes}")


def _sum(emitter: FunctionEmitter, type_: str, lhs: str, rhs: str, element: Attribute) -> str:
    """Emit the sum of two values of the LLVM type `type_`, and return its name; `element` is their element type."""
    return emitter.body.let(f"{'fadd' if is_float(element) else 'add'} {type_} {lhs}, {rhs}")


def _sums_of_lanes(emitter: FunctionEmitter, piece: Piece, values: list[str]) -> list[str]:
    """Emit the sum of the lanes of each vector of `values`, and return their names.

    The upper half of a vector is added to the lower half until one lane is left. Two vectors share an addition of
    halves, with the same bits as separate additions. For vectors x and y of four lanes, the first addition computes the
    vector x0+x2, x1+x3, y0+y2, y1+y3. A second addition, of the halves of this vector, computes the sum of x in one
    lane and the sum of y in another. After the first addition `owners` is [x, y], and each has `width` 2 lanes.
    """
    element, lanes = piece.element, piece.lanes
    if len(values) > lanes:
        return _sums_of_lanes(emitter, piece, values[:lanes]) + _sums_of_lanes(emitter, piece, values[lanes:])
    # (vector, positions in `values` of the vectors whose partial sums it holds, each in `width` adjacent lanes).
    count = 1 << (len(values) - 1).bit_length()
    vectors = [(value, [index]) for index, value in enumerate(values + ["poison"] * (count - len(values)))]
    width = lanes
    while width > 1:
        # The result takes lanes from both vectors block by block: shuffles within 16 bytes are the inexpensive ones.
        half, lanes_of_16_bytes = width // 2, 128 // bit_width(element)
        block = lanes_of_16_bytes if width <= lanes_of_16_bytes else lanes
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [tuple(vectors)]
        type_, vectors = f"<{lanes} x {scalar(element)}>", []
        for pair in pairs:
            # For each lane of the result: the lane of the pair with the lower of its two terms.
            # For each `half` lanes of the result: the position in `values` that they belong to.
            low_lanes, owners = list[int](), list[int]()
            for start in range(0, lanes, block):
                for index, (_, owned) in enumerate(pair):
                    for lane in range(start, min(start + block, lanes), width):
                        low_lanes += range(index * lanes + lane, index * lanes + lane + half)
                        owners.append(owned[lane // width])
            x, y = (
                shuffled(emitter, type_, pair[0][0], pair[-1][0], [lane + by for lane in low_lanes]) for by in (0, half)
            )
            next_lanes = len(low_lanes)
            vectors.append((_sum(emitter, f"<{next_lanes} x {scalar(element)}>", x, y, element), owners))
        lanes, width = next_lanes, half
    (total, owners), type_ = vectors[0], f"<{lanes} x {scalar(element)}>"
    lane_of_value = (owners.index(index) for index in range(len(values)))
    return [emitter.body.let(f"extractelement {type_} {total}, i64 {lane}") for lane in lane_of_value]


ROWS: dict[str, Lowering] = {"pyd.contract": _contract}
"""Name of an operation → function that emits LLVM IR for it."""
