"""Values that the epilogue of a contraction computes and stores, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.results import matching_dims
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements


@dataclass(frozen=True)
class Output:
    """A value that is computed from the contraction's result, element by element.

    Attributes:
        value: The value.
        dims: For each dimension of the value, the equal dimension of the contraction's result: [1, 0] for a transpose.
        store: Emits the store of an element; its parameters are the builder, the element and its indices.
    """

    value: SSAValue
    dims: list[int]
    store: Callable[[Builder, SSAValue, list[Index]], None]

    @staticmethod
    def to(elements: Elements, value: SSAValue, dims: list[int], buffer: SSAValue) -> Output:
        """Return the output that stores a value in `buffer`, a memref of its shape.

        `dims` has, for each dimension of the value, the equal dimension of the contraction's result.
        """

        def store(build: Builder, element: SSAValue, indices: list[Index]) -> None:
            """Emit the store of an element of the value into `buffer`."""
            elements.store(build, element, buffer, indices)

        return Output(value=value, dims=dims, store=store)


def dims_of_results(results: Sequence[SSAValue], contraction: Contraction) -> list[list[int]] | None:
    """Return, for each of `results`, the dimension of the contraction's result that each of its own is equal to.

    A transposed result has [1, 0]. Return None if a result is not computed element by element from the contraction's.
    """
    dims_or_none = [matching_dims(value, contraction.op.results[0]) for value in results]
    dims = [dims_of_value for dims_of_value in dims_or_none if dims_of_value is not None]
    return dims if len(dims) == len(dims_or_none) else None


def outputs_of(frame: Frame, dims: Sequence[list[int]]) -> list[Output]:
    """Return an output for each result of a dispatch function: it stores into the buffer that is bound to the result.

    `dims` has a list for each result of the function: for each of its dimensions, the equal dimension of the
    contraction's result, such as [1, 0] for the transpose.
    """
    return [
        Output.to(frame.elements, value, dims_of_value, buffer)
        for value, dims_of_value, buffer in zip(frame.returned, dims, frame.results, strict=True)
    ]
