"""Functions of each element against NumPy, written from the specification's formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tosa_programs import Array, Const, Runner

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (2, 1, 5), (7,), ()]


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


UNARY = {
    "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "erf": np.vectorize(math.erf, otypes=[float]), "exp": np.exp,
    "floor": np.floor, "log": lambda x: np.log(np.abs(x)), "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin,
    "tanh": np.tanh, "identity": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float(tosa: Runner, name: str) -> None:
    for shape in SHAPES:
        x = np.asarray(floats(*shape))
        if name in ("log", "rsqrt"):
            x = np.asarray(np.abs(x) + np.float32(0.1))
        tosa.check(name, [x], UNARY[name](x.astype(float)).astype(np.float32), dynamic=len(shape) == 2, rtol=2e-6,
                   atol=1e-7)  # fmt: skip
    half = np.abs(floats(6)).astype(np.float16) + np.float16(0.5)
    tosa.check(name, [half], UNARY[name](half.astype(float)).astype(np.float16), rtol=2e-3)


def test_functions_of_one_integer(tosa: Runner) -> None:
    for dtype in (np.int8, np.int16, np.int32):
        x = integers(dtype, 3, 5)
        tosa.check("bitwise_not", [x], ~x)
        tosa.check("identity", [x], x)
    x = np.array([0, 1, -1, 5, 2**20, -(2**31)], np.int32)
    tosa.check("clz", [x], np.array([32, 31, 0, 29, 11, 0], np.int32))
    tosa.check("abs", [x[:-1]], np.abs(x[:-1]))
    p = np.array([True, False])
    tosa.check("logical_not", [p], ~p)


BINARY = {"add": np.add, "sub": np.subtract, "maximum": np.maximum, "minimum": np.minimum}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
COMPARISONS = {"equal": np.equal, "greater": np.greater, "greater_equal": np.greater_equal}


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_functions_of_two_numbers(tosa: Runner, name: str) -> None:
    function = {**BINARY, **COMPARISONS}[name]
    pairs = [(floats(3, 4), floats(1, 4)), (integers(np.int32, 2, 3, 1), integers(np.int32, 2, 1, 4))]
    for x, y in pairs:
        y = np.where(RNG.random(y.shape) < 0.2, x.reshape(-1)[0], y).astype(y.dtype)
        tosa.check(name, [x, y], np.asarray(function(x, y)))
    x, y = floats(3, 4), floats(3, 4)
    tosa.check(name, [x, y], function(x, y), dynamic=True)


@pytest.mark.parametrize("name", [*BITS, *LOGIC])
def test_functions_of_bits(tosa: Runner, name: str) -> None:
    if name in LOGIC:
        x, y = RNG.random((4, 5)) < 0.5, RNG.random((4, 1)) < 0.5
        tosa.check(name, [x, y], LOGIC[name](x, y))
        return
    for dtype in (np.int8, np.int16, np.int32):
        x, y = integers(dtype, 4, 5), integers(dtype, 1, 5)
        tosa.check(name, [x, y], BITS[name](x, y))


def test_nan_is_kept_or_ignored(tosa: Runner) -> None:
    x = np.array([np.nan, 1, np.nan, 3], np.float32)
    y = np.array([2, np.nan, np.nan, 1], np.float32)
    for name, keep, drop in (("maximum", np.maximum, np.fmax), ("minimum", np.minimum, np.fmin)):
        tosa.check(name, [x, y], keep(x, y))
        tosa.check(name, [x, y], keep(x, y), "nan_mode = PROPAGATE")
        tosa.check(name, [x, y], drop(x, y), "nan_mode = IGNORE")
    tosa.check("clamp", [x], np.array([np.nan, 1, np.nan, 2], np.float32), "min_val = 0.0 : f32, max_val = 2.0 : f32")
    tosa.check("clamp", [x], np.array([0, 1, 0, 2], np.float32),
               "min_val = 0.0 : f32, max_val = 2.0 : f32, nan_mode = IGNORE")  # fmt: skip


def test_shifts(tosa: Runner) -> None:
    for dtype in (np.int8, np.int16, np.int32):
        bits = np.iinfo(dtype).bits
        x, n = integers(dtype, 40), RNG.integers(0, bits, 40).astype(dtype)
        tosa.check("logical_left_shift", [x, n], x << n)
        unsigned = x.view(f"u{bits // 8}") >> n.view(f"u{bits // 8}")
        tosa.check("logical_right_shift", [x, n], unsigned.view(dtype))
        tosa.check("arithmetic_right_shift", [x, n], x >> n, "round = false")
        wide = x.astype(np.int64)
        last = np.where(n > 0, (wide >> np.maximum(n.astype(np.int64) - 1, 0)) & 1, 0)
        tosa.check("arithmetic_right_shift", [x, n], ((wide >> n) + last).astype(dtype), "round = true")


def test_products(tosa: Runner) -> None:
    x, y = floats(3, 4), floats(3, 1)
    zero = Const(np.zeros(1, np.int8))
    tosa.check("mul", [x, y, zero], x * y)
    tosa.check("mul", [x, y], x * y, "shift = 0 : i8")
    for dtype in (np.int8, np.int16):
        a, c = integers(dtype, 6, 5), integers(dtype, 6, 1)
        tosa.check("mul", [a, c, zero], a.astype(np.int32) * c)
    a, c = integers(np.int32, 50), integers(np.int32, 50)
    for shift in (31, 32, 40, 62):
        product = (a.astype(object) * c.astype(object) + (1 << (shift - 1))) >> shift
        tosa.check("mul", [a, c, Const(np.array([shift], np.int8))], product.astype(np.int32))
    tosa.check("mul", [a, c, np.array([33], np.int8)], ((a.astype(object) * c + (1 << 32)) >> 33).astype(np.int32))


def test_quotients(tosa: Runner) -> None:
    a, c = integers(np.int32, 100), RNG.integers(-9, 9, 100).astype(np.int32)
    c[c == 0] = 3
    wanted = np.abs(a.astype(np.int64)) // np.abs(c) * np.sign(a) * np.sign(c)
    tosa.check("intdiv", [a, c], wanted.astype(np.int32))
    tosa.check("div", [a, c], wanted.astype(np.int32))
    (undefined,) = tosa("intdiv", [np.array([5, -(2**31)], np.int32), np.array([0, -1], np.int32)], ["tensor<2xi32>"])
    assert undefined.shape == (2,)  # It has no meaning, but ends no process.
    x, y = np.abs(floats(20)), floats(20)
    tosa.check("pow", [x, y], (x.astype(float) ** y).astype(np.float32), rtol=5e-6)


def test_negation(tosa: Runner) -> None:
    x = floats(4)
    zero = Const(np.zeros(1, np.float32))
    tosa.check("negate", [x, zero, zero], -x)
    for dtype, zeros in ((np.int8, (3, -5)), (np.int16, (0, 0)), (np.int32, (0, 0))):
        a = integers(dtype, 60)
        info = np.iinfo(dtype)
        wanted = np.clip(zeros[0] - a.astype(np.int64) + zeros[1], info.min, info.max).astype(dtype)
        tosa.check("negate", [a, *(Const(np.array([z], dtype)) for z in zeros)], wanted)
    a = integers(np.int8, 60)
    tosa.check("negate", [a], np.clip(7 - a.astype(int) - 2, -128, 127).astype(np.int8),
               "quantization_info = #tosa.unary_quant<input_zp = 7, output_zp = -2>")  # fmt: skip


def test_choices_and_limits(tosa: Runner) -> None:
    p, x, y = RNG.random((3, 1)) < 0.5, floats(3, 4), floats(1, 4)
    tosa.check("select", [p, x, y], np.where(p, x, y))
    tosa.check("clamp", [x], np.clip(x, -0.5, 0.25), "min_val = -0.5 : f32, max_val = 0.25 : f32")
    tosa.check("clamp", [x], np.clip(x, 0, 6),
               "min_fp = 0.0 : f32, max_fp = 6.0 : f32, min_int = 0 : i64, max_int = 6 : i64")  # fmt: skip
    for dtype in (np.int8, np.int16):
        a = integers(dtype, 30)
        bits = np.iinfo(dtype).bits
        tosa.check("clamp", [a], np.clip(a, -20, 100), f"min_val = -20 : i{bits}, max_val = 100 : i{bits}")
    u = integers(np.uint8, 30)
    tosa.check("clamp", [u], np.clip(u, 3, 200), "min_val = 3 : ui8, max_val = 200 : ui8")


def test_casts(tosa: Runner) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -130.7, 127.6, 40000.0, -1e20, 1e20, np.inf, -np.inf, np.nan], np.float32)
    for dtype in (np.int8, np.int16, np.int32):
        info = np.iinfo(dtype)
        whole = np.clip(np.nan_to_num(np.rint(x.astype(float)), posinf=1e30, neginf=-1e30), info.min, info.max)
        tosa.check("cast", [x], whole.astype(dtype))
    for source in (np.int8, np.int16, np.int32):
        a = integers(source, 40)
        for target in (np.int8, np.int16, np.int32, np.float32, np.bool_):
            tosa.check("cast", [a], a.astype(target))
    p = np.array([True, False])
    tosa.check("cast", [p], p.astype(np.int8))
    tosa.check("cast", [x[:6]], x[:6].astype(np.float16))


def test_tables(tosa: Runner) -> None:
    table, x = integers(np.int8, 256), np.arange(-128, 128, dtype=np.int8)
    tosa.check("table", [x, Const(table)], table[x.astype(int) + 128])
    table = (np.arange(513) * 40 - 10000).astype(np.int16)
    table[::3] -= 700
    x = integers(np.int16, 9, 30)
    clipped = x.astype(int)
    place, fraction = (clipped + 32768) >> 7, clipped & 127
    base = table[place].astype(int)
    wanted = base * 128 + (table[place + 1] - base) * fraction
    tosa.check("table", [x, table], wanted.astype(np.int32))
