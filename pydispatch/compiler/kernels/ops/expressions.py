"""Elements of tensors as scalar expressions, through the operations that compute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.scalar_code import index_loop, loops_read, scalar_at
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
"""Operations that only change the shape of a tensor."""

AT_ZERO = -1
"""In `Expression.dims`: the index is 0, as on a broadcast axis, instead of a dimension of the point."""


@dataclass(frozen=True)
class Expression:
    """Scalar as a function of a point (a sequence of indices, such as a row and a column).

    It is an element of a tensor, or a scalar in the body of a generic for one iteration of its loops, or a scalar of
    the dispatch function, the same at all points. Matchers of chained and gathered products expand expressions to find
    the inputs that a value depends on. Kernels of these products emit the scalar at the points that they compute.

    Attributes:
        value: The tensor or the scalar.
        dims: For each axis of the tensor, or each loop of the generic, the position in the point of the index that is
            used there; `AT_ZERO` for the index 0. The element x[j, i] at a point (i, j) has the dims (1, 0).
        generic: The generic; None outside of its body: for a tensor, or a scalar that the dispatch function defines.
    """

    value: SSAValue
    dims: tuple[int, ...]
    generic: Structured | None = None

    @property
    def is_element(self) -> bool:
        """Whether the expression is the element of a tensor."""
        return self.generic is None and isinstance(self.value.type, TensorType)

    def expanded(self, operations: list[Operation] | None = None) -> Expression:
        """Return an equal expression as close to the inputs as possible: reshapes, broadcasts and copies are skipped.

        An element of a broadcast of x becomes an element of x. An element of a generic becomes the scalar that its body
        yields and, if the body yields an input as it is, the element of this input.

        The skipped operations on tensors are appended to `operations`, the one that computes `self` first.
        """
        expression = self
        while (inner := expression._one_step_expanded()) is not None:
            is_in_body = expression.generic is not None
            if operations is not None and isinstance(expression.value, OpResult) and not is_in_body:
                operations.append(expression.value.op)
            expression = inner
        return expression

    def of(self, value: SSAValue) -> Expression:
        """Return the expression of another scalar of the same body, at the same point."""
        return Expression(value, self.dims, self.generic)

    def _one_step_expanded(self) -> Expression | None:
        """Return an equal expression one operation closer to the inputs; None if there is none."""
        value, generic = self.value, self.generic
        if generic is not None:  # a scalar in the body of a generic
            if not isinstance(value, BlockArgument) or value.owner is not generic.block:  # computed
                return None
            is_input = value.index < len(generic.inputs)
            return self._element_of_input(generic, value.index) if is_input else None
        if not isinstance(value, OpResult):
            return None
        if value.op.name == GENERIC:
            return self._yielded_scalar(structured(value.op), value.index)
        return self._element_before_reshape(value.op) if value.op.name in RESHAPES else None

    def _element_of_input(self, generic: Structured, index: int) -> Expression | None:
        """Return the element of input `index` that the body of a generic reads at this point.

        Return None if the input has a computed index, such as i + k: neither the index of a loop nor 0.
        """
        indices, operand = generic.maps[index].results, generic.inputs[index]
        if not isinstance(operand.type, TensorType):  # a scalar of the dispatch function, which has no axes
            return Expression(operand, dims=())
        if not all(isinstance(i, AffineDimExpr) or i == AffineConstantExpr(0) for i in indices):
            return None
        dims = tuple(self.dims[i.position] if isinstance(i, AffineDimExpr) else AT_ZERO for i in indices)
        return Expression(operand, dims)

    def _yielded_scalar(self, generic: Structured, index: int) -> Expression | None:
        """Return the scalar that the body of a generic yields for this element of its result `index`.

        Return None if the generic reduces, or if an index of the result is not the index of a loop.
        """
        axes, terminator = generic.output_maps[index].results, generic.block.last_op
        if not generic.is_parallel or terminator is None or not all(isinstance(axis, AffineDimExpr) for axis in axes):
            return None
        dims_of_loops = [AT_ZERO] * len(generic.iterators)  # a loop that indexes no axis has one iteration, at 0
        for dim, axis in zip(self.dims, axes, strict=True):
            if isinstance(axis, AffineDimExpr):
                dims_of_loops[axis.position] = dim
        return Expression(terminator.operands[index], tuple(dims_of_loops), generic)

    def _element_before_reshape(self, op: Operation) -> Expression | None:
        """Return the element before a reshape that only adds or drops dimensions of size 1; None for other reshapes."""
        source = op.operands[0]
        dims_of_long_axes = [dim for dim, size in zip(self.dims, shape_of(self.value), strict=True) if size != 1]
        sizes = [size for size in shape_of(self.value) if size != 1]
        if [size for size in shape_of(source) if size != 1] != sizes:
            return None
        next_dims = iter(dims_of_long_axes)  # the source has the same axes longer than 1, in the same order
        return Expression(source, tuple(AT_ZERO if size == 1 else next(next_dims) for size in shape_of(source)))

    # Contents

    @property
    def op(self) -> Operation | None:
        """The operation that computes the expression: one on scalars, or an elementwise one on tensors; else None."""
        if not isinstance(self.value, OpResult):
            return None
        op = self.value.op
        is_scalar = not self.is_element
        return op if is_scalar or info_of(op).elementwise else None

    @property
    def operands(self) -> list[Expression]:
        """The operands of `op` at the same element (`dims`), each as close to the inputs as possible (`expanded`).

        Scalar operands in the body of `generic` are expressions of this body, too.
        """
        op = self.op
        return [] if op is None else [Expression(v, self.dims, self._generic_of(v)).expanded() for v in op.operands]

    def _generic_of(self, operand: SSAValue) -> Structured | None:
        """Return the `generic` of the expression of an operand of `op`: the same body; None for a tensor."""
        return None if self.generic is None or isinstance(operand.type, TensorType) else self.generic

    def number(self) -> int | float | None:
        """Return the value of the expression if it is a constant, of an integer or float type; else None."""
        if not isinstance(self.value, OpResult):
            return None
        op = self.value.op
        if op.name == "tensor.splat":
            return Expression(op.operands[0], dims=()).number()
        attribute = op.properties.get("value") if op.name == "arith.constant" else None
        scalar = attribute if isinstance(attribute, IntegerAttr | FloatAttr) else splat_of(attribute)
        return None if scalar is None else scalar.value.data

    def depends_on(self, dim: int) -> bool:
        """Return whether the scalar may depend on index `dim` of its point; True if it is not known."""
        op = self.op
        if op is not None and info_of(op).elementwise:
            return any(operand.depends_on(dim) for operand in self.operands)
        if self.generic is None:  # an element of a tensor depends on its indices, unless it is a splat constant
            return dim in self.dims and self.number() is None
        loops = loops_read(self.generic, self.value)
        return loops is None or any(self.dims[loop] == dim for loop in loops)

    def is_index(self, dim: int) -> bool:
        """Return whether the value of the expression is the index along dimension `dim` of the point."""
        return self.generic is not None and self.dim_of_index(self.value) == dim

    def dim_of_index(self, index: SSAValue) -> int | None:
        """Return the dimension of the point whose index a scalar of the same body is; None for another scalar."""
        op = index.owner
        return self.dims[index_loop(op)] if isinstance(op, Operation) and op.name == "linalg.index" else None

    def emit(self, elements: Elements, build: Builder, point: Sequence[Index]) -> SSAValue:
        """Emit the value of the expression at a point, the index of each dimension, and return it."""
        indices = [0 if dim == AT_ZERO else point[dim] for dim in self.dims]
        if self.generic is not None:  # a scalar in the body of a generic
            return scalar_at(elements, build, self.generic, self.value, indices)
        if self.is_element:
            return elements.at(build, self.value, indices)
        return elements.scalar(self.value)  # a scalar of the dispatch function, the same at all points
