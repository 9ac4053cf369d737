"""Data races that are there, and code beside them that has none."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_engine import Kernels, wrap

from pydispatch.errors import KernelError

HEAD = ".shared .align 4 .b32 s[128];"
START = """.reg .u32 %i, %r<8>, %a, %c; .reg .u64 %o, %p; .reg .pred %q<4>; mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x;
ld.param.u64 %o, [out]; mad.wide.u32 %p, %i, 4, %o; mad.lo.u32 %a, %i, 4, 0;"""


def run(body: str, grid: int = 1, block: int = 64, races: bool = True) -> np.ndarray:
    out = np.zeros(256, np.uint32)
    Kernels(wrap(f"{START}\n{body}", HEAD, ".param .u64 out"), "races.ptx", races=races)("k", grid, block, out)
    return out


NEIGHBOUR = "xor.b32 %r1, %a, 4; ld.shared.u32 %r0, [%r1];"


@pytest.mark.parametrize(
    ("body", "patterns"),
    [
        (f"st.shared.u32 [%a], %i; "
            f"{NEIGHBOUR} ret;", ["shared 's'", "writes in block (0, 0, 0), thread (1, 0, 0)", "reads in"]),
        (f"{NEIGHBOUR} st.shared.u32 [%a], %i; ret;", ["reads in", "writes in"]),
        ("st.shared.u32 [0], %i; ret;", ["byte 0 of shared 's'", "thread (0, 0, 0)", "thread (1, 0, 0)"]),
        ("bar.sync 0; st.global.u32 [%o], %i; ret;", ["byte 0 of the allocation of 1024 bytes"]),
        ("setp.eq.u32 %q0, %i, 0; @%q0 atom.shared.add.u32 %r0, [0], 1; ld.shared.u32 %r1, [0]; "
            "ret;", ["atom", "reads in"]),
        ("st.shared.u32 [%a], %i; bar.warp.sync -1; xor.b32 %r1, %a, 128; ld.shared.u32 %r0, [%r1]; "
            "ret;", ["thread (32, 0, 0)"]),
        ("ld.shared.u32 %r0, [0]; setp.eq.u32 %q0, %i, 63; @%q0 st.shared.u32 [0], 1; "
            "ret;", ["reads in block (0, 0, 0), thread (0, 0, 0)", "writes in block (0, 0, 0), thread (63, 0, 0)"]),
        ("ld.shared.u32 %r0, [0]; bar.warp.sync -1; setp.eq.u32 %q0, %i, 63; @%q0 st.shared.u32 [0], 1; "
            "ret;", ["reads in block (0, 0, 0), thread (0, 0, 0)", "writes in block (0, 0, 0), thread (63, 0, 0)"]),
        ("st.shared.u8 [%a+1], 1; xor.b32 %r1, %a, 4; ld.shared.u32 %r0, [%r1]; ret;", ["byte 5 of shared 's'"]),
        ("st.shared.u32 [%a], %i; xor.b32 %r1, %a, 4; ld.shared.u8 %r0, [%r1+3]; ret;", ["byte 7 of shared 's'"]),
    ],
)  # fmt: skip
def test_races_inside_a_block(body: str, patterns: list[str]) -> None:
    with pytest.raises(KernelError) as caught:
        run(body)
    for pattern in ("kernel 'k' (races.ptx)", "race with others, without a barrier between them", "line ", *patterns):
        assert pattern in str(caught.value), str(caught.value)
    run(body, races=False)


@pytest.mark.parametrize(
    "body",
    [
        f"st.shared.u32 [%a], %i; bar.sync 0; {NEIGHBOUR} bar.sync 0; st.shared.u32 [%a], 5; ret;",
        f"{NEIGHBOUR} ld.shared.u32 %r2, [%a]; ret;",
        "ld.shared.u32 %r0, [0]; bar.sync 0; setp.eq.u32 %q0, %i, 63; @%q0 st.shared.u32 [0], 1; ret;",
        f"st.shared.u32 [%a], %i; bar.warp.sync -1; {NEIGHBOUR} ret;",
        "atom.shared.add.u32 %r0, [0], 1; ret;",
        "atom.shared.add.u32 %r0, [0], 1; bar.sync 0; ld.shared.u32 %r0, [0]; ret;",
        "st.shared.u8 [%a+1], 1; xor.b32 %r1, %a, 4; ld.shared.u8 %r0, [%r1+2]; ret;",
        "st.shared.u32 [%a], %i; bar.sync 0; st.shared.u8 [%a+1], 1; xor.b32 %r1, %a, 4; ld.shared.u8 %r0, [%r1+2]; "
        "ret;",
        "st.volatile.shared.u32 [0], 1; ld.volatile.shared.u32 %r0, [0]; ret;",
        "setp.eq.u32 %q0, %i, 3; @%q0 st.shared.u32 [0], 1; bar.sync 0; ld.shared.u32 %r0, [0]; ret;",
        "setp.lt.u32 %q0, %i, 32; @%q0 bra A; bar.sync 0; ld.shared.u32 %r0, [0]; ret; "
        "A: st.shared.u32 [%a], 1; bar.sync 0; ret;",
    ],
)
def test_code_without_races(body: str) -> None:
    run(body)


def test_races_between_blocks() -> None:
    own = "mad.lo.u32 %r0, %c, 64, %i; mad.wide.u32 %p, %r0, 4, %o;"
    run(f"{own} st.global.u32 [%p], 1; ret;", grid=4)
    with pytest.raises(KernelError, match=r"writes in block \(0, 0, 0\).*writes in block \(1, 0, 0\)"):
        run("st.global.u32 [%p], %c; ret;", grid=2)
    run("red.global.add.u32 [%p], 1; ret;", grid=4)
    # Barriers order nothing between blocks; a fence before an atomic is taken to hand over what was written.
    last = "setp.eq.u32 %q0, %i, 0; @!%q0 bra E; {} atom.global.add.u32 %r1, [%o+768], 1; "
    last += "setp.ne.u32 %q1, %r1, 3; @%q1 bra E;"
    last += "ld.global.u32 %r2, [%o]; ld.global.u32 %r3, [%o+256]; add.u32 %r2, %r2, %r3; "
    last += "st.global.u32 [%o+772], %r2; E: ret;"
    body = f"{own} st.global.u32 [%p], 1; bar.sync 0;"
    out = run(f"{body} {last.format('membar.gl;')}".replace("%r1, 3", "%r1, 2"), grid=3)
    assert out[193] == 2
    released = last.format("").replace("atom.global", "atom.acq_rel.gpu.global").replace("%r1, 3", "%r1, 2")
    assert run(f"{body} {released}", grid=3)[193] == 2
    with pytest.raises(KernelError, match=r"block \(0, 0, 0\).*reads in block \(2, 0, 0\)"):
        run(f"{body} {last.format('')}".replace("%r1, 3", "%r1, 2"), grid=3)


def test_kernels_of_nvcc_have_none() -> None:
    rng = np.random.default_rng(0)
    kernels = Kernels.of("engine_sm_80", races=True)
    m = rng.random((40, 40), np.float32)
    kernels("matmul", (3, 3), (16, 16), m, m.copy(), np.zeros_like(m), 40, 40, 40)
    kernels("transpose", (2, 2), (32, 8), m, np.zeros_like(m), 40, 40)
    x = rng.integers(0, 256, 1000).astype(np.uint8)
    kernels("histogram", 3, 64, x, np.zeros(256, np.uint32), 1000)
    kernels("reduce_shared", 3, 64, rng.random(500, np.float32), np.zeros(3, np.float32), 500, shared=256)
    kernels("scan", 1, 128, x[:512].view(np.int32).copy(), np.zeros(128, np.int32))


def test_shared_variables_of_other_kernels_have_other_names() -> None:
    """Two kernels of a module, whose variables lie at the same place: the report names the kernel's own."""
    text = "".join(
        f".visible .entry {name}() {{ .shared .align 4 .b32 {name}_s[2]; st.shared.u32 [{name}_s+4], 1; ret; }}\n"
        for name in ("first", "second")
    )
    kernels = Kernels(f".version 7.0\n.target sm_75\n.address_size 64\n{text}", "two.ptx", races=True)
    for name in ("first", "second"):
        with pytest.raises(KernelError, match=f"byte 4 of shared '{name}_s'"):
            kernels(name, 1, 32)
