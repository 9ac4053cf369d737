"""Operators that draw numbers: others in each call (`ops/random.py`), by their seeds where they state one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from pydispatch.frontends.graph.dtypes import F32, DType
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import random
from pydispatch.frontends.ops.formulas import formula


def _drawn(c: Call, shape: Sequence[Size]) -> tuple[Tensor, Tensor]:
    """Return two tensors of independent u32."""
    seed = int.from_bytes(struct.pack("<f", c.real("seed")), "little") if c.has("seed") else None
    return random.draw(c.b, shape, seed)


def _unit(c: Call, shape: Sequence[Size]) -> Tensor:
    """Return numbers from 0 up to 1."""
    return random.uniform(c.b, _drawn(c, shape)[0], F32)


def _uniform(c: Call, shape: Sequence[Size], to: DType) -> Tensor:
    low, high = c.real("low", 0.0), c.real("high", 1.0)
    return cast_to(c, formula(c.b, lambda v: v * (high - low) + low, _unit(c, shape)), to)


def _normal(c: Call, shape: Sequence[Size], to: DType) -> Tensor:
    mean, scale = c.real("mean", 0.0), c.real("scale", 1.0)
    made = random.normal(c.b, *_drawn(c, shape), F32)
    return cast_to(c, formula(c.b, lambda v: v * scale + mean, made), to)


Draw = Callable[[Call, Sequence[Size], DType], Tensor]


def _of_shape(draw: Draw) -> Conversion:
    def convert(c: Call) -> Tensor:
        shape = c.integers("shape")
        if any(not 0 <= n < 1 << 40 for n in shape):
            raise c.fail(f"its shape is {shape}")
        return draw(c, shape, dtype_of(c.integer("dtype", 1)))

    return convert


def _like(draw: Draw) -> Conversion:
    def convert(c: Call, x: Tensor) -> Tensor:
        return draw(c, x.shape, dtype_of(c.integer("dtype")) if c.has("dtype") else x.dtype)

    return convert


def _bernoulli(c: Call, x: Tensor) -> Tensor:
    """1 with the probability that each element states."""
    to = dtype_of(c.integer("dtype")) if c.has("dtype") else x.dtype
    return cast_to(c, formula(c.b, lambda v, p: (v < p.to(F32)).to(F32), _unit(c, x.shape), x), to)


TABLE: dict[str, Conversion] = {
    "RandomUniform": _of_shape(_uniform),
    "RandomUniformLike": _like(_uniform),
    "RandomNormal": _of_shape(_normal),
    "RandomNormalLike": _like(_normal),
    "Bernoulli": _bernoulli,
}
