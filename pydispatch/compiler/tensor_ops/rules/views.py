"""Rules of operations whose result has the elements of a tensor under another shape or type.

A rule tells for its operation the `size` of a result's dimension, how to compute an `element` at `indices` from the
operands, and what the operands' sizes must satisfy (`requirements`).
"""

from __future__ import annotations

from collections.abc import Iterator
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
from pydispatch.compiler.tensor_ops.terms import Entry, Stated, dynamic_size, multiply
from pydispatch.ir.values import Dim, shape_of


class Cast(View):
    """The tensor under a type that knows other sizes."""

    name = "tensor.cast"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return Dim(op.operands[0], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        return elements.at(build, op.operands[0], indices)

    def is_pointwise(self, op: Any) -> bool:
        return True

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that sizes of the source which the result states as constants have these values."""
        source, result = op.operands[0], op.results[0]
        for axis, (size, result_size) in enumerate(zip(shape_of(source), shape_of(result), strict=True)):
            is_only_known_of_result = size < 0 <= result_size  # negative: dynamic
            if is_only_known_of_result:
                # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
                yield Equal(size_of(source, axis), result_size, f"axis {axis}: the result has {{}}")


class TieShape(Cast):
    """A tensor whose dynamic sizes are operands."""

    name = "flow.tensor.tie_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return dynamic_size(op.operands[1:], result, axis)


class DispatchTieShape(TieShape):
    """The same inside of a dispatch."""

    name = "flow.dispatch.tie_shape"


class Barrier(TensorOp):
    """The tensor itself, which formation does not look through."""

    name = "util.optimization_barrier"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return Dim(op.operands[result.index], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        return elements.at(build, op.operands[result.index], indices)

    def runs_on_host(self, op: Any) -> bool:
        return True


class ExpandShape(View):
    """`tensor.expand_shape`: a dimension split into several."""

    name = "tensor.expand_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return dynamic_size(op.dynamic_output_shape, result, axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the source at the linear index of each group: [i, j] of sizes [m, n] is i n + j."""
        sizes = elements.dims(result)
        where = [build.linear_index([indices[i] for i in g], [sizes[i] for i in g]) for g in reassociation(op)]
        return elements.at(build, op.operands[0], where)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that each size of the source is the product of the sizes that it becomes."""
        for axis, group in enumerate(reassociation(op)):
            product = multiply([size_of(op.results[0], d) for d in group])
            # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
            what = f"axis {axis}: the dimensions {group} that it becomes have {{}}"
            yield Equal(size_of(op.operands[0], axis), product, what)


class CollapseShape(View):
    """`tensor.collapse_shape`: groups of dimensions joined to one each."""

    name = "tensor.collapse_shape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the product of the sizes that are joined."""
        return multiply([Dim(op.operands[0], d) for d in reassociation(op)[axis]])

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the source at the quotient and remainder of each index: i of sizes [m, n] is [i / n, i mod n]."""
        sizes = elements.dims(op.operands[0])
        where: list[Index] = [0] * len(sizes)
        for index, group in zip(indices, reassociation(op), strict=True):
            for dimension, part in zip(group, build.split(index, [sizes[i] for i in group]), strict=True):
                where[dimension] = part
        return elements.at(build, op.operands[0], where)


class Reshape(View):
    """The elements in row-major order under another shape, which a tensor holds."""

    name = "tensor.reshape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the element of the shape operand, a tensor of sizes."""
        return Entry(op.operands[1], axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the source at the element with the same linear index."""
        source = op.operands[0]
        source_sizes, result_sizes = elements.dims(source), elements.dims(result)
        where: list[Index] = [0] * len(source_sizes)
        # Leading and trailing sizes that are the same need no division.
        front = 0
        while front < min(len(source_sizes), len(result_sizes)) and _same(source_sizes[front], result_sizes[front]):
            where[front] = indices[front]
            front += 1
        back = 0
        while back < min(len(source_sizes), len(result_sizes)) - front and _same(
            source_sizes[-1 - back], result_sizes[-1 - back]
        ):
            where[len(source_sizes) - 1 - back] = indices[len(result_sizes) - 1 - back]
            back += 1
        middle = slice(front, len(result_sizes) - back)
        linear = build.linear_index(indices[middle], result_sizes[middle])
        where[front : len(source_sizes) - back] = build.split(linear, source_sizes[front : len(source_sizes) - back])
        return elements.at(build, source, where)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that the result has as many elements as the source."""
        have, want = (multiply(sizes_of(v)) for v in (op.operands[0], op.results[0]))
        # `Equal` replaces {} by both numbers, such as "12 elements instead of 13".
        yield Equal(have, want, "the result has {}")


class FlowReshape(Reshape):
    """`flow.tensor.reshape`: the elements in the same order under another shape."""

    name = "flow.tensor.reshape"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return dynamic_size(op.result_dims, result, axis)

    def size_operands(self, op: Any) -> list[SSAValue]:
        return [*op.source_dims, *op.result_dims]


class Bitcast(Cast):
    """A reinterpretation of elements as another type of the same width."""

    name = "tensor.bitcast"

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the bits of the source as the result's type."""
        return element_of_bits(elements, build, op, result, indices)

    def is_pointwise(self, op: Any) -> bool:
        """Return False: a pointwise view counts as its operand itself (`looks_through`), which has other values."""
        return False


class FlowBitcast(FlowReshape):
    """A reinterpretation of elements as any other type: an element may be several of the source, or a part of one."""

    name = "flow.tensor.bitcast"
    view = False

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Read the bits of the source as the result's type."""
        return element_of_bits(elements, build, op, result, indices)

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Require that source and result have equally many bits in all."""
        have, want = (
            multiply([*sizes_of(v), bits_of(tensor_type(v).element_type)]) for v in (op.operands[0], op.results[0])
        )
        yield Equal(have, want, what="the result has {}", unit="bits")


def element_of_bits(elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
    """Emit code that computes an element of a bitcast from the bits of the source, and return the element.

    Low bits come first: where an element has the bits of k source elements, they are joined, the first one lowest;
    where it has a part of the bits of one, they are shifted down and cut.

    Args:
        elements: Access to elements of tensors.
        build: Builder of the code.
        op: The bitcast.
        result: Its result.
        indices: Indices of the element in the result.
    """
    source = op.operands[0]
    have, want = tensor_type(source).element_type, tensor_type(result).element_type
    from_bits, to_bits = bits_of(have), bits_of(want)
    sizes, wanted = elements.dims(source), elements.dims(result)
    if from_bits == to_bits:
        where = indices if len(sizes) == len(wanted) else build.split(build.linear_index(indices, wanted), sizes)
        return from_integer(build, as_integer(build, elements.at(build, source, where), from_bits), want)
    linear = build.linear_index(indices, wanted)
    if to_bits > from_bits:
        if to_bits % from_bits:
            raise unsupported(op, f"{to_bits} bits are no multiple of {from_bits}")
        whole = IntegerType(to_bits)
        bits: SSAValue | None = None
        for part in range(to_bits // from_bits):
            element_index = build.plus(build.times(linear, to_bits // from_bits), part)
            element = as_integer(build, elements.at(build, source, build.split(element_index, sizes)), from_bits)
            element = build.pure(arith.ExtUIOp(element, whole))
            if part:
                shift = build.pure(arith.ConstantOp.from_int_and_width(part * from_bits, whole))
                element = build.pure(arith.ShLIOp(element, shift))
            bits = element if bits is None else build.pure(arith.OrIOp(bits, element))
        assert bits is not None
        return from_integer(build, bits, want)
    if from_bits % to_bits:
        raise unsupported(op, f"{from_bits} bits are no multiple of {to_bits}")
    count = from_bits // to_bits
    element = as_integer(
        build, elements.at(build, source, build.split(build.quotient(linear, count), sizes)), from_bits
    )
    amount = build.value(build.times(build.remainder(linear, count), to_bits))
    shift = build.pure(arith.IndexCastOp(amount, IntegerType(from_bits)))
    part_ = build.pure(arith.TruncIOp(build.pure(arith.ShRUIOp(element, shift)), IntegerType(to_bits)))
    return from_integer(build, part_, want)


def _same(lhs: Index, rhs: Index) -> bool:
    """Return whether two sizes are equal: the same value, or equal numbers."""
    return lhs is rhs or (isinstance(lhs, int) and isinstance(rhs, int) and lhs == rhs)


RULES: list[type[TensorOp]] = [
    Cast, TieShape, DispatchTieShape, Barrier, ExpandShape, CollapseShape, Reshape, FlowReshape, Bitcast, FlowBitcast,
]  # fmt: skip
