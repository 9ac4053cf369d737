"""Recognition of contractions by block-quantized weights in panels, which `fusion/quantized/block_panels.py` builds.

    [panel][block][group][column][byte of the group], and [half of the byte] for 4 bits

A panel is a fixed number of adjacent columns, a block the steps of K that share a scale and a zero point in a column.
A group is 4 steps of K with 8 bits, or 8 steps with 4 bits: the low halves of its 4 bytes are the first 4 steps, the
high halves the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType, bf16, f16, f32, i8
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.ir.op_info import INTEGER_BYTES
from pydispatch.ir.structured import Structured

WORD_BYTES = 4
"""Size in bytes of a group: the weights of a column at adjacent indices of K that are packed into one word. The
instructions that multiply bytes add up 4 products."""

WIDTHS = (64, 32, 16)
"""Numbers of columns that a panel may have, best first: 64 are four vectors of AVX-512, which hide the latency of sums
and share the loads of A."""

LONGEST_BLOCK = 128
"""Maximum number of steps of K in a block of weights with one scale. Kernels round elements of A to integers of up to 3
bytes, and sum up the products of each byte separately. They combine the sums of two bytes as 256 * higher sum + lower
sum, which fits into i32 for blocks of this length."""

MOST_INTEGER_BYTES = 3
"""Maximum number of bytes of the integers that elements of A are rounded to: with 3, they are about as precise as f32,
whose significand has 24 bits."""

LARGEST_ZERO = 255
"""Largest magnitude of a constant zero point. Up to this one, its products with sums over a block fit into 32 bits."""

i4 = IntegerType(4)


@dataclass(frozen=True)
class PerBlock:
    """A tensor of f32, f16, bf16 or unsigned bytes: the scale, zero point or offset of each block of weights.

    Attributes:
        tensor: The tensor: [panel][block][column of the panel], or [panel][column of the panel].
        has_blocks: Whether it has the dimension of blocks; otherwise all blocks of a column share an element.
    """

    tensor: SSAValue
    has_blocks: bool


@dataclass(frozen=True)
class BlockQuantized:
    """Recognized product of f32 rows by packed weights (u - zero) * scale + offset, where u is an unsigned integer.

    The integers are stored in panels: [panel][block][group][column][byte], and [half of the byte] for 4 bits. A panel
    is a fixed number of adjacent columns, a block the steps of K that share a scale and a zero point in a column, and a
    group 4 bytes of a column: 4 steps of K with 8 bits, 8 with 4 bits.

    Attributes:
        contraction: The contraction.
        row_factor: The factor that the weights are multiplied by: A, whose elements are in rows.
        argument: The panels, an argument of the dispatch function.
        dims: The loops of the contraction over the dimensions of the panels, in their order.
        bits: Width of a weight in bits, 4 or 8.
        zero: The zero point: a constant integer as a float, or a tensor.
        scale, offset: Tensors; None for a scale of 1 and an offset of 0.
    """

    contraction: Contraction
    row_factor: Factor
    argument: BlockArgument
    dims: tuple[int, ...]
    bits: int
    zero: float | PerBlock
    scale: PerBlock | None
    offset: PerBlock | None

    @property
    def panel_loop(self) -> int:
        """The loop over panels."""
        return self.dims[0]

    @property
    def block_loop(self) -> int:
        """The loop over the blocks along K."""
        return self.dims[1]

    @property
    def column_loop(self) -> int:
        """The loop over a panel's columns."""
        return self.dims[3]

    @property
    def step_loop(self) -> int:
        """The loop over a group's bytes, whose indices are consecutive steps of K."""
        return self.dims[4]

    @property
    def panels(self) -> int:
        """Number of panels."""
        return self._shape[0]

    @property
    def blocks(self) -> int:
        """Number of blocks along K."""
        return self._shape[1]

    @property
    def groups(self) -> int:
        """Number of groups in a block. A group is 4 bytes of each column: 4 steps of K with 8 bits, 8 with 4 bits."""
        return self._shape[2]

    @property
    def width(self) -> int:
        """Number of columns of a panel."""
        return self._shape[3]

    @property
    def steps_per_block(self) -> int:
        """Number of steps of K in a block."""
        return self.groups * WORD_BYTES * 8 // self.bits

    @property
    def steps_per_row(self) -> int:
        """Number of steps of K in all blocks, which is the number of elements in a row of A."""
        return self.blocks * self.steps_per_block

    @property
    def integer_bytes(self) -> int:
        """Size in bytes, 1 to 3, of the integers that elements of the row factor may be rounded to.

        The attribute `INTEGER_BYTES` of the contraction's operation states the size. Without it, the size is 3; stated
        sizes out of range become 1 or 3.
        """
        attribute = self.contraction.op.attributes.get(INTEGER_BYTES)
        stated_bytes = attribute.value.data if isinstance(attribute, IntegerAttr) else MOST_INTEGER_BYTES
        return min(max(stated_bytes, 1), MOST_INTEGER_BYTES)

    @property
    def row_loops(self) -> tuple[int, ...]:
        """The loops that count rows: all that do not index the weights."""
        generic = self.contraction.generic
        return tuple(d for d in range(len(generic.iterators)) if d not in self.dims)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Sizes of the panels' dimensions: (panels, blocks, groups, columns, bytes), and 2 halves for 4 bits."""
        return cast("TensorType[Attribute]", self.argument.type).get_shape()


