"""Compiles kernel IR to WGSL and runs it through plain wgpu, with the interface of tests/emit/kernels.py."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import wgpu

from pydispatch.compiler.emit.wgsl.emitter import EntryPoint, emit_module
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout
from pydispatch.ir import parse


@functools.cache
def device() -> Any:
    """The first adapter with all that it has: tests bind more buffers than portable programs."""
    adapter = wgpu.gpu.request_adapter_sync()
    return adapter.request_device_sync(required_limits=dict(adapter.limits))


class Loaded:
    """A module on the device. Buffers are changed in place."""

    def __init__(self, text: str, entries: Sequence[EntryPoint], words: int) -> None:
        self.text, self.entries, self.words = text, entries, words
        self.module = device().create_shader_module(code=text)

    def run(
        self,
        *bindings: np.ndarray,
        constants: Sequence[int] = (),
        grid: tuple[int, int, int] = (1, 1, 1),
        export: int = 0,
        executable_constants: Sequence[int] = (),
    ) -> int:
        gpu, entry = device(), self.entries[export]
        given = enumerate(executable_constants)
        overrides = {str(n): value & 0xFFFFFFFF for n, value in given if f"@id({n})" in self.text}
        stage = {"module": self.module, "entry_point": entry.name, "constants": overrides}
        pipeline = gpu.create_compute_pipeline(layout="auto", compute=stage)
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        made = {
            n: gpu.create_buffer_with_data(data=_words(bindings[n]), usage=usage)
            for n in entry.bindings
        }  # fmt: skip
        encoder = gpu.create_command_encoder()
        one = encoder.begin_compute_pass()
        one.set_pipeline(pipeline)
        if made:
            slots = [{"binding": n, "resource": {"buffer": buffer}} for n, buffer in made.items()]
            one.set_bind_group(0, gpu.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=slots))
        if entry.reads_constants:
            words = np.zeros(-(-self.words // 4) * 4, np.uint32)
            words[: len(constants)] = [c & 0xFFFFFFFF for c in constants]
            uniform = gpu.create_buffer_with_data(data=words, usage=wgpu.BufferUsage.UNIFORM)
            slot = [{"binding": 0, "resource": {"buffer": uniform}}]
            one.set_bind_group(3, gpu.create_bind_group(layout=pipeline.get_bind_group_layout(3), entries=slot))
        one.dispatch_workgroups(*grid)
        one.end()
        gpu.queue.submit([encoder.finish()])
        for number, buffer in made.items():
            target = bindings[number]
            if target.flags.writeable:
                data = bytes(gpu.queue.read_buffer(buffer))[: target.nbytes]
                np.copyto(target, np.frombuffer(data, target.dtype).reshape(target.shape))
        return 0


def _words(data: np.ndarray) -> bytes:
    """The bytes of an array, in whole words."""
    found = data.tobytes()
    return found + b"\0" * (max(4, -(-len(found) // 4) * 4) - len(found))


def emit(
    source: str, *, constants: int = 0, bindings: int = 0, exports: Sequence[str] = ("kernel",),
    keys: tuple[str, ...] = (), workgroup_size: tuple[int, int, int] = (0, 0, 0), **hints: Any,
) -> tuple[str, list[EntryPoint]]:  # fmt: skip
    layout = Layout(constants, tuple(Binding() for _ in range(bindings)))
    made = tuple(Export(name, number, layout, workgroup_size) for number, name in enumerate(exports))
    return emit_module(parse(source, "kernel.mlir"), made, keys)


def load(source: str, *, imports: Any = None, **options: Any) -> Loaded:
    """Compiled, accepted by naga, ready to run."""
    text, entries = emit(source, **options)
    return Loaded(text, entries, options.get("constants", 0))
