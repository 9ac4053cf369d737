"""Types of the values of a pattern: `f32["n", 4]` is a tensor of 32-bit floats with n rows and 4 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydispatch.errors import InvalidArgumentError

Size = int | str | None
"""A number, a name (equal names are equal sizes), or None for any size."""


class ComputedSize:
    """Base class of `Expr` in `graph/sizes.py`, a term over the dynamic sizes of a model.

    Subscripts of types, as in `f32[size]`, accept its instances without an import of `graph`.
    """

    __slots__ = ()


@dataclass(frozen=True)
class TensorType:
    """Type of a value of a pattern: element type and shape, with names of dynamic sizes.

    Attributes:
        dtype: Name of the element type, such as "f32".
        shape: Sizes; () for a tensor of rank 0, None for a scalar.
    """

    dtype: str
    shape: tuple[Size, ...] | None

    def __str__(self) -> str:
        """Return `f32[n, 4]`, with `?` for any size, or `f32` for a scalar."""
        if self.shape is None:
            return self.dtype
        return f"{self.dtype}[{', '.join('?' if s is None else str(s) for s in self.shape)}]"

    @property
    def mlir(self) -> str:
        """Type in MLIR syntax."""
        if self.shape is None:
            return self.dtype
        return f"tensor<{''.join(f'{s}x' if isinstance(s, int) else '?x' for s in self.shape)}{self.dtype}>"


@dataclass(frozen=True)
class DType:
    """Element type in patterns and kernels, such as `pydispatch.f32`. As an annotation it denotes a scalar.

    name: "f32" and the like, as in MLIR; "u32" and the like for unsigned integers of kernels.
    """

    name: str

    def __getitem__(self, shape: Size | tuple[Size, ...]) -> TensorType:
        """Return the type of a tensor of these sizes: `f32["n", 4]`."""
        sizes = shape if isinstance(shape, tuple) else (shape,)
        for size in sizes:
            is_count = isinstance(size, int) and not isinstance(size, bool) and size >= 0
            is_name = isinstance(size, str) and size.isidentifier()
            if not (size is None or is_count or is_name or isinstance(size, ComputedSize)):
                raise InvalidArgumentError(
                    f"a size is a number, a name or None, got {size!r}: write {self.name}['n', 4]"
                )
        return TensorType(self.name, sizes)

    def __call__(self, value: Any) -> Any:
        """Convert a number, or each element of an array, to this type.

        In a compiled kernel the compiler translates the call instead. A float that an integer type cannot hold becomes
        the nearest integer of the type, NaN becomes 0.

        NumPy has no bf16 and no f8: outside of kernels they are f32. A bf16 is rounded toward 0, NaN becomes quiet; an
        f8 is not rounded.
        """
        import numpy as np

        if self.name == "bf16":  # the upper 16 bits of an f32; the highest bit of the fraction makes NaN quiet
            single = np.float32(value)
            bits = single.view(np.uint32) | np.where(np.isnan(single), np.uint32(0x00400000), np.uint32(0))
            return (bits & np.uint32(0xFFFF0000)).view(np.float32)
        numpy_name = {"i1": "bool", "index": "int64", "f8E4M3FN": "float32", "f8E5M2": "float32"}.get(self.name)
        dtype = np.dtype(numpy_name or f"{_NUMPY[self.name[0]]}{self.name[1:]}")  # "u8" is NumPy's "uint8"
        is_truncated = dtype.kind in "iu" and np.asanyarray(value).dtype.kind == "f"
        return _truncated(value, dtype) if is_truncated else dtype.type(value)

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.name.startswith(("f", "bf"))


def _truncated(value: Any, dtype: Any) -> Any:
    """Return a float, or an array of floats, as integers of a NumPy type, as `arith.fptosi` does in kernels: rounded
    toward 0, the nearest limit of the type where it is out of range, and 0 for NaN. NumPy's own conversion wraps.
    """
    import numpy as np

    x, limits = np.asanyarray(value, np.float64), np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        result = x.astype(dtype)
    result[x <= limits.min] = limits.min
    result[x >= limits.max + 1.0] = limits.max
    result[np.isnan(x)] = 0
    return result[()]


_NUMPY = {"f": "float", "i": "int", "u": "uint"}
"""First letter of an element type → the name of NumPy's type without its width."""

f8E4M3FN, f8E5M2 = DType("f8E4M3FN"), DType("f8E5M2")  # noqa: N816  (their names in MLIR)
f16, bf16, f32, f64 = DType("f16"), DType("bf16"), DType("f32"), DType("f64")
index = DType("index")
"""Type of positions and sizes in kernels, 64 bits."""
i1, i8, i16, i32, i64 = DType("i1"), DType("i8"), DType("i16"), DType("i32"), DType("i64")
u8, u16, u32, u64 = DType("u8"), DType("u16"), DType("u32"), DType("u64")
"""Unsigned integers, in kernels only."""


def type_of(annotation: object, name: str) -> TensorType:
    """Return the type that an annotation denotes. Raise InvalidArgumentError for others.

    `name` is the parameter, for errors.
    """
    dtype = getattr(annotation, "dtype", getattr(annotation, "name", ""))  # of a TensorType, else the name of a DType
    if isinstance(annotation, (DType, TensorType)) and dtype.startswith("u"):
        raise InvalidArgumentError(
            f"parameter '{name}' of a pattern is {annotation}: programs have integers whose operations have the sign; "
            f"write pydispatch.i{dtype[1:]}"
        )
    if isinstance(annotation, DType):
        return TensorType(annotation.name, None)
    if isinstance(annotation, TensorType):
        return annotation
    raise InvalidArgumentError(
        f"parameter '{name}' of a pattern needs a type, got {annotation!r}: write {name}: pydispatch.f32['n']"
    )
