"""PTX comparisons and selections: setp, set, selp, slct, testp. A handler returns a closure `step(regs)`, which runs
the instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is
an operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
`builder.bind` returns the slots of the destination and the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step, pair
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of, is_float
from pydispatch.runtime.simulators.ptx.instructions.bitwise import into
from pydispatch.runtime.simulators.ptx.instructions.small import flush, joined, parts_of, unpacked
from pydispatch.runtime.simulators.ptx.registry import handles

_ORDERED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
"""Comparison → ufunc. lo, ls, hi and hs are lt, le, gt and ge of unsigned integers."""
_FLUSHED_TYPES = ("f32", "f16", "f16x2")
"""Types of operands whose comparisons may have .ftz."""
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
"""Modifier of setp and set → function of the comparison's result and a predicate: `setp.lt.and.s32 p, a, b, q`."""


def _comparison(
    builder: FunctionBuilder, instruction: Instruction, name: str, floating: bool
) -> Callable[[Any, Any], Any]:
    """Return a function that compares two arrays, such as that of `setp.lt`, and returns an array of truth values.

    Integers: eq, ne, lt, le, gt, ge, and lo, ls, hi, hs of unsigned ones. Floats: if one is NaN, ordered comparisons
    (eq, ne, lt, ...) are false, and unordered ones (equ, neu, ltu, ...) true; `num` is true if both are numbers, `nan`
    if one is NaN.

    Args:
        builder: Builder of the function that contains the instruction.
        instruction: The instruction, for errors.
        name: The modifier that names the comparison, such as "lt" or "ltu".
        floating: Whether it compares floats.
    """
    if floating:
        return _float_comparison(builder, instruction, name)
    if name not in _ORDERED:
        builder.fail(instruction, f"has '.{name}', no comparison of integers")
    return _ORDERED[name]


def _float_comparison(builder: FunctionBuilder, instruction: Instruction, name: str) -> Callable[[Any, Any], Any]:
    """Return the comparison of floats with a name. For the names and the other parameters, see `_comparison`."""
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    # An unordered comparison is an ordered one with "u" added: base "lt" of "ltu".
    base = name[:-1] if name.endswith("u") and name[:-1] in _ORDERED else name
    if base not in _ORDERED or base in ("lo", "ls", "hi", "hs"):
        builder.fail(instruction, f"has '.{name}', no comparison of floats")
    ufunc = _ORDERED[base]
    # NumPy's != is true if an operand is NaN; its other comparisons are false.
    is_unordered, is_true_for_nan = base != name, base == "ne"
    if is_unordered == is_true_for_nan:
        return ufunc
    if is_unordered:
        return lambda x, y: ufunc(x, y) | np.isnan(x) | np.isnan(y)
    return lambda x, y: ufunc(x, y) & ~(np.isnan(x) | np.isnan(y))


class _Condition(NamedTuple):
    """Condition of setp and set: a comparison, whose result may be combined with a predicate.

    Attributes:
        compare: Comparison of two arrays, which counts subnormals as zeros with .ftz.
        combine: Function of the result and the predicate: and, or, xor; None if the result is not combined.
        predicate: Slot of the predicate; -1 if the result is not combined.
    """

    compare: Callable[[Any, Any], Any]
    combine: np.ufunc | None
    predicate: int


def _condition(builder: FunctionBuilder, instruction: Instruction, type_count: int) -> _Condition:
    """Return the condition of setp or set, whose modifiers are the comparison, the combination, .ftz and the types.

    In setp.lt.and.ftz.f32 p, a, b, c, `lt` is the comparison, and `and` combines its result with the predicate c. The
    result has (compare, combine, slot of the predicate); combine is None, and the slot -1, without a combination.

    Raise ArtifactError for other modifiers, or for another number of operands than these: the destination, the two
    operands of the comparison, and the predicate if there is a combination.

    Args:
        builder: Builder of the function that contains the instruction.
        instruction: The instruction.
        type_count: Number of types, which are the last modifiers; the last one is that of the operands.
    """
    words = list(instruction.modifiers[: len(instruction.modifiers) - type_count])
    flushes_subnormals = "ftz" in words
    if flushes_subnormals:
        words.remove("ftz")
    # `words` are the comparison and, if there is one, the combination.
    if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in _COMBINE):
        builder.fail(instruction)
    type_ = instruction.modifiers[-1]
    if flushes_subnormals and type_ not in _FLUSHED_TYPES:
        builder.fail(instruction, f"has '.ftz', which compares {', '.join(_FLUSHED_TYPES)}, not {type_}")
    compare = _comparison(builder, instruction, words[0], is_float(type_))
    if flushes_subnormals:
        compare = _flushing(compare)
    if len(words) == 1:
        builder.operands(instruction, 3)
        return _Condition(compare, None, predicate=-1)
    predicate = builder.source(instruction, builder.operands(instruction, 4)[3], BOOL)
    return _Condition(compare, _COMBINE[words[1]], predicate)


