"""Random programs as lists of nodes: how they are compared with references, and how failing ones become smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

import pydispatch as pd

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Node:
    """An operation.

    op: its name, or a line of Python in which `{0}` stands for the first input. attributes: what is no tensor.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A program and its arguments.

    sets: the arguments of each call. constants: arrays in the program. open_axes: for each argument the axes whose
    sizes a call decides.
    """

    nodes: tuple[Node, ...]
    sets: tuple[Mapping[str, Array], ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    open_axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def results(self) -> tuple[str, ...]:
        """The values that no node uses."""
        used = {name for node in self.nodes for name in node.inputs}
        return tuple(name for node in self.nodes for name in node.outputs if name not in used)

    def __str__(self) -> str:
        lines = [
            f"{name} = {a.dtype}{list(a.shape)} open {self.open_axes.get(name, ())}" for name, a in self.sets[0].items()
        ]
        lines += [f"{name} = {a.dtype} {a.tolist()}" for name, a in self.constants.items() if a.size <= 12]
        for node in self.nodes:
            text = node.op.format(*node.inputs) if "{" in node.op else f"{node.op}({', '.join(node.inputs)})"
            lines.append(f"{', '.join(node.outputs)} = {text} {dict(node.attributes) or ''}")
        return "\n".join([*lines, f"return {', '.join(self.results)}"])


class Kind(Protocol):
    """A frontend: how programs are made, evaluated and compiled.

    has_types: whether results of the reference that is not exact have the element types of the frontend.
    """

    has_types: bool

    def generate(self, rng: random.Random) -> Program:
        """Return a random program."""

    def reference(self, program: Program, number: int, exact: bool, is_nudged: bool = False) -> dict[str, Array]:
        """Return every value of a call.

        Args:
            exact: Whether it is computed with 64-bit floats.
            is_nudged: Whether each result of an operation is changed by `nudged`.
        """

    def compiled(self, program: Program) -> Callable[..., Any]:
        """Return the function of the compiled program, loaded on the CPU."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with a program. kind: "wrong" or the name of an exception."""

    kind: str
    text: str


REFUSED = Finding("refused", "")
UNSTABLE = Finding("unstable", "")
TOLERANCE = 2e-4
"""Relative to the largest element of a result."""


def check(kind: Kind, program: Program) -> Finding | None:
    """Compare a program with its reference: a finding, REFUSED, UNSTABLE or None."""
    wanted, types = [], {}
    for number in range(len(program.sets)):
        plain, exact = (kind.reference(program, number, wide) for wide in (False, True))
        if any(not is_close(plain[name], exact[name], TOLERANCE / 4) for name in program.results):
            return UNSTABLE
        wanted.append(exact)
        types = {name: plain[name].dtype for name in program.results}
    try:
        function = kind.compiled(program)
        for number, (given, values) in enumerate(zip(program.sets, wanted, strict=True)):
            found = function(*given.values())
            found = list(found) if isinstance(found, (tuple, list)) else [found]
            for name, result in zip(program.results, found, strict=True):
                got, want = np.asarray(result), values[name]
                if kind.has_types and got.dtype != types[name]:
                    return Finding("wrong", f"{name} has the type {got.dtype}, expected {types[name]}")
                if got.shape != want.shape:
                    return Finding("wrong", f"{name} has shape {got.shape}, expected {want.shape}")
                if not is_close(got, want, TOLERANCE):
                    is_stable = _is_stable(kind, program, number, name, want)
                    return Finding("wrong", f"{name} is\n{got}\nexpected\n{want}") if is_stable else UNSTABLE
    except pd.InternalError as error:
        return Finding("InternalError", str(error)[:2000])
    except pd.CompileError as error:
        return Finding(type(error.__cause__).__name__, str(error)[:2000]) if error.__cause__ else REFUSED
    except pd.Error as error:
        return Finding(f"call: {type(error).__name__}", str(error)[:2000])
    except Exception as error:
        return Finding(type(error).__name__, str(error)[:2000])
    return None


def _is_stable(kind: Kind, program: Program, number: int, name: str, exact: Array) -> bool:
    """Return whether a result keeps its value where the results of operations before it change in their last bits."""
    moved = kind.reference(program, number, exact=True, is_nudged=True)[name]
    return is_close(moved, exact, TOLERANCE / 4)


def nudged(a: Array) -> Array:
    """Return floats of 64 bits with relative changes that sums of 32 bits in another order may make."""
    if a.dtype != np.float64:
        return a
    return np.asarray(a * (1 + 2.0**-23 * np.random.default_rng(a.size).uniform(-1, 1, a.shape)))


def is_close(a: Array, b: Array, tolerance: float) -> bool:
    """Return whether two arrays agree; the tolerance is relative to the largest element of b."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 1.0
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(scale, 1e-3), equal_nan=True))


# -- smaller programs


def without(program: Program, number: int) -> Program | None:
    """A program without a node and all that depend on it; None where nothing would be left."""
    gone: set[str] = set()
    kept = []
    for n, node in enumerate(program.nodes):
        if n == number or gone & set(node.inputs):
            gone |= set(node.outputs)
        else:
            kept.append(node)
    return replace(program, nodes=tuple(kept)) if kept else None


def bypassed(program: Program, number: int) -> Program:
    """A program in which a node's first input takes the place of its first output."""
    node = program.nodes[number]
    renamed = {node.outputs[0]: node.inputs[0]}
    rest = [n for i, n in enumerate(program.nodes) if i != number]
    nodes = tuple(replace(n, inputs=tuple(renamed.get(name, name) for name in n.inputs)) for n in rest)
    return replace(program, nodes=nodes)


def smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them."""
    for number in reversed(range(len(program.nodes))):
        if (shorter := without(program, number)) is not None:
            yield shorter
        if len(program.nodes) > 1 and program.nodes[number].inputs:
            yield bypassed(program, number)
    if len(program.sets) > 1:
        for given in program.sets:
            yield replace(program, sets=(given,))
    if any(program.open_axes.values()):
        yield replace(program, open_axes={})
    for name, array in program.sets[0].items():
        for axis, n in enumerate(array.shape):
            if n > 1:
                yield replace(
                    program, sets=tuple({**given, name: given[name].take(range(n - 1), axis)} for given in program.sets)
                )


def reduced(kind: Kind, program: Program, finding: Finding, tries: int = 200) -> tuple[Program, Finding]:
    """Return the smallest program found that has a finding of the same kind."""
    found, left = True, tries
    while found and left > 0:
        found = False
        for candidate in smaller(program):
            left -= 1
            if left <= 0:
                break
            try:
                again = check(kind, candidate)
            except Exception:  # the reference refuses it
                continue
            if again is not None and again.kind == finding.kind:
                program, finding, found = candidate, again, True
                break
    return _tidy(program), finding


def _tidy(program: Program) -> Program:
    """A program without arguments and constants that nothing uses, where at least one argument is left."""
    used = {name for node in program.nodes for name in node.inputs}
    constants = {name: a for name, a in program.constants.items() if name in used}
    return replace(program, constants=constants)


def names(prefix: str) -> Iterator[str]:
    """Endless names."""
    number = 0
    while True:
        yield f"{prefix}{number}"
        number += 1


def chosen(rng: random.Random, options: Sequence[Any]) -> Any:
    """One of several; the later ones are likelier, so that programs become deep."""
    return options[max(rng.randrange(len(options)), rng.randrange(len(options)))]
