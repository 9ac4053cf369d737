"""MatMulNBits: a product by weights of a few bits, in blocks along K that have a scale and a zero point each.

Weights become bytes in another order, once where they are constants. Blocks are cut into pieces. The byte j of a piece
has its elements j, j + the bytes of a piece, and so on, from the lowest bits to the highest, and bytes of neighbouring
columns lie side by side. So the product unpacks whole vectors of columns, and neighbours along K are neighbours in x.
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
"""Columns whose bytes lie side by side: 1x2048x2048 took 166 us with so many, 222 and 279 with 64 and 128, 246 with all
(AMD EPYC Zen 5, one worker)."""


PIECE = 32
"""Steps of K in a piece: COLUMNS of it, unpacked, stay in the first cache."""


def matmul(
    call: NodeCall, x: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor | None = None, order: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """x by a matrix [n, k] of numbers of a few bits."""
    b = call.b
    k, n, bits, block = call.integer("K"), call.integer("N"), call.integer("bits", 4), call.integer("block_size")
    call.ignore("accuracy_level")
    if bits not in (2, 4, 8) or order is not None or min(k, n, block) < 1 or block * bits % 8:
        raise call.fail(f"{bits} bits in blocks of {block}, or an order of the groups, are not supported")
    blocks, inner = -(-k // block), normalization.wide(x.dtype)
    if zeros is not None:
        if zeros.dtype == U8:
            row = -(-blocks * bits // 8)
            zeros = shapes.slice_axis(b, _unpacked(call, shapes.reshape(b, zeros, [n, row]), bits), 1, 0, blocks)
        # As large as the scales, so that it is derived once with them.
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
    """[panels, blocks, pieces, elements of a byte, bytes of a piece, columns of a panel]. zeros: zero points times
    scales, None where they are the middle of all numbers; sizes: (n, blocks, block, bits)."""
    b, (n, blocks, block, bits) = call.b, sizes
    count, pieces = 8 // bits, block // PIECE if block % PIECE == 0 else 1
    byte_count = block // pieces // count
    width = next(w for w in (COLUMNS, 128, 64, 32, 16, n) if n % w == 0)
    numbers = _unpacked(call, shapes.reshape(b, packed, [n, blocks, pieces, byte_count]), bits)
    parts = shapes.split(b, numbers, 3, [byte_count] * count)

    def joined(*values: Element) -> Element:
        return reduce(lambda v, w: v | w, (v.binary("shift_left", bits * i) for i, v in enumerate(values)))

    bytes_ = formula(b, joined, *parts)
    bytes_ = shapes.transpose(
        b, shapes.reshape(b, bytes_, [n // width, width, blocks, pieces, byte_count]), [0, 2, 3, 4, 1]
    )
    bytes_ = shapes.expand_dims(b, bytes_, [3])

    def of_blocks(x: Tensor) -> Tensor:
        transposed = shapes.transpose(b, shapes.reshape(b, x, [n // width, width, blocks]), [0, 2, 1])
        return shapes.expand_dims(b, transposed, [2, 3, 4])

    shifts = shapes.reshape(b, b.constant([bits * i for i in range(count)], U8), [count, 1, 1])
    mask, middle = (1 << bits) - 1, float(1 << bits - 1)

    def unpacked(byte: Element, shift: Element) -> Element:
        return (byte.binary("shift_right_logical", shift) & mask).to(inner)

    operands = bytes_, shifts, of_blocks(scales)
    if zeros is None:
        return formula(b, lambda v, h, s: (unpacked(v, h) - middle) * s.to(inner), *operands)
    return formula(b, lambda v, h, s, z: unpacked(v, h) * s.to(inner) - z, *operands, of_blocks(zeros))


def _unpacked(call: NodeCall, x: Tensor, bits: int) -> Tensor:
    """Unpack numbers of a few bits from bytes along the last axis, the first one in the lowest bits."""
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
