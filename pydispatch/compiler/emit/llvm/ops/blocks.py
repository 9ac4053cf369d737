"""Helpers of all register block lowerings: vectors of a row, loads, multiply-adds, the loop over K, sums in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.alias_scopes import ProductRole
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.loops import Loop, unroll_disabled
from pydispatch.compiler.emit.llvm.types import memory_type_of, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float

VECTOR_BITS = {"avx512f": 512, "avx": 256, "zvl512b": 512, "zvl256b": 256}
"""LLVM feature -> bits of a vector register. The first feature that the target has decides; without any, it is 128."""

LINE_BYTES = 64
"""Size in bytes of a cache line, which a prefetch instruction loads."""

BUSY = 16
"""Number of independent multiplications that keeps the units of every CPU busy. A loop over K whose body has fewer of
them is unrolled, up to this number."""


@dataclass(frozen=True)
class Piece:
    """A vector of a row of the register block: its columns `first` to `first + lanes - 1`, of the type `element`."""

    first: int
    lanes: int
    element: Attribute

    @property
    def type(self) -> str:
        """The LLVM type of the vector."""
        return f"<{self.lanes} x {scalar(self.element)}>"


def vector_bits(emitter: FunctionEmitter) -> int:
    """Return the width of the target's vector registers in bits."""
    return next((bits for name, bits in VECTOR_BITS.items() if name in emitter.platform.features), 128)


