"""Recognition of scalars computed from quantized elements, through the elementwise operations of a host function.

An element of a tensor is recognized as a function of stored integers and constants. Functions raise `Unrecognized` if
it is computed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, IntegerType, TensorType, f32, i32
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.fusion.quantized.affine import (
    Combined,
    Constant,
    Element,
    Integer,
    Real,
    as_single_term,
    clamped,
    rounded,
)
from pydispatch.compiler.fusion.quantized.axes import VIEWS
from pydispatch.compiler.fusion.quantized.dequantized import element_of
from pydispatch.compiler.fusion.quantized.scalars import (
    EXACT_WIDTH,
    MOST_TERMS,
    Unrecognized,
    Value,
    fits,
    product_of,
    sum_of,
)
from pydispatch.ir.affine_maps import is_permutation
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

MOST_ELEMENTS = 1 << 14
"""Maximum number of elements of a constant that is folded: scales, zero points and biases are vectors of channels."""


RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
"""Operations that change only the dimensions of a tensor."""


class Tracer:
    """Recognizer of the elements of one tensor, the traced result, as functions of quantized elements.

    Indices are maps from the dimensions of the traced result to the dimensions of another tensor.

    Args:
        rank: Number of dimensions of the traced result.
        recomputes: Whether tensors of narrow integers (at most EXACT_WIDTH bits) with a single reader are traced to
            the values that they are computed from; otherwise they, too, are read as they are stored.
    """

    def __init__(self, rank: int, recomputes: bool = True) -> None:
        """Begin with no element traced. For the arguments see the class."""
        self.rank, self.recomputes = rank, recomputes
        # Cache of `element`: (tensor, index) -> its result, or the exception that it raises.
        self._elements: dict[tuple[SSAValue, AffineMap], Value | Unrecognized | None] = {}

    def quantized(self, generic: Structured) -> Real:
        """Return the number that a quantizing generic stores as an integer of 8 to 16 bits, before the conversion.

        The number is a sum of stored integers times factors, clamped and rounded. The generic computes the traced
        result. Raises Unrecognized for other generics.
        """
        element_type = cast("TensorType[Attribute]", generic.op.results[0].type).element_type
        if not isinstance(element_type, IntegerType) or not 8 <= element_type.width.data <= EXACT_WIDTH:
            raise Unrecognized
        value = self._yielded(generic, AffineMap.identity(self.rank))
        if not isinstance(value, Real) or not value.rounded:
            raise Unrecognized
        return value

    def _yielded(self, generic: Structured, index: AffineMap) -> Value | None:
        """Recognize the element at `index` of the result of an elementwise generic; raises Unrecognized.

        Return None if it is a stored narrow integer, such as an i8, that the body only forwards: whether it is signed
        is known only where an operation widens it.

        index: map from the dimensions of the traced result to those of the generic's result.
        """
        result_map, terminator = generic.maps[-1], generic.block.last_op
        loops_of_result = result_map.inverse_permutation() if is_permutation(result_map) else None
        is_elementwise = generic.is_parallel and len(generic.op.results) == 1
        if loops_of_result is None or terminator is None or not is_elementwise:
            raise Unrecognized
        return _Body(self, generic, loops_of_result.compose(index)).value(terminator.operands[0])

    def element(self, value: SSAValue, index: AffineMap) -> Value | None:
        """Recognize the element of a tensor at `index` as a function of stored integers and constants.

        Return None if the element is itself a stored integer of at most EXACT_WIDTH bits, such as an i8: it is
        recognized only after an operation has widened it, because its sign depends on that operation (`arith.extsi` or
        `arith.extui`). Raises Unrecognized for an element that is no function of stored integers and constants.

        index: map from the dimensions of the traced result to those of the tensor `value`.
        """
        key = (value, index)
        if key not in self._elements:  # a chain of n additions x + x has 2^n paths to its source: trace each value once
            try:
                self._elements[key] = self._traced_element(value, index)
            except Unrecognized as failure:
                self._elements[key] = failure
        element = self._elements[key]
        if isinstance(element, Unrecognized):
            raise element
        return element

    def _traced_element(self, value: SSAValue, index: AffineMap) -> Value | None:
        """Recognize the element of a tensor at `index` as a function of stored integers and constants, without a cache.

        The forms are tried in this order:

        1. A constant.
        2. The result of an elementwise generic, whose body is traced. A narrow integer is traced only if its tensor has
           a single reader, and if the tracer recomputes such tensors. Untraced integers have one of the next forms.
        3. A stored integer of at most EXACT_WIDTH bits: the result is None.
        4. A reshape, whose source is traced.
        5. Any other i32, such as the result of a contraction, which is read as it is stored.

        Raises Unrecognized for other elements.

        index: map from the dimensions of the traced result to those of `value`.
        """
        constant = _constant(value)
        if constant is not None:
            return self._constant_at(constant, index)
        type_, op = element_of(value), value.owner
        is_narrow = isinstance(type_, IntegerType) and type_.width.data <= EXACT_WIDTH
        # A narrow integer with several readers is stored for the other readers anyway: reading it is cheaper than
        # computing it again.
        is_read_as_stored = is_narrow and (not self.recomputes or len(list(value.uses)) > 1)
        generic = structured(op) if isinstance(op, Operation) and op.name == GENERIC and not is_read_as_stored else None
        if generic is not None and generic.is_parallel and len(generic.op.results) == 1:
            try:
                return self._yielded(generic, index)
            except Unrecognized:
                if type_ == f32:
                    raise  # integers can be read as they are stored, f32 can not
        if is_narrow:
            return None  # a stored integer
        if isinstance(op, Operation) and op.name in RESHAPES:
            return self.element(op.operands[0], _index_in_source(op, index))
        if type_ != i32:  # an f32 tensor that no recognized operation computes, or a wider integer
            raise Unrecognized
        return Element(value, index, signed=True)

    def _constant_at(self, constant: Constant, index: AffineMap) -> Constant:
        """Return a constant, read at `index`, with the dimensions of the traced result.

        Dimensions along which the constant does not vary have size 1: a bias [64] of a result [8, 64, 7, 7] becomes
        [1, 64, 1, 1]. Raises Unrecognized unless the axes of the constant with other sizes than 1 are indexed by
        different dimensions of the traced result.

        index: map from the dimensions of the traced result to the axes of the constant.
        """
        shape = [1] * self.rank
        axis_of_dim: dict[int, int] = {}  # dimension of the traced result → the axis of the constant that it indexes
        for axis, expr in enumerate(index.results):
            if constant.shape[axis] == 1:
                continue
            if not isinstance(expr, AffineDimExpr) or expr.position in axis_of_dim:
                raise Unrecognized
            shape[expr.position] = constant.shape[axis]
            axis_of_dim[expr.position] = axis
        axes = [axis for _, axis in sorted(axis_of_dim.items())]  # in the order of the result's dimensions
        unit_axes = [axis for axis in range(constant.ndim) if axis not in axes]
        return constant.transpose([*axes, *unit_axes]).reshape(shape)


def _index_in_source(reshape: Operation, index: AffineMap) -> AffineMap:
    """Return the index in the source of a reshape, from `index`, the one in its result.

    Raises Unrecognized unless the reshape only adds or drops dimensions of size 1.
    """
    results = list[AffineExpr]()
    # For each dimension of the source, the dimension of the result that it becomes; None for one that is dropped.
    axes_in_result = VIEWS[reshape.name](reshape)
    for axis, size in zip(axes_in_result, shape_of(reshape.operands[0]), strict=True):
        if axis is None and size != 1:
            raise Unrecognized
        results.append(AffineExpr.constant(0) if axis is None else index.results[axis])
    return AffineMap(index.num_dims, 0, tuple(results))


class _Body:
    """Recognizer of the scalars in the body of one generic, as functions of quantized elements.

    `Tracer` creates one for each elementwise generic that it follows. A narrow integer that the body reads is not
    recognized before an operation has extended it to i32, because the extension states whether the integer is signed.

    Args:
        tracer: Recognizer of the tensors that the generic reads.
        generic: The generic.
        index: Map from the dimensions of the traced result to the loops of the generic.
    """

    def __init__(self, tracer: Tracer, generic: Structured, index: AffineMap) -> None:
        """Begin with no scalar recognized. For the arguments see the class."""
        self.tracer, self.generic, self.index = tracer, generic, index

    def value(self, value: SSAValue) -> Value | None:
        """Recognize a scalar of the body as a function of stored integers and constants.

        Return None for a narrow integer before its extension: only the extension states whether it is signed. Raises
        Unrecognized for a scalar that is no such function.
        """
        if isinstance(value, BlockArgument):
            return self._argument(value)
        assert isinstance(value, OpResult)
        op = value.op
        if isinstance(op, arith.ConstantOp):
            return self._number(op)
        rule = _RULES.get(type(op))
        if rule is None:
            raise Unrecognized
        return rule(self, op)

    def number(self, value: SSAValue) -> Real | Constant:
        """Recognize a scalar of the body as a Real, or as an array if it is constant.

        An integer becomes a Real whose only term is this integer times 1. Raises Unrecognized for a narrow integer
        before its extension, whose sign is not known.
        """
        result = self.value(value)
        if result is None:
            raise Unrecognized
        return as_single_term(result, self.tracer.rank) if isinstance(result, Integer) else result

    def argument(self, value: SSAValue) -> tuple[SSAValue, AffineMap]:
        """Return the input tensor whose element `value`, an argument of the body, holds; and the element's index.

        The index is a map from the dimensions of the traced result to those of the tensor. Raises Unrecognized for
        other scalars, and for arguments that hold elements of an output.
        """
        if not isinstance(value, BlockArgument) or value.owner is not self.generic.block:
            raise Unrecognized
        if value.index >= len(self.generic.inputs):
            raise Unrecognized
        return self.generic.inputs[value.index], self.generic.maps[value.index].compose(self.index)

    def _argument(self, value: BlockArgument) -> Value | None:
        """Recognize an argument of the body, an element of an input; None for a narrow integer, such as an i8."""
        operand, index = self.argument(value)
        if not isinstance(operand.type, TensorType):
            raise Unrecognized
        return self.tracer.element(operand, index)

    def _number(self, op: arith.ConstantOp) -> Constant:
        """Return a scalar constant as an array of one element with the rank of the traced result, [1, 1, ...]."""
        if not isinstance(op.value, IntegerAttr | FloatAttr):
            raise Unrecognized
        return np.full((1,) * self.tracer.rank, float(op.value.value.data))


# -- rules


def _added(body: _Body, op: Operation) -> Value:
    """Return the sum of the operands of a floating-point addition."""
    return sum_of(body.number(op.operands[0]), body.number(op.operands[1]))


def _subtracted(body: _Body, op: Operation) -> Value:
    """Return the difference of the operands, as the sum with the second one times -1."""
    minus_one = np.full((1,) * body.tracer.rank, -1.0)
    return sum_of(body.number(op.operands[0]), product_of(body.number(op.operands[1]), minus_one))


def _integer_sum(body: _Body, op: Operation) -> Value:
    """Recognize a sum or difference in i32.

    If an operand is a Real, the result is a Real. If both are Integers, such as sums of products that f32 may not
    represent, the result is a Combined, which is computed in i32 modulo 2^32. Raises Unrecognized for other types than
    i32, and if the Combined would have more than MOST_TERMS elements.
    """
    if op.results[0].type != i32:
        raise Unrecognized
    lhs, rhs = (body.value(v) for v in op.operands)
    if not isinstance(lhs, Integer) or not isinstance(rhs, Integer):
        return _added(body, op) if isinstance(op, arith.AddiOp) else _subtracted(body, op)
    element_count = lhs.count + rhs.count
    if element_count > MOST_TERMS:
        raise Unrecognized
    return Combined(op.name.removeprefix("arith."), lhs, rhs, element_count)


def _multiplied(body: _Body, op: Operation) -> Value:
    """Return the product of the operands of a floating-point multiplication."""
    return product_of(body.number(op.operands[0]), body.number(op.operands[1]))


def _divided(body: _Body, op: Operation) -> Value:
    """Recognize a division by a constant without zeros."""
    dividend, divisor = body.number(op.operands[0]), body.number(op.operands[1])
    if isinstance(divisor, Real) or not divisor.all():  # not constant, or with a zero
        raise Unrecognized
    return product_of(dividend, 1.0 / divisor)  # reciprocals in f64


def _limited(body: _Body, op: Operation) -> Value:
    """Recognize a minimum or maximum with a finite scalar constant: an upper or lower bound of a number."""
    lhs, rhs = (body.number(v) for v in op.operands)
    value, bound = (lhs, rhs) if isinstance(lhs, Real) else (rhs, lhs)
    if not isinstance(value, Real) or isinstance(bound, Real):
        raise Unrecognized
    is_finite_scalar = bound.size == 1 and np.isfinite(bound).all()
    if not is_finite_scalar:
        raise Unrecognized
    is_lower_bound = isinstance(op, arith.MaximumfOp | arith.MaxnumfOp)
    return clamped(value, low=bound.item()) if is_lower_bound else clamped(value, high=bound.item())


def _rounded(body: _Body, op: Operation) -> Real:
    """Recognize a rounding to the nearest integer, ties to even."""
    value = body.number(op.operands[0])
    if not isinstance(value, Real):
        raise Unrecognized
    return rounded(value)


def _truncated(body: _Body, op: Operation) -> Real:
    """Recognize the conversion of a rounded number to an integer, which leaves its value unchanged.

    Raises Unrecognized unless the integer type has all values of the number: otherwise the conversion would saturate or
    drop bits. A type of up to EXACT_WIDTH bits may be signed or unsigned; wider ones, such as i32, count as signed.
    """
    value, width = body.value(op.operands[0]), cast(IntegerType, op.results[0].type).width.data
    if not isinstance(value, Real) or not value.rounded:
        raise Unrecognized
    fits_unsigned = width <= EXACT_WIDTH and fits(value, width, signed=False)
    if not fits_unsigned and not fits(value, width, signed=True):
        raise Unrecognized
    return value


def _widened(body: _Body, op: Operation) -> Value:
    """Recognize the widening of an integer to i32, or its conversion to f32, which leaves its value unchanged.

    A stored integer becomes a Real whose only term is this integer, signed for `arith.extsi` and `arith.sitofp`. Raises
    Unrecognized if the extension changes values of a computed integer: -1 in 8 bits, extended as unsigned, is 255.
    """
    operand, signed = op.operands[0], isinstance(op, arith.ExtSIOp | arith.SIToFPOp)
    value = body.value(operand)
    width = cast(IntegerType, operand.type).width.data
    if value is None:  # a stored narrow integer, an argument of the body
        tensor_, index = body.argument(operand)
        return as_single_term(Element(tensor_, index, signed), body.tracer.rank)
    if width == 32:  # every i32 is a signed number
        if not signed:  # -1 would become 2^32 - 1
            raise Unrecognized
        return body.number(operand)
    if not fits(value, width, signed):
        raise Unrecognized
    return value


_RULES: dict[type[Operation], Callable[[_Body, Any], Value]] = {
    arith.AddfOp: _added,
    arith.SubfOp: _subtracted,
    arith.MulfOp: _multiplied,
    arith.DivfOp: _divided,
    arith.AddiOp: _integer_sum,
    arith.SubiOp: _integer_sum,
    arith.MaximumfOp: _limited,
    arith.MinimumfOp: _limited,
    arith.MaxnumfOp: _limited,
    arith.MinnumfOp: _limited,
    math.RoundEvenOp: _rounded,
    arith.FPToSIOp: _truncated,
    arith.FPToUIOp: _truncated,
    arith.TruncIOp: _truncated,
    arith.ExtSIOp: _widened,
    arith.ExtUIOp: _widened,
    arith.SIToFPOp: _widened,
    arith.UIToFPOp: _widened,
}
"""Class of an operation → function that traces its result from those of its operands."""


def _constant(value: SSAValue) -> Constant | None:
    """Return the elements of a constant f32 or i32 tensor, or of a reshaped one, as an f64 array of the tensor's shape.

    Return None for other tensors, and for more than MOST_ELEMENTS elements. The source of a reshape may also be
    computed from constants (`_computed_constant`).
    """
    op, shape = value.owner, shape_of(value)
    is_static = all(size >= 0 for size in shape)
    if not isinstance(op, Operation) or not is_static or prod(shape) > MOST_ELEMENTS:
        return None
    if isinstance(op, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
        inner = _computed_constant(op.operands[0])
        return None if inner is None else inner.reshape(shape)
    dense = op.value if isinstance(op, arith.ConstantOp) else None
    if not isinstance(dense, DenseIntOrFPElementsAttr) or dense.get_element_type() not in (f32, i32):
        return None
    dtype = np.float32 if dense.get_element_type() == f32 else np.int32
    flat = np.frombuffer(dense.data.data, dtype).astype(np.float64)
    return np.broadcast_to(flat, shape) if flat.size == 1 else flat.reshape(shape)  # a splat stores one element


def _computed_constant(value: SSAValue) -> Constant | None:
    """Return the elements of a constant of at most MOST_ELEMENTS, or of an elementwise generic on constants, as an f64
    array of the tensor's shape; None for others.
    """
    op = value.owner
    if not isinstance(op, Operation) or op.name != GENERIC:
        return _constant(value)
    shape = shape_of(value)
    try:
        traced = Tracer(len(shape)).element(value, AffineMap.identity(len(shape)))
    except Unrecognized:
        return None
    return np.broadcast_to(traced, shape) if isinstance(traced, np.ndarray) else None
