"""Functions of programs against NumPy's: the same function, traced and run by itself, on random arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest
import test_linalg

import pydispatch as pd
from pydispatch.programs.array import Array
from pydispatch.programs.program import ProgramSource

RANDOM = np.random.default_rng(7)
F = RANDOM.standard_normal((4, 6)).astype(np.float32)
G = RANDOM.standard_normal((6,)).astype(np.float32)
I = RANDOM.integers(-9, 9, (4, 6)).astype(np.int32)  # noqa: E741
J = RANDOM.integers(1, 5, (4, 6)).astype(np.int32)
Vector = Annotated[np.ndarray, pd.f32["n"]]
TYPES = {"float32": pd.f32, "int32": pd.i32, "float64": pd.f64, "int64": pd.i64, "float16": pd.f16, "bool": pd.i1,
         "int8": pd.i8, "int16": pd.i16, "uint8": pd.u8, "uint32": pd.u32}  # fmt: skip


def traced(function: Callable[..., Any], *args: np.ndarray[Any, Any]) -> Any:
    """What the compiled program of a function gives. Rows have a size that the call decides, columns a known one."""
    parameters = {}
    for number, each in enumerate(args):
        shape: list[Any] = list(each.shape)
        if (shape and number == 0) or (shape and each.shape[0] == args[0].shape[0] and each.ndim == args[0].ndim):
            shape[0] = "n"
        parameters[f"x{number}"] = TYPES[each.dtype.name][tuple(shape)]
    names = ", ".join(parameters)
    scope: dict[str, Any] = {"function": function}
    exec(f"def f({names}): return function({names})", scope)
    f = scope["f"]
    f.__annotations__ = {name: Annotated[np.ndarray, type] for name, type in parameters.items()}
    return pd.device("cpu").load(pd.compile(pd.program(f))).f(*args)


UNARY = {name: getattr(np, name) for name in (
    "exp", "exp2", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arcsinh", "floor", "ceil", "trunc",
    "rint", "absolute", "negative", "sign", "square", "isnan", "isfinite", "isinf", "cbrt", "reciprocal")}  # fmt: skip
POSITIVE = {name: getattr(np, name) for name in ("log", "log2", "log10", "log1p", "sqrt")}
BINARY = {name: getattr(np, name) for name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor")}  # fmt: skip
INTEGERS = {name: getattr(np, name) for name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "power")}  # fmt: skip
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{name: (function, (F,)) for name, function in UNARY.items()},
    **{name: (function, (abs(F) + 1,)) for name, function in POSITIVE.items()},
    **{name: (function, (F, F[::-1].copy() + 1)) for name, function in BINARY.items()},
    **{f"{name} of integers": (function, (I, J)) for name, function in BINARY.items()},
    **{f"{name} of integers": (function, (abs(I), J)) for name, function in INTEGERS.items()},
    "broadcast": (lambda x, y: x * y - y / 2 + 3, (F, G)),
    "types meet": (lambda x, y: x + y, (F, I)),
    "numbers are weak": (lambda x: (x + 1) * 2 - x // 3 + x % 4, (I,)),
    "a fraction makes integers floats": (lambda x: x * 0.5, (I,)),
    "power": (lambda x: x**2 + x**3 + abs(x) ** 1.5, (F,)),
    "where": (lambda x: np.where(x > 0, x, -1), (F,)),
    "complex numbers": (
        lambda x: (x * 2j + 1).real + np.imag(x * (3 - 1j)) + abs(np.conjugate(x + 1j * x) * (x * 1j).conj()), (F,)
    ),
    **{f"{name} of complex numbers": (lambda x, of=of: of(x + 1j * x[::-1] / x), (np.where(abs(F) < 0.3, 0, F),))
       for name, of in {"tests": lambda z: np.isnan(z) * 4 + np.isinf(z) * 2 + np.isfinite(z), "var": np.var,
                        "std": lambda z: np.std(np.nan_to_num(z, nan=2), axis=1, ddof=1),
                        "norm": lambda z: np.linalg.norm(z + 2j, axis=1),
                        "round": lambda z: np.round(z.real + 1.5j * z.real),
                        "rint": lambda z: np.rint(z.imag - 1.5j * z.real)}.items()},
    "parts of real numbers": (lambda x: np.real(x) + x.imag * 2 + x.conj(), (I,)),
    "clip": (lambda x: np.clip(x, -0.5, 0.5), (F,)),
    "not": (lambda x: ~(x > 0), (F,)),
    "view": (lambda x: (x.view(np.uint32) >> 23, x.astype(np.float16).view(np.int16)), (F,)),
    "astype": (lambda x: x.astype(np.float16).astype(np.float32) + x.astype(np.int64), (F,)),
    **{f"{name} of axis {axis}": (lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis), (F,))
       for name in ("sum", "mean", "max", "min", "prod", "var", "std") for axis in (None, 0, 1)},
    "variance by less than nothing": (lambda x: x.var(axis=0, ddof=4)[None] + x.std(axis=1, ddof=9)[:, None], (F,)),
    "sum of integers": (lambda x: x.sum(axis=0, keepdims=True), (I,)),
    "all and any": (lambda x: (x > 0).all(axis=1) | (x > 1).any(axis=1), (F,)),
    "argmax": (lambda x: np.argmax(x, axis=1) * 10 + np.argmin(x, axis=1), (F,)),
    "argmax of all": (np.argmax, (F,)),
    "argmax of all that keeps axes": (lambda x: x + x.argmax(keepdims=True) * np.argmin(x[0, 0], keepdims=True), (F,)),
    "argmin of all that keeps axes": (lambda x: np.argmin(x, keepdims=True), (F,)),
    "argmax of equal elements, infinities and NaN": (
        lambda x: np.argmax(x, axis=1) * 100 + np.argmin(x, axis=1),
        (np.float32([[np.inf, -np.inf, -np.inf] * 30, [0.0, -0.0, 0.0] * 30, [-np.inf] * 90,
                     [1.0, *[2.0] * 80, *[np.nan] * 9]]),),
    ),
    "cumsum": (lambda x: np.cumsum(x, axis=1), (F,)),
    "reshape": (lambda x: x.reshape(2, -1, 3), (F,)),
    "reshape by sizes": (lambda x: x.reshape(x.shape[0] * 2, x.shape[1] // 2), (F,)),
    "transpose": (lambda x: x.T + x.swapaxes(0, 1) + np.transpose(x, (1, 0)), (F,)),
    "moveaxis": (lambda x: np.moveaxis(x.reshape(4, 2, 3), 0, -1), (F,)),
    "expand and squeeze": (lambda x: np.squeeze(np.expand_dims(x, (0, 2)), 0), (F,)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 4, 6)), (F,)),
    "concatenate": (lambda x, y: np.concatenate([x, y, x], axis=1), (F, F + 1)),
    "stack": (lambda x, y: np.stack([x, y], axis=1), (F, F + 1)),
    "split": (lambda x: np.split(x, 3, axis=1)[1], (F,)),
    "split at": (lambda x: np.split(x, [2, 3], axis=1)[2], (F,)),
    "split at positions outside": (
        lambda x: np.concatenate([part * (n + 1) for n, part in enumerate(np.split(x, [1, -2, 3, 9], axis=1))], axis=1),
        (F,),
    ),
    "numbers of NumPy as ends of slices": (
        lambda x: x[: np.int64(2), np.int64(1) : np.int8(5) : np.int32(2)] + x[:, np.int64(-1), None], (F[:2],),
    ),
    "numbers of NumPy as axes, counts and sizes": (
        lambda x: np.concatenate([
            *np.split(x, np.array([1, 2]), axis=1), *np.split(x, np.int64(3), axis=np.int64(1)),
            np.repeat(x, np.int64(2), axis=1), np.pad(x, np.array([[0, 0], [1, 2]])), np.tile(x, np.array([1, 2])),
            x.reshape(np.int64(-1), np.int64(3)).reshape(x.shape),
        ], axis=np.int64(1)), (F,),
    ),
    "flip": (lambda x: np.flip(x, 1) + np.flip(x), (F,)),
    "roll": (lambda x: np.roll(x, 2, axis=1), (F,)),
    "tile": (lambda x: np.tile(x, (2, 3)), (F,)),
    "repeat": (lambda x: np.repeat(x, 2, axis=1), (F,)),
    "pad": (lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=5), (F,)),
    "pad with a value for each side": (
        lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=((4, 6), (7, -2))), (F,),
    ),
    "pad with a value before and one after": (lambda x: np.pad(x, ((1, 2), (2, 3)), constant_values=(4, 6.5)), (I,)),
    "pad at the edge": (lambda x: np.pad(x, ((1, 2), (2, 3)), mode="edge"), (F,)),
    "like": (lambda x: np.zeros_like(x) + np.ones_like(x) * 2 + np.full_like(x, 3), (F,)),
    "triangles": (lambda x: np.tril(x) - np.triu(x, 1), (F,)),
    "triangles of a vector": (lambda x: np.tril(x, 1) - np.triu(x), (G,)),
    "matmul": (lambda x, y: x @ y.T, (F, F + 1)),
    "matmul with a vector": (lambda x, y: x @ y, (F, G)),
    "matmul with a constant": (lambda x: x @ np.eye(6, 5, dtype=np.float32), (F,)),
    "einsum": (lambda x, y: np.einsum("ij,kj->ik", x, y), (F, F + 1)),
    "tensordot": (lambda x, y: np.tensordot(x, y, axes=([1], [0])), (F, G)),
    "outer": (lambda x: np.outer(x[:, 0], x[0]), (F,)),
    "slices": (lambda x: x[1:, ::2] + x[:-1, 1::2], (F,)),
    "an element, a row, a new axis": (lambda x: x[0, 1] + x[-1][None, :] + x[..., None][:, 0], (F[:1],)),
    "backwards": (lambda x: x[:, ::-1], (F,)),
    "a slice by a size": (lambda x: x[x.shape[0] // 2 :], (F,)),
    "take": (lambda x: np.take(x, np.array([3, 0, 0]), axis=1), (F,)),
    "places": (lambda x, y: x[y[:, 0] - 1], (F, J)),
    "take_along_axis": (lambda x, y: np.take_along_axis(x, y, axis=1), (F, J)),
    "sort": (lambda x: np.sort(x, axis=1), (F,)),
    "argsort": (lambda x: np.argsort(x, axis=1), (F,)),
    "pd's functions": (lambda x: pd.exp(x) + pd.tanh(x) - pd.rsqrt(abs(x) + 1) + pd.erf(x), (F,)),
    "round": (np.round, (F * 4,)),
    "round of conditions": (lambda x: np.round(x > 0), (F,)),
    **{f"{name} of types {x} and {y}": (getattr(np, name), (J.astype(x), J[::-1].astype(y)))
       for name, x, y in (("logaddexp", "int8", "uint8"), ("hypot", "bool", "int8"), ("arctan2", "int16", "uint8"))},
    "a constant of many elements": (lambda x: x + BIG, (F,)),
}  # fmt: skip
BIG = RANDOM.standard_normal((50, 1, 6)).astype(np.float32)


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("name", CASES)
def test_is_as_numpy(name: str) -> None:
    function, args = CASES[name]
    with np.errstate(all="ignore"):
        expected = np.asarray(function(*args))
    result = np.asarray(traced(function, *args))
    assert result.shape == expected.shape and result.dtype == expected.dtype, (result.dtype, expected.dtype)
    tolerance = 2e-3 if expected.dtype == np.float16 else 2e-5
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_numbers_beside_arrays_promote_as_in_numpy() -> None:
    arrays = [J > 0, J.astype(np.int8), I, F]

    def products(*operands: Any) -> list[Any]:
        return [x * number for x in (*operands, operands[-1] * 1j) for number in (True, 2, 0.5, 1j)]

    for result, expected in zip(traced(products, *arrays), products(*arrays), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_elements_are_assigned() -> None:
    def assign(x: Any) -> Any:
        y = x.copy()
        y[1] = 0
        y[:, 2:4] = y[:, :2] * 2
        y[-1, -1] = 9
        return y

    np.testing.assert_allclose(traced(assign, F), assign(F), rtol=1e-6)


def test_every_function_has_a_case() -> None:
    """No row of the tables is never run: each is called by a case, under one of its names."""
    called: set[str] = set()
    tables = {"UFUNCS": Array.UFUNCS, "FUNCTIONS": Array.FUNCTIONS}
    for name, table in tables.items():
        spied = {key: (lambda *a, key=key, row=row, **k: called.add(key) or row(*a, **k)) for key, row in table.items()}
        setattr(Array, name, spied)
    try:
        linalg = [(function, (test_linalg.X,)) for function in (test_linalg.decompositions, test_linalg.systems)]
        for function, args in (*CASES.values(), *MORE.values(), *EDGES.values(), *linalg):
            shapes = {f"x{n}": TYPES[a.dtype.name][a.shape] for n, a in enumerate(args)}
            scope: dict[str, Any] = {"function": function}
            exec(f"def f({', '.join(shapes)}): return function({', '.join(shapes)})", scope)
            scope["f"].__annotations__ = shapes
            ProgramSource(scope["f"]).module()
    finally:
        for name, table in tables.items():
            setattr(Array, name, table)
    rows = [each for table in tables.values() for each in table.items()]
    same = {id(row) for key, row in rows if key in called}
    unused = {key for key, row in rows if key not in called and id(row) not in same}
    assert unused <= NOT_HERE, unused - NOT_HERE


NOT_HERE = {
    "<set>", "add.reduce", "maximum.reduce", "minimum.reduce", "multiply.reduce", "amax", "amin", "around",
    "concat", "copy", "positive", "softmax", "vecdot", "cumprod", "arcsin", "arccos", "arccosh", "arctanh",
    "arctan2", "copysign", "fmod", "logical_not", "invert", "empty_like", "erf", "matrix_transpose", "ravel",
    "true_divide", "round",
}  # fmt: skip
"""Other names of what cases call, and those of tests of their own."""

ENDS = np.array([0, -0.0, 1, -3, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan, 5, np.nan], np.float32)
BYTES = np.uint8([[200, 250], [250, 3], [100, 255]])
HOLES = np.where(F > 1, np.nan, F).astype(np.float32)
MORE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inverse functions": (lambda x: np.arcsin(x) + np.arccos(x) + np.arctanh(x) + np.arccosh(x + 2), (F / 8,)),
    "two arguments": (lambda x, y: np.arctan2(x, y) + np.copysign(x, y) + np.fmod(x, y), (F, F[::-1].copy())),
    "reductions of ufuncs": (lambda x: np.add.reduce(x, axis=0) + np.maximum.reduce(x, axis=0), (F,)),
    "cumprod": (lambda x: np.cumprod(x, axis=1), (F,)),
    "logical_not": (lambda x: np.logical_not(x > 0), (F,)),
    "mT": (lambda x: x.T if isinstance(x, np.ndarray) else x.mT, (F,)),
    "flatten": (lambda x: x.flatten() + np.ravel(x), (F,)),
    "ones of a size": (
        lambda x: np.concatenate(
            [np.zeros((1, 6), x.dtype, like=x), np.ones((x.shape[0], 6), np.float32, like=x), x], axis=0
        ),
        (F,),
    ),
    "ones of f64": (lambda x: np.ones(3 * x.shape[0] // 3, like=x), (F,)),
    "full of a size": (lambda x: np.full((2, x.shape[0]), 7, like=x) * np.full(x.shape[0], 2, np.int32, like=x), (I,)),
    "empty": (lambda x: np.empty((2, 6), np.float32, like=x) * 0 + x[:2], (F,)),
    "arange of a size": (lambda x: np.arange(x.shape[0], like=x) + np.arange(1, x.shape[0] + 1, like=x), (F,)),
    "arange with steps": (
        lambda x: np.concatenate(
            [np.arange(0, x.shape[0], 3, like=x), np.arange(x.shape[0], 0, -2, like=x), np.arange(5, 5, like=x)]
        ),
        (F,),
    ),
    "asarray": (lambda x: x + np.asarray(G, like=x) * np.asarray([2], np.float32, like=x), (F,)),
    "arange of a type": (lambda x: np.arange(x.shape[0], dtype=np.float32, like=x), (F,)),
    "hypot": (np.hypot, (F, F[::-1].copy())),
    "hypot at its ends": (np.hypot, (ENDS, ENDS[::-1].copy())),
    "hypot of integers": (np.hypot, (I, J)),
    "logaddexp": (lambda x, y: np.logaddexp(x, y) + np.logaddexp2(x, y), (F, F[::-1].copy())),
    "logaddexp at its ends": (np.logaddexp, (ENDS, ENDS)),
    "fmax and fmin": (lambda x, y: np.fmax(x, y) + np.fmin(x, y), (F, F[::-1].copy())),
    "fmax of NaN": (np.fmax, (ENDS, ENDS[::-1].copy())),
    "fmin of NaN": (np.fmin, (ENDS, ENDS[::-1].copy())),
    "heaviside": (lambda x: np.heaviside(x, 0.5), (ENDS,)),
    "degrees": (lambda x: np.deg2rad(x) + np.radians(x) + np.rad2deg(x) + np.degrees(x), (F,)),
    "diff": (np.diff, (F,)),
    "diff of rows, twice": (lambda x: np.diff(x, n=2, axis=0), (I,)),
    "ptp": (lambda x: np.ptp(x, axis=1), (F,)),
    "vstack": (lambda x, y: np.vstack([x, y, y]), (F, G)),
    "hstack": (lambda x, y: np.hstack([x, y]), (F, F + 1)),
    "hstack of vectors": (lambda x, y: np.hstack([x, y]), (G, G + 1)),
    "column_stack": (lambda x, y: np.column_stack([x[:, 0], y]), (F, F + 1)),
    "atleast": (lambda x: np.atleast_2d(x) + np.atleast_1d(x), (G,)),
    "norm of small integers": (lambda x: np.linalg.norm(x * 11, axis=1), (I.astype(np.int8),)),
    **{
        f"norm {order} of axis {axis}": (lambda x, order=order, axis=axis: np.linalg.norm(x, order, axis=axis), (F,))
        for order, axis in (
            (None, None),
            (None, 1),
            ("fro", None),
            (2, 0),
            (1, 1),
            (3, 1),
            (0, 1),
            (np.inf, 1),
            (-np.inf, 0),
        )
    },
    "trace": (lambda x: np.trace(x) + np.trace(x, 1) + x.trace() * x.trace(offset=-1), (I,)),
    "nan_to_num": (np.nan_to_num, (ENDS,)),
    "nan_to_num with values": (lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=3), (ENDS,)),
    "count_nonzero": (lambda x: np.count_nonzero(x > 0, axis=1), (F,)),
    "average": (lambda x, y: np.average(x, axis=1, weights=y) + np.average(x, axis=1), (F, abs(G))),
    "average of integers": (
        lambda x, y: np.average(x, axis=0, weights=x) + np.average(x, axis=0, weights=y),
        (BYTES, BYTES[::-1].copy()),
    ),
    "average of i8 with weights of f16": (
        lambda x, y: np.average(x, weights=y),
        (I.astype(np.int8), J.astype(np.float16)),
    ),
    "average along two axes": (
        lambda x, y: np.average(x.reshape(-1, 2, 3), axis=(2, 0), weights=y[:, :3].T),
        (F, abs(F) + 1),
    ),
    "average with weights for each": (lambda x, y: np.average(x, axis=1, weights=y), (F, J)),
    "inner": (np.inner, (F, F + 1)),
    "inner and dot with numbers": (lambda x: np.inner(x, 2) + np.dot(2.5, x), (F,)),
    "dot with a stack of matrices": (np.dot, (F.reshape(4, 2, 3), F.reshape(4, 3, 2))),
    "dot of a matrix with a stack of matrices": (np.dot, (F, F.reshape(2, 6, 2))),
    "vecdot of complex numbers": (lambda x: np.vecdot(x + 2j, 1j * x - 1), (F,)),
    "tensordot over a number of NumPy": (lambda x, y: np.tensordot(x, y, np.int64(1)), (F, G)),
    "isclose": (lambda x, y: np.isclose(x, y) | np.isclose(x, y + 9, equal_nan=True), (ENDS, ENDS)),
    "isclose of unsigned integers": (
        lambda x, y: np.isclose(x, y, atol=100) * 4 + np.isclose(x, 250, atol=5) * 2 + np.isclose(9, y, atol=9),
        (np.uint8([0, 50, 255, 3]), np.uint8([50, 0, 0, 9])),
    ),
    "isclose of signed integers": (
        lambda x, y: np.isclose(x, y, atol=100),
        (np.int8([-128, 127, 5]), np.int8([127, -128, -90])),
    ),
    "isclose to numbers": (
        lambda x: np.isclose(x, np.nan, equal_nan=True) | np.isclose(x, 5) | np.isclose(np.inf, x),
        (ENDS,),
    ),
    "allclose": (lambda x, y: np.allclose(x, y), (F, F + 1e-9)),
    **{
        f"{name} of complex numbers": (
            lambda x, name=name: getattr(np, name)(x + 1j * np.arange(6, dtype=np.float32), axis=1),
            (HOLES,),
        )
        for name in ("nansum", "nanprod", "nanmean")
    },
    "without NaN": (lambda x: np.nansum(x, axis=1) + np.nanprod(x, axis=1) + np.nanmean(x, axis=1), (HOLES,)),
}


@pytest.mark.parametrize("name", MORE)
def test_more(name: str) -> None:
    function, args = MORE[name]
    with np.errstate(all="ignore"):
        expected = np.asarray(function(*args))
    found = np.asarray(traced(function, *args))
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found.dtype, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_mean_without_nan_of_many_halves() -> None:
    """Neither the number of elements nor their sum is a number of f16."""
    x = np.full((1, 100_000), 0.75, np.float16)
    x[0, ::7] = np.nan
    result = traced(lambda x: np.nanmean(x, axis=1), x)
    assert result.dtype == np.float16 and result[0] == np.float16(0.75)


def test_bf16_without_nan() -> None:
    @pd.program
    def f(x: Annotated[np.ndarray, pd.bf16[4]]) -> Any:
        return tuple(of(x).astype(np.float32) for of in (np.nansum, np.nanmean, np.nan_to_num))

    x = np.array([1, np.nan, 3, 5], ml_dtypes.bfloat16)
    total, mean, numbers = f(x)
    assert (float(total), float(mean), numbers.tolist()) == (9, 3, [1, 0, 3, 5])


def test_python_runs_the_function() -> None:
    @pd.program
    def f(x: Vector, scale: pd.static = 2) -> Any:
        return np.sqrt(x) * scale

    assert f.python(np.array([4.0]))[0] == 4
    assert math.isclose(f(np.array([9], np.float32))[0], 6)
    assert f.specialize(scale=3)(np.array([9], np.float32))[0] == 9


BITS = np.array([False, False, True])
ZEROS = np.array([[0, 3], [-2, 0], [0, -1], [7, -4]], np.int32)
EDGES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "floor_divide by 0": (lambda x, y: x // y, (np.int32([[5, 5], [-5, -5], [0, 0], [-9, 9]]), ZEROS)),
    "remainder by 0": (lambda x, y: x % y, (np.int32([[5, 5], [-5, -5], [0, 0], [-9, 9]]), ZEROS)),
    "fmod by 0": (lambda x, y: np.fmod(x, y), (np.int32([[5, 5], [-5, -5], [0, 0], [-9, 9]]), ZEROS)),
    "signs of zero quotients and remainders": (
        lambda x, y: np.copysign(np.float32(1), np.stack([x // y, x % y, np.fmod(x, y)])),
        (np.float32([-4, 4, -0.0, 0, 1, -1]), np.float32([2, -2, 3, -3, 5, -5])),
    ),
    "unsigned by 0": (
        lambda x, y: np.stack([x // y, x % y, np.fmod(x, y)]), (np.uint8([1, 200, 3]), np.uint8([0, 7, 255])),
    ),
    "powers of u8": (lambda x, y: x**y, (np.uint8([3, 7, 2, 0, 1, 3]), np.uint8([255, 128, 7, 0, 254, 127]))),
    "powers of u32": (lambda x, y: x**y, (np.uint32([3, 7, 2]), np.uint32([2**31 + 5, 2**32 - 1, 31]))),
    "float_power of integers": (lambda x: np.float_power(x, 3), (np.int8([-3, 0, 100]),)),
    "fabs of integers": (lambda x: np.fabs(x), (np.int32([-3, 0, 100]),)),
    "heaviside of integers": (lambda x: np.heaviside(x, 0.5), (np.int16([-3, 0, 100]),)),
    "square of conditions": (lambda x: np.square(x), (np.array([True, False]),)),
    "a square of conditions by the operator": (lambda x: x**2, (np.array([True, False]),)),
    "powers of conditions": (
        lambda x: np.stack([np.power(x, 2), x**3, x**True]) + x ** np.int8(2), (np.array([True, False]),),
    ),
    "powers of conditions to conditions": (lambda x, y: x**y, (BITS, BITS[::-1].copy())),
    **{f"{name} of conditions": (getattr(np, name), (BITS, BITS[::-1].copy()))
       for name in ("floor_divide", "remainder", "fmod", "left_shift", "right_shift")},
    **{f"{name} of conditions": (getattr(np, name), (BITS,)) for name in ("reciprocal", "conj")},
    "sign of zeros": (lambda x: np.copysign(np.float32(1), np.sign(x)), (np.float32([-0.0, 0, -2, 3]),)),
    **{f"{name} of axis {axis} of rank 0": (
            lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis), (np.array(3, np.float32),)
       )
       for name in ("sum", "prod", "max", "min", "ptp", "any", "all", "argmax", "argmin", "argsort", "cumsum",
                    "cumprod", "squeeze")
       for axis in (0, -1)},
    "parts of axes of rank 0": (
        lambda x: np.stack([np.take(x, [0, 0], axis=-1), np.repeat(x, 2, axis=0)]), (np.array(3, np.float32),)
    ),
    "rint of integers": (np.rint, (np.int16([-3, 0, 100]),)),
    "concatenate all": (lambda x, y: np.concatenate([x, y], axis=None), (F, G)),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_values_and_types_at_edges(name: str) -> None:
    function, args = EDGES[name]
    with np.errstate(all="ignore"):
        expected = np.asarray(function(*args))
    result = np.asarray(traced(function, *args))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
