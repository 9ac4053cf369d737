"""Compiles kernel IR to SPIR-V and runs it on lavapipe, through the interface of tests/emit/kernels.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lavapipe import device, validate

from pydispatch.compiler.emit.spirv.emitter import emit_module
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout
from pydispatch.ir import parse


class Loaded:
    """A module on the device. Buffers are changed in place."""

    def __init__(self, code: bytes, exports: Sequence[str]) -> None:
        self.code, self.exports = code, tuple(exports)

    def run(
        self,
        *bindings: np.ndarray,
        constants: Sequence[int] = (),
        grid: tuple[int, int, int] = (1, 1, 1),
        export: int = 0,
        executable_constants: Sequence[int] = (),
    ) -> int:
        words = [c & 0xFFFFFFFF for c in constants]
        words += [0] * (self.words - len(words))
        results = device().run(self.code, self.exports[export], grid, bindings, words, executable_constants)
        for binding, result in zip(bindings, results, strict=True):
            if binding.flags.writeable:
                np.copyto(binding, result)
        return 0

    words = 0


def emit(
    source: str, *, constants: int = 0, bindings: int = 0, exports: Sequence[str] = ("kernel",),
    keys: tuple[str, ...] = (), workgroup_size: tuple[int, int, int] = (0, 0, 0), **hints: Any,
) -> bytes:  # fmt: skip
    layout = Layout(constants, tuple(Binding() for _ in range(bindings)))
    made = tuple(Export(name, number, layout, workgroup_size) for number, name in enumerate(exports))
    return emit_module(parse(source, "kernel.mlir"), made, keys)


def load(source: str, *, exports: Sequence[str] = ("kernel",), imports: Any = None, **options: Any) -> Loaded:
    """Compiled, checked by spirv-val, ready to run."""
    code = emit(source, exports=exports, **options)
    validate(code, "vulkan1.1")
    validate(code, "vulkan1.3")
    made = Loaded(code, exports)
    made.words = options.get("constants", 0)
    return made
