"""A random ONNX graph that grows node by node, with the values of its first call."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from graph_programs import Array, Node, chosen, names
from onnx_meaning import MEANING

FLOAT, INT = "float32", "int64"


class Graph:
    """A graph that grows. values: of the first call; the axes of a size that a call decides are 0."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        self.name = names("v")
        self.constant_name = names("c")
        self.is_open = rng.random() < 0.5
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.inputs: list[str] = []

    def array(self, *shape: int) -> Array:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def constant(self, array: Any, dtype: Any = None) -> str:
        name = next(self.constant_name)
        self.constants[name] = np.asarray(array, dtype)
        return name

    def pick(self, dtype: str = FLOAT, rank: tuple[int, int] = (0, 9), open_too: bool = True) -> str | None:
        """A value with a dtype and a rank within bounds."""
        options = [
            name
            for name, a in self.values.items()
            if a.dtype.name == dtype and rank[0] <= a.ndim <= rank[1] and a.size <= 3000
        ]
        return chosen(self.rng, options) if options else None

    def axis(self, name: str) -> int:
        """An axis, never the one that a call decides the size of."""
        rank = self.values[name].ndim
        first = 1 if self.is_open else 0
        return self.rng.randrange(first, rank)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; return the name of its first result. ValueError where its values are too large."""
        given = [self.values.get(name, self.constants.get(name)) for name in inputs]
        made = MEANING[op](*given, **attributes)
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        for array in made:
            if array.size > 4000 or array.ndim > 6:
                raise ValueError("too large")
            if array.dtype.kind == "f" and array.size and not np.abs(array).max() < 1e4:
                raise ValueError("too large numbers")
        found = tuple(next(self.name) for _ in range(outputs))
        self.nodes.append(Node(op, inputs, found, attributes))
        for name, array in zip(found, made, strict=True):
            self.values[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return found[0]

    def other(self, x: str) -> str:
        """Return a value, or a new constant, that broadcasts with x."""
        shape = self.values[x].shape
        same = [name for name, a in self.values.items() if a.shape == shape and a.dtype == self.values[x].dtype]
        if self.rng.random() < 0.5 and same:
            return self.rng.choice(same)
        sizes = [1 if (d == 0 and self.is_open) or self.rng.random() < 0.4 else n for d, n in enumerate(shape)]
        sizes = sizes[self.rng.randrange(len(sizes) + 1) :] if self.rng.random() < 0.5 else sizes
        made = self.array(*sizes)
        return self.constant(made if self.values[x].dtype == np.float32 else np.round(made * 3).astype(np.int64))
