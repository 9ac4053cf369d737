"""Outputs of a contraction kernel: the values computed from its sums, and their stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements


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
    def to(elements: Elements, value: SSAValue, dims: list[int], buffer: SSAValue) -> Output:
        """Return the output that stores a value in a memref of its shape."""
        return Output(value, dims, lambda build, element, places: elements.store(build, element, buffer, places))


def outputs_of(frame: Frame, results: Sequence[list[int]]) -> list[Output]:
    """Return the results of a dispatch. results: see `Output.dims`."""
    return [
        Output.to(frame.elements, value, dims, buffer)
        for value, dims, buffer in zip(frame.returned, results, frame.results, strict=True)
    ]
