"""Recurrences, each of whose elements is computed from the one before it, and the largest elements of rows."""

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
        """Return the operand that states the size: the operands are the dynamic sizes of the result, in axis order."""
        return dynamic_size(op.operands, result, axis)


class TopK(TensorOp):
    """Rule of `pyd.top_k`. Loops over rows compute it (`kernels/loops/top_k.py`), never a single element."""

    name = "pyd.top_k"
    rereads = True  # an element is read for several comparisons, and a fused producer would compute it each time

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the number of rows, the size along axis 0. The number of selected elements of a row, along axis 1, is
        static."""
        return Dim(op.inputs[0], 0)


RULES: list[type[TensorOp]] = [Recurrence, TopK]
"""Rules of this file, which `extensions.builtin` registers."""
