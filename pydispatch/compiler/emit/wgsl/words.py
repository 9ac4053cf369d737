"""Reserved words and literals of WGSL."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from pydispatch.compiler.emit.shaders.values import signed

# Keywords of WGSL, and words that its specification reserves.
_RESERVED = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let
loop override requires return struct switch true var while NULL Self abstract active alignas alignof as asm
asm_fragment async attribute auto await become binding_array cast catch class co_await co_return co_yield coherent
column_major common compile compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype
delete demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter final
finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof interface layout lowp
macro macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline nointerpolation
non_coherent noncoherent noperspective null nullptr of operator package packoffset partial pass patch pixelfragment
precise precision premerge priv protected pub public readonly ref regardless register reinterpret_cast require
resource restrict self set shared sizeof smooth snorm static static_assert static_cast std subroutine super target
template this thread_local throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized use
using varying virtual volatile wgsl where with writeonly yield
"""
RESERVED = frozenset(_RESERVED.split())
"""Keywords, and words that the specification reserves for later versions of WGSL."""

# The built-in functions and types of WGSL that generated code uses: a declaration must not have the name of one.
_BUILT_IN = """
abs all any array atomic atomicAdd atomicAnd atomicExchange atomicLoad atomicMax atomicMin atomicOr atomicStore
atomicXor bitcast bool ceil clamp countLeadingZeros countOneBits countTrailingZeros extractBits f16 f32 floor fma i32
max min round select sqrt storageBarrier trunc u32 vec2 vec2f vec2i vec2u vec3 vec3u vec4 vec4u workgroupBarrier
workgroupUniformLoad
"""
BUILT_IN = frozenset(_BUILT_IN.split())
"""Names of the built-in functions and types that generated code uses. A declaration with such a name would shadow the
built-in one."""

IDENTIFIER = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*\Z")
"""A name that WGSL allows, unless it is in `RESERVED`."""


def is_free(name: str) -> bool:
    """Return whether a name may be declared in WGSL: an identifier that is neither reserved nor built in."""
    return bool(IDENTIFIER.match(name)) and name != "_" and name not in RESERVED and name not in BUILT_IN


class Name(str):
    """A WGSL expression that needs no parentheses anywhere: a name, a member of one, or a literal."""

    __slots__ = ()


class Literal(Name):
    """A literal. An expression of literals alone is evaluated at compile time, and must not overflow."""

    __slots__ = ()


@lru_cache(4096)
def integer(value: int) -> Literal:
    """Return the i32 literal with the low 32 bits of a number."""
    value = signed(value, 32)
    if value == -(1 << 31):
        return Literal("i32(-2147483648)")
    return Literal(value if value >= 0 else f"({value})")


@lru_cache(4096)
def unsigned(value: int) -> Literal:
    """Return the u32 literal with the low 32 bits of a number."""
    return Literal(f"{value & 0xFFFFFFFF}u")


@lru_cache(4096)
def two_words(value: int) -> Literal:
    """Return the vec2u literal with the low 64 bits of a number, low word first."""
    return Literal(f"vec2u({value & 0xFFFFFFFF}u, {value >> 32 & 0xFFFFFFFF}u)")


@lru_cache(4096)
def finite_f32(bits: int) -> Literal | None:
    """Return the f32 literal with these bits; None for infinities and NaN, which have no literals."""
    if bits & 0x7F800000 == 0x7F800000:  # the exponent of infinities and NaN
        return None
    value = np.uint32(bits).view(np.float32)
    text = str(value)
    if abs(float(text)) > float(np.finfo(np.float32).max):  # the shortest text of the largest number is above it
        text = repr(float(value))
    return Literal(f"({text}f)" if text[0] == "-" else f"{text}f")


def as_unsigned(value: object) -> str:
    """Return a WGSL expression that converts `value`, an expression of type i32 or bool, to u32."""
    is_integer_literal = type(value) is Literal and value not in ("true", "false")
    if is_integer_literal:  # "7", "(-7)" or "i32(-2147483648)"
        return unsigned(int(str(value).removeprefix("i32").strip("()")))
    return f"u32({value})"
