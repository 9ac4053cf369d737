"""Lines of MLIR text with locations."""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from pydispatch.kernels.entities import Scalar
from pydispatch.kernels.source import Source
from pydispatch.locations import stated


class Writer:
    """Emitter of operations as MLIR text. Nested regions have writers of their own, whose lines are inserted later.

    Attributes:
        lines: Lines of text of the operations so far.
        numbers: Iterator of the numbers of SSA names, which nested writers share.
        source: Function of the user whose lines are the locations of operations.
        node: Syntax node whose location the next operations get.
        has_effects: Whether an operation was emitted that must not run unconditionally: a memory access, a loop or a
            call.
    """

    def __init__(self, source: Source, numbers: Iterator[int] | None = None) -> None:
        """Begin without lines; without `numbers`, SSA names are numbered from 0."""
        self.lines: list[str] = []
        self.numbers = count() if numbers is None else numbers
        self.source = source
        self.node: ast.AST = source.tree
        self.has_effects = False

    def nested(self) -> Writer:
        """Return a writer for a nested region that shares the numbering of values."""
        writer = Writer(self.source, self.numbers)
        writer.node = self.node
        return writer

    @contextmanager
    def at(self, source: Source, node: ast.AST) -> Iterator[None]:
        """Give operations that the `with` block emits the location of a node."""
        before = self.source, self.node
        self.source, self.node = source, node
        try:
            yield
        finally:
            self.source, self.node = before

    def fresh(self) -> str:
        """Return a new SSA name."""
        return f"%{next(self.numbers)}"

    def value(self, text: str, type: str) -> Scalar:
        """Emit an operation with one result, and return the result. `text` follows "%name = "; `type` is that of the
        result.
        """
        name = self.fresh()
        self.line(f"{name} = {text}")
        return Scalar(name, type)

    def line(self, text: str) -> None:
        """Append an operation, whose whole text is `text`, with its source location."""
        self.lines.append(f"{text} {self.location()}")

    def location(self) -> str:
        """Return the current source location as MLIR text."""
        return stated(self.source.location(self.node))

    def region(self, head: str, body: Writer, tail: str = "}") -> None:
        """Emit an operation with one region: head, lines of the nested writer, and tail."""
        self.lines += [f"{head} {{", *(f"  {line}" for line in body.lines), f"{tail} {self.location()}"]
        self.has_effects = True  # a loop stays in the branch that contains it

    def branches(self, head: str, then: Writer, other: Writer | None) -> None:
        """Emit an scf.if, whose text before the first brace is `head`; without lines in `other` it has no else."""
        self.lines += [f"{head} {{", *(f"  {line}" for line in then.lines)]
        if other is not None and other.lines:
            self.lines += ["} else {", *(f"  {line}" for line in other.lines)]
        self.lines.append(f"}} {self.location()}")
        self.has_effects = True

    def results(self, types: Sequence[str]) -> tuple[str, list[Scalar]]:
        """Return (text, results) for an operation with results of these types.

        The text names the results, such as `%5:2 = `; "" without results. The caller writes the operation after it.
        """
        if not types:
            return "", []
        name = self.fresh()
        if len(types) == 1:
            return f"{name} = ", [Scalar(name, types[0])]
        return f"{name}:{len(types)} = ", [Scalar(f"{name}#{i}", type) for i, type in enumerate(types)]

    def constant(self, value: int | float | bool, type: str) -> Scalar:
        """Emit a constant, and return it."""
        literal = spelled(value, type)
        return self.value(f"arith.constant {literal}" if type == "i1" else f"arith.constant {literal} : {type}", type)


def spelled(value: int | float | bool, type: str) -> str:
    """Return a number as MLIR text, such as "true", "3", "3.0" or "1.0e-05"."""
    if type == "i1":
        return "true" if value else "false"
    if not type.startswith(("f", "bf")):
        return str(int(value))
    real = float(value)
    if math.isfinite(real):
        text = repr(real)
        mantissa, letter, exponent = text.partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{letter}{exponent}"
    return _special_bits(real, type)


class _SpecialBits(NamedTuple):
    """Encodings of positive infinity and of NaN in an 8-bit float type."""

    infinity: int
    nan: int


_F8_BITS = {"f8E4M3FN": _SpecialBits(infinity=0x7F, nan=0x7F), "f8E5M2": _SpecialBits(infinity=0x7C, nan=0x7E)}
"""Special values by type. f8E4M3FN has no infinity: NaN is written instead."""
_F8_SIGN = 0x80
"""Sign bit of an 8-bit float."""
_UNSIGNED = re.compile(r"(?:(?<=[\d?]x)|(?<![\w%@.$\"x]))u(8|16|32|64)\b")
"""Unsigned type alone or as the element type of a shape, `u32` or `memref<?x4xu32>`, but not in a name, `@u32`."""


def signless(line: str, prefix: str = "i") -> str:
    """Return a line of MLIR with signless integer types in place of unsigned ones: `u32` becomes `i32`.

    The prefix "ui" gives `ui32` instead. Locations are unchanged, since they may contain any file name.
    """
    # Everything from the first location on is unchanged.
    code, mark, location = line.partition(' loc("')
    return _UNSIGNED.sub(rf"{prefix}\1", code) + mark + location


def _special_bits(value: float, type: str) -> str:
    """Return infinity or NaN of a float type as the hexadecimal bits that MLIR requires, such as "0x7F80"."""
    # Bits of the value as an f32.
    single = struct.unpack("<I", struct.pack("<f", value))[0]
    if type == "bf16":  # the upper half of an f32
        return f"0x{single >> 16:04X}"
    if type in _F8_BITS:
        bits = _F8_BITS[type].nan if math.isnan(value) else _F8_BITS[type].infinity
        return f"0x{bits | (_F8_SIGN if value < 0 else 0):02X}"
    # `struct` formats of the float and of an integer of its size, and the number of hexadecimal digits.
    layout, code, digits = {"f16": ("<e", "<H", 4), "f32": ("<f", "<I", 8), "f64": ("<d", "<Q", 16)}[type]
    return f"0x{struct.unpack(code, struct.pack(layout, value))[0]:0{digits}X}"
