"""Rules of operations whose result has the elements of a tensor under another shape or type.

A rule tells for its operation the `size` of a result's dimension, how to compute an `element` at `indices` from the
operands, and what the operands' sizes must satisfy (`requirements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.analysis.sizes import reassociation, size_of, sizes_of
from pydispatch.compiler.kernels.ops.bits import as_integer, bits_of, from_integer
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported
from pydispatch.compiler.tensor_ops.requirements import Equal, Requirement
from pydispatch.compiler.tensor_ops.rule import TensorOp, View
from pydispatch.compiler.tensor_ops.terms import SizeElement, Stated, dynamic_size, multiply
from pydispatch.ir.values import Dim, shape_of


class Cast(View):
    """`tensor.cast`: the same tensor under a type that states other sizes as static, such as 4x? instead of ?x8."""

    name = "tensor.cast"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the operand along the axis, which a cast does not change."""
        return Dim(op.operands[0], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the operand at the same indices."""
        return elements.at(build, op.operands[0], indices)

    def is_pointwise(self, op: Any) -> bool:
        """Return True: an element is the operand's element at the same index."""
        return True

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Yield, for each axis that is dynamic in the source and static in the result, that both sizes are equal."""
        source, result = op.operands[0], op.results[0]
        for axis, (size, result_size) in enumerate(zip(shape_of(source), shape_of(result), strict=True)):
            is_only_known_of_result = size < 0 <= result_size  # negative: dynamic
            if is_only_known_of_result:
                # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
                message = f"axis {axis}: the result has {{}}"
                yield Equal(expected=size_of(source, axis), actual=result_size, message=message)


class TieShape(Cast):
    """`flow.tensor.tie_shape`: operand 0 with its dynamic sizes, which are the other operands."""

    name = "flow.tensor.tie_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size operand for `axis`: the operands after the tensor are its dynamic sizes, in axis order."""
        return dynamic_size(op.operands[1:], result, axis)


class DispatchTieShape(TieShape):
    """`flow.dispatch.tie_shape`: a `flow.tensor.tie_shape` inside of a dispatch."""

    name = "flow.dispatch.tie_shape"


class Barrier(TensorOp):
    """`util.optimization_barrier`: operands unchanged; the formation of dispatches does not look through it."""

    name = "util.optimization_barrier"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the operand that the barrier returns as this result."""
        return Dim(op.operands[result.index], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element, at the same indices, of the operand that the barrier returns as this result."""
        return elements.at(build, op.operands[result.index], indices)

    def runs_on_host(self, op: Any) -> bool:
        """Return True: a barrier is not fused into a dispatch."""
        return True


class ExpandShape(View):
    """`tensor.expand_shape`: a dimension split into several."""

    name = "tensor.expand_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that states the dynamic size of the expanded shape."""
        return dynamic_size(op.dynamic_output_shape, result, axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the source. Its index in a dimension is the linear index in the dimensions of the result that this one
        is split into: [i, j] of sizes [m, n] is i n + j."""
        sizes = elements.dims(result)
        groups = reassociation(op)  # for each dimension of the source, the dimensions of the result
        source_indices = [build.linear_index([indices[i] for i in g], [sizes[i] for i in g]) for g in groups]
        return elements.at(build, op.operands[0], source_indices)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that each size of the source is the product of the sizes that it becomes."""
        for axis, group in enumerate(reassociation(op)):
            product = multiply([size_of(op.results[0], d) for d in group])
            # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
            message = f"axis {axis}: the dimensions {group} that it becomes have {{}}"
            yield Equal(expected=size_of(op.operands[0], axis), actual=product, message=message)


class CollapseShape(View):
    """`tensor.collapse_shape`: groups of dimensions joined to one each."""

    name = "tensor.collapse_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the product of the source's sizes that become this dimension."""
        return multiply([Dim(op.operands[0], d) for d in reassociation(op)[axis]])

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the source at the indices that the result's indices are split into.

        The index i of an axis that joins axes of the sizes [m, n] is split into [i / n, i mod n].
        """
        sizes = elements.dims(op.operands[0])
        source_indices: list[Index] = [0] * len(sizes)
        for index, group in zip(indices, reassociation(op), strict=True):
            split_index = build.split(index, [sizes[d] for d in group])
            for dimension, source_index in zip(group, split_index, strict=True):
                source_indices[dimension] = source_index
        return elements.at(build, op.operands[0], source_indices)


class Reshape(View):
    """`tensor.reshape`: the elements in row-major order under another shape, which operand 1, a tensor, holds."""

    name = "tensor.reshape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return element `axis` of the shape operand, a tensor of sizes."""
        return SizeElement(op.operands[1], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the source at the element with the same linear index."""
        source = op.operands[0]
        return elements.at(build, source, reshaped(build, indices, elements.dims(result), elements.dims(source)))

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that the result has as many elements as the source."""
        source_count, result_count = (multiply(sizes_of(v)) for v in (op.operands[0], op.results[0]))
        # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
        yield Equal(expected=source_count, actual=result_count, message="the result has {}")


class FlowReshape(Reshape):
    """`flow.tensor.reshape`: the elements in the same order under another shape."""

    name = "flow.tensor.reshape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that states the dynamic size of the result."""
        return dynamic_size(op.result_dims, result, axis)

    def size_operands(self, op: Any) -> list[SSAValue]:
        """Return the operands that state dynamic sizes: of the source, then of the result."""
        return [*op.source_dims, *op.result_dims]


class Bitcast(Cast):
    """`tensor.bitcast`: a reinterpretation of elements as another type of the same width."""

    name = "tensor.bitcast"

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the bits of the source as the result's type."""
        return element_of_bits(elements, build, op, result, indices)

    def is_pointwise(self, op: Any) -> bool:
        """Return False, unlike a `tensor.cast`: a pointwise view is taken for its operand (`looks_through`), but the
        operand has values of another type."""
        return False


class FlowBitcast(FlowReshape):
    """`flow.tensor.bitcast`: the same bits under another shape and element type of any width.

    An element may have the bits of several elements of the source, or some of the bits of one.
    """

    name = "flow.tensor.bitcast"
    view = False  # unlike those of FlowReshape, elements are other values than those of operand 0

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the bits of the source as the result's type."""
        return element_of_bits(elements, build, op, result, indices)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that source and result have equally many bits in all."""
        source_bits, result_bits = (
            multiply([*sizes_of(v), bits_of(tensor_type(v).element_type)]) for v in (op.operands[0], op.results[0])
        )
        # `Equal` replaces {} by both numbers, such as "64 bits instead of 128".
        yield Equal(expected=source_bits, actual=result_bits, message="the result has {}", unit="bits")


def reshaped(build: Builder, indices: list[Index], sizes: list[Index], new_sizes: list[Index]) -> list[Index]:
    """Return the indices of an element of a tensor after a reshape: those with the same row-major linear index.

    For indices [i, j, k], sizes [4, 6, 8] and new sizes [4, 3, 2, 8], they are [i, j / 2, j mod 2, k].

    Args:
        build: Builder of the code that computes them.
        indices: Indices of the element in a tensor of `sizes`.
        sizes: Sizes of this tensor.
        new_sizes: Sizes after the reshape, with the same number of elements in all.
    """
    new_indices: list[Index] = [0] * len(new_sizes)
    shorter = min(len(sizes), len(new_sizes))
    # Dimensions of the same size at the front and at the back keep their index: they need no division.
    front = 0
    while front < shorter and _same(sizes[front], new_sizes[front]):
        new_indices[front] = indices[front]
        front += 1
    back = 0
    while back < shorter - front and _same(sizes[-1 - back], new_sizes[-1 - back]):
        new_indices[-1 - back] = indices[-1 - back]
        back += 1
    # The dimensions between: their indices are joined to one linear index, which is split into the new ones.
    middle, new_middle = slice(front, len(sizes) - back), slice(front, len(new_sizes) - back)
    linear = build.linear_index(indices[middle], sizes[middle])
    new_indices[new_middle] = build.split(linear, new_sizes[new_middle])
    return new_indices


def element_of_bits(elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
    """Emit code that computes an element of a bitcast from the bits of the source, and return the element.

    Low bits come first. An element as wide as k source elements joins their bits, with those of the first one lowest.
    An element as wide as a k-th of a source element takes a part of its bits: they are shifted down and truncated.

    Args:
        elements: Access to elements of tensors.
        build: Builder of the code.
        op: The bitcast.
        result: Its result.
        indices: Indices of the element in the result.
    """
    source = op.operands[0]
    result_element = tensor_type(result).element_type
    from_bits, to_bits = bits_of(tensor_type(source).element_type), bits_of(result_element)
    sizes, result_sizes = elements.dims(source), elements.dims(result)
    # Elements of the same width: one element of the source, whose index differs if shapes do.
    if from_bits == to_bits:
        element = elements.at(build, source, reshaped(build, indices, result_sizes, sizes))
        return from_integer(build, as_integer(build, element, from_bits), result_element)
    if max(from_bits, to_bits) % min(from_bits, to_bits):
        wide, narrow = max(from_bits, to_bits), min(from_bits, to_bits)
        raise unsupported(op, f"{wide} bits are no multiple of {narrow}")
    linear = build.linear_index(indices, result_sizes)

    def source_bits(linear_index: Index) -> SSAValue:
        """Emit the element of `source` at an index in row-major order as an integer of `from_bits` bits."""
        return as_integer(build, elements.at(build, source, build.split(linear_index, sizes)), from_bits)

    if to_bits > from_bits:  # element n consists of the `count` source elements from n * count on
        count = to_bits // from_bits
        bits = _joined_bits(
            build, lambda offset: source_bits(build.plus(build.times(linear, count), offset)), from_bits, to_bits
        )
    else:  # element n is part n mod `count` of source element n / count
        count = from_bits // to_bits
        element = source_bits(build.quotient(linear, count))
        bits = _part_of_bits(build, element, build.remainder(linear, count), from_bits, to_bits)
    return from_integer(build, bits, result_element)


def _joined_bits(build: Builder, element_of: Callable[[int], SSAValue], from_bits: int, to_bits: int) -> SSAValue:
    """Emit an integer of `to_bits` bits from consecutive integers of `from_bits` bits, and return it.

    element_of: emits integer number 0, 1, ...; number 0 has the lowest bits of the result.
    """
    joined_type = IntegerType(to_bits)
    bits = build.pure(arith.ExtUIOp(element_of(0), joined_type))
    for index in range(1, to_bits // from_bits):
        element = build.pure(arith.ExtUIOp(element_of(index), joined_type))
        shift = build.pure(arith.ConstantOp.from_int_and_width(index * from_bits, joined_type))
        bits = build.pure(arith.OrIOp(bits, build.pure(arith.ShLIOp(element, shift))))
    return bits


def _part_of_bits(build: Builder, element: SSAValue, part: Index, from_bits: int, to_bits: int) -> SSAValue:
    """Emit the bits of an element of `from_bits` bits from bit `part * to_bits` on, as an integer of `to_bits` bits."""
    amount = build.value(build.times(part, to_bits))
    shift = build.pure(arith.IndexCastOp(amount, IntegerType(from_bits)))
    return build.pure(arith.TruncIOp(build.pure(arith.ShRUIOp(element, shift)), IntegerType(to_bits)))


def _same(lhs: Index, rhs: Index) -> bool:
    """Return whether two sizes are known to be equal: the same value, or equal integers."""
    return lhs is rhs or (isinstance(lhs, int) and isinstance(rhs, int) and lhs == rhs)


RULES: list[type[TensorOp]] = [
    Cast, TieShape, DispatchTieShape, Barrier, ExpandShape, CollapseShape, Reshape, FlowReshape, Bitcast, FlowBitcast,
]  # fmt: skip
"""Rules of this file, which `extensions.builtin` registers."""
