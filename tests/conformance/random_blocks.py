"""Random networks: blocks of layers as frontends write them, with what NumPy makes of them in double precision.

Their groups are those that `random_programs` does not reach: several reductions over the same rows (softmax, norms,
attention), reshapes and transposes between producers and consumers, dimensions of size 1, vectors that are broadcast
along channels, slices that are written in place, products of vectors, of narrow weights, and with something computed
from their results, and convolutions with padding.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32, dtype_of_numpy
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, products, reductions, shapes, slicing
from pydispatch.operations.gathers import take
from pydispatch.operations.indexing import dynamic_update_slice, insert_slice

UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh, "exp": np.exp, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda v: v**-0.5,
    "cos": np.cos, "sin": np.sin,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
REDUCE: dict[str, Callable[..., Any]] = {"add": np.sum, "max": np.max, "min": np.min}

TOLERANCE = 1e-3
"""Of the largest element: everything stays near 1, and no step makes an error more than a few times larger."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the program and its elements; what is computed of it is computed on both sides."""

    b: Builder
    tensor: Tensor
    array: NDArray[Any]

    def made(self, tensor: Tensor, array: NDArray[Any]) -> Value:
        return Value(self.b, tensor, array)

    def un(self, name: str) -> Value:
        return self.made(elementwise.unary(self.b, name, self.tensor), UNARY[name](self.array))

    def bi(self, name: str, y: Value | float) -> Value:
        other = y if isinstance(y, Value) else self.made(self.b.constant(np.float32(y)), np.float64(y))
        made = elementwise.binary(self.b, name, self.tensor, other.tensor)
        return self.made(made, BINARY[name](self.array, other.array))

    def __add__(self, y: Value | float) -> Value:
        return self.bi("add", y)

    def __sub__(self, y: Value | float) -> Value:
        return self.bi("sub", y)

    def __mul__(self, y: Value | float) -> Value:
        return self.bi("mul", y)

    def __truediv__(self, y: Value | float) -> Value:
        return self.bi("div", y)

    def __matmul__(self, y: Value) -> Value:
        return self.made(products.matmul(self.b, self.tensor, y.tensor), self.array @ y.array)

    def reduce(self, name: str, *axes: int) -> Value:
        """Along axes, which stay with size 1."""
        made = reductions.reduce(self.b, name, self.tensor, axes, keep=True)
        return self.made(made, REDUCE[name](self.array, axes, keepdims=True))

    def mean(self, *axes: int) -> Value:
        return self.reduce("add", *axes) / float(np.prod([self.array.shape[axis] for axis in axes]))

    def variance(self, *axes: int) -> Value:
        centred = self - self.mean(*axes)
        return (centred * centred).mean(*axes)

    def transpose(self, *order: int) -> Value:
        return self.made(shapes.transpose(self.b, self.tensor, order), self.array.transpose(order))

    def slice(self, axis: int, start: int, limit: int) -> Value:
        taken = [slice(None)] * self.array.ndim
        taken[axis] = slice(start, limit)
        return self.made(slicing.slice_axis(self.b, self.tensor, axis, start, limit), self.array[tuple(taken)])

    def concat(self, axis: int, other: Value) -> Value:
        made = slicing.concat(self.b, [self.tensor, other.tensor], axis)
        return self.made(made, np.concatenate([self.array, other.array], axis))


