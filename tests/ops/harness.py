"""Programs of tensor operations whose values NumPy computes beside them.

A `Body` grows line by line; each value has a shape, an element type and a name. `run` compiles bodies as functions
with arguments and compares what they return with what was expected; `check_text` writes the same body as a function
without arguments that checks itself, for `pydispatch check`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

import pydispatch as pd

Array = NDArray[Any]
Shape = Sequence[int]

DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")

# The lengths that break tilings: nothing, one, primes, one beside a power of two, and whole tiles.
LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67)
SEARCHING = "PYDISPATCH_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("PYDISPATCH_EXAMPLES", "7"))


def examples(share: float = 1.0) -> Any:
    """The settings of a property. PYDISPATCH_EXAMPLES sets how many programs are tried, times `share`."""
    return settings(
        max_examples=max(1, round(EXAMPLES * share)), deadline=None,
        derandomize=not SEARCHING,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        database=None, report_multiple_bugs=False,
    )  # fmt: skip


class Value(NamedTuple):
    """A value of a body: its name, its sizes and its element type; a scalar when `shape` is None."""

    name: str
    shape: tuple[int, ...] | None
    element: str
    static: frozenset[int] = frozenset()
    """The dimensions that have static sizes in any case."""

    def __str__(self) -> str:
        return self.name


@dataclass
class Body:
    """One function. sizes: "static", "dynamic", or "mixed", where odd sizes are dynamic and even ones are not.
    constants: how likely it is that `numbers` are a constant of the program, not an input.
    static: how likely it is that a dimension of an input has a static size whatever `sizes` says.
    foldable: how likely it is that a dynamic size is the value of an `arith.constant`."""

    sizes: str = "static"
    seed: int = 0
    constants: float = 0.0
    static: float = 0.0
    foldable: float = 0.0
    lines: list[str] = field(default_factory=list)
    inputs: list[tuple[Value, Array]] = field(default_factory=list)
    wanted: list[tuple[Value, Array, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    # ---- text

    def is_dynamic(self, size: int) -> bool:
        return self.sizes == "dynamic" or (self.sizes == "mixed" and size % 2 == 1)

    def type(self, shape: Shape | None, element: str, static: Collection[int] = ()) -> str:
        if shape is None:
            return element
        sizes = ["?" if self.is_dynamic(n) and i not in static else str(n) for i, n in enumerate(shape)]
        return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"

    def type_of(self, *values: Value) -> str:
        return ", ".join(self.type(v.shape, v.element, v.static) for v in values)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def value(self, text: str, shape: Shape | None, element: str) -> Value:
        """A line `%n = text` with one result."""
        made = Value(f"%v{len(self.lines)}", None if shape is None else tuple(shape), element)
        self.line(f"{made} = {text}")
        return made

    def size(self, n: int) -> str:
        """A size in a list of static and dynamic ones: a number, or a value that is only known at run time."""
        return str(n) if not self.is_dynamic(n) else self.index(n)

    def index(self, n: int) -> str:
        is_foldable = self.foldable and self.random.random() < self.foldable
        op = "arith.constant" if is_foldable else "util.unfoldable_constant"
        return self.value(f"{op} {n} : index", None, "index").name

    def scalar(self, number: Any, element: str) -> Value:
        text = literal(np.asarray(number, DTYPES[element]), element)
        return self.value(f"arith.constant {text}" + ("" if element == "i1" else f" : {element}"), None, element)

    def empty(self, shape: Shape, element: str) -> Value:
        dims = ", ".join(self.index(n) for n in shape if self.is_dynamic(n))
        return self.value(f"tensor.empty({dims}) : {self.type(shape, element)}", shape, element)

    def filled(self, number: Any, shape: Shape, element: str) -> Value:
        scalar, out = self.scalar(number, element), self.empty(shape, element)
        type_ = self.type(shape, element)
        return self.value(f"linalg.fill ins({scalar} : {element}) outs({out} : {type_}) -> {type_}", shape, element)

    def named(self, op: str, ins: Sequence[Value], out: Value, attributes: str = "") -> Value:
        """`linalg.op` over `ins` into `out`. attributes: what stands between the name and `ins`."""
        operands = ", ".join(map(str, ins))
        return self.value(
            f"linalg.{op} {attributes}{' ' if attributes else ''}ins({operands} : {self.type_of(*ins)}) "
            f"outs({out} : {self.type_of(out)}) -> {self.type_of(out)}",
            out.shape, out.element,
        )  # fmt: skip

    def generic(
        self, maps: Sequence[str], iterators: str, ins: Sequence[Value], outs: Sequence[Value], body: str
    ) -> list[Value]:
        """maps: `(d0, d1) -> (d1)` each. iterators: a letter each, p or r. body: lines over %a0 … and %o0 …."""
        kinds = ", ".join({"p": '"parallel"', "r": '"reduction"'}[i] for i in iterators)
        arguments = [f"%a{i}: {v.element}" for i, v in enumerate(ins)]
        arguments += [f"%o{i}: {v.element}" for i, v in enumerate(outs)]
        types = self.type_of(*outs)
        name = f"%v{len(self.lines)}"
        operands = f"ins({', '.join(map(str, ins))} : {self.type_of(*ins)}) " if ins else ""
        self.line(
            f"{name}{f':{len(outs)}' if len(outs) > 1 else ''} = linalg.generic {{indexing_maps = "
            f"[{', '.join(f'affine_map<{m}>' for m in maps)}], iterator_types = [{kinds}]}} {operands}"
            f"outs({', '.join(map(str, outs))} : {types}) {{\n  ^bb0({', '.join(arguments)}):\n"
            + "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())
            + f"\n  }} -> {types if len(outs) == 1 else f'({types})'}"
        )
        if len(outs) == 1:
            return [outs[0]._replace(name=name)]
        return [v._replace(name=f"{name}#{i}") for i, v in enumerate(outs)]

    # ---- values

    def input(self, array: Any, element: str, known: int = 0) -> Value:
        """known: how many dimensions, from the last, have static sizes in any case."""
        array = np.asarray(array, DTYPES[element], order="C")
        static = {i for i in range(array.ndim) if self.static and self.random.random() < self.static}
        static.update(range(array.ndim - known, array.ndim))
        made = Value(f"%x{len(self.inputs)}", array.shape, element, frozenset(static))
        self.inputs.append((made, array))
        return made

    def numbers(self, shape: Shape, element: str, low: int = -4, high: int = 5) -> tuple[Value, Array]:
        """Small whole numbers, so that sums of products are exact in every type."""
        array = self.random.integers(low, high, tuple(shape)).astype(DTYPES[element])
        known = array.size <= 4096 and not any(map(self.is_dynamic, shape))
        if known and self.constants and self.random.random() < self.constants:
            text = f"arith.constant dense<{literal(array, element)}> : {self.type(shape, element)}"
            return self.value(text, shape, element), array
        return self.input(array, element), array

    def fractions(self, shape: Shape, element: str) -> tuple[Value, Array]:
        array = self.random.standard_normal(tuple(shape)).astype(DTYPES[element])
        return self.input(array, element), array

    def expect(self, value: Value, array: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Both 0: equal. The array is converted to the element type of the value."""
        array = np.asarray(array).astype(DTYPES[value.element])
        assert array.shape == (value.shape or ()), f"{value}: the test expects {array.shape}, not {value.shape}"
        self.wanted.append((value, array, rtol, atol))

    # ---- functions

    def function(self, name: str) -> str:
        arguments = ", ".join(f"{v}: {self.type_of(v)}" for v, _ in self.inputs)
        results = [v for v, *_ in self.wanted]
        types = self.type_of(*results)
        lines = [*self.lines, f"return {', '.join(map(str, results))} : {types}"]
        return f"func.func @{name}({arguments}) -> ({types}) {{\n" + "".join(f"  {s}\n" for s in lines) + "}\n"

    def check_text(self, name: str) -> str:
        lines = []
        for value, array in self.inputs:
            static, type_ = f"tensor<{''.join(f'{n}x' for n in array.shape)}{value.element}>", self.type_of(value)
            op = "util.unfoldable_constant" if static == type_ else "flow.tensor.dynamic_constant"
            lines.append(
                f"{value} = {op} dense<{literal(array, value.element)}> : {static}"
                + ("" if static == type_ else f" -> {type_}")
            )
        lines += self.lines
        for i, (value, array, rtol, atol) in enumerate(self.wanted):
            static, shown = f"tensor<{''.join(f'{n}x' for n in array.shape)}{value.element}>", value.name
            if value.shape is None:
                shown = f"%scalar{i}"
                lines.append(f"{shown} = tensor.from_elements {value} : {static}")
            elif static != self.type_of(value):
                shown = f"%static{i}"
                lines.append(f"{shown} = tensor.cast {value} : {self.type_of(value)} to {static}")
            constant = f"dense<{literal(array, value.element)}> : {static}"
            if rtol or atol:
                words = f"{shown}, {constant}, atol {atol:.1e}, rtol {rtol:.1e}"
                lines.append(f"check.expect_almost_eq_const({words}) : {static}")
            else:
                lines.append(f"check.expect_eq_const({shown}, {constant}) : {static}")
        lines.append("return")
        return f"func.func @{name}() {{\n" + "".join(f"  {s}\n" for s in lines) + "}\n"