def pieces_of(emitter: FunctionEmitter, size: int, element: Attribute) -> list[Piece]:
    """Return the vectors that a row of `size` elements is cut into, by column: 20 f32 on AVX2 are 8, 8 and 4 lanes."""
    lanes = max(1, vector_bits(emitter) // bit_width(element))
    return [Piece(first, min(lanes, size - first), element) for first in range(0, size, lanes)]


def address(emitter: FunctionEmitter, memref: MemRef, *indices: Index) -> str:
    """Emit a pointer to the element of a memref at `indices`, and return its name.

    The constant part of the offset is added last, so that it becomes the displacement of the load or store.
    """
    constant_offset: int = memref.offset if isinstance(memref.offset, int) else 0
    offset: Index = 0 if isinstance(memref.offset, int) else memref.offset
    for index, stride in zip(indices, memref.strides, strict=True):
        if isinstance(index, int) and isinstance(stride, int):
            constant_offset += index * stride
        else:
            offset = emitter.body.plus(offset, emitter.body.times(index, stride))
    pointer = memref.aligned
    for part in (offset, constant_offset):
        if part != 0:
            type_ = memory_type_of(memref.element)
            pointer = emitter.body.let(f"getelementptr inbounds {type_}, ptr {pointer}, i64 {part}")
    return pointer


def load(
    emitter: FunctionEmitter, memref: MemRef, type_: str, *indices: Index, role: ProductRole = ProductRole.FACTOR
) -> str:
    """Emit a load of the LLVM type `type_` from a memref at `indices`, and return its name.

    role: what the memref is in the current matrix product, whose sums no factor overlaps; UNRELATED for an operation
    that is no product.
    """
    access = emitter.access_metadata(memref, role=role)
    return emitter.body.let(
        f"load {type_}, ptr {address(emitter, memref, *indices)}, align {alignment(memref.element)}{access}"
    )


def load_widened(emitter: FunctionEmitter, memref: MemRef, piece: Piece, *indices: Index) -> str:
    """Emit the load of `piece.lanes` adjacent elements of an operand, from `indices` on; return the vector's name.

    Elements that are shorter floats than `piece.element`, the type of the sums, are extended to it.
    """
    if memref.element == piece.element:
        return load(emitter, memref, piece.type, *indices)
    type_ = f"<{piece.lanes} x {memory_type_of(memref.element)}>"
    return emitter.body.let(f"fpext {type_} {load(emitter, memref, type_, *indices)} to {piece.type}")


def multiply_add(emitter: FunctionEmitter, piece: Piece, lhs: str, rhs: str, acc: str) -> str:
    """Emit `lhs * rhs + acc` of vectors of integers or floats, and return its name."""
    if is_float(piece.element):
        suffix = f"v{piece.lanes}f{bit_width(piece.element)}"
        return emitter.intrinsic(
            f"llvm.fmuladd.{suffix}", piece.type, *((piece.type, value) for value in (lhs, rhs, acc))
        )
    product = emitter.body.let(f"mul {piece.type} {lhs}, {rhs}")
    return emitter.body.let(f"add {piece.type} {acc}, {product}")


def prefetch(emitter: FunctionEmitter, pointer: str, offset: int, level: int = 1) -> None:
    """Emit a prefetch of the cache line `offset` bytes after `pointer`, which may be outside of any object.

    `level` is the cache that the line is loaded into: 1 to 3.
    """
    name, pointer = "llvm.prefetch.p0", emitter.body.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    emitter.module.declare(name, f"declare void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
    # The flags: 0 for a read; locality 3 for the L1 cache, 2 for L2, 1 for L3; 1 for data.
    emitter.body.emit(f"call void @{name}(ptr {pointer}, i32 0, i32 {4 - level}, i32 1)")


def splat(emitter: FunctionEmitter, value: str, type_: str, lanes: int) -> str:
    """Emit a vector of `lanes` copies of a scalar of the LLVM type `type_`, and return its name."""
    vector = f"<{lanes} x {type_}>"
    with_lane_0 = emitter.body.let(f"insertelement {vector} poison, {type_} {value}, i64 0")
    return emitter.body.let(f"shufflevector {vector} {with_lane_0}, {vector} poison, <{lanes} x i32> zeroinitializer")


def initial_sums(
    emitter: FunctionEmitter, memref: MemRef, rows: int, pieces: Sequence[Piece], starts_at_zero: bool
) -> list[str]:
    """Return the initial sums of a register block, a vector for each row and piece, row by row.

    They are zeros (`starts_at_zero`), or loaded from `memref`, the block C.
    """
    if starts_at_zero:
        return ["zeroinitializer"] * (rows * len(pieces))
    return [
        load(emitter, memref, piece.type, row, piece.first, role=ProductRole.SUMS)
        for row in range(rows)
        for piece in pieces
    ]


def store_sums(
    emitter: FunctionEmitter, memref: MemRef, rows: int, pieces: Sequence[Piece], values: Sequence[str]
) -> None:
    """Emit the stores of the vectors `values` of a register block, row by row, into its memref."""
    remaining = iter(values)
    for row in range(rows):
        for piece in pieces:
            pointer = address(emitter, memref, row, piece.first)
            access = emitter.access_metadata(memref, role=ProductRole.SUMS)
            emitter.body.emit(
                f"store {piece.type} {next(remaining)}, ptr {pointer}, align {alignment(memref.element)}{access}"
            )


Step = Callable[[Index, list[str]], list[str]]
"""Function that emits an iteration, from its index and the loop-carried values, and returns the values for the next."""


def run_steps(
    emitter: FunctionEmitter, size: Index, types: Sequence[str], initial: list[str], unroll: int, step: Step
) -> list[str]:
    """Emit `step` for k = 0, 1, ..., size - 1, and return the carried values after the last one.

    `initial` are the values before the first step, and `types` the LLVM types of the carried values.

    A static size of at most `unroll` steps becomes straight code. Otherwise there is a loop of `unroll` steps, and,
    if needed, one of single steps after it. For a dynamic size, `unroll` must be a power of two.
    """
    if isinstance(size, int) and size <= unroll:
        for k in range(size):
            initial = step(k, initial)
        return initial
    # The steps before `unrolled_end`, the largest multiple of `unroll` up to `size`, are in the unrolled loop.
    unrolled_end: Index = size
    if isinstance(size, int):
        unrolled_end = size - size % unroll
    elif unroll > 1:
        unrolled_end = emitter.body.let(f"and i64 {size}, {-unroll}")  # the mask clears the low bits
    values = loop_of_steps(emitter, 0, unrolled_end, types, initial, unroll, step)
    if unrolled_end == size:
        return values
    return loop_of_steps(emitter, unrolled_end, size, types, values, unroll=1, step=step)


def loop_of_steps(
    emitter: FunctionEmitter, low: Index, high: Index, types: Sequence[str], initial: list[str], unroll: int, step: Step
) -> list[str]:
    """Emit a loop of `step` for low <= k < high, and return the carried values after it.

    `initial` are their values before it, and `types` their LLVM types. An iteration has `unroll` steps; the number of
    steps, `high - low`, is a multiple of that.
    """
    llvm_loop = Loop(emitter, (low, high, unroll))
    llvm_loop.begin()
    phis = [emitter.body.phi(type_) for type_ in types]
    for phi, value in zip(phis, initial, strict=True):
        phi.incoming.append((value, llvm_loop.before))
    llvm_loop.enter()
    values = [phi.name for phi in phis]
    for k in range(unroll):
        values = step(emitter.body.plus(llvm_loop.counter, k), values)
    for phi, value in zip(phis, values, strict=True):
        phi.incoming.append((value, emitter.body.label))
    llvm_loop.end(metadata=unroll_disabled(emitter))  # LLVM must not unroll it further
    return [phi.name for phi in phis]


NestedStep = Callable[[tuple[Index, ...], list[str]], list[str]]
"""Function that emits an iteration, from its index in each dimension of K and the loop-carried values, and returns the
values for the next. A `Step` has one index."""


def emit_register_block(
    emitter: FunctionEmitter,
    lhs: MemRef,
    rhs: MemRef,
    accumulator: MemRef,
    pieces: Sequence[Piece],
    starts_at_zero: bool,
    step: NestedStep,
) -> None:
    """Emit a register block: its initial sums, `step` for all steps of K, and the stores of the sums.

    Args:
        emitter: The function's emitter.
        lhs, rhs: A of shape [M, K...] and B of shape [K..., N]; K may have several dimensions.
        accumulator: The memref of the block C, [M, N].
        pieces: The vectors of a row of C.
        starts_at_zero: Whether sums start at 0 instead of the values of C.
        step: Emits one step of K: takes the sums, one vector for each row and piece, row by row; returns the new ones.
    """
    rows = accumulator.sizes[0]
    assert isinstance(rows, int)
    types = [piece.type for _ in range(rows) for piece in pieces]
    first_sums = initial_sums(emitter, accumulator, rows, pieces, starts_at_zero)
    sums = loop_over_k(emitter, lhs, rhs, accumulator, types, first_sums, step)
    store_sums(emitter, accumulator, rows, pieces, sums)


def loop_over_k(
    emitter: FunctionEmitter,
    lhs: MemRef,
    rhs: MemRef,
    accumulator: MemRef,
    types: Sequence[str],
    initial: list[str],
    step: NestedStep,
) -> list[str]:
    """Emit nested loops of `step` over the dimensions of K, the last one innermost, and return the final values.

    K, which a product sums over, may have several dimensions, such as the rows of a window and the elements of such a
    row: for A [M, 3, 64] and B [3, 64, N], two loops run `step` with the indices (i, j), i < 3 and j < 64.

    Args:
        emitter: The function's emitter.
        lhs, rhs: A of shape [M, K...] and B of shape [K..., N]. If A has another element type than C, both have one
            more dimension: a group of adjacent steps of K that are multiplied together.
        accumulator: C of shape [M, N].
        types: LLVM types of the carried values.
        initial: The values before the first step.
        step: Emits one step of K, from its index along each dimension of K and the carried values.
    """
    # The number of dimensions of K. B also has the dimension N, and that of the group if there is one.
    dims = len(rhs.sizes) - (2 if lhs.element != accumulator.element else 1)
    return run_nested_steps(emitter, sizes_of_k(lhs, rhs, dims), types, initial, unrolling(len(types)), step)


def sizes_of_k(lhs: MemRef, rhs: MemRef, dims: int) -> list[Index]:
    """Return the sizes of the `dims` dimensions of K, of A [M, K...] and B [K..., N].

    A size may be static in one operand only.
    """
    return [x if isinstance(x, int) else y for x, y in zip(lhs.sizes[1 : dims + 1], rhs.sizes[:dims], strict=True)]


def run_nested_steps(
    emitter: FunctionEmitter,
    sizes: Sequence[Index],
    types: Sequence[str],
    initial: list[str],
    unroll: int,
    step: NestedStep,
) -> list[str]:
    """Emit nested loops of `step` over these sizes, the last one innermost, and return the final carried values.

    The arguments are those of `run_steps`; `unroll` is for the innermost loop.
    """
    size, *inner_sizes = sizes
    if not inner_sizes:
        return run_steps(emitter, size, types, initial, unroll, lambda index, values: step((index,), values))

    def run_inner_loops(index: Index, values: list[str]) -> list[str]:
        """Emit the loops over `inner_sizes`, at an index of this loop."""
        return run_nested_steps(
            emitter, inner_sizes, types, values, unroll, lambda indices, inner: step((index, *indices), inner)
        )

    return run_steps(emitter, size, types, initial, unroll=1, step=run_inner_loops)


def unrolling(independent: int) -> int:
    """Return the unroll factor of a loop body with this many independent multiplications: 1, 2, 4 or 8.

    It is the largest of them with which the unrolled body has at most BUSY multiplications, or 1: 2 for 6 of them, and
    a BUSY of 16.
    """
    most_copies = max(1, min(8, BUSY // max(1, independent)))
    return 1 << (most_copies.bit_length() - 1)  # rounded down to a power of two


def block_of(emitter: FunctionEmitter, memref: MemRef) -> tuple[int, int]:
    """Return the rows and columns of a register block. Raise CompileError for one that is not static and contiguous."""
    rows, columns = memref.sizes
    if isinstance(rows, int) and isinstance(columns, int):
        has_contiguous_rows = memref.strides[1] == 1 or columns <= 1
        if has_contiguous_rows:
            return rows, columns
    raise emitter.error("the block of pyd.contract must be static with contiguous rows")


def shuffled(emitter: FunctionEmitter, type_: str, x: str, y: str, lanes: Sequence[int]) -> str:
    """Emit the vector of these lanes of `x` and `y`, vectors of the LLVM type `type_`, and return its name.

    Lanes of `x` have the numbers 0 to n - 1, those of `y` n to 2n - 1.
    """
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return emitter.body.let(f"shufflevector {type_} {x}, {type_} {y}, <{len(lanes)} x i32> <{mask}>")
