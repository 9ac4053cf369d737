"""Random functions of PyTorch, exported with sizes that are known and sizes that calls decide, against eager mode."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from graph_programs import Array, Program
from written import Functions, Line, axes, axis, bounds, indices, order, width

import pydispatch as pd

UNARY = "relu sigmoid tanh abs neg exp erf sin floor sign square"
ACTIVATIONS = "gelu silu elu hardswish leaky_relu softplus mish hardtanh relu6 logsigmoid"


def _pool(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    kernel = rng.randint(1, 3)
    return {
        "kernel": kernel,
        "stride": rng.randint(1, 3),
        "padding": rng.randint(0, kernel // 2),
        "ceil": bool(rng.randrange(2)),
        "flag": bool(rng.randrange(2)),
    }


def _filters(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    kernel, channels = rng.randint(1, 3), shape[1]
    group = rng.choice([1, channels])
    return {
        **_pool(rng, shape, is_open),
        "filters": group * rng.randint(1, 2),
        "channels": channels // group,
        "kernel": kernel,
        "group": group,
        "padding": rng.randint(0, 2),
        "seed": rng.randrange(100),
    }


def _two(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"rows": rng.randint(1, 3), "columns": rng.randint(1, 3)}


def _sides(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"left": rng.randint(0, 2), "right": rng.randint(-1, 2)}


LINES = [
    *(Line(f"torch.{name}({{x}})") for name in UNARY.split()),
    *(Line(f"F.{name}({{x}})") for name in ACTIVATIONS.split()),
    *(Line(f"({{x}} {op} {{y}})") for op in ("+", "-", "*", ">", "<=")),
    Line("torch.maximum({x}, {y})"),
    Line("{x} * 0.5 + 1"),
    Line("torch.where({x} > 0, {x}, {y})"),
    Line("{x}.clamp(-0.5, 0.75)"),
    Line("{b}.to(torch.float32)"),
    Line("{i} * 2 - 1"),
    Line("{i}.to(torch.float32)"),
    Line("{x}.to(torch.int32).to(torch.float32)"),
    Line("{b}.logical_not()"),
    Line("F.max_pool2d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil})", (4, 4), _pool),
    Line("F.max_pool2d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil}, return_indices=True)", (4, 4), _pool, 2),
    Line("F.avg_pool2d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil}, count_include_pad={flag})", (4, 4), _pool),
    Line("F.adaptive_avg_pool2d({x}, ({rows}, {columns}))", (4, 4), _two),
    Line("F.adaptive_max_pool2d({x}, ({rows}, {columns}), return_indices=True)", (4, 4), _two, 2),
    *[
        Line(
            "F.conv2d({x}, weights({seed}, {filters}, {channels}, {kernel}, {kernel}), "
            "None, {stride}, {padding}, 1, {group})",
            (4, 4),
            _filters,
        )
    ]
    * 3,
    Line(
        "F.conv_transpose2d({x}, weights({seed}, {x}.shape[1], 2, {kernel}, {kernel}), None, {stride})",
        (4, 4),
        _filters,
    ),
    Line("F.linear({x}, weights({seed}, {width}, {n}), weights({seed}, {width}))", (2, 4), width),
    Line("{x} @ weights({seed}, {n}, {width})", (2, 4), width),
    Line("{x} @ {x}.transpose(-1, -2) * 0.2", (2, 4)),
    *(
        Line(f"{{x}}.{name}({{axes}}, keepdim={{keep}})", (2, 5), axes)
        for name in ("sum", "mean", "amax", "amin", "logsumexp")
    ),
    Line("{x}.var({axes}, keepdim={keep}, correction=0)", (2, 5), axes),
    Line("{x}.norm(dim={axis})", (2, 5), axis),
    Line("{x}.max({axis})", (2, 5), axis, 2),
    Line("{x}.argmin({axis}, keepdim=True)", (2, 5), axis),
    Line("{x}.cumsum({axis})", (1, 5), axis),
    Line("torch.softmax({x}, {axis})", (1, 5), axis),
    Line("torch.log_softmax({x}, {axis})", (1, 5), axis),
    Line("F.layer_norm({x}, {x}.shape[-1:])", (2, 5)),
    Line("F.group_norm({x}, 1)", (3, 4)),
    Line("F.instance_norm({x})", (3, 4)),
    Line("F.normalize({x}, dim={axis})", (2, 5), axis),
    Line("torch.sort({x}, {axis}, stable=True)", (1, 5), axis, 2),
    Line("{x}.flip({axis})", (1, 5), axis),
    Line("torch.topk({x}, 1, {axis})[0]", (1, 5), axis),
    Line("{x}.roll(1, {axis})", (1, 5), axis),
    Line("{x}.index_select({axis}, torch.tensor({indices}))", (1, 5), indices),
    Line("{x}[{index}]", (1, 5), bounds),
    Line("{x}.narrow({axis}, {start}, {count})", (1, 5), bounds),
    Line("{x}.permute({order})", (1, 5), order),
    Line("{x}.permute({order}).contiguous()", (1, 5), order),
    Line("{x}.flatten(1)", (2, 5)),
    Line("{x}.unsqueeze({axis})", (1, 4), axis),
    Line("torch.cat([{x}, {s}], {axis})", (1, 5), axis),
    Line("torch.stack([{x}, {s}], 1)", (1, 4)),
    Line("torch.chunk({x}, 2, {axis})", (2, 5), axis, 2),
    Line("F.pad({x}, ({left}, {right}))", (1, 5), _sides),
    Line("F.pad({x}, ({left}, 1), mode='reflect')", (2, 3), _sides),
    Line("F.pad({x}, (1, {left}, 0, 1), mode='replicate')", (4, 4), _sides),
    Line("{x}.repeat_interleave(2, {axis})", (1, 4), axis),
    Line("{x}.expand_as({s})"),
    Line("torch.tril({x})", (2, 4)),
    Line("F.pixel_shuffle(torch.cat([{x}] * 4, 1), 2)", (4, 4)),
    Line("F.interpolate({x}, scale_factor=2)", (4, 4)),
    Line("{x}.unfold({axis}, 2, 1)", (2, 4), axis),
    Line("F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)", (3, 4)),
    Line("torch.gather({x}, -1, {x}.argsort(-1, stable=True))"),
    Line("{x}.masked_fill({x} > 1, 0.25)"),
    Line("{x}.scatter_add(0, torch.zeros_like({x}, dtype=torch.int64), {s})"),
]


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class TorchModules(Functions):
    """Random functions, exported for one size, called with two."""

    lines = LINES
    names = {"torch": torch, "F": F}
    refusals = (RuntimeError, IndexError, TypeError)
    has_dynamic_sizes = True

    def shapes(self, rng: random.Random) -> list[tuple[int, ...]]:
        batch = rng.randint(2, 4)
        rest = [(3, 5, 6), (2, 4, 4), (4, 7), (5,), (2, 3, 2, 3)]
        return [(batch, *rng.choice(rest)) for _ in range(rng.randint(1, 2))]

    def tensor(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array)

    def array(self, tensor: torch.Tensor) -> Array:
        found: Array = tensor.contiguous().numpy()
        return found

    def loaded(self, function: Callable[..., Any], program: Program) -> Callable[..., Any]:
        given = tuple(torch.from_numpy(a) for a in program.sets[0].values())
        auto = torch.export.Dim.AUTO
        dynamic = ({d: auto for d in program.open_axes.get(name, ())} for name in program.sets[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(Module(function), given, dynamic_shapes=(tuple(dynamic),))
            found: Callable[..., Any] = pd.device("cpu").load(pd.from_torch(exported))["main"]
        return found
