"""Element types of models. In contrast to MLIR's signless types they have signs, bool and complex numbers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from pydispatch._core.extended_types import EXTENDED_TYPES
from pydispatch.formats.arrays.small_floats import limits

if TYPE_CHECKING:
    import numpy as np


class Kind(Enum):
    """Numeric class of an element type."""

    BOOL = "bool"
    UINT = "unsigned integer"
    INT = "integer"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclass(frozen=True)
class DType:
    """Element type of a tensor of a model: signed, unsigned, bool, float or complex.

    Attributes:
        name: Name, such as "f32" or "c64".
        kind: Numeric class.
        bits: Width of an element, or of the real part of a complex number.
        element: MLIR type, which is signless, of an element or of the real part of a complex number.
    """

    name: str
    kind: Kind
    bits: int
    element: Any

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        """Whether this is a type of complex numbers."""
        return self.kind is Kind.COMPLEX

    @property
    def is_bool(self) -> bool:
        """Whether this is the type of truth values."""
        return self.kind is Kind.BOOL

    @property
    def is_unsigned(self) -> bool:
        """Whether a larger bit pattern is a larger number, as for unsigned integers and bool."""
        return self.kind in (Kind.UINT, Kind.BOOL)

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type; bool is none."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def real(self) -> DType:
        """Type of the real and imaginary parts of a complex type; other types are their own real type."""
        return {"c64": F32, "c128": F64}.get(self.name, self)

    @property
    def limits(self) -> tuple[float | int, float | int]:
        """The least and the greatest number: infinities, if the type has them. A complex type has none."""
        if self.is_float:
            return limits(self.name)
        if self.kind is Kind.INT:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy type of arrays with constant elements of this type.

        Floats that NumPy lacks are unsigned integers with their bits: of 16 bits for bf16, else of 8. Integers of less
        than 8 bits have a byte each.
        """
        import numpy as np

        if self.is_complex:
            return np.dtype(f"c{self.bits // 4}")  # NumPy counts the bytes of both parts
        if self.is_bool:
            return np.dtype(np.bool_)
        if self.kind is Kind.INT:
            code = "i"
        elif self.is_float and self.has_numpy_values:
            code = "f"
        else:
            code = "u"
        return np.dtype(f"{code}{max(1, self.bits // 8)}")

    @property
    def has_numpy_values(self) -> bool:
        """Whether arrays of the type `numpy` have the numbers themselves, so that NumPy computes with them."""
        return not self.is_float or self.name in ("f16", "f32", "f64")


def _integer(name: str, kind: Kind, bits: int) -> DType:
    """Return a type of bool or integers, whose MLIR type is signless."""
    return DType(name, kind, bits, builtin.IntegerType(bits))


BOOL = _integer("bool", Kind.BOOL, bits=1)
I2, I4, I8, I16, I32, I64 = (_integer(f"i{n}", Kind.INT, n) for n in (2, 4, 8, 16, 32, 64))
U2, U4, U8, U16, U32, U64 = (_integer(f"u{n}", Kind.UINT, n) for n in (2, 4, 8, 16, 32, 64))
F16 = DType("f16", Kind.FLOAT, 16, builtin.f16)
BF16 = DType("bf16", Kind.FLOAT, 16, builtin.bf16)
F32 = DType("f32", Kind.FLOAT, 32, builtin.f32)
F64 = DType("f64", Kind.FLOAT, 64, builtin.f64)
C64 = DType("c64", Kind.COMPLEX, 32, builtin.f32)  # the width of the real part
C128 = DType("c128", Kind.COMPLEX, 64, builtin.f64)
SMALL_FLOATS = tuple(
    DType(name, Kind.FLOAT, int(name[1]), getattr(builtin, f"Float{name[1:]}Type")())  # such as Float8E5M2Type
    for name in (
        "f8E5M2", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E8M0FNU", "f8E4M3", "f8E3M4", "f8E4M3B11FNUZ", "f6E2M3FN",
        "f6E3M2FN", "f4E2M1FN",
    )
)  # fmt: skip
"""Floats of up to 8 bits. The digit after the f is the width."""

DTYPES = {
    dtype.name: dtype
    for dtype in (BOOL, I2, I4, I8, I16, I32, I64, U2, U4, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128,
                  *SMALL_FLOATS)
}  # fmt: skip
"""All element types by name."""


def dtype_of_numpy(array: np.ndarray[Any, Any]) -> DType:
    """Return the element type of an array. Raise KeyError for NumPy types that no tensor has."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "b":
        return BOOL
    if kind == "V" or array.dtype.name in _ML_DTYPES:  # "V": any type that NumPy does not have itself
        return DTYPES[_ML_DTYPES[array.dtype.name]]
    return DTYPES[f"{kind}{size * 8}"]


class UnknownTypeError(Exception):
    """Error: a value does not name an element type."""


def dtype_named(spelling: object) -> DType:
    """Return the element type that a name or another object stands for: "f32", "float32", np.float32, np.dtype("f4"),
    pydispatch.f32, or a type of ml_dtypes.

    Raises:
        UnknownTypeError: There is no such element type; the text lists all names.
    """
    import numpy as np

    if isinstance(spelling, DType):
        return spelling
    name = spelling if isinstance(spelling, str) else getattr(spelling, "name", None)
    if isinstance(name, str) and name in _SPELLINGS:
        return _SPELLINGS[name]
    # Other spellings that NumPy knows, such as "f4" and "<i8", by the name or by the kind and size of its dtype.
    try:
        dtype = np.dtype("None" if spelling is None else spelling)  # type: ignore[call-overload]  # NumPy: None is f64
        return _SPELLINGS[dtype.name] if dtype.name in _SPELLINGS else dtype_of_numpy(np.empty(0, dtype))
    except (TypeError, KeyError):
        known = ", ".join(DTYPES)
        raise UnknownTypeError(f"{spelling!r} is no element type; there are {known}, and dtypes of NumPy") from None


# Names of types in the package ml_dtypes → names of element types here.
_ML_DTYPES = {row.name: row.mlir for row in EXTENDED_TYPES}
_ML_DTYPES |= {"int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2"}

_SPELLINGS = {**DTYPES, **{name: DTYPES[own] for name, own in _ML_DTYPES.items()}, "i1": BOOL, "index": I64}
"""Element types by their names here, in ml_dtypes, and in MLIR where these differ."""


def of_element(element: Attribute) -> DType:
    """Return the element type for an MLIR type: signless integers count as signed, i1 as bool, and index as i64.

    Raise KeyError for unsupported types.
    """
    if isinstance(element, builtin.IntegerType):
        bits = element.width.data
        if bits == 1:
            return BOOL
        is_unsigned = element.signedness.data is builtin.Signedness.UNSIGNED
        return DTYPES[f"u{bits}" if is_unsigned else f"i{bits}"]
    if isinstance(element, builtin.ComplexType):
        return {builtin.f32: C64, builtin.f64: C128}[element.element_type]
    if isinstance(element, builtin.IndexType):
        return I64
    return _float_types()[element]


@functools.cache
def _float_types() -> dict[Attribute, DType]:
    """Return the floating-point element types by their MLIR types."""
    return {dtype.element: dtype for dtype in DTYPES.values() if dtype.is_float}
