"""What loading a module costs, and what it refuses before anything runs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pydispatch.errors import ArtifactError
from pydispatch.runtime.simulators.ptx.machine import Machine

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, before: str = "") -> str:
    registers = ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<4>;"
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 a) {{ {registers}\n{body}\nret; }}"


def chain(count: int) -> str:
    """Functions that each call the one before, and an entry that calls the last one."""
    call = "{{ .param .b32 p; .param .b32 r; st.param.b32 [p], %r1; call.uni (r), f{}, (p); ld.param.b32 %r1, [r]; }}"
    functions = [
        f".func (.param .b32 out) f{i}(.param .b32 x) {{ .reg .b32 %r<4>; ld.param.b32 %r1, [x];\n"
        f"{call.format(i - 1) if i else ''}\nadd.s32 %r1, %r1, 1; st.param.b32 [out], %r1; ret; }}"
        for i in range(count)
    ]
    body = f"ld.param.u64 %d1, [a]; mov.u32 %r1, 0; {call.format(count - 1)} st.global.u32 [%d1], %r1;"
    return kernel(body, "\n".join(functions))


def test_each_function_is_built_once() -> None:
    peaks = []
    for count in (100, 400):
        text = chain(count)
        tracemalloc.start()
        machine = Machine()
        loaded = machine.load(text)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]  # four times the functions
    address = machine.memory.allocate(4)
    machine.launch(loaded.entry("k"), (1, 1, 1), (1, 1, 1), np.uint64(address).tobytes())
    assert machine.memory.view(address, 4).view(np.uint32)[0] == 400


@pytest.mark.parametrize(
    ("body", "before", "problem"),
    [
        ("call.uni k, (a);", "", "calls 'k', which is an entry, and only functions"),
        ("call.uni g;", ".func g();", "calls 'g', which is defined nowhere"),
        ("call.uni g;", ".global .u32 g;", "calls 'g', which is no function"),
        (
            "{ .param .b64 p; .param .b64 r; call.uni (r), malloc, (p); }",
            ".extern .func (.param .b64 r) malloc (.param .b64 p);",
            r"calls 'malloc', which is defined nowhere \(a GPU's driver may have it\)",
        ),
        (
            "call (%r1), f, (_);",
            ".func (.reg .b32 a) f (.reg .b32 b) { mov.b32 a, b; ret; }",
            "has '_' as argument, which only results may be",
        ),
        ("lop3.b32 %r1, %r1, %r1, %r1, 0fFF800000;", "", "has no integer as its table"),
        ("{ .reg .b16 %h<4>; add.cc.u16 %h1, %h1, %h2; }", "", "add.cc.u16 .* is not known"),
        ("{ .reg .pred %p<4>; setp.lt.and.u32 %p1, %r1, %r2; }", "", "has 3 operands, expected 4"),
        ("{ .reg .pred %p<4>; setp.lt.u32 %p1, %r1, %r2, %p2; }", "", "has 4 operands, expected 3"),
        ("{ .reg .pred %p<4>; set.lt.or.u32.u32 %r1, %r1, %r2; }", "", "has 3 operands, expected 4"),
        ("", ".global .f32 g[2] = {1e300, 1.0};", r"module.ptx:4: 'g' of f32 cannot hold 1e\+300"),
        ("", ".global .u32 g[1] = {1e300};", "'g' of u32 cannot hold"),
        ("", ".global .f16 g[1] = {70000.0};", "'g' of f16 cannot hold 70000"),
        ("", ".global .u32 g[65536][65536];", r"with 'g' the variables of the module have 17179869184 bytes, at most"),
        ("", ".global .u8 g[2147483648];\n.global .u8 h;", "with 'h' the variables of the module have 2147483649"),
    ],
)
def test_what_is_refused_at_load(body: str, before: str, problem: str) -> None:
    with pytest.raises(ArtifactError, match=problem):
        Machine().load(kernel(body, before))


def test_literals_out_of_range() -> None:
    """Amounts are taken by their low 32 bits, as other integers are."""
    Machine().load(kernel("shl.b32 %r1, %r1, 1e400;"))
    Machine().load(kernel("shr.u32 %r1, %r1, 0fFF800000;", ".global .f32 g[1] = {1e400};"))
