"""What the SPIR-V emitter refuses, by name; and that every operation of the kernel dialects has a row or a reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
from kernels import elementwise  # noqa: E402
from vulkan_kernels import emit  # noqa: E402
from work import count_calls  # noqa: E402

from pydispatch.compiler.emit.llvm import emitter as llvm  # noqa: E402
from pydispatch.compiler.emit.spirv import emitter as spirv  # noqa: E402
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout  # noqa: E402
from pydispatch.errors import CompileError  # noqa: E402
from pydispatch.ir import parse  # noqa: E402

ONLY_CPU = {
    "pyd.contract", "pyd.transpose", "pyd.prefetch", "pyd.prefix_scan", "pyd.splice", "pyd.unpack",
    "pyd.configure_tiles", "pyd.release_tiles", "scf.parallel", "scf.forall", "memref.copy",
}  # fmt: skip
"""Rows of the LLVM emitter that this one has none for: docs/kernel-ir.md says on the CPU only, or kernel_ir/simt has
made plain loops of them."""
ONLY_GPU = {"gpu.thread_id"}

HEAD = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
%b = hal.interface.binding.subspan binding(0) : memref<8xf32>
%r = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<8xf32>
%x = memref.load %b[%c0] : memref<8xf32>
"""
REFUSED = [
    ("cf.br ^next\n^next:", "branches between blocks"),
    ("memref.store %x, %r[%c0] : memref<8xf32>", "only read"),
    ("%w = arith.constant 1 : i128", "i128"),
    ("%c = arith.cmpf ogt, %x, %x : f32\n%m = arith.select %c, %b, %r : memref<8xf32>", "one of two buffers"),
    ("%a = memref.alloca() : memref<8192xf32>", "32768 bytes of its own"),
    ("%k = hal.interface.constant.load[3] : i32", "outside the layout"),
    ('%k = hal.executable.constant.load "other" : i32', "'other' has no hal.executable.constant.block"),
    ("%v = vector.broadcast %x : f32 to vector<4xf32>", "vector"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_refusals(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        emit(f"func.func @kernel() {{{HEAD}{line}\nfunc.return\n}}", bindings=2, constants=1)


def test_a_barrier_in_a_parallel_loop() -> None:
    body = """
    "scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      gpu.barrier
      "scf.reduce"() : () -> ()
    }) : (index, index, index) -> ()
    """
    with pytest.raises(CompileError, match="inside a parallel loop"):
        emit(f"func.func @kernel() {{{HEAD}{body}\nfunc.return\n}}", bindings=2)


def test_recursion() -> None:
    body = "{ func.call @g() : () -> ()\n func.return }"
    text = f"func.func private @g() {body}\nfunc.func @kernel() {body}"
    with pytest.raises(CompileError, match="calls itself"):
        emit(text)


def test_emitting_is_linear() -> None:
    def calls(operations: int) -> int:
        body = "%v0 = arith.mulf %x0, %x1 : f32\n"
        body += "".join(f"%v{i} = arith.mulf %v{i - 1}, %x1 : f32\n" for i in range(1, operations))
        text = elementwise(body + f"%y0 = arith.mulf %v{operations - 1}, %x1 : f32", ["f32", "f32"], ["f32"])
        module = parse(text, "kernel.mlir")
        exports = (Export("kernel", 0, Layout(1, (Binding(),) * 3)),)
        return count_calls(lambda: spirv.emit_module(module, exports))

    calls(1)  # what is done once
    few, many = calls(100), calls(200)
    assert few < many < 2.2 * few


def test_rows() -> None:
    """The two emitters know the same operations."""
    assert llvm.lowerings().keys() - spirv.lowerings().keys() == ONLY_CPU
    assert spirv.lowerings().keys() - llvm.lowerings().keys() == ONLY_GPU
