"""Conversion of MatMulNBits: a matrix product by 2-, 4- or 8-bit weights, quantized in blocks along K that have a scale
and a zero point each.

The conversion states the arithmetic alone; `compiler/fusion/quantized/block_products.py` makes it one product.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import MICROSOFT
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import U8, DType
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.ir.op_info import INTEGER_BYTES
from pydispatch.operations import elementwise, normalization, shapes, slicing
from pydispatch.operations import products as ops
from pydispatch.operations.formulas import formula

_INTEGER_BYTES = {1: 3, 2: 2, 3: 2, 4: 1}
"""Attribute `accuracy_level` → bytes of the integers that may replace elements of x in the product. The levels are
those of f32 (1), whose significand has 24 bits, f16 (2), bf16 (3) and int8 (4)."""


@MICROSOFT.converts("MatMulNBits")
def matmul(
    call: NodeCall, x: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor | None = None, order: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of x [..., k] and the transpose of a quantized matrix [n, k], plus a bias.

    Each row of the matrix is divided into blocks of `block_size` columns, which share a scale and a zero point. A
    matrix [n, 64] of 4 bits in blocks of 32 is stored as `packed` [n, 2, 16], `scales` n * 2 and `zeros` [n, 1] bytes.

    Args:
        call: The node.
        x: The left operand.
        packed: Integers of the matrix, [n, blocks of a row, bytes of a block]; a byte has one, two or four of them.
        scales: Scale of each block, in the order of the blocks.
        zeros: Zero point of each block: floats, or bytes that are packed like the matrix and padded at the end of each
            row. Without it all are the middle of the range.
        order: Block of each column (g_idx). Not supported: CompileError if it is present.
        bias: Vector [n].

    The product is marked with the width of integers that `accuracy_level` allows it to be computed with.
    """
    b = call.b
    k, n, bits, block = call.integer("K"), call.integer("N"), call.integer("bits", 4), call.integer("block_size")
    # Bytes of the integers that may replace elements of x in the product; None: its floats must be used.
    integer_bytes = _INTEGER_BYTES.get(call.integer("accuracy_level", 0))
    # A block takes whole bytes.
    if bits not in (2, 4, 8) or order is not None or min(k, n, block) < 1 or block * bits % 8:
        raise call.fail(f"{bits} bits in blocks of {block}, or an order of the groups, are not supported")
    # Blocks of a row: k / block, rounded up. The type of the computation: at least f32.
    blocks, inner = -(-k // block), normalization.wide(x.dtype)
    weights = _dequantized(call, shapes.reshape(b, packed, [n, blocks, block * bits // 8]), scales, zeros, bits, inner)

    # The product, with rows of x padded to whole blocks.
    rows = shapes.reshape(b, elementwise.convert(b, x, inner), [product(x.shape[:-1]), k])
    if blocks * block != k:
        rows = slicing.pad(b, rows, low=[0, 0], high=[0, blocks * block - k], value=0.0)
    product_ = ops.dot_general(b, rows, shapes.reshape(b, weights, [n, blocks * block]), batch=[], contracted=[(1, 1)])
    if integer_bytes is not None:
        _allow_integers(b, product_, integer_bytes)
    result = shapes.reshape(b, product_, [*x.shape[:-1], n])
    if bias is not None:
        result = formula(b, lambda v, w: v + w.to(inner), result, bias)
    return elementwise.convert(b, result, x.dtype)


def _allow_integers(b: Builder, contraction: Tensor, integer_bytes: int) -> None:
    """Mark an emitted contraction, so that the compiler may multiply integers of a width in bytes instead of floats."""
    for part in b.parts(contraction):
        assert isinstance(part.owner, Operation)
        part.owner.attributes[INTEGER_BYTES] = IntegerAttr(integer_bytes, i64)


def _dequantized(
    call: NodeCall, packed: Tensor, scales: Tensor, zeros: Tensor | None, bits: int, dtype: DType
) -> Tensor:
    """Return the weights (integer - zero point) * scale of a quantized matrix, [n, blocks, block], in a float type.

    Args:
        call: The node.
        packed: The integers, [n, blocks, bytes of a block].
        scales: Scale of each block.
        zeros: Zero points: floats, or bytes packed like the matrix; None for the middle of the range.
        bits: Bits of an integer: 2, 4 or 8.
        dtype: Type of the weights.
    """
    b = call.b
    n, blocks = packed.shape[:2]
    if zeros is not None:
        if zeros.dtype == U8:  # packed, with unused numbers at the end of the last byte of a row
            row = -(-blocks * bits // 8)  # bytes of a row: blocks * bits / 8, rounded up
            zeros = slicing.slice_axis(
                b, _unpack_sub_bytes(call, shapes.reshape(b, zeros, [n, row]), bits), axis=1, start=0, limit=blocks
            )
        zeros = shapes.reshape(b, zeros, [n, blocks, 1])
    operands = _unpack_sub_bytes(call, packed, bits), shapes.reshape(b, scales, [n, blocks, 1])
    if zeros is None:
        middle = float(1 << bits - 1)  # such as 8 for 4 bits
        return formula(b, lambda v, s: (v.to(dtype) - middle) * s.to(dtype), *operands)
    return formula(b, lambda v, s, z: (v.to(dtype) - z.to(dtype)) * s.to(dtype), *operands, zeros)


def _unpack_sub_bytes(call: NodeCall, x: Tensor, bits: int) -> Tensor:
    """Unpack numbers of `bits` bits from bytes along the last axis. The first number is in the lowest bits
    of its byte.
    """
    if bits == 8:
        return x
    count = 8 // bits
    shifts = call.b.constant([bits * n for n in range(count)], U8)
    parts = formula(
        call.b,
        lambda v, s: v.binary("shift_right_logical", s) & ((1 << bits) - 1),
        shapes.expand_dims(call.b, x, [x.rank]),
        shifts,
    )
    return shapes.reshape(call.b, parts, [*x.shape[:-1], x.shape[-1] * count])
