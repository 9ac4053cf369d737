"""Random StableHLO programs, 5 to 15 operations of static or dynamic sizes, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from graph_programs import Array, Node, Program, chosen, names

import pydispatch as pd

LARGEST = 1e4
ELEMENTS = 2000
ELEMENT_TYPES = {"f": "f32", "i": "i32", "b": "i1"}
Types = Sequence[str]
Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Form:
    """An operation. kinds: of its operands' elements, f, i or b. meaning: in NumPy. made: its attributes, from the
    operands; ValueError where it does not fit. text: its lines, in which `$` stands for the result's name, from names
    and types of operands, the result's type and the attributes."""

    kinds: str
    meaning: Callable[..., Any]
    text: Callable[[Types, Types, str, Attributes], str]
    made: Callable[[random.Random, Sequence[Array], bool], Attributes] | None = None
    is_static: bool = False


def type_of(array: Array, is_open: bool) -> str:
    """The type of a value; the calls decide the size of its first axis where is_open is true."""
    sizes = ["?" if is_open and not axis else str(n) for axis, n in enumerate(array.shape)]
    return f"tensor<{'x'.join([*sizes, ELEMENT_TYPES[array.dtype.kind]])}>"


def same(op: str) -> Callable[[Types, Types, str, Attributes], str]:
    """An operation whose operands and result have one type."""
    return lambda names, types, result, _: f"$ = stablehlo.{op} {', '.join(names)} : {result}"


def listed(op: str, fields: str = "") -> Callable[[Types, Types, str, Attributes], str]:
    """An operation with attributes in clauses and the types of all operands."""
    return lambda names, types, result, a: (
        f"$ = stablehlo.{op} {', '.join(names)}{fields.format(**a)} : ({', '.join(types)}) -> {result}"
    )


