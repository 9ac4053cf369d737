"""Random ONNX graphs of 5 to 15 operators. Their references are written with NumPy; onnxruntime is not needed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from graph_programs import Array, Node, Program, is_close, nudged
from onnx_elements import ELEMENTS
from onnx_growing import Graph
from onnx_images import IMAGES
from onnx_meaning import MEANING
from onnx_places import PLACES
from onnx_rows import ROWS
from onnx_views import VIEWS

import pydispatch as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "frontends" / "onnx"))

import wire

OPSET = 20
PEER_TOLERANCE = 1e-3
"""Relative to the largest element: onnxruntime computes with 32-bit floats."""
DTYPES = {"float32": 1, "int64": 7, "bool": 9, "int32": 6}
STEPS = (*ELEMENTS, *IMAGES, *PLACES, *ROWS, *VIEWS)


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

    has_types = False

    def generate(self, rng: random.Random) -> Program:
        g = Graph(rng)
        batch = rng.randint(1, 3)
        for _ in range(rng.randint(1, 2)):
            rest = rng.choice([(3, 5, 6), (2, 4, 4), (4, 7), (5,), (2, 3, 2, 3), (1, 6, 5)])
            name = next(g.name)
            g.values[name] = g.array(batch, *rest)
            g.inputs.append(name)
        wanted = rng.randint(5, 15)
        for _ in range(wanted * 6):
            if len(g.nodes) >= wanted:
                break
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

    def reference(self, program: Program, number: int, exact: bool, is_nudged: bool = False) -> dict[str, Array]:
        def wide(a: Array) -> Array:
            return a.astype(np.float64) if exact and a.dtype == np.float32 else a

        values = {name: wide(a) for name, a in (*program.constants.items(), *program.sets[number].items())}
        with np.errstate(all="ignore"):
            for node in program.nodes:
                made = MEANING[node.op](*(values[name] for name in node.inputs), **node.attributes)
                made = made if isinstance(made, (tuple, list)) else [made]
                made = [nudged(wide(np.asarray(a))) if is_nudged else wide(np.asarray(a)) for a in made]
                values.update(zip(node.outputs, made, strict=True))
        return values

    def compiled(self, program: Program) -> Callable[..., Any]:
        path = Path(_folder()) / "graph.onnx"
        path.write_bytes(_bytes(program))
        found: Callable[..., Any] = pd.device("cpu").load(pd.compile(path))["main"]
        return found

    def peer(self, program: Program) -> str | None:
        """Return what onnxruntime computes otherwise than the reference; None where they agree, or it fails itself."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        for number, given in enumerate(program.sets):
            values = self.reference(program, number, True)
            try:
                session = onnxruntime.InferenceSession(_bytes(program), options, providers=["CPUExecutionProvider"])
                results = session.run(None, dict(given))
            except Exception:  # of types of its own for each cause; its shape inference rejects some valid graphs
                return None
            for name, found in zip(program.results, results, strict=True):
                if not is_close(found, values[name], PEER_TOLERANCE):
                    return f"{name}, call {number}: onnxruntime has\n{found}\nthe reference\n{values[name]}"
        return None


def _folder() -> str:
    global _made
    if _made is None:
        import tempfile

        _made = tempfile.TemporaryDirectory()
    return _made.name


_made: Any = None
