"""Conversions of operators that draw random numbers, which differ in each call (`operations/random.py`). An attribute
`seed` replaces the program's seed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import F32, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import random
from pydispatch.operations.formulas import formula


def _drawn(call: NodeCall, shape: Sequence[Size]) -> tuple[Tensor, Tensor]:
    """Return two tensors of independent random u32 of a shape, for the attribute `seed` if the node has it."""
    # The seed is a float, whose bits serve as an integer: so that 0.25 and 0.75 differ.
    seed = int.from_bytes(struct.pack("<f", call.real("seed")), "little") if call.has("seed") else None
    return random.draw(call.b, shape, seed)


def _unit(call: NodeCall, shape: Sequence[Size]) -> Tensor:
    """Return f32 random numbers in [0, 1)."""
    return random.uniform(call.b, _drawn(call, shape)[0], F32)


def _uniform(call: NodeCall, shape: Sequence[Size], to: DType) -> Tensor:
    """Return random floats of the type `to`, uniform from the attribute `low` up to `high`, which is excluded."""
    if not to.is_float:
        raise call.fail(f"uniform random numbers of {to} are not defined")
    low, high = (call.b.constant(call.real(name, usual), to) for name, usual in (("low", 0.0), ("high", 1.0)))
    return random.between(call.b, _unit(call, shape), low, high)


def _normal(call: NodeCall, shape: Sequence[Size], to: DType) -> Tensor:
    """Return random numbers of the type `to`, normal with the attributes `mean` and `scale` (standard deviation)."""
    mean, scale = call.real("mean", 0.0), call.real("scale", 1.0)
    first, second = _drawn(call, shape)
    samples = random.normal(call.b, first, second, F32)
    return cast_to(call, formula(call.b, lambda v: v * scale + mean, samples), to)


Draw = Callable[[NodeCall, Sequence[Size], DType], Tensor]
"""Function draw(call, shape, type) -> random numbers."""


def _of_shape(draw: Draw, call: NodeCall) -> Tensor:
    """Draw a tensor of the shape and the type in attributes; the default is f32 (code 1)."""
    shape = call.integers("shape")
    if any(not 0 <= n < 1 << 40 for n in shape):  # 2^40 elements exceed any memory
        raise call.fail(f"its shape is {shape}; expected sizes from 0 to below 2**40")
    return draw(call, shape, dtype_of(call.integer("dtype", 1)))


def _like(draw: Draw, call: NodeCall, x: Tensor) -> Tensor:
    """Draw a tensor of the shape of x, and of the type in the attribute `dtype`, by default that of x."""
    return draw(call, x.shape, dtype_of(call.integer("dtype")) if call.has("dtype") else x.dtype)


@ONNX.converts("Bernoulli")
def _bernoulli(call: NodeCall, x: Tensor) -> Tensor:
    """Return for each element of x 1 with the probability that the element states, else 0."""
    to = dtype_of(call.integer("dtype")) if call.has("dtype") else x.dtype
    return cast_to(call, formula(call.b, lambda v, p: (v < p.to(F32)).to(F32), _unit(call, x.shape), x), to)


ONNX.register({
    "RandomUniform": partial(_of_shape, _uniform),
    "RandomUniformLike": partial(_like, _uniform),
    "RandomNormal": partial(_of_shape, _normal),
    "RandomNormalLike": partial(_like, _normal),
})  # fmt: skip
