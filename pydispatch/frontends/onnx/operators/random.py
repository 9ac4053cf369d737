"""Operators that draw numbers. Each draws the same ones in every call: those of its seed, or of its name."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Sequence

from pydispatch.frontends.graph.dtypes import F32, U64, DType
from pydispatch.frontends.graph.sizes import Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, shapes
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.random import threefry
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars


def _drawn(c: Call, shape: Sequence[Size]) -> list[Tensor]:
    """Two tensors of independent numbers from 0 to 1, without 1."""
    if c.has("seed"):
        seed = int.from_bytes(struct.pack("<f", c.real("seed")), "little")
    else:
        seed = zlib.crc32("\0".join([c.node.name, *c.node.output]).encode())

    def bits(s: Scalars, number: Scalar) -> tuple[Scalar, Scalar]:
        return threefry(s, s.const(seed, U64), number)

    numbers = shapes.iota(c.b, [product(shape)], 0, U64)
    parts = elementwise.apply_several(c.b, bits, numbers)
    # 24 bits, as many as a float has.
    floats = [formula(c.b, lambda v: v.binary("shift_right_logical", 8).to(F32) * 2.0**-24, p) for p in parts]
    return [shapes.reshape(c.b, t, shape) for t in floats]


def _uniform(c: Call, shape: Sequence[Size], to: DType) -> Tensor:
    low, high = c.real("low", 0.0), c.real("high", 1.0)
    return cast_to(c, formula(c.b, lambda v: v * (high - low) + low, _drawn(c, shape)[0]), to)


def _normal(c: Call, shape: Sequence[Size], to: DType) -> Tensor:
    """By the method of Box and Muller."""
    mean, scale = c.real("mean", 0.0), c.real("scale", 1.0)
    made = formula(
        c.b,
        lambda u, v: ((1.0 - u).of("log") * -2.0).of("sqrt") * (v * (2 * math.pi)).of("cos") * scale + mean,
        *_drawn(c, shape),
    )
    return cast_to(c, made, to)


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
    return cast_to(c, formula(c.b, lambda v, p: (v < p.to(F32)).to(F32), _drawn(c, x.shape)[0], x), to)


TABLE: dict[str, Conversion] = {
    "RandomUniform": _of_shape(_uniform),
    "RandomUniformLike": _like(_uniform),
    "RandomNormal": _of_shape(_normal),
    "RandomNormalLike": _like(_normal),
    "Bernoulli": _bernoulli,
}
