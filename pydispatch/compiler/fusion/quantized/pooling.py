"""Maxima and sums of dequantized numbers over windows, computed on the stored integers.

Dequantization by one positive scale keeps the order of numbers, so the maximum of dequantized numbers is the
dequantized maximum of the stored integers. A sum of them is the scaled i32 sum of the stored integers, less their zero
points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, TensorType, f32, i32
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import replace_with
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.quantized.affine import Element, Real, integer_range
from pydispatch.compiler.fusion.quantized.dequantized import EXACT, GenericBody, element_of, sizes_of
from pydispatch.compiler.fusion.quantized.scalars import Unrecognized
from pydispatch.compiler.fusion.quantized.trace import Tracer
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

BYTE_BITS = 8
"""Bits of the stored integers whose maxima and sums are computed as integers."""

ZERO_TOLERANCE = 1e-6
"""A zero point that is at most this far from an integer is rounded to that integer. Zero points are computed as
-offset / scale in floating point, so that they are not exact."""


@dataclass(frozen=True)
class Stored:
    """Quantized f32 tensor `scale * (tensor - zero)`, with one scale and one zero point for all elements.

    Attributes:
        tensor: The stored integers, of BYTE_BITS bits.
        signed: Whether they are signed.
        scale: The scale.
        zero: The zero point.
    """

    tensor: SSAValue
    signed: bool
    scale: float
    zero: int

    @property
    def lowest(self) -> int:
        """The least value of the stored integers' type: maxima start with it, and padding with -inf becomes it."""
        return integer_range(BYTE_BITS, self.signed)[0]

    @property
    def most_distance(self) -> int:
        """The largest distance of a stored integer from the zero point, which need not be in its range."""
        return max(abs(end - self.zero) for end in integer_range(BYTE_BITS, self.signed))


def pool_integers(function: Operation) -> None:
    """Rewrite maxima and sums of dequantized numbers to compute on the stored integers, in a host function in place."""
    changed = False
    for op in list(walk(function)):  # an operation without a parent was erased when an earlier one was rewritten
        if op.name != GENERIC or op.parent is None or len(op.results) != 1:
            continue
        if element_of(op.results[0]) == f32:
            changed = _rewrite(cast(GenericOp, op)) or changed
    if changed:
        erase_unused(function)


def _rewrite(op: GenericOp) -> bool:
    """Replace a maximum or sum of dequantized numbers over windows. Return whether it was replaced.

    max(dequantize(q)) becomes dequantize(max(q)), which reads and compares bytes; a sum is computed likewise, in i32.
    """
    generic = structured(op)
    combine, terminator = generic.block.first_op, generic.block.last_op
    # The body must be one operation, followed by the yield of its result.
    if not generic.has_reduction_loops or combine is None or combine.next_op is not terminator:
        return False
    combines_element_and_output = set(combine.operands) == {generic.block.args[0], generic.block.args[-1]}
    if not combines_element_and_output or terminator is None or terminator.operands[0] not in combine.results:
        return False
    new_ops: list[Operation] | None = None
    if isinstance(combine, arith.MaximumfOp):
        new_ops = _maximum(op, generic)
    elif isinstance(combine, arith.AddfOp):
        new_ops = _sum(op, generic)
    if new_ops is None:
        return False
    replace_with(op, new_ops)
    return True


def _maximum(op: GenericOp, generic: Structured) -> list[Operation] | None:
    """Build the dequantized maximum of stored integers, to replace `op`.

    The maximum of the numbers 0.5 * (q - 3) becomes 0.5 * (max(q) - 3).

    Return None if the input is not quantized, or if a window may have no element: the maximum is then -infinity, which
    no stored integer stands for.
    """
    # The maximum starts with -infinity, and the image is padded with -infinity: the least integer replaces both.
    pad, stored = _pad_and_stored_input(generic)
    if stored is None or _splat(generic.outputs[0]) != -math.inf:
        return None
    new_ops = [] if pad is None else _padded(pad, stored, value=-math.inf, stored_value=stored.lowest)
    if new_ops is None:
        return None
    axes = enumerate(generic.maps[0].results)
    if pad is not None and not all(_every_window_meets_image(generic, axis, expr, pad) for axis, expr in axes):
        return None  # a window may consist of padding alone
    # Compute the maximum of the integers, and dequantize it. A positive scale keeps the order of the numbers.
    byte = cast(IntegerType, element_of(stored.tensor))
    size_ops, dims = sizes_of(generic.outputs[0])
    lowest = arith.ConstantOp(IntegerAttr(stored.lowest, byte, truncate_bits=True))
    start = tensor.SplatOp(lowest.result, dims, TensorType(byte, shape_of(op.results[0])))
    source = new_ops[-1].results[0] if new_ops else stored.tensor
    greatest = _reduced(op, source, start.result, arith.MaxSIOp if stored.signed else arith.MaxUIOp)
    new_ops += [*size_ops, lowest, start, greatest]
    return [*new_ops, *_dequantized(greatest.results[0], stored, zero=stored.zero, op=op)]


