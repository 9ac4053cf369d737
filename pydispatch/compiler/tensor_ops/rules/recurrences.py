"""Tensors whose elements follow from each other."""

from __future__ import annotations

from typing import Any

from xdsl.ir import OpResult

from pydispatch.compiler.tensor_ops.rule import TensorOp
from pydispatch.compiler.tensor_ops.terms import Stated, listed


class Recurrence(TensorOp):
    """Rule of `pyd.recurrence`. Loops over rows compute it (`kernels/loops/recurrences.py`), never a single element."""

    name = "pyd.recurrence"
    rereads = True

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        return listed(op.operands, result, axis)


RULES: list[type[TensorOp]] = [Recurrence]
