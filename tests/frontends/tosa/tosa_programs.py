"""One operation of TOSA as a program, and running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pydispatch as pd

Array = np.ndarray[Any, Any]
NAMES = {"bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64"}


@dataclass(frozen=True)
class Const:
    """An operand that is a constant of the program. element: its type, where that is not the array's."""

    array: Any
    element: str = ""


@dataclass(frozen=True)
class Shape:
    """An operand that is a list of sizes."""

    sizes: Sequence[int]


def element_of(array: Array) -> str:
    kind, size = array.dtype.kind, array.dtype.itemsize * 8
    return NAMES.get(array.dtype.name) or {"i": f"i{size}", "u": f"ui{size}"}[kind]


def type_of(array: Array, dynamic: bool = False, element: str = "") -> str:
    return f"tensor<{''.join('?x' if dynamic else f'{n}x' for n in array.shape)}{element or element_of(array)}>"


def dense(array: Array) -> str:
    def shown(v: Any) -> str:
        kinds = {"b": lambda: str(bool(v)).lower(), "f": lambda: repr(float(v))}
        return kinds.get(array.dtype.kind, lambda: str(int(v)))()

    def nested(part: Any) -> str:
        return shown(part) if part.ndim == 0 else f"[{', '.join(nested(p) for p in part)}]"

    return nested(array)


@dataclass(frozen=True)
class Check:
    """A function, its arguments and what it has to return."""

    text: str
    given: list[Array]
    wanted: list[Array]
    rtol: float
    atol: float


TOGETHER = 16
"""Functions of one program at most."""


class Runner:
    """Runs one operation, or a whole text."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.checks: list[Check] = []

    def text(self, text: str, *arrays: Array) -> list[Array]:
        """What the function of a text gives."""
        program = self.device.load(pd.compile(text))
        found = program.main(*arrays)
        return list(found) if isinstance(found, tuple) else [found]

    def __call__(self, name: str, operands: Sequence[Any], results: Sequence[str], attributes: str = "",
                 dynamic: bool = False) -> list[Array]:  # fmt: skip
        return self.text(*program(name, operands, results, attributes, dynamic))

    def check(self, name: str, operands: Sequence[Any], wanted: Array | list[Array], attributes: str = "",
              dynamic: bool = False, rtol: float = 0.0, atol: float = 0.0, element: str = "") -> None:  # fmt: skip
        """The operation gives these arrays. It is compared by `compare`, which tests end with (conftest.py)."""
        arrays = list(wanted) if isinstance(wanted, list) else [np.asarray(wanted)]
        types = [type_of(array, dynamic, element) for array in arrays]
        text, *given = program(name, operands, types, attributes, dynamic)
        self.checks.append(Check(text, [a.copy() for a in given], [a.copy() for a in arrays], rtol, atol))

    def compare(self) -> None:
        """Runs what was to be checked so far: functions of one program, which costs half as much as one for each."""
        checks, self.checks = self.checks, []
        for some in (checks[first : first + TOGETHER] for first in range(0, len(checks), TOGETHER)):
            text = "\n".join(check.text.replace("@main", f"@f{number}") for number, check in enumerate(some))
            try:
                loaded = self.device.load(pd.compile(text))
            except pd.CompileError as error:
                raise AssertionError(f"{error}\nin the program\n{text}") from error
            for number, check in enumerate(some):
                found = loaded[f"f{number}"](*check.given)
                for got, array in zip(found if isinstance(found, tuple) else [found], check.wanted, strict=True):
                    assert got.dtype == array.dtype, check.text
                    np.testing.assert_allclose(got, array, check.rtol, check.atol, err_msg=check.text)


def program(name: str, operands: Sequence[Any], results: Sequence[str], attributes: str = "",
            dynamic: bool = False) -> tuple[Any, ...]:  # fmt: skip
    """The text of a function that is one operation, and its arguments."""
    lines, names, types, arguments, arrays = [], [], [], [], []
    for number, operand in enumerate(operands):
        names.append(f"%x{number}")
        if isinstance(operand, Shape):
            types.append(f"!tosa.shape<{len(operand.sizes)}>")
            value = f"dense<{list(operand.sizes)}> : tensor<{len(operand.sizes)}xindex>"
            lines.append(f"%x{number} = tosa.const_shape {{values = {value}}} : () -> {types[-1]}")
        elif isinstance(operand, Const):
            array = np.asarray(operand.array)
            types.append(type_of(array, element=operand.element))
            value = f"dense<{dense(array)}> : {types[-1]}"
            lines.append(f'%x{number} = "tosa.const"() <{{values = {value}}}> : () -> {types[-1]}')
        else:
            types.append(type_of(operand, dynamic))
            arguments.append(f"%x{number}: {types[-1]}")
            arrays.append(operand)
    made = ", ".join(f"%r{number}" for number in range(len(results)))
    given = f"({', '.join(types)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"
    body = "\n  ".join([*lines, f"{made} = tosa.{name} {', '.join(names)} {{{attributes}}} : {given}"])
    return (
        f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  {body}\n"
        f"  return {made} : {', '.join(results)}\n}}", *arrays,
    )  # fmt: skip
