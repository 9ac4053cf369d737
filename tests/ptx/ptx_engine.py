"""Runs single instructions and small kernels on the interpreter of PTX, for arrays."""

from __future__ import annotations

import struct
from fractions import Fraction
from math import inf, isinf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.machine import Machine

DATA = Path(__file__).parents[1] / "cuda" / "data"
_HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"
_SIZES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8, "f16x2": 4, "bf16x2": 4, "f16": 2, "bf16": 2, "tf32": 4}


def size_of(type_: str) -> int:
    if type_ in _SIZES:
        return _SIZES[type_]
    return 4 if type_.endswith("x2") else _SIZES[type_[1:]]


def each(text: str, inputs: list[tuple[str, Any]], output: str, block: int = 128, **options: Any) -> Any:
    """What `text` leaves in %d for each thread, whose values of the inputs are %a, %b, %c, …

    inputs: (type, array); a predicate is an array of bools. output: the type of %d: bits, or "pred".
    """
    names = "abcefg"
    n = len(inputs[0][1])
    declared, loads = [], []
    for name, (type_, _) in zip(names, inputs, strict=False):
        size = size_of(type_)
        declared.append(f".reg .{'pred' if type_ == 'pred' else f'b{max(16, 8 * size)}'} %{name};")
        at = f"  ld.param.u64 %ptr, [in_{name}]; mad.wide.u32 %ptr, %i, {size}, %ptr;"
        if type_ == "pred":
            loads.append(f"{at} ld.global.u8 %h, [%ptr]; setp.ne.u16 %{name}, %h, 0;")
        else:
            loads.append(f"{at} ld.global.b{8 * size} %{name}, [%ptr];")
    size = size_of(output)
    declared.append(f".reg .{'pred' if output == 'pred' else f'b{max(16, 8 * size)}'} %d;")
    after = (
        "selp.u16 %h, 1, 0, %d; st.global.u8 [%ptr], %h;" if output == "pred" else f"st.global.b{8 * size} [%ptr], %d;"
    )
    params = ", ".join(f".param .u64 in_{name}" for name in names[: len(inputs)])
    source = (
        f"{_HEADER}.visible .entry k({params}, .param .u64 out, .param .u32 n)\n{{\n"
        ".reg .u32 %i, %t, %u; .reg .u64 %ptr; .reg .pred %over; .reg .u16 %h; .reg .b32 %r<8>; .reg .b64 %q<8>;"
        f".reg .pred %p<4>;\n{' '.join(declared)}\n"
        "mov.u32 %t, %ctaid.x; mov.u32 %u, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %t, %u, %i;\n"
        "ld.param.u32 %u, [n]; setp.ge.u32 %over, %i, %u; @%over ret;\n" + "\n".join(loads) + f"\n{text}\n"
        f"ld.param.u64 %ptr, [out]; mad.wide.u32 %ptr, %i, {size}, %ptr; {after}\nret;\n}}\n"
    )
    machine = Machine(**options)
    arrays = [np.ascontiguousarray(array).copy() for _, array in inputs]
    out = np.zeros(n, f"u{size}")
    addresses = [machine.memory.adopt(array) for array in (*arrays, out)]
    kernel = machine.load(source, "each.ptx").entry("k")
    params_bytes = struct.pack(f"<{len(addresses)}QI", *addresses, n)
    machine.launch(kernel, (-(-n // block), 1, 1), (block, 1, 1), params_bytes)
    return out.view(bool) if output == "pred" else out


class Kernels:
    """The kernels of a PTX text, called with arrays (in and out) and numbers."""

    def __init__(self, text: str, name: str = "kernels.ptx", **options: Any) -> None:
        self.machine = Machine(**options)
        self.loaded = self.machine.load(text, name)

    @classmethod
    def of(cls, stem: str, **options: Any) -> Kernels:
        """The kernels of tests/cuda/data."""
        return cls((DATA / f"{stem}.ptx").read_text(), f"{stem}.ptx", **options)

    def __call__(self, entry: str, grid: Any, block: Any, *arguments: Any, shared: int = 0, **options: Any) -> None:
        kernel = self.loaded.entry(entry)
        params = bytearray(kernel.param_bytes)
        held = []
        for offset, param, value in zip(kernel.offsets, kernel.function.params, arguments, strict=True):
            if isinstance(value, np.ndarray):
                held.append(value := self.machine.memory.adopt(value))
            data = struct.pack("<f" if isinstance(value, float) else "<q", value)
            params[offset : offset + param.size] = data[: param.size]
        try:
            self.machine.launch(kernel, three(grid), three(block), bytes(params), shared, **options)
        finally:
            for address in held:
                self.machine.memory.free(address)


def three(sizes: Any) -> tuple[int, int, int]:
    return ((*sizes, 1, 1) if isinstance(sizes, tuple) else (sizes, 1, 1))[:3]


def wrap(body: str, head: str = "", params: str = "") -> str:
    """A kernel k of a body."""
    return f"{_HEADER}{head}\n.visible .entry k({params})\n{{\n{body}\n}}\n"


# -- Rational numbers as floats, written apart from the interpreter --------------------------------------------------

FORMATS = {"f16": (11, 15), "bf16": (8, 127), "f32": (24, 127), "f64": (53, 1023)}
"""Bits of the mantissa, the largest exponent."""


def to_format(value: Fraction, name: str, mode: str, zero: float = 0.0) -> float:
    """A rational number rounded to a format: rn, rz, rm, rp, rna. zero: the zero to give for 0."""
    bits, most = FORMATS[name]
    if value == 0:
        return zero
    sign, size = (-1 if value < 0 else 1), abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    exponent = max(exponent, 1 - most)
    unit = Fraction(2) ** (exponent - bits + 1)
    count, rest = divmod(size, unit)
    count = int(count)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and count % 2 == 1), "rna": rest * 2 >= unit, "rz": False,
        "rm": sign < 0 and rest > 0, "rp": sign > 0 and rest > 0,
    }[mode]  # fmt: skip
    result = (count + up) * unit
    largest = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** most
    if result > largest:
        bounded = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return float(sign * largest) if bounded else sign * inf
    return float(sign * result) if result else sign * 0.0


def same(got: float, want: float) -> bool:
    """Equal with the sign of zero; NaN is NaN."""
    if isnan(want) or isnan(got):
        return isnan(want) and isnan(got)
    return got == want and str(got)[0] == str(want)[0]


def floats(name: str, rng: np.random.Generator, count: int) -> Any:
    """Values of f16, f32 or f64 whose sums and products round in every way: any bits, near ones, and special values."""
    size = {"f16": 2, "f32": 4, "f64": 8}[name]
    dtype = np.dtype(f"f{size}")
    bits = rng.integers(0, 1 << 8 * size - 1, count, np.uint64) * np.uint64(2) + rng.integers(0, 2, count, np.uint64)
    anything = bits.astype(f"u{size}").view(dtype)
    near = (rng.integers(-(1 << 12), 1 << 12, count) * 2.0 ** rng.integers(-14, 3, count).astype(np.float64)).astype(
        dtype
    )
    info = np.finfo(dtype)
    special = np.array([0, -0.0, 1, -1, inf, -inf, nan, info.max, -info.max, info.tiny, info.smallest_subnormal,
                        1 + info.eps, 1 - info.epsneg, 3, 0.5], dtype)  # fmt: skip
    chosen = rng.integers(0, 8, count)
    return np.where(chosen < 3, anything, np.where(chosen < 7, near, rng.choice(special, count)))


def finite(*values: float) -> bool:
    return not any(isnan(v) or isinf(v) for v in values)
