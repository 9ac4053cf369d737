"""Steps of random ONNX graphs: elementwise operators."""

from __future__ import annotations

import numpy as np
from onnx_growing import FLOAT, INT, Graph


def _unary(g: Graph) -> None:
    x = g.pick()
    op = g.rng.choice(UNARY)
    assert x is not None
    if op == "Clip":
        g.add(op, x, g.constant(-0.5, np.float32), g.constant(0.75, np.float32))
    else:
        g.add(op, x, **ATTRIBUTES.get(op, {}))


def _binary(g: Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, FLOAT, INT])) or g.pick()
    assert x is not None
    operands = [x, g.other(x)]
    g.rng.shuffle(operands)
    g.add(g.rng.choice(BINARY), *operands)


def _where(g: Graph) -> None:
    condition = g.pick("bool")
    if condition is None:
        return _binary(g)
    shape = g.values[condition].shape
    options = [n for n, a in g.values.items() if a.shape == shape and a.dtype == np.float32]
    x = g.rng.choice(options) if options else g.constant(g.array())
    return g.add("Where", condition, x, g.constant(g.array()))


def _cast(g: Graph) -> None:
    x = g.pick(g.rng.choice([INT, "bool"]))
    if x is not None:
        g.add("Cast", x, to=1)


def _divided(g: Graph) -> None:
    """Divisions, powers and remainders by constants, of which none is near zero."""
    x = g.pick()
    assert x is not None
    op = g.rng.choice(["Div", "Pow", "Mod", "PRelu", "Sum", "Mean"])
    other = g.constant(np.float32(g.rng.choice([0.5, 1.5, 2.0, 3.0])))
    if op == "Pow":
        x = g.add("Abs", x)
    if op in ("Sum", "Mean"):
        g.add(op, x, g.other(x), g.other(x))
    else:
        g.add(op, x, other, **({"fmod": 1} if op == "Mod" else {}))


def _truth(g: Graph) -> None:
    x = g.pick("bool")
    if x is None:
        return
    shape = g.values[x].shape
    alike = [n for n, a in g.values.items() if a.dtype == np.bool_ and a.shape == shape]
    op = g.rng.choice(["Not", "And", "Or", "Xor"])
    g.add(op, x, *([] if op == "Not" else [g.rng.choice(alike)]))


UNARY = [
    "Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "LeakyRelu", "Identity", "Clip", "Exp", "Log", "Sqrt", "Sin", "Cos",
    "Atan", "Asinh", "Floor", "Ceil", "Round", "Reciprocal", "Softplus", "Softsign", "HardSwish", "HardSigmoid", "Elu",
    "Celu", "ThresholdedRelu", "Shrink", "Mish", "Sign",
]  # fmt: skip
ATTRIBUTES: dict[str, dict[str, float]] = {
    "LeakyRelu": {"alpha": 0.25},
    "HardSigmoid": {"alpha": 0.25, "beta": 0.5},
    "Elu": {"alpha": 0.5},
    "Celu": {"alpha": 2.0},
    "ThresholdedRelu": {"alpha": 0.5},
    "Shrink": {"lambd": 0.5, "bias": 0.25},
}
BINARY = ["Add", "Sub", "Mul", "Max", "Min", "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"]
ELEMENTS = (_unary, _unary, _binary, _binary, _where, _cast, _divided, _truth)
