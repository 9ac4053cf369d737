"""Small PTX texts that several tests read."""

from __future__ import annotations

from pydispatch.formats.ptx.module import (
    Address,
    Arguments,
    Immediate,
    Not,
    Operand,
    PtxSymbol,
    Register,
    RegisterPair,
    Vector,
)

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, declarations: str = "") -> str:
    """A text with one kernel. Its body begins in line 8."""
    return (
        f"{HEAD}{declarations}\n.visible .entry k(.param .u64 p, .param .align 8 .b8 q[16])\n{{\n"
        f".reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<10>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<4>;\n"
        f"{body}\nret;\n}}\n"
    )


def registers(*names: str) -> tuple[Register, ...]:
    return tuple(map(Register, names))


OPERANDS: list[tuple[str, tuple[Operand | None, ...]]] = [
    ("mov.u32 %r1, 0x1F;", (Register("%r1"), Immediate(31))),
    ("mov.u32 %r1, 0b101U;", (Register("%r1"), Immediate(5))),
    ("mov.u32 %r1, 017;", (Register("%r1"), Immediate(15))),
    ("mov.u32 %r1, -12;", (Register("%r1"), Immediate(-12))),
    ("mov.u32 %r1, (3+4)*2 - 9/2;", (Register("%r1"), Immediate(10))),
    ("mov.u32 %r1, 5 > 3 ? 1 << 4 | 1 : 0;", (Register("%r1"), Immediate(17))),
    ("mov.u32 %r1, -7 / 2;", (Register("%r1"), Immediate(-3))),
    ("mov.u32 %r1, -7 % 2;", (Register("%r1"), Immediate(-1))),
    ("mov.u32 %r1, 10 - 3 - 2;", (Register("%r1"), Immediate(5))),
    ("mov.u32 %r1, WARP_SZ;", (Register("%r1"), Immediate(32))),
    ("mov.u32 %r1, WARP_SZ*2;", (Register("%r1"), Immediate(64))),
    ("mov.f32 %f1, 0f3FC00000;", (Register("%f1"), Immediate(1.5, 0x3FC00000))),
    ("mov.f64 %d1, 0d4000000000000000;", (Register("%d1"), Immediate(2.0, 0x4000000000000000))),
    ("mov.f32 %f1, -1.5e1;", (Register("%f1"), Immediate(-15.0))),
    ("mov.f32 %f1, .5;", (Register("%f1"), Immediate(0.5))),
    ("mov.u32 %r1, %tid.x;", registers("%r1", "%tid.x")),
    ("ld.global.u32 %r1, [%rd1];", (Register("%r1"), Address(Register("%rd1")))),
    ("ld.global.u32 %r1, [%rd1+0x10];", (Register("%r1"), Address(Register("%rd1"), 16))),
    ("ld.global.u32 %r1, [%rd1+-4];", (Register("%r1"), Address(Register("%rd1"), -4))),
    ("ld.global.u32 %r1, [words+8];", (Register("%r1"), Address(PtxSymbol("words"), 8))),
    ("ld.global.u32 %r1, words[3];", (Register("%r1"), Address(PtxSymbol("words"), 12))),
    ("ld.param.u32 %r1, [q+4];", (Register("%r1"), Address(PtxSymbol("q"), 4))),
    ("ld.local.u32 %r1, [64];", (Register("%r1"), Address(None, 64))),
    ("ld.local.u32 %r1, [WARP_SZ];", (Register("%r1"), Address(None, 32))),
    ("ld.local.u32 %r1, [WARP_SZ+4];", (Register("%r1"), Address(None, 36))),
    ("ld.local.u32 %r1, [WARP_SZ*2-4];", (Register("%r1"), Address(None, 60))),
    ("ld.global.u32 %r1, [words+WARP_SZ];", (Register("%r1"), Address(PtxSymbol("words"), 32))),
    ("mov.u64 %rd1, words+4;", (Register("%rd1"), PtxSymbol("words", 4))),
    ("mov.b64 {%r1, _}, %rd1;", (Vector((Register("%r1"), None)), Register("%rd1"))),
    ("st.global.v2.u32 [%rd1], {1, %r2};", (Address(Register("%rd1")), Vector((Immediate(1), Register("%r2"))))),
    ("atom.global.add.u32 _, [%rd1], 1;", (None, Address(Register("%rd1")), Immediate(1))),
    ("setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;",
     (RegisterPair(*registers("%p1", "%p2")), Register("%r1"), Immediate(5), Not(Register("%p3")))),
    ("setp.lt.s32 _|%p2, %r1, %r2;", (RegisterPair(None, Register("%p2")), *registers("%r1", "%r2"))),
    ("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;",
     (RegisterPair(*registers("%r1", "%p1")), Register("%r2"), Immediate(0), Immediate(31), Immediate(-1))),
    ("call.uni f, (%r1, 3);", (PtxSymbol("f"), Arguments((Register("%r1"), Immediate(3))))),
    ("call (%r1), g;", (Arguments(registers("%r1")), PtxSymbol("g"))),
    ("call (_), g;", (Arguments((None,)), PtxSymbol("g"))),
    ("vadd.s32.s32.s32 %r1, %r2.b0, %r3.h1;", registers("%r1", "%r2.b0", "%r3.h1")),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
     (Address(Register("%r1")), Arguments((Address(Register("%rd1")), Vector(registers("%r2", "%r3")))),
      Address(Register("%r4")))),
]  # fmt: skip
AROUND = ".global .u32 words[4]; .extern .func f(.reg .b32 a, .reg .b32 b); .extern .func (.reg .b32 r) g;"
