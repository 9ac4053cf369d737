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

SHOWS_VALUES = "pyd.shows_values"
"""Attribute of a `cf.assert` that two integers are equal: they replace `{a}` and `{b}` in its message."""

INTEGER_BYTES = "pyd.integer_bytes"
"""Attribute of a contraction: bytes of the integers that may stand for the elements of a float factor, relative to the
largest element of each block of K. Without it, integers have as many as the precision of f32 needs."""


class Effects(Enum):
    """Side effects of an operation, by the freedom to move, merge or repeat it."""

    NONE = "a function of its operands: may be dropped, repeated and made once for several"
    UNORDERED = "its order among others does not matter, but it stays what it is: not repeated, not merged"
    ORDERED = "stays ordered with other operations that have effects"


class Grouping(Enum):
    """Effect of reassociation: the difference that another order makes to `a op b op c ...`."""

    FIXED = "the result"  # the operation is not associative; its order must stay
    ROUNDED = "how the result is rounded: allowed where the program says so"  # floating-point addition
    EXACT = "nothing"  # integer addition, maximum


class Cost(IntEnum):
    """Cost class of one element on a processor, in ascending order."""

    FREE = 0
    CHEAP = 1  # an instruction
    SHORT = 2  # a few
    DIVISION = 3  # tens of cycles, not pipelined
    FUNCTION = 4  # a call of the mathematical library


Identity = Callable[[int], int] | float | None
"""Identity element of an operation (0 of a sum): for integers a function of their width; None for none."""


@dataclass(frozen=True)
class OpInfo:
    """Properties of an operation.

    Attributes:
        effects: Its side effects.
        elementwise: On tensors, the operation applies to each element as it applies to scalars.
        commutative: Its two operands may be swapped.
        grouping: Effect of reassociation, for a binary operation on one type.
        identity: Identity element: for integers a function of their width, for floats a number.
        idempotent: Whether x op x is x.
        cost: Cost of one element.
        traps: Whether it may end the program, so that it must not be executed speculatively.
        constant: Whether the result is the value of an attribute.
        forwards: Whether each result is the operand with its index; other operands, such as sizes or fences,
            add metadata.
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
        return self.effects is Effects.NONE


_UNLISTED = OpInfo()
_PURE = OpInfo(Effects.NONE)
_FREE = replace(_PURE, cost=Cost.FREE)
_SCALAR = replace(_PURE, elementwise=True)
_UNORDERED = OpInfo(Effects.UNORDERED)


def _combining(identity: Identity, grouping: Grouping = Grouping.EXACT) -> OpInfo:
    """Return the properties of a commutative operation on scalars, such as a sum."""
    return replace(_SCALAR, commutative=True, grouping=grouping, identity=identity)


def _choosing(identity: Identity) -> OpInfo:
    """Return the properties of a commutative operation with x op x = x, such as a maximum."""
    return replace(_combining(identity), idempotent=True)


def _lowest(bits: int) -> int:
    """Return the least signed integer of a width: 8 -> -128."""
    return -(1 << (bits - 1))


_DIALECTS = {
    "arith": _SCALAR,
    "hal": OpInfo(),
    "linalg": _PURE,
    "math": replace(_SCALAR, cost=Cost.FUNCTION),
    "tensor": _PURE,
    "util": OpInfo(),
}
"""What holds for the operations of a dialect that are not listed below. Those of `hal` and `util` are never dropped:
what host code cannot run is refused, used or not."""

_DIVISION = replace(_SCALAR, cost=Cost.DIVISION)
_INTEGER_DIVISION = replace(_DIVISION, traps=True)
_SHORT = replace(_SCALAR, cost=Cost.SHORT)
_PURE_FORWARD = replace(_PURE, forwards=True)
_ORDERED_FORWARD = OpInfo(forwards=True)

_OPERATIONS = {
    "affine.apply": _PURE,
    "affine.max": _PURE,
    "affine.min": _PURE,
    "arith.addf": _combining(-0.0, Grouping.ROUNDED),
    "arith.addi": _combining(lambda bits: 0),
    "arith.andi": _choosing(lambda bits: -1),
    "arith.ceildivsi": _INTEGER_DIVISION,
    "arith.ceildivui": _INTEGER_DIVISION,
    "arith.constant": replace(_FREE, constant=True),
    "arith.divf": _DIVISION,
    "arith.divsi": _INTEGER_DIVISION,
    "arith.divui": _INTEGER_DIVISION,
    "arith.floordivsi": _INTEGER_DIVISION,
    "arith.maximumf": _choosing(-math.inf),
    "arith.maxnumf": _choosing(math.nan),
    "arith.maxsi": _choosing(_lowest),
    "arith.maxui": _choosing(lambda bits: 0),
    "arith.minimumf": _choosing(math.inf),
    "arith.minnumf": _choosing(math.nan),
    "arith.minsi": _choosing(lambda bits: -1 - _lowest(bits)),
    "arith.minui": _choosing(lambda bits: -1),
    "arith.mulf": _combining(1.0, Grouping.ROUNDED),
    "arith.muli": _combining(lambda bits: 1),
    "arith.ori": _choosing(lambda bits: 0),
    "arith.remf": _DIVISION,
    "arith.remsi": _INTEGER_DIVISION,
    "arith.remui": _INTEGER_DIVISION,
    "arith.xori": _combining(lambda bits: 0),
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


def info_of(op: Operation) -> OpInfo:
    """Return the properties of an operation."""
    return _info(op.name, type(op))


def info_named(name: str) -> OpInfo:
    """Return the properties of an operation by its name, or else those of its dialect."""
    return _OPERATIONS.get(name) or _DIALECTS.get(name.partition(".")[0]) or _UNLISTED


def listed(fact: Callable[[OpInfo], bool]) -> list[str]:
    """Return the names of all listed operations for which a predicate on their properties holds."""
    return [name for name, info in _OPERATIONS.items() if fact(info)]


@cache
def _info(name: str, kind: type[Operation]) -> OpInfo:
    """Return what is known of an operation by its name; by the traits of its class `kind`, if no table has it."""
    known = info_named(name)
    is_pure = kind.has_trait(Pure) and not kind.has_trait(IsTerminator)
    return _PURE if known is _UNLISTED and is_pure else known


def identity_of(op: Operation, type_: Attribute) -> IntegerAttr | FloatAttr | None:
    """Return the identity element of a binary operation as a constant of `type_`; None if it has none."""
    identity = info_of(op).identity
    if callable(identity) and isinstance(type_, IntegerType | IndexType):
        bits = type_.width.data if isinstance(type_, IntegerType) else 64
        value = identity(bits)
        return IntegerAttr(value & 1 if bits == 1 else value, type_)  # constants of i1 are 0 and 1, not 0 and -1
    if isinstance(identity, float) and isinstance(type_, AnyFloat):
        return FloatAttr(identity, type_)
    return None
