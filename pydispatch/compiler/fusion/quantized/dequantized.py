"""Dequantized numbers in programs: the stored integers, their zero point and scales, and generics built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, TensorType, i32
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.kernels.matmul.ranges import Range, range_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.values import shape_of

EXACT = 1 << 24
"""f32 represents all integers up to this magnitude exactly."""


def has_integers(function: Operation) -> bool:
    """Return whether a host function has tensors of integers; without any, the rewrites of this folder do nothing."""
    block = function.regions[0].blocks.first
    arguments = block.args if block is not None else ()
    results = (result for op in walk(function) for result in op.results)
    types = {value.type for value in (*arguments, *results)}
    return any(isinstance(type_, TensorType) and isinstance(type_.element_type, IntegerType) for type_ in types)


@dataclass(frozen=True)
class ScalarExpr:
    """Scalar expression: the backward slice of a value in the body of a generic.

    Attributes:
        ops: The operations of the slice, producers first.
        value: The value that they compute.
        inputs: (argument of the body, its tensor, index of the element) for each argument that the slice reads. The
            index is a map from the loops of the generic, or after `reindexed` from other dimensions.
    """

    ops: tuple[Operation, ...]
    value: SSAValue
    inputs: tuple[tuple[BlockArgument, SSAValue, AffineMap], ...]

    def reindexed(self, index: AffineMap) -> ScalarExpr:
        """Return this expression over other dimensions.

        index: map from the other dimensions to those that the inputs are indexed by.
        """
        return replace(self, inputs=tuple((a, v, m.compose(index)) for a, v, m in self.inputs))

    @property
    def range(self) -> Range:
        """The range (least, greatest) of the i32 value."""
        tensors = [v for a, v, _ in self.inputs if a is self.value]  # the tensor, if the value is just an element of it
        return range_of(tensors[0] if tensors else self.value) or _signed(32)

    @property
    def number(self) -> int | None:
        """The i32 value if it is known at compile time, else None."""
        low, high = self.range
        return low if low == high else None


@dataclass(frozen=True)
class Dequantized:
    """Elements of a tensor as `(stored - zero) * product(scales)`.

    Attributes:
        stored: The stored integers.
        index: Map from an index of the dequantized tensor to the index in `stored`.
        signed: Whether the integers are widened to i32 as signed integers; None if they are not widened yet, which
            counts as signed.
        zero: Zero point, an i32 expression; None for 0.
        scales: Scales, f32 expressions.
    """

    stored: SSAValue
    index: AffineMap
    signed: bool | None = None
    zero: ScalarExpr | None = None
    scales: tuple[ScalarExpr, ...] = ()

    def reindexed(self, index: AffineMap) -> Dequantized:
        """Return these elements over other dimensions.

        index: map from the other dimensions to those that the elements are indexed by.
        """
        zero = None if self.zero is None else self.zero.reindexed(index)
        scales = tuple(s.reindexed(index) for s in self.scales)
        return replace(self, index=self.index.compose(index), zero=zero, scales=scales)

    @property
    def width(self) -> int:
        """Bits of a stored integer."""
        return cast(IntegerType, element_of(self.stored)).width.data

    @property
    def range(self) -> Range:
        """The range (least, greatest) of `stored - zero`.

        Stored integers count as signed while `signed` is None: no operation that widens them has said otherwise.
        """
        is_unsigned = self.signed is False
        # The range of the integers: (0, 255) or (-128, 127) for a width of 8.
        low, high = (0, (1 << self.width) - 1) if is_unsigned else _signed(self.width)
        least_zero, greatest_zero = (0, 0) if self.zero is None else self.zero.range
        return low - greatest_zero, high - least_zero


class GenericBody:
    """Builder of the body of a generic; the tensors that its expressions read become inputs on first use.

    Attributes:
        block: The body.
        inputs: (tensor, map from loops to the index of the element) of each argument of the body.
    """

    def __init__(self) -> None:
        """Begin with an empty body that reads no tensor."""
        self.block = Block()
        self.inputs: list[tuple[SSAValue, AffineMap]] = []

    def input(self, value: SSAValue, index: AffineMap) -> SSAValue:
        """Return the block argument that holds the element of `value` at `index`; add the tensor to the inputs if
        necessary.
        """
        if (value, index) not in self.inputs:
            self.inputs.append((value, index))
            self.block.insert_arg(element_of(value), len(self.block.args))
        return self.block.args[self.inputs.index((value, index))]

    def add(self, op: Operation) -> SSAValue:
        """Add an operation to the body, and return its result."""
        self.block.add_op(op)
        return op.results[0]

    def copy(self, expr: ScalarExpr) -> SSAValue:
        """Copy the operations of `expr` into the body, and return its value."""
        mapping: dict[SSAValue, SSAValue] = {a: self.input(value, index) for a, value, index in expr.inputs}
        for op in expr.ops:
            self.block.add_op(op.clone(mapping))
        return mapping.get(expr.value, expr.value)

    def integer(self, factor: Dequantized) -> SSAValue:
        """Add the computation of `stored - zero` in i32, and return its value."""
        value = self.input(factor.stored, factor.index)
        if factor.width < 32:
            is_unsigned = factor.signed is False  # None, not widened yet, counts as signed
            value = self.add(arith.ExtUIOp(value, i32) if is_unsigned else arith.ExtSIOp(value, i32))
        return value if factor.zero is None else self.add(arith.SubiOp(value, self.copy(factor.zero)))

    def generic(self, value: SSAValue, like: SSAValue, index: AffineMap) -> list[Operation]:
        """Build an elementwise generic with this body, preceded by the operations that create its output.

        The generic is the last operation of the list. The caller inserts the operations into a block.

        Args:
            value: The value of the body to yield.
            like: A tensor with the sizes of the result.
            index: Map from loops to the index of the result.
        """
        size_ops, dims = sizes_of(like)
        empty = tensor.EmptyOp(dims, TensorType(value.type, cast("TensorType[Attribute]", like.type).get_shape()))
        return [*size_ops, empty, self.build_generic(value, empty.results[0], index, ["parallel"] * index.num_dims)]

    def build_generic(self, value: SSAValue, start: SSAValue, index: AffineMap, iterators: Sequence[str]) -> GenericOp:
        """Build the generic with this body, which gets the yield of `value`. Call it once per body.

        Args:
            value: The value of the body to yield.
            start: The initial values of the output.
            index: Map from loops to the index of the output.
            iterators: "parallel" or "reduction" for each loop.
        """
        self.block.add_op(YieldOp(value))
        inputs, maps = [v for v, _ in self.inputs], [*(m for _, m in self.inputs), index]
        if len(self.block.args) == len(inputs):  # the body does not read the output, but needs an argument for it
            self.block.insert_arg(element_of(start), len(inputs))
        kinds = iterator_types(iterators)
        return GenericOp(inputs, [start], Region(self.block), affine_maps(maps), kinds, [start.type])


def element_of(value: SSAValue) -> Attribute:
    """Return the element type of a tensor; the type itself for a scalar."""
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def _signed(bits: int) -> Range:
    """Return the range of a signed integer."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def sizes_of(value: SSAValue) -> tuple[list[Operation], list[SSAValue]]:
    """Return operations that compute the sizes of a tensor's dynamic dimensions, and these sizes in order."""
    size_ops: list[Operation] = []
    for axis, n in enumerate(shape_of(value)):
        if n < 0:
            index = arith.ConstantOp.from_int_and_width(axis, IndexType())
            size_ops += [index, tensor.DimOp(value, index)]
    return size_ops, [op.results[0] for op in size_ops[1::2]]  # every second operation is a tensor.dim


def integer_of(value: SSAValue) -> int | None:
    """Return the value of a constant scalar of an integer or float type; None unless it is an integer of at most EXACT
    in magnitude.
    """
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    if not isinstance(attribute, IntegerAttr | FloatAttr):
        return None
    constant = attribute.value.data
    is_integer = isinstance(constant, int) or constant.is_integer()
    return int(constant) if is_integer and abs(constant) <= EXACT else None


def constant_expr(value: int) -> ScalarExpr:
    """Return the expression of a constant i32."""
    constant = arith.ConstantOp(IntegerAttr(value, i32))
    return ScalarExpr((constant,), constant.result, inputs=())
