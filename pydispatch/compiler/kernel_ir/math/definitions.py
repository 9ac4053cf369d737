"""Definitions of `arith` and `math` operations by simpler ones, for targets that lack an operation or a type.

A definition is a function of kernel IR, created once for each kind of operation, which emitters use instead of the
operation. Its body may contain operations that have definitions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    Float8E8M0FNUType,
    Float32Type,
    Float64Type,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.expand.widths import widen_integers
from pydispatch.compiler.kernel_ir.math import (
    angles,
    error_functions,
    exponentials,
    extremes,
    inverse_angles,
    logarithms,
    powers,
    products,
    rounding,
    small_floats,
)
from pydispatch.compiler.kernel_ir.math.body import Body
from pydispatch.compiler.kernel_ir.math.numbers import Number, Truth, Word, word_of
from pydispatch.compiler.kernel_ir.math.remainder import remainder
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, small_float
from pydispatch.formats.arrays.small_floats import least_normal

_F32, _F64 = Float32Type(), Float64Type()
PLAIN = frozenset((Float32Type, Float64Type))
"""Float types that every target computes in."""


@dataclass(frozen=True)
class Native:
    """Types that a target has instructions for.

    Attributes:
        arithmetic: Float types that it computes in.
        conversions: Float types that it converts between.
        registers: Widths of its integers in bits, ascending; none for a target that computes in every width.
    """

    arithmetic: frozenset[type[Attribute]] = PLAIN
    conversions: frozenset[type[Attribute]] = PLAIN
    registers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Definition:
    """Function that replaces operations of one kind, and the constant tables (`globals`) that it reads."""

    function: FuncOp
    globals: tuple[Operation, ...]


FUNCTIONS: dict[str, Callable[..., Number | tuple[Number, ...]]] = {
    "math.exp": exponentials.exp,
    "math.exp2": exponentials.exp2,
    "math.expm1": exponentials.expm1,
    "math.sinh": exponentials.sinh,
    "math.cosh": exponentials.cosh,
    "math.tanh": exponentials.tanh,
    "math.log": logarithms.log,
    "math.log2": logarithms.log2,
    "math.log10": logarithms.log10,
    "math.log1p": logarithms.log1p,
    "math.asinh": logarithms.asinh,
    "math.acosh": logarithms.acosh,
    "math.atanh": logarithms.atanh,
    "math.erf": error_functions.erf,
    "math.erfc": error_functions.erfc,
    "math.powf": powers.powf,
    "math.cbrt": powers.cbrt,
    "math.sin": angles.sin,
    "math.cos": angles.cos,
    "math.tan": angles.tan,
    "math.sincos": angles.sincos,
    "math.asin": inverse_angles.asin,
    "math.acos": inverse_angles.acos,
    "math.atan": inverse_angles.atan,
    "math.atan2": inverse_angles.atan2,
    "math.round": rounding.away_from_zero,
    "math.roundeven": rounding.to_even,
    "math.trunc": rounding.toward_zero,
    "arith.maximumf": extremes.maximum,
    "arith.minimumf": extremes.minimum,
    "arith.maxnumf": extremes.maximum_number,
    "arith.minnumf": extremes.minimum_number,
    "arith.remf": remainder,
}
"""Name of an operation -> function that emits its definition for f32 and f64."""

COMPOSED: dict[str, Callable[..., Number]] = {
    "math.rsqrt": lambda x: 1.0 / x.sqrt(),
    "math.clampf": lambda x, low, high: x.maximum(low).minimum(high),
}
"""Definitions by other float operations, which get the fast-math flags of the operation. They hold for all types that a
target computes in."""

TESTS: dict[str, Callable[[Number], Truth]] = {
    "math.isnan": lambda x: x.is_nan(),
    "math.isinf": lambda x: x.magnitude().equals(float("inf")),
    "math.isfinite": lambda x: x.magnitude() < float("inf"),
}
"""Definitions that return a truth value."""

_DEFINITIONS_OF_NUMBERS: dict[str, Callable[..., Any]] = {**FUNCTIONS, **COMPOSED, **TESTS}
"""All definitions as functions of Numbers. They do not depend on attributes of the operation."""

_cache: dict[object, Definition] = {}
"""Definitions by the name, types and properties of the operation, the target's `Native` and the known exponent."""