def is_zero_point(value: float) -> bool:
    """Return whether a constant may be the zero point of a `BlockQuantized`: a small integer."""
    return value.is_integer() and abs(value) <= LARGEST_ZERO


def block_quantized_of(contraction: Contraction) -> BlockQuantized | None:
    """Return a contraction as a product by block-quantized weights in panels; None for others."""
    if contraction.acc != f32:
        return None
    for weights, row_factor in ((contraction.b, contraction.a), (contraction.a, contraction.b)):
        match = _match(contraction, weights, row_factor)
        if match is not None:
            return match
    return None


def _match(contraction: Contraction, weights: Factor, row_factor: Factor) -> BlockQuantized | None:
    """Match ((u - zero) * scale + offset) in the code of the factor `weights`, from the outermost operation inwards.

    With a constant zero point, the code is

        %1 = arith.extui %u : i4 to i32          the element of the panels
        %2 = arith.sitofp %1 : i32 to f32
        %3 = arith.subf %2, %cst : f32           zero = 8.0
        %4 = arith.mulf %3, %s : f32             scale, an element at (panel, block, column)
        %5 = arith.addf %4, %o : f32             offset, as the scale

    Any of the last three may be missing. The weights u have the dimensions [panel, block, group, column, byte], and
    weights of 4 bits a sixth one for the two halves of a byte.

    Args:
        contraction: The contraction.
        weights: The factor that is matched.
        row_factor: The factor that the weights are multiplied with.

    Returns:
        The match; None if `weights` has another form, or no kernel has its sizes.
    """
    argument = source_of(contraction.tensor_of(weights))
    dims = _panel_dims(contraction, weights)
    if not isinstance(argument, BlockArgument) or dims is None:
        return None
    panel, block, _, column, *_ = dims
    body = _Body(contraction.generic, dims=(panel, block, column))
    # Each call removes the last operation from `value`, and returns its other operand, a number or a tensor. Without
    # such an operation, `value` stays as it is, and the operand is None.
    value, offset = body.split_last(weights.value, arith.AddfOp)
    value, scale = body.split_last(value, arith.MulfOp)
    value, zero = body.split_last(value, arith.SubfOp)
    if isinstance(offset, float) or isinstance(scale, float):  # kernels read scales and offsets from tensors only
        return None
    if isinstance(zero, float) and not is_zero_point(zero):
        return None
    is_integer_of_panels = _unsigned_element(value) is contraction.element_of(weights)
    if not is_integer_of_panels:
        return None
    match = BlockQuantized(
        contraction=contraction,
        row_factor=row_factor,
        argument=argument,
        dims=dims,
        bits=4 if len(dims) == 6 else 8,  # the sixth dimension is the half of a byte
        zero=0.0 if zero is None else zero,
        scale=scale,
        offset=offset,
    )
    has_sizes_of_kernel = match.width in WIDTHS and match.steps_per_block <= LONGEST_BLOCK
    return match if has_sizes_of_kernel and _loops_number_steps(match) else None