def _flushing(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison that counts subnormal operands as zeros."""
    return lambda x, y: compare(flush(x), flush(y))


@handles("setp")
def setp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of setp.

    setp.lt.f32 p|q, a, b sets p = a < b and q = !p; setp.lt.and.f32 p|q, a, b, c combines both with c. On packed types
    p is the result of the low halves, q the result of the high halves.
    """
    condition = _condition(builder, instruction, type_count=1)
    type_ = instruction.modifiers[-1]
    first, second = pair(instruction.operands[0])
    if type_ in _PACKED_TYPES:
        a, b = builder.sources(instruction, "u32", instruction.operands[1:3])
        targets = [builder.target(instruction, first, BOOL), builder.target(instruction, second, BOOL)]
        return _setp_of_halves(condition, type_, a, b, targets)
    a, b = builder.sources(instruction, dtype_of(type_), instruction.operands[1:3])
    p = builder.target(instruction, first, BOOL)
    q = builder.target(instruction, second, BOOL) if second is not None else -1
    compare = condition.compare
    # The common case in one call of NumPy: one result, and a comparison that is a ufunc. A bf16 must be widened first.
    is_plain = condition.combine is None and q < 0 and type_ != "bf16"
    if isinstance(compare, np.ufunc) and is_plain:
        return lambda regs: compare(regs[a], regs[b], out=regs[p])
    return _setp_of_numbers(condition, type_, a, b, p, q)


def _setp_of_numbers(condition: _Condition, type_: str, a: int, b: int, p: int, q: int) -> Step:
    """Return the closure of setp of two numbers.

    Args:
        condition: The comparison, and, as in setp.lt.and, the operation that combines its result with a predicate.
        type_: PTX type of the operands.
        a: Slot of the first operand.
        b: Slot of the second operand.
        p: Slot of the result.
        q: Slot of the result of the opposite comparison; -1 if it is not stored.
    """
    compare, combine, predicate = condition.compare, condition.combine, condition.predicate

    def store_predicates(regs: list[Any]) -> None:
        """Compare a with b: store the result in p and its opposite in q (-1: not stored).

        Both are first combined with the predicate, unless `combine` is None.
        """
        result = compare(unpacked(regs[a], type_), unpacked(regs[b], type_))
        inverse = ~result
        if combine is not None:
            operand = regs[predicate]
            result, inverse = combine(result, operand), combine(inverse, operand)
        regs[p][...] = result
        if q >= 0:
            regs[q][...] = inverse

    return store_predicates


def _setp_of_halves(condition: _Condition, type_: str, a: int, b: int, targets: Sequence[int]) -> Step:
    """Return the closure of setp of two packed registers, which compares their low and their high halves.

    Args:
        condition: The condition.
        type_: "f16x2" or "bf16x2".
        a: Slot of the first register.
        b: Slot of the second register.
        targets: Slots of the predicates of the low and the high half.
    """
    compare, combine, predicate = condition.compare, condition.combine, condition.predicate

    def store_predicates_of_halves(regs: list[Any]) -> None:
        """Compare the low halves of a and b, then the high halves, and store a predicate for each in `targets`.

        The result is first combined with another predicate, unless `combine` is None.
        """
        for target, left, right in zip(targets, parts_of(regs[a], type_), parts_of(regs[b], type_), strict=True):
            result = compare(left, right)
            regs[target][...] = combine(result, regs[predicate]) if combine is not None else result

    return store_predicates_of_halves


@handles("set")
def set_(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of set, which compares a with b and stores the result as a number.

    `set.lt.f32.s32 d, a, b` sets d to 1.0 where a < b, else to 0.0. With an integer type in place of f32, d is all ones
    (0xFFFFFFFF), else 0. The first type is that of the result, the second that of the operands.

    On packed types the halves are compared separately: `set.lt.f16x2.f16x2` of the pairs (1, 5) and (2, 4) gives the
    pair (1.0, 0.0).
    """
    condition = _condition(builder, instruction, type_count=2)
    result_type, type_ = instruction.modifiers[-2:]
    is_packed = type_ in _PACKED_TYPES
    a, b = builder.sources(instruction, "u32" if is_packed else type_, instruction.operands[1:3])
    target = builder.target(instruction, instruction.operands[0], "u32" if is_packed else result_type)
    # The function that computes the result from the operands and the predicate, if there is one.
    if is_packed:
        if result_type not in _TRUE_HALVES:
            builder.fail(instruction)
        compute = _chosen_halves(condition, type_, np.uint16(_TRUE_HALVES[result_type]))
    else:
        compute = _chosen_number(condition, type_, result_type)
    # The closure sets regs[target] to compute(regs[a], regs[b]) or, with a combination, compute(regs[a], regs[b],
    # predicate).
    return into(target, compute, a, b, *([condition.predicate] if condition.combine is not None else []))


def _chosen_number(condition: _Condition, type_: str, result_type: str) -> Callable[..., Any]:
    """Return the function that computes the instruction `set` for types that are not packed.

    It returns 1.0 (float result) or all ones (integer result) where the condition holds, else 0.

    Its arguments are the two operands, and the predicate if the condition has one.

    Args:
        condition: The condition.
        type_: PTX type of the operands.
        result_type: PTX type of the result.
    """
    compare, combine = condition.compare, condition.combine
    dtype = dtype_of(result_type)
    # A bf16 is computed by its bits: 0x3F80 is 1.0.
    float_one = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(result_type)
    true_value = float_one if float_one is not None else (~UNSIGNED[dtype.itemsize].type(0)).view(dtype)
    false_value = dtype.type(0)

    def select(left: Any, right: Any, predicate: Any = None) -> Any:
        """Compare two operands of all threads, and return `true_value` or `false_value` for each thread.

        The result of the comparison is first combined with `predicate`, unless `combine` is None.
        """
        result = compare(unpacked(left, type_), unpacked(right, type_))
        if combine is not None:
            result = combine(result, predicate)
        return np.where(result, true_value, false_value)

    return select


_PACKED_TYPES = ("f16x2", "bf16x2")
"""Types of two halves in 32 bits, which are compared separately."""
_TRUE_HALVES = {"f16x2": 0x3C00, "bf16x2": 0x3F80, "u32": 0xFFFF, "s32": 0xFFFF}
"""Type of the result of set on packed types → the bits of a half where the condition holds: 1.0, or all ones."""


def _chosen_halves(condition: _Condition, type_: str, true_bits: np.uint16) -> Callable[..., Any]:
    """Return the function of set on packed registers.

    Its arguments are the two operands, and the predicate if the condition has one.

    Args:
        condition: The condition.
        type_: "f16x2" or "bf16x2".
        true_bits: Bits of a half of the result where the condition holds.
    """
    compare, combine = condition.compare, condition.combine
    false_bits = np.uint16(0)

    def select_halves(left: Any, right: Any, predicate: Any = None) -> Any:
        """Compare the halves of two operands, and return both results of each thread in 32 bits.

        A result is `true_bits` or 0. It is first combined with `predicate`, unless `combine` is None.
        """
        halves = []
        for left_half, right_half in zip(parts_of(left, type_), parts_of(right, type_), strict=True):
            result = compare(left_half, right_half)
            if combine is not None:
                result = combine(result, predicate)
            halves.append(np.where(result, true_bits, false_bits))
        return joined(*halves)

    return select_halves


@handles("selp")
def selp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of selp: a where the predicate holds, else b."""
    if len(instruction.modifiers) != 1:
        builder.fail(instruction)
    dtype = UNSIGNED[dtype_of(instruction.modifiers[-1]).itemsize]  # the bits are copied, of any type
    d, a, b, c = builder.bind(instruction, dtype, dtype, dtype, BOOL)
    return into(d, np.where, c, a, b)


@handles("slct")
def slct(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of slct: a where c >= 0 (false for NaN), else b. With .ftz, a subnormal c counts as zero."""
    words, result_type, selector_type = instruction.modifiers[:-2], instruction.modifiers[-2], instruction.modifiers[-1]
    builder.require_modifiers(instruction, ("ftz",) if selector_type == "f32" else (), words)
    dtype = UNSIGNED[dtype_of(result_type).itemsize]
    d, a, b, c = builder.bind(instruction, dtype, dtype, dtype, selector_type)
    has_ftz = bool(words)  # the only other modifier that is allowed
    is_selected = _flushing(np.greater_equal) if has_ftz else np.greater_equal
    zero = dtype_of(selector_type).type(0)
    return into(d, lambda left, right, selector: np.where(is_selected(selector, zero), left, right), a, b, c)


_TESTS: dict[str, Callable[[Any], Any]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda v: ~np.isnan(v),
    "notanumber": np.isnan,
    "normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
    "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
}
"""Modifier of testp → function that tests each value."""


@handles("testp")
def testp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of testp, which tests for finite, infinite, number, NaN, normal or subnormal values."""
    if instruction.modifiers not in [(test, type_) for test in _TESTS for type_ in ("f32", "f64")]:
        builder.fail(instruction)
    test, type_ = instruction.modifiers
    p, a = builder.bind(instruction, BOOL, type_)
    return into(p, _TESTS[test], a)
