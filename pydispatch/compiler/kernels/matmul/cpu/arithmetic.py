"""Arithmetic of a contraction: element types of packed operands and sums, and products of bytes.

CPUs with instructions that add four or eight products of bytes to an i32 (`Level.bytes`) have factors packed as
bytes. A factor with values in another range of 256 is packed minus a constant `offset`: a = a' + p, b = b' + q, so
that sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q, exact modulo 2^32 (`corrections.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.ranges import factor_range
from pydispatch.ir.dialects.pyd.tile_registers import MOST_STEPS
from pydispatch.ir.structured import as_structured

HALVES = (Float16Type(), BFloat16Type())


@dataclass(frozen=True)
class Arithmetic:
    """compute: the type of packed elements; sums: of accumulators; group: steps of K that one instruction multiplies
    and adds up; unsigned_a, unsigned_b: bytes of A, of B, are unsigned; a_offset, b_offset: what packing subtracts from
    the factors; matrix_steps: groups that matrix registers multiply at once, 0 where they are not used."""

    compute: Attribute
    sums: Attribute
    group: int = 1
    unsigned_a: bool = False
    unsigned_b: bool = False
    a_offset: int = 0
    b_offset: int = 0
    matrix_steps: int = 0

    def plain(self, acc: Attribute) -> bool:
        """Return whether operands of the type `acc` may be read in place."""
        return self.compute == acc == self.sums and self.group == 1


FEWEST_STEPS = 4
"""Groups of K that make it worth to use matrix registers, which take as long for a group as for 16."""

UNSIGNED = {
    "unsigned by signed": [(True, False), (False, True)],
    "equal signs": [(False, False), (True, True)],
    "all signs": [(False, False), (True, True), (True, False), (False, True)],
}
"""`Level.bytes` -> whether the bytes of A, and of B, are unsigned in a product that the machine has; best first."""


def arithmetic_of(contraction: Contraction, level: Level) -> Arithmetic | None:
    """Return how a contraction is computed; None for types that have no block."""
    if (
        "bf16" in level.matrices
        and (steps := _matrix_steps(contraction, 2))
        and _lies_plainly(contraction)
        and _are_halves(contraction)
    ):
        return Arithmetic(BFloat16Type(), Float32Type(), 2, matrix_steps=steps)
    if contraction.acc in HALVES:
        return Arithmetic(Float32Type(), Float32Type())
    if isinstance(contraction.acc, Float32Type | Float64Type):
        return Arithmetic(contraction.acc, contraction.acc)
    if not isinstance(contraction.acc, IntegerType) or contraction.acc.width.data not in (8, 16, 32, 64):
        return None
    return (contraction.acc == i32 and _grouped(contraction, level)) or Arithmetic(contraction.acc, contraction.acc)


def halves_of_b(contraction: Contraction, level: Level) -> SSAValue | None:
    """Return the tensor of f16 or bf16 that B is an element of, which blocks widen in registers, into sums of f32; None
    where B is something else, and where blocks multiply it as it is.
    """
    value, element = contraction.generic.inputs[contraction.b.main], contraction.generic.block.args[contraction.b.main]
    if not level.halves or not isinstance(value.type, TensorType):
        return None
    if element.type in HALVES:
        return (
            value
            if (contraction.b.direct and contraction.acc == element.type)
            or _is_widened(contraction.b.value, element, contraction.acc)
            else None
        )
    before = _widened_tensor(value) if contraction.b.direct and contraction.acc == element.type else None
    return before if before is not None and _element(before) in HALVES and contraction.acc == Float32Type() else None


def _element(value: SSAValue) -> Attribute | None:
    return value.type.element_type if isinstance(value.type, TensorType) else None


def _is_widened(value: SSAValue, source: SSAValue, to: Attribute) -> bool:
    """Return whether a value is another one in f32, which is what `to` has to be."""
    widened = isinstance(value, OpResult) and isinstance(value.op, arith.ExtFOp) and value.op.input is source
    return widened and value.type == to == Float32Type()


def _widened_tensor(value: SSAValue) -> SSAValue | None:
    """Return the tensor whose elements, each in its place, a tensor has in a wider type."""
    if not isinstance(value, OpResult):
        return None
    if isinstance(value.op, arith.ExtFOp):
        return value.op.input
    g = as_structured(value.op)
    if g is None or g.body is None or len(g.inputs) != 1 or any(m != AffineMap.identity(m.num_dims) for m in g.maps):
        return None
    last = g.block.last_op
    return g.inputs[0] if last is not None and _is_widened(last.operands[0], g.block.args[0], Float32Type()) else None


def _grouped(contraction: Contraction, level: Level) -> Arithmetic | None:
    """Return the arithmetic of groups of bytes, or pairs of i16, into i32; None where the factors' values
    do not fit.
    """
    a, b = (factor_range(factor) for factor in (contraction.a, contraction.b))
    if a is None or b is None or not _lies_plainly(contraction):
        return None
    if level.bytes and a[1] - a[0] < 256 and b[1] - b[0] < 256:
        steps = _matrix_steps(contraction, 4) if "i8" in level.matrices else 0
        ways = [
            Arithmetic(
                i8, i32, level.byte_steps, x, y, _offset(a, 0 if x else -128), _offset(b, 0 if y else -128), steps
            )
            for x, y in UNSIGNED["all signs" if steps else level.bytes]
        ]
        return min(ways, key=lambda way: (way.a_offset != 0) + (way.b_offset != 0))
    short = all(low >= -(1 << 15) and high < 1 << 15 for low, high in (a, b))
    return Arithmetic(i16, i32, 2) if short else None


def _lies_plainly(contraction: Contraction) -> bool:
    """Return whether steps of K, and columns, are coordinates of the factors: groups can be packed."""
    plain = all(
        any(f.coordinates[p].is_plain(contraction.k) for p in f.where(contraction.k))
        for f in (contraction.a, contraction.b)
    )
    return (
        plain
        and contraction.n is not None
        and contraction.b.coordinates[contraction.b.where(contraction.n)[0]].is_plain(contraction.n)
    )


def _are_halves(contraction: Contraction) -> bool:
    """Return whether both factors are bf16, or widened from it into sums of f32."""
    sums = BFloat16Type(), Float32Type()
    return contraction.acc in sums and all(
        narrow_of(f.value, BFloat16Type()) is not None for f in (contraction.a, contraction.b)
    )


def narrow_of(value: SSAValue, type_: Attribute) -> SSAValue | None:
    """Return the value of a float type that a value is, or is widened from; None where it is neither."""
    if value.type == type_:
        return value
    if isinstance(value, OpResult) and isinstance(value.op, arith.ExtFOp) and value.op.input.type == type_:
        return value.op.input
    return None


def is_packed_element(value: SSAValue, element: SSAValue, arithmetic: Arithmetic, unsigned: bool) -> bool:
    """Return whether a factor is an element as it is packed, widened or not. unsigned: where it is a byte."""
    if element.type != arithmetic.compute or not isinstance(element.type, IntegerType):
        return element.type == arithmetic.compute and narrow_of(value, element.type) is element
    extend = arith.ExtUIOp if unsigned else arith.ExtSIOp
    return isinstance(value, OpResult) and isinstance(value.op, extend) and value.op.operands[0] is element


def _matrix_steps(contraction: Contraction, group: int) -> int:
    """Return how many groups of steps of K matrix registers multiply at once: the most of which K is a multiple. 0
    where it is one of too few, or unknown: then it would end in steps of another length.
    """
    place = next(
        (p for p in contraction.a.where(contraction.k) if contraction.a.coordinates[p].is_plain(contraction.k)), None
    )
    type_ = contraction.generic.inputs[contraction.a.main].type
    if place is None or not isinstance(type_, TensorType):
        return 0
    groups = -(-type_.get_shape()[place] // group)
    return next((steps for steps in range(MOST_STEPS, FEWEST_STEPS - 1, -1) if groups > 0 and groups % steps == 0), 0)


def _offset(values: tuple[int, int], least: int) -> int:
    """Return what is subtracted from values for them to be bytes from `least` on."""
    low, high = values
    return 0 if least <= low and high < least + 256 else low - least
