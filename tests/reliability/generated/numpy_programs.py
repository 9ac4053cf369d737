"""Random programs in Python, traced and compiled, against NumPy itself: values, shapes and element types."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from graph_programs import Array, Program
from written import Functions, Line, axes, axis, bounds, indices, order, width

import pydispatch as pd

UNARY = "tanh absolute negative exp sin cos floor ceil rint sign square expm1 arctan sinh exp2 cbrt trunc nan_to_num"
BINARY = "add subtract multiply maximum minimum hypot logaddexp arctan2 copysign fmax heaviside fmod remainder"
INTEGERS = "+ - * & | ^ // % << >>"
WIDTHS = "int8 int16 int32 int64 uint8 uint32"


def _degrees_of_freedom(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {**axis(rng, shape, is_open), "ddof": rng.choice([0, 1, shape[-1], 9])}


def _diagonal(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"k": rng.randint(-2, 2)}


def _pads(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"pads": [(rng.randint(0, 2), rng.randint(0, 1)) for _ in shape], "mode": rng.choice(["constant", "edge"])}


def _types(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"one": rng.choice(WIDTHS.split()), "other": rng.choice(WIDTHS.split())}


LINES = [
    *(Line(f"np.{name}({{x}})", (0, 5)) for name in UNARY.split()),
    *(Line(f"np.{name}({{x}}, {{y}})", (0, 5)) for name in BINARY.split()),
    *(Line(f"({{x}} {op} {{y}})", (0, 5)) for op in ("+", "-", "*", ">", "<=", "//")),
    *(Line(f"({{i}}.astype(np.{{one}}) {op} 3)", (0, 5), _types) for op in INTEGERS.split()),
    *(Line(f"({{i}}.astype(np.{{one}}) {op} ({{i}} + 7).astype(np.{{other}})[:1])", (0, 5), _types) for op in "+-*"),
    Line("np.hypot({i}.astype(np.{one}), {b}[..., :1])", (0, 5), _types),
    Line("np.round({b})"),
    Line("{i} / 4"),
    Line("~{b}"),
    Line("{b} & ({x}.sum() > 0)"),
    Line("{b}.astype(np.float32)"),
    Line("{x}.astype(np.int64)", (0, 5)),
    Line("np.where({x} > 0, {x}, {y})"),
    Line("np.clip({x}, -0.5, 0.75)"),
    Line("({x} @ weights({seed}, {n}, {width}))", (1, 4), width),
    *(Line(f"{{x}}.{name}({{axes}}, keepdims={{keep}})", (1, 5), axes) for name in ("sum", "mean", "max", "min")),
    *(Line(f"{{i}}.{name}(axis=-1)") for name in ("sum", "prod", "max", "mean", "all")),
    Line("np.var({x}, axis={axis}, ddof={ddof})", (1, 5), _degrees_of_freedom),
    Line("np.argmax({x}, axis={axis})", (1, 5), axis),
    Line("np.cumsum({x}, axis={axis})", (1, 5), axis),
    Line("np.sort({x}, axis={axis})", (1, 5), axis),
    Line("np.flip({x}, axis={axis})", (1, 5), axis),
    Line("np.roll({x}, 1, axis={axis})", (1, 5), axis),
    Line("np.diff({x}, axis={axis})", (1, 5), axis),
    Line("np.take({x}, {indices}, axis={axis})", (1, 5), indices),
    Line("np.repeat({x}, 2, axis={axis})", (1, 4), axis),
    Line("{x}[{index}]", (1, 5), bounds),
    Line("{x}[..., ::-1]", (1, 5)),
    Line("{x}[..., {i} % 2]", (1, 2)),
    Line("{x}.transpose({order})", (1, 5), order),
    Line("{x}.reshape({x}.shape[0], -1)", (2, 5)),
    Line("np.expand_dims({x}, {axis})", (1, 4), axis),
    Line("np.concatenate([{x}, {s}], axis={axis})", (1, 5), axis),
    Line("np.stack([{x}, {s}], axis=-1)", (0, 4)),
    Line("np.pad({x}, {pads}, mode='{mode}')", (1, 4), _pads),
    Line("np.tile({x}, 2)", (1, 4)),
    Line("np.tril({x}, {k})", (1, 4), _diagonal),
    Line("np.triu({x}, {k})", (1, 4), _diagonal),
    Line("np.outer({x}, {x})", (1, 2)),
    Line("np.einsum('...ij,...kj->...ik', {x}, {x}) * 0.2", (2, 4)),
]


class NumpyPrograms(Functions):
    """Random programs, compiled for one size or for any first size."""

    lines = LINES
    names = {"np": np}
    refusals = (ValueError, TypeError, IndexError, OverflowError)
    has_dynamic_sizes = True

    def shapes(self, rng: random.Random) -> list[tuple[int, ...]]:
        batch = rng.randint(2, 4)
        rest = [(3, 5, 6), (4, 7), (5,), (1, 3), ()]
        return [(batch, *rng.choice(rest)) for _ in range(rng.randint(1, 3))]

    def tensor(self, array: Array) -> Array:
        return array

    def array(self, tensor: Array) -> Array:
        return np.asarray(tensor)

    def evaluate(self, text: str, arrays: Any, exact: bool = False) -> list[Array]:
        with np.errstate(all="ignore"):
            return super().evaluate(text, arrays, exact)

    def loaded(self, function: Callable[..., Any], program: Program) -> Callable[..., Any]:
        for name, array in program.sets[0].items():
            is_open = 0 in program.open_axes.get(name, ())
            shape = ("n", *array.shape[1:]) if is_open else array.shape
            function.__annotations__[name] = Annotated[np.ndarray, pd.f32[shape]]
        found: Callable[..., Any] = pd.device("cpu").load(pd.compile(pd.program(function)))["f"]
        return found