def literal(array: Array, element: str) -> str:
    """The inside of `dense<…>`, one number for equal elements; a number for an array without dimensions."""
    if array.ndim and array.size == 0:
        return ""
    if array.ndim and array.size > 1:
        first = array.reshape(-1)[:1]
        if array.tobytes() == first.tobytes() * array.size:
            return literal(first.reshape(()), element)
    if array.ndim:
        return "[" + ", ".join(_nested(part, element) for part in array) + "]"
    if element == "i1":
        return "true" if array else "false"
    if element not in FLOATS:
        return str(int(array))
    if not np.isfinite(array.astype(np.float64)):
        return "0x" + array.tobytes()[::-1].hex().upper()
    text = repr(float(array)) if element == "f64" else f"{float(array):.9g}"
    mantissa, e, exponent = text.partition("e")
    return mantissa + ("" if "." in mantissa else ".0") + e + exponent


def _nested(array: Array, element: str) -> str:
    return "[" + ", ".join(_nested(part, element) for part in array) + "]" if array.ndim else literal(array, element)


Batches = dict[tuple[str, str, tuple[str, ...]], list[Body]]
"""Bodies by the CPU, the device that they run on, and the targets of their artifact."""
BATCH = 16
"""Functions of one program at most."""
_later: list[Batches] = []