def _axis(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    axes = range(1 if is_open else 0, given[0].ndim)
    if not axes:
        raise ValueError("no axis")
    return {"axis": rng.choice(axes)}


def _order(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    first = 1 if is_open and given[0].ndim else 0
    rest = list(range(first, given[0].ndim))
    rng.shuffle(rest)
    return {"order": [*range(first), *rest]}


def _slice(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    bounds = []
    for n in given[0].shape:
        start = rng.randint(0, n)
        bounds.append((start, rng.randint(start, n), rng.choice([1, 1, 2])))
    return {"bounds": bounds}


def _sides(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if not given[0].ndim:
        raise ValueError("no axis")
    return {"low": [rng.randint(0, 2) for _ in given[0].shape], "high": [rng.randint(0, 2) for _ in given[0].shape]}


def _shape(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    sizes = list(given[0].shape)
    if len(sizes) > 1 and rng.randrange(2):
        axis = rng.randrange(len(sizes) - 1)
        sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
    else:
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return {"shape": sizes}


def _spread(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    at, n = rng.randint(0, given[0].ndim), rng.randint(1, 3)
    return {"at": at, "shape": [*given[0].shape[:at], n, *given[0].shape[at:]]}


def _direction(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    return {"direction": rng.choice(list(COMPARED))}


COMPARED = {"GT": np.greater, "LE": np.less_equal, "EQ": np.equal, "NE": np.not_equal}
FOLDS = {"add": ("0.0", np.sum), "maximum": ("0xFF800000", np.max), "minimum": ("0x7F800000", np.min)}


def _folded(fold: str) -> Form:
    start, meaning = FOLDS[fold]
    return Form(
        "f",
        lambda x, axis: meaning(x, axis=axis, initial={"add": 0, "maximum": -np.inf, "minimum": np.inf}[fold]),
        lambda names, types, result, a: (
            f"$_c = stablehlo.constant dense<{start}> : tensor<f32>\n"
            f"$ = stablehlo.reduce({names[0]} init: $_c) applies stablehlo.{fold} across dimensions = [{a['axis']}] : "
            f"({types[0]}, tensor<f32>) -> {result}"
        ),
        _axis,
    )


def _sorted(names: Types, types: Types, result: str, a: Attributes) -> str:
    return (
        f'$ = "stablehlo.sort"({names[0]}) ({{\n^bb0(%l: tensor<f32>, %r: tensor<f32>):\n'
        "%lt = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        f'"stablehlo.return"(%lt) : (tensor<i1>) -> ()\n}}) {{dimension = {a["axis"]} : i64, is_stable = true}} '
        f": ({types[0]}) -> {result}"
    )


def _product(names: Types, types: Types, result: str, a: Attributes) -> str:
    batch = ", ".join(map(str, range(a["rank"] - 2)))
    clause = f"batching_dims = [{batch}] x [{batch}], " if batch else ""
    last = a["rank"] - 1
    return (
        f"$ = stablehlo.dot_general {names[0]}, {names[0]}, {clause}contracting_dims = [{last}] x [{last}] : "
        f"({types[0]}, {types[0]}) -> {result}"
    )


def _ranked(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    if given[0].ndim < (3 if is_open else 2):
        raise ValueError("too few axes")
    return {"rank": given[0].ndim}


UNARY = {
    "tanh": np.tanh, "abs": np.abs, "negate": np.negative, "cosine": np.cos, "sine": np.sin, "floor": np.floor,
    "ceil": np.ceil, "sign": np.sign, "round_nearest_even": np.rint, "logistic": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
FORMS: dict[str, Form] = {
    **{name: Form("f", meaning, same(name)) for name, meaning in UNARY.items()},
    **{name: Form("ff", meaning, same(name)) for name, meaning in BINARY.items()},
    **{f"{name}_i": Form("ii", meaning, same(name)) for name, meaning in BINARY.items()},
    "and": Form("bb", np.logical_and, same("and")),
    "not": Form("b", np.logical_not, same("not")),
    "compare": Form("ff", lambda x, y, direction: COMPARED[direction](x, y),
                    lambda names, types, result, a: f"$ = stablehlo.compare {a['direction']}, {', '.join(names)} : "
                    f"({', '.join(types)}) -> {result}", _direction),
    "select": Form("bff", np.where, lambda names, types, result, a: f"$ = stablehlo.select {', '.join(names)} : "
                   f"{types[0]}, {result}"),
    "to_integer": Form("f", lambda x: x.astype(np.int32), listed("convert")),
    "to_float": Form("i", lambda x: x.astype(np.float32), listed("convert")),
    "of_truth": Form("b", lambda x: x.astype(np.float32), listed("convert")),
    "transpose": Form("f", lambda x, order: x.transpose(order), listed("transpose", ", dims = {order}"), _order),
    "reverse": Form("f", np.flip, lambda names, types, result, a: f"$ = stablehlo.reverse {names[0]}, dims = "
                    f"[{a['axis']}] : {result}", _axis),
    "concatenate": Form("ff", lambda x, y, axis: np.concatenate([x, y], axis),
                        listed("concatenate", ", dim = {axis}"), _axis),
    "slice": Form("f", lambda x, bounds: x[tuple(slice(*each) for each in bounds)],
                  lambda names, types, result, a: f"$ = stablehlo.slice {names[0]} ["
                  f"{', '.join(f'{low}:{high}:{step}' for low, high, step in a['bounds'])}] : ({types[0]}) -> {result}",
                  _slice, True),
    "pad": Form("f", lambda x, low, high: np.pad(x, list(zip(low, high, strict=True)), constant_values=0.5),
                lambda names, types, result, a: "$_c = stablehlo.constant dense<0.5> : tensor<f32>\n"
                f"$ = stablehlo.pad {names[0]}, $_c, low = {a['low']}, high = {a['high']}, interior = "
                f"{[0] * len(a['low'])} : ({types[0]}, tensor<f32>) -> {result}", _sides, True),
    "reshape": Form("f", lambda x, shape: x.reshape(shape), listed("reshape"), _shape, True),
    "broadcast": Form("f", lambda x, at, shape: np.broadcast_to(np.expand_dims(x, at), shape).copy(),
                      lambda names, types, result, a: f"$ = stablehlo.broadcast_in_dim {names[0]}, dims = "
                      f"{[d for d in range(len(a['shape'])) if d != a['at']]} : ({types[0]}) -> {result}",
                      _spread, True),
    **{f"reduce_{fold}": _folded(fold) for fold in FOLDS},
    "sort": Form("f", lambda x, axis: np.sort(x, axis, kind="stable"), _sorted, _axis),
    "product": Form("f", lambda x, rank: x @ np.swapaxes(x, -1, -2), _product, _ranked),
}  # fmt: skip


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

    def reference(self, program: Program, number: int, exact: bool) -> dict[str, Array]:
        values = {n: a.astype(np.float64) if exact else a for n, a in program.sets[number].items()}
        for node in program.nodes:
            values[node.outputs[0]] = evaluated(node, [values[each] for each in node.inputs], exact)
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
