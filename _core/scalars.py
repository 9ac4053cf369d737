"""Python and NumPy numbers as arrays of rank 0, by NumPy 2's rules for `casting="same_kind"`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pydispatch._core.arrays import ElementType

_UNSIGNED, _BOOLEAN = 0x12, 0x13
"""Codes of element types in the program format (docs/program.md). All codes below that of unsigned integers are those
of other integers."""


class NumberKind(IntEnum):
    """A kind of number. A number converts to its own kind and to every later one."""

    BOOLEAN = 0
    INTEGER = 1
    FLOAT = 2
    COMPLEX = 3


_KINDS = {"b": NumberKind.BOOLEAN, "i": NumberKind.INTEGER, "u": NumberKind.INTEGER, "f": NumberKind.FLOAT,
          "c": NumberKind.COMPLEX}  # fmt: skip
"""Kinds of numbers by the kind of their NumPy type."""


def number_kind(value: object) -> NumberKind | None:
    """Return the kind of a Python number or NumPy scalar; None for every other object."""
    if isinstance(value, np.generic):
        dtype = value.dtype
        if dtype.kind == "V" and dtype.names is None and dtype.type is not np.void:  # of ml_dtypes
            return NumberKind.INTEGER if "int" in dtype.name else NumberKind.FLOAT
        return _KINDS.get(dtype.kind)
    if isinstance(value, bool):
        return NumberKind.BOOLEAN
    if isinstance(value, int):
        return NumberKind.INTEGER
    if isinstance(value, float):
        return NumberKind.FLOAT
    return NumberKind.COMPLEX if isinstance(value, complex) else None


def array_of_number(value: Any, element: ElementType) -> np.ndarray | None:
    """Return a number as a new array of rank 0 of type `element`, or None for an object that is no number.

    A float is rounded to the nearest element. Raises TypeError for a number of a later kind than the element's, such as
    1.5 for an integer, and OverflowError for a number outside the element type's range.
    """
    kind = number_kind(value)
    if kind is None:
        return None
    wanted = kind_of_element(element)
    if kind > wanted:
        raise TypeError(f"a number of kind {kind.name.lower()} is not converted to {element.name}")
    if wanted is NumberKind.INTEGER:
        return _integer(int(value), element)
    if wanted is NumberKind.FLOAT and element.dtype.kind in "iu":
        raise TypeError(f"a number for {element.name} needs the package ml_dtypes; pass the bits as an array")
    with np.errstate(all="ignore"):
        try:
            array = np.array(value, element.dtype)
        except OverflowError:  # a Python integer beyond every float
            raise OverflowError(f"outside the range of {element.name}") from None
        # A finite number must stay finite. An infinity or NaN must be kept, but some 8-bit floats lack them.
        if kind <= NumberKind.INTEGER or not _is_special(value):
            if _is_special(array):
                raise OverflowError(f"outside the range of {element.name}")
        elif np.isnan(array) != np.isnan(value):
            raise OverflowError(f"{element.name} does not have this value")
    return array


def _is_special(value: Any) -> bool:
    """Return whether a float or complex number is infinite or NaN, in one of its parts if it is complex."""
    return not np.isfinite(value)


def kind_of_element(element: ElementType) -> NumberKind:
    """Return the last kind, in the order of NumberKind, whose numbers convert to an element type."""
    if element.numerical == _BOOLEAN or element.dtype.kind == "b":
        return NumberKind.BOOLEAN
    if element.numerical <= _UNSIGNED:
        return NumberKind.INTEGER
    return NumberKind.COMPLEX if element.dtype.kind == "c" else NumberKind.FLOAT


def integer_range(element: ElementType) -> tuple[int, int]:
    """Return the least and the greatest number, both inclusive, of an integer type."""
    bits = element.bits
    return (0, 2**bits - 1) if element.numerical == _UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _integer(value: int, element: ElementType) -> np.ndarray:
    """Return an integer as an array of rank 0. Raise OverflowError if it is outside the range of the element type."""
    low, high = integer_range(element)
    if not low <= value <= high:
        raise OverflowError(f"outside [{low}, {high}]")
    if element.packed and element.dtype.kind == "u":  # without ml_dtypes, dtype holds raw bits: -1 as i4 is 0xF
        value &= 2**element.bits - 1
    return np.array(value, element.dtype)
