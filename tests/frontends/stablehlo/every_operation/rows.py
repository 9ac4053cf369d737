"""What a row is, and the programs that are made of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from every_operation.elements import ELEMENTS, Array, Element

ANY = "bool sint uint float complex quantized"
NUMBER = "sint uint float complex quantized"
INTEGER = "sint uint"
REAL = "float quantized"
ANALYTIC = "float complex quantized"


@dataclass(frozen=True)
class Row:
    """One operation for some kinds of element types.

    text: without the types of operands and results, which follow it in parentheses; $E is the element type, $R that of
    a part of a complex number, $0 and $1 are operands. operands: constants, functions of the element type, or
    KIND:SHAPE, such as "small:3x4", "ones:3", "edges:6" (numbers of the type; another letter, "edges b:6", begins at
    another one), "left:" and "right:" (all pairs of edges), "truth:3x4". results: such as "3x4x$E".
    expected(e, *arrays): the exact results. units: how far from them results may be, in distances of numbers of the
    type; 0: they are equal, with the sign of zero. holds: for which element types, beside their kind. passed: how many
    operands belong to the operation; others are used by its regions. functions: what it calls.
    """

    op: str
    text: str
    operands: tuple[Any, ...]
    results: tuple[str, ...]
    expected: Callable[..., Any]
    kinds: str = ANY
    units: float = 0
    holds: Callable[[Element], bool] = lambda e: True
    passed: int | None = None
    functions: str = ""

    def is_for(self, e: Element) -> bool:
        return e.kind in self.kinds.split() and self.holds(e)


def by(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy as what is expected."""
    return lambda e, *arrays: function(*arrays)


def shape_in(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split("x") if n)


def values(operand: str, e: Element) -> Array:
    """The numbers of an operand."""
    kind, _, shape = operand.partition(":")
    if kind in ("left", "right"):
        edges = e.edges()
        i, j = np.meshgrid(range(len(edges)), range(len(edges)), indexing="ij")
        return edges[(i if kind == "left" else j).reshape(-1)]
    sizes = shape_in(shape)
    kind, _, letter = kind.partition(" ")
    if kind == "truth":
        pool: Array = np.array([True, False, False, True, True])
    else:
        pool = {"small": e.small, "ones": e.ones, "edges": e.edges, "normal": e.normal}[kind]()
    start = ord(letter) if letter else 0
    return np.resize(np.roll(pool, -start), int(np.prod(sizes))).reshape(sizes)


def text_of(e: Element, text: str) -> str:
    """A text for an element type."""
    return text.replace("$E", e.name).replace("$R", e.real)


def tensor(e: Element, spec: str) -> str:
    return f"tensor<{text_of(e, spec)}>"


def constant(array: Array) -> str:
    kind = {"b": "i1", "i": f"i{array.itemsize * 8}", "u": f"ui{array.itemsize * 8}", "f": f"f{array.itemsize * 8}"}
    shape = "".join(f"{n}x" for n in array.shape)
    data = str(array.tolist()).lower()
    return f"stablehlo.constant dense<{data}> : tensor<{shape}{kind[array.dtype.kind]}>"


def carried(e: Element, type: str) -> str:
    """The type with which a value of this type comes from outside."""
    return type.replace(e.name, e.carried) if e.carried else type


