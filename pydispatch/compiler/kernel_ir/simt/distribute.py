"""Pass that lowers workgroup code to the code of one invocation: applies the rule of each operation to all entry
points."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.atomics import UPDATES
from pydispatch.compiler.kernel_ir.expand.expand import expand
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.scan import Ops, ops_by_name
from pydispatch.compiler.kernel_ir.simt import parallel
from pydispatch.compiler.kernel_ir.simt.inline import inline_helpers
from pydispatch.compiler.kernel_ir.simt.own_rows import make_private
from pydispatch.compiler.kernel_ir.simt.subgroups import use_shuffles
from pydispatch.compiler.kernel_ir.simt.workgroup import PARALLEL, Machine, Size, Workgroup
from pydispatch.ir.functions import CALLS

INVOCATIONS = 64
"""Invocations of a workgroup with parallel loops, if neither the export nor the function states their number."""

Rule = Callable[[Workgroup, Operation], None]
"""Function that distributes an operation over the invocations of a workgroup, in place."""

RULES: dict[str, Rule] = {
    "memref.load": Workgroup.load,
    "memref.store": Workgroup.store,
    **dict.fromkeys(UPDATES, Workgroup.store),
    **dict.fromkeys(CALLS, Workgroup.call),
    "gpu.barrier": Workgroup.user_barrier,
    **dict.fromkeys(("scf.if", "scf.index_switch", "scf.execute_region", "memref.alloca_scope"), Workgroup.branches),
    **dict.fromkeys(("scf.for", "scf.while"), Workgroup.loop),
    "memref.copy": parallel.copy,
    **dict.fromkeys(PARALLEL, parallel.parallel),
}
"""Operation name -> its rule in uniform code; other operations stay as they are, and every invocation executes them."""


@dataclass(frozen=True)
class Kernel:
    """Entry point after lowering to the code of one invocation.

    Attributes:
        function: The function.
        size: Invocations of a workgroup along x, y and z.
        ops: Operations by name, as they were just before parallel loops were distributed. Emitters look up bindings,
            allocations and accesses in them.
        barriers: The barriers of the lowered function.
    """

    function: FuncOp
    size: Size
    ops: Ops
    barriers: Sequence[Operation] = ()


def distribute_kernels(
    module: ModuleOp, exports: Sequence[Export], machine: Machine, together: Container[str] = PARALLEL
) -> dict[str, Kernel]:
    """Lower the entry points of a module from workgroup code to the code of one invocation, in place.

    For example, a workgroup of 64 invocations runs `scf.parallel (%i) = (0) to (256)` as 4 iterations in each
    invocation: %i is the number of the invocation, plus 0, 64, 128 and 192. Helper functions are inlined; affine
    operations and views are expanded.

    Args:
        module: The module.
        exports: The exports of the executable.
        machine: Properties of the target.
        together: Names of operations that the invocations of a workgroup execute together. If no workgroup size is
            stated, it is `INVOCATIONS` for code with one of them, else 1.

    Returns:
        Name of an export -> the lowered kernel. Exports without a function are omitted.

    Raises:
        CompileError: An operation cannot be lowered.
    """
    functions = inline_helpers(module, [export.name for export in exports])
    kernels: dict[str, Kernel] = {}
    for export in exports:
        if export.name in functions:
            function, ops = functions[export.name]
            # Each pass returns whether it changed the function: `ops` is then collected again.
            if use_shuffles(function, ops):
                ops = ops_by_name(function)
            kernels[export.name] = _distribute(function, ops, _size(export, function, ops, together), machine)
    return kernels


def _distribute(function: FuncOp, ops: Ops, size: Size, machine: Machine) -> Kernel:
    """Lower a function to the code of one invocation in place. ops: its operations by name. size: of a workgroup."""
    if make_private(function, ops, prod(size)):
        ops = ops_by_name(function)
    if expand(function, ops):
        ops = ops_by_name(function)
    # Distribute the loops of uniform code. The other parallel loops, such as nested ones, become sequential.
    workgroup = Workgroup(function, ops, size, machine, RULES)
    workgroup.run()
    for op in (op for name in (*PARALLEL, "memref.copy") for op in ops.get(name, ())):
        if op.parent is not None:  # `run` has not replaced it
            parallel.in_order(workgroup, op)
    return Kernel(function, size, ops, workgroup.barriers)


def _size(export: Export, function: FuncOp, ops: Ops, together: Container[str]) -> Size:
    """Return the workgroup size that the function or the export states: invocations along x, y and z.

    If none is stated, it is `INVOCATIONS` for code that has an operation of `together`, else one invocation. `together`
    has the names of operations that the invocations of a workgroup execute together, such as parallel loops.
    """
    stated = attribute(function, "pyd.invocations")
    if isinstance(stated, IntegerAttr):
        return (int(stated.value.data), 1, 1)
    x, y, z = export.workgroup_size
    if x > 0:  # otherwise the export states no size
        return (x, max(1, y), max(1, z))
    return (INVOCATIONS if any(name in together for name in ops) else 1, 1, 1)
