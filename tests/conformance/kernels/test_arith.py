# ruff: noqa: E501  (tables and lines of MLIR)
"""Every arith op against NumPy, on values that include the edges of each type."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, elementwise

INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
SIGNED = ("divsi", "remsi", "floordivsi", "ceildivsi")
COUNT = 203
rng = np.random.default_rng(7)


def ints(dtype: type, nonzero: bool = False) -> np.ndarray:
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, COUNT, dtype, endpoint=True)
    small = rng.integers(-9, 9, COUNT).astype(dtype)
    values = np.where(rng.random(COUNT) < 0.5, values, small)
    values[:6] = [info.min, info.max, 0, 1, -1, info.min + 1]
    if nonzero:
        values[values == 0] = 3
    return values


def floats(dtype: type) -> np.ndarray:
    values = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-3, 4, COUNT)).astype(dtype)
    values[:10] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).max, np.finfo(dtype).tiny,
                   np.finfo(dtype).smallest_subnormal]  # fmt: skip
    return values


def check(
    body: str, inputs: list[tuple[str, np.ndarray]], outputs: list[tuple[str, np.ndarray]], cpu: str = "native"
) -> None:
    """Runs a batch: all outputs must equal what NumPy says, bit for bit, NaNs alike."""
    kernel = load(elementwise(body, [t for t, _ in inputs], [t for t, _ in outputs]), constants=1,
                  bindings=len(inputs) + len(outputs), cpu=cpu)  # fmt: skip
    given = [buffer(a) for _, a in inputs]
    made = [buffer(np.zeros_like(a)) for _, a in outputs]
    assert kernel.run(*given, *made, constants=[COUNT]) == 0
    for (name, expected), got in zip(outputs, made, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=f"{body}\nresult {name}")
        if expected.dtype.kind == "f":
            finite = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(expected)[finite], err_msg=body)


def floordiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.floor_divide(a, b)


def ceildiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (-((-a.astype(object)) // b.astype(object))).astype(a.dtype)


def truncdiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide_a, wide_b = a.astype(object), b.astype(object)
    return np.array(
        [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(wide_a, wide_b, strict=True)]
    ).astype(a.dtype)


@pytest.mark.parametrize("name", INTS)
def test_integer_operations(name: str) -> None:
    dtype = INTS[name]
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.dtype(dtype.__name__.replace("int", "uint"))
    a, b = ints(dtype), ints(dtype, nonzero=True)
    overflow = (a == np.iinfo(dtype).min) & (b == -1)
    b[overflow] = 7
    ua, ub = a.view(unsigned), b.view(unsigned)
    shift = (rng.integers(0, bits, COUNT)).astype(dtype)
    with np.errstate(over="ignore"):
        rows = {
            "addi %x0, %x1": a + b, "subi %x0, %x1": a - b, "muli %x0, %x1": a * b,
            "divsi %x0, %x1": truncdiv(a, b), "divui %x0, %x1": (ua // ub).view(dtype),
            "remsi %x0, %x1": a - truncdiv(a, b) * b, "remui %x0, %x1": (ua % ub).view(dtype),
            "floordivsi %x0, %x1": floordiv(a, b), "ceildivsi %x0, %x1": ceildiv(a, b),
            "ceildivui %x0, %x1": (-(-ua.astype(object) // ub.astype(object))).astype(unsigned).view(dtype),
            "andi %x0, %x1": a & b, "ori %x0, %x1": a | b, "xori %x0, %x1": a ^ b,
            "shli %x0, %x2": a << shift, "shrsi %x0, %x2": a >> shift,
            "shrui %x0, %x2": (ua >> shift.view(unsigned)).view(dtype),
            "minsi %x0, %x1": np.minimum(a, b), "maxsi %x0, %x1": np.maximum(a, b),
            "minui %x0, %x1": np.minimum(ua, ub).view(dtype), "maxui %x0, %x1": np.maximum(ua, ub).view(dtype),
        }  # fmt: skip
    body = "\n".join(f"%y{i} = arith.{op} : {name}" for i, op in enumerate(rows))
    check(body, [(name, a), (name, b), (name, shift)], [(name, value) for value in rows.values()])


@pytest.mark.parametrize("name", INTS)
def test_wide_results(name: str) -> None:
    dtype = INTS[name]
    bits = np.dtype(dtype).itemsize * 8
    a, b = ints(dtype), ints(dtype)
    mask = (1 << bits) - 1

    def cut(values: list[int]) -> np.ndarray:
        return np.array([v & mask for v in values], dtype=object).astype(f"uint{bits}").view(dtype)

    signed = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    unsigned = [(int(x) & mask) * (int(y) & mask) for x, y in zip(a, b, strict=True)]
    total = [(int(x) & mask) + (int(y) & mask) for x, y in zip(a, b, strict=True)]
    body = f"""
      %y0, %y1 = arith.mulsi_extended %x0, %x1 : {name}
      %y2, %y3 = arith.mului_extended %x0, %x1 : {name}
      %y4, %y5 = arith.addui_extended %x0, %x1 : {name}, i1"""
    results = [(name, cut(signed)), (name, cut([v >> bits for v in signed])), (name, cut(unsigned)),
               (name, cut([v >> bits for v in unsigned])), (name, cut(total)),
               ("i1", np.array([v >> bits for v in total]).astype(np.bool_))]  # fmt: skip
    check(body, [(name, a), (name, b)], results)


@pytest.mark.parametrize("name", INTS)
def test_integer_comparisons(name: str) -> None:
    dtype = INTS[name]
    a, b = ints(dtype), ints(dtype)
    b[::3] = a[::3]
    ua, ub = (v.view(dtype.__name__.replace("int", "uint")) for v in (a, b))
    rows = {"eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
            "ult": ua < ub, "ule": ua <= ub, "ugt": ua > ub, "uge": ua >= ub}  # fmt: skip
    body = "\n".join(f"%y{i} = arith.cmpi {p}, %x0, %x1 : {name}" for i, p in enumerate(rows))
    body += f"\n%y10 = arith.select %y2, %x0, %x1 : {name}"
    check(body, [(name, a), (name, b)], [*(("i1", v) for v in rows.values()), (name, np.where(a < b, a, b))])


@pytest.mark.parametrize("cpu", ["native", "generic"])
@pytest.mark.parametrize("name", FLOATS)
def test_float_operations(name: str, cpu: str) -> None:
    dtype = FLOATS[name]
    a, b = floats(dtype), rng.permutation(floats(dtype))
    with np.errstate(all="ignore"):
        ordered = ~(np.isnan(a) | np.isnan(b))
        both_zero = (a == 0) & (b == 0)
        larger = np.where(both_zero, np.where(np.signbit(a), b, a), np.maximum(a, b))
        smaller = np.where(both_zero, np.where(np.signbit(a), a, b), np.minimum(a, b))
        arithmetic = {"addf": a + b, "subf": a - b, "mulf": a * b, "divf": a / b, "remf": np.fmod(a, b),
                      "maximumf": larger.astype(dtype), "minimumf": smaller.astype(dtype)}  # fmt: skip
        comparisons = {
            "false": np.zeros(COUNT, np.bool_), "oeq": a == b, "ogt": a > b, "oge": a >= b, "olt": a < b, "ole": a <= b,
            "one": (a != b) & ordered, "ord": ordered, "ueq": (a == b) | ~ordered, "ugt": ~(a <= b), "uge": ~(a < b),
            "ult": ~(a >= b), "ule": ~(a > b), "une": a != b, "uno": ~ordered, "true": np.ones(COUNT, np.bool_),
        }  # fmt: skip
        negated = -a
    lines = [f"%y{i} = arith.{op} %x0, %x1 : {name}" for i, op in enumerate(arithmetic)]
    count = len(lines)
    lines += [f"%y{count + i} = arith.cmpf {p}, %x0, %x1 : {name}" for i, p in enumerate(comparisons)]
    lines.append(f"%y{len(lines)} = arith.negf %x0 : {name}")
    outputs = [(name, v) for v in arithmetic.values()] + [("i1", v) for v in comparisons.values()] + [(name, negated)]
    check("\n".join(lines), [(name, a), (name, b)], outputs, cpu)


def test_extended_constant_comparisons() -> None:
    """A comparison that is known while compiling is a truth value like any other: extended with its sign, true is -1."""
    body = """
      %always = arith.cmpf true, %x0, %x0 : f32
      %never = arith.cmpf false, %x0, %x0 : f32
      %y0 = arith.extsi %always : i1 to i32
      %y1 = arith.extui %always : i1 to i32
      %y2 = arith.extsi %never : i1 to i32"""
    always = np.ones(COUNT, np.bool_)
    outputs = [("i32", -always.astype(np.int32)), ("i32", always.astype(np.int32)), ("i32", np.zeros(COUNT, np.int32))]
    check(body, [("f32", floats(np.float32))], outputs)


@pytest.mark.parametrize("name", FLOATS)
def test_number_minimum(name: str) -> None:
    dtype = FLOATS[name]
    a, b = floats(dtype), rng.permutation(floats(dtype))
    keep = ~((a == 0) & (b == 0))  # either zero will do
    a, b = np.where(keep, a, dtype(1)), np.where(keep, b, dtype(2))
    body = f"%y0 = arith.maxnumf %x0, %x1 : {name}\n%y1 = arith.minnumf %x0, %x1 : {name}"
    check(body, [(name, a), (name, b)], [(name, np.fmax(a, b)), (name, np.fmin(a, b))])


@pytest.mark.parametrize("cpu", ["native", "generic"])
def test_float_conversions(cpu: str) -> None:
    half, single, double = floats(np.float16), floats(np.float32), floats(np.float64)
    double[20:60] = (half[20:60].astype(np.float64)) * (1 + 2.0**-11) + 2.0**-40  # just past a tie in f16
    with np.errstate(all="ignore"):
        outputs = [("f32", half.astype(np.float32)), ("f64", half.astype(np.float64)), ("f16", single.astype(np.float16)),
                   ("f64", single.astype(np.float64)), ("f16", double.astype(np.float16)), ("f32", double.astype(np.float32))]  # fmt: skip
    body = """
      %y0 = arith.extf %x0 : f16 to f32
      %y1 = arith.extf %x0 : f16 to f64
      %y2 = arith.truncf %x1 : f32 to f16
      %y3 = arith.extf %x1 : f32 to f64
      %y4 = arith.truncf %x2 : f64 to f16
      %y5 = arith.truncf %x2 : f64 to f32"""
    check(body, [("f16", half), ("f32", single), ("f64", double)], outputs, cpu)


@pytest.mark.parametrize("cpu", ["native", "generic"])
def test_all_halves(cpu: str) -> None:
    """Every f16 through f32 and back, and every f32 that rounds at an edge of f16."""
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    ties = (np.arange(65535, dtype=np.uint32) << 13) + np.uint32(0x38000000 - (20 << 23))
    ties = np.concatenate([ties, ties + 0x1000, ties + 0x1001, ties + 0xFFF]).view(np.float32)
    kernel = load(elementwise("%y0 = arith.extf %x0 : f16 to f32", ["f16"], ["f32"]), constants=1, bindings=2, cpu=cpu)
    wide = buffer(np.zeros(65536, np.float32))
    kernel.run(buffer(every), wide, constants=[65536])
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    kernel = load(
        elementwise("%y0 = arith.truncf %x0 : f32 to f16", ["f32"], ["f16"]), constants=1, bindings=2, cpu=cpu
    )
    narrow = buffer(np.zeros(ties.size, np.float16))
    kernel.run(buffer(ties), narrow, constants=[ties.size])
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(narrow, ties.astype(np.float16))


def bfloat(values: np.ndarray) -> np.ndarray:
    """bf16 bits of f64 values, rounded to nearest even in one step, by exact arithmetic."""
    from fractions import Fraction

    out = np.zeros(values.size, np.uint16)
    for i, value in enumerate(values):
        bits = int(np.float32(value).view(np.uint32))
        if not np.isfinite(np.float32(value)):
            out[i] = bits >> 16
            continue
        low = bits & 0xFFFF0000
        low = low if abs(np.uint32(low).view(np.float32)) <= abs(value) else low - 0x10000
        a, b = (
            (
                Fraction(float(np.uint32(x).view(np.float32)))
                for x in (low, low + 0x10000)
                if np.isfinite(np.uint32(x).view(np.float32))
            )
            if np.isfinite(np.uint32(low + 0x10000).view(np.float32))
            else (Fraction(float(np.uint32(low).view(np.float32))), None)
        )
        if b is None:
            continue
        down, up = abs(Fraction(float(value)) - a), abs(Fraction(float(value)) - b)
        out[i] = (low >> 16) if down < up or (down == up and not (low >> 16) & 1) else (low >> 16) + 1
    return out


def test_bfloat() -> None:
    single = floats(np.float32)
    single = np.where(np.isfinite(single) & (np.abs(single) < 1e38), single, np.float32(3.0))
    double = single.astype(np.float64) * (1 + 2.0**-30)
    ties = (rng.integers(0x3F00, 0x4200, COUNT).astype(np.uint32) << 16 | 0x8000).view(np.float32)
    double[::2] = ties[::2].astype(np.float64) * (1 + rng.integers(-1, 2, ties[::2].size) * 2.0**-40)
    single[1::2] = ties[1::2]
    wide = (bfloat(single.astype(np.float64)).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        total = bfloat((wide + np.float32(1.5)).astype(np.float64))
    body = """
      %y0 = arith.truncf %x0 : f32 to bf16
      %y1 = arith.truncf %x1 : f64 to bf16
      %y2 = arith.extf %y0 : bf16 to f32
      %c = arith.constant 1.5 : bf16
      %y3 = arith.addf %y0, %c : bf16
      %y4 = arith.cmpf olt, %y0, %c : bf16"""
    outputs = [
        ("bf16", bfloat(single.astype(np.float64))),
        ("bf16", bfloat(double)),
        ("f32", wide),
        ("bf16", total),
        ("i1", wide < 1.5),
    ]
    check(body, [("f32", single), ("f64", double)], outputs)


def test_integer_conversions() -> None:
    a8, a16, a32, a64 = (ints(t) for t in (np.int8, np.int16, np.int32, np.int64))
    small = (rng.standard_normal(COUNT) * 1e4).astype(np.float32)
    body = """
      %y0 = arith.extsi %x0 : i8 to i64
      %y1 = arith.extui %x0 : i8 to i32
      %y2 = arith.trunci %x3 : i64 to i16
      %y3 = arith.sitofp %x2 : i32 to f32
      %y4 = arith.uitofp %x2 : i32 to f64
      %y5 = arith.sitofp %x3 : i64 to f64
      %y6 = arith.fptosi %x4 : f32 to i32
      %abs = math.absf %x4 : f32
      %y7 = arith.fptoui %abs : f32 to i16
      %index = arith.index_cast %x2 : i32 to index
      %y8 = arith.index_cast %index : index to i64
      %unsigned = arith.index_castui %x1 : i16 to index
      %y9 = arith.index_cast %unsigned : index to i64
      %y10 = arith.bitcast %x2 : i32 to f32
      %y11 = arith.bitcast %x4 : f32 to i32
      %y12 = arith.trunci %x2 : i32 to i1
      %y13 = arith.extui %y12 : i1 to i8
      %y14 = arith.sitofp %x1 : i16 to f16
      %y15 = arith.uitofp %y12 : i1 to f32"""
    outputs = [
        ("i64", a8.astype(np.int64)), ("i32", a8.view(np.uint8).astype(np.int32)), ("i16", a64.astype(np.int16)),
        ("f32", a32.astype(np.float32)), ("f64", a32.view(np.uint32).astype(np.float64)), ("f64", a64.astype(np.float64)),
        ("i32", small.astype(np.int32)), ("i16", np.abs(small).astype(np.uint16).view(np.int16)), ("i64", a32.astype(np.int64)),
        ("i64", a16.view(np.uint16).astype(np.int64)), ("f32", a32.view(np.float32)), ("i32", small.view(np.int32)),
        ("i1", (a32 & 1).astype(np.bool_)), ("i8", (a32 & 1).astype(np.int8)), ("f16", a16.astype(np.float16)),
        ("f32", (a32 & 1).astype(np.float32)),
    ]  # fmt: skip
    check(body, [("i8", a8), ("i16", a16), ("i32", a32), ("i64", a64), ("f32", small)], outputs)


def test_constants() -> None:
    """Special values survive the way through text."""
    values = {"f32": ["0x7F800000", "0xFF800000", "0x7FC00000", "1.0e-45", "3.40282347E+38", "-0.0", "0.1"],
              "f64": ["0x7FF0000000000000", "5.0e-324", "-0.0", "0.1"], "f16": ["0x7C00", "6.0e-8", "-0.0", "0.1"],
              "i8": ["-128", "127"], "i64": ["-9223372036854775808", "9223372036854775807"]}  # fmt: skip
    lines, outputs = [], []
    for type_, texts in values.items():
        dtype = {**INTS, **FLOATS}[type_]
        for text in texts:
            lines.append(f"%y{len(lines)} = arith.constant {text} : {type_}")
            bits = f"uint{np.dtype(dtype).itemsize * 8}"
            value = np.array(int(text, 16), bits).view(dtype) if text.startswith("0x") else dtype(text)
            outputs.append((type_, np.full(COUNT, value, dtype)))
    check("\n".join(lines), [], outputs)
