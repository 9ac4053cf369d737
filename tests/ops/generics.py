"""Elementwise operations, reductions, softmax and chains of them, with what NumPy makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from harness import DTYPES, FLOATS, Array, Body, Value

# how far a result may be from NumPy's, which computes in f64
ROUGH = {"f16": 4e-3, "bf16": 3e-2, "f32": 4e-6, "f64": 1e-13}

UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negf": np.negative, "exp": np.exp, "log": np.log,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square, "reciprocal": lambda x: 1 / x,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "powf": np.power,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Array]] = {
    "arith.addi": np.add.reduce, "arith.muli": np.multiply.reduce, "arith.maxsi": np.maximum.reduce,
    "arith.minsi": np.minimum.reduce, "arith.xori": np.bitwise_xor.reduce, "arith.andi": np.bitwise_and.reduce,
    "arith.ori": np.bitwise_or.reduce, "arith.addf": np.add.reduce, "arith.mulf": np.multiply.reduce,
    "arith.maximumf": np.maximum.reduce, "arith.minimumf": np.minimum.reduce, "arith.maxnumf": np.maximum.reduce,
}  # fmt: skip


def elementwise(body: Body, op: str, shape: Sequence[int], element: str) -> None:
    """A named operation on fractions; what needs them is given positive ones."""
    positive = op in ("log", "sqrt", "rsqrt", "powf", "reciprocal", "div")
    count = 2 if op in BINARY else 1
    values: list[Value] = []
    arrays: list[Array] = []
    for _ in range(count):
        array = body.random.standard_normal(tuple(shape)) * 2
        array = np.abs(array) + 0.25 if positive else array
        array = array.astype(DTYPES[element])
        values.append(body.input(array, element))
        arrays.append(array.astype(np.float64))
    wanted = (BINARY if count == 2 else UNARY)[op](*arrays)
    result = body.named(op, values, body.empty(shape, element))
    body.expect(result, wanted, rtol=ROUGH[element] * 4, atol=ROUGH[element])


def reduction(body: Body, op: str, shape: Sequence[int], axes: Sequence[int], element: str) -> None:
    """linalg.reduce over `axes`, onto what is already there."""
    value, array = body.numbers(shape, element, -3, 4)
    kept = [n for i, n in enumerate(shape) if i not in axes]
    out, start = body.numbers(kept, element, 1, 3)
    result = body.value(
        f"linalg.reduce {{ {op} }} ins({value} : {body.type_of(value)}) outs({out} : {body.type_of(out)}) "
        f"dimensions = {list(axes)}",
        kept, element,
    )  # fmt: skip
    exact = np.float64 if element in FLOATS else array.dtype
    count = math.prod(shape[a] for a in axes)
    joined = np.concatenate([
        np.moveaxis(array.astype(exact), axes, range(len(axes))).reshape([count, *kept]), start.astype(exact)[None],
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        body.expect(result, np.asarray(REDUCTIONS[op](joined, axis=0, dtype=exact)))


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


def softmax(body: Body, shape: Sequence[int], axis: int, element: str) -> None:
    value, array = body.fractions(shape, element)
    result = body.named("softmax", [value], body.empty(shape, element), f"dimension({axis})")
    body.expect(result, _softmax(array.astype(np.float64), axis), rtol=ROUGH[element] * 8, atol=ROUGH[element])


def layer_norm(body: Body, rows: int, columns: int) -> None:
    """Mean, variance, 1/sqrt and an affine map at the end."""
    value, array = body.fractions([rows, columns], "f32")
    (gain, g), (shift, s) = body.fractions([columns], "f32"), body.fractions([columns], "f32")
    count, small = body.scalar(columns, "f32"), body.scalar(1e-5, "f32")
    to_row, whole = "(d0, d1) -> (d0)", "(d0, d1) -> (d0, d1)"
    add = "%s = arith.addf %a0, %o0 : f32\nlinalg.yield %s : f32"
    (total,) = body.generic([whole, to_row], "pr", [value], [body.filled(0, [rows], "f32")], add)
    (mean,) = body.generic(
        ["(d0) -> (d0)"] * 2, "p", [total], [body.empty([rows], "f32")],
        f"%m = arith.divf %a0, {count} : f32\nlinalg.yield %m : f32",
    )  # fmt: skip
    (centred,) = body.generic(
        [whole, to_row, whole], "pp", [value, mean], [body.empty([rows, columns], "f32")],
        "%d = arith.subf %a0, %a1 : f32\nlinalg.yield %d : f32",
    )  # fmt: skip
    (spread,) = body.generic(
        [whole, to_row], "pr", [centred], [body.filled(0, [rows], "f32")],
        "%q = arith.mulf %a0, %a0 : f32\n%s = arith.addf %q, %o0 : f32\nlinalg.yield %s : f32",
    )  # fmt: skip
    (result,) = body.generic(
        [whole, to_row, "(d0, d1) -> (d1)", "(d0, d1) -> (d1)", whole], "pp", [centred, spread, gain, shift],
        [body.empty([rows, columns], "f32")],
        f"""%v = arith.divf %a1, {count} : f32
        %w = arith.addf %v, {small} : f32
        %r = math.rsqrt %w : f32
        %n = arith.mulf %a0, %r : f32
        %k = arith.mulf %n, %a2 : f32
        %y = arith.addf %k, %a3 : f32
        linalg.yield %y : f32""",
    )  # fmt: skip
    x = array.astype(np.float64)
    centre = x - x.mean(1, keepdims=True)
    wanted = centre / np.sqrt((centre**2).mean(1, keepdims=True) + 1e-5) * g + s
    body.expect(result, wanted, rtol=1e-4, atol=1e-5)


def attention(body: Body, batch: int, queries: int, keys: int, width: int) -> None:
    """softmax(Q K^T) V."""
    (q, qa), (k, ka) = body.fractions([batch, queries, width], "f32"), body.fractions([batch, keys, width], "f32")
    v, va = body.fractions([batch, keys, width], "f32")
    scores = body.named("batch_matmul_transpose_b", [q, k], body.filled(0, [batch, queries, keys], "f32"))
    weights = body.named("softmax", [scores], body.empty([batch, queries, keys], "f32"), "dimension(2)")
    result = body.named("batch_matmul", [weights, v], body.filled(0, [batch, queries, width], "f32"))
    q64, k64, v64 = (a.astype(np.float64) for a in (qa, ka, va))
    body.expect(result, _softmax(np.einsum("bqd,bkd->bqk", q64, k64), 2) @ v64, rtol=1e-4, atol=1e-5)
