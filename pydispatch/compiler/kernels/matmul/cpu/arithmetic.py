"""What the products of a contraction are computed in: types of packed elements and sums, and products of bytes.

CPUs with instructions that add four products of bytes to an i32 (`Level.bytes`) have factors packed as bytes. A factor
whose values lie in another range of 256 is packed without a constant `offset`: a = a' + p, b = b' + q, so that
sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q, exact modulo 2^32 (`corrections.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, i8, i16, i32
from xdsl.ir import Attribute

from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.ranges import factor_range


@dataclass(frozen=True)
class Arithmetic:
    """compute: the type of packed elements; sums: of accumulators; group: steps of K that one instruction multiplies
    and adds up; unsigned_a, unsigned_b: bytes of A, of B, are unsigned; a_offset, b_offset: what packing subtracts from
    the factors."""

    compute: Attribute
    sums: Attribute
    group: int = 1
    unsigned_a: bool = False
    unsigned_b: bool = False
    a_offset: int = 0
    b_offset: int = 0

    def plain(self, acc: Attribute) -> bool:
        """Whether operands of the type `acc` may be read in place."""
        return self.compute == acc == self.sums and self.group == 1


UNSIGNED = {
    "unsigned by signed": [(True, False), (False, True)],
    "equal signs": [(False, False), (True, True)],
    "all signs": [(False, False), (True, True), (True, False), (False, True)],
}
"""`Level.bytes` -> whether the bytes of A, and of B, are unsigned in a product that the machine has; best first."""


def arithmetic_of(c: Contraction, level: Level) -> Arithmetic | None:
    """How a contraction is computed; None for types that have no block."""
    if isinstance(c.acc, Float16Type | BFloat16Type):
        return Arithmetic(Float32Type(), Float32Type())
    if isinstance(c.acc, Float32Type | Float64Type):
        return Arithmetic(c.acc, c.acc)
    if not isinstance(c.acc, IntegerType) or c.acc.width.data not in (8, 16, 32, 64):
        return None
    return (c.acc == i32 and _grouped(c, level)) or Arithmetic(c.acc, c.acc)


def _grouped(c: Contraction, level: Level) -> Arithmetic | None:
    """Groups of bytes, or pairs of i16, into i32 where the factors' values fit."""
    a, b = (factor_range(factor) for factor in (c.a, c.b))
    plain = all(any(f.coordinates[p].is_plain(c.k) for p in f.where(c.k)) for f in (c.a, c.b))
    if a is None or b is None or not plain or c.n is None or not c.b.coordinates[c.b.where(c.n)[0]].is_plain(c.n):
        return None
    if level.bytes and a[1] - a[0] < 256 and b[1] - b[0] < 256:
        ways = [
            Arithmetic(i8, i32, 4, x, y, _offset(a, 0 if x else -128), _offset(b, 0 if y else -128))
            for x, y in UNSIGNED[level.bytes]
        ]
        return min(ways, key=lambda way: (way.a_offset != 0) + (way.b_offset != 0))
    short = all(low >= -(1 << 15) and high < 1 << 15 for low, high in (a, b))
    return Arithmetic(i16, i32, 2) if short else None


def _offset(values: tuple[int, int], least: int) -> int:
    """What is subtracted from values for them to be bytes from `least` on."""
    low, high = values
    return 0 if least <= low and high < least + 256 else low - least
