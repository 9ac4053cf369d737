"""Where the sums of a contraction begin, and what is computed from them and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.registry import source_of


@dataclass(frozen=True)
class Output:
    """A value that is computed from the contraction's result, place by place.

    dims: for each of its dimensions the dimension of the contraction's result that it is. store: takes the builder, an
    element and its indices.
    """

    value: SSAValue
    dims: list[int]
    store: Callable[[Builder, SSAValue, list[Index]], None]

    @staticmethod
    def to(e: Elements, value: SSAValue, dims: list[int], buffer: SSAValue) -> Output:
        """A value that is stored in a memref of its shape."""
        return Output(value, dims, lambda build, element, places: e.store(build, element, buffer, places))


def outputs_of(frame: Frame, results: Sequence[list[int]]) -> list[Output]:
    """The results of a dispatch. results: see `Output.dims`."""
    return [
        Output.to(frame.elements, value, dims, buffer)
        for value, dims, buffer in zip(frame.returned, results, frame.results, strict=True)
    ]


def starts_at_zero(value: SSAValue) -> bool:
    """Whether a tensor is known to be zero everywhere."""
    value = source_of(value)
    if not isinstance(value, OpResult):
        return False
    op = value.op
    if op.name == "tensor.splat":
        inner = op.operands[0]
        return isinstance(inner, OpResult) and inner.op.name == "arith.constant" and _is_zero(inner.op)
    return op.name == "arith.constant" and _is_zero(op)


def _is_zero(op: Operation) -> bool:
    value = op.properties["value"]
    one = splat_of(value) if isinstance(value, DenseIntOrFPElementsAttr) else value
    return isinstance(one, IntegerAttr | FloatAttr) and one.value.data == 0
