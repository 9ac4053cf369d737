"""Results of programs as text, and their comparison with expected values: the output of IREE's runner.

Results are printed in the grammar of `values.py`, which reads inputs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pydispatch._core.arrays import ElementType
from pydispatch._core.extended_types import BY_NAME
from pydispatch.cli.values import SMALL_FLOATS, Array, Value, is_integer
from pydispatch.formats.arrays.small_floats import decode
from pydispatch.formats.program.opcodes import Numerical


def type_name(kind: ElementType) -> str:
    """Return the name of an element type in the grammar of `values.py`."""
    return f"cf{kind.bits}" if kind.dtype.kind == "c" else kind.name


def format_array(array: Array, kind: ElementType, limit: int = 1024) -> str:
    """Format an array with its type, in the grammar of `values.py`.

    For example `2x3xf32=[1 2 3][4 5 6]`, `f32=3.5` for rank 0, `4xi1=01 00 01 00`, and with a limit of 2 elements
    `4xf32=1 2...`.

    Args:
        array: The elements. Those of a type that NumPy lacks (bf16, f8, f4, i4, i2) have a dtype of ml_dtypes, or are
            unsigned integers with their bits.
        kind: Element type, which the text names.
        limit: Maximum number of elements in the text; `...` stands for the others.
    """
    head = "".join(f"{size}x" for size in array.shape) + type_name(kind)
    array = _numbers(array, kind)
    # Bool, complex or opaque bits (np.void). The scalar type is compared, not the kind "V", which dtypes of ml_dtypes
    # have, too.
    is_hex = array.dtype.kind in "bc" or array.dtype.type is np.void
    if is_hex:
        texts = [item.tobytes().hex().upper() for item in array.reshape(-1)[:limit]]
    elif is_integer(kind):
        texts = [str(int(item)) for item in array.reshape(-1)[:limit]]
    else:
        texts = [_float_text(float(item)) for item in array.reshape(-1)[:limit]]
    return f"{head}={_rows(array.shape, texts, start=0, limit=limit)}"


def _numbers(array: Array, kind: ElementType) -> Array:
    """Return an array with its numbers, which may be unsigned integers with the bits of a type that NumPy lacks."""
    if array.dtype.kind != "u":  # signed, float, bool or complex: the numbers themselves
        return array
    if kind.name == "bf16":  # the bits are the upper half of an f32
        return (array.astype(np.uint32) << 16).view(np.float32)
    if kind.name in SMALL_FLOATS:
        return decode(array, kind.name)
    if kind.packed and kind.numerical != Numerical.UNSIGNED:
        # Sign-extend the low `bits` bits: flip the sign bit, then subtract its value.
        half = 1 << (kind.bits - 1)
        return ((array.astype(np.int8) & (2 * half - 1)) ^ half) - half
    return array


def _rows(shape: tuple[int, ...], texts: list[str], start: int, limit: int) -> str:
    """Format a sub-array of size `shape`, with brackets around each row.

    `start` is the index of its first element in the flattened whole array, of which `texts` has the first `limit`
    elements, or all.
    """
    if not shape:
        return texts[start] if start < limit else "..."
    if len(shape) == 1:
        shown = texts[start : min(start + shape[0], limit)]
        is_cut = shape[0] > 0 and start + shape[0] > limit  # an empty row has no elements to leave out
        return " ".join(shown) + ("..." if is_cut else "")
    step = math.prod(shape[1:])
    return "".join(f"[{_rows(shape[1:], texts, start + i * step, limit)}]" for i in range(shape[0]))


def _float_text(value: float) -> str:
    """Format a float as IREE does: six digits, NAN and INF in capitals."""
    if math.isnan(value):
        return "-NAN" if math.copysign(1.0, value) < 0 else "NAN"
    return f"{value:G}"


def format_number(value: float, kind: ElementType) -> str:
    """Format a number with its type, such as `i32=3` or `f32=2.5`."""
    return f"{type_name(kind)}={value:g}" if isinstance(value, float) else f"{type_name(kind)}={int(value)}"


def format_result(value: Value, kind: ElementType, limit: int) -> str:
    """Format a result like IREE's runner, without the prefix `result[i]: `."""
    if isinstance(value, np.ndarray):
        return f"hal.buffer_view\n{format_array(value, kind, limit)}"
    return format_number(value, kind)


