"""Memory of the interpreter: what it gives, and every access that it refuses, with its message."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from ptx_engine import Kernels, each, wrap

from pydispatch.errors import ArtifactError, InvalidArgumentError, KernelError, OutOfMemoryError
from pydispatch.runtime.simulators.ptx.machine import Machine
from pydispatch.runtime.simulators.ptx.memory import GlobalMemory

INDEX = ".reg .u32 %i, %r<8>; .reg .u64 %o, %p; .reg .pred %q<4>; mov.u32 %i, %tid.x;"
OUT = "ld.param.u64 %o, [out]; mad.wide.u32 %p, %i, 4, %o;"


def test_allocations() -> None:
    memory = GlobalMemory(limit=10_000)
    a, b = memory.allocate(100), memory.allocate(0)
    assert a % 256 == 0 and b % 256 == 0 and b - a > 100
    memory.write(a + 4, b"abcdef")
    assert memory.read(a + 2, 6) == b"\0\0abcd"
    memory.fill(a, b"\1\2", 3)
    assert bytes(memory.view(a, 8)) == b"\1\2\1\2\1\2ef"[:6] + b"cd"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    c = memory.adopt(array)
    memory.write(c + 4, np.array([7.5], np.float32))
    assert array[0, 1] == 7.5
    with pytest.raises(InvalidArgumentError, match=r"4 bytes at 0x\w+ lie in no allocation; it is 98 bytes into"):
        memory.read(a + 98, 4)
    with pytest.raises(InvalidArgumentError, match="C-contiguous"):
        memory.adopt(array.T)
    with pytest.raises(OutOfMemoryError, match="no memory for 20000 bytes: 100 of 10000 are in use"):
        memory.allocate(20_000)
    memory.free(a)
    with pytest.raises(InvalidArgumentError, match="it was freed: allocation of 100 bytes"):
        memory.free(a)
    assert memory.allocate(9_900)


def test_parameters_by_address() -> None:
    """Each launch has parameters of its own, also where a register has their address."""
    body = """.reg .u64 %o, %a, %g; .reg .u32 %r; ld.param.u64 %o, [out]; mov.b64 %a, n; ld.param.u32 %r, [%a];
      st.global.u32 [%o], %r; cvta.param.u64 %g, %a; ld.u32 %r, [%g]; st.global.u32 [%o+4], %r; ret;"""
    kernels = Kernels(wrap(body, params=".param .u64 out, .param .u32 n"))
    for n in (5, 6, 7):
        out = np.zeros(2, np.uint32)
        kernels("k", 1, 1, out, n)
        assert out.tolist() == [n, n]


def refused(body: str, *patterns: str, head: str = "", block: int = 64, size: int = 64) -> None:
    out = np.zeros(size, np.uint32)
    text = wrap(f"{INDEX}\n{OUT}\n{body}", head, ".param .u64 out")
    with pytest.raises(KernelError) as caught:
        Kernels(text, "refused.ptx")("k", 3, block, out)
    for pattern in ("kernel 'k': refused.ptx:9: '", *patterns):
        assert pattern in str(caught.value), str(caught.value)


def test_accesses_out_of_bounds() -> None:
    refused("st.global.u32 [%p], %i; ret;", "thread (10, 0, 0)", "block (0, 0, 0)", "writes 4 bytes at global 0x", 
            "nearest: 0 bytes past the end of the allocation of 40 bytes at 0x", size=10)  # fmt: skip
    refused("ld.global.u32 %r0, [%p+-4]; ret;", "thread (0, 0, 0)", "reads 4 bytes", "4 bytes before the allocation")
    refused(
        "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%p]; ret;",
        "misaligned address",
        "16 bytes need a multiple of 16",
        "thread (1, 0, 0)",
    )
    refused("add.u64 %p, %o, 158; ld.global.u32 %r0, [%p]; ret;", "misaligned address", "thread (0, 0, 0)")
    refused("add.u64 %p, %o, 160; ld.global.b64 %o, [%p+-4]; ret;", "misaligned address")
    refused("mov.u64 %p, 0; ld.u32 %r0, [%p]; ret;", "reads 4 bytes at 0x0")
    refused("cvt.u32.u64 %r0, %p; cvt.u64.u32 %p, %r0; ld.u32 %r0, [%p]; ret;", "reads 4 bytes at 0x")
    refused(
        "setp.eq.u32 %q0, %i, 5; @%q0 add.u64 %p, %p, 4096; @%q0 ld.global.u32 %r0, [%p]; ret;",
        "thread (5, 0, 0)",
        "nearest: ",
    )
    refused("atom.global.add.u32 %r0, [%p], 1; ret;", "thread (10, 0, 0)", "writes 4 bytes", size=10)


def test_shared_local_and_constant_memory() -> None:
    head = ".shared .align 4 .b32 s[32]; .const .align 4 .b32 c[2] = {5, 6};"
    refused("mad.lo.u32 %r0, %i, 4, 0; st.shared.u32 [%r0], 1; "
        "ret;", "thread (32, 0, 0)", "writes 4 bytes at shared 0x80",
            "the block has 128 bytes of shared memory, 0 of them given at launch", head=head)  # fmt: skip
    refused("mov.u64 %p, s; cvta.shared.u64 %p, %p; st.u32 [%p+128], 1; ret;", "shared 0x80", head=head)
    refused("ld.shared.u32 %r0, [s+2]; ret;", "misaligned address 0x2", head=head)
    refused(
        ".local .b32 l[4]; mov.u64 %p, l; ld.local.u32 %r0, [%p+16]; ret;", "at local 0x10", "the thread has 16 bytes"
    )
    refused(
        "mov.u64 %p, c; ld.const.u32 %r0, [%p+8]; ret;",
        "0 bytes past the end of the variable 'c' of 8 bytes",
        head=head,
    )
    refused("mov.u64 %p, c; st.u32 [%p], 1; ret;", "it can only be read: variable 'c'", head=head)


def test_freed_and_read_only_memory() -> None:
    kernels = Kernels(wrap(f"{INDEX}\n{OUT}\nst.global.u32 [%p], %i; ret;", params=".param .u64 out"))
    memory, kernel = kernels.machine.memory, kernels.loaded.entry("k")
    address = memory.allocate(256)
    arguments = struct.pack("<Q", address)
    kernels.machine.launch(kernel, (1, 1, 1), (64, 1, 1), arguments)
    assert memory.read(address + 8, 4) == b"\2\0\0\0"
    memory.free(address)
    with pytest.raises(KernelError, match="it was freed: allocation of 256 bytes"):
        kernels.machine.launch(kernel, (1, 1, 1), (64, 1, 1), arguments)
    fixed = np.zeros(64, np.uint32)
    fixed.flags.writeable = False
    with pytest.raises(KernelError, match="it can only be read"):
        kernels("k", 1, 64, fixed)
    # The machine lives on.
    out = np.zeros(64, np.uint32)
    kernels("k", 1, 64, out)
    assert (out == np.arange(64)).all()


def test_threads_of_several_allocations_and_spaces() -> None:
    """One generic load: a third of the threads each reads global, shared and local memory."""
    body = f"""{INDEX} .shared .align 4 .b32 s[96]; .local .align 4 .b32 l[2]; .reg .u64 %a<4>; .reg .u32 %m;
      ld.param.u64 %o, [out]; mad.wide.u32 %o, %i, 4, %o; ld.param.u64 %a0, [x]; mad.wide.u32 %a0, %i, 4, %a0;
      mad.lo.u32 %r0, %i, 4, 0; add.u32 %r1, %i, 1000; st.shared.u32 [%r0], %r1; cvt.u64.u32 %a1, %r0;
      cvta.shared.u64 %a1, %a1;
      mov.u64 %a2, l; add.u64 %a2, %a2, 4; add.u32 %r1, %i, 2000; st.local.u32 [%a2], %r1; cvta.local.u64 %a2, %a2;
      ld.param.u64 %a3, [y]; rem.u32 %m, %i, 4;
      setp.eq.u32 %q0, %m, 1; @%q0 mov.u64 %a0, %a1; setp.eq.u32 %q0, %m, 2; @%q0 mov.u64 %a0, %a2;
      setp.eq.u32 %q0, %m, 3; @%q0 mov.u64 %a0, %a3;
      ld.u32 %r2, [%a0]; st.u32 [%o], %r2; add.u32 %r2, %r2, 1; st.u32 [%a0], %r2; ld.u32 %r3, [%a0];
      st.u32 [%o+384], %r3; ret;"""
    x, y, out = np.arange(96, dtype=np.uint32), np.array([77], np.uint32), np.zeros(192, np.uint32)
    Kernels(wrap(body, params=".param .u64 out, .param .u64 x, .param .u64 y"))("k", 1, 96, out, x, y)
    i = np.arange(96)
    want = np.choose(i % 4, [i, i + 1000, i + 2000, i * 0 + 77])
    assert (out[:96] == want).all() and (out[96:] == want + 1).all()
    assert (x == np.where(i % 4 == 0, i + 1, i)).all() and y[0] == 78


def test_types_and_vectors() -> None:
    data = np.random.default_rng(0).integers(0, 256, 64 * 16).astype(np.uint8)
    out = np.zeros((64, 10), np.uint64)
    body = f"""{INDEX} .reg .b64 %x<4>; .reg .b16 %h<8>; .reg .b32 %w<4>;
      ld.param.u64 %o, [out]; mad.wide.u32 %o, %i, 80, %o; ld.param.u64 %p, [data]; mad.wide.u32 %p, %i, 16, %p;
      ld.global.s8 %x0, [%p+3]; st.global.b64 [%o], %x0; ld.global.u8 %x0, [%p+3]; st.global.b64 [%o+8], %x0;
      ld.global.nc.L1::no_allocate.s16 %w0, [%p+6]; cvt.s64.s32 %x0, %w0; st.global.b64 [%o+16], %x0;
      ld.volatile.global.v2.u64 {{%x0, %x1}}, [%p]; st.global.v2.b64 [%o+32], {{%x1, %x0}};
      ld.global.v4.u8 {{%h0, _, %h2, %h3}}, [%p+4]; st.global.v2.b8 [%o+48], {{%h3, %h2}}; st.global.u8 [%o+50], %h0;
      ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%p]; st.global.wt.v2.f32 [%o+56], {{%w3, %w0}};
      ld.global.ca.s32 %x0, [%p]; st.global.cs.b64 [%o+64], %x0; st.global.b16 [%o+72], %w2; ret;"""
    Kernels(wrap(body, params=".param .u64 out, .param .u64 data"))("k", 1, 64, out, data)
    rows = data.reshape(64, 16)
    assert (out[:, 0].view("i8") == rows[:, 3].view("i1")).all() and (out[:, 1] == rows[:, 3]).all()
    assert (out[:, 2].view("i8") == rows[:, 6:8].copy().view("i2")[:, 0]).all()
    words = rows.copy().view("u8")
    assert (out[:, 4] == words[:, 1]).all() and (out[:, 5] == words[:, 0]).all()
    raw = out.view("u1").reshape(64, 80)
    assert (raw[:, 48:51] == rows[:, [7, 6, 4]]).all() and (raw[:, 51:56] == 0).all()
    assert (raw[:, 56:64] == rows[:, [12, 13, 14, 15, 0, 1, 2, 3]]).all()
    assert (out[:, 8].view("i8") == rows[:, :4].copy().view("i4")[:, 0]).all()
    assert (raw[:, 72:74] == rows[:, 8:10]).all()


def test_variables() -> None:
    head = """.global .align 8 .b64 pointers[3] = {words, words+4, f}; .global .align 4 .u32 words[3] = {11, 22};
      .const .align 4 .f32 scale = 0f40200000; .global .align 1 .b8 text[4] = {104, 105, 33};
      .func (.param .b32 r) f (.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 1;
      st.param.b32 [r], %x; ret; }
      .shared .align 4 .b32 fixed[4]; .extern .shared .align 16 .b8 dynamic[];"""
    body = f"""{INDEX} {OUT} .reg .b64 %a<4>; .reg .f32 %f;
      mov.u64 %a0, pointers; ld.global.u64 %a1, [%a0+8]; ld.u32 %r0, [%a1]; ld.const.f32 %f, [scale];
      cvt.rzi.u32.f32 %r1, %f;
      ld.global.u8 %r2, [text+1]; ld.global.u64 %a2, [%a0+16];
      {{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r0; call (q), %a2, (p), proto; ld.param.b32 %r0, [q]; }}
      proto: .callprototype (.param .b32 _) _ (.param .b32 _);
      mov.u32 %r3, dynamic; mad.lo.u32 %r3, %i, 4, %r3; mov.u32 %r4, %dynamic_smem_size; st.shared.u32 [%r3], %r4;
      ld.shared.u32 %r4, [%r3];
      mad.lo.u32 %r0, %r0, 1000, %r1; mad.lo.u32 %r0, %r0, 1000, %r2; add.u32 %r0, %r0, %r4;
      st.global.u32 [%p], %r0; ret;"""
    kernels = Kernels(wrap(body, head, ".param .u64 out"))
    out = np.zeros(64, np.uint32)
    kernels("k", 1, 64, out, shared=256)
    assert (out == (23 * 1000 + 2) * 1000 + 105 + 256).all()
    assert kernels.loaded.entry("k").static_shared_bytes == 16
    assert kernels.loaded.variable("words")[1] == 12
    with pytest.raises(InvalidArgumentError, match="no variable 'nothing'; it has: pointers, words"):
        kernels.loaded.variable("nothing")
    with pytest.raises(InvalidArgumentError, match="no entry 'nothing'; it has: k"):
        kernels.loaded.entry("nothing")
    with pytest.raises(ArtifactError, match="'missing' is defined nowhere"):
        Machine().load(wrap("ret;", ".extern .global .align 4 .u32 missing;"), "m.ptx")


def test_calls_of_functions_that_are_declared_only() -> None:
    declared = ".extern .func (.param .b64 r) malloc (.param .b64 bytes);"
    call = """{ .param .b64 a; .param .b64 r; st.param.b64 [a], 8;
      call.uni (r), malloc, (a); } ret;"""
    with pytest.raises(ArtifactError, match=r"m.ptx:\d+: .* calls 'malloc', which is defined nowhere"):
        Machine().load(wrap(call, declared), "m.ptx")
    Machine().load(wrap("ret;", declared), "m.ptx")


PRINT = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"


@pytest.mark.parametrize("space", ["local", "shared", "global"])
def test_printed_values_come_from_any_memory(space: str, capsys: pytest.CaptureFixture[str]) -> None:
    head = f"""{PRINT} .global .align 1 .b8 text[7] = {{37, 100, 32, 37, 100, 59, 0}};
      .global .align 8 .b32 global[6]; """
    own = "mad.wide.u32 %a, %i, 8, %a;" if space != "local" else ""
    body = f"""{INDEX} {OUT} .local .align 8 .b32 local[2]; .shared .align 8 .b32 shared[6]; .reg .u64 %a, %t;
      mov.u64 %a, {space}; cvta.{space}.u64 %a, %a; {own} mul.lo.u32 %r0, %i, 7; add.u32 %r1, %i, 100;
      st.v2.u32 [%a], {{%r0, %r1}}; mov.u64 %t, text;
      {{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %t; st.param.b64 [q], %a;
        call.uni (r), vprintf, (p, q); }} ret;"""
    Kernels(wrap(body, head, ".param .u64 out"))("k", 1, 3, np.zeros(3, np.uint32))
    assert capsys.readouterr().out == "0 100;7 101;14 102;"


@pytest.mark.parametrize("text", ["%f;", "%ld;"])
def test_printed_values_are_not_of_another_block(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that is larger than the shared memory of its block is 0."""
    head = f"{PRINT} .global .align 1 .b8 text[{len(text) + 1}] = {{{', '.join(map(str, text.encode()))}, 0}};"
    body = f"""{INDEX} .shared .align 8 .b32 shared[1]; .reg .u64 %a, %t; mov.u64 %a, shared; cvta.shared.u64 %a, %a;
      mov.u32 %r0, 7; st.u32 [%a], %r0; mov.u64 %t, text;
      {{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %t; st.param.b64 [q], %a;
        call.uni (r), vprintf, (p, q); }} ret;"""
    Kernels(wrap(body, head))("k", 2, 1)
    assert capsys.readouterr().out == (text.replace("ld", "d") % 0) * 2


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("%A", 1.5, "1.5"),
        ("%8.2a|", 0.25, "    0.25|"),
        ("%G", 1e-9, "1E-09"),
        ("%c%%", -56, "\u00c8%"),
        ("%*d|", (5, 42), "   42|"),
        ("%-*d|", (5, 42), "42   |"),
        ("%.*u", (3, 7), "007"),
        ("%u", -1, "4294967295"),
        ("%lli", -(2**40), "-1099511627776"),
    ],
)
def test_conversions_of_printf(
    text: str, value: float | tuple[int, ...], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = value if isinstance(value, tuple) else (value,)
    code = "d" if isinstance(value, float) else "q" if "ll" in text else "i"
    data = struct.pack(f"<{len(arguments)}{code}", *arguments)
    head = f"""{PRINT} .global .align 1 .b8 text[{len(text) + 1}] = {{{", ".join(map(str, text.encode()))}, 0}};
      .global .align 8 .b8 values[{len(data)}] = {{{", ".join(map(str, data))}}};"""
    body = """.reg .u64 %a, %t; mov.u64 %t, text; mov.u64 %a, values;
      { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %t; st.param.b64 [q], %a;
        call.uni (r), vprintf, (p, q); } ret;"""
    Kernels(wrap(body, head))("k", 1, 1)
    assert capsys.readouterr().out == printed


def test_hints_change_nothing() -> None:
    body = f"""{INDEX} {OUT} .reg .b64 %c; createpolicy.fractional.L2::evict_last.b64 %c, 0f3F800000;
      prefetch.global.L2 [%p]; st.global.u32 [%p], %i; membar.cta; fence.acq_rel.cta; nanosleep.u32 20;
      ld.global.L2::cache_hint.u32 %r0, [%p], %c; add.u32 %r0, %r0, 1; membar.gl; st.global.u32 [%p], %r0; ret;"""
    out = np.zeros(64, np.uint32)
    Kernels(wrap(body, params=".param .u64 out"))("k", 1, 64, out)
    assert np.array_equal(out, np.arange(1, 65))


PARAM = ".param .align 16 .b8 p[24]; "


def test_parts_of_param_variables() -> None:
    """Vectors at offsets; bytes that nothing is written to keep their values."""
    body = f"""{INDEX} {OUT} .reg .u32 %a<8>; {{ {PARAM}
      mov.u32 %a0, 1; mov.u32 %a1, 2; mov.u32 %a2, 3; mov.u32 %a3, 4;
      st.param.v4.b32 [p], {{%a0, %a1, %a2, %a3}};
      st.param.v2.b32 [p+16], {{%a3, %i}}; st.param.b32 [p+4], %a3;
      ld.param.v2.b32 {{%r0, %r1}}, [p]; ld.param.b32 %r2, [p+20]; ld.param.v4.b32 {{%a4, %a5, %a6, %a7}}, [p]; }}
      mad.lo.u32 %r0, %r0, 10, %r1; mad.lo.u32 %r0, %r0, 10, %a6; mad.lo.u32 %r0, %r0, 10, %a7;
      mad.lo.u32 %r0, %r2, 10000, %r0; st.global.u32 [%p], %r0; ret;"""
    out = np.zeros(64, np.uint32)
    Kernels(wrap(body, params=".param .u64 out"))("k", 1, 64, out)
    assert np.array_equal(out, 1434 + 10000 * np.arange(64))


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("st.param.b32 [p+24], %r0", "leaves 'p', which has 24 bytes"),
        ("st.param.b32 [p+21], %r0", "leaves 'p', which has 24 bytes"),
        ("st.param.b32 [p+-4], %r0", "leaves 'p', which has 24 bytes"),
        ("st.param.v2.b32 [p+20], {%r0, %r1}", "leaves 'p', which has 24 bytes"),
        ("ld.param.b32 %r0, [p+24]", "leaves 'p', which has 24 bytes"),
        ("ld.param.b32 %r0, [p+-4]", "leaves 'p', which has 24 bytes"),
        ("ld.param.v2.b32 {%r0, %r1}, [p+20]", "leaves 'p', which has 24 bytes"),
        ("ld.param.b32 %r0, [s]", "names 's', no parameter of this function"),
        ("st.param.b32 [s], %r0", r"names no \.param variable of this function"),
        ("ld.param [p], %r0", "has no type that is known"),
        ("ld %r0, [%p]", "has no type that is known"),
        ("ld.global.weird.b32 %r0, [%p]", r"has '\.weird', which is not simulated"),
    ],
)
def test_accesses_that_cannot_be(access: str, message: str) -> None:
    text = wrap(f"{INDEX} {OUT} .shared .b32 s; {{ {PARAM} {access}; }} ret;", params=".param .u64 out")
    with pytest.raises(ArtifactError, match=message):
        Kernels(text)("k", 1, 32, np.zeros(32, np.uint32))


