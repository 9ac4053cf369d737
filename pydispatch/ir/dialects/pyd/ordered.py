"""Base of operations that compute the elements of a row in order."""

from __future__ import annotations

from abc import abstractmethod

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import IRDLOperation, var_result_def


class OrderedOp(IRDLOperation):
    """Base of operations whose rows, along one dimension of the results, are independent of each other.

    A row is all elements along the dimension `along`, with the same indices in the others. The elements of a row depend
    on each other, so that one loop computes the row. Examples: the running sums of `pyd.recurrence`, and the sorted
    elements of `pyd.top_k`. All results `res` have one shape.
    """

    res = var_result_def(TensorType)

    @property
    @abstractmethod
    def along(self) -> int:
        """Return the dimension of the results along which rows run, as an index from 0."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of each result, with DYNAMIC for a dynamic size."""
        type_ = self.res[0].type
        assert isinstance(type_, TensorType)
        return tuple(type_.get_shape())
