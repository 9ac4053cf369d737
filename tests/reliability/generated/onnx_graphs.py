"""Random ONNX graphs of 5 to 15 operators. Their references are written with NumPy; onnxruntime is not needed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from graph_programs import Array, Node, Program, chosen, names
from onnx_meaning import MEANING

import pydispatch as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "frontends" / "onnx"))

import wire

OPSET = 20
DTYPES = {"float32": 1, "int64": 7, "bool": 9, "int32": 6}
FLOAT, INT = "float32", "int64"


# -- random graphs


class _Graph:
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

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> None:
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


def _unary(g: _Graph) -> None:
    x = g.pick()
    op = g.rng.choice(["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "LeakyRelu", "Identity", "Clip"])
    assert x is not None
    if op == "Clip":
        g.add(op, x, g.constant(-0.5, np.float32), g.constant(0.75, np.float32))
    else:
        g.add(op, x, **({"alpha": 0.25} if op == "LeakyRelu" else {}))


def _other(g: _Graph, x: str) -> str:
    """A value or constant that broadcasts with x."""
    shape = g.values[x].shape
    same = [name for name, a in g.values.items() if a.shape == shape and a.dtype == g.values[x].dtype]
    if g.rng.random() < 0.5 and same:
        return g.rng.choice(same)
    sizes = [1 if (d == 0 and g.is_open) or g.rng.random() < 0.4 else n for d, n in enumerate(shape)]
    sizes = sizes[g.rng.randrange(len(sizes) + 1) :] if g.rng.random() < 0.5 else sizes
    made = g.array(*sizes)
    return g.constant(made if g.values[x].dtype == np.float32 else np.round(made * 3).astype(np.int64))


def _binary(g: _Graph) -> None:
    x = g.pick(g.rng.choice([FLOAT, FLOAT, INT])) or g.pick()
    assert x is not None
    operands = [x, _other(g, x)]
    g.rng.shuffle(operands)
    op = g.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Greater", "Less"])
    g.add(op, *operands)


def _where(g: _Graph) -> None:
    condition = g.pick("bool")
    if condition is None:
        return _binary(g)
    shape = g.values[condition].shape
    options = [n for n, a in g.values.items() if a.shape == shape and a.dtype == np.float32]
    x = g.rng.choice(options) if options else g.constant(g.array())
    return g.add("Where", condition, x, g.constant(g.array()))


def _cast(g: _Graph) -> None:
    x = g.pick(g.rng.choice([INT, "bool"]))
    if x is not None:
        g.add("Cast", x, to=1)


def _window(g: _Graph, kernel: list[int]) -> dict[str, Any]:
    return {
        "strides": [g.rng.choice([1, 1, 2, 3]) for _ in range(2)],
        "dilations": [g.rng.choice([1, 1, 1, 2])] * 2,
        "pads": [g.rng.randint(0, k - 1) for k in kernel * 2],
    }


def _fits(g: _Graph, x: str, kernel: list[int], window: dict[str, Any]) -> bool:
    n = g.values[x].shape[2:]
    return all(
        (k - 1) * d + 1 <= m + low + high
        for k, d, m, low, high in zip(
            kernel, window["dilations"], n, window["pads"][:2], window["pads"][2:], strict=True
        )
    )


def _convolution(g: _Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None:
        return _unary(g)
    channels = g.values[x].shape[1]
    if not channels:
        return None
    group = g.rng.choice([1, 1, channels])
    filters = group * g.rng.randint(1, 3)
    kernel = [g.rng.randint(1, 3) for _ in range(2)]
    window = _window(g, kernel)
    if not 0 < group <= 8 or channels > 12 or not _fits(g, x, kernel, window):
        return _unary(g)
    weights = g.constant(g.array(filters, channels // group, *kernel) / 2)
    bias = [g.constant(g.array(filters))] if g.rng.random() < 0.5 else []
    return g.add("Conv", x, weights, *bias, group=group, **window)


def _pool(g: _Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None:
        return _unary(g)
    kernel = [g.rng.randint(1, 3) for _ in range(2)]
    window = _window(g, kernel)
    if window["dilations"][0] > 1 and any(window["pads"]):
        window["dilations"] = [1, 1]  # windows of nothing but padding
    if not _fits(g, x, kernel, window):
        return _unary(g)
    op = g.rng.choice(["MaxPool", "AveragePool"])
    more = {"count_include_pad": g.rng.randrange(2)} if op == "AveragePool" else {}
    return g.add(op, x, kernel_shape=kernel, ceil_mode=g.rng.randrange(2), **more, **window)


def _reduction(g: _Graph) -> None:
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


def _indexed(g: _Graph) -> None:
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


def _sliced(g: _Graph) -> None:
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


def _joined(g: _Graph) -> None:
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


def _split(g: _Graph) -> None:
    x = g.pick(rank=(2, 5))
    if x is None:
        return
    axis = g.axis(x)
    n = g.values[x].shape[axis]
    first = g.rng.randint(0, n)
    if 0 < first < n:
        g.add("Split", x, g.constant([first, n - first], np.int64), outputs=2, axis=axis)


def _arranged(g: _Graph) -> None:
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


def _padded(g: _Graph) -> None:
    x = g.pick(rank=(2, 4))
    if x is None or 0 in g.values[x].shape:
        return
    shape = g.values[x].shape
    mode = g.rng.choice(["constant", "reflect", "edge"])
    sides = [
        [0 if d == 0 and g.is_open else g.rng.randint(0, min(2, n - 1)) for d, n in enumerate(shape)] for _ in range(2)
    ]
    g.add("Pad", x, g.constant(sides[0] + sides[1], np.int64), mode=mode)


def _repeated(g: _Graph) -> None:
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


def _product(g: _Graph) -> None:
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


def _normalized(g: _Graph) -> None:
    form = g.rng.randrange(4)
    x = g.pick(rank=(4, 4)) if form > 1 else g.pick(rank=(2, 5))
    if x is None or 0 in g.values[x].shape or (form > 1 and np.prod(g.values[x].shape[2:]) < 2):
        return
    shape = g.values[x].shape
    vector = [g.constant(g.array(shape[-1] if form < 2 else shape[1])) for _ in range(2)]
    if form == 0 and shape[-1] > 1:
        g.add("LayerNormalization", x, *vector, axis=-1, epsilon=0.01)
    elif form == 1:
        g.add(g.rng.choice(["Softmax", "LogSoftmax"]), x, axis=g.axis(x))
    elif form == 2:
        g.add("InstanceNormalization", x, *vector, epsilon=0.01)
    elif form == 3:
        variance = g.constant(np.abs(g.array(shape[1])) + 0.5)
        g.add("BatchNormalization", x, *vector, g.constant(g.array(shape[1])), variance, epsilon=0.01)


def _ordered(g: _Graph) -> None:
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
        g.add("ArgMax", x, axis=axis, keepdims=g.rng.randrange(2))


STEPS = (
    _unary,
    _unary,
    _binary,
    _binary,
    _where,
    _cast,
    _convolution,
    _convolution,
    _pool,
    _pool,
    _reduction,
    _reduction,
    _indexed,
    _sliced,
    _sliced,
    _joined,
    _split,
    _arranged,
    _arranged,
    _padded,
    _repeated,
    _product,
    _normalized,
    _normalized,
    _ordered,
)


def _bytes(program: Program) -> bytes:
    """The graph as a file."""

    def attribute(name: str, value: Any) -> bytes:
        fields: list[tuple[int, Any]] = [(1, name)]
        if isinstance(value, float):
            fields += [(2, value), (20, 1)]
        elif isinstance(value, int):
            fields += [(3, value), (20, 2)]
        elif isinstance(value, str):
            fields += [(4, value.encode()), (20, 3)]
        else:
            fields += [*((8, int(n)) for n in value), (20, 7)]
        return wire.message(*fields)

    def nodes() -> Iterator[bytes]:
        for node in program.nodes:
            attributes = [attribute(name, value) for name, value in node.attributes.items()]
            yield _node(node, attributes)

    inputs = []
    for name, array in program.sets[0].items():
        axes = program.open_axes.get(name, ())
        inputs.append(
            wire.value(
                name, *("batch" if d in axes else n for d, n in enumerate(array.shape)), dtype=DTYPES[array.dtype.name]
            )
        )
    outputs = [wire.message((1, name)) for name in program.results]
    weights = [
        wire.tensor(name, list(a.shape), DTYPES[a.dtype.name], (9, a.tobytes()))
        for name, a in program.constants.items()
    ]
    return wire.model(list(nodes()), inputs, outputs, weights, OPSET)


def _node(node: Node, attributes: list[bytes]) -> bytes:
    inputs = list(node.inputs)
    return wire.node(node.op, inputs, list(node.outputs), *attributes, name=f"{node.op}_{node.outputs[0]}")


class OnnxGraphs:
    """Random graphs, given to the reader of ONNX as bytes."""

    def generate(self, rng: random.Random) -> Program:
        g = _Graph(rng)
        batch = rng.randint(1, 3)
        for _ in range(rng.randint(1, 2)):
            rest = rng.choice([(3, 5, 6), (2, 4, 4), (4, 7), (5,), (2, 3, 2, 3), (1, 6, 5)])
            name = next(g.name)
            g.values[name] = g.array(batch, *rest)
            g.inputs.append(name)
        for _ in range(rng.randint(5, 15)):
            try:
                with np.errstate(all="ignore"):
                    rng.choice(STEPS)(g)
            except ValueError:
                continue
        if not g.nodes:
            g.add("Neg", g.inputs[0])
        sets = [{name: g.values[name] for name in g.inputs}]
        if g.is_open:
            more = rng.choice([n for n in (1, 2, 4) if n != batch])
            sets.append({name: g.array(more, *a.shape[1:]) for name, a in sets[0].items()})
        open_axes = {name: (0,) for name in g.inputs} if g.is_open else {}
        return Program(tuple(g.nodes), tuple(sets), g.constants, open_axes)

    def reference(self, program: Program, number: int, exact: bool) -> dict[str, Array]:
        def wide(a: Array) -> Array:
            return a.astype(np.float64) if exact and a.dtype == np.float32 else a

        values = {name: wide(a) for name, a in (*program.constants.items(), *program.sets[number].items())}
        with np.errstate(all="ignore"):
            for node in program.nodes:
                made = MEANING[node.op](*(values[name] for name in node.inputs), **node.attributes)
                made = made if isinstance(made, (tuple, list)) else [made]
                values.update((name, wide(np.asarray(a))) for name, a in zip(node.outputs, made, strict=True))
        return values

    def compiled(self, program: Program) -> Callable[..., Any]:
        path = Path(_folder()) / "graph.onnx"
        path.write_bytes(_bytes(program))
        found: Callable[..., Any] = pd.device("cpu").load(pd.compile(path))["main"]
        return found

    def peer(self, program: Program) -> str | None:
        """Return what onnxruntime gives for something else than the reference; None where they agree."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        session = onnxruntime.InferenceSession(_bytes(program), providers=["CPUExecutionProvider"])
        for number, given in enumerate(program.sets):
            values = self.reference(program, number, True)
            for name, found in zip(program.results, session.run(None, dict(given)), strict=True):
                if found.shape != values[name].shape or not np.allclose(
                    found, values[name], 1e-3, 1e-3, equal_nan=True
                ):
                    return name
        return None


def _folder() -> str:
    global _made
    if _made is None:
        import tempfile

        _made = tempfile.TemporaryDirectory()
    return _made.name


_made: Any = None
