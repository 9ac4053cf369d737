"""Functions where large arguments are hard: sines, remainders and conversions of generated shaders against exact
values, with samples spread evenly over all exponents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
from kernels import buffer, elementwise  # noqa: E402
from vulkan_kernels import emit, load  # noqa: E402

import pydispatch as pd  # noqa: E402

CAPABILITY = 17
FLOAT64, INT64 = 10, 11


def spread(rng: np.random.Generator, dtype: Any, count: int) -> Any:
    """Numbers of both signs whose exponents are spread evenly, subnormal ones too."""
    width, fraction = (32, 23) if dtype == np.float32 else (64, 52)
    word = np.dtype(f"u{width // 8}").type
    exponent = rng.integers(0, (1 << (width - 1 - fraction)) - 1, count).astype(word)
    bits = rng.integers(0, 1 << fraction, count).astype(word) | exponent << word(fraction)
    return (bits | rng.integers(0, 2, count).astype(word) << word(width - 1)).view(dtype)


def capabilities(code: bytes) -> set[int]:
    words = np.frombuffer(code, np.uint32)
    found, at = set(), 5
    while at < len(words):
        if words[at] & 0xFFFF == CAPABILITY:
            found.add(int(words[at + 1]))
        at += int(words[at] >> 16)
    return found


def worst(found: Any, x: Any, name: str) -> float:
    function, most = getattr(mpmath, name), 0.0
    with mpmath.workprec(300):
        for got, argument in zip(found.tolist(), x.tolist(), strict=True):
            exact = function(mpmath.mpf(argument))
            unit = mpmath.mpf(float(np.spacing(np.float32(abs(exact)))))
            most = max(most, float(abs(mpmath.mpf(got) - exact) / unit))
    return most


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_every_size(name: str) -> None:
    rng = np.random.default_rng(11)
    steps = np.float32(np.pi / 2) * np.arange(1, 400, dtype=np.float32)
    edges = np.array([8191.999, 8192.0, 12000.5, 2.0**-12, 2.0**23, 2.0**127, np.finfo(np.float32).max], np.float32)
    near = np.nextafter(steps, np.float32(np.inf), dtype=np.float32)
    middle = rng.uniform(-2e4, 2e4, 600).astype(np.float32)
    x = np.concatenate([spread(rng, np.float32, 1500), middle, steps, near, edges])
    y = buffer(np.zeros_like(x))
    source = elementwise(f"%y0 = math.{name} %x0 : f32", ["f32"], ["f32"])
    assert not capabilities(emit(source, constants=1, bindings=2)) & {FLOAT64, INT64}
    load(source, constants=1, bindings=2).run(buffer(x), y, constants=[x.size])
    assert worst(y, x, name) <= 1
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    y = buffer(np.zeros_like(special))
    load(source, constants=1, bindings=2).run(buffer(special), y, constants=[special.size])
    assert np.isnan(y[:3]).all()
    assert np.array_equal(y[3:], [1, 1] if name == "cos" else [0, 0])
    assert name == "cos" or np.array_equal(np.signbit(y[3:]), [False, True])


@pytest.mark.parametrize("type_", ["f32", "f64", "f16"])
def test_remainders_are_exact(type_: str) -> None:
    dtype: Any = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[type_]
    rng = np.random.default_rng(12)
    limits = np.finfo(dtype)
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1, 3, -7.5]
    special += [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal]
    x, y = (part.ravel() for part in np.meshgrid(np.array(special, dtype), np.array(special, dtype)))
    if dtype == np.float16:
        wide = [rng.integers(0, 0x7C00, 3000).astype(np.uint16).view(np.float16) for _ in range(2)]
    else:
        wide = [spread(rng, dtype, 3000) for _ in range(2)]
    with np.errstate(all="ignore"):
        close = wide[0][:1000] * rng.integers(-3, 4, 1000).astype(dtype)
        a = np.concatenate([x, wide[0], rng.uniform(-100, 100, 1000).astype(dtype), close])
        b = np.concatenate([y, wide[1], rng.uniform(-10, 10, 1000).astype(dtype), wide[0][:1000]])
        exact = np.fmod(a, b)
    found = buffer(np.zeros_like(a))
    source = elementwise(f"%y0 = arith.remf %x0, %x1 : {type_}", [type_] * 2, [type_])
    if type_ != "f64":
        assert not capabilities(emit(source, constants=1, bindings=3)) & {FLOAT64, INT64}
    load(source, constants=1, bindings=3).run(buffer(a), buffer(b), found, constants=[a.size])
    np.testing.assert_array_equal(found, exact)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(exact)[numbers])


def halves(rng: np.random.Generator, width: int, is_signed: bool) -> Any:
    """Integers around the numbers where roundings to 8 and 11 bits are decided, of every length."""
    found = [0, 1]
    for digits in range(2, width + 1 - is_signed):
        for kept in (2, 3, 4, 8, 9, 11, 12, 24, 25, 53, 54):
            if kept >= digits:
                continue
            top = int(rng.integers(1 << (kept - 1), 1 << kept)) << (digits - kept)
            half = top | 1 << (digits - kept - 1)
            found += [top, top + 1, top - 1, half - 1, half, half + 1]
    found += [(1 << (width - is_signed)) - 1]
    most = (1 << (width - is_signed)) - 1
    values = [v for v in found if v <= most]
    if is_signed:
        values += [-v for v in values] + [-most - 1]
    return np.array(values, f"{'i' if is_signed else 'u'}{width // 8}")


def rounded(values: Any, dtype: Any) -> Any:
    """Once, to nearest even: the f32 in between is exact, or odd in its last place."""
    made = []
    for value in values.tolist():
        size, cut = abs(value), max(0, abs(value).bit_length() - 20)
        size = (size >> cut | (size & ((1 << cut) - 1) != 0)) << cut
        made.append(np.float32(size) * (-1 if value < 0 else 1))
    return np.array(made, np.float32).astype(dtype)


DEVICES = {"cpu": "cpu", "vulkan:0": "vulkan", "ptx-interpreter": "cuda"}


@pytest.mark.parametrize("device", DEVICES)
def test_integers_round_once(device: str) -> None:
    """i64 and i32, with and without sign, to bf16 and f16; where `uitofp` and `sitofp` are in kernels."""
    rng = np.random.default_rng(13)
    functions, calls = [], []
    with np.errstate(over="ignore"):
        for width in (32, 64):
            for is_signed in (True, False):
                x = halves(rng, width, is_signed)
                for type_, dtype in (("bf16", ml_dtypes.bfloat16), ("f16", np.float16)):
                    functions.append(f"""func.func @f{len(calls)}(%x: tensor<?xi{width}>) -> tensor<?x{type_}> {{
                      %y = arith.{"s" if is_signed else "u"}itofp %x : tensor<?xi{width}> to tensor<?x{type_}>
                      return %y : tensor<?x{type_}>
                    }}""")
                    calls.append((x.view(f"i{width // 8}"), rounded(x, dtype), x))
    program: Any = pd.device(device).load(pd.compile("\n".join(functions), targets=DEVICES[device]))
    for number, (x, exact, plain) in enumerate(calls):
        found = np.asarray(program[f"f{number}"](x))
        wrong = found.view(np.uint16) != exact.view(np.uint16)
        assert not wrong.any(), (functions[number], plain[wrong][:4], found[wrong][:4], exact[wrong][:4])


def test_small_integers_need_no_wide_types() -> None:
    source = elementwise("%y0 = arith.sitofp %x0 : i32 to bf16", ["i32"], ["bf16"])
    assert not capabilities(emit(source, constants=1, bindings=2)) & {FLOAT64, INT64}


@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("width", [32, 64])
def test_scalars_of_host_code_round_once(width: int, is_signed: bool) -> None:
    x = halves(np.random.default_rng(14), width, is_signed)
    kind = "s" if is_signed else "u"
    types = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
    text = "\n".join(
        f"func.func @{t}(%x: i{width}) -> {t} {{\n%y = arith.{kind}itofp %x : i{width} to {t}\nreturn %y : {t}\n}}"
        for t in types
    )
    program: Any = pd.device("cpu").load(pd.compile(text, cpu="generic"))
    with np.errstate(over="ignore"):
        for name, dtype in types.items():
            found = [float(program[name](value)) for value in x.view(f"i{width // 8}").tolist()]
            np.testing.assert_array_equal(found, rounded(x, dtype).astype(np.float64))