def _sum(op: GenericOp, generic: Structured) -> list[Operation] | None:
    """Build the dequantized sum of stored integers, to replace `op`.

    The sum of `count` numbers scale * (q - zero) is scale * (sum(q) - count * zero), with a sum in i32.

    Return None in these cases:

    - The input is not quantized.
    - The sum does not start with 0.
    - The number of elements in a window is dynamic.
    - The padding is not 0, or no stored integer stands for 0.
    - The sum may be too large to be exact in f32.
    """
    pad, stored = _pad_and_stored_input(generic)
    has_dynamic_window = any(generic.extents[d] is None for d in generic.reduced_loops)
    if stored is None or has_dynamic_window or _splat(generic.outputs[0]) != 0.0:
        return None
    # The numbers in a window. Padding with 0.0 becomes padding with the zero point.
    count = math.prod(generic.extent(d) for d in generic.reduced_loops)
    new_ops = [] if pad is None else _padded(pad, stored, value=0.0, stored_value=stored.zero)
    # `most_distance` is the largest |q - zero|. 0: windows without elements.
    is_exact = 0 < count * stored.most_distance <= EXACT
    if new_ops is None or not is_exact:  # None: no stored integer stands for the padding
        return None
    size_ops, dims = sizes_of(generic.outputs[0])
    zero = arith.ConstantOp(IntegerAttr(0, i32))
    start = tensor.SplatOp(zero.result, dims, TensorType(i32, shape_of(op.results[0])))
    source = new_ops[-1].results[0] if new_ops else stored.tensor
    total = _reduced(op, source, start.result, arith.AddiOp, arith.ExtSIOp if stored.signed else arith.ExtUIOp)
    new_ops += [*size_ops, zero, start, total]
    return [*new_ops, *_dequantized(total.results[0], stored, zero=stored.zero * count, op=op)]


def _pad_and_stored_input(generic: Structured) -> tuple[tensor.PadOp | None, Stored | None]:
    """Return the operation that pads the input of a reduction, and the tensor before this padding as stored integers.

    The operation is None if the input is not padded. The tensor is None if it is not quantized.
    """
    value = generic.inputs[0]
    pad = value.owner if isinstance(value.owner, tensor.PadOp) else None
    return pad, stored_of(value if pad is None else pad.source)


def _padded(pad: tensor.PadOp, stored: Stored, value: float, stored_value: int) -> list[Operation] | None:
    """Build the padding of stored integers with the integer `stored_value`, which stands for the f32 `value`.

    Return None if `pad` pads with another value, or if no byte is `stored_value`.
    """
    least_byte, greatest_byte = integer_range(BYTE_BITS, stored.signed)
    if not _pads_with(pad, value) or not least_byte <= stored_value <= greatest_byte:
        return None
    byte, shape = cast(IntegerType, element_of(stored.tensor)), shape_of(pad.result)
    padding = arith.ConstantOp(IntegerAttr(stored_value, byte, truncate_bits=True))
    block = Block([tensor.YieldOp(padding.result)], arg_types=[IndexType()] * len(shape))
    low_widths, high_widths = ([int(n) for n in a.get_values()] for a in (pad.static_low, pad.static_high))
    return [
        padding,
        tensor.PadOp(stored.tensor, [], [], Region(block), low_widths, high_widths, TensorType(byte, shape)),
    ]


def stored_of(value: SSAValue) -> Stored | None:
    """Return the stored bytes of an f32 tensor that one positive scale and one zero point dequantize.

    Return None for other tensors: the scale is no positive number, the zero point no integer, or the stored bytes have
    another shape or order than the tensor.
    """
    if not isinstance(value.owner, Operation) or value.owner.name != GENERIC or element_of(value) != f32:
        return None
    affine = _affine_byte(value)
    if affine is None:
        return None
    # The number is scale * element + offset = scale * (element - zero), so that zero is -offset / scale.
    element, scale, offset = affine
    if not 0 < scale < math.inf:
        return None
    zero = -offset / scale
    is_integer = abs(zero) <= EXACT and abs(zero - round(zero)) <= ZERO_TOLERANCE
    if not is_integer or not element.is_in_order(shape_of(value)):
        return None
    return Stored(element.tensor, element.signed, scale, round(zero))


def _affine_byte(value: SSAValue) -> tuple[Element, float, float] | None:
    """Return (element, scale, offset) of a tensor of the numbers scale * element + offset, with stored bytes.

    Return None for other tensors, also if scale or offset differs between elements.
    """
    rank = len(shape_of(value))
    try:
        # Bytes that other operations compute are read as they are stored, not recomputed for each window.
        real = Tracer(rank, recomputes=False).element(value, AffineMap.identity(rank))
    except Unrecognized:
        return None
    # `real` is a sum of terms factor * element, and an offset, perhaps clamped and rounded. It must have one term.
    if not isinstance(real, Real) or not real.is_affine or len(real.terms) != 1:
        return None
    ((element, factor),) = real.terms
    varies = factor.size != 1 or real.offset.size != 1
    if varies or not isinstance(element, Element) or element.width != BYTE_BITS:
        return None
    return element, factor.item(), real.offset.item()


