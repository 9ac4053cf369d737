# ruff: noqa: E501  (lines of MLIR)
"""Floats of 8 bits and less and packed elements: every code, every rounding edge, against ml_dtypes' and exact values."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, elementwise, parallel

from pydispatch.formats.arrays.small_floats import FORMATS, encode, values, width

NAMES = [*FORMATS, "f8E8M0FNU"]
rng = np.random.default_rng(3)


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes as memory holds them: 2 and 4 bits packed, low bits first; all else a byte each."""
    if bits not in (2, 4):
        return codes.astype(np.uint8)
    per = 8 // bits
    padded = np.zeros(-(-codes.size // per) * per, np.uint8)
    padded[: codes.size] = codes & ((1 << bits) - 1)
    return np.bitwise_or.reduce(padded.reshape(-1, per) << (np.arange(per, dtype=np.uint8) * bits), axis=1).astype(
        np.uint8
    )


def unpack(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    if bits not in (2, 4):
        return data[:count]
    per = 8 // bits
    return ((data[:, None] >> (np.arange(per, dtype=np.uint8) * bits)) & ((1 << bits) - 1)).reshape(-1)[:count]


def run(
    body: str, inputs: list[tuple[str, np.ndarray]], outputs: list[tuple[str, type]], cpu: str = "native"
) -> list[np.ndarray]:
    """Runs `body` over arrays (codes for small types, given by name) and returns the results, small ones as codes."""
    count = inputs[0][1].size
    kernel = load(elementwise(body, [t for t, _ in inputs], [t for t, _ in outputs]), constants=1,
                  bindings=len(inputs) + len(outputs), cpu=cpu)  # fmt: skip
    given = [buffer(pack(a, bits_of(t)) if bits_of(t) < 8 else a) for t, a in inputs]
    made = [
        buffer(pack(np.zeros(count, np.uint8), bits_of(t)) if bits_of(t) < 8 else np.zeros(count, d))
        for t, d in outputs
    ]
    assert kernel.run(*given, *made, constants=[count]) == 0
    return [unpack(m, bits_of(t), count) if bits_of(t) < 8 else m for (t, _), m in zip(outputs, made, strict=True)]


def bits_of(name: str) -> int:
    if name in NAMES:
        return width(name)
    return {"i2": 2, "i3": 3, "i4": 4, "i5": 5}.get(name, 64)


def edges(name: str) -> np.ndarray:
    """Every number of a format, the middles between neighbours, their neighbours in f32, and what is far out."""
    every = values(name)
    numbers = np.unique(np.abs(every[np.isfinite(every)]))
    top = 2 * numbers[-1] - numbers[-2] if name in FORMATS else numbers[-1] * 1.99
    middles = (numbers[1:] + numbers[:-1]) / 2
    with np.errstate(all="ignore"):
        chosen = np.concatenate([numbers, middles, [top, (top + numbers[-1]) / 2, 1e9, 3e38, 1e-30, 1e-44]]).astype(
            np.float32
        )
    random = (rng.standard_normal(500) * 2.0 ** rng.integers(-20, 20, 500)).astype(np.float32)
    special = np.array([0.0, np.inf, np.nan], np.float32)
    chosen = np.concatenate(
        [chosen, np.nextafter(chosen, np.float32(np.inf)), np.nextafter(chosen, np.float32(0)), random, special]
    )
    return np.concatenate([chosen, -chosen])


def by_ml_dtypes(x: np.ndarray, name: str) -> np.ndarray:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with np.errstate(all="ignore"):
        return x.astype(getattr(ml_dtypes, f"float{name[1]}_{name[2:].lower()}")).view(np.uint8)


def same(got: np.ndarray, wanted: np.ndarray, name: str, err_msg: str = "") -> None:
    """Equal codes; any NaN is as good as another."""
    a, b = values(name)[got], values(name)[wanted]
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=err_msg)
    np.testing.assert_array_equal(got[~np.isnan(a)], wanted[~np.isnan(b)], err_msg=err_msg)


@pytest.mark.parametrize("name", FORMATS)
def test_table_agrees_with_ml_dtypes(name: str) -> None:
    x = edges(name)
    x = x[~np.isnan(x)] if FORMATS[name][3] == "finite" else x  # a NaN becomes a zero, whose sign is anyone's choice
    same(encode(x, name), by_ml_dtypes(x, name), name)
    codes = np.arange(1 << width(name), dtype=np.uint8)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    theirs = codes.view(getattr(ml_dtypes, f"float{name[1]}_{name[2:].lower()}")).astype(np.float64)
    np.testing.assert_array_equal(values(name), theirs)


@pytest.mark.parametrize("cpu", ["native", "generic"])
@pytest.mark.parametrize("name", NAMES)
def test_conversions(name: str, cpu: str) -> None:
    codes = np.arange(1 << width(name), dtype=np.uint8)
    body = "\n".join(f"%y{i} = arith.extf %x0 : {name} to {t}" for i, t in enumerate(["f32", "f64"]))
    single, double = run(body, [(name, codes)], [("f32", np.float32), ("f64", np.float64)], cpu)
    np.testing.assert_array_equal(single, values(name).astype(np.float32))
    np.testing.assert_array_equal(double, values(name))
    x = edges(name)
    (narrow,) = run(f"%y0 = arith.truncf %x0 : f32 to {name}", [("f32", x)], [(name, np.uint8)], cpu)
    same(narrow, encode(x, name), name)
    wide = np.concatenate([x.astype(np.float64), np.nextafter(x.astype(np.float64), 1e300), [1e300, 5e-324, -1e-300]])
    (narrow,) = run(f"%y0 = arith.truncf %x0 : f64 to {name}", [("f64", wide)], [(name, np.uint8)], cpu)
    same(narrow, encode(wide, name), name)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    (narrow,) = run(f"%y0 = arith.truncf %x0 : f16 to {name}", [("f16", half)], [(name, np.uint8)], cpu)
    same(narrow, encode(half, name), name)


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic(name: str) -> None:
    """All pairs: promoted, computed in f32, rounded."""
    count = 1 << width(name)
    a, b = (v.reshape(-1).astype(np.uint8) for v in np.meshgrid(np.arange(count), np.arange(count)))
    x, y = values(name)[a].astype(np.float32), values(name)[b].astype(np.float32)
    body = "\n".join(
        f"%y{i} = arith.{op} %x0, %x1 : {name}"
        for i, op in enumerate(["addf", "subf", "mulf", "divf", "maximumf", "minnumf"])
    )
    body += f"\n%y6 = arith.negf %x0 : {name}\n%y7 = math.absf %x0 : {name}\n%y8 = arith.cmpf olt, %x0, %x1 : {name}\n%y9 = math.sqrt %x0 : {name}"
    body += f"\n%y10 = arith.select %y8, %x0, %x1 : {name}\n%y11 = arith.fptosi %x0 : {name} to i32\n%y12 = math.isnan %x0 : {name}"
    small = [(name, np.uint8)]
    got = run(
        body, [(name, a), (name, b)], small * 8 + [("i1", np.bool_)] + small * 2 + [("i32", np.int32), ("i1", np.bool_)]
    )
    with np.errstate(all="ignore"):
        wanted = [x + y, x - y, x * y, x / y, np.maximum(x, y), np.fmin(x, y), -x, np.abs(x)]
    for number, (g, w) in enumerate(zip(got[:8], wanted, strict=True)):
        if number in (4, 5):  # of two zeros either
            keep = ~((x == 0) & (y == 0))
            g, w = g[keep], w[keep]
        same(g, encode(w, name), name, f"result {number}")
    np.testing.assert_array_equal(got[8], x < y)
    with np.errstate(all="ignore"):
        same(got[9], encode(np.sqrt(x), name), name)
    same(got[10], np.where(x < y, a, b), name)
    limit = np.iinfo(np.int32)
    np.testing.assert_array_equal(
        got[11],
        np.clip(np.nan_to_num(x.astype(np.float64), posinf=1e300, neginf=-1e300), limit.min, limit.max).astype(
            np.int32
        ),
    )
    np.testing.assert_array_equal(got[12], np.isnan(x))


@pytest.mark.parametrize("name", FORMATS)
def test_constants_and_integers(name: str) -> None:
    texts = ["1.0", "-1.5", "0.3", "3.0", "1.0e-9"]
    lines = [f"%y{i} = arith.constant {t} : {name}" for i, t in enumerate(texts)]
    lines += [
        f"%y5 = arith.sitofp %x0 : i32 to {name}",
        f"%y6 = arith.uitofp %x1 : i8 to {name}",
        f"%y7 = arith.bitcast %y5 : {name} to i{width(name)}",
    ]
    n = rng.integers(-600, 600, 100).astype(np.int32)
    n[0], n[1] = 2**31 - 1, -(2**31)
    u = rng.integers(-128, 128, 100).astype(np.int8)
    got = run(
        "\n".join(lines),
        [("i32", n), ("i8", u)],
        [(name, np.uint8)] * 7 + [(f"i{width(name)}" if width(name) != 6 else "i6", np.uint8)],
    )
    for text, g in zip(texts, got[:5], strict=True):
        assert set(g.tolist()) == {int(encode(np.array([float(text)]), name)[0])}, text
    same(got[5], encode(n, name), name)
    same(got[6], encode(u.view(np.uint8), name), name)
    np.testing.assert_array_equal(got[7], got[5])


@pytest.mark.parametrize(
    ("source", "target"), [("f8E4M3FN", "f32"), ("f4E2M1FN", "f32"), ("f8E5M2", "f16"), ("f4E2M1FN", "f64")]
)
def test_scaling(source: str, target: str) -> None:
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[target]
    codes, scales = (v.reshape(-1).astype(np.uint8) for v in np.meshgrid(np.arange(1 << width(source)), np.arange(256)))
    (wide,) = run(
        f"%y0 = arith.scaling_extf %x0, %x1 : {source}, f8E8M0FNU to {target}",
        [(source, codes), ("f8E8M0FNU", scales)],
        [(target, dtype)],
    )
    with np.errstate(all="ignore"):
        product = values(source)[codes] * values("f8E8M0FNU")[scales]
        np.testing.assert_array_equal(wide, product.astype(dtype))
        x = (rng.standard_normal(codes.size) * values("f8E8M0FNU")[np.minimum(scales, 254)]).astype(dtype)
        (narrow,) = run(
            f"%y0 = arith.scaling_truncf %x0, %x1 : {target}, f8E8M0FNU to {source}",
            [(target, x), ("f8E8M0FNU", scales)],
            [(source, np.uint8)],
        )
        same(narrow, encode(x.astype(np.float64) / values("f8E8M0FNU")[scales], source), source)


@pytest.mark.parametrize("bits", [2, 3, 4, 5])
def test_narrow_integers(bits: int) -> None:
    t, count = f"i{bits}", 1 << bits
    a, b = (v.reshape(-1).astype(np.uint8) for v in np.meshgrid(np.arange(count), np.arange(count)))
    mask, half = count - 1, count // 2
    x, y = (v.astype(int) - np.where(v >= half, count, 0) for v in (a, b))
    body = f"""
      %y0 = arith.addi %x0, %x1 : {t}
      %y1 = arith.muli %x0, %x1 : {t}
      %y2 = arith.extsi %x0 : {t} to i32
      %y3 = arith.extui %x0 : {t} to i32
      %y4 = arith.cmpi slt, %x0, %x1 : {t}
      %y5 = arith.shrsi %x0, %x1 : {t}
      %y6 = arith.divsi %x0, %x1 : {t}
      %y7 = arith.sitofp %x0 : {t} to f32
      %y8 = arith.fptosi %y7 : f32 to {t}"""
    got = run(
        body,
        [(t, a), (t, b)],
        [(t, np.uint8)] * 2
        + [("i32", np.int32)] * 2
        + [("i1", np.bool_)]
        + [(t, np.uint8)] * 2
        + [("f32", np.float32), (t, np.uint8)],
    )
    divided = np.array([0 if v == 0 else int(u / v) for u, v in zip(x, y, strict=True)])
    wanted = [(x + y) & mask, (x * y) & mask, x, a, x < y, (x >> np.minimum(b, bits - 1)) & mask, divided & mask, x, a]
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize(("t", "bits"), [("i4", 4), ("i2", 2), ("f4E2M1FN", 4)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 8), (16, 33)])
def test_packed_rows_have_no_gaps(t: str, bits: int, shape: tuple[int, int]) -> None:
    """A transposed copy of a view: odd rows begin inside a byte, and what is not written stays."""
    rows, columns = shape
    loop = parallel([("%c0", f"%c{rows}", "%c1"), ("%c0", f"%c{columns}", "%c1")], ["%i", "%j"],
                    f"%x = memref.load %a[%i, %j] : memref<{rows}x{columns}x{t}>\nmemref.store %x, %view[%j, %i] : memref<{columns}x{rows}x{t}, strided<[{rows}, 1], offset: 1>>")  # fmt: skip
    total = rows * columns
    numbers = "\n".join(f"%c{n} = arith.constant {n} : index" for n in sorted({0, 1, rows, columns}))
    source = f"""func.func @kernel() {{
      {numbers}
      %a = hal.interface.binding.subspan binding(0) : memref<{rows}x{columns}x{t}>
      %b = hal.interface.binding.subspan binding(1) : memref<{total + 2}x{t}>
      %view = memref.reinterpret_cast %b to offset: [1], sizes: [{columns}, {rows}], strides: [{rows}, 1] : memref<{total + 2}x{t}> to memref<{columns}x{rows}x{t}, strided<[{rows}, 1], offset: 1>>
      {loop}
      func.return
    }}"""
    codes = rng.integers(0, 1 << bits, shape).astype(np.uint8)
    kernel = load(source, bindings=2)
    before = rng.integers(0, 1 << bits, total + 2).astype(np.uint8)
    out = buffer(pack(before, bits))
    assert kernel.run(buffer(pack(codes.reshape(-1), bits)), out) == 0
    got = unpack(out, bits, total + 2)
    np.testing.assert_array_equal(got, np.concatenate([before[:1], codes.T.reshape(-1), before[-1:]]))


def test_packed_storage() -> None:
    """Globals and stack memory."""
    source = """
    "memref.global"() <{sym_name = "table", sym_visibility = "private", type = memref<5xi4>, constant, initial_value = dense<[1, -2, 3, -4, 5]> : tensor<5xi4>}> : () -> ()
    "memref.global"() <{sym_name = "floats", sym_visibility = "private", type = memref<3xf4E2M1FN>, constant, initial_value = dense<[0.5, -6.0, 1.5]> : tensor<3xf4E2M1FN>}> : () -> ()
    func.func @kernel() {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c5 = arith.constant 5 : index
      %c2 = arith.constant 2 : index
      %t = memref.get_global @table : memref<5xi4>
      %g = memref.get_global @floats : memref<3xf4E2M1FN>
      %s = memref.alloca() : memref<5xi4>
      %o = hal.interface.binding.subspan binding(0) : memref<6xi32>
      memref.copy %t, %s : memref<5xi4> to memref<5xi4>
      scf.for %i = %c0 to %c5 step %c1 {
        %x = memref.load %s[%i] : memref<5xi4>
        %w = arith.extsi %x : i4 to i32
        memref.store %w, %o[%i] : memref<6xi32>
      }
      %f = memref.load %g[%c1] : memref<3xf4E2M1FN>
      %n = arith.fptosi %f : f4E2M1FN to i32
      memref.store %n, %o[%c5] : memref<6xi32>
      func.return
    }"""
    out = buffer(np.zeros(6, np.int32))
    assert load(source, bindings=1).run(out) == 0
    np.testing.assert_array_equal(out, [1, -2, 3, -4, 5, -6])
