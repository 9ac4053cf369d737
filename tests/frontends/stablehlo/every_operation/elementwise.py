"""Operations on each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from every_operation.elements import ELEMENTS, Array, Element
from every_operation.rows import ANALYTIC, ANY, INTEGER, NUMBER, REAL, Row, by


def count(e: Element) -> int:
    return len(e.edges()) ** 2


def integers(function: Callable[..., int]) -> Callable[..., Any]:
    """What is expected of integers: function(bits, *numbers)."""
    return lambda e, *arrays: np.frompyfunc(lambda *n: function(e.bits, *n), len(arrays), 1)(*arrays)


def either(of_integers: Callable[..., Any], of_others: Callable[..., Any]) -> Callable[..., Any]:
    return lambda e, *arrays: (of_integers if e.is_integer else of_others)(e, *arrays)


def quotient(a: int, b: int) -> int:
    """Towards zero; -1, all bits, of a division by zero."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def unsigned(bits: int, n: int) -> int:
    return n & ((1 << bits) - 1)


def shifted(arithmetic: bool, bits: int, a: int, b: int) -> int:
    b = unsigned(bits, b)
    if arithmetic:
        signed = unsigned(bits, a)
        signed -= (signed >> (bits - 1)) << bits
        return signed >> min(b, bits - 1)
    return 0 if b >= bits else unsigned(bits, a) >> b


def power(bits: int, a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << bits)
    return {1: 1, -1: 1 - 2 * (b & 1)}.get(a, 0)


def afz(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def atan2(e: Element, y: Array, x: Array) -> Array:
    return np.arctan2(y, x) if e.kind != "complex" else -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def rounded_to(dtype: Any) -> Callable[..., Any]:
    """To a smaller type, in which numbers that are not normal are 0."""

    def function(e: Element, x: Array) -> Array:
        made = x.astype(np.float32).astype(dtype).astype(np.float32)
        return np.where(np.abs(made) < ml_dtypes.finfo(dtype).tiny, np.copysign(0, made), made)

    return function


def extreme(order: Callable[[Array, Array], Array]) -> Callable[..., Any]:
    def function(e: Element, a: Array, b: Array) -> Array:
        chosen = np.where(order(a, b), a, b)
        if e.kind != "float":
            return chosen
        zero = (a == 0) & (b == 0)
        signs = np.signbit(a) & np.signbit(b) if order(np.float64(1), np.float64(0)) else np.signbit(a) | np.signbit(b)
        chosen = np.where(zero, np.where(signs, -0.0, 0.0), chosen)
        return np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)

    return function


# operation, its function, kinds, distance
UNARY: list[tuple[str, Callable[..., Any], str, float]] = [
    ("cbrt", lambda e, x: np.power(x, 1 / 3) if e.kind == "complex" else np.cbrt(x), ANALYTIC, 4),
    ("ceil", by(np.ceil), REAL, 0),
    ("cosine", by(np.cos), ANALYTIC, 4),
    ("count_leading_zeros", integers(lambda bits, n: bits - unsigned(bits, n).bit_length()), INTEGER, 0),
    ("exponential", by(np.exp), ANALYTIC, 4),
    ("exponential_minus_one", by(np.expm1), ANALYTIC, 4),
    ("floor", by(np.floor), REAL, 0),
    ("log", by(np.log), ANALYTIC, 4),
    ("log_plus_one", by(np.log1p), ANALYTIC, 4),
    ("logistic", by(lambda x: 1 / (1 + np.exp(-x))), ANALYTIC, 4),
    ("negate", by(np.negative), NUMBER, 0),
    ("not", either(by(lambda x: ~x), by(np.logical_not)), "bool sint uint", 0),
    ("popcnt", integers(lambda bits, n: unsigned(bits, n).bit_count()), INTEGER, 0),
    ("round_nearest_afz", by(afz), REAL, 0),
    ("round_nearest_even", by(np.rint), REAL, 0),
    ("rsqrt", by(lambda x: 1 / np.sqrt(x)), ANALYTIC, 4),
    (
        "sign",
        either(integers(lambda bits, n: (n > 0) - (n < 0)), by(lambda x: np.where(x == 0, x, np.sign(x)))),
        "sint float complex quantized",
        1,
    ),
    ("sine", by(np.sin), ANALYTIC, 4),
    ("sqrt", by(np.sqrt), ANALYTIC, 4),
    ("square", by(np.square), ANALYTIC, 2),
    ("tan", by(np.tan), ANALYTIC, 4),
    ("tanh", by(np.tanh), ANALYTIC, 4),
]
BINARY: list[tuple[str, Callable[..., Any], str, float]] = [
    ("add", by(np.add), ANY, 0),
    ("and", by(lambda a, b: a & b), "bool sint uint", 0),
    ("atan2", atan2, ANALYTIC, 4),
    ("divide", either(integers(lambda bits, a, b: quotient(a, b)), by(np.divide)), NUMBER, 0),
    ("maximum", extreme(np.greater_equal), ANY, 0),
    ("minimum", extreme(np.less_equal), ANY, 0),
    ("multiply", by(np.multiply), ANY, 0),
    ("or", by(lambda a, b: a | b), "bool sint uint", 0),
    ("power", either(integers(power), by(np.power)), NUMBER, 4),
    (
        "remainder",
        either(integers(lambda bits, a, b: a if b == 0 else a - quotient(a, b) * b), by(np.fmod)),
        "sint uint float quantized",
        0,
    ),
    ("shift_left", integers(lambda bits, a, b: 0 if unsigned(bits, b) >= bits else a << unsigned(bits, b)), INTEGER, 0),
    ("shift_right_arithmetic", integers(lambda bits, a, b: shifted(True, bits, a, b)), INTEGER, 0),
    ("shift_right_logical", integers(lambda bits, a, b: shifted(False, bits, a, b)), INTEGER, 0),
    ("subtract", by(np.subtract), NUMBER, 0),
    ("xor", by(lambda a, b: a ^ b), "bool sint uint", 0),
]
# Those of NumPy order complex numbers by real, then by imaginary part.
ORDERS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def total(order: Callable[..., Any]) -> Callable[..., Any]:
    """-NaN < -inf < ... < -0 < 0 < ... < inf < NaN: the order of the bits, those of negative numbers reversed."""

    def key(x: Array) -> Array:
        bits = x.astype(np.float64).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)

    return lambda e, a, b: order(key(a), key(b))


