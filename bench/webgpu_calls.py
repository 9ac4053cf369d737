"""Measures calls on a WebGPU device against raw calls through the same binding, a product of matrices against our
Vulkan device, and how long emitting takes.

    python bench/webgpu_calls.py [--rounds N]

Raw: bind groups made beforehand, one encoder, one pass and one submission a call, then a wait; no checks, no arrays.
WebGPU records anew for each submission, so both sides do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: waking threads hides everything else

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "webgpu"))

import check_files
from vulkan_calls import PRODUCT, alternate, show
from webgpu_programs import EXPORT, SHADER, source

import pydispatch as pd
from pydispatch.compiler.backends.webgpu import backend

T = "tensor<?xf32>"


def chain(count: int) -> str:
    """Return a function of `count` dispatches, each of which reads the result of the dispatch before it."""
    lines = ["    %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) "]
    lines += [f"    %{i} = flow.dispatch @executable::@mul[%d](%n, %{i - 1}, %b) " for i in range(1, count)]
    typed = f": (i32, {T}{{%d}}, {T}{{%d}}) -> {T}{{%d}}\n"
    return f"""func.func @chain(%a: {T}, %b: {T}) -> {T} {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : {T}
    %n = arith.index_cast %d : index to i32
{typed.join([*lines, ""])}    return %{count - 1} : {T}
  }}"""


class Raw:
    """The dispatches of `chain` by hand, with the pipeline of the program; each call encodes, submits and waits.

    Args:
        program: The loaded program.
        blocks: Blocks of memory of each dispatch, in the order of its bindings.
        n: Number of elements of each block.
    """

    def __init__(self, program: Any, blocks: list[list[Any]], n: int) -> None:
        """Create the bind groups of all dispatches, and a uniform buffer with the number of elements."""
        context = self.context = program._device._context
        kernels = program._executor.kernels
        kernel = kernels.kernels[0, 0]  # the first export of the first executable
        self.pipeline, group = kernels.pipeline(kernel, kernel.read_only)
        lib, ffi, pipelines = context.lib, context.ffi, context.pipelines
        self.groups = [pipelines.group(group, [(b.buffer, 0, 4 * n) for b in bound]) for bound in blocks]
        descriptor = ffi.new("WGPUBufferDescriptor*", {"size": 16, "usage": 0x40 | 8})  # Uniform and CopyDst
        uniform = lib.wgpuDeviceCreateBuffer(context.device, descriptor)
        words = ffi.new("uint32_t[4]", [n, 0, 0, 0])
        lib.wgpuQueueWriteBuffer(context.queue, uniform, 0, words, 16)
        self.uniform_group = pipelines.group(pipelines.uniform_group_layout(), [(uniform, 0, 16)])
        self.count = -(-n // 64)  # workgroups of 64 invocations
        self.commands = ffi.new("WGPUCommandBuffer[1]")

    def __call__(self) -> None:
        """Encode all dispatches in one pass, submit them, and wait for the device."""
        context = self.context
        lib, null, constants, count = context.lib, context.ffi.NULL, self.uniform_group, self.count
        encoder = lib.wgpuDeviceCreateCommandEncoder(context.device, null)
        compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
        lib.wgpuComputePassEncoderSetPipeline(compute, self.pipeline)
        for group in self.groups:
            lib.wgpuComputePassEncoderSetBindGroup(compute, 0, group, 0, null)
            # Group 3 of our shaders has the uniform buffer with the scalar arguments.
            lib.wgpuComputePassEncoderSetBindGroup(compute, 3, constants, 0, null)
            lib.wgpuComputePassEncoderDispatchWorkgroups(compute, count, 1, 1)
        lib.wgpuComputePassEncoderEnd(compute)
        lib.wgpuComputePassEncoderRelease(compute)
        self.commands[0] = lib.wgpuCommandEncoderFinish(encoder, null)
        lib.wgpuCommandEncoderRelease(encoder)
        lib.wgpuQueueSubmit(context.queue, 1, self.commands)
        lib.wgpuCommandBufferRelease(self.commands[0])
        lib.wgpuDevicePoll(context.device, 1, null)  # 1: waits until the queue is empty


def measure(count: int, n: int, rounds: int, folder: Path) -> None:
    """Print the times of `count` dispatches over n elements. folder: receives the shader."""
    a, b = np.full(n, 1.25, np.float32), np.full(n, 1.0, np.float32)
    (folder / "mul.wgsl").write_text(SHADER)
    device: Any = pd.device("webgpu:0")
    program: Any = device.load(pd.compile(source([folder / "mul.wgsl"], EXPORT, chain(count)), targets="webgpu"))
    function = program.chain
    left, right = device.upload(a), device.upload(b)
    np.testing.assert_array_equal(function(left, right).numpy(), a)
    results = [device.empty(n) for _ in range(2)]  # dispatches write them in alternation
    x, y, *written = (buffer.memory.block for buffer in (left, right, *results))
    # Bindings of each dispatch: the result of the dispatch before (at first x), y, and its own result.
    bindings = [[x if i == 0 else written[(i - 1) % 2], y, written[i % 2]] for i in range(count)]
    raw = Raw(program, bindings, n)
    raw()
    np.testing.assert_array_equal(results[(count - 1) % 2].numpy(), a)
    prepared = function.prepare(left, right)

    def waited(call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a call that also waits for the device, as raw calls do."""

        def call_and_wait() -> None:
            """Call, then wait until the device has finished."""
            call()
            device.synchronize()

        return call_and_wait

    contenders = {
        "raw": raw,
        "function of buffers": waited(lambda: function(left, right)),
        "prepared call": waited(prepared),
        "from NumPy to NumPy": lambda: function(a, b).numpy(),
    }
    show(f"{count} dispatches, {n} elements", alternate(contenders, rounds, calls=200 if count == 3 else 40))


