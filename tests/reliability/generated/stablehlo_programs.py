"""Random StableHLO programs, 5 to 15 operations of static or dynamic sizes, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from graph_programs import Array, Node, Program, chosen, names, nudged
from stablehlo_basic import BASIC
from stablehlo_control import CONTROL
from stablehlo_form import type_of
from stablehlo_places import PLACES
from stablehlo_windows import WINDOWS

import pydispatch as pd

LARGEST = 1e4
ELEMENTS = 2000
FORMS = {**BASIC, **CONTROL, **PLACES, **WINDOWS}


def evaluated(node: Node, given: Sequence[Array], exact: bool = False) -> Array:
    """The result of an operation. ValueError for operands that do not fit."""
    form = FORMS[node.op]
    if len({x.shape for x in given}) > 1 and node.op != "concatenate":
        raise ValueError("operands of different shapes")
    with np.errstate(all="ignore"):
        made = np.asarray(form.meaning(*given, **node.attributes))
    return made.astype(np.float64 if exact else np.float32) if made.dtype.kind == "f" else made


class StableHloPrograms:
    """Random programs; where sizes are dynamic, the first axis of each value is the calls'."""

    has_types = False

    def generate(self, rng: random.Random) -> Program:
        is_open = rng.random() < 0.4
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        name, values, nodes = names("v"), dict[str, Array](), list[Node]()
        shapes = [rng.choice([(2, 3, 4), (3, 5), (1, 2, 3, 2), (4,), (2, 3, 4)]) for _ in range(rng.randint(1, 3))]
        inputs = {next(name): shape for shape in shapes}
        values.update({each: numbers.standard_normal(shape).astype(np.float32) for each, shape in inputs.items()})
        wanted = rng.randint(5, 15)
        for _ in range(wanted * 6):
            if len(nodes) == wanted:
                break
            op = rng.choice(list(FORMS))
            form = FORMS[op]
            taken: list[str] = []
            for kind in form.kinds:
                fits = [
                    n for n, a in values.items()
                    if a.dtype.kind == kind and (not taken or a.shape == values[taken[0]].shape)
                ]  # fmt: skip
                taken += [chosen(rng, fits)] if fits else []
            if len(taken) < len(form.kinds) or (form.is_static and is_open):
                continue
            given = [values[each] for each in taken]
            try:
                attributes = {} if form.made is None else form.made(rng, given, is_open)
                node = Node(op, tuple(taken), (next(name),), attributes)
                made = evaluated(node, given)
            except ValueError:
                continue
            if made.size > ELEMENTS or (made.dtype.kind in "fi" and made.size and not np.abs(made).max() < LARGEST):
                continue
            nodes.append(node)
            values[node.outputs[0]] = made
        first = {each: values[each] for each in inputs}
        more = {n: numbers.standard_normal((a.shape[0] + 1, *a.shape[1:])).astype("f4") for n, a in first.items()}
        axes = {each: (0,) for each in inputs} if is_open else {}
        nodes = nodes or [Node("negate", (next(iter(inputs)),), (next(name),))]
        return Program(tuple(nodes), (first, more) if is_open else (first,), {}, axes)

    def reference(self, program: Program, number: int, exact: bool, is_nudged: bool = False) -> dict[str, Array]:
        values = {n: a.astype(np.float64) if exact else a for n, a in program.sets[number].items()}
        for node in program.nodes:
            made = evaluated(node, [values[each] for each in node.inputs], exact)
            values[node.outputs[0]] = nudged(made) if is_nudged else made
        return values

    def text(self, program: Program) -> str:
        """The program as StableHLO."""
        is_open = any(program.open_axes.values())
        types = {n: type_of(a, is_open) for n, a in self.reference(program, 0, False).items()}
        lines = []
        for node in program.nodes:
            (made,) = node.outputs
            given, operands = [f"%{each}" for each in node.inputs], [types[each] for each in node.inputs]
            lines.append(FORMS[node.op].text(given, operands, types[made], node.attributes).replace("$", f"%{made}"))
        arguments = ", ".join(f"%{each}: {types[each]}" for each in program.sets[0])
        results = [types[each] for each in program.results]
        lines.append(f"return {', '.join(f'%{each}' for each in program.results)} : {', '.join(results)}")
        body = "\n".join(lines)
        return f"func.func public @main({arguments}) -> ({', '.join(results)}) {{\n{body}\n}}"

    def compiled(self, program: Program) -> Callable[..., Any]:
        found: Callable[..., Any] = pd.device("cpu").load(pd.compile(self.text(program)))["main"]
        return found
