"""`linalg.generic`, and dispatches that the program has itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.sizes import size_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import element_of_generic
from pydispatch.compiler.tensor_ops.requirements import Requirement, WindowFits
from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, same_size
from pydispatch.ir.affine_maps import dims_in, is_identity
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import structured
from pydispatch.ir.values import Dim, shape_of

MAX_REPEATED_OPERATIONS = 4
"""Maximum number of operations, with the terminator, in the body of a broadcast that each reader computes again.

A longer body costs more for each element than to store the result once and load it."""


class Generic(TensorOp):
    """Rule of `linalg.generic`, with and without reductions: its sizes, and how an element of a result is computed."""

    name = "linalg.generic"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the output, which equals the sizes of operands that the same loop indexes."""
        generic = structured(op)
        expr = generic.output_maps[result.index].results[axis]
        # An index that is no single loop, such as d0 + d1, has a size of its own.
        others = generic.loop_dims[expr.position] if isinstance(expr, AffineDimExpr) else []
        return same_size([Dim(generic.outputs[result.index], axis), *others])

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return groups of dimensions of equal size: those that the same loop indexes."""
        return structured(op).loop_dims

    def requirements(self, op: Any) -> Iterator[Requirement]:
        """Yield the requirement that each operand index that is more than a loop dimension, as of a sliding window, is
        in bounds.
        """
        generic = structured(op)
        # The size of each loop: that of the first operand dimension that the loop indexes; None if it indexes none.
        loops = [next((size_of(dim.tensor, dim.axis) for dim in dims), None) for dims in generic.loop_dims]
        for operand_index, (value, map_) in enumerate(zip(generic.operands, generic.maps, strict=True)):
            if not shape_of(value) or not generic.block.args[operand_index].uses:
                continue  # a scalar has no index, and an element that the body does not use is not read
            for axis, index in enumerate(map_.results):
                # Sizes that a single loop indexes are compared by `equal_sizes`.
                if not isinstance(index, AffineDimExpr):
                    yield WindowFits(
                        operand=operand_index, axis=axis, index=index, loops=loops, axis_size=size_of(value, axis)
                    )

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of a result at `indices`, computed by the body of the generic."""
        return element_of_generic(elements, build, result, indices)

    def is_pointwise(self, op: Any) -> bool:
        """Return whether an element depends on the elements of the operands at the same indices only, without
        reductions or reads elsewhere."""
        generic = structured(op)
        is_parallel = set(generic.iterators) == {"parallel"}
        writes_same_indices = all(is_identity(m) for m in generic.output_maps)
        if not is_parallel or not writes_same_indices:
            return False
        reads_same_indices = all(not m.results or is_identity(m) for m in generic.maps)  # no results: a scalar
        return reads_same_indices and not any(
            inner.name in ("linalg.index", "tensor.extract", "tensor.dim") for inner in walk(op)
        )

    def repeats_cheaply(self, op: Any) -> bool:
        """Return whether the operation is a broadcast with little work per element: each operand that it reads has
        fewer dimensions than the result.
        """
        generic = structured(op)
        if any(kind != "parallel" for kind in generic.iterators) or len(op.results) != 1:
            return False
        body = generic.block
        for argument, map_ in zip(body.args, generic.maps, strict=True):
            if not argument.uses.get_length():
                continue  # only its shape counts
            has_all_loops = len(dims_in(map_)) == map_.num_dims  # an element for each element of the result
            has_computed_index = any(not isinstance(e, AffineDimExpr) for e in map_.results)  # such as d0 + d1
            if has_all_loops or has_computed_index:
                return False
        is_expensive = any(info_of(inner).cost is Cost.FUNCTION or inner.regions for inner in body.ops)
        return not is_expensive and len(list(body.ops)) <= MAX_REPEATED_OPERATIONS


class Dispatch(TensorOp):
    """Rule of `flow.dispatch`: the operation itself states the sizes of its results."""

    name = "flow.dispatch"

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size that the operation states for a dynamic dimension; None for a static one.

        The operands `result_dims` are the dynamic sizes of all results, one result after the other.
        """
        dims = iter(op.result_dims)
        for other in op.results:
            for position, n in enumerate(shape_of(other)):
                if n < 0:  # static sizes have no entry in the list
                    dim: SSAValue = next(dims)
                    if other is result and position == axis:
                        return dim
        return None

    def runs_on_host(self, op: Any) -> bool:
        """Return True: the host launches dispatches of the program."""
        return True


RULES: list[type[TensorOp]] = [Generic, Dispatch]
"""Rules of this file, which `extensions.builtin` registers."""
