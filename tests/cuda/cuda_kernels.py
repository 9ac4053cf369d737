"""Compiles kernel IR to PTX and runs it on the interpreter, through the interface of tests/emit/kernels.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch.compiler.backends.cuda.llvm import GeneratedPtx, generate
from pydispatch.compiler.emit.llvm.nvptx.platform import entry_symbol
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout, ObjectFile, Target, Variant
from pydispatch.ir import parse

ARCH = "sm_80"


class Loaded:
    """A module on the interpreter. Buffers are changed in place."""

    def __init__(
        self, made: GeneratedPtx, exports: Sequence[str], words: int, races: bool = False, ptx: str | None = None
    ) -> None:
        from pydispatch.runtime.simulators.ptx.machine import Machine

        self.made, self.exports, self.words = made, tuple(exports), words
        self.machine = Machine(capability=(9, 0), races=races)
        self.program = self.machine.load(made.ptx if ptx is None else ptx, "kernel.ptx")

    def run(
        self,
        *bindings: np.ndarray,
        constants: Sequence[int] = (),
        grid: tuple[int, int, int] = (1, 1, 1),
        export: int = 0,
        executable_constants: Sequence[int] = (),
    ) -> int:
        memory, name = self.machine.memory, self.exports[export]
        given = [np.ascontiguousarray(b) for b in bindings]
        places = [memory.allocate(max(1, b.nbytes)) for b in given]
        for place, array in zip(places, given, strict=True):
            memory.write(place, array.tobytes())
        words = [c & 0xFFFFFFFF for c in constants]
        words += [0] * (self.words - len(words))
        params = np.array(places, np.uint64).tobytes() + np.array(words, np.uint32).tobytes()
        self._write_constants(executable_constants)
        block, shared = self.made.blocks[name], self.made.shared[name]
        self.machine.launch(self.program.entry(entry_symbol(name)), grid, block, params, dynamic_shared=shared)
        for place, array, binding in zip(places, given, bindings, strict=True):
            result = np.frombuffer(memory.read(place, array.nbytes), array.dtype).reshape(array.shape)
            if binding.flags.writeable:
                np.copyto(binding, result)
            memory.free(place)
        return 0

    keys: tuple[str, ...] = ()

    def _write_constants(self, values: Sequence[int]) -> None:
        words = [int(v) & 0xFFFFFFFF for v in values]
        for key in dict.fromkeys(self.keys):
            mine = [word for name, word in zip(self.keys, words, strict=False) if name == key]
            address, size = self.program.variable(key)
            assert size == 4 * len(mine)
            self.machine.memory.write(address, np.array(mine, np.uint32).tobytes())


def variant(
    source: str, *, constants: int = 0, bindings: int = 0, exports: Sequence[str] = ("kernel",),
    keys: tuple[str, ...] = (), workgroup_size: tuple[int, int, int] = (0, 0, 0),
    objects: Sequence[ObjectFile] = (), arch: str = ARCH, **hints: Any,
) -> Variant:  # fmt: skip
    """A variant for CUDA. hints: what only CPUs have."""
    layout = Layout(constants, tuple(Binding() for _ in range(bindings)))
    made = tuple(Export(name, number, layout, workgroup_size) for number, name in enumerate(exports))
    target = Target("cuda", "cuda-nvptx-fb", config=(("target", arch),))
    return Variant("executable", "variant", target, made, parse(source, "kernel.mlir"), tuple(objects), keys)


def emit(source: str, *, arch: str = ARCH, **options: Any) -> GeneratedPtx:
    """The PTX of a module."""
    return generate(variant(source, arch=arch, **options), arch)


def load(
    source: str, *, exports: Sequence[str] = ("kernel",), imports: Any = None, races: bool = False, **options: Any
) -> Loaded:
    """Compiled, ready to run. races: data races between invocations are errors."""
    made = Loaded(emit(source, exports=exports, **options), exports, options.get("constants", 0), races)
    made.keys = options.get("keys", ())
    return made
