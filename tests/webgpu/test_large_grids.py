"""Grids of more than 65,535 workgroups in one dimension, which devices do not start."""

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
import pytest
from webgpu_programs import PUSH, buffers, export, kernel, source

import pydispatch as pd
from pydispatch.formats.wgsl.grid import form_of, with_grid
from pydispatch.formats.wgsl.read import read

MOST = 65535
GROUPS = 70_001
BUILT_INS = "@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,\n  @builtin(global"
SHADER = buffers("-a", "c", type="u32") + PUSH + kernel(
    "tell", "if (i < given.n) { c[i] = a[i] + group.x + 100000 * group.y + groups.x; }", 2
).replace("@builtin(global", BUILT_INS)  # fmt: skip
GRID = """func.func @tell(%a: tensor<?xi32>, %x: index) -> tensor<?xi32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xi32>
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@tell[%x](%n, %a) : (i32, tensor<?xi32>{%d}) -> tensor<?xi32>{%d}
    return %r : tensor<?xi32>
  }"""


def program(device: Any, wgsl: Any, text: str) -> Any:
    exports = export("tell", 0, 1, ("in", "out"), per=2)
    return device.load(pd.compile(source([wgsl("tell", text)], exports, GRID), targets="webgpu")).tell


@pytest.mark.parametrize("device", ["webgpu:0", "webgpu:0?standard=1"], indirect=True)
def test_a_kernel_of_the_user(device: Any, wgsl: Any) -> None:
    """Its built-in values are those of the grid that the program asks for, with and without constants of its own."""
    f = program(device, wgsl, SHADER)
    for n in (2 * GROUPS - 1, 64, 2 * MOST, 2 * MOST + 1):
        a = np.arange(n, dtype=np.int32)
        np.testing.assert_array_equal(f(a, n), a + a // 2 + -(-n // 2))
    alone = SHADER.replace(PUSH, "").replace("i < given.n", "i < arrayLength(&c)")
    a = np.arange(2 * GROUPS, dtype=np.int32)
    np.testing.assert_array_equal(program(device, wgsl, alone)(a, 2 * GROUPS), a + a // 2 + GROUPS)


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_a_buffer_that_is_read_and_written(device: Any, wgsl: Any) -> None:
    """Transients are parts of one buffer: the text with every buffer declared read_write, over such a grid."""
    call = re.search(r" %r = (.*)\n", GRID)
    assert call is not None
    calls = "".join(f"%r{k} = {call[1].replace('%a)', f'%r{k - 1})')}\n" for k in (1, 2))
    text = GRID.replace("%r = ", "%r0 = ").replace("return %r", f"{calls} return %r2")
    exports = export("tell", 0, 1, ("in", "out"), per=2)
    f = device.load(pd.compile(source([wgsl("tell", SHADER)], exports, text), targets="webgpu")).tell
    a = np.arange(2 * GROUPS, dtype=np.int32)
    np.testing.assert_array_equal(f(a, 2 * GROUPS), a + 3 * (a // 2 + GROUPS))


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_what_cannot_be_started(device: Any, wgsl: Any) -> None:
    structured = "struct Ids { @builtin(global_invocation_id) id: vec3u }\n" + re.sub(
        r"@builtin\(w[^{]*\{ let i = id.x", "ids: Ids) { let group = vec3u(); let groups = vec3u(); let i = ids.id.x",
        SHADER,
    )  # fmt: skip
    f = program(device, wgsl, structured)
    a = np.arange(2 * GROUPS, dtype=np.int32)
    message = r"@tell: a grid of 70001 x 1 x 1 workgroups, webgpu:0 starts at most 65535 a .*'ids' is a structure"
    for _ in range(2):
        with pytest.raises(pd.InvalidArgumentError, match=message):
            f(a, 2 * GROUPS)
        np.testing.assert_array_equal(np.asarray(f(a, 2 * MOST))[: 2 * MOST], a[: 2 * MOST])
    g = program(device, wgsl, SHADER)
    with pytest.raises(pd.InvalidArgumentError, match=r"4294967295 x 1 x 1 workgroups, .* and 2\^32 in all are too"):
        g(a, 2 * 4294967295)
    np.testing.assert_array_equal(np.asarray(g(a, 4))[:4], [2, 3, 5, 6])


@pytest.mark.parametrize(("grid", "form"), [
    ((65536, 1, 1), (65535, 2, 1)), ((1, 70000, 3), (65535, 4, 1)), ((2, 2, 65536), (65535, 5, 1)),
    ((1 << 31, 1, 1), (65535, 32769, 1)), (((1 << 32) - 1, 1, 1), None), ((1 << 20, 1 << 20, 1), None),
])  # fmt: skip
def test_forms(grid: tuple[int, int, int], form: tuple[int, int, int] | None) -> None:
    assert form_of(grid, MOST) == form
    if form is not None:
        assert grid[0] * grid[1] * grid[2] <= form[0] * form[1] * form[2] < 1 << 32 and max(form) <= MOST


def test_text() -> None:
    """Names are free, parameters that are not about the grid stay, and the lines of the body keep their numbers."""
    text = """// asked_number
var<workgroup> asked_: u32; // fn ) {
@compute @workgroup_size(TILE, 2)
fn f(@builtin(local_invocation_id) l: vec3<u32>,
     @builtin(global_invocation_id) id: vec3u,) {
  asked_ = id.x;
}
const TILE = 8;"""
    module = read(text.encode(), "f.wgsl")
    entry = module.entry("f")
    assert entry is not None
    made = with_grid(module, entry)
    assert made.splitlines()[5] == "  asked_ = id.x;" and "var<uniform> asked0_grid: vec4<u32>;" in made
    assert "let id = vec3<u32>(asked0_number % asked0_grid.x" in made
    assert "* vec3<u32>(u32(TILE), u32(2), 1u) + l;" in made and made.count("local_invocation_id") == 1
    again = read(made.encode(), "f.wgsl").entry("f")
    assert again is not None and len(again.members) == 3


Matrix = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=8, grid=lambda x, y: x.shape[0])
def running(x: Matrix, y: Matrix) -> None:
    """A workgroup for each row, with a sum that all invocations make together."""
    row, lane = pd.group_id(0), pd.local_id(0)
    part = 0.0
    for j in range(lane, x.shape[1], 8):
        part += x[row, j]
    total = pd.group_sum(part)
    for j in range(lane, x.shape[1], 8):
        y[row, j] = x[row, j] + total + pd.f32(row)


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_a_kernel_in_python(device: Any) -> None:
    x = np.random.default_rng(0).integers(-50, 50, (GROUPS, 3)).astype(np.float32)
    y = device.empty(x.shape)
    running(device.upload(x), y)
    np.testing.assert_array_equal(y, x + x.sum(1, keepdims=True) + np.arange(GROUPS)[:, None])


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_a_generated_dispatch_takes_shares(device: Any) -> None:
    """Rows that are a workgroup each: the grid ends at 65,535, and workgroups go on with the rows behind it."""
    text = """func.func @f(%a: tensor<?x260xi8>) -> tensor<?xi8> {
      %c0 = arith.constant 0 : index
      %d = tensor.dim %a, %c0 : tensor<?x260xi8>
      %z = arith.constant 0 : i8
      %e = tensor.empty(%d) : tensor<?xi8>
      %i = linalg.fill ins(%z : i8) outs(%e : tensor<?xi8>) -> tensor<?xi8>
      %r = linalg.reduce ins(%a : tensor<?x260xi8>) outs(%i : tensor<?xi8>) dimensions = [1] (%x: i8, %y: i8) {
        %s = arith.addi %x, %y : i8
        linalg.yield %s : i8
      }
      return %r : tensor<?xi8>
    }"""
    f = device.load(pd.compile(text, targets="webgpu")).f
    a = np.random.default_rng(1).integers(-128, 128, (GROUPS, 260)).astype(np.int8)
    np.testing.assert_array_equal(f(a), a.sum(1, dtype=np.int8))
    assert "65535x1x1" in str(f.plan_of(a))
