"""Steps of random ONNX graphs: elements at places that tensors say."""

from __future__ import annotations

import numpy as np
from onnx_growing import FLOAT, INT, Graph


def _indexed(g: Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, FLOAT, INT]), rank=(1, 5)) or g.pick(rank=(1, 5))
    if x is None or (g.is_open and g.values[x].ndim == 1):
        return
    axis = g.axis(x)
    n = g.values[x].shape[axis]
    if n == 0:
        return
    shape = g.rng.choice([(), (1,), (3,), (2, 2), (0,)])
    indices = g.numbers.integers(-n, n, shape)
    g.add("Gather", x, g.constant(indices, np.int64), axis=axis)


def _elements(g: Graph) -> None:
    """Elements along an axis: read, or written once each."""
    x = g.pick(rank=(1, 4))
    if x is None or g.is_open or 0 in g.values[x].shape:
        return
    shape = g.values[x].shape
    axis = g.axis(x)
    if g.rng.randrange(2):
        places = g.numbers.integers(-shape[axis], shape[axis], shape)
        g.add("GatherElements", x, g.constant(places, np.int64), axis=axis)
        return
    count = g.rng.randint(1, shape[axis])
    sizes = [count if d == axis else n for d, n in enumerate(shape)]
    places = np.argsort(g.numbers.random(shape), axis).take(range(count), axis)
    g.add("ScatterElements", x, g.constant(places, np.int64), g.constant(g.array(*sizes)), axis=axis,
          reduction=g.rng.choice(["none", "add", "mul", "max", "min"]))  # fmt: skip


def _slices(g: Graph) -> None:
    x = g.pick(rank=(2, 4))
    if x is None or g.is_open or 0 in g.values[x].shape:
        return
    shape = g.values[x].shape
    batch = g.rng.randint(0, 1)
    count = g.rng.randint(1, len(shape) - batch)
    lead = (*shape[:batch], g.rng.randint(1, 3))
    places = np.stack([g.numbers.integers(-n, n, lead) for n in shape[batch : batch + count]], -1)
    g.add("GatherND", x, g.constant(places, np.int64), batch_dims=batch)


def _marked(g: Graph) -> None:
    """One-hot rows of integers that the graph computes."""
    i = g.pick(INT, rank=(0, 3))
    if i is None:
        return
    values = g.constant([0.25, 1.0], np.float32)
    axis = g.rng.randint(1, g.values[i].ndim) if g.values[i].ndim else 0
    g.add("OneHot", i, g.constant(g.rng.randint(1, 5), np.int64), values, axis=axis)


def _corner(g: Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, INT]), rank=(2, 4))
    if x is not None:
        g.add("Trilu", x, upper=g.rng.randrange(2))


def _reversed(g: Graph) -> None:
    x = g.pick(rank=(2, 4))
    if x is None or g.is_open or 0 in g.values[x].shape:
        return
    time, batch = g.values[x].shape[:2]
    g.add("ReverseSequence", x, g.constant([g.rng.randint(1, time) for _ in range(batch)], np.int64))


PLACES = (_indexed, _elements, _slices, _marked, _corner, _reversed)
