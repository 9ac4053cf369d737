"""Effects, algebraic properties and cost of operations, looked up by name in all parts of the compiler.

An operation of a dialect that is not listed is pure when its class has the trait `Pure`, and has effects otherwise. The
tensor semantics of an operation (sizes, elements, memory) are in `compiler/tensor_ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cache

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.traits import IsTerminator, Pure

from pydispatch.formats.arrays.small_floats import limits

SHOWS_VALUES = "pyd.shows_values"
"""Attribute of a `cf.assert` that two integers are equal: they replace `{a}` and `{b}` in its message."""

INTEGER_BYTES = "pyd.integer_bytes"
"""Attribute of a contraction by block-quantized weights: width in bytes of the integers to which elements of the float
factor may be rounded, so that products are of integers. Each block of K is scaled by its largest element. Without the
attribute, the integers are as wide as the precision of f32 needs."""


class Effects(Enum):
    """Side effects of an operation, in classes by the freedom to move, merge or repeat it. The values explain them."""

    NONE = "the result depends on the operands alone: may be dropped, repeated, and merged with an equal operation"
    UNORDERED = "may be moved past other operations, but is neither repeated nor merged"
    ORDERED = "stays in order with other operations that have effects"


class Grouping(Enum):
    """Permission to change the order in which `a op b op c ...` is evaluated (reassociation). The values explain it."""

    FIXED = "no: another order has another result"  # a subtraction
    ROUNDED = "where the program says so: another order is rounded differently"  # floating-point addition
    EXACT = "yes: each order has the same result"  # integer addition, maximum


class Cost(IntEnum):
    """Cost class of an operation on one element by a processor, in ascending order."""

    FREE = 0
    CHEAP = 1  # one instruction
    SHORT = 2  # a few instructions
    DIVISION = 3  # tens of cycles, not pipelined
    FUNCTION = 4  # a call of the mathematical library


Identity = Callable[[int], int] | float | None
"""Identity element of an operation, such as 0 of a sum: a float for floats, for integers a function of their width in
bits that returns it as a signed number; None if there is none."""


@dataclass(frozen=True)
class OpInfo:
    """Properties of an operation that passes query, such as its cost and its effects.

    For example `arith.addi` has no effects, is elementwise and commutative, its grouping is EXACT, its identity a
    function that returns 0, and its cost CHEAP. `info_of` returns the properties of an operation.

    Attributes:
        effects: Its side effects.
        elementwise: Whether it is defined on scalars, and applies to each element if its operands are tensors.
        commutative: Whether its two operands may be swapped.
        grouping: Whether `a op b op c` may be reassociated, for a binary operation on one type.
        identity: Element e for which x op e is x: -0.0 for `arith.addf`; for integers a function of their width.
        idempotent: Whether x op x is x.
        cost: Cost class of computing one element.
        traps: Whether it may end the program, so that it must not be executed speculatively.
        constant: Whether the result is the value of an attribute, as that of `arith.constant`.
        forwards: Whether result i is operand i, unchanged; further operands, such as sizes or fences, only add
            metadata.
    """

    effects: Effects = Effects.ORDERED
    elementwise: bool = False
    commutative: bool = False
    grouping: Grouping = Grouping.FIXED
    identity: Identity = None
    idempotent: bool = False
    cost: Cost = Cost.CHEAP
    traps: bool = False
    constant: bool = False
    forwards: bool = False

    @property
    def is_pure(self) -> bool:
        """Whether the operation neither reads nor writes memory, and has no other side effect."""
        return self.effects is Effects.NONE


_UNLISTED = OpInfo()
"""Properties of an operation that neither table below lists: it may have effects and stays in order."""
_PURE = OpInfo(Effects.NONE)
"""Properties of operations without effects, such as `tensor.extract`."""
_FREE = replace(_PURE, cost=Cost.FREE)  # costs nothing at run time
_SCALAR = replace(_PURE, elementwise=True)  # operations on scalars, and on tensors element by element
_UNORDERED = OpInfo(Effects.UNORDERED)  # may be moved, but not repeated, such as a dispatch


def _associative(identity: Identity, grouping: Grouping = Grouping.EXACT) -> OpInfo:
    """Return the properties of a commutative, associative operation on scalars, such as a sum.

    `grouping` is ROUNDED if another order of the operands is rounded differently, as in a sum of floats.
    """
    return replace(_SCALAR, commutative=True, grouping=grouping, identity=identity)


def _idempotent(identity: Identity) -> OpInfo:
    """Return the properties of a commutative, associative operation with x op x = x, such as a maximum."""
    return replace(_associative(identity), idempotent=True)


def _lowest(bits: int) -> int:
    """Return the least signed integer of a width: -128 for 8 bits."""
    return -(1 << (bits - 1))


_DIALECTS = {
    "arith": _SCALAR,
    "hal": OpInfo(),
    "linalg": _PURE,
    "math": replace(_SCALAR, cost=Cost.FUNCTION),
    "tensor": _PURE,
    "util": OpInfo(),
}
"""Properties of a dialect's operations that are not listed below. Those of `hal` and `util` have effects, so that they
are never dropped: an operation that host code cannot run is an error even if its results are unused."""

_DIVISION = replace(_SCALAR, cost=Cost.DIVISION)  # divisions of floats
_INTEGER_DIVISION = replace(_DIVISION, traps=True)  # divisions of integers: one by zero ends the program
_SHORT = replace(_SCALAR, cost=Cost.SHORT)  # a few instructions, such as an absolute value
_PURE_FORWARD = replace(_PURE, forwards=True)  # its result is its operand
_ORDERED_FORWARD = OpInfo(forwards=True)  # its result is its operand, but it has effects: hal.tensor.import

_OPERATIONS = {
    "affine.apply": _PURE,
    "affine.max": _PURE,
    "affine.min": _PURE,
    "arith.addf": _associative(-0.0, Grouping.ROUNDED),  # not 0.0: 0.0 + -0.0 is 0.0
    "arith.addi": _associative(lambda bits: 0),
    "arith.andi": _idempotent(lambda bits: -1),  # all bits
    "arith.ceildivsi": _INTEGER_DIVISION,
    "arith.ceildivui": _INTEGER_DIVISION,
    "arith.constant": replace(_FREE, constant=True),
    "arith.divf": _DIVISION,
    "arith.divsi": _INTEGER_DIVISION,
    "arith.divui": _INTEGER_DIVISION,
    "arith.floordivsi": _INTEGER_DIVISION,
    "arith.maximumf": _idempotent(-math.inf),
    "arith.maxnumf": _idempotent(math.nan),  # it returns the other operand
    "arith.maxsi": _idempotent(_lowest),
    "arith.maxui": _idempotent(lambda bits: 0),
    "arith.minimumf": _idempotent(math.inf),
    "arith.minnumf": _idempotent(math.nan),
    "arith.minsi": _idempotent(lambda bits: -1 - _lowest(bits)),  # the greatest signed number
    "arith.minui": _idempotent(lambda bits: -1),  # all bits: the greatest unsigned number
    "arith.mulf": _associative(1.0, Grouping.ROUNDED),
    "arith.muli": _associative(lambda bits: 1),
    "arith.ori": _idempotent(lambda bits: 0),
    "arith.remf": _DIVISION,
    "arith.remsi": _INTEGER_DIVISION,
    "arith.remui": _INTEGER_DIVISION,
    "arith.xori": _associative(lambda bits: 0),
    "flow.dispatch": _UNORDERED,
    "flow.dispatch.region": _UNORDERED,
    "flow.dispatch.tie_shape": _FREE,
    "flow.dispatch.workgroups": _UNORDERED,
    "flow.tensor.clone": _PURE_FORWARD,
    "flow.tensor.constant": replace(_PURE, constant=True),
    "flow.tensor.dynamic_constant": replace(_PURE, constant=True),
    "flow.tensor.load": _PURE,
    "flow.tensor.tie_shape": _PURE_FORWARD,
    "flow.tensor.transfer": _PURE_FORWARD,
    "flow.tensor.update": _PURE,
    "hal.tensor.barrier": _ORDERED_FORWARD,
    "hal.tensor.export": _ORDERED_FORWARD,
    "hal.tensor.import": _ORDERED_FORWARD,
    "iree_tensor_ext.compute_barrier.end": _PURE_FORWARD,
    "iree_tensor_ext.compute_barrier.start": _PURE_FORWARD,
    "math.absf": _SHORT,
    "math.absi": _SHORT,
    "math.ceil": _SHORT,
    "math.copysign": _SHORT,
    "math.floor": _SHORT,
    "math.fma": _SHORT,
    "math.sqrt": _SHORT,
    "tensor.dim": _FREE,
    "tensor.empty": _FREE,
    "tensor.rank": _FREE,
    "tensor.splat": _FREE,
    "util.assume.int": _ORDERED_FORWARD,
    "util.optimization_barrier": replace(_UNORDERED, forwards=True),
    "util.unfoldable_constant": OpInfo(constant=True),
}
"""Name of an operation -> its properties; operations that are missing here have those of `_DIALECTS`."""


def info_of(op: Operation) -> OpInfo:
    """Return the properties of an operation."""
    return _info(op.name, type(op))


def info_named(name: str) -> OpInfo:
    """Return the properties of an operation by its name; if it is not listed, those of its dialect's operations."""
    return _OPERATIONS.get(name) or _DIALECTS.get(name.partition(".")[0]) or _UNLISTED