@pytest.mark.parametrize(
    ("grid", "block", "params", "options", "why"),
    [
        ((1, 1, 1), (1025, 1, 1), b"\0" * 8, {}, "1025 threads, 1024 is the most"),
        ((1, 0, 1), (1, 1, 1), b"\0" * 8, {}, "sizes are 1 or more"),
        ((1, 1, 1), (64, 1, 1), b"\0" * 12, {}, "expected 8 bytes of parameters, got 12"),
        ((1, 1, 1), (64, 1, 1), b"\0" * 8, {"dynamic_shared": 1 << 20}, "of shared memory, 232448 is the most"),
    ],
)
def test_launches_that_cannot_be(grid: object, block: object, params: bytes, options: dict[str, int], why: str) -> None:
    kernels = Kernels(wrap("ret;", params=".param .u64 out"))
    with pytest.raises(InvalidArgumentError, match=why):
        kernels.machine.launch(kernels.loaded.entry("k"), grid, block, params, **options)  # type: ignore[arg-type]


def test_block_sizes_that_the_code_states() -> None:
    text = wrap("ret;").replace("()\n{", "() .reqntid 32, 2\n{")
    kernels = Kernels(text)
    kernels("k", 1, (32, 2))
    with pytest.raises(InvalidArgumentError, match=r"\.reqntid \(32, 2.*launched with block \(64, 1, 1\)"):
        kernels("k", 1, 64)
    with pytest.raises(InvalidArgumentError, match=r"\.maxntid \(64"):
        Kernels(wrap("ret;").replace("()\n{", "() .maxntid 64\n{"))("k", 1, 65)


