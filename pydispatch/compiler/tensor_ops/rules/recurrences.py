"""Tensors whose elements follow from each other, or are selected in an order."""

from __future__ import annotations

from typing import Any

from xdsl.ir import OpResult

from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, dynamic_size
from pydispatch.ir.values import Dim


class Recurrence(TensorOp):
    """Rule of `pyd.recurrence`. Loops over rows compute it (`kernels/loops/recurrences.py`), never a single element."""

    name = "pyd.recurrence"
    rereads = True  # its body may extract any element

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return dynamic_size(op.operands, result, axis)


class TopK(TensorOp):
    """Rule of `pyd.top_k`. Loops over rows compute it (`kernels/loops/top_k.py`), never a single element."""

    name = "pyd.top_k"
    rereads = True  # a comparison reads elements again

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the number of rows; the other size, that of the selected elements, is static."""
        return Dim(op.inputs[0], 0)


RULES: list[type[TensorOp]] = [Recurrence, TopK]
