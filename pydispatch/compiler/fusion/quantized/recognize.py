"""Recognition of tensors and scalars that are dequantized numbers: (stored integer - zero point) * scale.

Recognizers return None for values that are computed otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.fusion.quantized.axes import VIEWS, Axes
from pydispatch.compiler.fusion.quantized.dequantized import (
    EXACT,
    Dequantized,
    GenericBody,
    ScalarExpr,
    constant_expr,
    element_of,
    integer_of,
)
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.ir.affine_maps import dims_in, is_identity, is_permutation
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

MOST_ELEMENTS = 4096
"""Maximum number of elements of a float constant that may be zero points: whether all of its elements are integers is
checked one by one. Zero points are few, so that larger constants need no check."""


class TensorRecognizer:
    """Recognizer of tensors whose elements are dequantized numbers, (stored integer - zero point) * scale.

    A rewrite of a product creates one, and calls `of` for its factors.

    Attributes:
        new_ops: Operations that were created for recognized tensors, in order. The caller inserts or erases them.
    """

    def __init__(self) -> None:
        self.new_ops: list[Operation] = []

    def add(self, *ops: Operation) -> SSAValue:
        """Record operations, and return the result of the last one."""
        self.new_ops += ops
        return ops[-1].results[0]

    def erase_created(self) -> None:
        """Erase the operations that were created for recognized tensors."""
        for op in reversed(self.new_ops):
            op.erase()

    def of(self, value: SSAValue, scale_dims: frozenset[int]) -> Dequantized | None:
        """Return a tensor of f32 or integers as dequantized elements; None if it is not recognized.

        scale_dims: the dimensions of the tensor that scales may depend on.
        """
        element = element_of(value)
        is_stored = isinstance(element, IntegerType) and 8 <= element.width.data < 32
        if is_stored:  # the elements are stored integers without zero point and scale
            return Dequantized(value, AffineMap.identity(len(shape_of(value))))
        if element not in (f32, i32) or not isinstance(value, OpResult):
            return None
        op = value.op
        if element == i32 and isinstance(op, arith.ConstantOp):
            return self._narrowed(op)
        if op.name == GENERIC:
            generic = structured(op)
            is_elementwise = generic.is_parallel and len(op.results) == 1
            return self._elementwise(generic, scale_dims) if is_elementwise else None
        if op.name in VIEWS:
            axes_of_view = VIEWS[op.name]
            return self._view(op, axes_of_view(op), scale_dims)
        return None

    def _narrowed(self, op: arith.ConstantOp) -> Dequantized | None:
        """Return an i32 constant as a constant of bytes, signed if it has negative elements.

        Frontends widen constants of bytes to i32. Return None if an element does not fit a byte.
        """
        if not isinstance(op.value, DenseIntOrFPElementsAttr):
            return None
        elements = np.frombuffer(op.value.data.data, np.int32)
        least, greatest = elements.min(initial=0), elements.max(initial=0)
        signed = least < 0
        fits_byte = least >= -128 and greatest <= 127 if signed else greatest <= 255
        if not fits_byte:
            return None
        type_ = TensorType(i8, op.value.get_shape())
        dense = DenseIntOrFPElementsAttr(type_, BytesAttr(elements.astype(np.uint8).tobytes()))
        stored = self.add(arith.ConstantOp(dense))
        return Dequantized(stored, AffineMap.identity(len(type_.get_shape())), signed=bool(signed))

    def _elementwise(self, generic: Structured, scale_dims: frozenset[int]) -> Dequantized | None:
        """Return the result of an elementwise generic as dequantized elements; None if it is not recognized.

        scale_dims: the dimensions of the result that scales may depend on.
        """
        result_map, terminator = generic.maps[-1], generic.block.last_op
        # Map from indices of the result to loops.
        loops_of_result = result_map.inverse_permutation() if is_permutation(result_map) else None
        if loops_of_result is None or terminator is None:
            return None
        scale_loops = frozenset(
            loop.position for dim, loop in enumerate(result_map.results)
            if dim in scale_dims and isinstance(loop, AffineDimExpr)
        )  # fmt: skip
        scalar = ScalarRecognizer(self, generic, scale_loops).of(terminator.operands[0])
        return None if scalar is None else scalar.reindexed(loops_of_result)

    def _view(self, op: Operation, axes: Axes, scale_dims: frozenset[int]) -> Dequantized | None:
        """Return a view of a dequantized tensor as dequantized elements, by applying the view to the stored tensor;
        None if that is not possible.

        Example: an expand_shape to [1, 8, 2, 3] of a tensor [8, 6] with the elements t[i, j] * s[i], whose axes are
        [1, None]. The stored tensor t is expanded, and an element (d0, d1, d2, d3) has the scale s[d1].

        Args:
            op: The view, or the padding.
            axes: For each dimension of the operand, its dimension of the result; None if it has none. Scales and zero
                points may not depend on a dimension without one.
            scale_dims: The dimensions of the result that scales may depend on.
        """
        operand_scale_dims = frozenset(axis for axis, result_axis in enumerate(axes) if result_axis in scale_dims)
        inner = self.of(op.operands[0], operand_scale_dims)
        if inner is None:
            return None
        # The view applies to a tensor with the dimensions of its operand: a stored tensor in another order is copied
        # first.
        stored = inner.stored if is_identity(inner.index) else self._copied(inner, op.operands[0])
        pad = op if isinstance(op, tensor.PadOp) else None
        viewed = op.clone({op.operands[0]: stored}) if pad is None else self._padded(pad, inner, stored)
        if viewed is None:
            return None
        result = cast("TensorType[Attribute]", op.results[0].type)
        # The cloned view has the element type of `op`; its stored integers have their own.
        viewed.results[0]._type = TensorType(element_of(stored), result.get_shape())
        rank = result.get_num_dims()
        # Zero point and scales are indexed by the dimensions of the operand: index them by those of the result. An axis
        # that the result lacks gets the index 0, because zero point and scales do not depend on it.
        operand_index = AffineMap(rank, 0, tuple(map(dim_expr, axes)))
        zero = None if inner.zero is None else inner.zero.reindexed(operand_index)
        scales = tuple(scale.reindexed(operand_index) for scale in inner.scales)
        return replace(inner, stored=self.add(viewed), index=AffineMap.identity(rank), zero=zero, scales=scales)

    def _copied(self, inner: Dequantized, like: SSAValue) -> SSAValue:
        """Add a copy of the stored tensor with the dimensions of the tensor `like`, and return it."""
        body = GenericBody()
        element = body.input(inner.stored, inner.index)
        return self.add(*body.generic(element, like, AffineMap.identity(len(shape_of(like)))))

    def _padded(self, op: tensor.PadOp, inner: Dequantized, stored: SSAValue) -> Operation | None:
        """Build the padding of the stored tensor with its zero point, which stands for a padding with the value 0.

        Return None for another padding value, and for `nofold`, which asks for the padding to stay as it is. Return
        None also if the zero point is unknown or no stored integer.

        stored: the tensor to pad, whose elements `inner` dequantizes.
        """
        terminator = op.region.block.last_op
        zero = 0 if inner.zero is None else inner.zero.number  # None if it is known at run time only
        low, high = inner.range  # range of stored - zero, which must be 0 for some stored integer
        if terminator is None or op.nofold is not None or not is_zero(terminator.operands[0]):
            return None
        if zero is None or not low <= 0 <= high:
            return None
        block = Block(arg_types=[IndexType()] * len(shape_of(op.result)))
        padding = arith.ConstantOp(IntegerAttr(zero, cast(IntegerType, element_of(stored)), truncate_bits=True))
        block.add_op(tensor.YieldOp(self.add(padding)))
        low_widths, high_widths = ([int(n) for n in a.get_values()] for a in (op.static_low, op.static_high))
        type_ = TensorType(element_of(stored), shape_of(op.result))
        return tensor.PadOp(stored, op.low, op.high, Region(block), low_widths, high_widths, type_)


class ScalarRecognizer:
    """Recognizer of dequantized scalars, (stored integer - zero point) * scale, in the body of a generic.

    Args:
        tensors: Recognizer of the tensors that the generic reads.
        generic: The generic.
        scale_loops: The loops that scales and zero points may depend on: all but those that a product reduces.
    """

    def __init__(self, tensors: TensorRecognizer, generic: Structured, scale_loops: frozenset[int]) -> None:
        """Begin with no scalar recognized. For the arguments see the class."""
        self.tensors, self.generic, self.scale_loops = tensors, generic, scale_loops

    def of(self, value: SSAValue) -> Dequantized | None:
        """Return a scalar of the body as a dequantized element; None if it is not recognized.

        A scalar is recognized if it is an element of an input, or if it is the conversion of a recognized scalar to i32
        or f32, the difference of one to a zero point, or the product of one with a scale. For example, (sitofp(q) -
        3.0) * s has the stored integer q, the zero point 3 and the scales (s,).
        """
        if isinstance(value, BlockArgument):
            return self._element(value)
        assert isinstance(value, OpResult)
        op = value.op
        if isinstance(op, arith.SIToFPOp | arith.UIToFPOp | arith.ExtSIOp | arith.ExtUIOp) and value.type in (f32, i32):
            return self._widened(op)
        if isinstance(op, arith.SubiOp | arith.SubfOp):
            return self._difference(op)
        if isinstance(op, arith.MulfOp):
            return self._product(op)
        return None

    def _difference(self, op: arith.SubiOp | arith.SubfOp) -> Dequantized | None:
        """Return the difference of a recognized scalar and its zero point; None if it is not recognized.

        A single zero point is supported, which is subtracted before scaling. A zero point of f32 must be an integer.
        """
        minuend = self.of(op.operands[0])
        zero_of = self._loop_invariant if op.results[0].type == i32 else self._integer_zero_point
        zero = zero_of(op.operands[1])
        if minuend is None or zero is None or minuend.zero is not None or minuend.scales:
            return None
        return replace(minuend, zero=None if zero.range == (0, 0) else zero)

    def _product(self, op: arith.MulfOp) -> Dequantized | None:
        """Return the product of a recognized scalar and a scale, on either side; None if it is not recognized."""
        lhs, rhs = op.operands
        for number_operand, scale_operand in ((lhs, rhs), (rhs, lhs)):
            scale = self._loop_invariant(scale_operand)
            element = None if scale is None else self.of(number_operand)
            if scale is not None and element is not None:
                return replace(element, scales=(*element.scales, scale))
        return None

    def _element(self, argument: BlockArgument) -> Dequantized | None:
        """Return an argument of the body as a dequantized element of its tensor; None if it is not recognized."""
        if argument.owner is not self.generic.block or argument.index >= len(self.generic.inputs):
            return None
        index_map = self.generic.maps[argument.index]
        # Scales of the tensor may vary along the dimensions that no reduction loop indexes.
        scale_dims = frozenset(a for a, r in enumerate(index_map.results) if r.used_dims() <= self.scale_loops)
        inner = self.tensors.of(self.generic.inputs[argument.index], scale_dims)
        return None if inner is None else inner.reindexed(self._with_unit_loops(argument.index))

    def _with_unit_loops(self, input_index: int) -> AffineMap:
        """Return the map of an input, with the loop of a result dimension in place of 0 where both have size 1.

        The index of an input [1, 64] read at (0, d1) becomes (d0, d1) in a generic whose result is [1, 64]. A product
        needs it: inputs state the sizes of its loops. An input [3, 64] read at (0, d1) keeps its index, because d0
        would iterate over three rows.
        """
        index_map, result_index = self.generic.maps[input_index], self.generic.maps[-1].results
        shape, result_shape = shape_of(self.generic.inputs[input_index]), shape_of(self.generic.op.results[0])
        if len(shape) != len(result_shape):
            return index_map
        results = [
            result_expr if isinstance(expr, AffineConstantExpr) and size == result_size == 1 else expr
            for expr, result_expr, size, result_size in zip(
                index_map.results, result_index, shape, result_shape, strict=True
            )
        ]
        return AffineMap(index_map.num_dims, 0, tuple(results))

    def _widened(self, op: Operation) -> Dequantized | None:
        """Return the result of a widening or integer-to-float conversion as a dequantized element.

        `signed` of the element states whether the conversion is signed. Return None if the operand is not recognized as
        an element without scales, or if it is an i32 that the operation takes for unsigned: its negative values would
        change. A signed conversion of an i32 keeps every value.
        """
        inner = self.of(op.operands[0])
        signed = isinstance(op, arith.SIToFPOp | arith.ExtSIOp)
        if inner is None or inner.scales:
            return None
        is_stored = inner.signed is None  # a stored integer; otherwise an earlier operation widened it to i32
        if is_stored:
            return replace(inner, signed=signed)
        return inner if signed else None

    def _integer_zero_point(self, value: SSAValue) -> ScalarExpr | None:
        """Return an f32 zero point as an i32 expression; None if it is no integer, or depends on reduction loops.

        It is an element of a constant tensor of integers, an integer constant, or a converted i32.
        """
        if isinstance(value, BlockArgument):
            if value.owner is not self.generic.block or value.index >= len(self.generic.inputs):
                return None
            # An element of a float constant, which is replaced by an i32 constant of the same integers.
            integers, index_map = _integers(self.generic.inputs[value.index]), self.generic.maps[value.index]
            if integers is None or not dims_in(index_map) <= self.scale_loops:
                return None
            placeholder = Block(arg_types=[i32]).args[0]  # GenericBody.copy replaces it by the element
            element = (placeholder, self.tensors.add(integers), index_map)
            return ScalarExpr(ops=(), value=placeholder, inputs=(element,))
        integer = integer_of(value)
        if integer is not None:
            return constant_expr(integer)
        op = value.owner
        if isinstance(op, arith.SIToFPOp) and op.operands[0].type == i32:
            return self._loop_invariant(op.operands[0])
        return None

    def _loop_invariant(self, value: SSAValue) -> ScalarExpr | None:
        """Return a value as an expression of tensor elements whose indices depend on `scale_loops` alone.

        These are the loops that a scale may depend on: all but the reduction loops of the product that reads it. With
        the reduction loop d2, s[d0] * 2.0 is such an expression, s[d2] is not.

        Return None for other values, and for those that are computed by other operations than scalar arithmetic.
        """
        # Collect the operations of the body that compute the value, and the arguments they read. Values from outside of
        # the body are the same for all elements, and need no check.
        ops, arguments, pending = set[Operation](), list[BlockArgument](), [value]
        while pending:
            current = pending.pop()
            if isinstance(current, BlockArgument):
                if current.owner is self.generic.block and current not in arguments:
                    arguments.append(current)
            elif isinstance(current, OpResult) and current.op.parent is self.generic.block and current.op not in ops:
                if current.op.regions or not current.op.name.startswith(("arith.", "math.")):
                    return None
                ops.add(current.op)
                pending += current.op.operands
        if any(a.index >= len(self.generic.inputs) for a in arguments):  # an element of the output
            return None
        if any(not dims_in(self.generic.maps[a.index]) <= self.scale_loops for a in arguments):
            return None
        read = tuple((a, self.generic.inputs[a.index], self.generic.maps[a.index]) for a in arguments)
        return ScalarExpr(tuple(op for op in self.generic.block.ops if op in ops), value, read)


def dim_expr(dim: int | None) -> AffineExpr:
    """Return a dimension as an affine expression; the constant 0 for None."""
    return AffineExpr.constant(0) if dim is None else AffineExpr.dimension(dim)


def _integers(value: SSAValue) -> Operation | None:
    """Build an i32 constant with the values of a float constant; it is in no block.

    Return None for other values, for more than MOST_ELEMENTS elements, and unless all of them are integers that f32
    represents exactly (up to EXACT, 2^24).
    """
    dense = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    if not isinstance(dense, DenseIntOrFPElementsAttr) or prod(dense.get_shape()) > MOST_ELEMENTS:
        return None
    values = [float(v) for v in dense.get_values()]
    if not all(v.is_integer() and abs(v) <= EXACT for v in values):
        return None
    type_ = TensorType(i32, dense.get_shape())
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [int(v) for v in values]))


def is_zero(value: SSAValue) -> bool:
    """Return whether a value is 0, or a tensor of zeros."""
    if isinstance(value.owner, tensor.SplatOp):
        return is_zero(value.owner.input)
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    scalar = attribute if isinstance(attribute, FloatAttr | IntegerAttr) else splat_of(attribute)
    return scalar is not None and scalar.value.data == 0
