"""Measures calls on a Vulkan device against raw calls through the same binding, and against the peer's Vulkan driver.

    python bench/vulkan_calls.py [--rounds N] [--device vulkan:0]

Raw: one command buffer recorded by hand and submitted again and again, a fence waited for; no checks, no arrays.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
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

import check_files

import pydispatch as pd
from pydispatch.runtime.devices.vulkan import api

TARGET = '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">'
# Kernels of 64 invocations for each workgroup, whose only constant is the number of elements.
HEAD = "#version 450\nlayout(local_size_x = 64) in;\nlayout(push_constant) uniform P { uint n; };\n"
SHADERS = {
    "simple_mul": "layout(set=0, binding=0) readonly buffer A { float a[]; };\n"
    "layout(set=0, binding=1) readonly buffer B { float b[]; };\nlayout(set=0, binding=2) buffer C { float c[]; };\n"
    "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] * b[i]; }",
    "simple_mul_inplace": "layout(set=0, binding=0) readonly buffer A { float a[]; };\n"
    "layout(set=0, binding=1) buffer B { float b[]; };\n"
    "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) b[i] *= a[i]; }",
}
"""GLSL of each kernel, after HEAD."""


def shader(folder: Path, name: str) -> Path:
    """Compile a shader of `SHADERS` to SPIR-V, and return its path in `folder`."""
    source, module = folder / f"{name}.comp", folder / f"{name}.spv"
    source.write_text(HEAD + SHADERS[name])
    command = ["glslangValidator", "-V", "--target-env", "vulkan1.1", str(source), "-o", str(module)]
    subprocess.run(command, check=True, capture_output=True)
    return module


def executable(name: str, spv: Path, bindings: int) -> str:
    """Return MLIR of an executable with the kernel of a SPIR-V file; all bindings but the last are read-only."""
    kinds = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * (bindings - 1)
    kinds.append("#hal.pipeline.binding<storage_buffer>")
    return f"""hal.executable private @{name} {{
    hal.executable.variant public @vulkan target({TARGET}) objects([#hal.executable.object<{{path = "{spv}"}}>]) {{
    hal.executable.export public @main ordinal(0)
      layout(#hal.pipeline.layout<constants = 1, bindings = [{", ".join(kinds)}]>)
      count(%device: !hal.device, %w: index) -> (index, index, index) {{
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%w]
        %c1 = arith.constant 1 : index
        hal.return %x, %c1, %c1 : index, index, index
      }}
    }}
  }}"""


T = "tensor<?xf32>"
EXAMPLE = f"""func.func @mixed(%a: {T}, %b: {T}) -> {T} {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : {T}
  %n = arith.index_cast %d : index to i32
  %0 = flow.dispatch @simple_mul::@vulkan::@main[%d](%n, %a, %b) : (i32, {T}{{%d}}, {T}{{%d}}) -> {T}{{%d}}
  %1 = flow.dispatch @simple_mul::@vulkan::@main[%d](%n, %0, %b) : (i32, {T}{{%d}}, {T}{{%d}}) -> {T}{{%d}}
  %2 = flow.dispatch @simple_mul_inplace::@vulkan::@main[%d](%n, %0, %1) : (i32, {T}{{%d}}, {T}{{%d}}) -> %1{{%d}}
  return %2 : {T}
}}"""
"""MLIR of @mixed: (a * b) * b, which the third dispatch multiplies in place by a * b."""


def chain(count: int) -> str:
    """Return a function of `count` dispatches, each of which reads the result of the dispatch before it."""
    lines = ["  %0 = flow.dispatch @simple_mul::@vulkan::@main[%d](%n, %a, %b) "]
    lines += [f"  %{i} = flow.dispatch @simple_mul::@vulkan::@main[%d](%n, %{i - 1}, %b) " for i in range(1, count)]
    typed = f": (i32, {T}{{%d}}, {T}{{%d}}) -> {T}{{%d}}\n"
    return f"""func.func @chain(%a: {T}, %b: {T}) -> {T} {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : {T}
  %n = arith.index_cast %d : index to i32
{typed.join([*lines, ""])}  return %{count - 1} : {T}
}}"""


def program_text(folder: Path, function: str) -> str:
    """Return a module with a function and the executables that it dispatches to; `folder` receives their kernels."""
    mul = executable("simple_mul", shader(folder, "simple_mul"), bindings=3)
    inplace = executable("simple_mul_inplace", shader(folder, "simple_mul_inplace"), bindings=2)
    body = f"{mul}\n{inplace if 'inplace' in function else ''}\n{function}\n"
    return f'module attributes {{hal.device.targets = [#hal.device.target<"vulkan", [{TARGET}]>]}} {{\n{body}}}\n'


class Raw:
    """The dispatches of a function, recorded by hand in one command buffer, which each call submits and waits for.

    Numbers in Vulkan's structures are those of its enums; a comment names them.

    Args:
        program: The loaded program, whose device and pipelines are used.
        steps: (kernel, blocks of memory in the order of its bindings) of each dispatch; a barrier follows each.
        n: Number of elements of each block.
    """

    def __init__(self, program: Any, steps: list[tuple[Any, list[Any]]], n: int) -> None:
        """Allocate descriptor sets, record the command buffer, and create the fence."""
        context = self.context = program._device._context
        ffi, calls = context.ffi, context.calls
        arena = self.arena = api.Arena()
        pool = arena.array("VkDescriptorPoolSize", 1)
        pool[0].type, pool[0].descriptorCount = 7, 4 * len(steps)  # STORAGE_BUFFER; no kernel has over 4 bindings
        create = arena.new("VkDescriptorPoolCreateInfo", maxSets=len(steps), poolSizeCount=1, pPoolSizes=pool)
        handle = ffi.new("VkDescriptorPool*")
        api.check(calls.vkCreateDescriptorPool(context.handle, create, ffi.NULL, handle), "pool")
        layouts = arena.array("VkDescriptorSetLayout", [kernel.set_layout for kernel, _ in steps])
        info = arena.new(
            "VkDescriptorSetAllocateInfo", descriptorPool=handle[0], descriptorSetCount=len(steps), pSetLayouts=layouts
        )
        sets = arena.array("VkDescriptorSet", len(steps))
        api.check(calls.vkAllocateDescriptorSets(context.handle, info, sets), "sets")
        allocate = arena.new("VkCommandBufferAllocateInfo", commandPool=context.command_pool, commandBufferCount=1)
        self.commands = arena.array("VkCommandBuffer", 1)
        api.check(calls.vkAllocateCommandBuffers(context.handle, allocate, self.commands), "command buffer")
        buffer = self.commands[0]
        calls.vkBeginCommandBuffer(buffer, arena.new("VkCommandBufferBeginInfo"))
        count = arena.array("uint32_t", [n])
        # SHADER_WRITE to SHADER_READ and SHADER_WRITE; SHADER_WRITE to HOST_READ
        barrier = arena.new("VkMemoryBarrier", srcAccessMask=0x40, dstAccessMask=0x60)
        to_host = arena.new("VkMemoryBarrier", srcAccessMask=0x40, dstAccessMask=0x2000)
        # Record each dispatch with its bindings, and a barrier after it.
        for i, (kernel, blocks) in enumerate(steps):
            for binding, block in enumerate(blocks):
                bound = arena.new("VkDescriptorBufferInfo", buffer=block.buffer, offset=block.offset, range=4 * n)
                write = arena.new(
                    "VkWriteDescriptorSet", dstSet=sets[i], dstBinding=binding, descriptorCount=1, descriptorType=7,
                    pBufferInfo=bound,
                )  # fmt: skip
                calls.vkUpdateDescriptorSets(context.handle, 1, write, 0, ffi.NULL)
            calls.vkCmdBindPipeline(buffer, 1, kernel.pipeline)  # 1: COMPUTE
            calls.vkCmdBindDescriptorSets(buffer, 1, kernel.layout, 0, 1, sets + i, 0, ffi.NULL)
            calls.vkCmdPushConstants(buffer, kernel.layout, 0x20, 0, 4, count)  # 0x20: SHADER_STAGE_COMPUTE
            calls.vkCmdDispatch(buffer, -(-n // 64), 1, 1)  # workgroups of 64 invocations
            is_last = i == len(steps) - 1
            stage, after = (0x4000, to_host) if is_last else (0x800, barrier)  # PIPELINE_STAGE_HOST, COMPUTE_SHADER
            calls.vkCmdPipelineBarrier(buffer, 0x800, stage, 0, 1, after, 0, ffi.NULL, 0, ffi.NULL)
        api.check(calls.vkEndCommandBuffer(buffer), "end")
        # Create the fence and what __call__ needs to submit the command buffer and wait for it.
        fence = ffi.new("VkFence*")
        lib = context.instance.lib
        api.check(lib.vkCreateFence(context.handle, arena.new("VkFenceCreateInfo"), ffi.NULL, fence), "fence")
        self.fence, self.fences = fence[0], fence
        self.submit = arena.new("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=self.commands)
        resolve = lib.vkGetDeviceProcAddr
        extra = api.functions(("vkWaitForFences", "vkResetFences"), resolve, context.handle)
        self.wait, self.reset = extra.vkWaitForFences, extra.vkResetFences

    def __call__(self) -> None:
        """Submit the command buffer, and wait until the device has run it."""
        context = self.context
        context.calls.vkQueueSubmit(context.queue, 1, self.submit, self.fence)
        self.wait(context.handle, 1, self.fences, 1, api.FOREVER)
        self.reset(context.handle, 1, self.fences)


def alternate(contenders: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, float]:
    """Return the median seconds per call of each contender; every round runs each of them `calls` times, in turn."""
    for call in contenders.values():
        for _ in range(max(2, calls // 5)):
            call()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(values) for name, values in times.items()}


def show(title: str, rows: dict[str, float]) -> None:
    """Print the seconds of contenders, and their ratio to those of "raw", or to the least ones if that is missing."""
    base = rows.get("raw", min(rows.values()))
    print(title)
    for name, seconds in rows.items():
        print(f"  {name:28} {seconds * 1e6:9.1f} us  {seconds / base:5.2f}x raw")


def peer_call(
    folder: Path, text: str, function: str, a: Any, b: Any, *flags: str
) -> tuple[Callable[[], Any] | None, str]:
    """Compile a program with iree-compile, and return (call through IREE's Vulkan driver, ""), or (None, reason).

    Args:
        folder: For files of the compiler.
        text: The program.
        function: Name of the function that is called.
        a: Its first argument.
        b: Its second argument.
        *flags: Flags of iree-compile.
    """
    from pydispatch.bench.peers import iree

    tool = Path(sys.executable).with_name("iree-compile")
    source, module = folder / f"{function}.mlir", folder / f"{function}.vmfb"
    source.write_text(text)
    done = subprocess.run(
        [tool, source, "-o", module, *flags], capture_output=True, text=True
    )  # fmt: skip
    if done.returncode:
        return None, done.stderr.strip().splitlines()[0] if done.stderr.strip() else "iree-compile failed"
    try:
        return iree.Module(module, "vulkan").raw(function, a, b), ""
    except Exception as error:
        return None, str(error).splitlines()[0]


def measure(device: str, n: int, rounds: int, folder: Path) -> None:
    """Print the times of functions of 3 and of 100 dispatches over n elements. folder: for files of the compilers."""
    a = np.full(n, 1.25, np.float32)
    b = np.full(n, 1.0, np.float32)
    opened: Any = pd.device(device)
    left, right = opened.upload(a), opened.upload(b)
    for title, text, steps in (
        ("three dispatches", program_text(folder, EXAMPLE), 3),
        ("100 dispatches", program_text(folder, chain(100)), 100),
    ):
        name = "mixed" if steps == 3 else "chain"
        program: Any = opened.load(pd.compile(text, targets="vulkan"))
        function = program[name]
        kernels = program._executor.executables.kernels
        buffers = [opened.empty(n) for _ in range(2)]  # dispatches write them in alternation
        blocks = [buffer.memory.block for buffer in buffers]
        x, y = left.memory.block, right.memory.block
        # (kernel, blocks of its bindings) of each dispatch; the last one writes blocks[1].
        if steps == 3:
            mul, inplace = kernels[0, 0], kernels[1, 0]
            plan = [(mul, [x, y, blocks[0]]), (mul, [blocks[0], y, blocks[1]]), (inplace, [blocks[0], blocks[1]])]
        else:
            mul = kernels[0, 0]
            plan = [(mul, [x if i == 0 else blocks[(i - 1) % 2], y, blocks[i % 2]]) for i in range(steps)]
        raw = Raw(program, plan, n)
        raw()
        np.testing.assert_array_equal(function(left, right).download(), buffers[1].download())
        prepared = function.prepare(left, right)
        contenders: dict[str, Callable[[], Any]] = {
            "raw": raw,
            "function of buffers": lambda f=function: f(left, right),
            "prepared call": prepared,
            "from NumPy to NumPy": lambda f=function: f(a, b).numpy(),
        }
        peer, why = peer_call(folder, text, name, a, b)
        if peer is not None:
            contenders["IREE, its cheapest call"] = peer
        show(f"{title}, {n} elements", alternate(contenders, rounds, calls=200 if steps == 3 else 40))
        if peer is None:
            print(f"  IREE has no figure: {why}")


PRODUCT = """func.func @product(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
  %c = linalg.matmul ins(%a, %b : tensor<512x512xf32>, tensor<512x512xf32>) outs(%f : tensor<512x512xf32>)
      -> tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}
"""
"""MLIR of @product: the product of two matrices of 512 x 512 floats."""


def measure_product(device: str, rounds: int, folder: Path) -> None:
    """Print medians and least times of a product of two matrices of 512 x 512 floats, ours and IREE's in turn."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    opened: Any = pd.device(device)
    program: Any = opened.load(pd.compile(PRODUCT, targets="vulkan"))
    contenders: dict[str, Callable[[], Any]] = {"product": program.product.prepare(opened.upload(a), opened.upload(b))}
    np.testing.assert_allclose(contenders["product"]().numpy(), a @ b, 1e-3, 1e-3)
    peer, why = peer_call(folder, PRODUCT, "product", a, b, "--iree-hal-target-device=vulkan")
    if peer is None:
        print(f"  IREE has no figure: {why}")
    else:
        contenders["IREE"] = peer
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(2 * rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    print("a product of 512 x 512 x 512 f32")
    for name, seconds in times.items():
        print(f"  {name:28} median {statistics.median(seconds) * 1e3:7.2f} ms, best {min(seconds) * 1e3:7.2f} ms")
    if peer is not None:
        middle, best = (f(times["IREE"]) / f(times["product"]) for f in (statistics.median, min))
        print(f"  IREE's time over ours: {middle:.2f} by medians, {best:.2f} by the best")


def measure_emission() -> None:
    """Print how long emitting SPIR-V takes for kernels of the check files and for the product, least of nine."""
    from pydispatch.compiler.backends.vulkan import functions

    emissions: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []  # module and other arguments of each call
    emit_module = functions.emit_module

    def recording(module: Any, *arguments: Any, **options: Any) -> bytes:
        """Keep a copy of the module and the arguments, then call the original function."""
        emissions.append((module.clone(), arguments, options))
        return emit_module(module, *arguments, **options)

    functions.emit_module = recording
    for path in check_files.files():
        pd.compile(path, targets="vulkan")
    pd.compile(PRODUCT, targets="vulkan")  # the last one
    functions.emit_module = emit_module
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
    above = sum(ms > 1 for ms in times)
    print(f"emitting {len(times)} kernels of the check files: median {statistics.median(times):.2f} ms, 90 % below "
          f"{times[len(times) * 9 // 10]:.2f}, longest {times[-1]:.2f}; {above} above a millisecond; "
          f"the product {product:.2f}")  # fmt: skip


def main() -> None:
    """Print the times of calls of 64 and of 4096 elements, of a product, and of emitting code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="vulkan:0")
    args = parser.parse_args()
    print(pd.device(args.device))
    with tempfile.TemporaryDirectory() as folder:
        for n in (64, 4096):
            measure(args.device, n, args.rounds, Path(folder))
        measure_product(args.device, args.rounds, Path(folder))
    measure_emission()


if __name__ == "__main__":
    main()
