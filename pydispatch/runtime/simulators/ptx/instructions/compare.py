"""Comparisons and selections: setp, set, selp, slct, testp.

A handler builds the closure of an instruction, which computes its result for all threads: operands are NumPy arrays
over the threads. `builder.bind` returns the slots of the destination and the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(
    builder: FunctionBuilder, instruction: Instruction, name: str, floating: bool
) -> Callable[[Any, Any], Any]:
    """Return a function that compares two arrays, such as that of `setp.lt`.

    If a float is NaN, ordered comparisons (eq, lt, ..., and ne too) are false; unordered ones (equ, ltu, ...) are true.
    `num` is true if both are numbers, `nan` if one is NaN.

    Args:
        builder: Builder of the function that contains the instruction.
        instruction: The instruction, for errors.
        name: The modifier that names the comparison, such as "lt" or "ltu".
        floating: Whether it compares floats.
    """
    if not floating:
        if name not in _ORDERED:
            builder.fail(instruction, f"has '.{name}', no comparison of integers")
        return _ORDERED[name]
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    base = name[:-1] if name.endswith("u") and name[:-1] in _ORDERED else name
    if base not in _ORDERED or base in ("lo", "ls", "hi", "hs"):
        builder.fail(instruction, f"has '.{name}', no comparison of floats")
    ufunc = _ORDERED[base]
    # NumPy's != is true for a NaN, its other comparisons are false.
    if base != name:
        return ufunc if base == "ne" else lambda x, y: ufunc(x, y) | np.isnan(x) | np.isnan(y)
    return (lambda x, y: ufunc(x, y) & ~(np.isnan(x) | np.isnan(y))) if base == "ne" else ufunc


def _words(builder: FunctionBuilder, instruction: Instruction, type_count: int) -> tuple[str, str, bool]:
    """Return (comparison, "and", "or", "xor" or "", whether .ftz is there) from the modifiers of setp and set.

    type_count: number of types, which are the last modifiers.
    """
    words = list(instruction.modifiers[: len(instruction.modifiers) - type_count])
    ftz = "ftz" in words
    if ftz:
        words.remove("ftz")
    if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in _COMBINE):
        builder.fail(instruction)
    return words[0], words[1] if len(words) == 2 else "", ftz


@handles("setp")
def setp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of setp.

    setp.lt.f32 p|q, a, b sets p = a < b and q = !p; setp.lt.and.f32 p|q, a, b, c combines both with c.
    """
    name, combine, ftz = _words(builder, instruction, type_count=1)
    type_ = instruction.modifiers[-1]
    destination, x, y = builder.operands(instruction, 3, most=4)[:3]  # the fourth is a predicate to combine with
    first, second = pair(destination)
    if type_ in ("f16x2", "bf16x2"):
        return _packed(builder, instruction, name, combine, ftz)
    compare = _comparison(builder, instruction, name, is_float(type_))
    dtype = dtype_of(type_)
    a, b = builder.sources(instruction, dtype, (x, y))
    p = builder.target(instruction, first, BOOL)
    q = builder.target(instruction, second, BOOL) if second is not None else -1
    c = builder.source(instruction, instruction.operands[3], BOOL) if combine else -1
    # The common case: NumPy compares into the register itself.
    is_comparison_alone = not combine and q < 0 and not ftz and type_ != "bf16"
    if is_comparison_alone and isinstance(compare, np.ufunc):
        return lambda regs: compare(regs[a], regs[b], regs[p])
    combine_with = _COMBINE.get(combine)

    def step(regs: list[Any]) -> None:
        """Write the result to p and its opposite to q, each combined with the predicate c if there is one."""
        left, right = unpacked(regs[a], type_), unpacked(regs[b], type_)
        if ftz:
            left, right = flush(left), flush(right)
        result = compare(left, right)
        inverse = ~result
        if combine_with is not None:
            operand = regs[c]
            result, inverse = combine_with(result, operand), combine_with(inverse, operand)
        regs[p][...] = result
        if q >= 0:
            regs[q][...] = inverse

    return step


def _packed(builder: FunctionBuilder, instruction: Instruction, name: str, combine: str, ftz: bool) -> Step:
    """Build the closure of setp of two packed halves: p for the low, q for the high one.

    name: the comparison, such as "lt". combine: "and", "or" or "xor" with the predicate that is the last operand; ""
    for none. ftz: whether subnormal operands count as zeros.
    """
    type_ = instruction.modifiers[-1]
    destination, x, y = instruction.operands[:3]
    first, second = pair(destination)
    compare = _comparison(builder, instruction, name, floating=True)
    a, b = builder.sources(instruction, "u32", (x, y))
    targets = [builder.target(instruction, first, BOOL), builder.target(instruction, second, BOOL)]
    c = builder.source(instruction, instruction.operands[3], BOOL) if combine else -1
    combine_with = _COMBINE.get(combine)

    def step(regs: list[Any]) -> None:
        for target, left, right in zip(targets, parts_of(regs[a], type_), parts_of(regs[b], type_), strict=True):
            result = compare(flush(left), flush(right)) if ftz else compare(left, right)
            regs[target][...] = combine_with(result, regs[c]) if combine_with is not None else result

    return step