def definition(op: Operation, native: Native, exponent: int | None = None) -> Definition:
    """Return the function that defines an operation for a target without it, from a cache if it was built before.

    Args:
        op: The operation.
        native: Types that the target has instructions for.
        exponent: The exponent of an integer power if it is known, else None. Each exponent has a separate definition.
    """
    properties, name = op.properties, op_name(op)
    key = (name, *(value.type for value in op.operands), *(value.type for value in op.results),
           *(properties.items() if properties else ()), native, exponent)  # fmt: skip
    cached = _cache.get(key)
    if cached is None:
        # Compositions of other operations pass the fast-math flags on to those operations. Polynomials have no flags:
        # they rely on exact rounding.
        passes_flags = "fastmath" in properties and (name in COMPOSED or name == "math.fpowi")
        flags = {"fastmath": properties["fastmath"]} if passes_flags else {}
        body = Body([value.type for value in op.operands], flags)
        results = _results(body, op, native, exponent)
        function = body.finish(results)
        widen_integers(function, widths=native.registers)
        cached = _cache[key] = Definition(function, tuple(body.globals))
    return cached


def _results(body: Body, op: Operation, native: Native, exponent: int | None) -> Sequence[SSAValue]:
    """Emit the definition of `op`, simpler operations that compute the same, into `body`, and return its results.

    Args:
        body: The function; its arguments are the operands.
        op: The operation, of which only the name, types and properties are read.
        native: Types that the target has instructions for.
        exponent: The exponent of an integer power if it is known, else None.
    """
    name, operands, results = op_name(op), body.arguments(), [value.type for value in op.results]
    source = operands[0].type
    if name in ("arith.extf", "arith.truncf"):
        return [_converted_through_f32(body, operands[0], results[0], native)]
    if name in ("arith.sitofp", "arith.uitofp"):
        single = small_floats.integer_to_single(Word(body, operands[0]), is_signed=name == "arith.sitofp")
        return [converted(body, single.value, results[0])]
    if name in ("arith.scaling_extf", "arith.scaling_truncf"):
        is_inverse = name == "arith.scaling_truncf"
        return [_scaled(body, operands[0], operands[1], results[0], is_inverse=is_inverse)]
    if name == "math.isnormal":
        return [_is_normal(body, operands[0]).value]
    if name in ("math.fpowi", "math.ipowi"):
        return [_power(body, operands[0], operands[1], exponent, native)]
    if name in ("arith.mulsi_extended", "arith.mului_extended"):
        a, b = (Word(body, value) for value in operands)
        return [value.value for value in products.extended_product(a, b, is_signed=name == "arith.mulsi_extended")]
    # By integer operations on the bits, for 16 bits or more: smaller floats may lack a sign or have another -0.
    if name in _SIGNS and bit_width(source) >= 16:
        return [_SIGNS[name](*(word_of(body, value) for value in operands)).as_bits(source)]
    # Other operations. A float type that the target or the definition does not compute in is computed in f32.
    computed_types = PLAIN if name in FUNCTIONS else native.arithmetic  # FUNCTIONS are written for f32 and f64 only
    if type(source) not in computed_types:
        return _in_single(body, op)
    outcome: Any = _DEFINITIONS_OF_NUMBERS[name](*(Number(body, value) for value in operands))
    return [value.value for value in (outcome if isinstance(outcome, tuple) else (outcome,))]


def converted(body: Body, value: SSAValue, target: Attribute) -> SSAValue:
    """Emit the conversion of a float to another float type, rounded to nearest even once, and return it."""
    if value.type == target:
        return value
    return body.op(arith.ExtFOp if bit_width(target) > bit_width(value.type) else arith.TruncFOp, target, value)


def _converted_through_f32(body: Body, value: SSAValue, target: Attribute, native: Native) -> SSAValue:
    """Return a float converted to another float type by integer operations, with an f32 between the two.

    The result is the value of `target` nearest to `value`, ties to even.

    Args:
        body: The function that the operations are emitted into.
        value: The float. Its type or `target`, a float of 16 bits or less, is not in `native.conversions`.
        target: Type of the result.
        native: Types that the machine has instructions for.
    """
    source = value.type
    # source -> f32 by integer operations, exact; then f32 -> target.
    if type(source) not in native.conversions:
        return converted(body, small_floats.widened(body, value).value, target)
    # f64 -> f32 -> target by integer operations. Rounding to the nearest twice can differ from rounding once. So the
    # first step rounds to odd: an inexact f32 gets the last bit 1, which is never a tie of the second rounding.
    if isinstance(source, Float64Type):
        return small_floats.narrowed(small_floats.rounded_to_odd(Number(body, value)), target)
    # source -> f32, exact, since the source has at most 32 bits; then f32 -> target by integer operations.
    return small_floats.narrowed(Number(body, converted(body, value, _F32)), target)