class Program:
    """A function that computes the rows that are given for an element type."""

    def __init__(self, e: Element, rows: Sequence[Row]) -> None:
        self.e, self.rows = e, rows
        self.lines: list[str] = []
        self.arguments: dict[str, Array] = {}
        results = [
            (f"%r{n}" + (f"#{k}" if len(row.results) > 1 else ""), tensor(e, result))
            for n, row in enumerate(rows)
            for k, result in enumerate(row.results)
        ]
        for n, row in enumerate(rows):
            self._add(f"%r{n}", row)
        heads, opening = [], []
        for key in self.arguments:
            name, type = f"%{self._name(key)}", self._type(key)
            outside = carried(e, type)
            if outside != type:
                opening.append(f"{name} = stablehlo.uniform_quantize {name}_ : ({outside}) -> {type}")
                name += "_"
            heads.append(f"{name}: {outside}")
        closing, returned = [], []
        for n, (name, type) in enumerate(results):
            outside = carried(e, type)
            if outside != type:
                closing.append(f"%o{n} = stablehlo.uniform_dequantize {name} : ({type}) -> {outside}")
                name = f"%o{n}"
            returned.append((name, outside))
        names, types = (", ".join(column) for column in zip(*returned, strict=True))
        body = "\n  ".join([*opening, *self.lines, *closing, f"return {names} : {types}"])
        functions = "".join(sorted({text_of(e, row.functions) for row in rows}))
        self.text = f"func.func @main({', '.join(heads)}) -> ({types}) {{\n  {body}\n}}\n{functions}"

    def _name(self, key: str) -> str:
        return re.sub(r"\W", "_", key)

    def _type(self, key: str) -> str:
        array = self.arguments[key]
        element = "i1" if key.startswith("truth") else self.e.name
        return f"tensor<{''.join(f'{n}x' for n in array.shape)}{element}>"

    def _add(self, name: str, row: Row) -> None:
        operands, types = [], []
        for k, given in enumerate(row.operands):
            if isinstance(given, np.ndarray):
                operands.append(f"{name}c{k}")
                line = constant(given)
                self.lines.append(f"{name}c{k} = {line}")
                types.append(line.rpartition(" : ")[2])
            else:
                key = given if isinstance(given, str) else given.__name__
                self.arguments.setdefault(key, values(given, self.e) if isinstance(given, str) else given(self.e))
                operands.append(f"%{self._name(key)}")
                types.append(self._type(key))
        text = text_of(self.e, row.text)
        for k, operand in enumerate(operands):
            text = re.sub(rf"\${k}\b", operand, text)
        head = f"{name}:{len(row.results)}" if len(row.results) > 1 else name
        results = ", ".join(tensor(self.e, result) for result in row.results)
        self.lines.append(f"{head} = {text} : ({', '.join(types[: row.passed])}) -> ({results})")

    def inputs(self) -> list[Array]:
        """The arguments of a call."""
        return [self._outside(key, array) for key, array in self.arguments.items()]

    def _outside(self, key: str, array: Array) -> Array:
        return array.astype(np.float32) if self.e.carried and not key.startswith("truth") else array

    def expected(self) -> list[tuple[Row, Element, Array]]:
        """For each result its row, its type and its exact numbers."""
        found = []
        with np.errstate(all="ignore"):
            for row in self.rows:
                wide = [self._wide(given) for given in row.operands]
                made = row.expected(self.e, *wide)
                made = made if isinstance(made, tuple) else (made,)
                for result, array in zip(row.results, made, strict=True):
                    found.append((row, _element(self.e, result), np.asarray(array)))
        return found

    def _wide(self, given: Any) -> Array:
        if isinstance(given, np.ndarray):
            return given
        key = given if isinstance(given, str) else given.__name__
        return self.arguments[key] if key.startswith("truth") else self.e.wide(self.arguments[key])


def _element(e: Element, result: str) -> Element:
    return ELEMENTS[text_of(e, re.sub(r"^([\d?]+x)*", "", result))]


def different(row: Row, e: Element, found: Array, exact: Array) -> str:
    """What is wrong with a result; nothing when it is right."""
    with np.errstate(all="ignore"):
        wanted = e.narrow(exact)
    if found.shape != wanted.shape:
        return f"shape {found.shape} instead of {wanted.shape}"
    if e.kind in ("bool", "sint", "uint"):
        wrong = found.astype(object) != wanted.astype(object)
    else:
        with np.errstate(all="ignore"):
            a, b = e.wide(found), e.wide(wanted)
            wrong = ~((a == b) | ((a != a) & (b != b)))
            if row.units:
                size = np.abs(np.where(np.isfinite(b), b, 0))
                least = 0 if e.kind in ("complex", "quantized") else float(_finfo(e).smallest_subnormal)
                room = row.units * np.maximum(e.precision * (size if e.kind != "quantized" else 1), least)
                wrong &= ~(np.abs(a - b) <= room)
            elif e.kind == "float":
                wrong |= (np.signbit(a) != np.signbit(b)) & (b == b)
            if not e.has_nan:
                wrong &= exact == exact
            if e.name == "f8E8M0FNU":  # without zero and sign, and with two powers of two as near
                wrong &= ~((exact < 2.0**-127) | (np.abs(np.log2(a / exact)) < 1))
    if not np.any(wrong):
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    many = f"{int(np.sum(wrong))} of {wrong.size} differ"
    return f"{many}, first at {list(place)}: {found[place]} instead of {wanted[place]}"


def _finfo(e: Element) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(e.dtype)