@handles("set")
def set_(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of set: where the comparison holds 1.0 for a float result, all ones for an integer; else 0."""
    name, combine, ftz = _words(builder, instruction, type_count=2)
    result_type, type_ = instruction.modifiers[-2:]
    d, x, y, *predicates = builder.operands(instruction, 3, most=4)
    compare = _comparison(builder, instruction, name, is_float(type_))
    combine_with = _COMBINE.get(combine)
    if type_.endswith("x2"):
        return _set_packed(builder, instruction, name, combine, ftz)
    a, b = builder.sources(instruction, type_, (x, y))
    predicate = builder.source(instruction, predicates[0], BOOL) if combine else None
    target = builder.target(instruction, d, result_type)
    float_one = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(result_type)
    dtype = dtype_of(result_type)
    true_value = float_one if float_one is not None else (~UNSIGNED[dtype.itemsize].type(0)).view(dtype)

    def step(regs: list[Any]) -> None:
        """Write `true_value` where the comparison holds, combined with a predicate, else 0."""
        left, right = unpacked(regs[a], type_), unpacked(regs[b], type_)
        result = compare(flush(left), flush(right)) if ftz else compare(left, right)
        if combine_with is not None and predicate is not None:
            result = combine_with(result, regs[predicate])
        regs[target][...] = np.where(result, true_value, dtype.type(0))

    return step


def _set_packed(builder: FunctionBuilder, instruction: Instruction, name: str, combine: str, ftz: bool) -> Step:
    """Build the closure of set of two packed halves: each half is 1.0, or all ones for an integer result, or 0.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        name: The comparison, such as "lt".
        combine: "and", "or" or "xor" with the predicate that is the last operand; "" for none.
        ftz: Whether subnormal operands count as zeros.
    """
    result_type, type_ = instruction.modifiers[-2:]
    compare, combine_with = _comparison(builder, instruction, name, floating=True), _COMBINE.get(combine)
    true_bits = {"f16x2": 0x3C00, "bf16x2": 0x3F80, "u32": 0xFFFF, "s32": 0xFFFF}.get(result_type)
    if true_bits is None:
        builder.fail(instruction)
    true_value = np.uint16(true_bits)
    d, x, y = instruction.operands[:3]
    a, b = builder.sources(instruction, "u32", (x, y))
    target = builder.target(instruction, d, "u32")
    c = builder.source(instruction, instruction.operands[3], BOOL) if combine else -1

    def step(regs: list[Any]) -> None:
        """Compare both halves of packed registers."""
        halves = []
        for left, right in zip(parts_of(regs[a], type_), parts_of(regs[b], type_), strict=True):
            result = compare(flush(left), flush(right)) if ftz else compare(left, right)
            if combine_with is not None:
                result = combine_with(result, regs[c])
            halves.append(np.where(result, true_value, np.uint16(0)))
        regs[target][...] = joined(*halves)

    return step


@handles("selp")
def selp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of selp: a where the predicate holds, else b."""
    dtype = UNSIGNED[dtype_of(instruction.modifiers[-1]).itemsize]  # the bits are copied, of any type
    d, a, b, c = builder.bind(instruction, dtype, dtype, dtype, BOOL)
    return into(d, np.where, c, a, b)


@handles("slct")
def slct(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of slct: a where c >= 0 (false for NaN), else b."""
    result_type, selector_type = instruction.modifiers[-2], instruction.modifiers[-1]
    dtype = UNSIGNED[dtype_of(result_type).itemsize]
    d, a, b, c = builder.bind(instruction, dtype, dtype, dtype, selector_type)
    return into(d, lambda left, right, selector: np.where(selector >= 0, left, right), a, b, c)


_TESTS: dict[str, Callable[[Any], Any]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda v: ~np.isnan(v),
    "notanumber": np.isnan,
    "normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
    "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
}


@handles("testp")
def testp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of testp, which tests for finite, infinite, number, NaN, normal or subnormal values."""
    if (
        len(instruction.modifiers) != 2
        or instruction.modifiers[0] not in _TESTS
        or instruction.modifiers[1] not in ("f32", "f64")
    ):
        builder.fail(instruction)
    test, type_ = instruction.modifiers
    p, a = builder.bind(instruction, BOOL, type_)
    return into(p, _TESTS[test], a)
