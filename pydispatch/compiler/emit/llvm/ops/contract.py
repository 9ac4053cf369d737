"""pyd.contract: a register block of a matrix product as vector code.

The accumulators are phis of one loop over K, so nothing touches memory but the operands. Each step is
`llvm.fmuladd` on floats: fused where the target fuses, a product and a sum where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import Loop, kept_whole
from pydispatch.compiler.emit.llvm.types import memory, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float
from pydispatch.ir.op_info import Cost, info_of

PMADD = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
"""By lanes of the result. Where there is VNNI, LLVM joins them with the sum that follows."""

VPDPBUSD = {lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)}
"""By lanes of the result; the VEX encoding is used where that is all there is."""

VECTOR_BITS = {"avx512f": 512, "avx": 256, "zvl512b": 512, "zvl256b": 256}
"""Feature -> bits of a vector register, the first that a target has."""

FEW_CONSTANTS = 4
"""Scalar constants that are no burden for the registers of a block."""

SHORT = ("math.rsqrt", "math.roundeven")
"""Functions without constants."""

BUSY = 16
"""Independent multiplications that keep every CPU's units busy: fewer in a step, and the loop is unrolled to them."""


@dataclass(frozen=True)
class Piece:
    """Lanes of a row of the block, as one vector value."""

    first: int
    lanes: int
    element: Attribute

    @property
    def type(self) -> str:
        return f"<{self.lanes} x {scalar(self.element)}>"


def vector_bits(f: FunctionEmitter) -> int:
    """The width of the target's vectors."""
    return next((bits for name, bits in VECTOR_BITS.items() if name in f.platform.features), 128)


