"""The check file of f8 types: arithmetic and conversions on random bit patterns, with the bits that ml_dtypes gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TYPES: dict[str, Any] = {
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E4M3": ml_dtypes.float8_e4m3, "f8E3M4": ml_dtypes.float8_e3m4,
}  # fmt: skip
COUNT = 40


def _smaller(a: Array, b: Array) -> Array:
    """The minimum, NaN when one is, and -0 below +0."""
    zeros = (a == 0) & (b == 0)
    return np.where(zeros, np.where(np.signbit(a), a, b), np.minimum(a, b))


OPERATIONS: dict[str, tuple[str, str, Callable[[Array, Array], Array]]] = {
    "add": ("add", "addf", np.add),
    "sub": ("sub", "subf", np.subtract),
    "mul": ("mul", "mulf", np.multiply),
    "div": ("div", "divf", np.divide),
    "max": ("max_signed", "maximumf", lambda a, b: -_smaller(-a, -b)),
    "min": ("min_signed", "minimumf", _smaller),
}
"""Name -> kind of linalg.elementwise, operation of arith, and the reference on f32."""


def _bits(values: Array) -> str:
    width = 2 * values.itemsize
    numbers = values.view({1: np.uint8, 4: np.uint32}[values.itemsize])
    return f"dense<[{', '.join(f'0x{int(n):0{width}X}' for n in numbers)}]>"


def _constant(name: str, values: Array, element: str) -> str:
    return f"  %{name} = util.unfoldable_constant {_bits(values)} : tensor<{len(values)}x{element}>\n"


def _of_type(element: str, rng: np.random.Generator) -> Iterator[str]:
    dtype = TYPES[element]
    type = f"tensor<{COUNT}x{element}>"
    a, b = (rng.integers(0, 256, COUNT, dtype=np.uint8).view(dtype) for _ in range(2))
    operands = _constant("a", a, element) + _constant("b", b, element)
    for name, (kind, op, reference) in OPERATIONS.items():
        expected = _bits(reference(a.astype(np.float32), b.astype(np.float32)).astype(dtype))
        check = f"  check.expect_almost_eq_const(%r, {expected} : {type}, atol 0.0) : {type}\n  return\n}}\n"
        yield f"func.func @{name}_{element}() {{\n{operands}  %e = tensor.empty() : {type}\n" + (
            f"  %r = linalg.elementwise <{kind}> ins(%a, %b : {type}, {type}) outs(%e : {type}) -> {type}\n{check}"
        )
        yield f"func.func @arith_{name}_{element}() {{\n{operands}  %r = arith.{op} %a, %b : {type}\n{check}"
    wide = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-5, 6, COUNT)).astype(np.float32)
    wide[:4] = [0.0, -0.0, np.inf, -np.inf]
    every = np.arange(256, dtype=np.uint8).view(dtype)
    for name, source, result, from_, to in (
        ("truncf", wide, wide.astype(dtype), "f32", element), ("extf", every, every.astype(np.float32), element, "f32")
    ):  # fmt: skip
        types = f"tensor<{len(source)}x{from_}> to tensor<{len(source)}x{to}>"
        yield f"func.func @{name}_{element}() {{\n{_constant('a', source, from_)}  %r = arith.{name} %a : {types}\n" + (
            f"  check.expect_almost_eq_const(%r, {_bits(result)} : tensor<{len(source)}x{to}>, atol 0.0)"
            f" : tensor<{len(source)}x{to}>\n  return\n}}\n"
        )


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of the file."""
    rng = np.random.default_rng(20)
    with np.errstate(all="ignore"):
        functions = "\n".join(text for element in TYPES for text in _of_type(element, rng))
    yield "types/small_floats", f"// Every f8 type; expected bits are ml_dtypes'.\n\n{functions}"
