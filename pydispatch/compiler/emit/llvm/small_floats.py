"""Floats of 8 bits and less: to and from f32 in integer instructions without branches or tables: they vectorise.

In registers such a float is an integer of its width. Numbers are rounded to nearest even, once. What lies beyond the
largest number becomes infinity, NaN in a format without infinities, the largest number in one without either; a NaN
that the format lacks becomes -0. f8E8M0FNU takes the exponent of an f32 as it is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pydispatch.compiler.emit.llvm.body import Body
from pydispatch.formats.arrays.small_floats import EXPONENT_ONLY, FORMATS

_MAGNITUDE, _INFINITY, _QUIET_NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Format:
    """Exponent and fraction bits, bias, and which codes are special, as in `pydispatch.formats.arrays.small_floats`."""

    exponent: int
    fraction: int
    bias: int
    special: str

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def most(self) -> int:
        """The code of the largest finite number."""
        if self.special == "ieee":
            return (((1 << self.exponent) - 1) << self.fraction) - 1
        return self.sign - (2 if self.special == "fn" else 1)

    @property
    def nan(self) -> int:
        """The code of a NaN without sign."""
        if self.special == "ieee":
            return self.most + 1 + (1 << (self.fraction - 1))
        return self.sign - 1 if self.special == "fn" else self.sign

    @property
    def beyond(self) -> int:
        """The code of what lies above the largest number, without sign."""
        if self.special == "ieee":
            return self.most + 1
        return self.most if self.special == "finite" else self.nan

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


def to_f32(body: Body, operand: str, name: str) -> str:
    """The f32 of a small float; exact."""
    let = body.let
    if name == EXPONENT_ONLY:
        code = let(f"zext i8 {operand} to i32")
        power = let(f"shl i32 {code}, 23")
        power = let(f"select i1 {let(f'icmp eq i32 {code}, 0')}, i32 {1 << 22}, i32 {power}")
        power = let(f"select i1 {let(f'icmp eq i32 {code}, 255')}, i32 {_QUIET_NAN}, i32 {power}")
        return let(f"bitcast i32 {power} to float")
    form = Format(*FORMATS[name])
    code = let(f"zext i{form.bits} {operand} to i32")
    magnitude = let(f"and i32 {code}, {form.sign - 1}")
    sign = let(f"shl i32 {let(f'and i32 {code}, {form.sign}')}, {32 - form.bits}")
    shifted = let(f"shl i32 {magnitude}, {23 - form.fraction}")
    normal = let(f"add i32 {shifted}, {(127 - form.bias) << 23}")
    # A subnormal is its fraction times a power of two, exactly.
    unit = _literal(2.0 ** (1 - form.bias - form.fraction))
    scaled = let(f"fmul float {let(f'sitofp i32 {magnitude} to float')}, {unit}")
    small = let(f"bitcast float {scaled} to i32")
    value = let(f"select i1 {let(f'icmp ult i32 {magnitude}, {1 << form.fraction}')}, i32 {small}, i32 {normal}")
    if form.special == "ieee":
        infinite = let(f"or i32 {shifted}, {_INFINITY}")
        value = let(f"select i1 {let(f'icmp ugt i32 {magnitude}, {form.most}')}, i32 {infinite}, i32 {value}")
        is_nan = let(f"icmp ugt i32 {magnitude}, {form.most + 1}")
        value = let(f"select i1 {is_nan}, i32 {let(f'or i32 {value}, {1 << 22}')}, i32 {value}")
    elif form.special == "fn":
        value = let(f"select i1 {let(f'icmp eq i32 {magnitude}, {form.nan}')}, i32 {_QUIET_NAN}, i32 {value}")
    elif form.special == "fnuz":
        value = let(f"select i1 {let(f'icmp eq i32 {code}, {form.nan}')}, i32 {_QUIET_NAN}, i32 {value}")
    return let(f"bitcast i32 {let(f'or i32 {value}, {sign}')} to float")


def from_f32(body: Body, operand: str, name: str) -> str:
    """The small float of an f32."""
    let = body.let
    bits = let(f"bitcast float {operand} to i32")
    if name == EXPONENT_ONLY:
        return let(f"trunc i32 {let(f'lshr i32 {bits}, 23')} to i8")
    form = Format(*FORMATS[name])
    magnitude = let(f"and i32 {bits}, {_MAGNITUDE}")
    drop = 23 - form.fraction
    odd = let(f"and i32 {let(f'lshr i32 {magnitude}, {drop}')}, 1")
    # Rebias, and round to nearest even: half of the last place less one, and one more where the last place is odd.
    rounding = (1 << (drop - 1)) - 1 - ((127 - form.bias) << 23)
    rounded = let(f"add i32 {let(f'add i32 {magnitude}, {rounding}')}, {odd}")
    value = let(f"lshr i32 {rounded}, {drop}")
    value = let(f"select i1 {let(f'icmp ugt i32 {value}, {form.most}')}, i32 {form.beyond}, i32 {value}")
    # Below the normal numbers, adding a number whose last place is the least subnormal rounds in its low bits.
    shift = 2.0 ** (24 - form.bias - form.fraction)
    sum_ = let(f"fadd float {let(f'bitcast i32 {magnitude} to float')}, {_literal(shift)}")
    small = let(f"sub i32 {let(f'bitcast float {sum_} to i32')}, {_bits(shift)}")
    is_small = let(f"icmp ult i32 {magnitude}, {_bits(form.least_normal)}")
    value = let(f"select i1 {is_small}, i32 {small}, i32 {value}")
    is_nan = let(f"icmp ugt i32 {magnitude}, {_INFINITY}")
    value = let(f"select i1 {is_nan}, i32 {form.nan}, i32 {value}")
    sign = let(f"and i32 {let(f'lshr i32 {bits}, {32 - form.bits}')}, {form.sign}")
    if form.special == "fnuz":  # there is no -0: its code is NaN
        sign = let(f"select i1 {let(f'icmp eq i32 {value}, 0')}, i32 0, i32 {sign}")
    if form.special == "finite":
        sign = let(f"select i1 {is_nan}, i32 0, i32 {sign}")
    return let(f"trunc i32 {let(f'or i32 {value}, {sign}')} to i{form.bits}")


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def _literal(value: float) -> str:
    """A power of two as LLVM writes an f32."""
    return f"0x{int.from_bytes(struct.pack('<d', value), 'little'):016X}"