def pieces_of(f: FunctionEmitter, size: int, element: Attribute) -> list[Piece]:
    """A row cut into vectors; the last may be narrower."""
    lanes = max(1, vector_bits(f) // bit_width(element))
    return [Piece(first, min(lanes, size - first), element) for first in range(0, size, lanes)]


def _contract(f: FunctionEmitter, op: Operation) -> None:
    a, b, c = (f.memref(operand) for operand in op.operands)
    if c.read_only:
        raise f.error("pyd.contract into a binding that is only read", READ_ONLY_NOTE)
    fresh = attribute(op, "accumulate") is None
    if a.element != c.element:
        _grouped(f, a, b, c, fresh, tuple(attribute(op, f"unsigned_{x}") is not None for x in "ab"))
    elif b.strides[-1] == 1 or (b.sizes[-1] == 1 and b.strides[-2] != 1):
        _along_columns(f, a, b, c, fresh)
    elif len(a.strides) == 2 and a.strides[1] == 1 and b.strides[0] == 1:
        _along_k(f, a, b, c, fresh)
    else:
        raise f.error("pyd.contract needs rows of B, or K, of one dimension, in both A and B, to be contiguous")
    _clobber_vectors(f)


def _clobber_vectors(f: FunctionEmitter) -> None:
    """States that no vector register lives across a product, where what follows it has many constants. LLVM hoists
    these out of the loop over blocks, and then sums move and are spilled in every step of K: 16x536x544 with tanh took
    120 us on Zen 5 instead of 43, 512x512x512 bytes with a requantisation 545 instead of 300. Where there are few, the
    sums had better stay in registers for what follows: a convolution of 8x14x14x32 with bias and relu takes 225 us, or
    310 beside buffers that alias the block's memory, and 420 through memory alone."""
    if clobbered := f.once("vector registers", lambda: _vector_registers(f) if _constants(f) > FEW_CONSTANTS else ""):
        f.body.emit(f'call void asm sideeffect "", "{clobbered}"() nounwind')


def _vector_registers(f: FunctionEmitter) -> str:
    """All of the target's, as inline assembly states that it changes them."""
    arch, has = f.platform.arch, f.platform.features
    count = {"x86_64": 32 if "avx512f" in has else 16, "aarch64": 32, "riscv64": 32 * ("v" in has)}.get(arch, 0)
    return ",".join(f"~{{{'xmm' if arch == 'x86_64' else 'v'}{number}}}" for number in range(count))


def _constants(f: FunctionEmitter) -> int:
    """About how many scalar constants the function has whose products these are."""
    found: set[Attribute] = set()
    functions = 0
    for op in f.function.walk():
        if isinstance(op, arith.ConstantOp) and not isinstance(op.result.type, IndexType):
            found.add(op.value)
        functions += info_of(op).cost is Cost.FUNCTION and op.name not in SHORT
    return len(found) + 8 * functions


# Addresses and values


def address(f: FunctionEmitter, m: MemRef, *indices: Index) -> str:
    """A pointer to an element: what is known goes last, so that it ends in the instruction's displacement."""
    known, open_ = m.offset if isinstance(m.offset, int) else 0, m.offset if isinstance(m.offset, str) else 0
    for index, stride in zip(indices, m.strides, strict=True):
        if isinstance(index, int) and isinstance(stride, int):
            known += index * stride
        else:
            open_ = f.body.plus(open_, f.body.times(index, stride))
    pointer = m.aligned
    for part in (open_, known):
        if part != 0:
            pointer = f.body.let(f"getelementptr inbounds {memory(m.element)}, ptr {pointer}, i64 {part}")
    return pointer


def _load(f: FunctionEmitter, m: MemRef, type_: str, *indices: Index, block: bool = False) -> str:
    """block: of the sums; else of an operand."""
    access = f.access(m, block=block)
    return f.body.let(f"load {type_}, ptr {address(f, m, *indices)}, align {alignment(m.element)}{access}")


def _widened(f: FunctionEmitter, m: MemRef, piece: Piece, *indices: Index) -> str:
    """A load of an operand whose elements may be shorter floats than those of the sums."""
    if m.element == piece.element:
        return _load(f, m, piece.type, *indices)
    type_ = f"<{piece.lanes} x {memory(m.element)}>"
    return f.body.let(f"fpext {type_} {_load(f, m, type_, *indices)} to {piece.type}")


def _splat(f: FunctionEmitter, value: str, type_: str, lanes: int) -> str:
    vector = f"<{lanes} x {type_}>"
    one = f.body.let(f"insertelement {vector} poison, {type_} {value}, i64 0")
    return f.body.let(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")


def _multiply_add(f: FunctionEmitter, piece: Piece, a: str, b: str, acc: str) -> str:
    if is_float(piece.element):
        suffix = f"v{piece.lanes}f{bit_width(piece.element)}"
        return f.intrinsic(f"llvm.fmuladd.{suffix}", piece.type, *((piece.type, value) for value in (a, b, acc)))
    product = f.body.let(f"mul {piece.type} {a}, {b}")
    return f.body.let(f"add {piece.type} {acc}, {product}")


def _initial(f: FunctionEmitter, c: MemRef, rows: int, pieces: Sequence[Piece], fresh: bool) -> list[str]:
    if fresh:
        return ["zeroinitializer"] * (rows * len(pieces))
    return [_load(f, c, piece.type, row, piece.first, block=True) for row in range(rows) for piece in pieces]


def _write(f: FunctionEmitter, c: MemRef, rows: int, pieces: Sequence[Piece], values: Sequence[str]) -> None:
    rest = iter(values)
    for row in range(rows):
        for piece in pieces:
            place = address(f, c, row, piece.first)
            access = f.access(c, block=True)
            f.body.emit(f"store {piece.type} {next(rest)}, ptr {place}, align {alignment(c.element)}{access}")


# The loop


Step = Callable[[Index, list[str]], list[str]]


def run_steps(
    f: FunctionEmitter, size: Index, types: Sequence[str], start: list[str], unroll: int, step: Step
) -> list[str]:
    """`step` for 0 <= k < size, in order, `unroll` of them per turn; carries one value of each type."""
    if isinstance(size, int) and size <= unroll:
        for k in range(size):
            start = step(k, start)
        return start
    whole: Index = size - size % unroll if isinstance(size, int) else size
    if unroll > 1 and not isinstance(size, int):
        whole = f.body.let(f"and i64 {size}, {-unroll}")
    values = _loop(f, 0, whole, types, start, unroll, step)
    if whole == size:
        return values
    return _loop(f, whole, size, types, values, 1, step)


def _loop(
    f: FunctionEmitter, low: Index, high: Index, types: Sequence[str], start: list[str], unroll: int, step: Step
) -> list[str]:
    loop = Loop(f, (low, high, unroll))
    loop.begin()
    phis = [f.body.phi(type_) for type_ in types]
    for phi, value in zip(phis, start, strict=True):
        phi.incoming.append((value, loop.before))
    loop.enter()
    values = [phi.name for phi in phis]
    for k in range(unroll):
        values = step(f.body.plus(loop.counter, k), values)
    for phi, value in zip(phis, values, strict=True):
        phi.incoming.append((value, f.body.label))
    loop.end(kept_whole(f))
    return [phi.name for phi in phis]


Steps = Callable[[tuple[Index, ...], list[str]], list[str]]


def _run_all(
    f: FunctionEmitter, a: MemRef, b: MemRef, c: MemRef, pieces: Sequence[Piece], fresh: bool, step: Steps
) -> None:
    """The block of sums after all steps of K, of which the last dimension is innermost."""
    rows, dims = c.sizes[0], len(b.sizes) - (2 if a.element != c.element else 1)
    assert isinstance(rows, int)
    types = [piece.type for _ in range(rows) for piece in pieces]
    sizes = [x if isinstance(x, int) else y for x, y in zip(a.sizes[1 : dims + 1], b.sizes[:dims], strict=True)]

    def level(at: tuple[Index, ...], values: list[str]) -> list[str]:
        size = sizes[len(at)]
        if len(at) == dims - 1:
            return run_steps(f, size, types, values, _unrolling(len(types)), lambda k, inner: step((*at, k), inner))
        return run_steps(f, size, types, values, 1, lambda i, inner: level((*at, i), inner))

    _write(f, c, rows, pieces, level((), _initial(f, c, rows, pieces, fresh)))


# The forms

Unsigned = tuple[bool, ...]
"""Whether bytes of A, and of B, are unsigned."""


def _along_columns(f: FunctionEmitter, a: MemRef, b: MemRef, c: MemRef, fresh: bool) -> None:
    """Vectors of B's rows times broadcast elements of A."""
    rows, columns = _block(f, c)
    pieces = pieces_of(f, columns, c.element)
    element = scalar(a.element)

    def step(k: tuple[Index, ...], values: list[str]) -> list[str]:
        vectors = [_widened(f, b, piece, *k, piece.first) for piece in pieces]
        out: list[str] = []
        for row in range(rows):
            factor = _load(f, a, element, row, *k)
            wide = {lanes: _splat(f, factor, element, lanes) for lanes in {piece.lanes for piece in pieces}}
            for number, piece in enumerate(pieces):
                acc = values[row * len(pieces) + number]
                out.append(_multiply_add(f, piece, wide[piece.lanes], vectors[number], acc))
        return out

    _run_all(f, a, b, c, pieces, fresh, step)


def _unrolling(independent: int) -> int:
    """A power of two."""
    return 1 << max(1, min(8, BUSY // max(1, independent))).bit_length() - 1


def _block(f: FunctionEmitter, c: MemRef) -> tuple[int, int]:
    rows, columns = c.sizes
    if not isinstance(rows, int) or not isinstance(columns, int) or (c.strides[1] != 1 and columns > 1):
        raise f.error("the block of pyd.contract must be static with contiguous rows")
    return rows, columns


def _grouped(f: FunctionEmitter, a: MemRef, b: MemRef, c: MemRef, fresh: bool, unsigned: Unsigned) -> None:
    """i16 or i8 into i32, two or four steps of K in one instruction where the machine has it."""
    rows, columns = _block(f, c)
    group, narrow = b.sizes[-1], scalar(b.element)
    assert isinstance(group, int)
    pieces = pieces_of(f, columns, c.element)

    def step(k: tuple[Index, ...], values: list[str]) -> list[str]:
        vectors = [_load(f, b, f"<{group * piece.lanes} x {narrow}>", *k, piece.first, 0) for piece in pieces]
        out: list[str] = []
        for row in range(rows):
            steps = _load(f, a, "i32", row, *k, 0)
            for number, piece in enumerate(pieces):
                acc = values[row * len(pieces) + number]
                wide = _splat(f, steps, "i32", piece.lanes)
                left = f.body.let(f"bitcast {piece.type} {wide} to <{group * piece.lanes} x {narrow}>")
                out.append(_group_products(f, piece, (group, narrow, unsigned), left, vectors[number], acc))
        return out

    _run_all(f, a, b, c, pieces, fresh, step)


def _group_products(
    f: FunctionEmitter, piece: Piece, form: tuple[int, str, Unsigned], a: str, b: str, acc: str
) -> str:
    """acc[i] + the sum of a[g i + s] b[g i + s] over 0 <= s < g for each lane i. form: (g, element, which are
    unsigned)."""
    group, narrow, unsigned = form
    lanes, type_ = piece.lanes, f"<{group * piece.lanes} x {narrow}>"
    if group == 4 and (name := _byte_products(f, lanes, unsigned)):
        first, second = (b, a) if unsigned == (False, True) else (a, b)  # instructions take unsigned bytes first
        return f.intrinsic(name, piece.type, (piece.type, acc), (type_, first), (type_, second))
    has = f.platform.features
    if group == 2 and f.platform.arch == "x86_64" and lanes in PMADD and (lanes < 16 or "avx512bw" in has):
        products = f.intrinsic(PMADD[lanes], piece.type, (type_, a), (type_, b))
        return f.body.let(f"add {piece.type} {acc}, {products}")
    for step in range(group):
        mask = ", ".join(f"i32 {group * lane + step}" for lane in range(lanes))
        factors = []
        for value, extend in zip((a, b), ("zext" if u else "sext" for u in unsigned), strict=True):
            part = f.body.let(f"shufflevector {type_} {value}, {type_} poison, <{lanes} x i32> <{mask}>")
            factors.append(f.body.let(f"{extend} <{lanes} x {narrow}> {part} to {piece.type}"))
        product = f.body.let(f"mul {piece.type} {factors[0]}, {factors[1]}")
        acc = f.body.let(f"add {piece.type} {acc}, {product}")
    return acc


def _byte_products(f: FunctionEmitter, lanes: int, unsigned: Unsigned) -> str:
    """The intrinsic that adds four products of bytes to each lane, "" where the machine has none."""
    has = f.platform.features
    mixed = unsigned[0] != unsigned[1]
    if f.platform.arch == "x86_64" and mixed and lanes in VPDPBUSD:
        needs = {"avx512vnni"} if lanes == 16 else {"avx512vnni", "avx512vl"}
        return VPDPBUSD[lanes] if needs <= has or (lanes < 16 and "avxvnni" in has) else ""
    if f.platform.arch == "aarch64" and lanes == 4:
        name, feature = ("usdot", "i8mm") if mixed else ("udot" if unsigned[0] else "sdot", "dotprod")
        return f"llvm.aarch64.neon.{name}.v4i32.v16i8" if feature in has else ""
    return ""


def _along_k(f: FunctionEmitter, a: MemRef, b: MemRef, c: MemRef, fresh: bool) -> None:
    """Rows of A times columns of B, both contiguous: lanes are partial sums over K, added up at the end."""
    rows, columns = c.sizes
    assert isinstance(rows, int) and isinstance(columns, int)
    element = scalar(c.element)
    lanes = max(1, vector_bits(f) // bit_width(c.element))
    piece = Piece(0, lanes, c.element)
    size = a.sizes[1] if isinstance(a.sizes[1], int) else b.sizes[0]
    parts = _unrolling(rows * columns)
    step_size = lanes * parts
    zero = "zeroinitializer"

    def products(k: Index, unit: Piece, values: list[str]) -> list[str]:
        left = [_load(f, a, unit.type, row, k) for row in range(rows)]
        right = [_load(f, b, unit.type, k, column) for column in range(columns)]
        pairs = ((i, j) for i in range(rows) for j in range(columns))
        return [_multiply_add(f, unit, left[i], right[j], acc) for (i, j), acc in zip(pairs, values, strict=True)]

    def step(block: Index, values: list[str]) -> list[str]:
        out: list[str] = []
        for part in range(parts):
            k = f.body.plus(f.body.times(block, step_size), part * lanes)
            out += products(k, piece, values[part * rows * columns : (part + 1) * rows * columns])
        return out

    blocks: Index = size // step_size if isinstance(size, int) else f.body.let(f"udiv i64 {size}, {step_size}")
    count = rows * columns
    sums = run_steps(f, blocks, [piece.type] * (count * parts), [zero] * (count * parts), 1, step)
    while len(sums) > count:  # halves onto halves
        half = len(sums) // 2
        sums = [_sum(f, piece.type, x, y, c.element) for x, y in zip(sums[:half], sums[half:], strict=True)]

    def vectors_left(block: Index, values: list[str]) -> list[str]:
        return products(f.body.times(block, lanes), piece, values)

    done = f.body.times(blocks, parts)
    all_vectors: Index = size // lanes if isinstance(size, int) else f.body.let(f"udiv i64 {size}, {lanes}")
    if parts > 1 and done != all_vectors:
        sums = _loop(f, done, all_vectors, [piece.type] * count, sums, 1, vectors_left)
    totals = _sums_of_lanes(f, piece, sums)
    tail = f.body.times(all_vectors, lanes)
    if tail != size:
        one = Piece(0, 1, c.element)
        singles = [f.body.let(f"insertelement {one.type} poison, {element} {v}, i64 0") for v in totals]
        singles = _loop(f, tail, size, [one.type] * count, singles, 1, lambda k, values: products(k, one, values))
        totals = [f.body.let(f"extractelement {one.type} {v}, i64 0") for v in singles]
    for number, total in enumerate(totals):
        place = address(f, c, number // columns, number % columns)
        if not fresh:
            before = f.body.let(f"load {element}, ptr {place}, align {alignment(c.element)}{f.access(c, block=True)}")
            total = _sum(f, element, before, total, c.element)
        f.body.emit(f"store {element} {total}, ptr {place}, align {alignment(c.element)}{f.access(c, block=True)}")


def _sum(f: FunctionEmitter, type_: str, a: str, b: str, element: Attribute) -> str:
    return f.body.let(f"{'fadd' if is_float(element) else 'add'} {type_} {a}, {b}")


def _sums_of_lanes(f: FunctionEmitter, piece: Piece, values: list[str]) -> list[str]:
    """The sum of the lanes of each vector: the upper half is added to the lower one, until a lane is left. Halves of
    two vectors share one: the same bits as one vector after the other."""
    element, lanes = piece.element, piece.lanes
    if len(values) > lanes:
        return _sums_of_lanes(f, piece, values[:lanes]) + _sums_of_lanes(f, piece, values[lanes:])
    # Vectors, each with the numbers of the values whose parts it has; a part is `width` lanes.
    count = 1 << (len(values) - 1).bit_length()
    vectors = [(value, [number]) for number, value in enumerate(values + ["poison"] * (count - len(values)))]
    width = lanes
    while width > 1:
        # Shuffles within 16 bytes are the cheap ones.
        half, near = width // 2, 128 // bit_width(element)
        block = near if width <= near else lanes
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [tuple(vectors)]
        type_, vectors = f"<{lanes} x {scalar(element)}>", []
        for pair in pairs:
            low, owners = list[int](), list[int]()
            for start in range(0, lanes, block):
                for number, (_, owned) in enumerate(pair):
                    for lane in range(start, min(start + block, lanes), width):
                        low += range(number * lanes + lane, number * lanes + lane + half)
                        owners.append(owned[lane // width])
            x, y = (_shuffled(f, type_, pair[0][0], pair[-1][0], [lane + by for lane in low]) for by in (0, half))
            vectors.append((_sum(f, f"<{len(low)} x {scalar(element)}>", x, y, element), owners))
        lanes, width = len(low), half
    (total, owners), type_ = vectors[0], f"<{lanes} x {scalar(element)}>"
    places = (owners.index(number) for number in range(len(values)))
    return [f.body.let(f"extractelement {type_} {total}, i64 {place}") for place in places]


def _shuffled(f: FunctionEmitter, type_: str, x: str, y: str, lanes: Sequence[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return f.body.let(f"shufflevector {type_} {x}, {type_} {y}, <{len(lanes)} x i32> <{mask}>")


ROWS: dict[str, Lowering] = {"pyd.contract": _contract}
