"""memref.copy: every element by itself."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.ops.memref import load, store, writable
from pydispatch.compiler.emit.spirv.ops.parallel import spread
from pydispatch.compiler.emit.spirv.types import Index, known
from pydispatch.compiler.kernel_ir.hazards import Accesses, base_of


def _copy(f: FunctionEmitter, op: Operation) -> None:
    """Elementwise, spread over the invocations outside point loops."""
    source, target = f.memref(op.operands[0]), f.memref(op.operands[1])
    writable(f, target)
    sizes = [s if known(s) else t for s, t in zip(source.sizes, target.sizes, strict=True)]
    accesses = Accesses(base_of(op.operands[0]), base_of(op.operands[1]))

    def body(point: list[Index]) -> None:
        store(f, load(f, source, point), target, point)

    if target.root.kind == "function" or source.root.kind == "function":
        depth, f.points = f.points, f.points + 1
        spread(f, [(0, size, 1) for size in sizes], body, accesses)
        f.points = depth
    else:
        spread(f, [(0, size, 1) for size in sizes], body, accesses)


ROWS: dict[str, Lowering] = {"memref.copy": _copy}
