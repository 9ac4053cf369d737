"""Integer and bit instructions against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_engine import each

COUNT = 600
EDGES = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF]


def values(type_: str, seed: int, count: int = COUNT) -> np.ndarray:
    """Any values of an integer type, edges among them."""
    rng, bits = np.random.default_rng(seed), int(type_[1:])
    edges = [*EDGES, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 2]
    whole = rng.integers(0, 1 << 63, count, np.uint64) * np.uint64(2) + rng.integers(0, 2, count, np.uint64)
    chosen = np.where(rng.random(count) < 0.3, rng.choice(np.array(edges, np.uint64), count), whole)
    return (
        (chosen & np.uint64((1 << bits) - 1))
        .astype(f"u{bits // 8}")
        .view(f"{'i' if type_[0] == 's' else 'u'}{bits // 8}")
    )


def number(value: int, type_: str) -> int:
    """An integer as a type has it: wrapped."""
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_[0] == "s" and value >> bits - 1 else value


def check(
    instruction: str, types: list[str], output: str, oracle: Callable[..., int], limit: dict[int, int] | None = None
) -> None:
    inputs = [values(type_, 7 * k + 1) for k, type_ in enumerate(types)]
    for k, most in (limit or {}).items():
        inputs[k] = (inputs[k] % most).astype(inputs[k].dtype)
    names = ", ".join(f"%{n}" for n in "abce"[: len(types)])
    got = each(f"{instruction} %d, {names};", list(zip(types, inputs, strict=True)), output)
    bits = int(output[1:])
    for k in range(COUNT):
        arguments = [int(one[k]) for one in inputs]
        want = oracle(*arguments) & (1 << bits) - 1
        assert int(got[k]) == want, f"{instruction} of {arguments}: {int(got[k]):#x}, expected {want:#x}"


def divide(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


@pytest.mark.parametrize("type_", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_arithmetic(type_: str) -> None:
    bits = int(type_[1:])
    wide = f"{type_[0]}{2 * bits}"
    check(f"add.{type_}", [type_] * 2, type_, lambda a, b: a + b)
    check(f"sub.{type_}", [type_] * 2, type_, lambda a, b: a - b)
    check(f"mul.lo.{type_}", [type_] * 2, type_, lambda a, b: a * b)
    check(f"mul.hi.{type_}", [type_] * 2, type_, lambda a, b: a * b >> bits)
    check(f"mad.lo.{type_}", [type_] * 3, type_, lambda a, b, c: a * b + c)
    check(f"mad.hi.{type_}", [type_] * 3, type_, lambda a, b, c: (a * b >> bits) + c)
    if bits < 64:
        check(f"mul.wide.{type_}", [type_] * 2, wide, lambda a, b: a * b)
        check(f"mad.wide.{type_}", [type_, type_, wide], wide, lambda a, b, c: a * b + c)
    check(f"div.{type_}", [type_] * 2, type_, divide)
    check(f"rem.{type_}", [type_] * 2, type_, remainder)
    check(f"min.{type_}", [type_] * 2, type_, min)
    check(f"max.{type_}", [type_] * 2, type_, max)
    check(f"sad.{type_}", [type_] * 3, type_, lambda a, b, c: c + abs(a - b))
    if type_[0] == "s":
        check(f"abs.{type_}", [type_], type_, abs)
        check(f"neg.{type_}", [type_], type_, lambda a: -a)


def test_saturated() -> None:
    low, high = -(1 << 31), (1 << 31) - 1
    check("add.sat.s32", ["s32"] * 2, "s32", lambda a, b: min(max(a + b, low), high))
    check("sub.sat.s32", ["s32"] * 2, "s32", lambda a, b: min(max(a - b, low), high))
    check("mad.hi.sat.s32", ["s32"] * 3, "s32", lambda a, b, c: min(max((a * b >> 32) + c, low), high))


@pytest.mark.parametrize("type_", ["b16", "b32", "b64"])
def test_logic_and_shifts(type_: str) -> None:
    bits = int(type_[1:])
    unsigned, signed = f"u{bits}", f"s{bits}"
    check(f"and.{type_}", [unsigned] * 2, unsigned, lambda a, b: a & b)
    check(f"or.{type_}", [unsigned] * 2, unsigned, lambda a, b: a | b)
    check(f"xor.{type_}", [unsigned] * 2, unsigned, lambda a, b: a ^ b)
    check(f"not.{type_}", [unsigned], unsigned, lambda a: ~a)
    check(f"cnot.{type_}", [unsigned], unsigned, lambda a: int(a == 0))
    check(f"shl.{type_}", [unsigned, "u32"], unsigned, lambda a, b: a << min(b, 64))
    check(f"shr.{unsigned}", [unsigned, "u32"], unsigned, lambda a, b: a >> min(b, 64))
    check(f"shr.{signed}", [signed, "u32"], signed, lambda a, b: a >> min(b, 64))


def funnel(left: bool, clamp: bool) -> Callable[[int, int, int], int]:
    def one(a: int, b: int, c: int) -> int:
        n = min(c, 32) if clamp else c & 31
        return ((b << 32 | a) << n >> 32 if left else (b << 32 | a) >> n) & 0xFFFFFFFF

    return one


def test_funnel_shifts_and_tables() -> None:
    for side in "lr":
        for mode in ("wrap", "clamp"):
            check(f"shf.{side}.{mode}.b32", ["u32"] * 3, "u32", funnel(side == "l", mode == "clamp"), {2: 40})
    abc = [values("u32", k) for k in (1, 2, 3)]
    for table in (0xE8, 0x96, 0x1A, 0xFE, 0x00, 0xFF):
        got = each(f"lop3.b32 %d, %a, %b, %c, {table};", [("u32", one) for one in abc], "u32")
        for k in range(COUNT):
            a, b, c = (int(one[k]) for one in abc)
            want = sum((table >> ((a >> n & 1) * 4 + (b >> n & 1) * 2 + (c >> n & 1)) & 1) << n for n in range(32))
            assert got[k] == want


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_and_fields(bits: int) -> None:
    u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"
    mask = (1 << bits) - 1
    check(f"popc.{b}", [u], "u32", lambda a: bin(a).count("1"))
    check(f"clz.{b}", [u], "u32", lambda a: bits - a.bit_length())
    check(f"brev.{b}", [u], u, lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    check(f"bfind.{u}", [u], "u32", lambda a: a.bit_length() - 1)
    check(f"bfind.{s}", [s], "u32", lambda a: (~a if a < 0 else a).bit_length() - 1)
    check(f"bfind.shiftamt.{u}", [u], "u32", lambda a: bits - a.bit_length() if a else -1)

    def field(value: int, pos: int, length: int, signed: bool) -> int:
        pos, length = pos & 255, length & 255
        plain = value & mask
        sign = plain >> min(pos + length - 1, bits - 1) & 1 if signed and length else 0
        return sum((plain >> pos + k & 1 if k < length and pos + k < bits else sign) << k for k in range(bits))

    check(f"bfe.{u}", [u, "u32", "u32"], u, lambda a, p, n: field(a, p, n, False), {1: 70, 2: 70})
    check(f"bfe.{s}", [s, "u32", "u32"], s, lambda a, p, n: field(a, p, n, True), {1: 70, 2: 70})

    def insert(a: int, onto: int, pos: int, length: int) -> int:
        ones = ((1 << length) - 1 << pos) & mask
        return (onto & ~ones) | (a << pos & ones)

    check(f"bfi.{b}", [u, u, "u32", "u32"], u, insert, {2: 70, 3: 70})


def test_the_nth_set_bit() -> None:
    rows = [  # mask, base, n, result
        (0b101100, 2, 1, 2), (0b101100, 2, 2, 3), (0b101100, 2, 3, 5), (0b101100, 2, 4, -1),
        (0b101100, 5, -1, 5), (0b101100, 5, -3, 2), (0b101100, 5, -4, -1), (0b101100, 3, 0, 3), (0b101100, 4, 0, -1),
        (1 << 31, 31, -1, 31), (0xFFFFFFFF, 0, 32, 31), (0xFFFFFFFF, 0, -(1 << 31), -1),
        # PTX leaves a base above 31 undefined: the instruction ends at once, without a bit.
        (0xFFFFFFFF, 0xFFFFFFFF, -1, -1), (0xFFFFFFFF, 32, -1, -1), (0xFFFFFFFF, 32, 1, -1),
        (0xFFFFFFFF, 1 << 30, 0, -1),
    ]  # fmt: skip
    masks, bases, counts, results = zip(*rows, strict=True)
    inputs = [("u32", np.array(masks, np.uint32)), ("u32", np.array(bases, np.uint32))]
    positions = each("fns.b32 %d, %a, %b, %c;", [*inputs, ("s32", np.array(counts, np.int32))], "u32")
    assert positions.view(np.int32).tolist() == list(results)


def test_bytes_and_dots() -> None:
    def permute(a: int, b: int, c: int) -> int:
        both = (b << 32 | a).to_bytes(8, "little")
        out = []
        for n in range(4):
            nibble = c >> 4 * n & 15
            byte = both[nibble & 7]
            out.append((255 if byte & 128 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(out), "little")

    check("prmt.b32", ["u32"] * 3, "u32", permute)
    modes = {
        "f4e": ([0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]),
        "b4e": ([0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]),
        "rc8": ([0] * 4, [1] * 4, [2] * 4, [3] * 4),
        "ecl": ([0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]),
        "ecr": ([0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]),
        "rc16": ([0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]),
    }
    for mode, table in modes.items():

        def pick(a: int, b: int, c: int, chosen: tuple[list[int], ...] = table) -> int:
            both = (b << 32 | a).to_bytes(8, "little")
            return int.from_bytes(bytes(both[k] for k in chosen[c & 3]), "little")

        check(f"prmt.b32.{mode}", ["u32"] * 3, "u32", pick)

    def dot(a: int, b: int, c: int, left: str, right: str) -> int:
        return c + sum(number(a >> 8 * k, f"{left}8") * number(b >> 8 * k, f"{right}8") for k in range(4))

    for left in "us":
        for right in "us":
            check(f"dp4a.{left}32.{right}32", ["u32"] * 3, "u32", lambda a, b, c, p=left, q=right: dot(a, b, c, p, q))

    def pair(a: int, b: int, c: int) -> int:
        return c + sum(number(a >> 16 * k, "s16") * (b >> 8 * k & 255) for k in range(2))

    def upper(a: int, b: int, c: int) -> int:
        return c + sum((a >> 16 * k & 0xFFFF) * number(b >> 16 + 8 * k, "s8") for k in range(2))

    check("dp2a.lo.s32.u32", ["u32"] * 3, "u32", pair)
    check("dp2a.hi.u32.s32", ["u32"] * 3, "u32", upper)
    check("mul24.lo.u32", ["u32"] * 2, "u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
    check("mul24.hi.s32", ["s32"] * 2, "s32",
          lambda a, b: (number(a << 8, "s32") >> 8) * (number(b << 8, "s32") >> 8) >> 16)  # fmt: skip
    check("bmsk.clamp.b32", ["u32"] * 2, "u32", lambda a, b: ((1 << min(b, 64)) - 1) << min(a, 64))
    check(
        "szext.wrap.s32",
        ["u32"] * 2,
        "s32",
        lambda a, n: number(a << 32 - (n & 31), "s32") >> 32 - (n & 31) if n & 31 else 0,
    )


def test_carry_chains() -> None:
    """128-bit sums, differences and products out of 32-bit words."""
    a, b = values("u64", 1), values("u64", 2)
    unpack = "mov.b64 {%r0, %r1}, %a; mov.b64 {%r2, %r3}, %b;"
    inputs = [("u64", a), ("u64", b)]
    got = each(f"{unpack} add.cc.u32 %r0, %r0, %r2; addc.u32 %r1, %r1, %r3; mov.b64 %d, {{%r0, %r1}};", inputs, "u64")
    assert (got == a + b).all()
    got = each(f"{unpack} sub.cc.u32 %r0, %r0, %r2; subc.u32 %r1, %r1, %r3; mov.b64 %d, {{%r0, %r1}};", inputs, "u64")
    assert (got == a - b).all()
    text = "add.cc.u64 %q0, %a, %b; addc.u64 %d, 0, 0;"
    assert [int(v) for v in each(text, inputs, "u64")] == [int(x) + int(y) >> 64 for x, y in zip(a, b, strict=True)]
    text = (f"{unpack} mul.lo.u32 %r4, %r0, %r2; mul.hi.u32 %r5, %r0, %r2; mad.lo.cc.u32 %r5, %r0, %r3, %r5; "
            "madc.hi.u32 %r6, %r0, %r3, 0; mad.lo.cc.u32 %r5, %r1, %r2, %r5; mov.b64 %d, {%r4, %r5};")  # fmt: skip
    assert (each(text, inputs, "u64") == a * b).all()


@pytest.mark.parametrize("type_", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_comparisons(type_: str) -> None:
    a, b = values(type_, 1), values(type_, 2)
    b = np.where(np.arange(COUNT) % 3 == 0, a, b)
    names = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    if type_[0] == "u":
        names |= {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
    p = np.arange(COUNT) % 2 == 0
    inputs = [(type_, a), (type_, b), ("pred", p)]
    for name, compare in names.items():
        want = compare(a, b)
        assert (each(f"setp.{name}.{type_} %d, %a, %b;", inputs, "pred") == want).all()
        assert (each(f"setp.{name}.and.{type_} %d|%p1, %a, %b, %c;", inputs, "pred") == (want & p)).all()
        assert (each(f"setp.{name}.xor.{type_} %p1|%d, %a, %b, !%c;", inputs, "pred") == (~want ^ ~p)).all()
        assert (each(f"set.{name}.u32.{type_} %d, %a, %b;", inputs, "u32") == np.where(want, 0xFFFFFFFF, 0)).all()
        assert (
            each(f"set.{name}.or.f32.{type_} %d, %a, %b, %c;", inputs, "u32") == np.where(want | p, 0x3F800000, 0)
        ).all()
    assert (each(f"selp.{type_} %d, %a, %b, %c;", inputs, type_) == np.where(p, a, b).view(f"u{a.itemsize}")).all()
    assert (each(f"selp.{type_} %d, %a, %b, !%c;", inputs, type_) == np.where(p, b, a).view(f"u{a.itemsize}")).all()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), st.integers(0, 2**64 - 1))
@settings(max_examples=25, deadline=None)
def test_products_of_any_words(numbers: list[int], factor: int) -> None:
    a = np.array(numbers, np.uint64)
    b = np.full(len(numbers), factor, np.uint64)
    inputs = [("u64", a), ("u64", b)]
    assert [int(v) for v in each("mul.hi.u64 %d, %a, %b;", inputs, "u64")] == [n * factor >> 64 for n in numbers]
    signed = [number(n, "s64") * number(factor, "s64") >> 64 & 2**64 - 1 for n in numbers]
    assert [int(v) for v in each("mul.hi.s64 %d, %a, %b;", inputs, "u64")] == signed


def test_packed_halves_of_integers() -> None:
    a, b = values("u32", 1), values("u32", 2)
    inputs = [("u32", a), ("u32", b)]
    for name, ufunc in (("add", np.add), ("min", np.minimum), ("max", np.maximum)):
        for kind in "us":
            dtype = f"{'i' if kind == 's' else 'u'}2"
            got = each(f"{name}.{kind}16x2 %d, %a, %b;", inputs, "u32")
            assert (got.view(dtype) == ufunc(a.view(dtype), b.view(dtype))).all()


def test_video_instructions() -> None:
    a, b, c = (values("u32", seed) for seed in (1, 2, 3))
    inputs = [("u32", a), ("u32", b), ("u32", c)]
    bytes_a, bytes_b = (v.view("u1").reshape(-1, 4).astype(np.int64) for v in (a, b))
    halves_a, halves_b = (v.view("i2").reshape(-1, 2).astype(np.int64) for v in (a, b))

    def packed(parts: np.ndarray, size: int) -> np.ndarray:
        return np.ascontiguousarray(parts.astype(f"u{size}")).view("u4")[:, 0]

    got = each("vabsdiff4.u32.u32.u32 %d, %a, %b, %c;", inputs, "u32")
    assert (got == packed(np.abs(bytes_a - bytes_b), 1)).all()
    got = each("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", inputs, "u32")
    assert (got == (np.abs(bytes_a - bytes_b).sum(axis=1) + c).astype("u4")).all()
    got = each("vadd2.s32.s32.s32.sat %d, %a, %b, %c;", inputs, "u32")
    assert (got == packed(np.clip(halves_a + halves_b, -32768, 32767), 2)).all()
    got = each("vavrg4.u32.u32.u32 %d, %a, %b, %c;", inputs, "u32")
    assert (got == packed((bytes_a + bytes_b + 1) // 2, 1)).all()
    assert (each("vmax2.s32.s32.s32 %d, %a, %b, %c;", inputs, "u32") == packed(np.maximum(halves_a, halves_b), 2)).all()