NARROW = '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {int64 = false}>'


def measure_product(rounds: int) -> None:
    """Print the times of a product of 512 x 512 x 512 floats, in turns with our Vulkan device on the same driver.

    Vulkan is also measured without integers of 64 bits, with which kernels load two floats and which WGSL lacks.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    calls: dict[str, Callable[[], Any]] = {}
    narrow = f'module attributes {{hal.device.targets = [#hal.device.target<"vulkan", [{NARROW}]>]}} {{\n{PRODUCT}}}\n'
    artifacts = {
        "vulkan": pd.compile(PRODUCT, targets="vulkan"),
        "vulkan, int64 = false": pd.compile(narrow),
        "webgpu": pd.compile(PRODUCT, targets="webgpu"),
    }
    for name, artifact in artifacts.items():
        device: Any = pd.device(f"{name.partition(',')[0]}:0")
        program: Any = device.load(artifact)
        prepared = program.product.prepare(device.upload(a), device.upload(b))
        np.testing.assert_allclose(prepared().numpy(), a @ b, 1e-3, 1e-3)
        wait = getattr(device, "synchronize", lambda: None)  # calls on Vulkan wait themselves
        calls[name] = lambda prepared=prepared, wait=wait: (prepared(), wait())
    times = alternate(calls, rounds, calls=2)
    print("a product of 512 x 512 x 512 f32")
    for name, seconds in times.items():
        print(f"  {name:28} {seconds * 1e3:9.2f} ms  {times['vulkan'] / seconds:5.2f} of the speed on Vulkan")


def measure_emission() -> None:
    """Print how long emitting WGSL takes for kernels of the check files and for the product, least of nine."""
    emissions: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []  # module and other arguments of each call
    emit_module = backend.emit_module

    def recording(module: Any, *arguments: Any, **options: Any) -> Any:
        """Keep a copy of the module and the arguments, then call the original function."""
        emissions.append((module.clone(), arguments, options))
        return emit_module(module, *arguments, **options)

    backend.emit_module = recording
    for path in check_files.files():
        pd.compile(path, targets="webgpu")
    pd.compile(PRODUCT, targets="webgpu")  # the last one
    backend.emit_module = emit_module
    times = []
    for module, arguments, options in emissions:
        seconds = []
        for _ in range(9):
            copy = module.clone()  # emitting rewrites it
            start = time.perf_counter()
            emit_module(copy, *arguments, **options)
            seconds.append(time.perf_counter() - start)
        times.append(min(seconds) * 1e3)
    product = times.pop()
    times.sort()
    print(f"emitting {len(times)} kernels of the check files: median {statistics.median(times):.2f} ms, 90 % below "
          f"{times[len(times) * 9 // 10]:.2f}, longest {times[-1]:.2f}; {sum(ms > 1 for ms in times)} above a "
          f"millisecond; the product {product:.2f}")  # fmt: skip


def main() -> None:
    """Run the chosen parts, and print their times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--parts", nargs="*", default=["calls", "product", "emission"])
    args = parser.parse_args()
    if "calls" in args.parts:
        with tempfile.TemporaryDirectory() as folder:
            for count, n in ((3, 64), (100, 64), (3, 4096)):
                measure(count, n, args.rounds, Path(folder))
    if "product" in args.parts:
        measure_product(args.rounds)
    if "emission" in args.parts:
        measure_emission()


if __name__ == "__main__":
    main()
