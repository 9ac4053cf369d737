"""pyd.prefix_scan: vectors are scanned by shuffles, in log2(lanes) steps, and combined with the last element before."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.alias_scopes import ProductRole
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import Piece, address, load, pieces_of, shuffled, splat
from pydispatch.compiler.emit.llvm.types import int_constant, scalar
from pydispatch.compiler.kernel_ir.types import alignment, bit_width
from pydispatch.ir.dialects.pyd.prefix_scan import PrefixScanOp
from pydispatch.ir.op_info import info_named

_INTRINSICS = {"arith.maxsi": "smax", "arith.maxui": "umax", "arith.minsi": "smin", "arith.minui": "umin"}
"""Intrinsics of LLVM that combine elements. Other kinds are instructions, `add` for `arith.addi`."""


def _prefix_scan(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.prefix_scan`, which replaces the elements of a block by their running combination, in place.

    The sums ("arith.addi") of the block 1 2 3 4 from the initial value 10 are 11 13 16 20; the result is the last, 20.
    The block is cut into vectors. Each is scanned by itself, so that only its combination with the total waits for the
    vectors before it.
    """
    scan = cast(PrefixScanOp, op)
    block, kind = emitter.memref(scan.block), scan.kind.data
    if block.strides[0] != 1:
        raise emitter.error("pyd.prefix_scan needs a block that is contiguous")
    (size,) = block.sizes
    assert isinstance(size, int)
    element, total = scalar(block.element), emitter.get(scan.initial)
    # The identity element of the operation: 0 for sums. For integers it depends on the width (least and greatest
    # numbers), so that `identity` is a function; the verifier of pyd.prefix_scan accepts integer operations only.
    identity_of_width = info_named(kind).identity
    assert callable(identity_of_width)
    neutral = int_constant(identity_of_width(bit_width(block.element)), block.element)
    for piece in pieces_of(emitter, size, block.element):
        loaded = load(emitter, block, piece.type, piece.first, role=ProductRole.UNRELATED)
        scanned = _scanned(emitter, kind, piece, loaded, identity=_repeated(neutral, element, piece.lanes))
        results = _combined(emitter, kind, piece.type, splat(emitter, total, element, piece.lanes), scanned)
        access = f"align {alignment(block.element)}{emitter.access_metadata(block)}"
        emitter.body.emit(f"store {piece.type} {results}, ptr {address(emitter, block, piece.first)}, {access}")
        # The total for the next vector.
        last = emitter.body.let(f"extractelement {piece.type} {scanned}, i64 {piece.lanes - 1}")
        total = _combined(emitter, kind, element, total, last)
    emitter.define(scan.last, total)


def _scanned(emitter: FunctionEmitter, kind: str, piece: Piece, vector: str, identity: str) -> str:
    """Emit the scan of one vector: each lane is combined with the lane 1 before it, then 2, 4 and so on.

    `identity` is a vector of identity elements, which are shifted in where there is no lane before.
    """
    distance = 1
    while distance < piece.lanes:
        # Lane i of `earlier` is lane i - distance. The lanes of `identity` are numbered from `piece.lanes` on.
        lanes = [lane - distance if lane >= distance else piece.lanes + lane for lane in range(piece.lanes)]
        earlier = shuffled(emitter, piece.type, vector, identity, lanes)
        vector = _combined(emitter, kind, piece.type, earlier, vector)
        distance *= 2
    return vector


def _combined(emitter: FunctionEmitter, kind: str, type_: str, lhs: str, rhs: str) -> str:
    """Emit the combination of two elements or vectors of an LLVM type by the operation `kind`, and return its name."""
    if kind in _INTRINSICS:
        is_vector = type_.startswith("<")
        suffix = f"v{type_.strip('<>').replace(' x ', '')}" if is_vector else type_  # <16 x i32> is v16i32
        return emitter.intrinsic(f"llvm.{_INTRINSICS[kind]}.{suffix}", type_, (type_, lhs), (type_, rhs))
    instruction = kind.removeprefix("arith.").removesuffix("i")  # "arith.addi" is add
    return emitter.body.let(f"{instruction} {type_} {lhs}, {rhs}")


def _repeated(constant: str, element: str, lanes: int) -> str:
    """Return a constant vector with `lanes` equal elements."""
    return f"<{', '.join([f'{element} {constant}'] * lanes)}>"


ROWS: dict[str, Lowering] = {"pyd.prefix_scan": _prefix_scan}
"""Name of an operation → function that emits LLVM IR for it."""
