"""Kernel IR for workgroups -> kernel IR for invocations: the rule of every operation, applied to every entry point."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import CALLS
from pydispatch.compiler.kernel_ir.simt import points
from pydispatch.compiler.kernel_ir.simt.inline import copied, inline_helpers
from pydispatch.compiler.kernel_ir.simt.lower import Size, Spreading


def spread_kernels(module: ModuleOp, sizes: dict[str, Size]) -> ModuleOp:
    """A copy of the module for invocations. sizes: of the workgroup of each export. Raises CompileError, at the op."""
    copy = copied(module)
    inline_helpers(copy, list(sizes))
    for op in copy.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data in sizes and op.body.blocks:
            Spreading(op, sizes[op.sym_name.data], RULES).run()
    return copy


Rule = Callable[[Spreading, Operation], None]


RULES: dict[str, Rule] = {
    "memref.load": Spreading.load,
    "affine.load": Spreading.load,
    "memref.reshape": lambda s, op: s.load(op, 1),
    "memref.store": Spreading.store,
    "affine.store": Spreading.store,
    "memref.atomic_rmw": Spreading.store,
    **dict.fromkeys(CALLS, Spreading.call),
    "gpu.barrier": Spreading.user_barrier,
    **dict.fromkeys(("scf.if", "affine.if", "scf.index_switch"), Spreading.ways),
    **dict.fromkeys(("scf.execute_region", "memref.alloca_scope"), Spreading.ways),
    **dict.fromkeys(("scf.for", "affine.for", "scf.while"), Spreading.loop),
    "memref.copy": points.copy,
    "scf.parallel": points.parallel,
    "scf.forall": points.forall,
    "affine.parallel": points.affine_parallel,
}
