"""setp, set, selp, slct, testp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import Builder, Step, pair
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of, is_float
from pydispatch.runtime.simulators.ptx.instructions.bitwise import into
from pydispatch.runtime.simulators.ptx.instructions.small import flush, joined, parts_of, unpacked
from pydispatch.runtime.simulators.ptx.registry import handles

_ORDERED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(b: Builder, i: Instruction, name: str, floating: bool) -> Callable[[Any, Any], Any]:
    """Return a comparison of arrays. Unordered ones (equ, ltu, …) hold for NaN, ordered ones (ne too) do not."""
    if not floating:
        if name not in _ORDERED:
            b.fail(i, f"has '.{name}', no comparison of integers")
        return _ORDERED[name]
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    base = name[:-1] if name.endswith("u") and name[:-1] in _ORDERED else name
    if base not in _ORDERED or base in ("lo", "ls", "hi", "hs"):
        b.fail(i, f"has '.{name}', no comparison of floats")
    ufunc = _ORDERED[base]
    if base != name:
        return ufunc if base == "ne" else lambda x, y: ufunc(x, y) | np.isnan(x) | np.isnan(y)
    return (lambda x, y: ufunc(x, y) & ~(np.isnan(x) | np.isnan(y))) if base == "ne" else ufunc


def _words(b: Builder, i: Instruction, types: int) -> tuple[str, str, bool]:
    """(comparison, combination or "", ftz)."""
    words = list(i.modifiers[: len(i.modifiers) - types])
    ftz = "ftz" in words
    if ftz:
        words.remove("ftz")
    if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in _COMBINE):
        b.fail(i)
    return words[0], words[1] if len(words) == 2 else "", ftz


@handles("setp")
def setp(b: Builder, i: Instruction) -> Step:
    """setp.lt.f32 p|q, a, b: p = a < b, q = !p; setp.lt.and.f32 p|q, a, b, c: combined with c."""
    name, combine, ftz = _words(b, i, 1)
    type_ = i.modifiers[-1]
    destination, x, y = b.operands(i, 3, 4)[:3]
    first, second = pair(destination)
    if type_ in ("f16x2", "bf16x2"):
        return _packed(b, i, name, combine, ftz)
    compare = _comparison(b, i, name, is_float(type_))
    dtype = dtype_of(type_)
    s, t = b.source(i, x, dtype), b.source(i, y, dtype)
    p, q = b.target(i, first, BOOL), b.target(i, second, BOOL) if second is not None else -1
    c = b.source(i, i.operands[3], BOOL) if combine else -1
    if not combine and q < 0 and not ftz and isinstance(compare, np.ufunc) and type_ != "bf16":
        return lambda regs: compare(regs[s], regs[t], regs[p])
    join = _COMBINE.get(combine)

    def step(regs: list[Any]) -> None:
        left, right = unpacked(regs[s], type_), unpacked(regs[t], type_)
        if ftz:
            left, right = flush(left), flush(right)
        result = compare(left, right)
        other = ~result
        if join is not None:
            third = regs[c]
            result, other = join(result, third), join(other, third)
        regs[p][...] = result
        if q >= 0:
            regs[q][...] = other

    return step


def _packed(b: Builder, i: Instruction, name: str, combine: str, ftz: bool) -> Step:
    """setp of two halves: p for the low, q for the high one."""
    type_ = i.modifiers[-1]
    destination, x, y = i.operands[:3]
    first, second = pair(destination)
    compare = _comparison(b, i, name, True)
    s, t = b.source(i, x, "u32"), b.source(i, y, "u32")
    targets = [b.target(i, first, BOOL), b.target(i, second, BOOL)]
    c = b.source(i, i.operands[3], BOOL) if combine else -1
    join = _COMBINE.get(combine)

    def step(regs: list[Any]) -> None:
        for target, left, right in zip(targets, parts_of(regs[s], type_), parts_of(regs[t], type_), strict=True):
            result = compare(flush(left), flush(right)) if ftz else compare(left, right)
            regs[target][...] = join(result, regs[c]) if join is not None else result

    return step


@handles("set")
def set_(b: Builder, i: Instruction) -> Step:
    """Return the closure of set: all ones or 1.0 where the comparison holds, else 0."""
    name, combine, ftz = _words(b, i, 2)
    given, type_ = i.modifiers[-2:]
    d, x, y = b.operands(i, 3, 4)[:3]
    compare = _comparison(b, i, name, is_float(type_))
    join = _COMBINE.get(combine)
    if type_.endswith("x2"):
        return _set_packed(b, i, name, combine, ftz)
    s, t = b.source(i, x, type_), b.source(i, y, type_)
    c = b.source(i, i.operands[3], BOOL) if combine else -1
    target = b.target(i, d, given)
    one = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(given)
    dtype = dtype_of(given)
    yes = one if one is not None else (~UNSIGNED[dtype.itemsize].type(0)).view(dtype)

    def step(regs: list[Any]) -> None:
        left, right = unpacked(regs[s], type_), unpacked(regs[t], type_)
        result = compare(flush(left), flush(right)) if ftz else compare(left, right)
        if join is not None:
            result = join(result, regs[c])
        regs[target][...] = np.where(result, yes, dtype.type(0))

    return step


def _set_packed(b: Builder, i: Instruction, name: str, combine: str, ftz: bool) -> Step:
    """set of two halves: 1.0 or all ones in each."""
    given, type_ = i.modifiers[-2:]
    compare, join = _comparison(b, i, name, True), _COMBINE.get(combine)
    yes = {"f16x2": 0x3C00, "bf16x2": 0x3F80, "u32": 0xFFFF, "s32": 0xFFFF}.get(given)
    if yes is None:
        b.fail(i)
    one = np.uint16(yes)
    d, x, y = i.operands[:3]
    s, t, target = b.source(i, x, "u32"), b.source(i, y, "u32"), b.target(i, d, "u32")
    c = b.source(i, i.operands[3], BOOL) if combine else -1

    def step(regs: list[Any]) -> None:
        halves = []
        for left, right in zip(parts_of(regs[s], type_), parts_of(regs[t], type_), strict=True):
            result = compare(flush(left), flush(right)) if ftz else compare(left, right)
            halves.append(np.where(join(result, regs[c]) if join is not None else result, one, np.uint16(0)))
        regs[target][...] = joined(*halves)

    return step


@handles("selp")
def selp(b: Builder, i: Instruction) -> Step:
    d, x, y, p = b.operands(i, 4)
    dtype = UNSIGNED[dtype_of(i.modifiers[-1]).itemsize]
    s, t, c, target = b.source(i, x, dtype), b.source(i, y, dtype), b.source(i, p, BOOL), b.target(i, d, dtype)
    return into(target, lambda v, w, q: np.where(q, v, w), s, t, c)


@handles("slct")
def slct(b: Builder, i: Instruction) -> Step:
    """Select a where c >= 0 (false for NaN), else b."""
    given, by = i.modifiers[-2:]
    d, x, y, z = b.operands(i, 4)
    dtype = UNSIGNED[dtype_of(given).itemsize]
    s, t, c, target = b.source(i, x, dtype), b.source(i, y, dtype), b.source(i, z, by), b.target(i, d, dtype)
    return into(target, lambda v, w, q: np.where(q >= 0, v, w), s, t, c)


_TESTS: dict[str, Callable[[Any], Any]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda v: ~np.isnan(v),
    "notanumber": np.isnan,
    "normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
    "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
}


@handles("testp")
def testp(b: Builder, i: Instruction) -> Step:
    if len(i.modifiers) != 2 or i.modifiers[0] not in _TESTS or i.modifiers[1] not in ("f32", "f64"):
        b.fail(i)
    d, x = b.operands(i, 2)
    return into(b.target(i, d, BOOL), _TESTS[i.modifiers[0]], b.source(i, x, i.modifiers[1]))