_TOLERANCE = {"f16": 1e-3, "f32": 1e-4, "f64": 1e-4, "bf16": 1e-2}
"""Largest accepted difference of a float from the expected one, by its type."""


_RELATIVE = 1e-5
"""Accepted difference relative to the expected number, in addition."""


def mismatch(actual: Value, expected: Value, kind: ElementType, exact: bool) -> str | None:
    """Return how a result differs from the expected one, in the words of IREE's runner; None if it matches.

    Tensors must have equal shapes and dtypes; the text names the first element that differs, such as
    "element at index 1 (2) does not match the expected (5)". NaN equals NaN.

    Args:
        actual: The result: an array, or a number.
        expected: The expected value, in the same form.
        kind: Type of the number or of the elements.
        exact: Whether floats must be equal rather than close. Integers and bools must be equal in any case.
    """
    if not isinstance(actual, np.ndarray):  # a number
        if isinstance(expected, np.ndarray):
            return f"value is {format_number(actual, kind)}; expected a tensor"
        if not _are_close(np.array([actual]), np.array([expected]), kind, exact)[0]:
            # Each number as text: format_number() returns `i32=5`, of which the part after "=" is shown.
            left, right = (format_number(scalar, kind).partition("=")[2] for scalar in (actual, expected))
            return f"value ({left}) does not match the expected ({right})"
        return None
    if not isinstance(expected, np.ndarray):
        return "value is a tensor; expected a number"
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"metadata is {_metadata(actual)}; expected that the view matches {_metadata(expected)}"
    mismatches = np.flatnonzero(~_are_close(actual.reshape(-1), expected.reshape(-1), kind, exact))
    if not len(mismatches):
        return None
    k = int(mismatches[0])  # index in row-major order
    # Each element as text: format_array() returns `1xf32=5`, of which the part after "=" is shown.
    left, right = (format_array(a.reshape(-1)[k : k + 1], kind).partition("=")[2] for a in (actual, expected))
    return f"element at index {k} ({left}) does not match the expected ({right})"


def _are_close(actual: Array, expected: Array, kind: ElementType, exact: bool) -> NDArray[np.bool_]:
    """Return for each element whether it equals the expected one, within a tolerance unless `exact`."""
    # NumPy holds small floats, too, as unsigned integers: only `numerical` says whether they are floats.
    if kind.dtype.kind in "iub" and kind.numerical < Numerical.FLOAT:
        same: NDArray[np.bool_] = actual == expected
        return same
    wide = np.complex128 if kind.dtype.kind == "c" else np.float64
    a, b = (_numbers(array, kind).astype(wide) for array in (actual, expected))
    atol, rtol = (0.0, 0.0) if exact else (_TOLERANCE.get(kind.name, 0.0), _RELATIVE)
    return np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


_LETTERS = {"bool": "i1", "int": "i", "uint": "ui", "float": "f", "complex": "cf", "void": "x"}
"""Names of NumPy's and ml_dtypes' types without their widths → those in the grammar of `values.py`."""


def _metadata(array: Array) -> str:
    """Return the shape and type of an array as text, such as 2x3xi32."""
    extended = BY_NAME.get(array.dtype.name)  # a type of ml_dtypes
    letters = array.dtype.name.rstrip("0123456789")  # of int32 "int", for which i32 has an "i"
    name = extended.mlir if extended else _LETTERS[letters] + array.dtype.name.removeprefix(letters)
    return "".join(f"{size}x" for size in array.shape) + name
