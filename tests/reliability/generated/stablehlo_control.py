"""StableHLO operations with regions of their own: while, if, case, and sorts of several operands."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from graph_programs import Array
from stablehlo_form import Attributes, Form, Types, any_axis, region

STEPS: dict[str, tuple[Callable[[Array, Array], Array], str]] = {
    "halved": (lambda x, y: x * x.dtype.type(0.5), "$_h = stablehlo.constant dense<0.5> : {t}\n"
               "{r} = stablehlo.multiply {x}, $_h : {t}"),
    "bounded": (lambda x, y: np.tanh(x), "{r} = stablehlo.tanh {x} : {t}"),
    "larger": (np.maximum, "{r} = stablehlo.maximum {x}, {y} : {t}"),
    "mixed": (lambda x, y: np.tanh(x + y) - y, "{r}_s = stablehlo.add {x}, {y} : {t}\n"
              "{r}_t = stablehlo.tanh {r}_s : {t}\n{r} = stablehlo.subtract {r}_t, {y} : {t}"),
}  # fmt: skip
"""What a body computes from two tensors: in NumPy, and its lines for {r}. "halved" needs a static type."""


def _chosen(is_open: bool) -> list[str]:
    return [name for name in STEPS if not (is_open and name == "halved")]


def _largest(name: str, type_: str, rank: int) -> str:
    """Lines of `$_m`, the largest element."""
    return (
        "$_e = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        f"$_m = stablehlo.reduce({name} init: $_e) applies stablehlo.maximum across dimensions = {list(range(rank))} : "
        f"({type_}, tensor<f32>) -> tensor<f32>\n"
    )


def _rank(type_: str) -> int:
    return type_.count("x")


def _is_near(x: Array, limits: Sequence[float]) -> bool:
    return bool(x.size) and any(abs(float(x.max()) - limit) < 1e-3 for limit in limits)


def _branch(step: str, x: str, y: str, type_: str, name: str) -> str:
    """A region without arguments; it reads values from around it."""
    lines = STEPS[step][1].format(r=name, x=x, y=y, t=type_).replace("$_h", f"{name}_h")
    return f'{{\n{lines}\n"stablehlo.return"({name}) : ({type_}) -> ()\n}}'


def _if(names: Types, types: Types, result: str, a: Attributes) -> str:
    x, y = names
    regions = [_branch(step, x, y, result, f"$_{n}") for n, step in enumerate(a["steps"])]
    return (
        _largest(x, types[0], _rank(types[0])) + "$_l = stablehlo.constant dense<0.5> : tensor<f32>\n"
        "$_p = stablehlo.compare GT, $_m, $_l : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        f'$ = "stablehlo.if"($_p) ({", ".join(regions)}) : (tensor<i1>) -> {result}'
    )


def _floor(name: str, type_: str, low: int, high: int, result: str) -> str:
    """Lines of an i32: the floor of the largest element between bounds."""
    return (
        f"{_largest(name, type_, _rank(type_))}$_a = stablehlo.constant dense<{low}.0> : tensor<f32>\n"
        f"$_b = stablehlo.constant dense<{high}.0> : tensor<f32>\n$_k = stablehlo.clamp $_a, $_m, $_b : tensor<f32>\n"
        f"$_f = stablehlo.floor $_k : tensor<f32>\n"
        f"{result} = stablehlo.convert $_f : (tensor<f32>) -> tensor<i32>\n"
    )


def _case(names: Types, types: Types, result: str, a: Attributes) -> str:
    x, y = names
    regions = [_branch(step, x, y, result, f"$_{n}") for n, step in enumerate(a["steps"])]
    return (
        f"{_floor(x, types[0], -9, 9, '$_i')}"
        f'$ = "stablehlo.case"($_i) ({", ".join(regions)}) : (tensor<i32>) -> {result}'
    )


def _chosen_case(x: Array, y: Array, steps: Sequence[str]) -> Array:
    number = int(np.floor(np.clip(x.max(initial=-np.inf), -9, 9)))
    step = steps[number] if 0 <= number < len(steps) else steps[-1]
    return STEPS[step][0](x, y)


def _counted(x: Array, y: Array, step: str, count: int | None) -> Array:
    times = int(np.floor(np.clip(x.max(initial=-np.inf), 0, 4))) if count is None else count
    for _ in range(times):
        x = STEPS[step][0](x, y)
    return np.negative(x)


def _while(names: Types, types: Types, result: str, a: Attributes) -> str:
    """A loop that carries both operands, of a stated count or one that the first operand says."""
    number, truth = "tensor<i32>", "tensor<i1>"
    carried = [("$_i", number), ("$_x", result), ("$_y", result)]
    condition = region(carried, f"$_p = stablehlo.compare LT, $_i, $_n : ({number}, {number}) -> {truth}", "$_p", truth)
    other = [(f"{name}0", kind) for name, kind in carried]
    body = STEPS[a["step"]][1].format(r="$_r", x="$_x0", y="$_y0", t=result)
    kinds = f"{number}, {result}, {result}"
    given = ", ".join(f"{name}: {kind}" for name, kind in other)
    loop = (
        f"{{\n^bb0({given}):\n{body}\n$_j = stablehlo.add $_i0, $_one : {number}\n"
        f'"stablehlo.return"($_j, $_r, $_y0) : ({kinds}) -> ()\n}}'
    )
    count = f"$_n = stablehlo.constant dense<{a['count']}> : {number}\n"
    if a["count"] is None:
        count = _floor(names[0], types[0], 0, 4, "$_n")
    return (
        f"$_zero = stablehlo.constant dense<0> : {number}\n$_one = stablehlo.constant dense<1> : {number}\n"
        f"{count}"
        f'$_w:3 = "stablehlo.while"($_zero, {", ".join(names)}) ({condition}, {loop}) : ({kinds}) -> ({kinds})\n'
        f"$ = stablehlo.negate $_w#1 : {result}"
    )


def _sorted_pair(x: Array, i: Array, axis: int, descending: bool) -> Array:
    keys = -x if descending else x
    return -np.take_along_axis(i, np.argsort(keys, axis, kind="stable"), axis)


def _sort(names: Types, types: Types, result: str, a: Attributes) -> str:
    """The second operand in the order of the first."""
    f, i = "tensor<f32>", "tensor<i32>"
    order = f"$_o = stablehlo.compare {'GT' if a['descending'] else 'LT'}, $_a, $_b : ({f}, {f}) -> tensor<i1>"
    compared = region([("$_a", f), ("$_b", f), ("$_c", i), ("$_d", i)], order, "$_o", "tensor<i1>")
    kinds = ", ".join(types)
    return (
        f'$_s:2 = "stablehlo.sort"({", ".join(names)}) ({compared}) {{dimension = {a["axis"]} : i64, '
        f"is_stable = true}} : ({kinds}) -> ({kinds})\n$ = stablehlo.negate $_s#1 : {result}"
    )


def _two_steps(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if _is_near(given[0], (0.5,)):
        raise ValueError("a condition that rounding decides")
    return {"steps": rng.choices(_chosen(is_open), k=2)}


def _three_steps(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if _is_near(given[0], range(-9, 10)):
        raise ValueError("a choice that rounding decides")
    return {"steps": rng.choices(_chosen(is_open), k=3)}


def _count(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    count = None if rng.randrange(2) and not _is_near(given[0], range(5)) else rng.randint(0, 4)
    return {"step": rng.choice(_chosen(is_open)), "count": count}


def _order(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    return {**any_axis(rng, given, is_open), "descending": bool(rng.randrange(2))}


def _either(x: Array, y: Array, steps: Sequence[str]) -> Any:
    return STEPS[steps[0] if x.max(initial=-np.inf) > 0.5 else steps[1]][0](x, y)


CONTROL: dict[str, Form] = {
    "if": Form("ff", _either, _if, _two_steps),
    "case": Form("ff", _chosen_case, _case, _three_steps),
    "while": Form("ff", _counted, _while, _count),
    "sort_pair": Form("fi", _sorted_pair, _sort, _order),
}
