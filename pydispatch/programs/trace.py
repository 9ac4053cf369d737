"""The program that is being written, and where in the user's source its operations belong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import DTYPES, DType, dtype_of_numpy
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor

_NOT_THE_USERS = (str(Path(__file__).resolve().parents[1]), str(Path(np.__file__).resolve().parent))
LARGEST_CONSTANT = 64
"""Elements of a constant that is written into the program; larger arrays are weights."""

_running: list[Trace] = []


class Trace(Builder):
    """Writes the program of one function."""

    def __init__(self, filename: str, weights: str = "embed") -> None:
        super().__init__(filename, weights)
        self._kept: dict[int, tuple[Any, Tensor]] = {}
        self.states: Any = None
        """What the program keeps between calls (`state.py`)."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Operations on traced arrays are written here meanwhile."""
        _running.append(self)
        try:
            yield
        finally:
            _running.pop()

    @contextmanager
    def here(self) -> Iterator[None]:
        """What is written belongs to the line of the user's source that is running."""
        with self.at(_line(self.filename)):
            yield

    @property
    def scope(self) -> Any:
        """What is being written: the program, or the branch or loop in it."""
        return self._scopes[-1] if self._scopes else None

    def tensor_of(self, value: Any, dtype: DType | None = None) -> Tensor:
        """A traced array, an array of NumPy, a number, or a size, as a tensor."""
        traced = getattr(value, "tensor", None)
        if isinstance(traced, Tensor):
            return traced
        if isinstance(value, Expr):
            return self.constant(value, dtype if dtype is not None and dtype.is_integer else DTYPES["i64"])
        if isinstance(value, (bool, int, float, complex, np.generic)):
            return self.constant(value, dtype or dtype_of_numpy(np.asarray(value)))
        if not isinstance(value, np.ndarray):
            try:
                value = np.asarray(value)
            except Exception as error:
                raise InvalidArgumentError(f"expected an array or a number, got {value!r}: {error}") from None
        return self._constant(value)

    def _constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        if array.dtype == object:
            return self.constant(array)
        known = self._kept.get(id(array))
        if known is None:
            dtype = dtype_of_numpy(array)
            if array.size <= LARGEST_CONSTANT:
                made = self.constant(array, dtype)
            else:
                made = self.weight(f"constant{len(self._kept)}", np.ascontiguousarray(array), dtype)
            known = self._kept[id(array)] = (array, made)  # the array stays alive, and its number its own
        return known[1]


def current() -> Trace | None:
    """The program that is being written; None outside of tracing."""
    return _running[-1] if _running else None


def _line(filename: str) -> str:
    """The innermost line that is neither of this package nor of NumPy."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_NOT_THE_USERS) or "contextlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    if frame is None:
        return ""
    name = frame.f_code.co_filename
    return f"line {frame.f_lineno}" if name == filename else f"{Path(name).name}, line {frame.f_lineno}"
