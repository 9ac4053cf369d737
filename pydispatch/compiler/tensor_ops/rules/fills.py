"""Tensors of scalars: constants, splats, empty tensors, listed and generated elements."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, dynamic_size
from pydispatch.ir.core.dense import is_splat
from pydispatch.ir.core.walk import walk
from pydispatch.ir.values import shape_of

SMALL_CONSTANT = 64
"""Elements of the largest constant that kernels contain; larger ones are read from the artifact's memory."""


class Constant(TensorOp):
    """Rule of `arith.constant`: a scalar, a small constant or one whose elements are all equal is a fill, which every
    dispatch has a copy of. Other constants are operands of dispatches.
    """

    name = "arith.constant"

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the constant at `indices`: a constant if all elements are equal, or if `indices` are
        constant. Otherwise the element is loaded from a global of the kernel's module.
        """
        attribute = op.properties["value"]
        if not isinstance(attribute, DenseIntOrFPElementsAttr):  # a resource: elements in the artifact's memory
            raise unsupported(op, "large constants are operands of a dispatch")
        splat = splat_of(attribute)
        if splat is not None:
            return build.pure(arith.ConstantOp(splat))
        linear = build.linear_index(indices, shape_of(result))
        if isinstance(linear, int):
            values = list(attribute.iter_attrs())
            if not 0 <= linear < len(values):  # only a loop without iterations reads outside of the constant
                return elements.zero(build, attribute.get_element_type())
            return build.pure(arith.ConstantOp(cast(Any, values[linear])))
        return elements.table(build, attribute, indices)

    def is_fill(self, op: Any) -> bool:
        """Return whether every kernel may have a copy of the constant instead of loading it: a scalar, a splat, or a
        tensor of at most SMALL_CONSTANT elements.
        """
        value = op.properties.get("value")
        if not isinstance(op.results[0].type, TensorType):
            return True
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return False
        return prod(shape_of(op.results[0])) <= SMALL_CONSTANT or is_splat(value)

    def is_pointwise(self, op: Any) -> bool:
        """Return whether a flattened loop, which has one linear index, may read the constant.

        True for splats, whose elements are all equal, and for constants in resources, which dispatches read from memory
        like other operands. False for other constants: `element` needs one index for each dimension.
        """
        value = op.properties["value"]
        return not isinstance(value, DenseIntOrFPElementsAttr) or is_splat(value)

    def runs_on_host(self, op: Any) -> bool:
        """Return True: the host program provides a constant that was not fused into a dispatch."""
        return True


class Fill(TensorOp):
    """Base class of rules for tensors whose elements are all equal."""

    def is_fill(self, op: Any) -> bool:
        """Return True: each dispatch computes the equal elements itself."""
        return True

    def is_pointwise(self, op: Any) -> bool:
        """Return True: an element depends on no other one."""
        return True


class Empty(Fill):
    """Rule of `tensor.empty`: the elements are undefined, and kernels read them as zero."""

    name = "tensor.empty"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that states the dynamic size."""
        return dynamic_size(op.operands, result, axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return a zero: the elements are undefined, and all kernels read them alike."""
        return elements.zero(build, tensor_type(result).element_type)


class FlowEmpty(Fill):
    """Rule of `flow.tensor.empty` for pattern matching, before normalization replaces it by `tensor.empty`."""

    name = "flow.tensor.empty"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that states the dynamic size."""
        return dynamic_size(op.operands, result, axis)


class Splat(Fill):
    """`tensor.splat`: a tensor whose elements are one scalar."""

    name = "tensor.splat"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that is the size of the result along the dynamic axis `axis`."""
        _scalar, *sizes = op.operands  # the dynamic sizes of the result, in the order of their axes
        return dynamic_size(sizes, result, axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        return elements.scalar(op.operands[0])  # the same at all indices


class FromElements(TensorOp):
    """`tensor.from_elements`: a tensor of scalars in row-major order."""

    name = "tensor.from_elements"

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the scalar at `indices` if they are constant, else a select among all scalars by the linear index."""
        linear = build.linear_index(indices, shape_of(result))
        is_outside = not op.operands or (isinstance(linear, int) and not 0 <= linear < len(op.operands))
        if is_outside:  # only a loop without iterations reads outside of the tensor
            return elements.zero(build, tensor_type(result).element_type)
        if isinstance(linear, int):
            return elements.scalar(op.operands[linear])
        selected = elements.scalar(op.operands[0])
        for position, operand in enumerate(op.operands[1:], 1):
            is_operand = build.pure(arith.CmpiOp(linear, build.index(position), "eq"))
            selected = build.pure(arith.SelectOp(is_operand, elements.scalar(operand), selected))
        return selected

    def repeats_cheaply(self, op: Any) -> bool:
        """Return True: an element is one of the scalars, which need no load."""
        return True


class Generate(TensorOp):
    """`tensor.generate`: a tensor whose body computes an element from its indices."""

    name = "tensor.generate"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the operand that states the dynamic size."""
        return dynamic_size(op.operands, result, axis)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit a copy of the body of `tensor.generate` for the element at `indices`, and return the value it yields."""
        block = op.regions[0].block
        mapping = {a: build.value(i) for a, i in zip(block.args, indices, strict=True)}
        no_loops: list[Index] = []  # loop indices for `linalg.index` operations, of which the body has none
        return clone_block(elements, build, block, mapping, no_loops)[0]

    def repeats_cheaply(self, op: Any) -> bool:
        """Return whether the body reads no tensor: its elements are computed from indices and scalars."""
        return not any(isinstance(v.type, TensorType) for inner in walk(op) for v in inner.operands)


RULES: list[type[TensorOp]] = [Constant, Empty, FlowEmpty, Splat, FromElements, Generate]
"""Rules of this file, which `extensions.builtin` registers."""
