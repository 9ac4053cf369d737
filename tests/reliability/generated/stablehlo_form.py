"""The form of a random StableHLO operation: its meaning in NumPy and its text."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graph_programs import Array

ELEMENT_TYPES = {"f": "f32", "i": "i32", "b": "i1"}
Types = Sequence[str]
Attributes = Mapping[str, Any]
Text = Callable[[Types, Types, str, Attributes], str]


@dataclass(frozen=True)
class Form:
    """An operation. kinds: of its operands' elements, f, i or b. meaning: in NumPy. made: its attributes, from the
    operands; ValueError where it does not fit. text: its lines, in which `$` stands for the result's name, from names
    and types of operands, the result's type and the attributes."""

    kinds: str
    meaning: Callable[..., Any]
    text: Text
    made: Callable[[random.Random, Sequence[Array], bool], Attributes] | None = None
    is_static: bool = False


def type_of(array: Array, is_open: bool) -> str:
    """The type of a value; the calls decide the size of its first axis where is_open is true."""
    sizes = ["?" if is_open and not axis else str(n) for axis, n in enumerate(array.shape)]
    return f"tensor<{'x'.join([*sizes, ELEMENT_TYPES[array.dtype.kind]])}>"


def same(op: str) -> Text:
    """An operation whose operands and result have one type."""
    return lambda names, types, result, _: f"$ = stablehlo.{op} {', '.join(names)} : {result}"


def listed(op: str, fields: str = "") -> Text:
    """An operation with attributes in clauses and the types of all operands."""
    return lambda names, types, result, a: (
        f"$ = stablehlo.{op} {', '.join(names)}{fields.format(**a)} : ({', '.join(types)}) -> {result}"
    )


def any_axis(rng: random.Random, given: Sequence[Array], is_open: bool) -> Attributes:
    """Choose `axis`, never the one whose size a call decides."""
    axes = range(1 if is_open else 0, given[0].ndim)
    if not axes:
        raise ValueError("no axis")
    return {"axis": rng.choice(axes)}


def region(arguments: Sequence[tuple[str, str]], lines: str, result: str, type_: str) -> str:
    """A region whose block has the arguments (name, type), and which returns one value."""
    given = ", ".join(f"{name}: {each}" for name, each in arguments)
    return f'{{\n^bb0({given}):\n{lines}\n"stablehlo.return"({result}) : ({type_}) -> ()\n}}'


def folding(op: str, result: str = "$_f") -> str:
    """A region that combines two f32."""
    scalar = "tensor<f32>"
    line = f"{result} = stablehlo.{op} $_l, $_r : {scalar}"
    return region([("$_l", scalar), ("$_r", scalar)], line, result, scalar)


def dense(values: Array) -> str:
    """The elements of a constant, whose floats are multiples of a power of two."""
    return f"dense<{values.tolist()}>"
