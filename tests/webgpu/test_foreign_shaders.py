"""Shaders written for other hosts: a uniform block of any group and binding, buffers declared read_write throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from webgpu_programs import EXPORT, MUL, SHADER, buffers, export, source

import pydispatch as pd
from pydispatch.formats.wgsl.access import written
from pydispatch.formats.wgsl.adapt import adapted
from pydispatch.formats.wgsl.read import read

A = np.arange(70, dtype=np.float32)
BLOCK = "@group(3) @binding(0) var<uniform> given"
MADE = SHADER.replace("read>", "read_write>")
FORMS = {
    "read_write": MADE,
    "block after the buffers": MADE.replace(BLOCK, "@group(0) @binding(3) var<uniform> given"),
    "block before the buffers": MADE.replace("binding(2)", "binding(3)").replace("binding(1)", "binding(2)")
    .replace("binding(0) var<storage", "binding(1) var<storage")
    .replace(BLOCK, "@binding(0) @group(0) var<uniform> given"),
    "block between the buffers": MADE.replace("binding(2)", "binding(3)")
    .replace("binding(1)", "binding(2)").replace(BLOCK, "@group(0) @binding(1) var<uniform> given"),
    "block at a sum": MADE.replace(BLOCK, "@group(1 - 1) @binding((2) + 1) var<uniform> given"),
    "block at a constant": "const LAST = 3;\n" + MADE.replace(BLOCK, "@group(0) @binding(LAST) var<uniform> given")
    .replace("binding(2)", "binding(LAST - 1)"),
    "block of another group": MADE.replace(BLOCK, "@group(1) @binding(5) var<uniform> given"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_they_run_as_they_are(device: Any, wgsl: Any, form: str) -> None:
    program = device.load(pd.compile(source([wgsl("mul", FORMS[form])]), targets="webgpu"))
    np.testing.assert_array_equal(program.mul(A, A + 2), A * (A + 2))
    np.testing.assert_array_equal(program.mul(A, A), A * A)


@pytest.mark.parametrize("form", FORMS)
def test_they_run_where_they_are_given_at_run_time(device: Any, wgsl: Any, form: str) -> None:
    artifact = pd.compile(source([]), targets="webgpu")
    device.add_executable("executable", wgsl("mul", FORMS[form]))
    np.testing.assert_array_equal(device.load(artifact).mul(A, A + 2), A * (A + 2))


def test_lines_stay_and_other_shaders_do_not_change() -> None:
    for text in FORMS.values():
        module = read(text.encode(), "x.wgsl")
        changed = adapted(module, {"mul": [True, True, False]})
        assert changed.text.count("\n") == module.text.count("\n")
        block = changed.named["given"]
        assert (changed.number(block, "group"), changed.number(block, "binding")) == (3, 0)
        assert adapted(changed, {"mul": [True, True, False]}) is changed
    module = read(SHADER.encode(), "x.wgsl")
    assert adapted(module, {"mul": [True, True, False]}) is module
    module = read(MADE.encode(), "x.wgsl")
    assert adapted(module, {"mul": [False, False, False]}) is module


@pytest.mark.parametrize(
    "write",
    [
        "a[i] = 0.0;",
        "(a)[i] = 0.0;",
        "(a[i]) = 0.0;",
        "a[i] += 1.0;",
        "let p = &a; (*p)[i] = 0.0;",
        "a[i + u32(a[0])] -= 1.0;",
        "set(&a[i]);",
    ],
)
def test_buffers_that_are_written_are_refused(wgsl: Any, write: str) -> None:
    text = MADE.replace("if (i <", f"{write} if (i <") + "\nfn set(p: ptr<storage, f32, read_write>) { *p = 0.0; }"
    assert 0 in written(read(text.encode(), "x"), read(text.encode(), "x").entry_points[0])
    with pytest.raises(pd.CompileError, match=r"binding 0 is ReadOnly in the layout, and var<storage, read_write> in"):
        pd.compile(source([wgsl("mul", text)]), targets="webgpu")


def test_an_entry_point_that_writes_keeps_the_access_for_all(wgsl: Any) -> None:
    other = "\n@compute @workgroup_size(64) fn clear(@builtin(global_invocation_id) id: vec3u) { a[id.x] = 0.0; }"
    with pytest.raises(pd.CompileError, match="binding 0 is ReadOnly in the layout"):
        pd.compile(source([wgsl("mul", MADE + other)]), targets="webgpu")


def test_two_blocks_of_one_entry_point(wgsl: Any) -> None:
    second = "\n@group(3) @binding(0) var<uniform> more: Constants;"
    text = SHADER.replace("given.n", "given.n + more.n") + second
    with pytest.raises(pd.CompileError, match=r"'more' and 'given' are both uniform blocks of entry point 'mul'"):
        pd.compile(source([wgsl("mul", text)]), targets="webgpu")
    apart = text.replace("@group(3) @binding(0) var<uniform> more", "@group(0) @binding(3) var<uniform> more")
    with pytest.raises(pd.CompileError, match=r"'more' is var<uniform> of group 0, binding 3: programs give"):
        pd.compile(source([wgsl("mul", apart)]), targets="webgpu")


def test_alternatives_of_one_place(device: Any, wgsl: Any) -> None:
    """Entry points with structures of their own in the same binding."""
    text = (
        buffers("a", "b", "c")
        + "\nstruct Constants { n: u32 }\nstruct Other { n: u32 }"
        + "\n@group(0) @binding(3) var<uniform> given: Constants;\n@group(0) @binding(3) var<uniform> other: Other;"
        + MUL
        + MUL.replace("fn mul", "fn add").replace("given", "other").replace("* b", "+ b")
    )
    exports = EXPORT + "\n" + export("add", 1, 1, ("in", "in", "out"))
    program = device.load(pd.compile(source([wgsl("mul", text)], exports), targets="webgpu"))
    np.testing.assert_array_equal(program.mul(A, A + 2), A * (A + 2))
