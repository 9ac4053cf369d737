"""Checks of `out=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType


def check_out(where: str, given: Any, element: ElementType, is_number: bool, shape: tuple[int, ...] | None) -> None:
    """InvalidArgumentError, which begins with `where`, unless a result can be written into what was given for it.

    is_number: it is no array. shape: its sizes, None where they are not known yet.
    """
    if given is None:
        return
    if is_number:
        raise InvalidArgumentError(f"{where}: the result is a number; expected None")
    if not isinstance(given, (Buffer, np.ndarray)):
        raise InvalidArgumentError(f"{where}: expected a buffer or an array, got {type(given).__name__}")
    if given.dtype != element.dtype or (shape is not None and given.shape != shape):
        wanted = "" if shape is None else f" of shape {shape}"
        raise InvalidArgumentError(
            f"{where}: expected {element.dtype}{wanted}, got {given.dtype} of shape {given.shape}"
        )
    if isinstance(given, Buffer):
        return
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidArgumentError(f"{where}: expected an array without a mask; pass x.data")
    if not (given.flags.c_contiguous and given.flags.writeable):
        raise InvalidArgumentError(f"{where}: expected a contiguous, writable array")
