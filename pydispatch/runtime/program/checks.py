"""Assertions of the `check` dialect: values of a program are compared element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pydispatch._core.arrays import ElementType
from pydispatch.errors import CheckError
from pydispatch.formats.arrays.small_floats import decode
from pydispatch.formats.program.opcodes import Numerical

Array = NDArray[Any]
Value = Array | int | float | bool
"""Value that a check compares. Without the package ml_dtypes, floats of its types are unsigned integers with their
bits."""


@dataclass(frozen=True)
class Check:
    """Check operation of a program, which compares values at run time.

    Attributes:
        kind: Name of the operation without its dialect, such as `expect_almost_eq`.
        location: `file:line:column` of the operation.
        types: Element type of each compared value.
        atol: Absolute tolerance: |a - b| <= atol + rtol * |b| passes. For `expect_close` it is the largest allowed
            distance in units of the last place.
        rtol: Relative tolerance. For `expect_close` it is the smallest allowed distance in units of the last place.
    """

    kind: str
    location: str
    types: tuple[ElementType, ...]
    atol: float = 0.0
    rtol: float = 0.0

    @property
    def ulp_limits(self) -> tuple[float, float]:
        """Smallest and largest distance that `expect_close` allows, in units of the last place.

        Such a check has no tolerances: the fields `rtol` and `atol` store these limits.
        """
        return self.rtol, self.atol


def verify(function: str, observed: Iterable[tuple[Check, Sequence[Value]]]) -> None:
    """Raise CheckError that lists every failed check of one call; return if all pass.

    Args:
        function: Name of the called function, for the message.
        observed: Each check that the call has reached, with the values that it compares.
    """
    failures = []
    for check, values in observed:
        reason = compare(check, values)
        if reason is not None:
            failures.append(f"{check.location}: check.{check.kind}: {reason}")
    if failures:
        raise CheckError(f"@{function}: " + "\n".join(failures))


def compare(check: Check, values: Sequence[Value]) -> str | None:
    """Return why `values` fail `check`, with the first element that differs; None when they pass."""
    return KINDS[check.kind](check, [np.asarray(value) for value in values])


def _is_true(wanted: bool) -> Callable[[Check, list[Array]], str | None]:
    """Return the function of the check `expect_true` or `expect_false`, whose only value is a scalar."""

    def check_scalar(check: Check, values: list[Array]) -> str | None:
        """Return None if the truth of the scalar is `wanted`, else a message."""
        value = values[0].reshape(-1)[0]
        return None if bool(value) is wanted else f"expected {'a true' if wanted else 'a false'} value, got {value}"

    return check_scalar


def _check_all_true(check: Check, values: list[Array]) -> str | None:
    """Return None if all elements of the only value are true (not 0), else a message with the first false one."""
    (actual,) = values
    false_indices = np.flatnonzero(actual.reshape(-1) == 0)
    if not len(false_indices):
        return None
    false_count, first = _count_text(len(false_indices), actual), _index_text(false_indices[0], actual)
    return f"expected all elements to be true; {false_count} false, the first at {first}"


def _check_equal(check: Check, values: list[Array]) -> str | None:
    """Return None if two arrays have the same shape, type and elements, else a message.

    -0 equals +0, and any NaN equals any other.
    """
    if not _have_one_type(values):
        return _type_difference(check, values)
    same = _equal_elements(*values)
    if not same.all() and _is_float(check.types[0]):
        # Formats that NumPy lacks, such as bf16, may be arrays of integers: compare the numbers that they encode.
        a, b = (_wide(value, check.types[0]) for value in values)
        same = same | _equal_elements(a, b) | (np.isnan(a) & np.isnan(b))
    return _differences(check, values, same)


def _check_almost_equal(check: Check, values: list[Array]) -> str | None:
    """Return None if |a - b| <= atol + rtol |b| for all elements of the actual array a and the expected b, else a
    message.

    Equal elements, infinities too, and two NaNs pass in any case.
    """
    if not _have_one_type(values):
        return _type_difference(check, values)
    same = _equal_elements(*values)
    if not same.all():
        a, b = (_wide(value, check.types[0]) for value in values)
        with np.errstate(invalid="ignore", over="ignore"):
            is_close = np.abs(a - b) <= check.atol + check.rtol * np.abs(b)
        same = same | (is_close & np.isfinite(a) & np.isfinite(b)) | (np.isnan(a) & np.isnan(b))
    return _differences(check, values, same)


def _check_close(check: Check, values: list[Array]) -> str | None:
    """Return None if the distance of all elements, in units of the last place, is within `ulp_limits`; else a message.

    Both limits are inclusive.
    """
    if not _have_one_type(values):
        return _type_difference(check, values)
    distances = _ulp_distances(values, check.types[0])
    smallest, largest = check.ulp_limits
    return _differences(check, values, (smallest <= distances) & (distances <= largest))


def _ulp_distances(values: Sequence[Array], kind: ElementType) -> NDArray[np.float64]:
    """Return how many floats apart the elements of two arrays are, as StableHLO counts: 0 if equal, 1 for neighbors.

    A subnormal number counts as 0 or as the smallest normal number, whichever is nearer. The distance of two NaNs is 0.
    The distance of a finite number and a non-finite one, or of different non-finite ones, is infinite. For complex
    numbers it is the larger distance of the two parts. kind: element type of both arrays.
    """
    a, b = (_wide(value, kind) for value in values)
    if a.dtype.kind == "c":
        component = "f32" if values[0].dtype.itemsize == 8 else "f64"  # complex64 has 8 bytes, two f32
        return np.maximum(_distances(a.real, b.real, component), _distances(a.imag, b.imag, component))
    return _distances(a, b, kind.name)


def _distances(lhs: Array, rhs: Array, kind: str) -> NDArray[np.float64]:
    """Return how many floats of a format the elements of two arrays are apart: 0 if equal, 1 for neighbors.

    The distance of numbers of different sign is the sum of both distances from zero. It is infinite if one of two
    unequal elements is not finite, and 0 for two NaNs. kind: name of the format, a key of `_FLOAT_LAYOUTS`.
    """
    mantissa, min_exponent = _FLOAT_LAYOUTS[kind]
    x, y = (_count_from_zero(value, mantissa, min_exponent) for value in (lhs, rhs))
    across_zero = x.astype(np.float64) + y.astype(np.float64)
    have_same_sign = np.signbit(lhs) == np.signbit(rhs)
    # For finite elements: on the same side of 0 the difference of the counts, else their sum.
    between = np.where(have_same_sign, np.abs(x - y).astype(np.float64), across_zero)
    are_equal = (lhs == rhs) | (np.isnan(lhs) & np.isnan(rhs))
    are_finite = np.isfinite(lhs) & np.isfinite(rhs)
    return np.where(are_finite, between, np.where(are_equal, 0.0, np.inf))


def _count_from_zero(value: Array, mantissa: int, min_exponent: int) -> NDArray[np.int64]:
    """Return the number of floats from 0 to the magnitude of each value; 1 for the smallest normal number.

    Subnormal numbers are not counted: each is rounded to 0 or to the smallest normal number. Values that are not finite
    count as 0. For f16, with 10 bits of mantissa and the minimum exponent -14:

        2**-16 → 0   2**-15 → 1   2**-14 → 1   2**-14 * (1 + 2**-10) → 2   2**-13 → 1025

    Args:
        value: Numbers as f64, exact values of the format.
        mantissa: Stored bits of the mantissa.
        min_exponent: Exponent of the smallest normal number.
    """
    size = np.abs(np.where(np.isfinite(value), value, 0.0))
    smallest_normal = 2.0**min_exponent
    # size = fraction * 2**exponent with 0.5 <= fraction < 1: its IEEE exponent is exponent - 1. `steps` counts floats
    # from 2**(exponent - 1) on. Each of the smaller exponents has 2**mantissa floats.
    fraction, exponent = np.frexp(np.maximum(size, smallest_normal))
    steps = np.ldexp(2 * fraction - 1, mantissa).astype(np.int64)
    count = ((exponent.astype(np.int64) - 1 - min_exponent) << mantissa) + steps + 1
    # A subnormal number is rounded to 0, or to the smallest normal number from its half on.
    rounded_count = (size >= smallest_normal / 2).astype(np.int64)
    return np.where(size < smallest_normal, rounded_count, count)


_FLOAT_LAYOUTS = {
    "f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022), "f8E5M2": (2, -14),
    "f8E4M3FN": (3, -6), "f8E5M2FNUZ": (2, -15), "f8E4M3FNUZ": (3, -7), "f8E4M3": (3, -6), "f8E3M4": (4, -2),
    "f8E4M3B11FNUZ": (3, -10), "f8E8M0FNU": (0, -127), "f6E2M3FN": (3, 0), "f6E3M2FN": (2, -2), "f4E2M1FN": (1, 0),
}  # fmt: skip
"""Name of a float type → (stored bits of its mantissa, exponent of its smallest normal number)."""


KINDS: dict[str, Callable[[Check, list[Array]], str | None]] = {
    "expect_true": _is_true(wanted=True),
    "expect_false": _is_true(wanted=False),
    "expect_all_true": _check_all_true,
    "expect_eq": _check_equal,
    "expect_almost_eq": _check_almost_equal,
    "expect_close": _check_close,
}
"""`Check.kind` → function that returns why values fail a check; None if they pass. The last three compare [actual,
expected]; the others have one value."""


def _is_float(kind: ElementType) -> bool:
    """Return whether an element type is of real or complex floats."""
    return kind.numerical >= Numerical.FLOAT


def _have_one_type(values: list[Array]) -> bool:
    """Return whether two arrays have the same shape and dtype."""
    return values[0].shape == values[1].shape and values[0].dtype == values[1].dtype


def _equal_elements(lhs: Array, rhs: Array) -> NDArray[np.bool_]:
    """Return for each pair of elements whether they are equal as numbers (-0 equals +0) or as bits (equal NaNs)."""
    with np.errstate(invalid="ignore"):
        equal: NDArray[np.bool_] = np.asarray(lhs == rhs)
    if equal.all():
        return equal
    return equal | (_element_bytes(lhs) == _element_bytes(rhs)).all(axis=-1)


def _element_bytes(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of each element along an additional last axis."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


def _wide(array: Array, kind: ElementType) -> Array:
    """Return the elements as f64 or complex128, in which their differences are computed.

    Floats of a format that NumPy lacks, such as bf16, are arrays of integers with their bits; they are decoded. kind:
    element type of the array.
    """
    has_float_bits = array.dtype.kind in "iub" and kind.dtype.kind in "iu" and _is_float(kind)
    if has_float_bits:
        if kind.name == "bf16":
            # bf16 is the upper half of an f32.
            return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return decode(array, kind.name)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _type_difference(check: Check, values: list[Array]) -> str:
    """Return the message for actual and expected values of different shapes or dtypes."""
    actual, expected = values
    return f"expected {_type(expected, check)}, got {_type(actual, check)}"


def _differences(check: Check, values: list[Array], passes: NDArray[np.bool_]) -> str | None:
    """Return a message about the elements that fail a check, with the first of them; None if all pass.

    Args:
        check: The check.
        values: Actual and expected values, of one shape and type.
        passes: For each element, whether it passes the check.
    """
    actual, expected = values
    failing = np.flatnonzero(~passes.reshape(-1))  # row-major indices
    if not len(failing):
        return None
    first = int(failing[0])
    a, b = actual.reshape(-1)[first], expected.reshape(-1)[first]
    text = f"element {_index_text(first, actual)} is {_element_text(a, check)}, expected {_element_text(b, check)}"
    text += f"; {_count_text(len(failing), actual)} differ"
    return text + _largest_difference(check, values, failing) if _is_float(check.types[0]) else text


def _largest_difference(check: Check, values: list[Array], failing: NDArray[np.intp]) -> str:
    """Return the end of a message about floats: the largest difference, with the tolerances of the check.

    For `expect_almost_eq` it is such as ", by 0.5 at most (atol 0.1, rtol 0.01)", for `expect_close` such as ", by 0.5
    at most and by 7 units of the last place (limits 0 and 3)", and for `expect_eq` ", by 0.5 at most".

    Args:
        check: The check.
        values: Actual and expected values, of one shape and type.
        failing: Row-major indices of the elements that fail.
    """
    actual, expected = (_wide(value, check.types[0]).reshape(-1)[failing] for value in values)
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.abs(actual - expected)
    largest = float(np.nanmax(difference)) if not np.isnan(difference).all() else float("nan")
    text = f", by {largest:.3g} at most"
    if check.kind == "expect_almost_eq":
        text += f" (atol {check.atol:g}, rtol {check.rtol:g})"
    if check.kind == "expect_close":
        distance = _ulp_distances(values, check.types[0]).reshape(-1)[failing].max()
        low, high = check.ulp_limits
        text += f" and by {distance:g} units of the last place (limits {low:g} and {high:g})"
    return text


def _element_text(value: Any, check: Check) -> str:
    """Return an element as text: a real float with nine digits, so that all f32 differ; others as NumPy writes them.

    The type is that of the first value: elements are shown only if both compared values have one type.
    """
    element_type = check.types[0]
    if not _is_float(element_type) or element_type.dtype.kind == "c":
        return str(value)
    return f"{float(_wide(np.asarray([value]), element_type)[0]):.9g}"


def _index_text(flat: int, array: Array) -> str:
    """Return the index of an element as text, "[1, 2]". flat: its row-major index from 0."""
    return "[" + ", ".join(str(int(i)) for i in np.unravel_index(flat, array.shape)) + "]"


def _count_text(count: int, array: Array) -> str:
    """Return a number of elements of an array as text: "3 of 8 elements"."""
    return f"{count} of {array.size} elements"


def _type(array: Array, check: Check) -> str:
    """Return the type of an array as text: "2x3xf32"."""
    return "x".join([*(str(size) for size in array.shape), check.types[0].name])
