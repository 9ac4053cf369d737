"""Random functions in Python, a line for each node, of any framework whose tensors convert to arrays and back."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from graph_programs import Array, Node, Program, chosen, names, nudged

LARGEST = 1e4
ELEMENTS = 4000


@dataclass(frozen=True)
class Line:
    """A form of a line. `{x}` stands for a float tensor, `{i}` for one of i64, `{b}` for one of truth values; `{y}` is
    one that broadcasts with x, `{s}` one of its shape. ranks: of x. made: a function that fills further fields."""

    text: str
    ranks: tuple[int, int] = (1, 5)
    made: Callable[[random.Random, tuple[int, ...], bool], Mapping[str, Any]] | None = None
    outputs: int = 1


class Growing:
    """A program that grows by lines. evaluate: runs a line on arrays. is_open: whether calls decide the first sizes."""

    def __init__(self, rng: random.Random, lines: Sequence[Line], evaluate: Callable[..., list[Array]], is_open: bool):
        self.rng, self.lines, self.evaluate, self.is_open = rng, lines, evaluate, is_open
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        self.values: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.name = names("v")

    def input(self, shape: tuple[int, ...], kind: str = "f") -> str:
        """Add an argument."""
        name = next(self.name)
        self.values[name] = self.array(shape, kind)
        return name

    def array(self, shape: tuple[int, ...], kind: str = "f") -> Array:
        if kind == "f":
            return self.numbers.standard_normal(shape).astype(np.float32)
        return self.numbers.integers(-3, 4, shape).astype(np.int64)

    def _pick(self, kind: str, low: int = 0, high: int = 9) -> str | None:
        found = [name for name, a in self.values.items() if a.dtype.kind == kind and low <= a.ndim <= high]
        return chosen(self.rng, found) if found else None

    def step(self) -> None:
        """Add a random line; nothing where none fits."""
        line = self.rng.choice(self.lines)
        x = self._pick("f", *line.ranks)
        if x is None:
            return
        shape = self.values[x].shape
        fields: dict[str, Any] = {}
        inputs: list[str] = []

        def place(name: str | None) -> str:
            if name is None:
                raise ValueError("nothing fits")
            inputs.append(name)
            return f"{{{len(inputs) - 1}}}"

        for key in ("x", "y", "s", "i", "b"):
            if f"{{{key}}}" in line.text:
                options = {
                    "x": lambda: x,
                    "i": lambda: self._pick("i"),
                    "b": lambda: self._pick("b"),
                    "s": lambda: self._with(lambda a: a.shape == shape),
                    "y": lambda: self._with(
                        lambda a: (
                            a.ndim <= len(shape)
                            and all(m in (1, n) for m, n in zip(reversed(a.shape), reversed(shape), strict=False))
                        )
                    ),
                }
                fields[key] = place(options[key]())
        if line.made is not None:
            fields.update(line.made(self.rng, shape, self.is_open))
        text = line.text.format(**fields)
        found = tuple(next(self.name) for _ in range(line.outputs))
        made = self.evaluate(text, [self.values[name] for name in inputs])
        if (
            any(
                a.size > ELEMENTS or a.ndim > 6 or (a.dtype.kind == "f" and a.size and not np.abs(a).max() < LARGEST)
                for a in made
            )
            or len(made) != line.outputs
        ):
            raise ValueError("too large")
        self.nodes.append(Node(text, tuple(inputs), found))
        self.values.update(zip(found, made, strict=True))

    def grow(self, tries: int) -> None:
        """Add up to so many lines, at least one."""
        for _ in range(tries):
            try:
                self.step()
            except (ValueError, ZeroDivisionError):
                continue
        if not self.nodes:
            self.lines = [Line("-{x}", (0, 5))]
            self.step()

    def _with(self, fits: Callable[[Array], bool]) -> str | None:
        found = [name for name, a in self.values.items() if a.dtype.kind == "f" and fits(a)]
        return chosen(self.rng, found) if found else None

    def program(self, inputs: Sequence[str], more: Sequence[Mapping[str, Array]] = ()) -> Program:
        """The program of the lines so far."""
        first = {name: self.values[name] for name in inputs}
        axes = {name: (0,) for name in inputs} if self.is_open else {}
        return Program(tuple(self.nodes), (first, *more), {}, axes)


class Functions(ABC):
    """Random functions of a framework.

    lines: the lines that functions consist of. names: the modules and functions that lines use. refusals: exceptions of
    a line that does not fit its operands. has_dynamic_sizes: whether calls may decide the size of the first axis.
    """

    lines: Sequence[Line]
    names: Mapping[str, Any]
    refusals: tuple[type[Exception], ...]
    has_dynamic_sizes: bool
    has_types = True

    def __init__(self) -> None:
        self._results: dict[tuple[Any, ...], list[Array]] = {}

    @abstractmethod
    def shapes(self, rng: random.Random) -> list[tuple[int, ...]]:
        """Return the shapes of the arguments; the first sizes are equal where calls may decide them."""

    @abstractmethod
    def tensor(self, array: Array) -> Any:
        """Return a tensor with the elements of an array."""

    @abstractmethod
    def array(self, tensor: Any) -> Array:
        """Return an array with the elements of a tensor."""

    @abstractmethod
    def loaded(self, function: Callable[..., Any], program: Program) -> Callable[..., Any]:
        """Return a function of tensors, compiled for the arguments of a program and loaded on the CPU."""

    def space(self, exact: bool) -> dict[str, Any]:
        """Return what lines name. exact: constants have 64-bit floats."""
        dtype = np.float64 if exact else np.float32
        return {**self.names, "weights": lambda seed, *shape: self.tensor(weights(seed, *shape).astype(dtype))}

    def evaluate(self, text: str, arrays: Sequence[Array], exact: bool = False) -> list[Array]:
        """Return the results of a line; ValueError where it does not fit. Results of the current program are cached."""
        key = text, exact, *((a.dtype, a.shape, a.tobytes()) for a in arrays)
        if key not in self._results:
            self._results[key] = self._evaluated(text, arrays, exact)
        return self._results[key]

    def _evaluated(self, text: str, arrays: Sequence[Array], exact: bool) -> list[Array]:
        """Return the results of a line as `evaluate`, not cached."""
        tensors = {f"a{n}": self.tensor(array) for n, array in enumerate(arrays)}
        text = text.format(*tensors)
        try:
            made = self.results(text.replace("float32", "float64") if exact else text, tensors, exact)
        except self.refusals as error:
            raise ValueError(str(error)) from None
        return [self.array(x) for x in (made if isinstance(made, (tuple, list)) else [made])]

    def results(self, text: str, tensors: Mapping[str, Any], exact: bool) -> Any:
        """Return the results of a line for tensors with the names that it uses. exact: constants have 64-bit floats."""
        return eval(text, {**self.space(exact), **tensors})

    def generate(self, rng: random.Random) -> Program:
        """Return a random function, called with two sizes where a call decides the first one."""
        self._results = {}
        is_open = self.has_dynamic_sizes and rng.random() < 0.5
        growing = Growing(rng, self.lines, self.evaluate, is_open)
        shapes = self.shapes(rng)
        inputs = [growing.input(shape) for shape in shapes]
        growing.grow(rng.randint(6, 20))
        if not is_open:
            return growing.program(inputs)
        other = rng.choice([n for n in (2, 3, 5) if n != shapes[0][0]])
        more = {name: growing.array((other, *shape[1:])) for name, shape in zip(inputs, shapes, strict=True)}
        program = growing.program(inputs, [more])
        try:
            self.reference(program, 1, False)
        except ValueError:  # a line fits the first sizes alone
            return replace(program, sets=program.sets[:1], open_axes={})
        return program

    def reference(self, program: Program, number: int, exact: bool, is_nudged: bool = False) -> dict[str, Array]:
        """Return every value of a call; see `graph_programs.Kind`."""
        values = dict(program.sets[number])
        if exact:
            values = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in values.items()}
        for node in program.nodes:
            found = self.evaluate(node.op, [values[name] for name in node.inputs], exact)
            values.update(zip(node.outputs, map(nudged, found) if is_nudged else found, strict=True))
        return values

    def compiled(self, program: Program) -> Callable[..., Any]:
        """Return the function of the compiled program, loaded on the CPU."""
        space = self.space(False)
        exec(source(program), space)
        return self.loaded(space["f"], program)


def weights(seed: int, *shape: int) -> Array:
    """Return constants of a line."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 2