class Network:
    """A function that grows block by block over values of (batch, length, channels)."""

    def __init__(self, seed: int, dynamic: bool) -> None:
        """dynamic: batch and length are sizes that the call decides."""
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.batch, self.length = self.rng.choice([1, 1, 2, 3]), self.rng.choice([1, 4, 6, 9, 16])
        self.heads = self.rng.choice([1, 2, 4])
        self.channels = c = self.heads * self.rng.choice([2, 4, 8])
        self.steps: list[str] = []
        shape = self.batch, self.length, c
        self.arrays: dict[str, NDArray[Any]] = {name: self._normal(*shape) for name in "xy"}
        self.arrays |= {f"w{n}": self._normal(c, c) * np.float32(c**-0.5) for n in range(2)}
        self.arrays |= {f"v{n}": self._normal(c) for n in range(3)}
        self.arrays["rows"] = self.numbers.integers(0, self.length, 3).astype(np.int64)
        self.arrays["at"] = np.array(self.numbers.integers(0, self.length), np.int64)
        symbols = ("b", "l", c) if dynamic else shape
        self.b = Builder("network")
        tensors = self.b.begin(
            [Input(n, dtype_of_numpy(a), symbols if n in "xy" else a.shape) for n, a in self.arrays.items()]
        )
        self.given = {n: self._value(t, a) for (n, a), t in zip(self.arrays.items(), tensors, strict=True)}
        self.values = [self.given["x"], self.given["y"]]
        self.sizes: dict[str, Size] = dict(zip("BLC", tensors[0].shape, strict=True))

    def _normal(self, *shape: int) -> NDArray[Any]:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def _value(self, tensor: Tensor, array: NDArray[Any]) -> Value:
        return Value(self.b, tensor, array.astype(np.float64) if array.dtype == np.float32 else array)

    def constant(self, *shape: int) -> Value:
        array = self._normal(*shape)
        return self._value(self.b.constant(array), array)

    def reshape(self, x: Value, *sizes: str | int) -> Value:
        """sizes: numbers, or products of B, L and C."""
        known = {"B": self.batch, "L": self.length, "C": self.channels}
        wanted: list[Size] = []
        concrete: list[int] = []
        for n in sizes:
            size: Any = 1 if isinstance(n, str) else n
            number = 1 if isinstance(n, str) else n
            for letter in n if isinstance(n, str) else "":
                size, number = size * self.sizes[letter], number * known[letter]
            wanted.append(size)
            concrete.append(number)
        return x.made(shapes.reshape(self.b, x.tensor, wanted), x.array.reshape(concrete))

    # -- choices

    def pick(self) -> Value:
        return self.rng.choice(self.values[-4:])

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def weight(self) -> Value:
        """A matrix that is an argument, a constant, or one of 8 bits that is widened."""
        c = self.channels
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.constant(c, c) * c**-0.5
        if kind == 1:
            narrow = self.numbers.integers(-9, 10, (c, c)).astype(np.int8)
            made = elementwise.convert(self.b, self.b.constant(narrow), F32)
            return Value(self.b, made, narrow.astype(np.float64)) * (0.2 * c**-0.5)
        return self.given[f"w{self.rng.randrange(2)}"]

    def vector(self) -> Value:
        return self.given[f"v{self.rng.randrange(3)}"] if self.chance(0.7) else self.constant(self.channels)

    def activated(self, x: Value) -> Value:
        kind = self.rng.randrange(4)
        if kind == 0:
            return x.un("tanh")
        if kind == 1:
            return x.bi("max", 0.0)
        if kind == 2:  # SiLU
            return x / (x.un("neg").un("exp") + 1.0)
        inner = ((x * x * x * 0.044715 + x) * 0.79788456).un("tanh")  # GELU
        return (inner + 1.0) * x * 0.5

    def step(self) -> None:
        kinds = [
            self.softmax, self.layer_norm, self.layer_norm, self.attention, self.grouped_attention, self.dense,
            self.dense, self.vector_dense, self.batch_norm, self.group_norm, self.rotate, self.insert, self.insert_at,
            self.join, self.unit_axes, self.rearrange, self.rows, self.convolution, self.residual, self.gather,
        ]  # fmt: skip
        kind = self.rng.choice(kinds)
        self.steps.append(kind.__name__)
        made = kind(self.pick())
        if np.abs(made.array).max() > 8:
            made = made.un("tanh")
        assert made.array.shape == (self.batch, self.length, self.channels), kind
        self.values.append(made)

    def grow(self) -> None:
        """Some random blocks."""
        for _ in range(self.rng.randint(2, 7)):
            self.step()

    def finish(self, name: str = "f") -> tuple[ModuleOp, list[NDArray[Any]], list[NDArray[Any]]]:
        """The module, its arguments and the results of its function: the last value, and some others."""
        made = self.values[2:]
        results = [made[-1], *self.rng.sample(made, min(len(made), self.rng.randrange(3)))]
        self.b.finish(name, {f"r{n}": v.tensor for n, v in enumerate(results)})
        return self.b.module, list(self.arrays.values()), [v.array for v in results]

    # -- blocks

    def softmax(self, x: Value) -> Value:
        return self._softmax(x, self.rng.choice([1, 2]))

    def _softmax(self, x: Value, axis: int) -> Value:
        powers = (x - x.reduce("max", axis)).un("exp")
        return powers / powers.reduce("add", axis)

    def layer_norm(self, x: Value) -> Value:
        axes = self.rng.choice([(2,), (2,), (1,), (1, 2)])
        if self.chance(0.3):
            return x * ((x * x).mean(*axes) + 0.1).un("rsqrt") * self.vector()
        if self.chance(0.5):
            spread = x.variance(*axes)
        else:  # as the difference of two means over the same rows
            spread = ((x * x).mean(*axes) - x.mean(*axes) * x.mean(*axes)).bi("max", 0.0)
        return (x - x.mean(*axes)) * (spread + 0.1).un("rsqrt") * self.vector() + self.vector()

    def attention(self, x: Value) -> Value:
        size = self.channels // self.heads
        parts = [x @ self.weight() if self.chance(0.5) else x for _ in range(3)]
        q, k, v = (self.reshape(p, "B", "L", self.heads, size).transpose(0, 2, 1, 3) for p in parts)
        shares = self._softmax((q @ k.transpose(0, 1, 3, 2)) * size**-0.5, 3)
        return self.reshape((shares @ v).transpose(0, 2, 1, 3), "B", "L", "C")

    def grouped_attention(self, x: Value) -> Value:
        """Attention whose heads share keys and values in groups: repeated, or as one dimension more; its softmax may be
        computed in another order of the dimensions."""
        size = self.channels // self.heads
        groups = self.rng.choice([n for n in (1, 2, 4) if self.heads % n == 0])
        per, kept = self.heads // groups, groups * size
        q = self.reshape(x, "B", "L", self.heads, size).transpose(0, 2, 1, 3)
        k, v = (
            self.reshape(self.pick().slice(2, 0, kept), "B", "L", groups, size).transpose(0, 2, 1, 3)
            for _ in range(2)
        )  # fmt: skip
        if self.chance(0.5):
            k, v = (self.reshape(self._repeat(p, per), "B", self.heads, "L", size) for p in (k, v))
        else:
            q = self.reshape(q, "B", groups, per, "L", size)
            k, v = (self.reshape(p, "B", groups, 1, "L", size) for p in (k, v))
        last = len(q.array.shape) - 1
        order = [*range(last - 1), last, last - 1]
        scores = (q @ k.transpose(*order)) * size**-0.5
        if self.chance(0.5):
            moved = [1, 2, 0, *range(3, last + 1)]
            shares = self._softmax(scores.transpose(*moved), last).transpose(*(moved.index(d) for d in range(last + 1)))
        else:
            shares = self._softmax(scores, last)
        y = self.reshape(shares @ v, "B", self.heads, "L", size)
        return self.reshape(y.transpose(0, 2, 1, 3), "B", "L", "C")

    def _repeat(self, x: Value, times: int) -> Value:
        """[B, groups, L, size] -> [B, groups, times, L, size]."""
        b, groups, length, size = x.tensor.shape
        one = self.reshape(x, "B", groups, 1, "L", size).tensor
        made = shapes.broadcast_to(self.b, one, [b, groups, times, length, size])
        return x.made(made, np.repeat(x.array[:, :, None], times, 2))

    def dense(self, x: Value) -> Value:
        """A product with bias, activation and residual, any of which may be missing, of one matrix or several."""
        flat = self.chance(0.5)
        y = (self.reshape(x, "BL", "C") if flat else x) @ self.weight()
        y = y + self.vector() if self.chance(0.7) else y
        if flat and self.chance(0.5):
            y, flat = self.reshape(y, "B", "L", "C"), False
        y = self.activated(y) if self.chance(0.7) else y
        y = self.reshape(y, "B", "L", "C") if flat else y
        return y + self.pick() if self.chance(0.4) else y

    def vector_dense(self, x: Value) -> Value:
        """One row of the first image times a matrix, added to every row."""
        row = self.reshape(x.slice(0, 0, 1).slice(1, 0, 1), *self.rng.choice([(1, "C"), ("C",)]))
        return x + self.activated(row @ self.weight() + self.vector())

    def batch_norm(self, x: Value) -> Value:
        """Statistics of each channel as 1x1xC, as frontends of networks write them."""
        mean, spread, scale, bias = (self.reshape(self.vector(), 1, 1, "C") for _ in range(4))
        factor = (spread.un("abs") + 0.1).un("rsqrt") * scale
        return ((x - mean) * factor + bias).bi("max", 0.0)

    def group_norm(self, x: Value) -> Value:
        y = self.reshape(x, "B", "L", self.heads, self.channels // self.heads)
        y = (y - y.mean(1, 3)) * (y.variance(1, 3) + 0.1).un("rsqrt")
        return self.reshape(y, "B", "L", "C") * self.vector() + self.vector()

    def rotate(self, x: Value) -> Value:
        """Halves of the channels turned by angles."""
        half = self.channels // 2
        a, b = x.slice(2, 0, half), x.slice(2, half, self.channels)
        angles = self.vector().slice(0, 0, half)
        cos, sin = angles.un("cos"), angles.un("sin")
        return (a * cos - b * sin).concat(2, a * sin + b * cos)

    def insert(self, x: Value) -> Value:
        """What is computed of some channels takes the place of others."""
        count = self.rng.randint(1, self.channels)
        part = self.activated(self.pick().slice(2, 0, count))
        at = self.rng.randint(0, self.channels - count)
        array = x.array.copy()
        array[:, :, at : at + count] = part.array
        return x.made(insert_slice(self.b, x.tensor, part.tensor, [0, 0, at]), array)

    def insert_at(self, x: Value) -> Value:
        """A row takes the place of the one at a number that only the call knows, as in a cache of keys."""
        row = self.activated(self.pick().slice(1, 0, 1) @ self.weight())
        zero, at = self.b.constant(np.int64(0)), self.given["at"]
        array = x.array.copy()
        array[:, int(at.array)] = row.array[:, 0]
        return x.made(dynamic_update_slice(self.b, x.tensor, row.tensor, [zero, at.tensor, zero]), array)

    def join(self, x: Value) -> Value:
        """Two values beside each other, times a matrix of both."""
        return (x.concat(2, self.activated(self.pick())) @ self.weight().concat(0, self.weight())) * 0.7

    def unit_axes(self, x: Value) -> Value:
        """Dimensions of size 1 that come and go around something elementwise."""
        y = self.reshape(x, *self.rng.choice([("B", 1, "L", "C"), (1, "B", "L", 1, "C"), ("B", "L", "C", 1)]))
        y = self.activated(y)
        y = y - y.mean(y.array.ndim - 1) if self.chance(0.5) else y
        return self.reshape(y, "B", "L", "C") + self.vector()

    def rearrange(self, x: Value) -> Value:
        """The elements in another order, through a transpose and a flat tensor."""
        y = self.activated(x.transpose(*self.rng.choice([(0, 2, 1), (2, 0, 1), (1, 0, 2)])))
        return (self.reshape(self.reshape(y, "BLC"), "B", "L", "C") + x) * 0.5

    def rows(self, x: Value) -> Value:
        """Several values for each row, each used with the others."""
        axis = self.rng.choice([1, 2])
        y = (x - x.mean(axis)) / (x.reduce("max", axis) - x.reduce("min", axis) + 1.0)
        return y - y.un("abs").mean(axis) if self.chance(0.5) else y

    def convolution(self, x: Value) -> Value:
        """Over the length, three places wide, with padding; channels first, as the operation has them."""
        y, kernel = x.transpose(0, 2, 1), self.constant(self.channels, self.channels, 3)
        around = np.pad(y.array, ((0, 0), (0, 0), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(around, 3, 2)
        window = convolutions.Window((1,), (1,), (1,), (1,))
        made = convolutions.convolution(self.b, y.tensor, kernel.tensor, window)
        z = x.made(made, np.einsum("bclk,fck->bfl", windows, kernel.array)) * (3 * self.channels) ** -0.5
        z = z + self.reshape(self.vector(), "C", 1)
        return (z.bi("max", 0.0) if self.chance(0.5) else z).transpose(0, 2, 1)

    def residual(self, x: Value) -> Value:
        return (x + self.pick()) * 0.5

    def gather(self, x: Value) -> Value:
        """Some rows of the length, summed and given to all."""
        rows = self.given["rows"]
        taken = x.made(take(self.b, x.tensor, rows.tensor, 1), x.array[:, rows.array])
        return x - taken.reduce("add", 1) * 0.3
