"""What is refused, in which words, and that everything else lives on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from pydispatch._core.driver import CALLBACKS, LOST, OPENED, Mailbox
from webgpu_programs import EXPORT, MUL, PUSH, SHADER, buffers, kernel, source

import pydispatch as pd
from pydispatch.runtime.devices.webgpu import adapters, api


def compiled(wgsl: Any, text: str, exports: str = EXPORT, functions: str = "", attributes: str = "") -> Any:
    return pd.compile(source([wgsl("mul", text)], exports, functions, attributes), targets="webgpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (buffers("-a", "-b", "x", "c") + PUSH + "\n" + MUL,
         "binding 3 of group 0 is beyond the 3 bindings of the layout"),
        (buffers("-a", "-b", "c") + "\nstruct S { n: u32, b: array<vec4f, 2> }\n@group(3) @binding(0) var<uniform> "
         "given: S;" + MUL, "its uniform block has 48 bytes, the layout has 1 constants"),
        (SHADER.replace("group(0) @binding(1)", "group(1) @binding(1)"),
         "of group 1, binding 1: programs give storage"),
        (SHADER.replace("workgroup_size(64)", "workgroup_size(0)"), r"its workgroup size is \[0, 1, 1\]; each"),
        (SHADER.replace("binding(1)", "binding(0)"), r"mul\.wgsl:2:1: 'b' and 'a' are both binding 0 of group 0"),
        (SHADER.replace("<storage, read> a: array<f32>", "<uniform> a: vec4f").replace("a[i]", "a.x"),
         r"mul\.wgsl:1:1: 'a' is var<uniform> of group 0, binding 0: programs give .* and constants as one"),
        ("override k: f32;\n" + SHADER.replace("a[i] *", "k *"),
         r"mul\.wgsl:1:1: override 'k' has no value: give it a default, or name a word"),
    ],
)  # fmt: skip
def test_a_shader_that_does_not_fit_its_layout(wgsl: Any, text: str, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message):
        compiled(wgsl, text)


def test_a_shader_without_an_entry_point(wgsl: Any) -> None:
    with pytest.raises(pd.CompileError, match=r"has no entry point for compute"):
        compiled(wgsl, "fn mul() {}")
    with pytest.raises(pd.CompileError, match=r"mul.wgsl:1:19: '\)' where '\}' was expected"):
        compiled(wgsl, "fn mul() { a[1]; b)")


@pytest.mark.parametrize("device", ["webgpu:0", "webgpu:0?standard=1"], indirect=True)
def test_what_only_wgpu_finds_names_file_and_line(device: Any, wgsl: Any) -> None:
    good = device.load(compiled(wgsl, SHADER)).mul
    a = np.ones(4, np.float32)
    for text, message in (
        ("a[i] * nothing[i]", "no definition in scope for identifier: `nothing`"),
        ("i", "automatic conversions cannot convert elements of `u32` to `f32`"),
        ("a[i] * f32(f16(b[i]))", r"`f16` enable extension is not enabled[^$]*adding `enable f16;`"),
        ("a[i] *", "expected expression"),
    ):
        broken = SHADER.replace("a[i] * b[i]", text)
        with pytest.raises(pd.ArtifactError, match=r"executable 'executable': mul\.wgsl:6:\d+: .*" + message):
            device.load(compiled(wgsl, broken))
        np.testing.assert_array_equal(good(a, a + 2), a + 2)


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_kernels_given_at_run_time_are_checked_like_others(device: Any, wgsl: Any) -> None:
    """What the program declares of an executable goes with it: which buffers are only read, names of constants."""
    artifact = pd.compile(source([], EXPORT, "", WORD.format("k", 7)), targets="webgpu")
    head = "override k: f32 = 1.0;\n"
    for text, message in (
        (head + SHADER.replace("read> a", "read_write> a").replace("c[i] =", "a[i] = 0; c[i] ="),
         r"mul\.wgsl, export '@mul', entry point 'mul': binding 0 is ReadOnly in the layout, and var<storage, read_w"),
        (SHADER, r"constant 'k' is no override of .*mul\.wgsl: overrides: none; write `override k: i32;`"),
        (head + SHADER.replace("a[i] * b", "a[i] * bb"), r"mul\.wgsl:7:\d+: no definition in scope"),
        (head + "override m: u32;\n" + SHADER.replace("a[i] *", "f32(m) *"), r"wgsl:2:1: override 'm' has no value"),
        (head + SHADER.replace("fn mul", "fn one") + MUL.replace("fn mul", "fn two"),
         "there is no entry point 'mul'; the module has: one, two"),
        (head + "enable subgroups;\n" + SHADER, r"mul\.wgsl:2:1: expected a declaration, got 'enable'"),
    ):  # fmt: skip
        with pytest.raises(pd.ArtifactError, match=message):
            device.add_executable("executable", wgsl("mul", text))
            device.load(artifact)
    device.add_executable("executable", wgsl("mul", "override k: i32;\n" + SHADER.replace("a[i] *", "f32(k) *")))
    a = np.ones(4, np.float32)
    np.testing.assert_array_equal(device.load(artifact).mul(a, a + 2), 7 * (a + 2))


WORD = """hal.executable.constant.block() -> i32 as "{}" {{
      %o = arith.constant {} : i32
      hal.return %o : i32
    }}"""


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
@pytest.mark.parametrize(
    ("head", "change", "name", "word", "error", "message"),
    [
        ("override factor: i32 = 1;", ("a[i] *", "f32(factor) *"), "faktor", 1, pd.CompileError,
         "constant 'faktor' is no override of .*mul.wgsl: did you mean 'factor'"),
        ("override k: vec2f;", ("a[i] *", "k.x *"), "k", 1, pd.CompileError,
         r"mul.wgsl:1:1: override 'k' is of type vec2<f32>; one that takes a word"),
        ("override k: f32;", ("a[i] *", "k *"), "k", 0x7F800000, pd.ArtifactError,
         r"mul.wgsl:1:1: override 'k' is an f32, which cannot be inf: word 0 of the executable constants is 0x7f8"),
        ("enable f16;\noverride k: f16;", ("a[i] *", "f32(k) *"), "k", 0x47C35000, pd.ArtifactError,
         r"mul.wgsl:2:1: override 'k' is an f16, which cannot be 100000"),
        ("override k: u32 = 1;", ("size(64)", "size(k, 2)"), "k", 0, pd.ArtifactError,
         r"its workgroup size is \[0, 2, 1\]"),
        ("override k: u32 = 1;", ("size(64)", "size(8 * k, k)"), "k", 16, pd.DeviceUnavailableError,
         r"needs maxComputeInvocationsPerWorkgroup of 2048 \(it has \d+\), which webgpu:0 .* lacks"),
        ("override k: i32 = 1;\nvar<workgroup> w: array<f32, k * k>;", ("c[i] =", "w[0] = 1.0; c[i] ="), "k", 300,
         pd.DeviceUnavailableError, r"needs maxComputeWorkgroupStorageSize of 360000 \(it has \d+\)"),
        ("override k: i32 = 1;\noverride m: i32 = 4 / k;", ("a[i] *", "f32(m) *"), "k", 0, pd.ArtifactError,
         "mul.wgsl, export '@mul': Division by zero"),
    ],
)  # fmt: skip
def test_overrides_that_cannot_be(
    device: Any, wgsl: Any, head: str, change: tuple[str, str], name: str, word: int, error: type, message: str
) -> None:
    a = np.ones(4, np.float32)
    with pytest.raises(error, match=message):
        device.load(compiled(wgsl, f"{head}\n{SHADER.replace(*change)}", attributes=WORD.format(name, word))).mul(a, a)
    np.testing.assert_array_equal(device.load(compiled(wgsl, SHADER)).mul(a, a + 2), a + 2)


@pytest.mark.parametrize(("default", "word", "value"), [
    ("2", -3, -3), ("2u", 4, 4), ("2.0", 0x40400000, 3), ("1e1 * 2", 0x40400000, 3), ("half", 0x40400000, 3),
])  # fmt: skip
@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_the_type_of_an_override_may_follow_its_default(
    device: Any, wgsl: Any, default: str, word: int, value: int
) -> None:
    text = f"const half = 0.5;\noverride k = {default};\n" + SHADER.replace("a[i] *", "f32(k) * a[i] *")
    a = np.ones(4, np.float32)
    f = device.load(compiled(wgsl, text, attributes=WORD.format("k", word))).mul
    np.testing.assert_array_equal(f(a, a + 1), value * (a + 1))


@pytest.mark.parametrize("device", ["webgpu:0"], indirect=True)
def test_tensors_of_the_wrong_size(device: Any, wgsl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = SHADER.replace("b: array<f32>", "b: array<f32, 100>")
    nested = "struct S { head: vec4f, rest: array<vec4f> }\n" + SHADER.replace("b: array<f32>", "b: S").replace(
        "b[i]", "b.rest[i].x"
    )
    b = np.arange(100, dtype=np.float32)
    f = device.load(compiled(wgsl, fixed)).mul
    short = r"@executable::@mul, binding 1: 396 bytes, and 'b' of the shader is array<f32,100> of 400: give it a larger"
    for _ in range(2):
        with pytest.raises(pd.InvalidArgumentError, match=short):
            f(b[:99], b[:99])
        np.testing.assert_array_equal(f(b, b), b * b)
    g = device.load(compiled(wgsl, nested)).mul
    assert np.asarray(g(b[:0], b[:0])).shape == (0,)  # wgpu wants one element where there is none
    long = np.tile(b, 2)
    monkeypatch.setitem(device._context.limits, "maxStorageBufferBindingSize", 100)
    with pytest.raises(pd.InvalidArgumentError, match=r"binding 0: 800 bytes, webgpu:0 binds at most 100 \(maxSto"):
        f(long, long)
    monkeypatch.undo()
    np.testing.assert_array_equal(np.asarray(f(long, long))[:100], b * b)


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


class Text(ctypes.Structure):
    """WGPUStringView."""

    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]


def report_lost(box: Mailbox, text: bytes, length: int | None = None) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, Text, ctypes.c_void_p, ctypes.c_void_p)
    kind(CALLBACKS["WGPUDeviceLostCallback"])(None, 2, Text(text, len(text) if length is None else length),
                                              box.address, None)  # fmt: skip


def report_opened(box: Mailbox, handle: int, text: bytes) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_void_p, Text, ctypes.c_void_p, ctypes.c_void_p)
    kind(CALLBACKS["WGPURequestDeviceCallback"])(1, handle, Text(text, len(text)), box.address, None)


def test_a_dropped_message_takes_no_other_with_it() -> None:
    box = Mailbox()
    report_opened(box, 64, b"here")
    report_lost(box, b"", length=2**64 - 2)  # no memory for so many bytes
    report_lost(box, b"gone")
    with pytest.raises(MemoryError, match="a message of a driver"):
        box.take()
    assert box.take() == [(OPENED, 1, 64, "here"), (LOST, 2, 0, "gone")]
    assert not box and box.take() == []


@pytest.mark.parametrize("is_lost_first", [False, True])
def test_a_device_that_is_lost_while_it_opens(is_lost_first: bool) -> None:
    errors = api.Errors("webgpu:0")
    if is_lost_first:
        report_lost(errors.box, b"gone")
    report_opened(errors.box, 64, b"")
    if not is_lost_first:
        report_lost(errors.box, b"gone")
    errors.read_mailbox()
    assert errors.opened == (64, "") and errors.lost == "gone" and not errors.reported


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


def test_a_run_without_memory_for_its_transients_releases_those_that_it_has(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = pd.compile("""
flow.func private @command(%x: tensor<1000xf32>) -> %x
func.func @f(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %a = arith.mulf %x, %x : tensor<1000xf32>
  %b = arith.addf %x, %x : tensor<1000xf32>
  %c = flow.call @command(%b) : (tensor<1000xf32>) -> %b
  %d = flow.call @command(%a) : (tensor<1000xf32>) -> %a
  %e = arith.subf %c, %d : tensor<1000xf32>
  return %e : tensor<1000xf32>
}""", targets="webgpu")  # fmt: skip
    device.add_command("command", lambda context, x: None, synchronous=True)
    program, x = device.load(artifact), device.upload(np.ones(1000, np.float32))
    program.f(x)
    context, live_blocks, acquired = device._context, device.memory()["live_blocks"], []

    def acquire(size: int) -> Any:
        if len(acquired) == 1:  # the second of two transients
            raise pd.OutOfMemoryError("no memory here")
        acquired.append(size)
        return type(context).acquire(context, size)

    monkeypatch.setattr(context, "acquire", acquire)
    with pytest.raises(pd.OutOfMemoryError, match="no memory here"):
        program.f(x)
    assert acquired and device.memory()["live_blocks"] == live_blocks


class _Releases:
    """Functions of wgpu, with a list of the releases that are called."""

    def __init__(self, lib: Any) -> None:
        self._lib, self.names = lib, list[str]()

    def __getattr__(self, name: str) -> Any:
        if name.endswith("Release"):
            self.names.append(name)
        return getattr(self._lib, name)


@pytest.mark.parametrize("device", ["webgpu:0", "webgpu:0?staging=1"], indirect=True)
def test_a_profile_without_memory_for_its_timestamps_releases_its_objects(
    device: Any, wgsl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, a, context = device.load(compiled(wgsl, SHADER)), np.ones(8, np.float32), device._context
    program.mul(a, a)

    def acquire(size: int) -> Any:
        raise pd.OutOfMemoryError("no memory here")

    monkeypatch.setattr(context, "lib", lib := _Releases(context.lib))
    monkeypatch.setattr(context.readback, "acquire", acquire)
    with pytest.raises(pd.OutOfMemoryError, match="no memory here"):
        program.mul.profile(a, a)
    assert {"wgpuQuerySetRelease", "wgpuBufferRelease"} <= set(lib.names)


def test_adapters_are_discovered_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discovery sets a variable of the environment, and removes it."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    both = threading.Barrier(2)

    def discover(owner: int, backends: int) -> list[Any]:
        with adapters._without_messages(), contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.2)  # passes only where two threads discover at once
        return []

    monkeypatch.setattr(adapters, "_adapters", discover)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(adapters.adapters, ["", ""])) == [[], []]
    assert both.broken and "XDG_RUNTIME_DIR" not in os.environ