def _panel_dims(contraction: Contraction, weights: Factor) -> tuple[int, ...] | None:
    """Return the loops over the dimensions [panel, block, group, column, byte] of weights of 8 bits, or over these and
    [half of the byte] of weights of 4 bits.

    Return None if the weights have other dimensions, if a size is dynamic, or if the reduced loops are not exactly the
    loops that number steps of K: over blocks, groups, bytes and halves.
    """
    generic = contraction.generic
    dims = _dims(generic.maps[weights.main_input])
    if dims is None or len(dims) not in (5, 6) or any(generic.extents[d] is None for d in dims):
        return None
    panel, _, _, column, *_ = dims
    has_type_of_bits = contraction.element_of(weights).type == (i4 if len(dims) == 6 else i8)
    reduces_k = set(generic.reduced_loops) == set(dims) - {panel, column}
    return dims if has_type_of_bits and reduces_k else None


def _dims(map_: AffineMap) -> tuple[int, ...] | None:
    """Return the loops that a map has as its results, in order; None for a map with other results."""
    dims = tuple(r.position for r in map_.results if isinstance(r, AffineDimExpr))
    return dims if len(dims) == len(map_.results) == len(set(dims)) else None


def _loops_number_steps(match: BlockQuantized) -> bool:
    """Return whether the loops over groups, halves and bytes number the steps of K of a block in the row factor.

    The step is byte + 4 * group with weights of 8 bits, and byte + 4 * half + 8 * group with 4 bits. The index of each
    coordinate of the row factor must contain the step times a constant, such as 0 for the index of rows. The index must
    not depend on the loops over panels or columns.
    """
    panel, _, group, column, byte, *half = match.dims  # `half` has one loop for 4 bits, none for 8
    steps_per_group = WORD_BYTES * 8 // match.bits
    if match.row_factor.dims & {panel, column}:
        return False
    for coordinate in match.row_factor.coordinates:
        distance = coordinate.coefficient(byte)  # by which the index grows from one step to the next
        expected = {byte: distance, group: distance * steps_per_group, **{h: distance * WORD_BYTES for h in half}}
        if any(coordinate.coefficient(loop) != coefficient for loop, coefficient in expected.items()):
            return False
    return True


@dataclass(frozen=True)
class _Body:
    """The body of a contraction, as far as it computes the weights.

    Attributes:
        generic: The contraction.
        dims: The loops over panels, over blocks, and over the columns of a panel.
    """

    generic: Structured
    dims: tuple[int, int, int]

    def split_last(self, value: SSAValue, kind: type[Operation]) -> tuple[SSAValue, float | PerBlock | None]:
        """Return the left and the right operand of the operation of the class `kind` that computes `value`.

        The right one must be a parameter of weights: a constant, or a tensor. If it is neither, or another operation
        computes `value`, return (`value`, None).
        """
        if not isinstance(value.owner, kind):
            return value, None
        inner, operand = value.owner.operands
        parameter = self._parameter(operand)
        return (value, None) if parameter is None else (inner, parameter)

    def _parameter(self, value: SSAValue) -> float | PerBlock | None:
        """Return a zero point, scale or offset as a constant or a tensor; None for another value.

        A tensor has elements of f32, of f16 or bf16 that the body extends to f32, or unsigned bytes that it converts by
        `sitofp(extui(x))`.
        """
        unsigned_element = _unsigned_element(value)
        if unsigned_element is not None:
            return self._tensor_of(unsigned_element, types=(i8,))
        if isinstance(value.owner, arith.ExtFOp):
            value = value.owner.operands[0]
        constant = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
        if isinstance(constant, FloatAttr):
            return float(constant.value.data)
        return self._tensor_of(value, types=(f32, f16, bf16))

    def _tensor_of(self, element: SSAValue, types: Sequence[Attribute]) -> PerBlock | None:
        """Return the tensor of which the body reads `element`, an element for each block of weights or each column.

        The element must have one of `types`. The body must read the tensor at (panel, block, column), or at (panel,
        column) if all blocks of a column share an element. Otherwise, return None.
        """
        if not isinstance(element, BlockArgument) or element.owner is not self.generic.block:
            return None
        loops = _dims(self.generic.maps[element.index])
        panel, _, column = self.dims
        is_indexed_by_columns = loops in (self.dims, (panel, column))
        if not is_indexed_by_columns or element.type not in types:
            return None
        return PerBlock(tensor=self.generic.inputs[element.index], has_blocks=loops == self.dims)


def _unsigned_element(value: SSAValue) -> SSAValue | None:
    """Return x of `sitofp(extui(x))`, an unsigned integer as a float; None for another value."""
    for kind in (arith.SIToFPOp, arith.ExtUIOp):
        if not isinstance(value, OpResult) or not isinstance(value.op, kind):
            return None
        value = value.op.operands[0]
    return value
