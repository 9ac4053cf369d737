"""Conversion of numbers to tensors of rank 0, for PyTorch operators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydispatch._core.public import PublicFunction
from pydispatch._core.scalars import NumberKind, integer_range, kind_of_element
from pydispatch._core.target import torch_dtype
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.interface import argument_label, array_of_rank_0

_INT64_END = 2**63
"""Number after the largest i64."""
_KIND_TEXT = "a number of this kind is not converted"
"""End of the error message for a number of a more general kind than its dtype, such as a float for an i64."""


@dataclass(frozen=True)
class Rank0:
    """Argument of a function that is a tensor of rank 0, for which callers may pass a number.

    Attributes:
        function: The function.
        position: Index of the argument, from 0.
        dtype: PyTorch dtype of the tensor.
        kind: Most general kind of number that converts to the dtype.
        low, high: Least and largest integer or finite float of the dtype; None for other types.
        expected, range_text: Begin and end of error messages, composed in advance, as traced code cannot compose them.
    """

    function: PublicFunction
    position: int
    dtype: Any
    kind: NumberKind
    low: Any
    high: Any
    expected: str
    range_text: str

    def tensor(self, torch: Any, value: Any) -> Any:
        """Return a number as a tensor, and any other value unchanged.

        Raise InvalidArgumentError if it does not convert.
        """
        if isinstance(value, torch.Tensor):
            return value
        if torch.compiler.is_compiling():  # the rules of NumPy cannot be traced
            return self._traced(torch, value)
        array = array_of_rank_0(self.function, self.position, value)
        return value if array is None else torch.tensor(array.item(), dtype=self.dtype)

    def _traced(self, torch: Any, value: Any) -> Any:
        """Return a Python number as a tensor of rank 0 while PyTorch traces, where it may be symbolic.

        An object with a dtype is converted to such a tensor too: the tracer represents a NumPy scalar by an array. Any
        other object is returned unchanged. Raise InvalidArgumentError for a number of another kind or out of range.
        """
        if isinstance(value, bool):
            kind = NumberKind.BOOLEAN
        elif isinstance(value, int):
            kind = NumberKind.INTEGER
        elif isinstance(value, float):
            kind = NumberKind.FLOAT
        elif isinstance(value, complex):
            kind = NumberKind.COMPLEX
        else:
            return self._traced_array(torch, value) if hasattr(value, "dtype") else value
        self._require(kind)
        # True and False convert to every type, and an infinity is not out of range.
        if kind > NumberKind.BOOLEAN and self.low is not None and (value < self.low or value > self.high):
            is_infinite = kind is NumberKind.FLOAT and abs(value) == math.inf
            if not is_infinite:
                raise InvalidArgumentError(self.expected + self.range_text)
        return torch.full((), value, dtype=self.dtype)

    def _traced_array(self, torch: Any, value: Any) -> Any:
        """Return an array of rank 0, whose value is known at run time only, as a tensor of the wanted type while
        PyTorch traces.

        Its kind is checked now. Whether it is in range is asserted when the traced code runs.
        """
        tensor = torch.as_tensor(value)
        if tensor.dtype.is_floating_point:
            kind = NumberKind.FLOAT
        elif tensor.dtype.is_complex:
            kind = NumberKind.COMPLEX
        else:
            kind = NumberKind.BOOLEAN if tensor.dtype == torch.bool else NumberKind.INTEGER
        self._require(kind)
        if self.low is not None and tensor.dtype != self.dtype:
            is_float = self.kind is NumberKind.FLOAT
            wide = tensor.to(torch.float64 if is_float else torch.int64)
            # A u64 above the largest i64 becomes negative in `wide`: the least value 0 rejects it. The greatest value
            # of a u64 argument is not an i64 either, so the comparison is with the largest i64.
            high = self.high if is_float else min(self.high, _INT64_END - 1)
            low = 0 if tensor.dtype == torch.uint64 and not is_float else self.low
            is_between = (wide >= low) & (wide <= high)
            is_special = ~torch.isfinite(wide)  # an infinity or NaN, which every float type has
            torch._assert_async(is_between | is_special, self.expected + self.range_text)
        return tensor.to(self.dtype)

    def _require(self, kind: NumberKind) -> None:
        """Raise InvalidArgumentError for a number of a more general kind than the dtype takes."""
        if kind > self.kind:
            raise InvalidArgumentError(self.expected + _KIND_TEXT)


def rank_0_arguments(torch: Any, function: PublicFunction) -> dict[int | str, Rank0]:
    """Return the arguments of a function that are tensors of rank 0, each under its position (from 0) and its name."""
    arguments: dict[int | str, Rank0] = {}
    # The items of `function.arguments` are (name, element type, sizes or None for a number).
    for position, (value, (_, element, dims)) in enumerate(zip(function.inputs, function.arguments, strict=True)):
        if dims is None or len(dims):  # a number, or a tensor of a higher rank
            continue
        dtype, kind = getattr(torch, torch_dtype(element.word)), kind_of_element(element)
        low: Any = None
        high: Any = None
        if kind is NumberKind.INTEGER:
            low, high = integer_range(element)
        elif kind is NumberKind.FLOAT:
            low, high = torch.finfo(dtype).min, torch.finfo(dtype).max
        expected = f"{argument_label(function, position)}: expected {element.name}: "
        rank_0 = Rank0(
            function, position, dtype, kind, low, high, expected=expected, range_text=f"outside [{low}, {high}]"
        )
        arguments[position] = arguments[value.name] = rank_0
    return arguments
