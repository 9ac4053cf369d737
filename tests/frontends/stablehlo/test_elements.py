"""Operations on elements, of every type that they take, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = {f"{sign}{bits}": np.dtype(f"{kind}{bits // 8}").type for sign, kind in (("i", "i"), ("ui", "u"))
            for bits in (8, 16, 32, 64)}  # fmt: skip
COMPLEX = {"complex<f32>": np.complex64, "complex<f64>": np.complex128}
LOOSE = {"f16": 4e-3, "bf16": 3e-2, "f32": 3e-6, "f64": 3e-9, "complex<f32>": 2e-5, "complex<f64>": 2e-9}

UNARY: dict[str, Callable[[Array], Any]] = {
    "abs": np.abs, "cbrt": np.cbrt, "ceil": np.ceil, "cosine": np.cos, "exponential": np.exp,
    "exponential_minus_one": np.expm1, "floor": np.floor, "log": lambda x: np.log(np.abs(x)),
    "log_plus_one": lambda x: np.log1p(np.abs(x)), "logistic": lambda x: 1 / (1 + np.exp(-x)), "negate": np.negative,
    "round_nearest_afz": lambda x: np.trunc(x + np.copysign(0.5, x)), "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)), "sign": np.sign, "sine": np.sin, "sqrt": lambda x: np.sqrt(np.abs(x)),
    "square": np.square, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
OF_ABS = ("log", "log_plus_one", "rsqrt", "sqrt")
CHLO: dict[str, Callable[[Array], Any]] = {
    "acos": lambda x: np.arccos(x / 4), "asin": lambda x: np.arcsin(x / 4), "atan": lambda x: np.arctan(x / 4),
    "atanh": lambda x: np.arctanh(x / 4), "asinh": lambda x: np.arcsinh(x / 4), "sinh": lambda x: np.sinh(x / 4),
    "cosh": lambda x: np.cosh(x / 4), "erf": lambda x: np.vectorize(math.erf)(x / 4),
    "erfc": lambda x: np.vectorize(math.erfc)(x / 4), "lgamma": lambda x: np.vectorize(math.lgamma)(x / 4),
    "square": lambda x: (x / 4) ** 2, "tan": lambda x: np.tan(x / 4),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.fmod,
    "power": lambda x, y: np.power(np.abs(x), y), "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
}  # fmt: skip
BITS: dict[str, Callable[[Array, Array], Any]] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
ORDERS: dict[str, Callable[[Array, Array], Any]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal
}  # fmt: skip


def program(element: str, lines: list[tuple[str, str]], count: int = 2) -> str:
    """A function of tensors of 24 elements. lines: right-hand sides, and the element types of their results."""
    arguments = ", ".join(f"%{'abc'[n]}: tensor<24x{element}>" for n in range(count))
    body = [f"  %r{n} = {text}" for n, (text, _) in enumerate(lines)]
    types = ", ".join(f"tensor<24x{kind}>" for _, kind in lines)
    names = ", ".join(f"%r{n}" for n in range(len(lines)))
    return f"func.func @main({arguments}) -> ({types}) {{\n" + "\n".join(body) + f"\n  return {names} : {types}\n}}\n"


def close(found: Array, expected: Any, element: str, what: str) -> None:
    loose = LOOSE[element]
    np.testing.assert_allclose(
        found.astype(np.complex128 if "complex" in element else np.float64), expected, loose, loose, err_msg=what
    )


@pytest.mark.parametrize("element", FLOATS)
def test_functions_of_floats(run: Any, element: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(0, 2, 24).astype(FLOATS[element]) for _ in range(2))
    quarter = (x.astype(np.float64) / 4).clip(-0.99, 0.99).astype(FLOATS[element])
    lines = [(f"stablehlo.abs %a : tensor<24x{element}>", element)]
    lines += [(f"stablehlo.{op} {'%r0' if op in OF_ABS else '%a'} : tensor<24x{element}>", element) for op in UNARY]
    lines += [(f"chlo.{op} %c : tensor<24x{element}> -> tensor<24x{element}>", element) for op in CHLO]
    lines += [(f"stablehlo.{op} {'%r0' if op == 'power' else '%a'}, %b : tensor<24x{element}>", element)
              for op in BINARY]  # fmt: skip
    results = run(program(element, lines, 3), x, y, quarter)[1:]
    wide, other = x.astype(np.float64), y.astype(np.float64)
    names = [*UNARY, *CHLO, *BINARY]
    values = [*(f(wide) for f in UNARY.values()), *(f(quarter.astype(np.float64) * 4) for f in CHLO.values()),
              *(f(wide, other) for f in BINARY.values())]  # fmt: skip
    for name, found, value in zip(names, results, values, strict=True):
        close(found, value, element, name)


@pytest.mark.parametrize("element", INTEGERS)
def test_functions_of_integers(run: Any, element: str) -> None:
    """Every pair is defined: division by 0, the least number by -1, and shifts by more bits than there are."""
    dtype = INTEGERS[element]
    info = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1], dtype)
    pairs = [(a, b) for a in edges[:6] for b in edges[[0, 4, 6, 1]]]
    x, y = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    bits = info.bits
    t = f"tensor<24x{element}>"
    names = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", *BITS, "shift_left",
             "shift_right_logical", "shift_right_arithmetic"]  # fmt: skip
    unary = ["abs", "negate", "not", "popcnt", "count_leading_zeros", "sign"]
    lines = [(f"stablehlo.{op} %a, %b : {t}", element) for op in names]
    lines += [(f"stablehlo.{op} %a : {t}", element) for op in unary if op != "abs" or element[0] == "i"]
    results = run(program(element, lines), x, y)

    def wrapped(value: int) -> int:
        value &= (1 << bits) - 1
        return value - (1 << bits) if info.min < 0 and value >> (bits - 1) else value

    def quotient(a: int, b: int) -> int:
        return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def shifted(a: int, b: int, left: bool, arithmetic: bool) -> int:
        b &= (1 << bits) - 1
        if arithmetic:
            return wrapped(a) >> min(b, bits - 1) if info.min < 0 else arithmetic_unsigned(a, b)
        return 0 if b >= bits else (a << b if left else (a & ((1 << bits) - 1)) >> b)

    def arithmetic_unsigned(a: int, b: int) -> int:
        signed = a - (1 << bits) if a >> (bits - 1) else a
        return signed >> min(b, bits - 1)

    exact: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": quotient,
        "remainder": lambda a, b: a if b == 0 else a - quotient(a, b) * b, "maximum": max, "minimum": min,
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "shift_left": lambda a, b: shifted(a, b, True, False),
        "shift_right_logical": lambda a, b: shifted(a, b, False, False),
        "shift_right_arithmetic": lambda a, b: shifted(a, b, False, True),
    }  # fmt: skip
    mask = (1 << bits) - 1
    single: dict[str, Callable[[int], int]] = {
        "abs": abs, "negate": lambda a: -a, "not": lambda a: ~a, "popcnt": lambda a: (a & mask).bit_count(),
        "count_leading_zeros": lambda a: bits - (a & mask).bit_length(), "sign": lambda a: (a > 0) - (a < 0),
    }  # fmt: skip
    numbers = list(zip(x.tolist(), y.tolist(), strict=True))
    found = iter(results)
    for name in names:
        expected = [wrapped(exact[name](a, b)) for a, b in numbers]
        assert next(found).tolist() == expected, name
    for name in unary:
        if name != "abs" or element[0] == "i":
            assert next(found).tolist() == [wrapped(single[name](a)) for a, _ in numbers], name


@pytest.mark.parametrize("element", COMPLEX)
def test_functions_of_complex_numbers(run: Any, element: str) -> None:
    rng = np.random.default_rng(2)
    x, y = ((rng.normal(size=24) + 1j * rng.normal(size=24)).astype(COMPLEX[element]) for _ in range(2))
    part = element[8:-1]
    unary: dict[str, Callable[[Array], Any]] = {
        "cosine": np.cos, "exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log,
        "log_plus_one": np.log1p, "logistic": lambda z: 1 / (1 + np.exp(-z)), "negate": np.negative,
        "rsqrt": lambda z: 1 / np.sqrt(z), "sign": lambda z: z / np.abs(z), "sine": np.sin, "sqrt": np.sqrt,
        "tan": np.tan, "tanh": np.tanh,
    }  # fmt: skip
    binary = {name: BINARY[name] for name in ("add", "subtract", "multiply", "divide")} | {"power": np.power}
    t = f"tensor<24x{element}>"
    lines = [(f"stablehlo.{op} %a : {t}", element) for op in unary]
    lines += [(f"stablehlo.{op} %a, %b : {t}", element) for op in binary]
    lines += [(f"stablehlo.{op} %a : ({t}) -> tensor<24x{part}>", part) for op in ("abs", "real", "imag")]
    lines += [(f"chlo.conj %a : {t} -> {t}", element)]
    results = run(program(element, lines), x, y)
    values = [*(f(x) for f in unary.values()), *(f(x, y) for f in binary.values()), np.abs(x), x.real, x.imag, x.conj()]
    for name, found, value in zip([*unary, *binary, "abs", "real", "imag", "conj"], results, values, strict=True):
        close(found, value, element, name)


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS])
def test_comparisons(run: Any, element: str) -> None:
    dtype = (FLOATS | INTEGERS)[element]
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, 24).astype(dtype) for _ in range(2))
    if element in FLOATS:
        x[:3], y[2:5] = np.nan, np.nan
        x[5], y[5] = -0.0, 0.0
    t = f"tensor<24x{element}>"
    kind = "FLOAT" if element in FLOATS else "UNSIGNED" if element[0] == "u" else "SIGNED"
    lines = [(f"stablehlo.compare {order}, %a, %b, {kind} : ({t}, {t}) -> tensor<24xi1>", "i1") for order in ORDERS]
    for order, found in zip(ORDERS, run(program(element, lines), x, y), strict=True):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, ORDERS[order](x, y), err_msg=order)


@pytest.mark.parametrize("element", FLOATS)
def test_orders_of_all_floats(run: Any, element: str) -> None:
    values = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], FLOATS[element])
    values[0] = np.copysign(values[0], FLOATS[element](-1))
    values[-1] = np.copysign(values[-1], FLOATS[element](1))
    i, j = (a.ravel()[:24] for a in np.meshgrid(range(8), range(8)))
    t = f"tensor<24x{element}>"
    weak = np.array([7, 1, 2, 3, 3, 5, 6, 7])  # one NaN, the largest, and one zero
    kinds = {"TOTALORDER": np.arange(8), "WEAKORDER": weak}
    rows = [(order, kind) for order in ORDERS for kind in kinds]
    lines = [(f"stablehlo.compare {order}, %a, %b, {kind} : ({t}, {t}) -> tensor<24xi1>", "i1") for order, kind in rows]
    for (order, kind), found in zip(rows, run(program(element, lines), values[i], values[j]), strict=True):
        expected = ORDERS[order](kinds[kind][i], kinds[kind][j])
        np.testing.assert_array_equal(found, expected, err_msg=f"{kind} {order}")


def test_a_comparison_that_broadcasts(run: Any) -> None:
    x, y = np.float32([-0.0, np.nan, 1]), np.float32([[0.0, np.nan, 1], [-0.0, 2, np.nan], [1, 1, -1]])
    vector, matrix, truth = "tensor<3xf32>", "tensor<3x3xf32>", "tensor<3x3xi1>"
    plain, along_rows, total = run(
        f"""func.func @main(%x: {vector}, %y: {matrix}) -> ({truth}, {truth}, {truth}) {{
      %0 = chlo.broadcast_compare %x, %y {{comparison_direction = #chlo<comparison_direction LE>}}
        : ({vector}, {matrix}) -> {truth}
      %1 = chlo.broadcast_compare %x, %y {{broadcast_dimensions = array<i64: 0>,
        comparison_direction = #chlo<comparison_direction LE>}} : ({vector}, {matrix}) -> {truth}
      %2 = chlo.broadcast_compare %x, %y {{compare_type = #chlo<comparison_type TOTALORDER>,
        comparison_direction = #chlo<comparison_direction LT>}} : ({vector}, {matrix}) -> {truth}
      return %0, %1, %2 : {truth}, {truth}, {truth}
    }}""",
        x,
        y,
    )
    np.testing.assert_array_equal(plain, x <= y)
    np.testing.assert_array_equal(along_rows, x[:, None] <= y)
    np.testing.assert_array_equal(total, [[True, False, False], [False, False, True], [True, False, False]])


def test_squares_of_large_complex_numbers(run: Any) -> None:
    x = np.array([1 + 2j, 1e200 + 1e200j, 1e200 - 1e200j, complex(np.inf, np.inf), 3e-170 + 1j, 2e155 + 1e155j])
    x = np.tile(x, 4)
    (found,) = run(program("complex<f64>", [("stablehlo.square %a : tensor<24xcomplex<f64>>", "complex<f64>")], 1), x)
    expected = [-3 + 4j, complex(0, np.inf), complex(0, -np.inf), complex(np.nan, np.inf), -1 + 6e-170j,
                complex(np.inf, np.inf)]  # fmt: skip
    np.testing.assert_allclose(found[:6].real, np.real(expected), 1e-15)
    np.testing.assert_allclose(found[:6].imag, np.imag(expected), 1e-15)


CONVERTED = {**FLOATS, **{name: INTEGERS[name] for name in ("i8", "i16", "i32", "i64", "ui8", "ui32")},
             "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}  # fmt: skip


@pytest.mark.parametrize("element", CONVERTED)
def test_conversions(run: Any, element: str) -> None:
    x = np.tile(np.array([0, 1, 2, 3, 1, 0], np.float32), 4).astype(CONVERTED[element])
    t = f"tensor<24x{element}>"
    lines = [(f"stablehlo.convert %a : ({t}) -> tensor<24x{to}>", to) for to in (*CONVERTED, "i1", "complex<f32>")]
    results = run(program(element, lines, 1), x)
    for to, found in zip((*CONVERTED, "i1", "complex<f32>"), results, strict=True):
        dtype = {**CONVERTED, "i1": np.bool_, "complex<f32>": np.complex64}[to]
        expected = x.astype(np.float32).astype(dtype)
        assert found.dtype == expected.dtype, to
        np.testing.assert_array_equal(found.astype(np.complex64), expected.astype(np.complex64), err_msg=to)


def test_bits(run: Any) -> None:
    x = np.random.default_rng(4).integers(0, 2**32, 24, np.uint32)
    lines = [("stablehlo.bitcast_convert %a : (tensor<24xui32>) -> tensor<24xf32>", "f32"),
             ("stablehlo.bitcast_convert %a : (tensor<24xui32>) -> tensor<24x4xi8>", "4xi8")]  # fmt: skip
    floats, parts = run(program("ui32", lines, 1), x)
    np.testing.assert_array_equal(floats.view(np.uint32), x)
    np.testing.assert_array_equal(parts, x.view(np.int8).reshape(24, 4))
    joined = "func.func @main(%a: tensor<24x2xui16>) -> tensor<24xi32> {\n  %0 = stablehlo.bitcast_convert %a : " \
             "(tensor<24x2xui16>) -> tensor<24xi32>\n  return %0 : tensor<24xi32>\n}"  # fmt: skip
    np.testing.assert_array_equal(run(joined, x.view(np.uint16).reshape(24, 2))[0], x.view(np.int32))


@pytest.mark.parametrize(("exponent", "mantissa", "dtype"), [(5, 10, np.float16), (8, 7, ml_dtypes.bfloat16),
                                                             (5, 2, ml_dtypes.float8_e5m2)])  # fmt: skip
def test_reduced_precision(run: Any, exponent: int, mantissa: int, dtype: Any) -> None:
    x = np.random.default_rng(5).normal(0, 100, 24).astype(np.float32)
    x[:4] = np.inf, -0.0, np.nan, 1e38
    line = f"stablehlo.reduce_precision %a, format = e{exponent}m{mantissa} : tensor<24xf32>"
    text = program("f32", [(line, "f32")], 1)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(text, x)[0], x.astype(dtype).astype(np.float32))


def test_reduced_precision_without_a_mantissa_has_no_nan(run: Any) -> None:
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 1.5, -3, 0.3], np.float32), 24)
    text = program("f32", [("stablehlo.reduce_precision %a, format = e5m0 : tensor<24xf32>", "f32")], 1)
    assert run(text, x)[0][:6].tolist() == [np.inf, np.inf, -np.inf, 2, -2, 0.25]


def test_only_the_real_part_is_converted(run: Any) -> None:
    x = np.resize(np.array([1j, 2, 0, 3 + 1j], np.complex64), 24)
    lines = [(f"stablehlo.convert %a : (tensor<24xcomplex<f32>>) -> tensor<24x{to}>", to) for to in ("i1", "f64", "i8")]
    truths, reals, numbers = run(program("complex<f32>", lines, 1), x)
    assert truths[:4].tolist() == [False, True, False, True]
    assert reals[:4].tolist() == numbers[:4].tolist() == [0, 2, 0, 3]


def test_powers_of_integers(run: Any) -> None:
    x = np.array([0, 1, -1, 2, -3, 7, 10, 2, 1, -1, -1, 2] * 2, np.int32)
    y = np.array([0, 5, 3, 10, 3, 2, 9, 40, -2, -3, -4, -1] * 2, np.int32)
    expected = [1, 1, -1, 1024, -27, 49, 10**9, 0, 1, -1, 1, 0] * 2
    assert run(program("i32", [("stablehlo.power %a, %b : tensor<24xi32>", "i32")]), x, y)[0].tolist() == expected


def test_choices(run: Any) -> None:
    x, y = np.arange(24, dtype=np.float32), np.full(24, 7, np.float32)
    lines = [("stablehlo.compare LT, %a, %b : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xi1>", "i1"),
             ("stablehlo.select %r0, %a, %b : tensor<24xi1>, tensor<24xf32>", "f32"),
             ("stablehlo.clamp %b, %a, %b : tensor<24xf32>", "f32"),
             ("stablehlo.is_finite %a : (tensor<24xf32>) -> tensor<24xi1>", "i1"),
             ("chlo.broadcast_maximum %a, %b : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>", "f32")]  # fmt: skip
    less, chosen, clamped, finite, larger = run(program("f32", lines), x, y)
    np.testing.assert_array_equal(chosen, np.where(less, x, y))
    np.testing.assert_array_equal(clamped, y)
    np.testing.assert_array_equal(larger, np.maximum(x, y))
    assert finite.all()
