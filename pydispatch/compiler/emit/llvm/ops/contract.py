"""Lowering of `pyd.contract`: a register block of a matrix product as vector code.

The accumulators are phis of one loop over K, so nothing touches memory but the operands. Each step is
`llvm.fmuladd` on floats: fused where the target fuses, a product and a sum where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import (
    LINE_BYTES,
    Piece,
    address,
    block_of,
    emit_register_block,
    load,
    load_widened,
    multiply_add,
    pieces_of,
    prefetch,
    splat,
)
from pydispatch.compiler.emit.llvm.ops.groups import Unsigned, multiply_groups
from pydispatch.compiler.emit.llvm.ops.products_along_k import multiply_along_k
from pydispatch.compiler.emit.llvm.ops.tile_registers import holds_block, multiply_tiles, tile_shape
from pydispatch.compiler.emit.llvm.ops.weights import multiply_weights
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.readers import attribute, integer
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.op_info import Cost, info_of

FEW_CONSTANTS = 3
"""Number of scalar constants other than 0 up to which a function's sums stay in registers after a product.

LLVM keeps each constant in a vector register during the product, see `_clobber_vectors`. The largest block of sums
leaves 4 of the 32 registers of AVX-512, which constants share with operands: sums were spilled with 4 constants. A
greater value permits more spilled sums, a smaller one passes more sums through memory without need."""

WITHOUT_CONSTANTS = ("math.rsqrt", "math.roundeven")
"""Functions of `math` whose code has no constants, which would take registers; the code of others has about 8."""


def _contract(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.contract`, the product of a register block: C = A @ B, or C += A @ B with the attribute `accumulate`.

    Without groups, A is [M, K...], B is [K..., N] and C is [M, N]. In the grouped form, A is [M, K..., group] and B is
    [K..., N, group]: a group is adjacent steps of K that are multiplied together. The operands decide the code:

    - B of packed weights of 4 or 8 bits: they are unpacked in registers.
    - Elements of A that are narrower than those of C: groups, in matrix registers (AMX) if `pyd.configure_tiles` has
      configured them for the block, else in vectors.
    - Contiguous rows of B: vectors along N.
    - Contiguous rows of A and columns of B: vectors along K.
    """
    a, b, c = (emitter.memref(operand) for operand in op.operands)
    if c.read_only:
        raise emitter.error("pyd.contract into a binding that is only read", READ_ONLY_NOTE)
    starts_at_zero = attribute(op, "accumulate") is None
    has_contiguous_rows = b.strides[-1] == 1
    is_scattered_column = b.sizes[-1] == 1 and b.strides[-2] != 1  # B is one column of elements that are not adjacent
    has_contiguous_k = len(a.strides) == 2 and a.strides[1] == 1 and b.strides[0] == 1  # rows of A and columns of B
    emitter.begin_product()  # an alias scope: accesses of C do not overlap those of A and B
    if isinstance(op, ContractOp) and op.has_packed_weights:
        multiply_weights(emitter, a, b, c, starts_at_zero)
    elif a.element != c.element:
        _multiply_narrow(emitter, op, a, b, c, starts_at_zero)
    elif has_contiguous_rows or is_scattered_column:  # vectors of one lane for a column
        _along_columns(emitter, op, a, b, c, starts_at_zero)
    elif has_contiguous_k:
        multiply_along_k(emitter, a, b, c, starts_at_zero)
    else:
        raise emitter.error("pyd.contract needs rows of B, or K, of one dimension, in both A and B, to be contiguous")
    # Without it, LLVM would keep the constants of other code in vector registers throughout the loop over blocks: the
    # sums of the next block's product need these registers.
    _clobber_vectors(emitter)


def _multiply_narrow(
    emitter: FunctionEmitter, op: Operation, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool
) -> None:
    """Emit a block of factors that are narrower than the sums, in groups of steps of K.

    Matrix registers are used only for a block with the type, sizes and layout that they are configured for.
    """
    unsigned = Unsigned(lhs=attribute(op, "unsigned_a") is not None, rhs=attribute(op, "unsigned_b") is not None)
    shape = tile_shape(emitter, op)  # of the configured matrix registers; None if there are none
    if shape is None or not holds_block(emitter, shape, lhs, rhs, accumulator):
        multiply_groups(emitter, lhs, rhs, accumulator, starts_at_zero, unsigned)
    elif remainder := multiply_tiles(emitter, lhs, rhs, accumulator, starts_at_zero, unsigned, steps=shape[2]):
        # The slices of A and B with the last groups of K, which do not fill a register.
        multiply_groups(emitter, *remainder, accumulator, starts_at_zero=False, unsigned=unsigned)


def _clobber_vectors(emitter: FunctionEmitter) -> None:
    """Emit inline assembly that clobbers all vector registers, if the function has many scalar constants.

    LLVM hoists these constants out of the loop over blocks, into registers that the sums need, and then moves and
    spills sums in every step of K. No constant can stay in a register across the clobber: each is loaded again where it
    is used.

    Without it, 16x536x544 with tanh took 120 us on Zen 5 instead of 43, 512x512x512 bytes with a requantization 545
    instead of 300. Spilled sums depend on the stack's address, too: their reloads are slow where they cross cache
    lines. The same bytes with scales per column, 4 constants, took 645 us in some processes and 1,120 us in others, on
    Zen 4; with this clobbering, always 608.

    With few constants, sums had better stay in registers for the code after the product: clobbering passes them through
    memory. A convolution of 8x14x14x32 with bias and relu takes 420 us with clobbering, and 225 us without it.
    """

    def clobbered_registers() -> str:
        """Return the vector registers as text, or "" if the function has few scalar constants."""
        return _vector_registers(emitter) if _scalar_constant_count(emitter) > FEW_CONSTANTS else ""

    # The text depends on the function alone: it is computed for its first product, and cached. Each product clobbers.
    if clobbered := emitter.once("vector registers", clobbered_registers):
        emitter.body.emit(f'call void asm sideeffect "", "{clobbered}"() nounwind')


