"""Control flow: guards, barriers, warps that part and meet, and what the interpreter says when threads get stuck."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_engine import Kernels, each, wrap

from pydispatch.errors import ArtifactError, KernelError
from pydispatch.runtime.simulators.ptx.registry import HANDLERS

INDEX = ".reg .u32 %i, %r<8>; .reg .u64 %o, %p; .reg .pred %q<4>; mov.u32 %i, %tid.x;"
OUT = "ld.param.u64 %o, [out]; mad.wide.u32 %p, %i, 4, %o;"


def run(body: str, block: int = 64, grid: int = 1, head: str = "", **options: object) -> np.ndarray:
    """What a kernel with one parameter `out` leaves: one u32 per thread, of the last block that writes."""
    out = np.zeros(block, np.uint32)
    Kernels(wrap(f"{INDEX}\n{OUT}\n{body}", head, ".param .u64 out"))("k", grid, block, out, **options)
    return out


def test_guards() -> None:
    a = np.arange(300, dtype=np.uint32)
    text = "mov.u32 %d, 7; setp.lt.u32 %p0, %a, 100; @%p0 add.u32 %d, %d, %a; @!%p0 mul.lo.u32 %d, %a, %a;"
    assert (each(text, [("b32", a)], "b32") == np.where(a < 100, a + 7, a * a)).all()
    text = (
        "mov.b64 %q0, 5; setp.lt.u32 %p0, %a, 10; @%p0 mov.b64 {%r0, %r1}, %q0; @!%p0 mov.u32 %r0, %a; mov.u32 %d, %r0;"
    )
    assert (each(text, [("b32", a)], "b32") == np.where(a < 10, 5, a)).all()
    # A guarded load does not look at the addresses of the others.
    text = "mov.u32 %d, 1; setp.lt.u32 %p0, %a, 10; mov.u64 %q0, 0; @%p0 ld.param.u64 %q0, [out]; "
    text += "@%p0 ld.global.u32 %d, [%q0];"
    assert (each(text, [("b32", a)], "b32") == np.where(a < 10, 0, 1)).all()
    # A register that a guard leaves alone keeps its value over a loop.
    text = "mov.u32 %d, 0; mov.u32 %r0, 0; L: and.b32 %r1, %a, 7; setp.eq.u32 %p0, %r1, %r0; @%p0 mov.u32 %d, %r0; "
    text += "add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 8; @%p1 bra L;"
    assert (each(text, [("b32", a)], "b32") == a % 8).all()


def test_guarded_ends() -> None:
    body = "setp.gt.u32 %q0, %i, 20; @%q0 ret; st.global.u32 [%p], 5; setp.gt.u32 %q1, %i, 10; @!%q1 exit; "
    body += "st.global.u32 [%p], 6; ret;"
    got = run(body)
    assert (got == np.select([np.arange(64) <= 10, np.arange(64) <= 20], [5, 6], 0)).all()


def test_nested_branches_and_loops() -> None:
    body = """
      mov.u32 %r0, 0; mov.u32 %r1, 0;
    outer:
      and.b32 %r2, %i, 3; setp.ge.u32 %q0, %r1, %r2; @%q0 bra done;
      mov.u32 %r3, 0;
    inner:
      and.b32 %r4, %r3, 1; setp.eq.u32 %q1, %r4, 0; @%q1 bra even;
      add.u32 %r0, %r0, 100; bra joined;
    even:
      add.u32 %r0, %r0, %r1;
    joined:
      add.u32 %r3, %r3, 1; setp.lt.u32 %q2, %r3, %i; @%q2 bra inner;
      add.u32 %r1, %r1, 1; bra outer;
    done:
      st.global.u32 [%p], %r0; ret;"""
    want = []
    for i in range(64):
        total = 0
        for k in range(i & 3):
            for n in range(max(i, 1)):
                total += 100 if n & 1 else k
        want.append(total)
    assert [int(v) for v in run(body)] == want


def test_barriers_with_numbers_and_counts() -> None:
    """Two warps produce, two consume, in turns, through bar.arrive and bar.sync."""
    head = ".shared .align 4 .b32 s[64];"
    body = """
      mov.u32 %r7, 0; mov.u32 %r0, 0; setp.lt.u32 %q0, %i, 64; mov.u32 %r5, s; and.b32 %r6, %i, 63;
      mad.lo.u32 %r5, %r6, 4, %r5;
      @!%q0 bra consume;
    produce:
      add.u32 %r1, %i, %r0; st.shared.u32 [%r5], %r1;
      bar.arrive 1, 128; bar.sync 2, 128;
      add.u32 %r0, %r0, 1; setp.lt.u32 %q1, %r0, 5; @%q1 bra produce; ret;
    consume:
      bar.sync 1, 128; ld.shared.u32 %r1, [%r5]; add.u32 %r7, %r7, %r1; bar.arrive 2, 128;
      add.u32 %r0, %r0, 1; setp.lt.u32 %q1, %r0, 5; @%q1 bra consume;
      st.global.u32 [%p], %r7; ret;"""
    got = run(body, 128, grid=3, head=head)
    assert (got[64:] == 5 * np.arange(64) + 10).all()


def test_barriers_that_count() -> None:
    body = "and.b32 %r0, %i, 3; setp.eq.u32 %q0, %r0, 1; bar.red.popc.u32 %r1, 0, %q0; bar.red.or.pred %q1, 0, !%q0;"
    body += "bar.red.and.pred %q2, 0, %q0; selp.u32 %r2, 1000, 0, %q1; selp.u32 %r3, 5000, 0, %q2;"
    body += "add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%p], %r1; ret;"
    assert (run(body, grid=2) == 1016).all()


def test_blocks_that_reduce_differently_at_once() -> None:
    """One block counts, the other one combines: the barriers of both open in the same step of the scheduler."""
    body = """
      mov.u32 %r4, %ctaid.x; setp.eq.u32 %q0, %r4, 0; setp.lt.u32 %q1, %i, 7; @%q0 bra counting;
      bar.red.and.pred %q2, 0, %q1; selp.u32 %r1, 1, 2, %q2; bra joined;
    counting:
      bar.red.popc.u32 %r1, 0, %q1;
    joined:
      shr.u32 %r5, %i, 5; setp.eq.u32 %q3, %r4, %r5; @%q3 st.global.u32 [%p], %r1; ret;"""
    assert (run(body, grid=2) == np.where(np.arange(64) < 32, 7, 2)).all()


def test_threads_that_have_ended_are_not_waited_for() -> None:
    body = "setp.gt.u32 %q0, %i, 40; @%q0 ret; bar.sync 0; mov.u32 %r0, %i; st.global.u32 [%p], %r0; bar.sync 0; ret;"
    assert (run(body, grid=40) == np.where(np.arange(64) <= 40, np.arange(64), 0)).all()


def test_lanes_meet_where_they_part_ways() -> None:
    """Halves of a warp come to the same shuffle at different times; each side of a branch has its own."""
    body = """
      and.b32 %r0, %i, 1; setp.eq.u32 %q0, %r0, 1; @%q0 bra odd;
      mov.u32 %r1, 10; shfl.sync.idx.b32 %r2, %i, 2, 31, 0x55555555; bra joined;
    odd:
      mov.u32 %r1, 20; shfl.sync.idx.b32 %r2, %i, 3, 31, 0xaaaaaaaa;
    joined:
      add.u32 %r1, %r1, %r2; shfl.sync.bfly.b32 %r3|%q1, %r1, 1, 31, -1; st.global.u32 [%p], %r3; ret;"""
    i = np.arange(64)
    base = i // 32 * 32
    own = np.where(i % 2, 20 + base + 3, 10 + base + 2)
    assert (run(body) == own[i ^ 1]).all()


def test_lanes_that_come_later_from_below() -> None:
    body = """
      and.b32 %r0, %i, 3; setp.eq.u32 %q0, %r0, 1; setp.eq.u32 %q1, %r0, 2; @%q0 bra late; @%q1 bra later;
      mov.u32 %r1, 10;
    meet:
      shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; st.global.u32 [%p], %r2; ret;
    late:
      mov.u32 %r1, 20; bra meet;
    later:
      mov.u32 %r1, 30; bra meet;"""
    assert (run(body) == np.tile([20, 10, 10, 30], 16)).all()


def test_lanes_that_exit_free_warps_at_consecutive_shuffles() -> None:
    """The low lanes of two warps wait at two shuffles; when the others exit, warp 0 comes to that of warp 1."""
    body = """
      and.b32 %r0, %i, 31; setp.ge.u32 %q0, %r0, 16; @%q0 bra end; mov.u32 %r1, %i;
      setp.ge.u32 %q1, %i, 32; @%q1 bra second;
      shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;
    second:
      shfl.sync.bfly.b32 %r1, %r1, 2, 31, -1; st.global.u32 [%p], %r1;
    end:
      ret;"""
    i = np.arange(64)
    assert (run(body) == np.where(i % 32 < 16, np.where(i < 32, i ^ 3, i ^ 2), 0)).all()


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(mode: str, width: int) -> None:
    a = np.random.default_rng(0).integers(0, 1 << 32, 128).astype(np.uint32)
    by = np.random.default_rng(1).integers(0, 32, 128).astype(np.uint32)
    limit = 0 if mode == "up" else 31
    c = (32 - width) << 8 | limit
    inputs = [("b32", a), ("b32", by)]
    got = each(f"shfl.sync.{mode}.b32 %d, %a, %b, {c}, -1;", inputs, "b32")
    inside = each(f"shfl.sync.{mode}.b32 %r0|%d, %a, %b, {c}, -1;", inputs, "pred")
    for t in range(128):
        lane, n = t % 32, int(by[t])
        segment = 32 - width
        top = (lane & segment) | (limit & ~segment & 31)
        j = {"up": lane - n, "down": lane + n, "bfly": lane ^ n, "idx": (lane & segment) | (n & ~segment & 31)}[mode]
        ok = j >= top if mode == "up" else j <= top
        assert got[t] == a[t - lane + (j if ok else lane)] and inside[t] == ok


def test_guarded_shuffles_skip_themselves_alone() -> None:
    body = "mov.u32 %r1, 5; setp.lt.u32 %q0, %i, 32; @%q0 shfl.sync.idx.b32 %r1, %i, 3, 31, -1; add.u32 %r1, %r1, 100;"
    body += "setp.eq.u32 %q1, %i, 40; @%q1 bar.warp.sync 0x100; st.global.u32 [%p], %r1; ret;"
    assert (run(body) == np.where(np.arange(64) < 32, 103, 105)).all()


@pytest.mark.parametrize("wait", ["test_wait.shared.b64 %q1, [b], %o;", "try_wait.parity.shared.b64 %q1, [b], %r7;"])
def test_barriers_in_shared_memory(wait: str) -> None:
    """Three phases: each thread reads what its neighbour wrote."""
    head = ".shared .align 8 .b64 b; .shared .align 4 .b32 s[64];"
    body = f"""
      setp.eq.u32 %q0, %i, 0; @%q0 mbarrier.init.shared.b64 [b], 64; bar.sync 0; mov.u32 %r7, 0; mov.u32 %r0, %i;
      mov.u32 %r5, s; mad.lo.u32 %r5, %i, 4, %r5; xor.b32 %r6, %r5, 4;
    again:
      st.shared.u32 [%r5], %r0; mbarrier.arrive.shared.b64 %o, [b];
    spin:
      mbarrier.{wait} @!%q1 bra spin;
      ld.shared.u32 %r0, [%r6]; add.u32 %r0, %r0, 100;
      mbarrier.arrive.shared::cta.b64 %o, [b], 1; xor.b32 %r7, %r7, 1;
    spin2:
      mbarrier.{wait} @!%q1 bra spin2;
      xor.b32 %r7, %r7, 1; setp.lt.u32 %q2, %r0, 300; @%q2 bra again;
      st.global.u32 [%p], %r0; ret;"""
    text = wrap(f"{INDEX}\n{OUT}\n{body}", head, ".param .u64 out")
    for races in (False, True):
        out = np.zeros(64, np.uint32)
        Kernels(text, races=races)("k", 1, 64, out)
        assert (out == (np.arange(64) ^ 1) + 300).all()


def test_calls_end_where_they_may() -> None:
    """Warps leave a function at different times: by ret before a barrier of the others, by exit, and behind it."""
    head = """.func (.param .b32 b) f (.param .b32 a) { .reg .u32 %x; .reg .pred %q<3>; ld.param.u32 %x, [a];
      setp.ge.u32 %q0, %x, 96; @%q0 exit; setp.lt.u32 %q1, %x, 32; @%q1 bra L; bar.sync 0; st.param.b32 [b], 1; ret;
    L: add.u32 %x, %x, 1000; st.param.b32 [b], %x; ret; }""".replace("\n", " ")
    body = """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %i; call (b), f, (a); ld.param.b32 %r0, [b]; }
      setp.lt.u32 %q0, %i, 32; @!%q0 bra E; bar.sync 0; E: st.global.u32 [%p], %r0; ret;"""
    i = np.arange(128)
    assert (run(body, 128, grid=2, head=head) == np.select([i < 32, i < 96], [i + 1000, 1], 0)).all()


def test_functions_that_take_registers() -> None:
    head = ".func (.reg .b32 %b) f (.reg .b32 %a, .reg .b32 %c) { mad.lo.u32 %b, %a, %c, 1; ret; }"
    body = "call (%r0), f, (%i, 7); st.global.u32 [%p], %r0; ret;"
    assert (run(body, head=head) == 7 * np.arange(64) + 1).all()


def test_results_of_fewer_bytes_than_registers() -> None:
    """Registers get the low bytes, then zeros, of a narrow `.param` result or argument."""
    head = """.func (.param .b16 b) f (.reg .b32 %a) { .reg .b16 %h; cvt.u16.u32 %h, %a; st.param.b16 [b], %h; ret; }
    """
    body = """{ .param .b16 a; .reg .b16 %h; or.b32 %r1, %i, 0xff00; cvt.u16.u32 %h, %r1; st.param.b16 [a], %h;
      mov.u32 %r0, -1; call (%r0), f, (a); } st.global.u32 [%p], %r0; ret;"""
    assert (run(body, head=head.strip()) == 0xFF00 + np.arange(64)).all()


def test_results_that_are_not_used() -> None:
    head = """.global .u32 n; .func (.reg .b32 %b) f (.reg .b32 %a) { .reg .b32 %x; atom.global.add.u32 %x, [n], %a;
      mov.b32 %b, 0; ret; }""".replace("\n", " ")
    body = "call (_), f, (3); bar.sync 0; ld.global.u32 %r0, [n]; st.global.u32 [%p], %r0; ret;"
    assert (run(body, head=head) == 3 * 64).all()


def test_addresses_of_32_bits_wrap() -> None:
    body = "mad.lo.u32 %r0, %i, 4, -256; st.shared.u32 [%r0+256], %i; bar.sync 0; ld.shared.u32 %r1, [%r0+256];"
    assert (run(body + "st.global.u32 [%p], %r1; ret;", head=".shared .align 4 .b32 s[64];") == np.arange(64)).all()


def test_special_registers() -> None:
    out = np.zeros((3 * 2 * 2, 4 * 3 * 3, 8), np.uint32)
    names = ["%tid.x", "%tid.z", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%ntid.y", "%laneid", "%lanemask_lt"]
    stores = "".join(f"mov.u32 %r0, {name}; st.global.u32 [%o+{4 * k}], %r0;" for k, name in enumerate(names))
    body = f"""{INDEX} .reg .u32 %t, %b, %x;
      mov.u32 %t, %tid.z; mov.u32 %x, %ntid.y; mul.lo.u32 %t, %t, %x; mov.u32 %x, %tid.y; add.u32 %t, %t, %x;
      mov.u32 %x, %ntid.x; mul.lo.u32 %t, %t, %x; add.u32 %t, %t, %i;
      mov.u32 %b, %ctaid.z; mov.u32 %x, %nctaid.y; mul.lo.u32 %b, %b, %x; mov.u32 %x, %ctaid.y; add.u32 %b, %b, %x;
      mov.u32 %x, %nctaid.x; mul.lo.u32 %b, %b, %x; mov.u32 %x, %ctaid.x; add.u32 %b, %b, %x;
      mad.lo.u32 %t, %b, 36, %t; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 32, %o; {stores} ret;"""
    Kernels(wrap(body, "", ".param .u64 out"))("k", (3, 2, 2), (4, 3, 3), out)
    b, t = np.divmod(np.arange(12 * 36), 36)
    want = [t % 4, t // 12, b // 3 % 2, b // 6, b * 0 + 3, b * 0 + 3, t % 32, (1 << t % 32) - 1]
    assert (out.reshape(-1, 8) == np.stack(want, axis=1)).all()


def stuck(body: str, *patterns: str, head: str = "", **options: object) -> None:
    with pytest.raises(KernelError) as caught:
        run(body, head=head, **options)
    for pattern in ("kernel 'k'", *patterns):
        assert pattern in str(caught.value), str(caught.value)


def test_threads_that_wait_for_each_other() -> None:
    stuck("setp.lt.u32 %q0, %i, 32; @%q0 bra A; barrier.sync 1; ret; A: barrier.sync 2; ret;",
          "deadlocks", "barrier.sync 1", "(barrier 2)", "thread (32, 0, 0)", "and 28 more")  # fmt: skip
    stuck(
        "setp.lt.u32 %q0, %i, 32; @%q0 ret; bar.sync 0, 64; ret;",
        "deadlocks",
        "bar.sync 0, 64",
        "32 threads have ended",
    )
    stuck("setp.lt.u32 %q0, %i, 7; @%q0 bra A; bar.sync 0; ret; A: bar.sync 0; ret;", "threads of the same warp wait")
    stuck("setp.lt.u32 %q0, %i, 7; @%q0 bra A; shfl.sync.idx.b32 %r0, %i, 0, 31, -1; ret; A: bar.sync 0; ret;",
          "deadlocks", "for lanes of their mask that never come", "shfl.sync")  # fmt: skip
    stuck("shfl.sync.idx.b32 %r0, %i, 0, 31, 0xfffffffe; ret;", "leaves out lane 0", "thread (0, 0, 0)")
    stuck("bar.sync 0, 33; ret;", "multiple of 32")
    stuck("mov.u32 %r0, 16; bar.sync %r0, 64; ret;", "names barrier 16")
    stuck("mad.lo.u32 %r0, %i, 24, 16; bar.sync %r0, 64; ret;", "thread (0, 0, 0)", "names barrier 16")
    stuck("mov.u32 %r0, 16; bar.sync %r0; ret;", "names barrier 16")
    stuck("setp.lt.u32 %q0, %i, 32; selp.u32 %r0, 1, 2, %q0; bar.sync %r0; ret;",
          "deadlocks", "bar.sync %r0", "(barrier 2)", "and 28 more")  # fmt: skip


def test_loops_without_end() -> None:
    stuck("L: add.u32 %r0, %r0, 1; bra L;", "still running after 5000 steps", "max_steps", max_steps=5000)
    asked: list[int] = []

    def cancel() -> bool:
        asked.append(1)
        return len(asked) > 2

    run("add.u32 %r0, %r0, 1; ret;", cancel=cancel)
    assert not asked  # short launches end before the first poll
    stuck("L: add.u32 %r0, %r0, 1; bra L;", "was cancelled", cancel=cancel)


def test_traps_and_assertions() -> None:
    stuck("setp.eq.u32 %q0, %i, 9; @%q0 trap; ret;", "@%q0 trap", "thread (9, 0, 0)", "gave up")


def test_recursion_without_end() -> None:
    head = ".func f (.param .b32 n) { .local .align 16 .b8 depot[4096]; .reg .b64 %a; .reg .b32 %v; "
    head += "mov.u64 %a, depot; ld.param.b32 %v, [n]; "
    head += "st.local.u32 [%a], %v; { .param .b32 p; st.param.b32 [p], %v; call.uni f, (p); } ret; }"
    body = "{ .param .b32 p; st.param.b32 [p], %i; call.uni f, (p); } ret;"
    stuck(body, "recursion without an end", "in 'f'", head=head)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wgmma.fence.sync.aligned;", "'wgmma.fence.sync.aligned;' is not known"),
        ("add.f8 %r0, %r1, %r2;", "is not known"),
        ("tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%p, {%r4}];", "is not known"),
        ("setp.lo.f32 %q0, %r0, %r1;", "no comparison of floats"),
        ("add.u64 %p, %r0, %o;", "reads %r0 of 32 bits as 64 bits"),
        ("shfl.sync.left.b32 %r0, %r1, 0, 31, -1;", "is not known"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.s8.f16.f32 {%r0}, {%r1}, {%r2}, {%r3};", "has no shape"),
        ("bar.sync 16;", "names barrier 16"),
        ("bar.sync 0, 64, 64;", "has 3 operands, expected 1 to 2"),
        ("bar.arrive 0;", "has 1 operands, expected 2"),
        ("bar.red.popc.u32 %r0, %q0;", "has 2 operands, expected 3 to 4"),
        ("slct.s32 %r0, %r1, %r2, %r3;", "'slct.s32 %r0, %r1, %r2, %r3;' is not known"),
        ("mov.b32 %r0, {};", "'mov.b32 %r0, {};' is not known"),
        ("mov.b32 {}, %r0;", "'mov.b32 {}, %r0;' is not known"),
        ("fma.rn.oob.f16 %r0, %r1, %r2, %r3;", "has '.oob', which is not simulated"),
        ("add.rn.relu.bf16x2 %r0, %r1, %r2;", "has '.relu', which is not simulated"),
        ("add.approx.f32 %r0, %r1, %r2;", "has '.approx', which is not simulated"),
        ("ex2.rz.f32 %r0, %r1;", "has '.rz', which is not simulated"),
        ("abs.sat.f32 %r0, %r1;", "has '.sat', which is not simulated"),
        ("copysign.ftz.f32 %r0, %r1, %r2;", "has '.ftz', which is not simulated"),
        ("add.rn.rz.f32 %r0, %r1, %r2;", "is not known"),
        ("min.abs.f16x2 %r0, %r1, %r2;", "is not known"),
        ("addc.sat.u32 %r0, %r1, %r2;", "has '.sat', which is not simulated"),
        ("mul.u32 %r0, %r1, %r2;", "is not known"),
        ("mad.lo.sat.s32 %r0, %r1, %r2, %r3;", "is not known"),
        ("dp4a.hi.u32.u32 %r0, %r1, %r2, %r3;", "is not known"),
        ("shf.lr.wrap.b32 %r0, %r1, %r2, %r3;", "is not known"),
        ("prmt.b32.f4e.sat %r0, %r1, %r2, %r3;", "is not known"),
        ("fns.u32 %r0, %r1, %r2, %r3;", "is not known"),
        ("setp.lt.ftz.s32 %q0, %r0, %r1;", "has '.ftz', which compares f32, f16, f16x2, not s32"),
        ("selp.ftz.f32 %r0, %r1, %r2, %q0;", "is not known"),
        ("cvt.rn.s32.f32 %r0, %r1;", "has '.rn', which is not simulated"),
        ("cvt.relu.s32.u32 %r0, %r1;", "has '.relu', which is not simulated"),
        ("cvt.rna.f32.f64 %r0, %o;", "has '.rna', which is not simulated"),
        ("cvt.rna.satfinite.tf32.f32 %r0, %r1;", "has '.satfinite', which is not simulated"),
        ("cvt.rni.rn.f32.f32 %r0, %r1;", "is not known"),
        ("cvt.pack.sat.s8.s32.b64 %r0, %r1, %r2, %r3;", "is not known"),
        ("match.any.aligned.b32 %r0, %r1, -1;", "is not known"),
        ("elect.aligned %r0|%q0, -1;", "is not known"),
        ("ld.global.v4.u32 {%r0, %r1}, [%p];", "has 2 registers, expected 4"),
        ("st.global.u32 [%p], {%r0, %r1};", "has 2 registers, expected 1"),
        ("red.global.add.v4.f32 [%p], {%r0, %r1};", "has no {…} of 4 values"),
        ("atom.global.Light.add.u32 %r0, [%p], 1;", "is not known"),
        ("red.global.max.noftz.f16x2 [%p], %r0;", "is not known"),
        ("bra.weak L; L: ret;", "has '.weak', which is not simulated"),
        ("bar.sync.popc 0;", "has '.popc', which is not simulated"),
        ("bar.red.popc.pred %q0, 0, %q0;", "is not known"),
        ("mbarrier.arrive.parity.shared.b64 %o, [%p];", "has '.parity', which is not simulated"),
        ("cp.async.mbarrier.arrive.weak.b64 [%p];", "has '.weak', which is not simulated"),
        (
            "mma.sync.aligned.m16n8k8.row.col.satfinite.f32.tf32.tf32.f32 "
            "{%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3};",
            "is not known",
        ),
        ("wmma.load.a.sync.aligned.m8n8k4.f64 {%o}, [%p];", "is not known"),
        (
            "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%o}, {%o}, {%o}, {%o, %o};",
            "has (1, 1, 1, 2) registers, expected (2, 1, 1, 2)",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%o, %o}, {%o, %o}, {%o}, {%o, %o};",
            "has (2, 2, 1, 2) registers, expected (2, 1, 1, 2)",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.s32.f16.f16.s32 {%r0}, {%r0}, {%r0}, {%r0};",
            "has no accumulators of s32 and s32 for f16",
        ),
    ],
)
def test_what_does_not_run_is_said_at_load(text: str, why: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        Kernels(wrap(f"{INDEX}\n{text}\nret;", params=".param .u64 out"), "bad.ptx")
    assert "bad.ptx:8" in str(caught.value) and why in str(caught.value), str(caught.value)


def test_a_fault_of_the_interpreter_is_no_fault_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, "brev", lambda builder, instruction: instruction.operand)
    with pytest.raises(AttributeError, match="'Instruction' object has no attribute 'operand'"):
        Kernels(wrap(f"{INDEX}\nbrev.b32 %r0, %r1;\nret;", params=".param .u64 out"), "good.ptx")


def test_ptx_for_a_newer_gpu() -> None:
    with pytest.raises(ArtifactError, match=r"for sm_90, this interpreter simulates sm_80"):
        Kernels(wrap("ret;"), capability=(8, 0))