HUBS = ("i1", "i8", "ui32", "f32", "f8E5M2", "complex<f64>")
"""Every type is converted to and from these."""


def pairs(e: Element) -> list[Row]:
    """All of them, on all pairs of edges."""
    n = count(e)
    here, part, truth = f"{n}x$E", f"{n}x$R", f"{n}xi1"
    loose = {"complex": 4.0, "quantized": 1.0}.get(e.kind, 0.0)
    given = ("left:", "right:")
    rows = [
        Row(op, f"stablehlo.{op} $0", given[:1], (here,), f, kinds, max(units, loose)) for op, f, kinds, units in UNARY
    ]
    away = (f"small:{n}", f"small b:{n}")  # from where complex functions jump
    rows += [
        Row(
            op,
            f"stablehlo.{op} $0, $1",
            away if e.kind == "complex" and op in ("atan2", "power") else given,
            (here,),
            f,
            kinds,
            max(units, loose),
        )
        for op, f, kinds, units in BINARY
    ]
    rows += [
        Row("compare", f"stablehlo.compare {order}, $0, $1", given, (truth,), by(f)) for order, f in ORDERS.items()
    ]
    rows += [
        Row(
            "compare",
            f"stablehlo.compare {order}, $0, $1, TOTALORDER",
            given,
            (truth,),
            total(f),
            "float",
            holds=lambda e: not (e.name.endswith("FNUZ") or e.name == "f8E8M0FNU"),
        )
        for order, f in list(ORDERS.items())[1:4]
    ]
    rows += [
        Row("abs", "stablehlo.abs $0", given[:1], (part,), by(np.abs), "sint float complex quantized", loose),
        Row("real", "stablehlo.real $0", given[:1], (part,), by(np.real), "float complex"),
        Row("imag", "stablehlo.imag $0", given[:1], (part,), by(np.imag), "float complex"),
        Row(
            "complex",
            "stablehlo.complex $0, $1",
            given,
            (f"{n}xcomplex<$E>",),
            by(joined),
            "float",
            holds=lambda e: e.name in ("f32", "f64"),
        ),
        Row("is_finite", "stablehlo.is_finite $0", given[:1], (truth,), by(np.isfinite), REAL),
        Row("select", "stablehlo.select $0, $1, $2", (f"truth:{n}", *given), (here,), by(np.where)),
        Row("select", "stablehlo.select $0, $1, $2", (np.array(True), *given), (here,), by(np.where)),
        Row(
            "clamp",
            "stablehlo.clamp $0, $1, $2",
            ("small:", "left:", "small b:"),
            (here,),
            clamped,
            "bool sint uint float quantized",
        ),
        Row("optimization_barrier", "stablehlo.optimization_barrier $0", given[:1], (here,), by(lambda x: x)),
        *(
            Row(
                "reduce_precision",
                f"stablehlo.reduce_precision $0, format = {form}",
                (f"normal:{n}",),
                (here,),
                rounded_to(dtype),
                REAL,
                loose,
            )
            for form, dtype in (("e5m10", np.float16), ("e8m7", ml_dtypes.bfloat16), ("e5m2", ml_dtypes.float8_e5m2))
        ),
        *(
            Row(
                "convert",
                "stablehlo.convert $0",
                ("left:",) if exact(e, to) else (f"ones:{n}",),
                (f"{n}x{to.name}",),
                converted(to),
                e.kind,
            )
            for to in ELEMENTS.values()
            if e.kind != "quantized" and to.kind != "quantized" and (e.name in HUBS or to.name in HUBS)
        ),
    ]
    return rows


def joined(real: Array, imag: Array) -> Array:
    made = real.astype(np.complex128)
    made.imag = imag
    return made


def clamped(e: Element, low: Array, x: Array, high: Array) -> Array:
    return extreme(np.less_equal)(e, extreme(np.greater_equal)(e, x, low), high)


def exact(e: Element, to: Element) -> bool:
    """Whether a conversion is defined for every number: not those of floats to integers."""
    return not (to.is_integer and e.kind in ("float", "complex"))


def converted(to: Element) -> Callable[..., Any]:
    def function(e: Element, x: Array) -> Array:
        if e.kind == "complex" and to.kind != "complex":
            x = x.real
        if to.kind == "bool":
            return x != 0
        if to.is_integer and e.kind in ("float", "complex"):
            return np.trunc(x).astype(np.int64)
        return x.astype(object if to.is_integer else np.float64 if to.kind == "float" else np.complex128)

    return function