def _vector_registers(emitter: FunctionEmitter) -> str:
    """Return the vector registers of the target as the clobber list of inline assembly, such as `~{v0},~{v1},...`."""
    arch, features = emitter.platform.arch, emitter.platform.features
    counts = {
        "x86_64": 32 if "avx512f" in features else 16,
        "aarch64": 32,
        "riscv64": 32 if "v" in features else 0,
    }
    count, prefix = counts.get(arch, 0), "xmm" if arch == "x86_64" else "v"
    return ",".join(f"~{{{prefix}{register}}}" for register in range(count))


def _scalar_constant_count(emitter: FunctionEmitter) -> int:
    """Estimate how many scalar constants the code has from the first product on; each function of `math` counts as 8.

    LLVM loads the constants of later code before a product. The constants of code before the product, such as a loop
    that converts an operand, are in no register any more. Zeros do not count: an instruction without a load clears a
    register where one is needed.
    """
    top_level = [list(walk(op)) for op in emitter.function.body.ops]  # each with all operations in it
    with_product = next(i for i, ops in enumerate(top_level) if any(isinstance(op, ContractOp) for op in ops))
    ops = [op for nested in top_level[with_product:] for op in nested]
    constants = {
        operand.owner.value
        for op in ops
        for operand in op.operands
        if isinstance(operand.owner, arith.ConstantOp) and not isinstance(operand.type, IndexType)
    }
    functions = sum(info_of(op).cost is Cost.FUNCTION and op.name not in WITHOUT_CONSTANTS for op in ops)
    return sum(not _is_zero(value) for value in constants) + 8 * functions


def _is_zero(value: Attribute) -> bool:
    """Return whether a constant is the number 0."""
    return isinstance(value, IntegerAttr | FloatAttr) and value.value.data == 0


def _along_columns(
    emitter: FunctionEmitter, op: Operation, lhs: MemRef, rhs: MemRef, accumulator: MemRef, starts_at_zero: bool
) -> None:
    """Emit a block whose vectors are rows of B: each is multiplied by an element of A, broadcast to all lanes.

    With the attribute `prefetch`, the step that reads a row of B also prefetches the memory so many bytes after that
    row, into the L1 cache, or with `into_l2` into the L2 cache.

    Args:
        emitter: The function's emitter.
        op: The `pyd.contract`.
        lhs: A, of shape [M, K...].
        rhs: B, of shape [K..., N], with contiguous rows.
        accumulator: C, of shape [M, N].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
    """
    rows, columns = block_of(emitter, accumulator)
    pieces = pieces_of(emitter, columns, accumulator.element)  # the vectors that a row of C is cut into
    prefetch_bytes, prefetch_level = integer(op, "prefetch", 0), 1 if attribute(op, "into_l2") is None else 2
    block = _ColumnBlock(emitter, lhs, rhs, rows, columns, pieces, prefetch_bytes, prefetch_level)
    emit_register_block(emitter, lhs, rhs, accumulator, pieces, starts_at_zero, block.step)


@dataclass(frozen=True)
class _ColumnBlock:
    """Register block whose vectors are rows of B.

    Attributes:
        emitter: The function's emitter.
        lhs: A, of shape [M, K...].
        rhs: B, of shape [K..., N], with contiguous rows.
        rows: Rows of A and of the block.
        columns: Columns of B and of the block.
        pieces: The vectors that a row of the block is cut into.
        prefetch_bytes: Distance from a row of B to the memory that is prefetched with it; 0 for no prefetching.
        prefetch_level: Level of the cache to prefetch into.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    rhs: MemRef
    rows: int
    columns: int
    pieces: list[Piece]
    prefetch_bytes: int
    prefetch_level: int

    def step(self, k: tuple[Index, ...], values: list[str]) -> list[str]:
        """Emit the addition of the products of step `k` to the sums `values`, row by row, and return the new sums.

        The step multiplies column `k` of A by row `k` of B.
        """
        emitter, pieces, element = self.emitter, self.pieces, scalar(self.lhs.element)
        vectors = [load_widened(emitter, self.rhs, piece, *k, piece.first) for piece in pieces]
        self._prefetch(k)
        sums: list[str] = []
        for row in range(self.rows):
            factor = load(emitter, self.lhs, element, row, *k)
            # Number of lanes -> vector of so many copies of the factor: the last piece of a row may have fewer lanes.
            broadcast = {lanes: splat(emitter, factor, element, lanes) for lanes in {piece.lanes for piece in pieces}}
            for index, piece in enumerate(pieces):
                acc = values[row * len(pieces) + index]
                sums.append(multiply_add(emitter, piece, broadcast[piece.lanes], vectors[index], acc))
        return sums

    def _prefetch(self, k: tuple[Index, ...]) -> None:
        """Emit the prefetches of all cache lines of the row that is `prefetch_bytes` after row `k` of B."""
        if self.prefetch_bytes:
            for offset in range(0, self.columns * bit_width(self.rhs.element) // 8, LINE_BYTES):
                row = address(self.emitter, self.rhs, *k, 0)
                prefetch(self.emitter, row, self.prefetch_bytes + offset, self.prefetch_level)


ROWS: dict[str, Lowering] = {"pyd.contract": _contract}
"""Name of an operation → function that emits LLVM IR for it."""
