"""Kernel IR to SPIR-V: the table of lowerings, and the entry points of a module one after the other.

`emit_module` is the door. A lowering is a row `op name -> function(FunctionEmitter, op)` in a file of `ops/`,
by subject. SPIR-V 1.3 for Vulkan 1.1: buffers of set 0, constants in one block of push constants as 32-bit words,
executable constants as specialization constants numbered by word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.kernels import Kernels
from pydispatch.compiler.emit.spirv.ops import (
    affine,
    arith,
    calls,
    casts,
    copies,
    floats,
    hal,
    math,
    memref,
    parallel,
    scf,
    views,
)
from pydispatch.compiler.emit.spirv.watch import watch as watch_loops
from pydispatch.compiler.emit.spirv.words import OP
from pydispatch.compiler.kernel_ir.kernel import Export, Target
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

SUBJECTS = (arith, floats, casts, math, memref, copies, views, scf, parallel,
            affine, calls, hal)  # fmt: skip

INVOCATIONS = 64
"""Invocations of a workgroup that spreads points, when neither the export nor the function says."""


@functools.cache
def lowerings() -> dict[str, Lowering]:
    """Every row of every subject. Two rows for one op are an error of this package."""
    table: dict[str, Lowering] = {}
    for subject in SUBJECTS:
        rows: dict[str, Lowering] = subject.ROWS
        if clash := table.keys() & rows.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(rows)
    return table


def emit_module(
    module: ModuleOp,
    exports: Sequence[Export],
    constants: Sequence[str] = (),
    target: Target | None = None,
    libraries: Sequence[tuple[str, bytes]] = (),
    watch: bool = False,
) -> bytes:
    """A SPIR-V module with an entry point for each export.

    watch: entry points whose loops may be longer than some device runs take a buffer more, see spirv_iterations.

    constants: the keys of the executable constants, in order; target: what its configuration says about the device is a
    hint; libraries: (name, SPIR-V) of modules whose functions calls
    of external functions are resolved from. Raises CompileError, at the op, for whatever has no lowering.
    """
    kernels = Kernels(module, lowerings(), constants, libraries)
    for export in exports:
        _export(kernels, export, watch)
    return kernels.m.bytes()


def _export(kernels: Kernels, export: Export, watch: bool) -> None:
    function = _function(kernels, export.name)
    size = local_size(export, kernels, function)
    f = FunctionEmitter(kernels, function, size[0] * size[1] * size[2])
    m, name = kernels.m, export.name
    f.declared_size, f.layout = export.workgroup_size, export.layout
    memref.find_shared(f)
    f.region(function.body, lambda op: None)
    if watch and f.iterations.is_open:
        watch_loops(f)
    f.code.do("Return")
    for binding, variables in f.units.items():
        for variable in variables:
            if len(variables) > 1:
                m.decorate(variable, "Aliased")
            if ("binding", binding) in f.met:
                m.decorate(variable, "Coherent")
    made = m.id()
    void = m.void()
    head = [5 << 16 | OP["Function"], void, made, 0, m.type("TypeFunction", void)]
    f.code.lines[:0] = f.entry
    f.code.finish(head)
    m.name(made, name)
    m.entry(name, made, [*f.interface.values()], size)


def _function(kernels: Kernels, name: str) -> FuncOp:
    function = kernels.functions.get(name)
    if function is None or not function.body.blocks:
        defined = ", ".join(sorted(n for n, f in kernels.functions.items() if f.body.blocks)) or "none"
        raise CompileError(f"export '{name}' has no function in the executable", note=f"defined are: {defined}")
    if function.function_type.inputs.data or function.function_type.outputs.data:
        raise CompileError(
            f"export '{name}' must take no arguments and return nothing, got {function.function_type}",
            location_of(function),
            "reach buffers and scalars through hal.interface.binding.subspan and hal.interface.constant.load",
        )
    return function


def local_size(export: Export, kernels: Kernels, function: FuncOp) -> tuple[int, int, int]:
    """The invocations of a workgroup: what the function or the export says, else one where no points are spread."""
    stated = attribute(function, "pyd.invocations")
    if stated is not None:
        return (int(stated.value.data), 1, 1)  # type: ignore[attr-defined]
    if export.workgroup_size[0] > 0:
        x, y, z = export.workgroup_size
        return (x, y, z)
    spread = ("scf.parallel", "scf.forall", "affine.parallel")
    found = any(name in spread for each in kernels.reached(function) for name in kernels.ops(each))
    return (INVOCATIONS, 1, 1) if found else (1, 1, 1)
