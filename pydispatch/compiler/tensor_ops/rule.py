"""The rule of an operation on tensors: its sizes, its elements, and the memory of its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import unsupported
from pydispatch.compiler.tensor_ops.requirements import Requirement
from pydispatch.compiler.tensor_ops.terms import Stated, values_in
from pydispatch.ir.values import Dim, shape_of


class TensorOp:
    """Base class of the rules for operations that compute tensors and have no side effects.

    A rule states the name of its operation and overrides the defaults that do not apply. The defaults describe an
    operation whose elements are computed in a dispatch and whose sizes only its results know.
    """

    name: ClassVar[str]
    """Name of the operation, such as "tensor.pad"."""

    view: ClassVar[bool] = False
    """Whether each element of the result is one of operand 0, at another index or under another type."""

    rereads: ClassVar[bool] = False
    """Whether several elements of the result may read the same element of an operand. An expensive producer of such an
    operand is not fused, since its elements would be computed more than once."""

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of a result along a dynamic axis, as a term of the operands and their sizes; None if the
        operands do not determine it.
        """
        return None

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return lists of sizes of operands and results. The sizes in one list are equal if the program is right."""
        return ()

    def size_operands(self, op: Any) -> Sequence[SSAValue]:
        """Return the operands of type index that decide how large a result is."""
        operands: list[SSAValue] = []
        for result in op.results:
            for axis, size in enumerate(shape_of(result)):
                if size < 0:  # dynamic
                    operands += [v for v in values_in(self.size(op, result, axis)) if v in op.operands]
        return operands

    def requirements(self, op: Any) -> Iterable[Requirement]:
        """Return what dynamic sizes must satisfy for `element` to stay in bounds."""
        return ()

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit the computation of one element of a result, and return the element.

        Args:
            elements: Access to operands: `at` emits an element, `dims` sizes, `scalar` and `index` a scalar operand.
            build: Builder of the code.
            op: The operation.
            result: Its result.
            indices: Index of the element in each dimension of the result, in bounds.
        """
        raise unsupported(op, "no rule computes an element of its result")

    def is_view(self, op: Any) -> bool:
        """Return whether the result is the memory of operand 0, as it is for every `View`, or a contiguous part of it.
        The table of `compiler/host/views.py` has a row for each such operation.
        """
        return False

    def is_fill(self, op: Any) -> bool:
        """Return whether the result takes no memory: every dispatch has its own copy of the operation."""
        return False

    def is_pointwise(self, op: Any) -> bool:
        """Return whether an element depends on the elements of the operands at its own index alone."""
        return False

    def repeats_cheaply(self, op: Any) -> bool:
        """Return whether elements are no more expensive to compute in each dispatch that reads them than to load."""
        return False

    def runs_on_host(self, op: Any) -> bool:
        """Return whether host code runs the operation (`compiler/host/rules.py`) if no dispatch has fused it."""
        return self.is_view(op) or self.is_fill(op)


class View(TensorOp):
    """An operation whose result is all of the memory of operand 0, in another shape or type.

    Host code takes the sizes of the result from the method `size`, and checks that it has as many bytes as the operand.
    """

    view = True

    def is_view(self, op: Any) -> bool:
        """Return True: the result is the memory of operand 0."""
        return True


class Update(TensorOp):
    """Base of the rules for operations that update a tensor, such as an insertion of a slice.

    The result is one operand, the destination, with some elements replaced by the written elements: by default those
    of operand 0. A kernel that updates the memory of the destination in place loops over the written elements only: it
    stores `written_element` at `position`, if `is_written`. Other kernels compute elements of the result by `element`,
    which the rules of `iree_linalg_ext` do not support. For

        %r = tensor.insert_slice %a into %d[4, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<16x8xf32>

    the written elements are those of %a, and the position of the one at [i, j] is [i + 4, j].
    """

    destination: ClassVar[int] = 1
    """Index of the operand that is the destination."""

    def slice_index_rank(self, op: Any) -> int:
        """Return how many leading dimensions of the written elements are iterated in order, since their iterations may
        write the same element of the destination.

        It is 1 for a scatter of 5 rows, 5x8, whose positions may be equal: the last row wins. The 8 elements of a row
        are written in parallel. It is 0 if no two written elements can have the same position.
        """
        return 0

    def conflict_key(self, elements: Elements, build: Builder, op: Any, leading: Sequence[Index]) -> Index:
        """Return a number that is equal for slices that may write the same element; by default for all.

        Parallel workers divide the slices by this number, so that slices of one number are applied in order.

        leading: the indices of a slice in the `slice_index_rank` leading dimensions of the written elements.
        """
        return 0

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the destination, which an update does not change."""
        return Dim(op.operands[self.destination], axis)

    def written_sizes(self, elements: Elements, op: Any) -> list[Index]:
        """Return the sizes of the tensor of written elements, by default operand 0.

        `indices` in `written_element`, `position` and `is_written` are indices in this tensor.
        """
        return elements.dims(op.operands[0])

    def written_element(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue:
        """Return the written element at `indices`."""
        return elements.at(build, op.operands[0], indices)

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the index in the destination of the written element at `indices`."""
        raise unsupported(op, "its rule has no `position`, which says where written elements go")

    def is_written(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue | bool:
        """Return whether the element at `indices` is written: updates drop elements whose position is outside of the
        destination.

        By default positions are clamped into the destination or known to be in it, so that all elements are written
        unless it is empty.
        """
        return build.not_empty(elements.dims(op.operands[self.destination]))
