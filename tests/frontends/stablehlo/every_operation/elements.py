"""The element types of StableHLO: their numbers, and how exact results become numbers of the type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Element:
    """An element type. name: in text; kind: bool, sint, uint, float, complex or quantized; dtype: of NumPy.

    carried: the type of the arguments and results of a test's function where the type itself is none of them. scale,
    zero: of a quantized type.
    """

    name: str
    kind: str
    dtype: Any
    bits: int
    carried: str = ""
    scale: float = 0.0
    zero: int = 0

    @property
    def real(self) -> str:
        """The type of one part of a complex number; the type itself otherwise."""
        return self.name[8:-1] if self.kind == "complex" else self.name

    @property
    def is_integer(self) -> bool:
        return self.kind in ("sint", "uint")

    @property
    def has_nan(self) -> bool:
        return self.kind != "quantized" and self.name[:2] not in ("f4", "f6")

    def wide(self, x: Array) -> Array:
        """The numbers of an array in the widest type of NumPy, truth values, or Python's integers."""
        if self.kind == "bool":
            return x
        if self.is_integer:
            return np.array(x.astype(np.uint64 if self.kind == "uint" else np.int64).tolist(), object)
        return x.astype(np.clongdouble if self.kind == "complex" else np.longdouble)

    def narrow(self, x: Any) -> Array:
        """Numbers rounded to the type: integers wrap around."""
        x = np.asarray(x)
        if self.kind == "quantized":
            low = 0 if "<u" in self.name else -(2 ** (self.bits - 1))
            stored = np.clip(np.rint(x.astype(np.float64) / self.scale) + self.zero, low, low + 2**self.bits - 1)
            return ((stored - self.zero) * self.scale).astype(np.float32)
        if self.is_integer:
            wrapped = np.vectorize(self._wrapped, otypes=[object])(x) if x.size else x
            return wrapped.astype(np.uint64 if self.kind == "uint" else np.int64).astype(self.dtype)
        return x.astype(self.dtype)

    def _wrapped(self, n: Any) -> int:
        n = int(n) & ((1 << self.bits) - 1)
        return n - (1 << self.bits) if self.kind == "sint" and n >> (self.bits - 1) else n

    @property
    def precision(self) -> float:
        """The distance from 1 to the next number."""
        if self.kind == "quantized":
            return self.scale
        part = np.dtype(self.dtype).type(0).real.dtype if self.kind == "complex" else self.dtype
        return float(ml_dtypes.finfo(part).eps)

    # -- numbers to test with

    def edges(self) -> Array:
        """Numbers where something is special: extremes, zeros, not a number."""
        match self.kind:
            case "bool":
                return np.array([True, False])
            case "sint" | "uint":
                low = -(1 << (self.bits - 1)) if self.kind == "sint" else 0
                high = low + (1 << self.bits) - 1
                return self.narrow(np.array([0, 1, 2, 5, high, high - 1, low, low + 1, high // 3], object))
            case "complex":
                values = [0, 1, -1, 1j, -1j, 3 + 4j, -2.5 + 0.5j, -2.5 - 0.5j, 1e-3 + 1e-4j, 0.75 - 3j, -6 + 2j]
                return np.array(values, self.dtype)
            case "quantized":
                return self.narrow(np.array([0, 1, -1, 0.5, 2, -2.5, 3, 1e6, -1e6]))
        info = ml_dtypes.finfo(self.dtype)
        special = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            3,
            float(info.max),
            float(info.min),
            float(info.tiny),
            float(info.smallest_subnormal),
            np.inf,
            -np.inf,
            np.nan,
        ]
        with np.errstate(all="ignore"):
            return np.array(special, np.float64).astype(self.dtype)

    def normal(self) -> Array:
        """Edges of a float that have all its digits."""
        edges = self.edges()
        if self.kind != "float":
            return edges
        return edges[~(np.abs(edges.astype(np.float64)) < float(ml_dtypes.finfo(self.dtype).tiny)) | (edges == 0)]

    def small(self) -> Array:
        """Small numbers that the type has exactly, in no order."""
        if self.kind == "complex":
            return np.array([1 + 2j, -1 + 1j, 2 - 1j, 0.5, -2j, 1 - 1j, 3 + 0.5j], self.dtype)
        numbers: list[float] = [2, -1, 3, 0, 1, -2, 4] if self.kind != "uint" else [2, 0, 3, 1, 7, 5, 4]
        if self.kind == "float":
            numbers = [1.5, -1, 3, 0, 0.5, -2, 4]
        if self.name == "f8E8M0FNU":
            numbers = [1, 2, 4, 8, 0.5]
        return self.narrow(np.array(numbers, object if self.is_integer else float))

    def ones(self) -> Array:
        """Ones and zeros, as far as the type has a zero, for sums."""
        return self.narrow(np.array([1, 1] if self.name == "f8E8M0FNU" else [1, 0, 1, 1, 0], object))


def _floats() -> list[Element]:
    names = {
        "f4E2M1FN": 4,
        "f6E2M3FN": 6,
        "f6E3M2FN": 6,
        "f8E3M4": 8,
        "f8E4M3": 8,
        "f8E4M3FN": 8,
        "f8E4M3FNUZ": 8,
        "f8E4M3B11FNUZ": 8,
        "f8E5M2": 8,
        "f8E5M2FNUZ": 8,
        "f8E8M0FNU": 8,
    }
    made = []
    for name, bits in names.items():
        dtype = getattr(ml_dtypes, f"float{bits}_{name[2:].lower()}")
        made.append(Element(name, "float", dtype, bits))
    wide = (("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f32", np.float32), ("f64", np.float64))
    return made + [Element(name, "float", dtype, np.dtype(dtype).itemsize * 8) for name, dtype in wide]


def _integers() -> list[Element]:
    small = {2: ("int2", "uint2"), 4: ("int4", "uint4")}
    made = []
    for bits in (2, 4, 8, 16, 32, 64):
        signed, unsigned = (
            (getattr(ml_dtypes, n) for n in small[bits])
            if bits in small
            else (np.dtype(f"{kind}{bits // 8}").type for kind in "iu")
        )
        made += [Element(f"i{bits}", "sint", signed, bits), Element(f"ui{bits}", "uint", unsigned, bits)]
    return made


def _quantized() -> list[Element]:
    made = []
    for storage, scale, zero in (("i4", 0.5, 1), ("i8", 0.25, -3), ("u8", 0.5, 128), ("i16", 0.125, 7)):
        at = f":{zero}" if zero else ""
        name = f"!quant.uniform<{storage}:f32, {scale}{at}>"
        made.append(Element(name, "quantized", np.float32, int(storage[1:]), "f32", scale, zero))
    return made


ELEMENTS = {
    e.name: e
    for e in (
        Element("i1", "bool", np.bool_, 1),
        *_integers(),
        *_floats(),
        Element("complex<f32>", "complex", np.complex64, 64),
        Element("complex<f64>", "complex", np.complex128, 128),
        *_quantized(),
    )
}
