"""Panels of constant block-scaled weights, in the order in which the kernels of CPUs read them.

    [panel][block][group][column][byte of the group], and [half of the byte] for 4 bits

A group is 4 steps of K with 8 bits, or 8 steps with 4 bits: the low halves of the 4 bytes are its first 4 steps, the
high halves the others. So 32 bits hold steps of one column, as instructions take that add up four products of bytes.
Weights are stored as unsigned offsets from their least value; zero points, scales and offsets are one f32 for each
panel, block and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType, UnitAttr, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.analysis.kinds import ONCE
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.fusion.quantized.block_scaled import Weights, stored_range
from pydispatch.compiler.fusion.quantized.dequantized import GenericBody, element_of
from pydispatch.compiler.fusion.quantized.mixed_radix import Position, collapsed, digits_of, loop_index
from pydispatch.compiler.fusion.quantized.product_loops import K_LOOP, N_LOOP
from pydispatch.compiler.fusion.quantized.spaces import Space, as_float
from pydispatch.compiler.fusion.quantized.terms import (
    Term,
    constant_of,
    elements_in,
    stored_integer,
    term_before_widening,
)
from pydispatch.compiler.kernels.matmul.block_quantized import LONGEST_BLOCK, WIDTHS, WORD_BYTES, is_zero_point
from pydispatch.ir.values import shape_of

STEPS_OF_BLOCKS = (128, 64, 32, 16)
"""Numbers of indices of K in a block of packed weights to choose from, if scales and zero points do not depend on K, so
that any block will do. The first one that divides K is taken: with longer blocks, kernels convert sums of integers to
f32 less often. The maximum is LONGEST_BLOCK."""

LEAST_BYTES = 4 << 10
"""Minimum size of weights that are packed: smaller ones are not worth a constant of their own."""


@dataclass(frozen=True)
class Layout:
    """Layout of the packed weights of a product, a constant [K, N] matrix: panels of adjacent columns.

    Each panel is divided into blocks of adjacent steps of K, where a step is a row of the matrix.

    All weights of a column in a block have the same zero point, scale and offset. A group is the steps of K of one
    column whose weights fill one 32-bit word.

    Attributes:
        columns, steps: Sizes N and K of the weights.
        width: Number of columns of a panel; it divides `columns`.
        block: Number of steps of K of a block; it divides `steps`.
        bits: Bits of a weight, 4 or 8.
    """

    columns: int
    steps: int
    width: int
    block: int
    bits: int

    @property
    def steps_per_group(self) -> int:
        """Number of steps of K in the `WORD_BYTES` bytes of a group: 4 weights of 8 bits, or 8 of 4 bits."""
        return WORD_BYTES * 8 // self.bits

    @property
    def panels(self) -> int:
        """Number of panels."""
        return self.columns // self.width

    @property
    def blocks(self) -> int:
        """Number of blocks of a panel."""
        return self.steps // self.block

    @property
    def groups(self) -> int:
        """Number of groups of a block."""
        return self.block // self.steps_per_group

    @property
    def loops(self) -> tuple[int, ...]:
        """Sizes of the loops of a product: panels, columns of a panel, blocks, groups, halves of bytes (only with 4
        bits), bytes of a group. This is not the order in memory.
        """
        halves = (2,) if self.bits == 4 else ()
        return (self.panels, self.width, self.blocks, self.groups, *halves, WORD_BYTES)

    def positions(self, first: int) -> dict[int, Position]:
        """Return the index of a step of K (key K_LOOP) and of a column (key N_LOOP) as sums of digits of `loops`.

        first: number of loops that precede `loops` in the product, the loops over its rows.
        """
        loops = [loop_index(first + i, size) for i, size in enumerate(self.loops)]
        # The first two loops, over panels and columns of a panel, count columns. The others count steps of K.
        return {N_LOOP: collapsed(loops[:2], self.loops[:2]), K_LOOP: collapsed(loops[2:], self.loops[2:])}


def layout_of(weights: Weights, columns: int, steps: int) -> Layout | None:
    """Choose the sizes of panels and blocks for weights [steps of K][columns], and return them as a layout.

    For 8-bit weights [128][32] with a scale for each 32 steps, panels are 16 columns wide and blocks 32 steps long: the
    packed tensor is [2 panels][4 blocks][8 groups][16 columns][4 bytes].

    Return None if there are too few weights to pack, if they need more than 8 bits, or if columns cannot be divided
    into panels or steps of K into blocks.

    Args:
        weights: The weights.
        columns: Size N of the product.
        steps: Size K of the product.
    """
    low, high = weights.range
    bits = 4 if high - low < 1 << 4 else 8  # panels hold the unsigned difference to `low`
    is_wider_than_bytes = high - low >= 1 << 8
    steps_of_word = WORD_BYTES * 8 // bits
    width = next((w for w in WIDTHS if columns % w == 0 and columns > w), None)  # two or more panels
    # `weights.block` is None in two cases. All steps share their zero points and scales: any block will do. Or they
    # change after numbers of steps that are not multiples of each other: `Panels.weight` then returns None.
    block = weights.block or next((b for b in STEPS_OF_BLOCKS if steps % b == 0), None)
    weight_bytes = columns * steps * bits // 8
    if is_wider_than_bytes or weight_bytes < LEAST_BYTES:
        return None
    if width is None or block is None:  # columns or steps of K cannot be divided
        return None
    # Blocks consist of two or more whole words, and K of two or more blocks: simplification drops loops of one
    # iteration, but kernels expect all loops of panels.
    has_whole_words = block % steps_of_word == 0
    has_all_loops = block > steps_of_word and steps > block
    if block > LONGEST_BLOCK or not has_whole_words or not has_all_loops:
        return None
    return Layout(columns=columns, steps=steps, width=width, block=block, bits=bits)


@dataclass(frozen=True)
class Panels:
    """Builder of operations that pack constant weights into panels: their integers, zero points, scales and offsets.

    The rewrite of a product creates one, and calls `weight`. Each packed tensor is computed over a `Space`: loops in
    the order of that tensor. The indices of the weights' steps (K_LOOP) and columns (N_LOOP) are functions of these
    loops.

    Attributes:
        weights: The weights as the program stores them.
        layout: The layout of the panels.
    """

    weights: Weights
    layout: Layout

    def weight(self, ops: list[Operation], body: GenericBody, rows: int) -> SSAValue | None:
        """Add the dequantization of one weight from panels to the body of a product, and return its f32 value.

        The value is (stored - zero) * scale + offset. `stored` is read at [panel][block][group][column][byte], and
        [half] with 4 bits; zero, scale and offset at [panel][block][column], or [panel][column] if all blocks share
        them. The operations that compute these four tensors from the original weights are appended to `ops`.

        Return None if the weights cannot be packed: an index is not affine in the loops of the packed tensors.

        Args:
            ops: List that receives the operations that pack the weights.
            body: The body of the product's generic.
            rows: Number of the product's loops over rows, which precede those of `Layout.loops`.
        """
        layout = self.layout
        stored = self._packed_integers(ops)
        has_affine_terms = self._panel_loops(has_blocks=True).can_index(self.weights.terms)
        if stored is None or not has_affine_terms:
            return None
        rank = rows + len(layout.loops)
        # Unpack the loops of the product in their order; there are loops over halves of bytes only with 4 bits. The map
        # below has them in the order of the packed tensor's dimensions.
        panel, column, block, group, *half, byte = (AffineExpr.dimension(d) for d in range(rows, rank))
        value = body.input(stored, AffineMap(rank, 0, (panel, block, group, column, byte, *half)))
        value = body.add(arith.SIToFPOp(body.add(arith.ExtUIOp(value, i32)), f32))  # panels hold unsigned integers
        block_index, panel_index = AffineMap(rank, 0, (panel, block, column)), AffineMap(rank, 0, (panel, column))
        return self._dequantized(ops, body, value, block_index, panel_index)

    def _dequantized(
        self, ops: list[Operation], body: GenericBody, value: SSAValue, block_index: AffineMap, panel_index: AffineMap
    ) -> SSAValue:
        """Add (value - zero) * scale + offset to the body of a product, and return it; value: the integer as f32.

        The operations that compute zero points, scales and offsets are appended to `ops`. `block_index` maps the loops
        of the product to [panel][block][column], and `panel_index` to [panel][column] for terms that all blocks share.
        """

        def read(term: SSAValue) -> SSAValue:
            """Add the read of a zero point, scale or offset to `body`, and return it as f32; term: the tensor."""
            differs_between_blocks = len(shape_of(term)) == 3
            return _read_as_float(body, term, block_index if differs_between_blocks else panel_index)

        # Panels hold stored integers less `low`, the least of them, so that zero points are less by `low`, too. If they
        # are not one known number (None), they are read from a tensor; the zero point 0 needs no subtraction.
        weights, (low, _) = self.weights, self.weights.range
        zero = _constant_zero(weights.zeros, low)
        if zero is None:
            value = body.add(arith.SubfOp(value, read(self._zeros(ops))))
        elif zero:
            value = body.add(arith.SubfOp(value, body.add(arith.ConstantOp(FloatAttr(zero, f32)))))
        if weights.scales:
            value = body.add(arith.MulfOp(value, read(self._joined_terms(ops, weights.scales, arith.MulfOp))))
        if weights.offsets:
            value = body.add(arith.AddfOp(value, read(self._joined_terms(ops, weights.offsets, arith.AddfOp))))
        return value

    def _packed_integers(self, ops: list[Operation]) -> SSAValue | None:
        """Build the operations that pack the stored integers into panels, and return the panels.

        The panels are [panel][block][group][column][byte], and [half of the byte] with 4 bits. With 8 bits, panels of
        16 columns and blocks of 32 steps, the weight of step 37 and column 20 is element [1][1][1][4][1]:
        37 = 32 * 1 + 4 * 1 + 1, and 20 = 16 * 1 + 4.

        The least possible stored integer is subtracted from each, so that panels hold unsigned integers. Return None if
        the index of a weight is not affine.

        ops: list that receives the operations.
        """
        space, (low, _) = self._integer_loops, self.weights.range
        index = space.index_map(self.weights.index)
        if index is None:
            return None
        body, type_ = GenericBody(), IntegerType(self.layout.bits)
        value = _resized(body, body.input(self.weights.stored, index), type_, self.weights.is_signed)
        if low:
            least = body.add(arith.ConstantOp(IntegerAttr(low, type_, truncate_bits=True)))
            value = body.add(arith.SubiOp(value, least))
        sizes = [size for size in space.sizes if size is not None]  # all of them: packed weights are static
        return self._in_panels(ops, _append_elementwise(ops, body, value, sizes, type_))

    @property
    def _integer_loops(self) -> Space:
        """Loops in the order of the packed integers, with K and N as functions; blocks may take several nested loops.

        Steps of K run over blocks, groups, halves of bytes and bytes, outermost first: the low halves of a group's
        bytes are its first steps, so that halves precede bytes.
        """
        layout, blocks = self.layout, self._block_sizes
        halves = (2,) if layout.bits == 4 else ()
        sizes = (layout.panels, *blocks, layout.groups, layout.width, WORD_BYTES, *halves)
        loops = [loop_index(i, n) for i, n in enumerate(sizes)]
        group_loop = 1 + len(blocks)
        column_loop, byte_loop = group_loop + 1, group_loop + 2
        half_loops = (group_loop + 3,) if halves else ()
        step_loops = (*range(1, group_loop + 1), *half_loops, byte_loop)
        steps = collapsed([loops[i] for i in step_loops], [sizes[i] for i in step_loops])
        columns = collapsed([loops[0], loops[column_loop]], [layout.panels, layout.width])
        return Space(sizes, positions={K_LOOP: steps, N_LOOP: columns})

    @property
    def _block_sizes(self) -> tuple[int, ...]:
        """Sizes of the nested loops over blocks of K in which packed tensors are computed; their product is
        `Layout.blocks`.
        """
        return self.weights.block_loops(self.layout.block, self.layout.steps)

    def _in_panels(self, ops: list[Operation], packed: SSAValue) -> SSAValue:
        """Build the reshape of a packed tensor from [panel, *`_block_sizes`, ...] to [panel, block, ...], and return
        its result. The dimensions of nested loops over blocks are collapsed into one.

        With 4 x 8 blocks, [16][4][8][32] becomes [16][32][32].
        """
        shape, block_dims = list(shape_of(packed)), len(self._block_sizes)
        if block_dims == 1:
            return packed
        end = 1 + block_dims  # first dimension after those of blocks
        groups = [[0], list(range(1, end)), *([dim] for dim in range(end, len(shape)))]
        type_ = TensorType(element_of(packed), [shape[0], self.layout.blocks, *shape[end:]])
        properties = {"reassociation": reassociation(groups)}
        ops.append(tensor.CollapseShapeOp(operands=[packed], result_types=[type_], properties=properties))
        return ops[-1].results[0]

    def _panel_loops(self, has_blocks: bool) -> Space:
        """Return the loops over which terms (zero points, scales or offsets) are computed, with K and N as functions.

        The loops are panels, blocks, and columns of a panel. With several entries in `_block_sizes`, there are as many
        nested loops over blocks.

        has_blocks: whether the terms differ between blocks. Otherwise the loops over blocks are left out.
        """
        panels, width = self.layout.panels, self.layout.width
        blocks = self._block_sizes if has_blocks else ()
        column_loop = 1 + len(blocks)
        columns = collapsed([loop_index(0, panels), loop_index(column_loop, width)], [panels, width])
        if not has_blocks:
            return Space((panels, width), positions={N_LOOP: columns, K_LOOP: ()})  # (): no term reads the index in K
        loops = [loop_index(1 + i, n) for i, n in enumerate(blocks)]
        block = self.layout.block
        # Steps of a block would be loop column_loop + 1. `Space` does not list it: terms are the same for all steps.
        steps = collapsed([*loops, loop_index(column_loop + 1, block)], [*blocks, block])
        return Space((panels, *blocks, width), positions={N_LOOP: columns, K_LOOP: steps})

    def _zeros(self, ops: list[Operation]) -> SSAValue:
        """Build the operations that compute the zero points of the integers in panels, and return the tensor.

        Panels hold stored integers less `low`, the least stored integer of the weights, so `low` is subtracted from
        zero points, too: for i8 weights, `low` is -128, and the zero point -3 becomes 125. The result is
        [panel][block][column], or [panel][column] if all blocks share zero points. Its elements are unsigned bytes if
        zero points are stored integers that fit, else f32.

        ops: list that receives the operations.
        """
        terms, (low, _) = self.weights.zeros, self.weights.range
        stored = stored_integer(terms[0]) if len(terms) == 1 else None
        if stored is None:
            return self._joined_terms(ops, terms, join=arith.AddfOp, start=float(-low))
        element, is_signed = stored
        least, most = stored_range(element.tensor, is_signed)  # range of the zero points
        if least < low or most - low > 255:  # a difference does not fit an unsigned byte
            return self._joined_terms(ops, terms, join=arith.AddfOp, start=float(-low))
        space, body = self._panel_loops(has_blocks=_depend_on_block(terms)), GenericBody()
        # The conversion to a byte and the subtraction may both wrap around. The result is right nevertheless: it is
        # right modulo 256, and the true difference is from 0 to 255.
        value = _resized(body, space.emit(body, element), i8, is_signed)
        if low:
            value = body.add(arith.SubiOp(value, body.add(arith.ConstantOp(IntegerAttr(low, i8, truncate_bits=True)))))
        return self._tensor_over_loops(ops, body, value, space)

    def _joined_terms(
        self,
        ops: list[Operation],
        terms: Sequence[Term],
        join: type[arith.AddfOp] | type[arith.MulfOp],
        start: float = 0.0,
    ) -> SSAValue:
        """Build the operations that compute the sum or product of terms for each panel, block and column.

        A term is a scalar expression that the steps of a block share, such as an element of a tensor of scales. For the
        scales s[k // 32, n] and t[n], `join` is a multiplication, and an element of the result is s[block, n] * t[n].

        Return the tensor [panel][block][column], or [panel][column] if the terms are the same for all blocks. Its
        elements are f32, or have the narrower type of a single term, such as f16.

        Args:
            ops: List that receives the operations.
            terms: The terms, one or more: all scales of the weights, all offsets, or all zero points.
            join: Operation that combines two terms.
            start: Number that is added to the result: minus the least stored integer for zero points.
        """
        space, body = self._panel_loops(has_blocks=_depend_on_block(terms)), GenericBody()
        # A single term of a narrower float type is stored as it is: the product widens it.
        narrow = term_before_widening(terms[0]) if len(terms) == 1 and not start else None
        if narrow is not None:
            value = space.emit(body, narrow)
        else:
            value, *others = (as_float(body, space.emit(body, term)) for term in terms)
            for other in others:
                value = body.add(join(value, other))
            if start:
                value = body.add(arith.AddfOp(value, body.add(arith.ConstantOp(FloatAttr(start, f32)))))
        return self._tensor_over_loops(ops, body, value, space)

    def _tensor_over_loops(self, ops: list[Operation], body: GenericBody, value: SSAValue, space: Space) -> SSAValue:
        """Build the generic that stores the `value` that `body` computes in each iteration of `space`, and return its
        result: [panel][column], or [panel][block][column] if `space` has loops over blocks.

        ops: list that receives the operations.
        """
        sizes = [size for size in space.sizes if size is not None]  # all of them: weights that are packed are static
        packed = _append_elementwise(ops, body, value, sizes, value.type)
        has_blocks = len(sizes) > 2  # [panel][column] alone is the layout of panels already
        return self._in_panels(ops, packed) if has_blocks else packed


def _constant_zero(terms: Sequence[Term], low: int) -> float | None:
    """Return the zero point of integers in panels if it is one known small integer; None for others.

    Args:
        terms: Terms whose sum is the zero point of the stored integers; none for 0.
        low: The least stored integer: integers in panels, and so their zero point, are less by it.
    """
    total = float(-low)
    for term in terms:
        constant = constant_of(term)
        if constant is None:
            return None
        total += constant
    return total if is_zero_point(total) else None


def _depend_on_block(terms: Sequence[Term]) -> bool:
    """Return whether terms differ between blocks of K."""
    elements = (element for term in terms for element in elements_in(term))
    return any(list(digits_of(K_LOOP, element.at)) for element in elements)


def _read_as_float(body: GenericBody, tensor_: SSAValue, index: AffineMap) -> SSAValue:
    """Add the read of an element, an unsigned integer or a float of at most 32 bits, to a body; return it as f32."""
    value = body.input(tensor_, index)
    if isinstance(value.type, IntegerType):
        return body.add(arith.SIToFPOp(body.add(arith.ExtUIOp(value, i32)), f32))
    return value if value.type == f32 else body.add(arith.ExtFOp(value, f32))


def _append_elementwise(
    ops: list[Operation], body: GenericBody, value: SSAValue, shape: Sequence[int], element: Attribute
) -> SSAValue:
    """Append the elementwise generic of a body that yields `value` to `ops`, and return its result.

    The result is a tensor of the sizes `shape`, which the body's loops iterate over, and of the type `element`. It is
    derived once from constants, before any call (attribute ONCE).
    """
    empty = tensor.EmptyOp([], TensorType(element, shape))
    index = AffineMap.identity(len(shape))
    generic = body.build_generic(value, empty.results[0], index, ["parallel"] * len(shape))
    generic.attributes[ONCE] = UnitAttr()
    ops += [empty, generic]
    return generic.results[0]


def _resized(body: GenericBody, value: SSAValue, to: IntegerType, is_signed: bool) -> SSAValue:
    """Add the conversion of an integer to another integer type, which may wrap around, and return the result.

    is_signed: whether the integer is extended with its sign, if `to` is wider.
    """
    assert isinstance(value.type, IntegerType)
    if value.type.width.data < to.width.data:
        return body.add(arith.ExtSIOp(value, to) if is_signed else arith.ExtUIOp(value, to))
    return value if value.type == to else body.add(arith.TruncIOp(value, to))
