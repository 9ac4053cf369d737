"""Steps of random ONNX graphs: reductions, products, norms and orders."""

from __future__ import annotations

import numpy as np
from onnx_growing import Graph


def _reduction(g: Graph) -> None:
    x = g.pick(rank=(1, 9))
    if x is None:
        return
    names_ = ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"]
    op, rank, keep = f"Reduce{g.rng.choice(names_)}", g.values[x].ndim, g.rng.randrange(2)
    first = 1 if g.is_open else 0
    axes = sorted(g.rng.sample(range(first, rank), g.rng.randint(1, rank - first))) if rank > first else []
    if 0 in [g.values[x].shape[d] for d in axes] or (not axes and g.is_open):
        return
    if not axes or g.rng.random() < 0.05:
        g.add(op, x, keepdims=keep, noop_with_empty_axes=1)
        return
    g.add(op, x, g.constant(axes, np.int64), keepdims=keep)


def _product(g: Graph) -> None:
    x = g.pick(rank=(2, 4))
    if x is None:
        return
    shape = g.values[x].shape
    n, width = shape[-1], g.rng.randint(1, 6)
    if len(shape) == 2 and g.rng.random() < 0.5:
        turned = g.rng.randrange(2)
        weights = g.array(width, n) if turned else g.array(n, width)
        g.add("Gemm", x, g.constant(weights), g.constant(g.array(width)), transB=turned)
    else:
        g.add("MatMul", x, g.constant(g.array(n, width) / 2))


def _normalized(g: Graph) -> None:
    form = g.rng.randrange(5)
    x = g.pick(rank=(4, 4)) if form in (2, 3) else g.pick(rank=(2, 5))
    if x is None or 0 in g.values[x].shape or (form in (2, 3) and np.prod(g.values[x].shape[2:]) < 2):
        return
    shape = g.values[x].shape
    vector = [g.constant(g.array(shape[1] if form in (2, 3) else shape[-1])) for _ in range(2)]
    if form == 0 and shape[-1] > 1:
        g.add("LayerNormalization", x, *vector, axis=-1, epsilon=0.01)
    elif form == 1:
        g.add(g.rng.choice(["Softmax", "LogSoftmax"]), x, axis=g.axis(x))
    elif form == 2:
        g.add("InstanceNormalization", x, *vector, epsilon=0.01)
    elif form == 3:
        variance = g.constant(np.abs(g.array(shape[1])) + 0.5)
        g.add("BatchNormalization", x, *vector, g.constant(g.array(shape[1])), variance, epsilon=0.01)
    elif form == 4:
        op = g.rng.choice(["LpNormalization", "Hardmax"])
        g.add(op, x, axis=-1, **({"p": g.rng.choice([1, 2])} if op == "LpNormalization" else {}))


def _ordered(g: Graph) -> None:
    x = g.pick(rank=(1, 4))
    if x is None or (g.is_open and g.values[x].ndim == 1) or 0 in g.values[x].shape:
        return
    axis = g.axis(x)
    form = g.rng.randrange(3)
    if form == 0:
        g.add("CumSum", x, g.constant(axis, np.int64), reverse=g.rng.randrange(2))
    elif form == 1:
        k = g.rng.randint(1, g.values[x].shape[axis])
        g.add("TopK", x, g.constant([k], np.int64), outputs=2, axis=axis, largest=g.rng.randrange(2))
    else:
        g.add(g.rng.choice(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=g.rng.randrange(2))


def _contracted(g: Graph) -> None:
    x = g.pick(rank=(3, 4))
    if x is None:
        return
    letters = "abcd"[: g.values[x].ndim]
    equation = g.rng.choice([f"{letters},{letters}->{letters[:-1]}", f"{letters}->{letters[0]}{letters[:0:-1]}",
                             f"{letters},{letters[:-1]}z->{letters[:-2]}{letters[-1]}z"])  # fmt: skip
    g.add("Einsum", *[x] * (1 + equation.count(",")), equation=equation)


ROWS = (_reduction, _reduction, _product, _contracted, _normalized, _normalized, _ordered)
