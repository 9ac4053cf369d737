# ruff: noqa: E501  (tables and lines of MLIR)
"""Every math op against NumPy in a wider type. The accuracy of the device library itself is tested with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, elementwise

COUNT = 301
rng = np.random.default_rng(11)
erf = np.vectorize(math.erf)
UNARY = {
    "acos": (np.arccos, -1, 1), "acosh": (np.arccosh, 1, 50), "asin": (np.arcsin, -1, 1), "asinh": (np.arcsinh, -50, 50),
    "atan": (np.arctan, -50, 50), "atanh": (np.arctanh, -0.99, 0.99), "cbrt": (np.cbrt, -90, 90), "ceil": (np.ceil, -9, 9),
    "cos": (np.cos, -50, 50), "cosh": (np.cosh, -9, 9), "erf": (erf, -3, 3), "exp": (np.exp, -9, 9),
    "exp2": (np.exp2, -9, 9), "expm1": (np.expm1, -2, 2), "floor": (np.floor, -9, 9), "log": (np.log, 0.001, 90),
    "log10": (np.log10, 0.001, 90), "log1p": (np.log1p, -0.9, 9), "log2": (np.log2, 0.001, 90),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -9, 9), "roundeven": (np.rint, -9, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 90), "sin": (np.sin, -50, 50), "sinh": (np.sinh, -9, 9),
    "sqrt": (np.sqrt, 0, 90), "tan": (np.tan, -1.5, 1.5), "tanh": (np.tanh, -4, 4), "trunc": (np.trunc, -9, 9),
    "absf": (np.abs, -9, 9),
}  # fmt: skip
EXACT = {"ceil", "floor", "round", "roundeven", "trunc", "absf"}
TYPES = {"f16": (np.float16, 2.0**-10), "f32": (np.float32, 2.0**-22), "f64": (np.float64, 2.0**-50)}


@pytest.mark.parametrize("cpu", ["native", "generic"])
@pytest.mark.parametrize("name", TYPES)
def test_unary(name: str, cpu: str) -> None:
    dtype, tolerance = TYPES[name]
    inputs, body = [], []
    for i, (op, (_, low, high)) in enumerate(UNARY.items()):
        values = rng.uniform(low, high, COUNT).astype(dtype)
        values[:8] = np.clip(np.round(values[:8] * 2) / 2, low, high)  # ties
        inputs.append(buffer(values))
        body.append(f"%y{i} = math.{op} %x{i} : {name}")
    source = elementwise("\n".join(body), [name] * len(inputs), [name] * len(inputs))
    outputs = [buffer(np.zeros(COUNT, dtype)) for _ in inputs]
    kernel = load(source, constants=1, bindings=2 * len(inputs), cpu=cpu)
    assert kernel.run(*inputs, *outputs, constants=[COUNT]) == 0
    for (op, (function, _, _)), x, y in zip(UNARY.items(), inputs, outputs, strict=True):
        expected = function(x.astype(np.float64))
        if op in EXACT:
            np.testing.assert_array_equal(y, expected.astype(dtype), err_msg=op)
        else:
            np.testing.assert_allclose(y.astype(np.float64), expected, tolerance, tolerance * 2.0**-4, err_msg=op)


def test_special_values() -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3.0, -3.0], np.float32)
    body = """
      %y0 = math.isnan %x0 : f32
      %y1 = math.isinf %x0 : f32
      %y2 = math.isfinite %x0 : f32
      %y3 = math.isnormal %x0 : f32
      %y4 = math.exp %x0 : f32
      %c = arith.constant -2.0 : f32
      %y5 = math.copysign %c, %x0 : f32"""
    kernel = load(elementwise(body, ["f32"], ["i1", "i1", "i1", "i1", "f32", "f32"]), constants=1, bindings=7)
    made = [buffer(np.zeros(8, t)) for t in (np.bool_,) * 4 + (np.float32,) * 2]
    kernel.run(buffer(values), *made, constants=[8])
    with np.errstate(all="ignore"):
        expected = [np.isnan(values), np.isinf(values), np.isfinite(values),
                    np.isfinite(values) & (np.abs(values) >= np.finfo(np.float32).tiny), np.exp(values), np.copysign(np.float32(2), values)]  # fmt: skip
    for got, want in zip(made, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_several_operands(name: str) -> None:
    dtype, tolerance = TYPES[name]
    a, b, c = (rng.uniform(0.1, 5, COUNT).astype(dtype) for _ in range(3))
    power = rng.integers(-5, 6, COUNT).astype(np.int32)
    body = f"""
      %y0 = math.powf %x0, %x1 : {name}
      %y1 = math.atan2 %x0, %x1 : {name}
      %y2 = math.fma %x0, %x1, %x2 : {name}
      %y3 = math.fpowi %x0, %x3 : {name}, i32
      %three = arith.constant -3 : i32
      %y4 = math.fpowi %x0, %three : {name}, i32"""
    kernel = load(elementwise(body, [name] * 3 + ["i32"], [name] * 5), constants=1, bindings=9)
    made = [buffer(np.zeros(COUNT, dtype)) for _ in range(5)]
    kernel.run(*(buffer(v) for v in (a, b, c, power)), *made, constants=[COUNT])
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    for got, want in zip(
        made, [x**y, np.arctan2(x, y), x * y + z, x ** power.astype(np.float64), x**-3.0], strict=True
    ):
        np.testing.assert_allclose(got, want, 8 * tolerance)


@pytest.mark.parametrize("cpu", ["native", "generic"])
def test_fma_rounds_once(cpu: str) -> None:
    a = np.full(16, 1 + 2.0**-12, np.float32)
    kernel = load(elementwise("%c = arith.constant -1.0 : f32\n%y0 = math.fma %x0, %x0, %c : f32", ["f32"], ["f32"]),
                  constants=1, bindings=2, cpu=cpu)  # fmt: skip
    out = buffer(np.zeros(16, np.float32))
    kernel.run(buffer(a), out, constants=[16])
    np.testing.assert_array_equal(out, np.float32(2.0**-11 + 2.0**-24))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits: int) -> None:
    dtype = np.dtype(f"int{bits}")
    info = np.iinfo(dtype)
    a = rng.integers(info.min + 1, info.max, COUNT, dtype, endpoint=True)
    a[:4] = [0, 1, -1, info.max]
    base, power = rng.integers(-3, 4, COUNT).astype(dtype), rng.integers(-2, 9, COUNT).astype(dtype)
    base[(base == 0) & (power < 0)] = 1
    mask = (1 << bits) - 1
    texts = [format(int(v) & mask, f"0{bits}b") for v in a]
    expected = [
        np.abs(a), np.array([len(t) - len(t.lstrip("0")) for t in texts], dtype),
        np.array([len(t) - len(t.rstrip("0")) for t in texts], dtype), np.array([t.count("1") for t in texts], dtype),
        np.array([_ipow(int(x), int(p), bits) for x, p in zip(base, power, strict=True)], dtype),
        np.array([_ipow(int(x), 5, bits) for x in base], dtype),
    ]  # fmt: skip
    t = f"i{bits}"
    body = f"""
      %y0 = math.absi %x0 : {t}
      %y1 = math.ctlz %x0 : {t}
      %y2 = math.cttz %x0 : {t}
      %y3 = math.ctpop %x0 : {t}
      %y4 = math.ipowi %x1, %x2 : {t}
      %five = arith.constant 5 : {t}
      %y5 = math.ipowi %x1, %five : {t}"""
    kernel = load(elementwise(body, [t] * 3, [t] * 6), constants=1, bindings=9)
    made = [buffer(np.zeros(COUNT, dtype)) for _ in range(6)]
    kernel.run(buffer(a), buffer(base), buffer(power), *made, constants=[COUNT])
    for got, want in zip(made, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def _ipow(base: int, power: int, bits: int) -> int:
    if power < 0:
        return base ** (-power % 2) if abs(base) == 1 else 0
    value = base**power & ((1 << bits) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def test_sincos_and_clamp() -> None:
    x = rng.uniform(-9, 9, COUNT).astype(np.float32)
    x[0] = np.nan
    body = """
      %y0, %y1 = math.sincos %x0 : f32
      %low = arith.constant -1.5 : f32
      %high = arith.constant 2.5 : f32
      %y2 = math.clampf %x0 to [%low, %high] : f32"""
    kernel = load(elementwise(body, ["f32"], ["f32"] * 3), constants=1, bindings=4)
    made = [buffer(np.zeros(COUNT, np.float32)) for _ in range(3)]
    kernel.run(buffer(x), *made, constants=[COUNT])
    for got, want in zip(made, [np.sin(x), np.cos(x), np.clip(x, -1.5, 2.5)], strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-6)