def source(program: Program) -> str:
    """Return the program as the text of a function `f`."""
    lines = [f"def f({', '.join(program.sets[0])}):"]
    for node in program.nodes:
        lines.append(f"    {', '.join(node.outputs)} = {node.op.format(*node.inputs)}")
    return "\n".join([*lines, f"    return ({', '.join(program.results)},)"])


# -- fields of lines


def width(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{n}` rows and `{width}` columns of `weights({seed}, ...)`."""
    return {"n": shape[-1], "width": rng.randint(1, 6), "seed": rng.randrange(100)}


def axis(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{axis}`: never that of a size that a call decides."""
    first = 1 if is_open else 0
    if len(shape) <= first:
        raise ValueError("no axis")
    found = rng.randrange(first, len(shape))
    return {"axis": found, "n": shape[found]}


def axes(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{axes}`: some of them."""
    first = 1 if is_open else 0
    rest = range(first, len(shape))
    found = tuple(sorted(rng.sample(rest, rng.randint(1, len(rest)))))
    return {"axes": found, "keep": bool(rng.randrange(2))}


def indices(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{indices}` along `{axis}`, a list."""
    found = axis(rng, shape, is_open)
    n = found["n"]
    count = rng.randint(1, 4)
    return {**found, "indices": [rng.randint(0, n - 1) for _ in range(count)]}


def bounds(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{start}` and `{stop}` along `{axis}`, and `{index}`, text within brackets."""
    found = axis(rng, shape, is_open)
    start, stop = sorted((rng.randint(0, found["n"]), rng.randint(0, found["n"])))
    step = rng.choice([1, 1, 2])
    index = ", ".join([":"] * found["axis"] + [f"{start}:{stop}:{step}"])
    return {**found, "start": start, "stop": stop, "count": stop - start, "index": index}


def order(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> dict[str, Any]:
    """`{order}`: a permutation of the axes."""
    found = list(range(len(shape)))
    rest = found[1:] if is_open else found
    rng.shuffle(rest)
    return {"order": tuple([0, *rest] if is_open else rest)}