def listed(predicate: Callable[[OpInfo], bool]) -> list[str]:
    """Return the names of all operations in the table of properties for which a predicate on these holds."""
    return [name for name, info in _OPERATIONS.items() if predicate(info)]


@cache
def _info(name: str, kind: type[Operation]) -> OpInfo:
    """Return the properties of an operation by its name or dialect; if both are unknown, by the traits of its class
    `kind`."""
    known = info_named(name)
    is_pure = kind.has_trait(Pure) and not kind.has_trait(IsTerminator)  # a terminator must not be dropped
    return _PURE if known is _UNLISTED and is_pure else known


def identity_of(op: Operation, type_: Attribute) -> IntegerAttr | FloatAttr | None:
    """Return the identity element of a binary operation as a constant of the element type `type_`; None without one."""
    identity = info_of(op).identity
    if callable(identity) and isinstance(type_, IntegerType | IndexType):
        bits = type_.width.data if isinstance(type_, IntegerType) else 64
        value = identity(bits)
        if bits == 1:
            value &= 1  # the i1 constants are 0 and 1, not 0 and -1
        return IntegerAttr(value, type_)
    if isinstance(identity, float) and isinstance(type_, AnyFloat):
        # In a type without infinities, the identity of a maximum is the least number instead of -inf.
        least, greatest = limits(str(type_))
        return FloatAttr(min(max(identity, least), greatest), type_)
    return None
