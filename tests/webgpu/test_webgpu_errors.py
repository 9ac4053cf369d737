"""What is refused, in which words, and that everything else lives on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from webgpu_programs import EXPORT, MUL, PUSH, SHADER, buffers, export, kernel, source

import pydispatch as pd


def compiled(wgsl: Any, text: str, exports: str = EXPORT, functions: str = "") -> Any:
    return pd.compile(source([wgsl("mul", text)], exports, functions), targets="webgpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (buffers("-a", "-b", "x", "c") + PUSH + "\n" + MUL,
         "binding 3 of group 0 is beyond the 3 bindings of the layout"),
        (buffers("-a", "-b", "c") + "\nstruct S { n: u32, b: array<vec4f, 2> }\n@group(3) @binding(0) var<uniform> "
         "given: S;" + MUL, "its uniform block has 48 bytes, the layout has 1 constants"),
        (buffers("a", "-b", "c") + PUSH + MUL, "binding 0 is ReadOnly in the layout, and var<storage, read_write>"),
        (SHADER.replace("group(0) @binding(1)", "group(1) @binding(1)"),
         "of group 1, binding 1: programs give storage"),
        (SHADER.replace("workgroup_size(64)", "workgroup_size(0)"), r"its workgroup size \[0, 1, 1\] has a zero"),
    ],
)  # fmt: skip
def test_a_shader_that_does_not_fit_its_layout(wgsl: Any, text: str, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message):
        compiled(wgsl, text)


def test_entry_points_and_sizes(wgsl: Any) -> None:
    two = EXPORT + export("mull", 1, 1, ("in", "in", "out"))
    with pytest.raises(pd.CompileError, match=r"export '@mull' is no entry point(.|\n)*did you mean 'mul'\?"):
        compiled(wgsl, SHADER, two)
    sizes = "attributes {workgroup_size = [32 : index, 1 : index, 1 : index]}"
    with pytest.raises(pd.CompileError, match=r"declares workgroup_size = \[32, 1, 1\], the shader has \[64, 1, 1\]"):
        compiled(wgsl, SHADER, export("mul", 0, 1, ("in", "in", "out"), more=sizes))
    with pytest.raises(pd.CompileError, match=r"object file 'nowhere\.wgsl' was not found"):
        pd.compile(source(["nowhere.wgsl"]), targets="webgpu")
    with pytest.raises(pd.CompileError, match=r"has no entry point for compute"):
        compiled(wgsl, "fn mul() {}")
    with pytest.raises(pd.CompileError, match=r"mul.wgsl:1:19: '\)' where '\}' was expected"):
        compiled(wgsl, "fn mul() { a[1]; b)")


@pytest.mark.parametrize("device", ["webgpu:0", "webgpu:0?standard=1"], indirect=True)
def test_what_only_wgpu_finds_names_the_line(device: Any, wgsl: Any) -> None:
    broken = SHADER.replace("a[i] * b[i]", "a[i] * nothing[i]")
    with pytest.raises(pd.ArtifactError, match=r"(?s)@executable.*no definition in scope.*nothing.*wgsl:6:\d+"):
        device.load(compiled(wgsl, broken))
    wrong = SHADER.replace("a[i] * b[i]", "i")
    with pytest.raises(pd.ArtifactError, match=r"(?s)@executable.*wgsl:6:\d+"):
        device.load(compiled(wgsl, wrong))
    a = np.ones(4, np.float32)
    np.testing.assert_array_equal(device.load(compiled(wgsl, SHADER)).mul(a, a + 2), a + 2)


@pytest.mark.parametrize("device", ["webgpu:0?standard=1"], indirect=True)
def test_features_and_limits_that_are_missing_are_named(device: Any, wgsl: Any) -> None:
    half = "enable f16;\n" + SHADER.replace("a[i] * b[i]", "f32(f16(a[i]) * f16(b[i]))")
    wide = SHADER.replace("workgroup_size(64)", "workgroup_size(1024)")
    memory = SHADER + "\nvar<workgroup> w: array<vec4f, 2048>;\n" + kernel("other", "w[i] = vec4f(a[0]);")
    for text, need in (
        (half, "shader-f16"), (wide, r"maxComputeInvocationsPerWorkgroup>=1024 \(it has 256\)"),
        (memory.replace("if (i", "w[i].x = 1; if (i"), r"maxComputeWorkgroupStorageSize>=32768 \(it has 16384\)"),
    ):  # fmt: skip
        artifact = compiled(wgsl, text)
        with pytest.raises(pd.DeviceUnavailableError, match=f"variant 'webgpu' needs .*{need}"):
            device.load(artifact)
    a = np.arange(8, dtype=np.float32)
    rich = pd.device("webgpu:0")
    np.testing.assert_array_equal(rich.load(compiled(wgsl, half)).mul(a, a), a * a)


GRID = """func.func @mul(%a: tensor<4xf32>, %b: tensor<4xf32>, %w: index) -> tensor<4xf32> {
    %n = arith.constant 4 : i32
    %r = flow.dispatch @executable::@mul[%w](%n, %a, %b) : (i32, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }"""


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_a_grid_over_the_limits(device: Any, wgsl: Any) -> None:
    f = device.load(compiled(wgsl, SHADER, EXPORT, GRID)).mul
    a = np.ones(4, np.float32)
    for _ in range(2):
        with pytest.raises(
            pd.InvalidArgumentError,
            match=r"@executable::@mul: a grid of 100000 x 1 x 1 workgroups, webgpu:0 starts at most 65535 a dimension",
        ):
            f(a, a, 6_400_000)
    np.testing.assert_array_equal(f(a, a + 2, 64), a + 2)


@pytest.mark.parametrize("device", ["webgpu:0?backend=vulkan"], indirect=True)
def test_a_lost_device_is_named_and_opened_again(device: Any, wgsl: Any) -> None:
    artifact = compiled(wgsl, SHADER)
    program = device.load(artifact)
    a = np.ones(10, np.float32)
    y = program.mul(a, a)
    context = device._context
    context.lib.wgpuDeviceDestroy(context.device)
    for call in (lambda: program.mul(y, y), y.numpy, lambda: y.upload(a), lambda: device.load(artifact)):
        with pytest.raises(pd.DeviceUnavailableError, match=r"webgpu:0 was lost.*pydispatch.device\(\)"):
            call()
    again = pd.device("webgpu:0?backend=vulkan")
    assert again._context is not context
    np.testing.assert_array_equal(again.load(artifact).mul(a, a + 1), a + 1)


def test_names_and_options() -> None:
    with pytest.raises(pd.DeviceUnavailableError, match=r"there is no device 'webgpu:99'; this machine has: .*\("):
        pd.device("webgpu:99")
    with pytest.raises(pd.DeviceUnavailableError, match=r"no device 'webgpu:0', adapter 'Voodoo'; this machine has"):
        pd.device("webgpu?adapter=Voodoo")
    with pytest.raises(pd.InvalidArgumentError, match="backend: expected one of vulkan, gl, metal, d3d12, got 'glide'"):
        pd.device("webgpu?backend=glide")
    with pytest.raises(pd.InvalidArgumentError, match="has no option 'fast'; it has: adapter, backend"):
        pd.device("webgpu?fast=1")
    assert "webgpu:0" in pd.devices()
    facts = pd.device("webgpu:0").describe()
    assert "maxComputeWorkgroupsPerDimension=65535" in facts["limits"] and facts["format"] == "webgpu-wgsl-fb"