@pytest.mark.parametrize(("waits", "expected"), [
    ("", (0, 0)), ("cp.async.wait_group 2;", (0, 0)), ("cp.async.wait_group 1;", (1, 0)),
    ("cp.async.wait_group 0;", (1, 2)), ("cp.async.wait_all;", (1, 2)),
    ("setp.eq.u32 %p1, %i, 1; @%p1 bra W; bra E; W: cp.async.wait_group 0; E:", None),
])  # fmt: skip
def test_asynchronous_copies_are_visible_after_their_group_was_waited_for(
    waits: str, expected: tuple[int, int] | None
) -> None:
    """Each thread copies a word in a group of its own, then another in a second group, and adds up what it sees."""
    copies = """.shared .align 16 .b32 first[4]; .shared .align 16 .b32 second[4];
        mul.lo.u32 %r5, %i, 4; mov.u32 %r1, first; add.u32 %r1, %r1, %r5; mov.u32 %r2, second; add.u32 %r2, %r2, %r5;
        mov.u32 %r3, 0; st.shared.u32 [%r1], %r3; st.shared.u32 [%r2], %r3;
        ld.param.u64 %q1, [in_a]; mad.wide.u32 %q1, %i, 4, %q1; ld.param.u64 %q2, [in_b]; mad.wide.u32 %q2, %i, 4, %q2;
        cp.async.ca.shared.global [%r1], [%q1], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r2], [%q2], 4; cp.async.commit_group;"""
    ones, twos = np.full(4, 1, np.uint32), np.full(4, 2, np.uint32)
    seen = f"{copies}\n{waits}\nld.shared.u32 %r1, [%r1]; ld.shared.u32 %r2, [%r2]; mad.lo.u32 %d, %r2, 16, %r1;"
    sums = each(seen, [("u32", ones), ("u32", twos)], "u32", block=4)
    if expected is None:  # only thread 1 waits
        np.testing.assert_array_equal(sums, [0, 33, 0, 0])
    else:
        np.testing.assert_array_equal(sums, np.full(4, expected[0] + 16 * expected[1]))


def test_a_wait_without_a_number_of_groups() -> None:
    with pytest.raises(ArtifactError, match=r"cp\.async\.wait_group"):
        each("cp.async.wait_group %i; mov.u32 %d, 0;", [("u32", np.zeros(1, np.uint32))], "u32")
