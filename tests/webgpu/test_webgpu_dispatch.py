"""Whole kernels in WGSL from text to a result, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from webgpu_programs import EXPORT, PUSH, SHADER, binary, buffers, export, kernel, source

import pydispatch as pd


def vectors(n: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.random(n, np.float32), random.random(n, np.float32)


CHAIN = """func.func @chain(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    %1 = flow.dispatch @executable::@inplace[%d](%n, %0, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> %b{%d}
    %2 = flow.dispatch @executable::@mul[%d](%n, %0, %1) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    %3 = flow.dispatch @executable::@mul[%d](%n, %2, %0) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    return %3 : tensor<?xf32>
  }"""
INPLACE = buffers("-a", "b") + PUSH + kernel("inplace", "if (i < given.n) { b[i] *= a[i]; }")


def test_several_modules_and_transients_that_are_read_and_written(device: Any, wgsl: Any) -> None:
    """Transients are parts of one buffer, which WebGPU cannot bind to be read only and written at once."""
    two = EXPORT + export("inplace", 1, 1, ("in", "out"))
    artifact = pd.compile(source([wgsl("mul", SHADER), wgsl("inplace", INPLACE)], two, CHAIN), targets="webgpu")
    assert artifact.executables[0].variants[0].format == "webgpu-wgsl-fb"
    program = device.load(artifact)
    for n in (1, 64, 1000, 4096):
        a, b = vectors(n)
        kept = b.copy()
        y = program.chain(a, b)
        assert isinstance(y, pd.Buffer) and y.shape == (n,) and y.dtype == np.float32
        m = a * b
        np.testing.assert_allclose(np.asarray(y), m * (b * m) * m, rtol=1e-6)
        assert (b == kept).all()  # inputs are never written
    times = program.chain.profile(a, b)
    assert len(times) >= 4 and all(timing.seconds >= 0 for timing in times)


def test_executable_constants_are_overrides(device: Any, wgsl: Any) -> None:
    """By name, by number, with the signs and types that the shader declares."""
    head = "override factor: u32 = 1u;\n@id(2) override negative: i32;\n@id(0) override half: f32 = 1.0;\n"
    body = "if (i < given.n) { c[i] = a[i] * b[i] * i32(factor) + negative + i32(half * 4.0); }"
    text = head + buffers("-a", "-b", "c", type="i32") + PUSH + kernel("mul", body)
    constants = """hal.executable.constant.block() -> (i32, i32, i32) as ("word", "factor", "third") {
      %o = arith.constant 1056964608 : i32
      %f = arith.constant 5 : i32
      %m = arith.constant -7 : i32
      hal.return %o, %f, %m : i32, i32, i32
    }"""
    mlir = source([wgsl("mul", text)], EXPORT, binary("mul", "i32"), constants)
    a = np.arange(200, dtype=np.int32)
    y = device.load(pd.compile(mlir, targets="webgpu")).mul(a, a)
    np.testing.assert_array_equal(np.asarray(y), a * a * 5 - 7 + 2)


def test_host_commands_record_into_the_encoder(device: Any, wgsl: Any) -> None:
    """A command that copies by calls of wgpu between two dispatches, and a synchronous one that reads."""
    text = """flow.func private @clone(tensor<?xf32>) -> tensor<?xf32>
  func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    %1 = flow.call @clone(%0) : (tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
    %2 = flow.dispatch @executable::@mul[%d](%n, %1, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    return %2 : tensor<?xf32>
  }"""
    from wgpu.backends.wgpu_native import ffi, lib

    seen: list[Any] = []

    def record(context: Any, source: Any, target: Any) -> None:
        seen.append(context.kind)
        encoder = ffi.cast("WGPUCommandEncoder", context.command_buffer)
        one, two = (ffi.cast("WGPUBuffer", each.memory.handle) for each in (source, target))
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, one, source.memory.offset, two, target.memory.offset, source.nbytes
        )

    def compute(context: Any, source: Any, target: Any) -> None:
        target.upload(source.numpy() + 1)

    artifact = pd.compile(source([wgsl("mul", SHADER)], EXPORT, text), targets="webgpu")
    a, b = vectors(64)
    given = device.add_command("clone", record, synchronous=False)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), a * b * b)
    assert seen == ["webgpu"]
    device.remove_plugin(given)
    given = device.add_command("clone", compute, synchronous=True)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).f(a, b)), (a * b + 1) * b)
    device.remove_plugin(given)


@pytest.mark.parametrize(("targets", "dispatches"), [("webgpu", 3), (["webgpu", "cpu"], 3), ("vulkan", 1)])
def test_dispatches_have_the_buffers_of_every_device(targets: str | list[str], dispatches: int) -> None:
    """Operations on fourteen tensors are formed into dispatches of eight, which need no limit of the device."""
    count = 14
    arguments = ", ".join(f"%a{i}: tensor<?xf32>" for i in range(count))
    sums = "\n".join(f"%s{i} = arith.addf %s{i - 1}, %a{i} : tensor<?xf32>" for i in range(1, count))
    text = f"func.func @f({arguments}) -> tensor<?xf32> {{\n{sums}\nreturn %s{count - 1} : tensor<?xf32>\n}}"
    artifact = pd.compile(text.replace("%s0,", "%a0,"), targets=targets)
    f = pd.device(targets if isinstance(targets, str) else targets[0]).load(artifact).f
    given = [np.full(100, i, np.float32) for i in range(count)]
    np.testing.assert_array_equal(np.asarray(f(*given)), np.full(100, sum(range(count)), np.float32))
    assert len(f.plan_of(*given)) == dispatches
    needs = [need for executable in artifact.executables for v in executable.variants for need in v.requires]
    assert not any("maxStorageBuffers" in need for need in needs)