@contextmanager
def together() -> Iterator[None]:
    """The bodies that are run inside are compiled at the end, many as one program, which costs half as much."""
    batches: Batches = {}
    _later.append(batches)
    try:
        yield
    finally:
        _later.pop()
    for (cpu, device, targets), bodies in batches.items():
        for first in range(0, len(bodies), BATCH):
            _compile_and_compare(bodies[first : first + BATCH], cpu, device, targets)


def run(
    *bodies: Body, cpu: str = "generic", device: str = "cpu?workers=2", targets: tuple[str, ...] = ("cpu",)
) -> None:
    """Compiles the bodies as one program, calls each function and compares its results with what is wanted; inside
    `together` not before its end."""
    if _later:
        _later[-1].setdefault((cpu, device, targets), []).extend(bodies)
    else:
        _compile_and_compare(bodies, cpu, device, targets)


def _compile_and_compare(bodies: Sequence[Body], cpu: str, device: str, targets: tuple[str, ...]) -> None:
    text = "\n".join(body.function(f"f{i}") for i, body in enumerate(bodies))
    try:
        program = pd.device(device).load(pd.compile(text, cpu=cpu, targets=targets))
    except pd.CompileError as error:
        raise AssertionError(f"{error}\nin the program\n{text}") from error
    for i, body in enumerate(bodies):
        found = program[f"f{i}"](*[array for _, array in body.inputs])
        found = found if isinstance(found, (tuple, list)) else [found]
        for (value, expected, rtol, atol), got in zip(body.wanted, found, strict=True):
            got = np.asarray(got)
            assert got.shape == expected.shape, f"{value} is {got.shape}, expected {expected.shape} of\n{text}"
            message = f"{value} of\n{body.function(f'f{i}')}"
            if rtol or atol:
                close(got, expected, rtol, atol, message)
            else:
                np.testing.assert_array_equal(got, expected, err_msg=message)


def close(got: Array, expected: Array, rtol: float, atol: float, message: str) -> None:
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, err_msg=message, equal_nan=True
    )


def refused(text: str) -> str:
    """The message of the CompileError that `text` raises, from its location on."""
    try:
        pd.compile(text, cpu="generic")
    except pd.CompileError as error:
        return str(error)
    raise AssertionError(f"this compiled:\n{text}")


def wide(arrays: Iterable[Array], element: str) -> list[Array]:
    """The arrays in a type in which sums of their products are exact."""
    return [a.astype(DTYPES[element] if element in INTEGERS else np.float64) for a in arrays]
