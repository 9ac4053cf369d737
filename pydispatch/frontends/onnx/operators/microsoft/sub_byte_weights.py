"""Conversion of MatMulNBits: a matrix product by 2-, 4- or 8-bit weights, quantized in blocks along K that have a scale
and a zero point each.

Constant weights are repacked at compile time. Each block is divided into pieces of PIECE steps of K. Byte j of a piece
holds its elements j, j + n, j + 2n, ... from the lowest bits to the highest, where n is the number of bytes of a piece.
The bytes of adjacent columns are adjacent. So the product unpacks whole vectors of columns, and elements of one vector
position are adjacent in x.
"""

from __future__ import annotations

from functools import reduce

from pydispatch.frontends.graph.dtypes import U8, DType
from pydispatch.frontends.graph.sizes import product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.ops import elementwise, normalization, shapes
from pydispatch.frontends.ops import products as ops
from pydispatch.frontends.ops.formulas import Element, formula

COLUMNS = 256
"""Columns whose bytes are adjacent. A 1x2048x2048 product took 166 us with 256, 222 with 64, 279 with 128, and 246 with
all columns (AMD EPYC Zen 5, one worker)."""


PIECE = 32
"""Steps of K in a piece. PIECE * COLUMNS unpacked f32 weights (32 KiB) fit in the L1 cache."""


def matmul(
    call: NodeCall, x: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor | None = None, order: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return x [..., k] by the transposed of a quantized matrix [n, k], plus a bias."""
    b = call.b
    k, n, bits, block = call.integer("K"), call.integer("N"), call.integer("bits", 4), call.integer("block_size")
    call.ignore("accuracy_level")
    if bits not in (2, 4, 8) or order is not None or min(k, n, block) < 1 or block * bits % 8:
        raise call.fail(f"{bits} bits in blocks of {block}, or an order of the groups, are not supported")
    blocks, inner = -(-k // block), normalization.wide(x.dtype)
    if zeros is not None:
        if zeros.dtype == U8:
            row = -(-blocks * bits // 8)
            zeros = shapes.slice_axis(
                b, _unpack_sub_bytes(call, shapes.reshape(b, zeros, [n, row]), bits), 1, 0, blocks
            )
        # Zero points times scales have the shape of the scales; for constants both are computed once, at compile time.
        scale = shapes.reshape(b, scales, [n, blocks])
        zeros = formula(b, lambda z, s: z.to(inner) * s.to(inner), shapes.reshape(b, zeros, [n, blocks]), scale)
    weights = _weights(call, packed, scales, zeros, (n, blocks, block, bits), inner)
    rows = shapes.reshape(b, elementwise.convert(b, x, inner), [product(x.shape[:-1]), k])
    if blocks * block != k:
        rows = shapes.pad(b, rows, [0, 0], [0, blocks * block - k], 0.0)
    rows = shapes.reshape(b, rows, [rows.shape[0], *weights.shape[1:-1]])
    product_ = ops.dot_general(b, rows, weights, [], [(i, i) for i in range(1, 5)])
    result = shapes.reshape(b, product_, [*x.shape[:-1], n])
    if bias is not None:
        result = formula(b, lambda v, w: v + w.to(inner), result, bias)
    return elementwise.convert(b, result, x.dtype)


def _weights(
    call: NodeCall, packed: Tensor, scales: Tensor, zeros: Tensor | None, sizes: tuple[int, int, int, int], inner: DType
) -> Tensor:
    """Return the dequantized weights as [panels, blocks, pieces, elements of a byte, bytes of a piece, columns of a
    panel].

    Args:
        packed: The quantized weights in the layout of the file.
        scales: One scale per column and block.
        zeros: Zero points times scales; None stands for the middle of the range of numbers.
        sizes: (n, blocks, block size, bits).
        inner: The type of the result.
    """
    b, (n, blocks, block, bits) = call.b, sizes
    count, pieces = 8 // bits, block // PIECE if block % PIECE == 0 else 1
    byte_count = block // pieces // count
    panel_width = next(w for w in (COLUMNS, 128, 64, 32, 16, n) if n % w == 0)
    numbers = _unpack_sub_bytes(call, shapes.reshape(b, packed, [n, blocks, pieces, byte_count]), bits)
    parts = shapes.split(b, numbers, 3, [byte_count] * count)

    def packed_byte(*values: Element) -> Element:
        return reduce(lambda v, w: v | w, (v.binary("shift_left", bits * i) for i, v in enumerate(values)))

    bytes_ = formula(b, packed_byte, *parts)
    bytes_ = shapes.transpose(
        b, shapes.reshape(b, bytes_, [n // panel_width, panel_width, blocks, pieces, byte_count]), [0, 2, 3, 4, 1]
    )
    bytes_ = shapes.expand_dims(b, bytes_, [3])

    def per_panel(x: Tensor) -> Tensor:
        transposed = shapes.transpose(b, shapes.reshape(b, x, [n // panel_width, panel_width, blocks]), [0, 2, 1])
        return shapes.expand_dims(b, transposed, [2, 3, 4])

    shifts = shapes.reshape(b, b.constant([bits * i for i in range(count)], U8), [count, 1, 1])
    mask, middle = (1 << bits) - 1, float(1 << bits - 1)

    def unpacked(byte: Element, shift: Element) -> Element:
        return (byte.binary("shift_right_logical", shift) & mask).to(inner)

    operands = bytes_, shifts, per_panel(scales)
    if zeros is None:
        return formula(b, lambda v, h, s: (unpacked(v, h) - middle) * s.to(inner), *operands)
    return formula(b, lambda v, h, s, z: unpacked(v, h) * s.to(inner) - z, *operands, per_panel(zeros))


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
