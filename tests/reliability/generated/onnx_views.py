"""Steps of random ONNX graphs: slices, joins, views and padding."""

from __future__ import annotations

import numpy as np
from onnx_growing import FLOAT, INT, Graph


def _sliced(g: Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, FLOAT, INT]), rank=(1, 6)) or g.pick(rank=(1, 6))
    if x is None:
        return
    rank = g.values[x].ndim
    first = 1 if g.is_open and g.rng.random() < 0.7 else 0
    axes = g.rng.sample(range(first, rank), g.rng.randint(1, rank - first)) if rank > first else []
    columns = []
    for axis in axes:
        n = g.values[x].shape[axis]
        if g.is_open and axis == 0:
            columns.append(g.rng.choice([(0, 1 << 62, 1), (-1, -(1 << 62), -1)]))
            continue
        low, high = sorted((g.rng.randint(0, n), g.rng.randint(0, n + 2)))
        form = g.rng.randrange(4)
        columns.append(
            [
                (low, high, 1),
                (low, high, 2),
                (high, low - 1 - n if low else -(1 << 60), -1),
                (low - n if low < n else low, 1 << 40, g.rng.choice([1, 3])),
            ][form]
        )
    if axes:
        starts, ends, steps = zip(*columns, strict=True)
        g.add("Slice", x, *(g.constant(v, np.int64) for v in (starts, ends, axes, steps)))


def _joined(g: Graph) -> None:
    x = g.pick(rank=(1, 5))
    if x is None or (g.is_open and g.values[x].ndim == 1):
        return
    axis, shape = g.axis(x), list(g.values[x].shape)
    alike = [
        n
        for n, a in g.values.items()
        if a.dtype == np.float32
        and a.ndim == len(shape)
        and all(d == axis or m == k for d, (m, k) in enumerate(zip(a.shape, shape, strict=True)))
    ]
    operands = [g.rng.choice(alike) for _ in range(g.rng.randint(1, 3))]
    if not g.is_open and g.rng.random() < 0.4:
        shape[axis] = g.rng.randint(0, 2)
        operands.append(g.constant(g.array(*shape)))
    g.add("Concat", *operands, axis=axis)


def _split(g: Graph) -> None:
    x = g.pick(rank=(2, 5))
    if x is None:
        return
    axis = g.axis(x)
    n = g.values[x].shape[axis]
    first = g.rng.randint(0, n)
    if 0 < first < n:
        g.add("Split", x, g.constant([first, n - first], np.int64), outputs=2, axis=axis)


def _arranged(g: Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, FLOAT, "bool", INT]), rank=(1, 5)) or g.pick(rank=(1, 5))
    if x is None:
        return
    shape = g.values[x].shape
    form = g.rng.randrange(5)
    if form == 0:
        perm = list(range(len(shape)))
        rest = perm[1:] if g.is_open else perm
        g.rng.shuffle(rest)
        g.add("Transpose", x, perm=[0, *rest] if g.is_open else rest)
    elif form == 1 and len(shape) > 1 and 0 not in shape:
        cut = g.rng.randint(1, len(shape) - 1)
        g.add("Reshape", x, g.constant([0] * cut + [-1], np.int64))
    elif form == 2:
        g.add("Unsqueeze", x, g.constant([g.rng.randint(1 if g.is_open else 0, len(shape))], np.int64))
    elif form == 3:
        ones = [d for d, n in enumerate(shape) if n == 1 and not (g.is_open and d == 0)]
        if ones:
            g.add("Squeeze", x, g.constant([g.rng.choice(ones)], np.int64))
    elif 0 not in shape:
        g.add("Flatten", x, axis=g.rng.randint(1, len(shape)))


def _padded(g: Graph) -> None:
    x = g.pick(rank=(2, 4))
    if x is None or 0 in g.values[x].shape:
        return
    shape = g.values[x].shape
    mode = g.rng.choice(["constant", "reflect", "edge"])
    sides = [
        [0 if d == 0 and g.is_open else g.rng.randint(0, min(2, n - 1)) for d, n in enumerate(shape)] for _ in range(2)
    ]
    g.add("Pad", x, g.constant(sides[0] + sides[1], np.int64), mode=mode)


def _repeated(g: Graph) -> None:
    x = g.pick(rank=(1, 4))
    if x is None:
        return
    shape = g.values[x].shape
    if g.rng.random() < 0.5:
        g.add(
            "Tile",
            x,
            g.constant([1 if d == 0 and g.is_open else g.rng.randint(1, 2) for d in range(len(shape))], np.int64),
        )
    else:
        wanted = [1 if d == 0 and g.is_open else g.rng.randint(2, 3) if n == 1 else n for d, n in enumerate(shape)]
        g.add("Expand", x, g.constant(wanted, np.int64))


VIEWS = (_sliced, _sliced, _joined, _split, _arranged, _arranged, _padded, _repeated)
