"""Operations of the frontends against NumPy, with sizes in the types and sizes that calls decide."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.frontends.torch.nodes import CONVERSIONS
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import C64, DTYPES, F32, I64, U64
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, indexing, products, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew

RNG = np.random.default_rng(3)
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
def test_arrangements(run, dynamic: bool) -> None:
    x, y = floats(2, 3, 4), floats(2, 3, 1)

    def write(b: Builder, x: Tensor, y: Tensor) -> list[Tensor]:
        y = b.as_shape(y, (*x.shape[:2], 1))
        return [
            shapes.reshape(b, x, [x.shape[0] * x.shape[1], x.shape[2]]), shapes.transpose(b, x, [2, 0, 1]),
            shapes.broadcast_to(b, shapes.expand_dims(b, y, [0]), (5, *y.shape)),
            slicing.pad(b, x, (1, 0, 2), (0, 1, 0), 7.0, (0, 1, 2)), slicing.concat(b, [x, y], 2),
            indexing.reverse(b, x, [0, 2]), slicing.slice_axis(b, x, 2, 1, x.shape[2], 2),
            shapes.tile(b, x, [1, 2, 3]), ew.binary(b, "add", x, y), shapes.squeeze(b, shapes.expand_dims(b, x, [1])),
        ]  # fmt: skip

    got = run(write, x, y, dynamic=dynamic)
    padded = np.full((3, 6, 12), 7, np.float32)
    padded[1:, 0:5:2, 2::3] = x
    wanted = [
        x.reshape(6, 4), x.transpose(2, 0, 1), np.broadcast_to(y, (5, 2, 3, 1)), padded, np.concatenate([x, y], 2),
        x[::-1, :, ::-1], x[:, :, 1::2], np.tile(x, (1, 2, 3)), x + y, x,
    ]  # fmt: skip
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dynamic", [False, True])
def test_reductions(run, dynamic: bool) -> None:
    x = RNG.integers(-9, 9, (3, 5, 4)).astype(np.float32)
    x[0, 1, 2] = np.nan

    def write(b: Builder, x: Tensor) -> list[Tensor]:
        return [
            reductions.reduce(b, "add", x, [1]), reductions.reduce(b, "max", x, [0, 2], True),
            reductions.arg_reduce(b, "max", x, 1), reductions.arg_reduce(b, "min", x, 2, True, last=True),
            reductions.mean(b, x, [2]), reductions.reduce(b, "mul", x, None),
        ]  # fmt: skip

    got = run(write, x, dynamic=dynamic)
    last = 3 - x[..., ::-1].argmin(2, keepdims=True)
    wanted = [x.sum(1), x.max((0, 2), keepdims=True), x.argmax(1), last, x.mean(2), x.prod()]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float4_e2m1fn", "bfloat16"])
def test_extremes_of_types_with_and_without_infinities(run, name: str) -> None:
    x = np.array([[-4, -2, -3], [-1, -2, -6]]).astype(getattr(ml_dtypes, name))

    def write(b: Builder, x: Tensor) -> list[Tensor]:
        return [
            reductions.reduce(b, "max", x, [1]), reductions.reduce(b, "min", x, None),
            reductions.arg_reduce(b, "max", x, 1),
        ]  # fmt: skip

    wide = x.astype(np.float32)
    for got, wanted in zip(run(write, x), [wide.max(1), wide.min(), wide.argmax(1)], strict=True):
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), wanted)


EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), ("...i,...i->...", [(2, 3, 4), (3, 4)]),
    ("ii->i", [(4, 4)]), ("ij->ji", [(3, 4)]), ("i,j", [(3,), (4,)]), ("ij,kl->", [(2, 3), (4, 5)]),
    ("bhid,bhjd->bhij", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("abc,cd", [(2, 3, 4), (4, 5)]),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "sizes"), EQUATIONS)
def test_einsum(run, equation: str, sizes: list[tuple[int, ...]]) -> None:
    arrays = [floats(*shape) for shape in sizes]
    (got,) = run(lambda b, *xs: products.einsum(b, equation, *xs), *arrays)
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-4, atol=1e-5)


@FEW
@given(data=st.data())
def test_matmul(run, data: st.DataObject) -> None:
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    ones = [data.draw(st.sampled_from([1, n])) for n in lead]
    n, k, m = (data.draw(st.integers(1, 5)) for _ in range(3))
    x, y = floats(*lead, n, k), floats(*ones, k, m)
    if data.draw(st.booleans()):
        y = np.ascontiguousarray(y[..., 0]) if not lead else y
    (got,) = run(products.matmul, x, y, dynamic=data.draw(st.booleans()) and 1 not in (*lead, *ones, n, k, m))
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-5)


@FEW
@given(data=st.data())
def test_convolutions(run, data: st.DataObject) -> None:
    groups, per, each = (data.draw(st.integers(1, 2)) for _ in range(3))
    kernel = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    rank = len(kernel)
    window = convolutions.Window(
        *(tuple(data.draw(st.integers(low, 2)) for _ in range(rank)) for low in (1, 0, 0, 1))  # type: ignore[arg-type]
    )
    x = floats(2, groups * per, *(7 + n for n in range(rank)))
    w = floats(groups * each, per, *kernel)
    (got,) = run(lambda b, x, w: convolutions.convolution(b, x, w, window, groups=groups), x, w,
                 dynamic=groups == 1 and data.draw(st.booleans()))  # fmt: skip
    np.testing.assert_allclose(got, convolved(x, w, window, groups), rtol=1e-4, atol=1e-5)
    back = floats(2, groups * each, *got.shape[2:])
    wide = convolutions.Window(window.strides, (0,) * rank, (0,) * rank, window.dilations)
    (grown,) = run(lambda b, x, w: convolutions.transposed_convolution(b, x, w, wide, groups=groups), back, w)
    # The transposed convolution is the adjoint: <conv(z), back> = <z, grown>.
    z = floats(*grown.shape)
    left = (convolved(z, w, wide, groups).astype(float) * back).sum()
    assert left == pytest.approx((z.astype(float) * grown).sum(), rel=1e-3, abs=1e-3)


@FEW
@given(st.data())
def test_zeros_between_elements(run, data: Any) -> None:
    """A kernel that is a multiple of the factors is a contraction without the zeros, others meet them."""
    rank = data.draw(st.integers(1, 2))
    factors = data.draw(st.tuples(*[st.integers(1, 3)] * rank))
    kernel = tuple(n * data.draw(st.integers(1, 2)) + data.draw(st.sampled_from([0, 0, 1])) for n in factors)
    pads = st.tuples(*[st.integers(0, 4)] * rank)
    window = convolutions.Window((1,) * rank, data.draw(pads), data.draw(pads), (1,) * rank)
    x, w = floats(2, 5, *(data.draw(st.integers(3, 9)) for _ in range(rank))), floats(19, 5, *kernel)
    last = data.draw(st.booleans())

    def write(b: Builder, x: Tensor, w: Tensor) -> Tensor:
        return convolutions.convolution(b, x, w, window, input_dilations=factors, channels_last=last)

    (got,) = run(write, x, w)
    spread = np.zeros((2, 5, *((n - 1) * f + 1 for n, f in zip(x.shape[2:], factors, strict=True))), np.float32)
    spread[(slice(None), slice(None), *(slice(None, None, f) for f in factors))] = x
    np.testing.assert_allclose(got, convolved(spread, w, window, 1), rtol=1e-4, atol=1e-5)


def test_channels_of_a_call_that_differ_are_refused(run) -> None:
    window = convolutions.Window((1,), (0,), (0,), (1,))
    with pytest.raises(pd.InvalidArgumentError, match=r"in 1 group\(s\): 3 channels, the filters take 4"):
        run(lambda b, x, w: convolutions.convolution(b, x, w, window), floats(2, 3, 7), floats(5, 4, 2), dynamic=True)
    with pytest.raises(pd.CompileError, match="in 2 groups: the number of filters must be known"):
        run(lambda b, x, w: convolutions.convolution(b, x, w, window, groups=2), floats(2, 4, 7), floats(4, 2, 2),
            dynamic=True)  # fmt: skip


def convolved(x: Any, w: Any, window: convolutions.Window, groups: int) -> np.ndarray[Any, Any]:
    """A convolution, one place of the kernel at a time."""
    padded = np.pad(x, [(0, 0), (0, 0), *zip(window.low, window.high, strict=True)]).astype(np.float64)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], window.dilations, strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, window.strides, strict=True)]
    found = np.zeros((x.shape[0], w.shape[0], *out))
    per, each = w.shape[1], w.shape[0] // groups
    for place in np.ndindex(*w.shape[2:]):
        at = tuple(slice(p * d, p * d + (n - 1) * s + 1, s)
                   for p, d, n, s in zip(place, window.dilations, out, window.strides, strict=True))  # fmt: skip
        for g in range(groups):
            part = padded[(slice(None), slice(g * per, (g + 1) * per), *at)]
            weights = w[(slice(g * each, (g + 1) * each), slice(None), *place)]
            found[:, g * each : (g + 1) * each] += np.einsum("nc...,fc->nf...", part, weights)
    return found


@pytest.mark.parametrize("to", ["i8", "u8", "i32", "u32", "i64", "f16", "f32", "f64", "bool", "c64"])
def test_conversions(run, to: str) -> None:
    for x in (np.array([-3, 0, 5, 100], np.int32), np.array([0, 7, 200], np.uint8), np.array([True, False]),
              np.array([0.0, 1.75, 100.5], np.float32)):  # fmt: skip
        (got,) = run(lambda b, x: ew.convert(b, x, DTYPES[to]), x)
        assert got.dtype == DTYPES[to].numpy
        if not (to.startswith("u") and x.dtype.kind == "i"):
            np.testing.assert_array_equal(got, x.astype(DTYPES[to].numpy))


@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_constants_at_the_ends_of_integer_types_are_converted_as_in_calls(run, source: str, name: str) -> None:
    dtype = DTYPES[name]
    end = 2.0**dtype.bits if name[0] == "u" else 2.0 ** (dtype.bits - 1)  # the first number that is too large
    x = np.array([-end, np.nextafter(-end, -np.inf), 0, np.nextafter(end, 0), end, 2 * end], DTYPES[source].numpy)

    def write(b: Builder, argument: Tensor) -> list[Tensor]:
        constants = [ew.convert(b, b.constant(x[i : i + 1], DTYPES[source]), dtype) for i in range(len(x))]
        return [ew.convert(b, argument, dtype), *constants]

    in_call, *of_constants = run(write, x)
    np.testing.assert_array_equal(np.concatenate(of_constants), in_call)


COMPLEX = ["exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "expm1", "log1p", "neg", "sign", "rsqrt"]


def test_complex_functions(run) -> None:
    x = (floats(40) + 1j * floats(40)).astype(np.complex64)
    got = run(lambda b, x: [*(ew.unary(b, f, x) for f in COMPLEX), ew.unary(b, "abs", x)], x)
    z = x.astype(np.complex128)
    special = {"neg": np.negative(z), "sign": z / np.abs(z), "rsqrt": 1 / np.sqrt(z)}
    for name, found in zip(COMPLEX, got, strict=False):
        wanted = special[name] if name in special else getattr(np, name)(z)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=name)
    np.testing.assert_allclose(got[-1], np.abs(z), rtol=1e-6)
    y = (floats(40) + 1j * floats(40)).astype(np.complex64)
    pair = run(lambda b, x, y: [ew.binary(b, f, x, y) for f in ("add", "sub", "mul", "div", "pow")], x, y)
    for found, wanted in zip(pair, [z + y, z - y, z * y, z / y, z**y], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


INVERSE = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
           "atanh": np.arctanh}  # fmt: skip


def test_each_part_of_complex_functions_is_accurate(run) -> None:
    """Parts that are small beside the other part keep their digits: near 0, near -1, 1 and i, and far from them."""
    sizes = np.array([1e-4, 0.3, 0.999, 1.0, 1.0003, 1.9, 6.0, 20.0])
    angles = np.random.default_rng(5).uniform(-3.1, 3.1, (30, 1))
    x = (sizes * np.exp(1j * angles)).ravel()
    x = np.concatenate([x, x - 1, x[::8] + 1, x[::8] + 1j]).astype(np.complex64)
    functions = {"log": np.log, "log1p": np.log1p, "tan": np.tan, "tanh": np.tanh, **INVERSE}
    got = run(lambda b, x: [ew.unary(b, name, x) for name in functions], x)
    for name, found in zip(functions, got, strict=True):
        wanted = functions[name](x.astype(np.complex128))
        for part in ("real", "imag"):
            a, b = getattr(found, part), getattr(wanted, part)
            # 2 ** -48: what a sum of two f32 of about 1, as in the real part of log1p, is rounded to.
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2**-48, err_msg=f"{name}: {part}")


ENDS = [complex(x, y) for x in (0.0, -0.0, 1.0, -1.0, 2.0, -2.0) for y in (0.0, -0.0)] + [
    1 + 1e-20j, -1 - 1e-30j, 1e-20, 1e20, -1e20j, 1e30 + 1e30j, 1e38j, complex(np.inf, 1), complex(-np.inf, -1),
    complex(1, np.inf), complex(-1, -np.inf), complex(np.inf, np.inf), complex(-np.inf, np.inf),
]  # fmt: skip
"""Zeros of both signs, poles, branch cuts, numbers whose squares overflow, and infinities."""


def test_complex_functions_at_their_ends(run) -> None:
    of_ends = {**INVERSE, "log": np.log, "abs": np.abs, "sqrt": np.sqrt}
    of_large = {"exp": np.exp, "sinh": np.sinh, "cosh": np.cosh, "sin": np.sin, "cos": np.cos}
    for numbers, functions in ((ENDS, of_ends), ([1000, -1000, 1000j, -1000j], of_large)):
        x = np.array(numbers, np.complex64)
        got = run(lambda b, x, functions=functions: [ew.unary(b, name, x) for name in functions], x)
        for name, found in zip(functions, got, strict=True):
            with np.errstate(all="ignore"):
                wanted = functions[name](x.astype(np.complex128))
            for part in ("real", "imag"):
                a, b = getattr(found, part), getattr(wanted, part)
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-37, err_msg=f"{name}: {part}")
                np.testing.assert_array_equal(np.signbit(a), np.signbit(b), err_msg=f"sign of {name}: {part}")
    (found,) = run(lambda b, x: ew.unary(b, "logistic", x), np.array([-1000, 1000, -200 + 1j], np.complex64))
    np.testing.assert_array_equal(found, [0, 1, 0])


def test_the_angle_of_atanh_of_infinity_and_nan_is_nan(run) -> None:
    x = np.array([complex(np.inf, np.nan), complex(-np.inf, np.nan), complex(np.nan, np.inf)], np.complex64)
    (result,) = run(lambda b, x: ew.unary(b, "atanh", x), x)
    np.testing.assert_array_equal(np.abs(result.real), 0)
    np.testing.assert_allclose(result.imag, [np.nan, np.nan, np.pi / 2])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_of_the_largest_complex_numbers_do_not_overflow(run, dtype: Any) -> None:
    large = np.finfo(dtype).max
    x = np.array([complex(a * large, b * large) for a in (-1, -0.6, 0, 0.6, 1) for b in (-1, -0.8, 0, 0.8, 1)], dtype)
    names = ("sqrt", "log", "sign", "cbrt")
    results = run(lambda b, x: [ew.unary(b, name, x) for name in names], x)
    quarter = x.astype(np.complex128) / 4
    length = np.abs(quarter)
    roots = np.cbrt(4) * np.cbrt(length) * np.exp(1j * np.angle(quarter) / 3)
    directions = quarter / np.where(length == 0, 1, length)
    with np.errstate(divide="ignore"):  # log(0)
        wanted = [np.sqrt(quarter) * 2, np.log(quarter) + np.log(4), directions, roots]
    tolerance = 1e-6 if dtype is np.complex64 else 1e-14
    for name, result, expected in zip(names, results, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_quotients_by_the_smallest_and_largest_numbers(run, dtype: Any) -> None:
    limits = np.finfo(dtype)
    sizes = [limits.smallest_subnormal, 8 * limits.smallest_subnormal, limits.tiny / 16, limits.tiny, limits.max]
    rhs = np.array([size * direction for size in sizes for direction in (1, 1j, -1 + 1j, 1 - 0.5j)], dtype)
    rhs = rhs[(rhs.real != 0) | (rhs.imag != 0)]
    factors = np.array([1, 1j, -1 / 8], dtype)
    lhs = np.concatenate([rhs * factor for factor in factors])
    (quotient,) = run(lambda b, x, y: ew.binary(b, "div", x, y), lhs, np.tile(rhs, 3))
    # Eighths of subnormal numbers are not exact: these are left out.
    is_exact = np.repeat([True, True, False], len(rhs)) | (np.abs(np.tile(rhs, 3).real) >= limits.tiny)
    wanted = np.repeat(factors, len(rhs))
    np.testing.assert_allclose(quotient[is_exact], wanted[is_exact], rtol=1e-6 if dtype is np.complex64 else 1e-14)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("values", [{}, {"nan": 2.0, "posinf": 3.0, "neginf": -4.0}])
def test_nan_to_num_replaces_both_parts_of_complex_numbers(run, dtype: Any, values: dict[str, float]) -> None:
    ends = [0.0, 1.5, -2.0, np.nan, np.inf, -np.inf]
    z = np.array([complex(real, imag) for real in ends for imag in ends], dtype)
    (result,) = run(lambda b, x: CONVERSIONS["aten.nan_to_num"](b, x, **values), z)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.nan_to_num(z, **values))


@pytest.mark.parametrize("axis", [0, -1])
def test_a_scalar_permits_the_axes_of_a_vector(run, axis: int) -> None:
    """As in PyTorch."""

    def write(b: Builder, x: Tensor, at: Tensor, y: Tensor) -> list[Tensor]:
        return [
            CONVERSIONS["aten.flip"](b, x, [axis]), CONVERSIONS["aten.movedim"](b, x, 0, axis),
            CONVERSIONS["aten.cumsum"](b, x, axis), CONVERSIONS["aten.scatter"](b, x, axis, at, y),
            CONVERSIONS["aten.scatter"](b, x, axis, at, 4.0), CONVERSIONS["aten.scatter_add"](b, x, axis, at, y),
        ]  # fmt: skip

    results = run(write, np.float32(1.5), np.int64(0), np.float32(2.0))
    assert [(result.shape, float(result)) for result in results] == [((), n) for n in (1.5, 1.5, 1.5, 2.0, 4.0, 3.5)]


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_fourier_transforms_of_integers(run, name: str) -> None:
    """They become f32, as in PyTorch."""
    x = np.array([3, -1, 100, 7], np.int8)
    (result,) = run(lambda b, x: CONVERSIONS[f"aten.fft_{name}"](b, x, n=5), x)
    assert result.dtype == (np.float32 if name == "irfft" else np.complex64)
    np.testing.assert_allclose(result, getattr(np.fft, name)(x, n=5), rtol=1e-5, atol=1e-5)


def test_sums_of_complex_products(run) -> None:
    x, y = ((floats(3, 4) + 1j * floats(3, 4)).astype(np.complex64) for _ in range(2))
    got = run(lambda b, x, y: [products.dot_general(b, x, y, [], [(1, 1)]), reductions.reduce(b, "add", x, [0])], x, y)
    np.testing.assert_allclose(got[0], x @ y.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], x.sum(0), rtol=1e-5)
    assert C64.numpy == got[0].dtype


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN", "bf16"])
def test_constants_of_small_floats(run, name: str) -> None:
    """Numbers that the type has, and one between two of them, which goes to the even one."""
    numbers = np.array([0.0, 1.0, -2.0, 0.5, 1.5, -4.0], np.float32)
    between = {"f8E4M3FN": 1.0625, "f8E5M2": 1.125, "f8E4M3FNUZ": 1.0625, "f4E2M1FN": 1.25, "bf16": 1.00390625}[name]

    def write(b: Builder, x: Tensor) -> Tensor:
        constant = b.constant(np.append(numbers, np.float32(between)), DTYPES[name])
        return ew.binary(b, "add", ew.convert(b, constant, F32), x)

    (got,) = run(write, np.zeros(7, np.float32))
    np.testing.assert_array_equal(got, [*numbers, 1.0])


@pytest.mark.parametrize(("source", "to"), [("i4", "u4"), ("u4", "i4"), ("i2", "u2"), ("u2", "i2"), ("i4", "f4E2M1FN")])
def test_bits_of_constants_below_a_byte(run, source: str, to: str) -> None:
    count = 1 << DTYPES[source].bits

    def write(b: Builder, x: Tensor) -> list[Tensor]:
        constant = b.constant(np.arange(count, dtype=np.int8), DTYPES[source])
        both = [constant, ew.convert(b, x, DTYPES[source])]
        return [ew.convert(b, ew.bitcast(b, y, DTYPES[to]), F32) for y in both]

    of_constant, in_call = run(write, np.arange(count, dtype=np.int8))
    np.testing.assert_array_equal(of_constant, in_call)


@pytest.mark.parametrize(("numbers", "expected"), [
    (np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 1 + 3 * 2**-8 - 2**-40, 1e300, -1e-300, np.nan, -np.inf]),
     [1 + 2**-7, 1, 1 + 2**-7, np.inf, -0.0, np.nan, -np.inf]),
    (-np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 3 * 2**-8 - 2**-40]), [-1 - 2**-7, -1, -1 - 2**-7]),
    (np.array([2**40 + 2**32 + 1, 2**40 + 2**32, -(2**40) - 2**32 - 1]), [2**40 + 2**33, 2**40, -(2**40) - 2**33]),
])  # fmt: skip
def test_constants_of_bf16_are_rounded_once(run, numbers: np.ndarray[Any, Any], expected: list[float]) -> None:
    """Numbers that f32 would round to a tie of bf16."""

    def write(b: Builder, x: Tensor) -> Tensor:
        return ew.binary(b, "add", ew.convert(b, b.constant(numbers, DTYPES["bf16"]), F32), x)

    (got,) = run(write, np.full(len(numbers), -0.0, np.float32))
    np.testing.assert_array_equal(got, np.array(expected, np.float32))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.array(expected, np.float32)))


def test_known_tensors_cost_nothing() -> None:
    b = Builder("m")
    from pydispatch.graph.builder import Input

    (x,) = b.begin([Input("x", F32, ("n", 4))])
    shape = b.constant(np.array(x.shape, dtype=object))
    half = ew.binary(b, "div", slicing.slice_axis(b, shape, 0, 1, 2), b.constant([2], I64))
    whole = slicing.concat(b, [slicing.slice_axis(b, shape, 0, 0, 1), half, b.constant([2], I64)], 0)
    assert whole.known_integers() == [x.shape[0], 2, 2]
    made = shapes.reshape(b, x, whole.known_integers() or [])
    assert str(made) == "f32[n, 2, 2]"


def test_what_does_not_fit_names_the_layer(run) -> None:
    x, y = floats(2, 3), floats(4, 5)
    for write, message in [
        (lambda b, x, y: ew.binary(b, "add", x, y), r"shapes \[2, 3\] and \[4, 5\] do not broadcast together: 2 and 4"),
        (products.matmul, "product of f32\\[2, 3\\] and f32\\[4, 5\\]: axis 1 has size 3, axis 0 has 4"),
        (lambda b, x, y: shapes.reshape(b, x, [4, 2]), "it has 6 elements, not 8"),
        (lambda b, x, y: shapes.transpose(b, x, [0, 2]), "axis 2 of a tensor of rank 2"),
        (lambda b, x, y: slicing.concat(b, [x, y], 0), "cannot be joined along axis 0"),
        (lambda b, x, y: slicing.slice_axis(b, x, 1, 2, 9), "slice 2:9 of axis 1 .* is out of bounds"),
        (lambda b, x, y: products.einsum(b, "ij,jk->iz", x, y), "the result 'iz' repeats a letter or has one"),
        (lambda b, x, y: ew.binary(b, "and", x, x), "and of f32 is not defined"),
    ]:
        with pytest.raises(pd.CompileError, match=message) as caught:
            run(write, x, y)
        assert str(caught.value).startswith("test.onnx: layer: error: ")


@pytest.mark.parametrize("name", ["u64", "i64", "i8", "u4", "i4", "u2", "i2"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "rem", "neg", "not", "abs", "max", "xor"])
def test_constants_are_computed_as_in_calls(run, name: str, operation: str) -> None:
    """The same operation on constants, at compile time, and on operands of a call, as numbers of 64 bits."""
    dtype = DTYPES[name]
    low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if name[0] == "i" else (0, 2**dtype.bits - 1)
    numbers = np.array([low, low + 1, high, high // 2 + 1, 1], dtype.numpy)
    others = np.array([2 % (high + 1) or 1, 1, high, 1, high], dtype.numpy)
    operands = [numbers] if operation in ("neg", "not", "abs") else [numbers, others]
    apply = ew.unary if len(operands) == 1 else ew.binary

    def write(b: Builder, *tensors: Tensor) -> list[Tensor]:
        constants = [b.constant(operand, dtype) for operand in operands]
        folded = apply(b, operation, *constants)
        assert folded.known is not None
        narrow = [ew.convert(b, tensor, dtype) for tensor in tensors]  # arguments have whole bytes
        return [ew.convert(b, y, U64) for y in (apply(b, operation, *narrow), folded)]

    in_call, at_compile_time = run(write, *operands)
    np.testing.assert_array_equal(at_compile_time, in_call)