def _in_single(body: Body, op: Operation) -> list[SSAValue]:
    """Return the results of an operation that is computed in f32 and converted back.

    The result is rounded twice, to f32 and then to the smaller type. f32 has more than twice the digits of f16, and of
    all smaller floats: sums, products, quotients and roots are the same as if they were rounded only once.
    """
    operands = [converted(body, value, _F32) if is_float(value.type) else value for value in body.arguments()]
    types = [_F32 if is_float(value.type) else value.type for value in op.results]
    kind = type(op)
    # The name of an unregistered operation is one of its attributes.
    attributes = dict(op.attributes) if isinstance(op, UnregisteredOp) else {}
    single = kind.create(operands=operands, result_types=types, properties=dict(op.properties), attributes=attributes)
    body.block.add_op(single)
    return [converted(body, new, old.type) for new, old in zip(single.results, op.results, strict=True)]


_SIGNS: dict[str, Callable[..., Word]] = {
    "arith.negf": lambda x: x ^ _sign_mask(x),
    "math.absf": lambda x: x & (_sign_mask(x) - 1),
    "math.copysign": lambda x, y: (x & (_sign_mask(x) - 1)) | (y & _sign_mask(x)),
}
"""Name of an operation that only changes the sign bit -> its definition on the bits of floats of 16 bits and more.

`_sign_mask(x)` has the sign bit alone, and `_sign_mask(x) - 1` all bits below it."""


def _sign_mask(bits: Word) -> int:
    """Return the mask of the sign bit of a float with these bits."""
    return 1 << (bits.width - 1)


def _power(body: Body, base: SSAValue, exponent: SSAValue, known: int | None, native: Native) -> SSAValue:
    """Return `base`, an integer or float, raised to an integer exponent; floats that are not native compute in f32.

    `known` is the exponent if it is constant, else None.
    """
    exponent_word = Word(body, exponent)  # Word and Number emit arithmetic of integers and of floats into `body`
    if not is_float(base.type):
        return powers.integer_power(Word(body, base), exponent_word, known).value
    is_native = type(base.type) in native.arithmetic
    base_number = Number(body, base if is_native else converted(body, base, _F32))
    return converted(body, powers.integer_power(base_number, exponent_word, known).value, base.type)


def _is_normal(body: Body, value: SSAValue) -> Truth:
    """Return whether a float is normal: its exponent bits are neither all 0 nor all 1."""
    small = small_float(value.type)
    if small is not None:
        size = Number(body, converted(body, value, _F32)).magnitude()
        return (size >= least_normal(small)) & (size < float("inf"))
    fraction_bits = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[str(value.type)]
    magnitude_bits = bit_width(value.type) - 1
    exponent_codes = 1 << (magnitude_bits - fraction_bits)  # all but the first and the last are of normal numbers
    magnitude = word_of(body, value) & ((1 << magnitude_bits) - 1)
    least_normal_bits = 1 << fraction_bits
    # One unsigned comparison for both bounds: the difference of a smaller magnitude wraps around to a large number.
    return (magnitude - least_normal_bits).below((exponent_codes - 2) << fraction_bits)


def _scaled(body: Body, value: SSAValue, scale: SSAValue, target: Attribute, is_inverse: bool) -> SSAValue:
    """Return the result of `arith.scaling_extf`, value * scale, or of `arith.scaling_truncf`, value / scale.

    `is_inverse` selects the quotient. The result is rounded once, and NaN if value or scale is NaN.

    The scale is converted to f8E8M0FNU first, which has only its exponent: it is a power of two.
    """
    power = Float8E8M0FNUType()
    # `wide`, the type of the multiplication. f32 holds the product of a float of 16 bits or less and a power of two
    # exactly. It may round the product of an f32, for example a subnormal one: fine for an f32 result, but a conversion
    # to 16 bits would round a second time. That case is computed in f64.
    source_bits, target_bits = bit_width(value.type), bit_width(target)
    rounds_twice = (source_bits, target_bits) == (32, 16)
    wide = _F64 if max(source_bits, target_bits) > 32 or rounds_twice else _F32
    scale = converted(body, scale, power)
    if is_inverse:  # 2^(c - 127) becomes 2^(127 - c), whose code is 254 - c in 8 bits; the NaN, 255, stays itself
        scale = (-2 - word_of(body, scale)).as_bits(power)
    factor, scale = (converted(body, operand, wide) for operand in (value, scale))
    return converted(body, body.op(arith.MulfOp, wide, factor, scale), target)
