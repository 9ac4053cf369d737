"""Runs functions over tensors with NumPy, element by element: slow, and obviously right. For tests only.

`run(module, name, *arguments)` takes and gives arrays and numbers. It knows the core that normalisation leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

Env = dict[SSAValue, Any]
_FLOATS = {Float16Type: np.float16, Float32Type: np.float32, Float64Type: np.float64, BFloat16Type: np.float32}


def dtype_of(type: Attribute) -> Any:
    """The NumPy type that holds one element."""
    if isinstance(type, IndexType):
        return np.int64
    if isinstance(type, IntegerType):
        width = type.width.data
        return np.bool_ if width == 1 else np.dtype(f"i{max(8, width) // 8}").type
    return _FLOATS[type.__class__]


def wrap(type: Attribute, value: Any) -> Any:
    """A result as its type holds it."""
    if isinstance(type, IntegerType) and type.width.data > 1:
        bits = type.width.data
        value = (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    if isinstance(type, IntegerType) and type.width.data == 1:
        return np.bool_(int(value) & 1)
    with np.errstate(over="ignore"):
        return dtype_of(type)(value)


def unsigned(value: SSAValue, env: Env) -> int:
    """An integer operand without its sign."""
    width = value.type.width.data if isinstance(value.type, IntegerType) else 64
    return int(env[value]) % (1 << width)


def _erf(x: Any) -> float:
    return math.erf(float(x))


_SCALAR: dict[str, Callable[..., Any]] = {
    "arith.addf": lambda a, b: a + b, "arith.subf": lambda a, b: a - b, "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b, "arith.negf": lambda a: -a,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.addi": lambda a, b: int(a) + int(b), "arith.subi": lambda a, b: int(a) - int(b),
    "arith.muli": lambda a, b: int(a) * int(b), "arith.divsi": lambda a, b: int(int(a) / int(b)),
    "arith.maxsi": max, "arith.minsi": min, "arith.andi": lambda a, b: int(a) & int(b),
    "arith.ori": lambda a, b: int(a) | int(b), "arith.select": lambda c, a, b: a if c else b,
    "arith.extsi": lambda a: a, "arith.trunci": lambda a: a, "arith.extf": lambda a: a, "arith.truncf": lambda a: a,
    "arith.sitofp": lambda a: a, "arith.fptosi": lambda a: int(a), "arith.fptoui": lambda a: int(a),
    "arith.index_cast": lambda a: a,
    "math.exp": np.exp, "math.log": np.log, "math.sqrt": np.sqrt, "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "math.tanh": np.tanh, "math.powf": np.power,
    "math.round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a), "math.erf": _erf,
}  # fmt: skip
_UNSIGNED: dict[str, Callable[..., Any]] = {
    "arith.divui": lambda a, b: a // b, "arith.remui": lambda a, b: a % b, "arith.maxui": max, "arith.minui": min,
    "arith.extui": lambda a: a, "arith.uitofp": lambda a: a,
}  # fmt: skip
_COMPARE = {2: lambda a, b: a < b, 4: lambda a, b: a > b, 0: lambda a, b: a == b}


def run(module: ModuleOp, name: str, *arguments: Any) -> list[Any]:
    """The results of a function."""
    (function,) = [op for op in module.walk() if op.name == "func.func" and op.sym_name.data == name]  # type: ignore[attr-defined]
    block = function.regions[0].block
    return evaluate(block, dict(zip(block.args, arguments, strict=True)), ())


def evaluate(block: Block, env: Env, point: tuple[int, ...]) -> list[Any]:
    """The operands of the end of a block. point: where `linalg.index` is."""
    for op in block.ops:
        if op.name in ("func.return", "util.return", "linalg.yield", "tensor.yield"):
            return [env[o] for o in op.operands]
        results = _operation(op, env, point)
        for result, value in zip(op.results, results, strict=True):
            env[result] = value
    raise AssertionError("no end")


def _operation(op: Operation, env: Env, point: tuple[int, ...]) -> list[Any]:
    values = [env[o] for o in op.operands]
    if op.name in _SCALAR or op.name in _UNSIGNED:
        function = _SCALAR.get(op.name) or _UNSIGNED[op.name]
        if op.name in _UNSIGNED:
            values = [unsigned(o, env) for o in op.operands]
        with np.errstate(all="ignore"):
            return [wrap(op.results[0].type, function(*values))]
    return _SPECIAL[op.name](op, values, env, point)


def shape_of(type: Attribute, sizes: list[int]) -> tuple[int, ...]:
    assert isinstance(type, TensorType)
    dynamic = iter(sizes)
    return tuple(next(dynamic) if s < 0 else s for s in type.get_shape())


def _constant(op: Any, values: list[Any], env: Env, point: tuple[int, ...]) -> list[Any]:
    type = op.results[0].type
    if isinstance(type, TensorType):
        return [np.array(op.value.get_values(), dtype_of(type.element_type)).reshape(type.get_shape())]
    return [wrap(type, op.value.value.data)]


def _generic(op: Any, values: list[Any], env: Env, point: tuple[int, ...]) -> list[Any]:
    maps = [m.data for m in op.indexing_maps]
    sizes: dict[int, int] = {}
    for value, map in zip(values, maps, strict=True):
        for size, expression in zip(np.shape(value), map.results, strict=True):
            if hasattr(expression, "position"):
                assert sizes.setdefault(expression.position, size) == size, "sizes differ"
    count = len(op.iterator_types)
    inputs = len(op.inputs)
    outputs = [np.array(v) for v in values[inputs:]]
    for at in np.ndindex(*(sizes[d] for d in range(count))):
        elements = [v[m.eval(at, [])] if np.ndim(v) else np.asarray(v)[()]
                    for v, m in zip([*values[:inputs], *outputs], maps, strict=True)]  # fmt: skip
        inner = {**env, **dict(zip(op.body.block.args, elements, strict=True))}
        for out, map, value in zip(outputs, maps[inputs:], evaluate(op.body.block, inner, at), strict=True):
            out[map.eval(at, [])] = value
    return outputs


def _pad(op: Any, values: list[Any], env: Env, point: tuple[int, ...]) -> list[Any]:
    source = values[0]
    dynamic = iter(values[1:])
    sides = (op.static_low, op.static_high)
    low, high = ([next(dynamic) if s < 0 else int(s) for s in side.get_values()] for side in sides)
    out = np.empty([n + a + b for n, a, b in zip(source.shape, low, high, strict=True)], source.dtype)
    block = op.regions[0].block
    for at in np.ndindex(*out.shape):
        out[at] = evaluate(block, {**env, **dict(zip(block.args, at, strict=True))}, point)[0]
    out[tuple(slice(a, a + n) for a, n in zip(low, source.shape, strict=True))] = source
    return [out]


def _filled(op: Any, values: list[Any], env: Env, point: tuple[int, ...]) -> list[Any]:
    """tensor.splat, and tensor.empty, which is filled with what no test may see."""
    type = op.results[0].type
    splat = op.name == "tensor.splat"
    dtype = dtype_of(type.element_type)
    fill = values[0] if splat else np.nan if np.issubdtype(dtype, np.floating) else dtype(1)
    return [np.full(shape_of(type, values[1:] if splat else values), fill, dtype)]


_SPECIAL: dict[str, Callable[[Any, list[Any], Env, tuple[int, ...]], list[Any]]] = {
    "arith.constant": _constant,
    "arith.cmpi": lambda op, v, env, at: [_COMPARE[op.predicate.value.data](int(v[0]), int(v[1]))],
    "linalg.generic": _generic,
    "linalg.index": lambda op, v, env, at: [at[op.dim.value.data]],
    "tensor.pad": _pad,
    "tensor.splat": _filled,
    "tensor.empty": _filled,
    "tensor.cast": lambda op, v, env, at: [v[0]],
    "tensor.dim": lambda op, v, env, at: [v[0].shape[int(v[1])]],
    "tensor.extract": lambda op, v, env, at: [v[0][tuple(int(i) for i in v[1:])]],
    "util.optimization_barrier": lambda op, v, env, at: v,
}
