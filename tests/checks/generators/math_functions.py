"""Check files of every function of math in each float type, with the values of mpmath for the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

COUNT = 13
TYPES: dict[str, tuple[Any, str]] = {
    "f16": (np.float16, "2.0e-3"), "bf16": (ml_dtypes.bfloat16, "1.6e-2"), "f32": (np.float32, "5.0e-7"),
    "f64": (np.float64, "1.0e-15"),
}  # fmt: skip
"""Element type -> its NumPy type, and the relative error that is allowed."""

Range = tuple[float, float]
ALL, UNIT, OPEN, POSITIVE = (-4.0, 4.0), (-1.0, 1.0), (-0.875, 0.875), (0.125, 9.0)


def _signed_root(x: Any) -> Any:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _to_even(x: Any) -> Any:
    return float(np.rint(float(x)))


UNARY: dict[str, tuple[Callable[[Any], Any], Range]] = {
    "absf": (abs, ALL), "acos": (mpmath.acos, UNIT), "acosh": (mpmath.acosh, (1.0, 9.0)), "asin": (mpmath.asin, UNIT),
    "asinh": (mpmath.asinh, ALL), "atan": (mpmath.atan, ALL), "atanh": (mpmath.atanh, OPEN),
    "cbrt": (_signed_root, ALL),
    "ceil": (mpmath.ceil, ALL), "cos": (mpmath.cos, ALL), "cosh": (mpmath.cosh, ALL), "erf": (mpmath.erf, ALL),
    "erfc": (mpmath.erfc, ALL), "exp": (mpmath.exp, ALL), "exp2": (lambda x: mpmath.power(2, x), ALL),
    "expm1": (mpmath.expm1, ALL), "floor": (mpmath.floor, ALL), "log": (mpmath.log, POSITIVE),
    "log10": (mpmath.log10, POSITIVE), "log1p": (mpmath.log1p, (-0.875, 9.0)),
    "log2": (lambda x: mpmath.log(x, 2), POSITIVE), "roundeven": (_to_even, ALL),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), POSITIVE), "sin": (mpmath.sin, ALL), "sinh": (mpmath.sinh, ALL),
    "sqrt": (mpmath.sqrt, (0.0, 9.0)), "tan": (mpmath.tan, ALL), "tanh": (mpmath.tanh, ALL),
    "trunc": (lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), ALL),
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": mpmath.atan2, "powf": mpmath.power, "copysign": lambda x, y: abs(x) if y >= 0 else -abs(x),
}  # fmt: skip

HEAD = "  %x = util.unfoldable_constant {x}\n"
BODY = """  %empty = tensor.empty() : {type}
  %y = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%x : {type}) outs(%empty : {type}) {{
  ^bb0(%in: {element}, %out: {element}):
    %r = math.{name} %in : {element}
    linalg.yield %r : {element}
  }} -> {type}
  check.expect_almost_eq_const(%y, {expected}, atol 1.0e-12, rtol {error}) : {type}
  %z = math.{name} %x : {type}
  check.expect_almost_eq(%y, %z, atol 0.0) : {type}
"""
BODY_OF_TWO = """  %w = util.unfoldable_constant {w}
  %y = math.{name} %x, %w : {type}
  check.expect_almost_eq_const(%y, {expected}, atol 1.0e-12, rtol {error}) : {type}
"""


def _arguments(range: Range, element: str) -> list[float]:
    return [float(x) for x in np.linspace(*range, COUNT).astype(TYPES[element][0])]


def _dense(values: list[float], type: str) -> str:
    return f"dense<[{', '.join(repr(float(v)) for v in values)}]> : {type}"


def _function(name: str, element: str) -> str:
    type, error = f"tensor<{COUNT}x{element}>", TYPES[element][1]
    if name in UNARY:
        reference, range = UNARY[name]
        x, w, body = _arguments(range, element), [], BODY
        values = [reference(mpmath.mpf(v)) for v in x]
    else:
        x, w, body = _arguments((0.5, 4.0), element), _arguments((-3.0, 3.0), element), BODY_OF_TWO
        values = [BINARY[name](mpmath.mpf(v), mpmath.mpf(u)) for v, u in zip(x, w, strict=True)]
    expected = _dense([float(v) for v in values], type)
    text = (HEAD + body).format(
        x=_dense(x, type), w=_dense(w, type), name=name, element=element, type=type, expected=expected, error=error
    )
    return f"func.func @{name}_{element}() {{\n{text}  return\n}}\n"


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of each file."""
    for element in TYPES:
        functions = "\n".join(_function(name, element) for name in (*UNARY, *BINARY))
        note = f"// Functions of math on {element}; expected values are mpmath's.\n\n"
        yield f"math/functions_{element}", note + functions