def _reduced(
    op: GenericOp,
    source: SSAValue,
    start: SSAValue,
    combine: type[arith.MaxSIOp | arith.MaxUIOp | arith.AddiOp],
    widen: type[arith.ExtSIOp | arith.ExtUIOp] | None = None,
) -> GenericOp:
    """Build a reduction with the loops of `op` over another input.

    Args:
        op: The reduction of f32.
        source: The tensor of stored integers to reduce.
        start: The initial values of the result.
        combine: Operation that combines the result so far with an element.
        widen: Conversion of an element to i32 before that; None for none.
    """
    inputs = [source, *op.inputs[1:]]  # the body reads the first one; others, if any, state sizes of the window
    block = Block(arg_types=[element_of(v) for v in (*inputs, start)])
    element: SSAValue = block.args[0]
    if widen is not None:
        wide = widen(element, i32)
        block.add_op(wide)
        element = wide.result
    total = combine(block.args[-1], element)
    block.add_ops([total, YieldOp(total.result)])
    return GenericOp(inputs, [start], Region(block), op.indexing_maps, op.iterator_types, [start.type])


def _dequantized(value: SSAValue, stored: Stored, zero: int, op: GenericOp) -> list[Operation]:
    """Build the operations that dequantize reduced integers: `scale * (value - zero)`.

    Args:
        value: The maxima or sums of stored integers.
        stored: The input of the reduction, with its scale and sign.
        zero: Zero point of the reduced integers; for a sum of n integers, it is n times the zero point of `stored`.
        op: The reduction of f32.
    """
    body, index = GenericBody(), AffineMap.identity(len(shape_of(value)))
    element = body.input(value, index)
    if element_of(value) != i32:  # maxima are bytes, sums are i32
        element = body.add(arith.ExtSIOp(element, i32) if stored.signed else arith.ExtUIOp(element, i32))
    if zero:
        element = body.add(arith.SubiOp(element, body.add(arith.ConstantOp(IntegerAttr(zero, i32)))))
    real = body.add(arith.SIToFPOp(element, f32))
    real = body.add(arith.MulfOp(real, body.add(arith.ConstantOp(FloatAttr(stored.scale, f32)))))
    return body.generic(real, structured(op).outputs[0], index)


def _splat(value: SSAValue) -> float | None:
    """Return the value of all elements of a tensor, if it is one constant; None for other tensors."""
    if isinstance(value.owner, tensor.SplatOp):
        return _constant(value.owner.input)
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    scalar = splat_of(attribute)
    return float(scalar.value.data) if scalar is not None else None


def _constant(value: SSAValue) -> float | None:
    """Return a constant float scalar; None for other values."""
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return float(attribute.value.data) if isinstance(attribute, FloatAttr) else None


def _pads_with(pad: tensor.PadOp, value: float) -> bool:
    """Return whether a padding has static widths, and pads with the constant `value`."""
    terminator = pad.region.block.last_op
    has_static_widths = not pad.low and not pad.high
    return has_static_widths and terminator is not None and _constant(terminator.operands[0]) == value


def _every_window_meets_image(generic: Structured, axis: int, expr: AffineExpr, pad: tensor.PadOp) -> bool:
    """Return whether each window along an axis has an element of the tensor that is padded.

    The maximum of a window of padding alone is -infinity, which no stored integer stands for. With a padding of 1, each
    window of 3 elements has one of the tensor; with a padding of 3, the first window of 2 elements has none.

    Return False if a size is dynamic, or if the index depends on several loops of the result or of the window.

    expr: index of the padded tensor along the axis, over the loops of the reduction.
    """
    low_width, high_width = (int(a.get_values()[axis]) for a in (pad.static_low, pad.static_high))
    if low_width <= 0 and high_width <= 0:  # there is no padding along this axis
        return True
    size, dims = shape_of(pad.source)[axis], sorted(expr.used_dims())
    if size < 0 or any(generic.extents[d] is None or generic.extent(d) < 0 for d in dims):
        return False
    # The loop over windows and the loop over positions in a window; at most one of each, so that all pairs of their
    # iterations can be tried.
    outer_loops = [d for d in dims if d not in generic.reduced_loops]
    window_loops = [d for d in dims if d in generic.reduced_loops]
    if len(outer_loops) > 1 or len(window_loops) > 1:
        return False
    windows, steps = _iterations(generic, outer_loops), _iterations(generic, window_loops)
    image, loop_count = range(low_width, low_width + size), len(generic.iterators)  # the indices of the tensor
    return all(any(_index_at(expr, {**window, **step}, loop_count) in image for step in steps) for window in windows)


def _iterations(generic: Structured, loops: Sequence[int]) -> list[dict[int, int]]:
    """Return each iteration of at most one loop as {number of the loop: its counter}; just {} without one."""
    return [{loops[0]: counter} for counter in range(generic.extent(loops[0]))] if loops else [{}]


def _index_at(expr: AffineExpr, counters: dict[int, int], loop_count: int) -> int:
    """Return the value of the index `expr` at counters {number of a loop: its counter}; other loops are at 0.

    loop_count: number of all loops.
    """
    return expr.eval([counters.get(loop, 0) for loop in range(loop_count)], [])
