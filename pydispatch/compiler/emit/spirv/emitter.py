"""Emitter of SPIR-V: the table of lowerings, and the emission of the entry points of a module.

`emit_module` is the door. A lowering is a row `op name -> function(FunctionEmitter, op)` in a file of `ops/`,
by subject. SPIR-V 1.3 for Vulkan 1.1: buffers of set 0, constants in one block of push constants as 32-bit words,
executable constants as specialization constants numbered by word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from pydispatch.compiler.emit.exports import check_exports
from pydispatch.compiler.emit.shaders import control_flow, grid, views
from pydispatch.compiler.emit.shaders.registers import WIDTHS
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.kernels import Kernels
from pydispatch.compiler.emit.spirv.ops import (
    arith,
    calls,
    casts,
    constants,
    floats,
    math,
    memory,
    scf,
)
from pydispatch.compiler.emit.spirv.watch import watch as watch_loops
from pydispatch.compiler.emit.spirv.words import NO_CONTROL, encode
from pydispatch.compiler.kernel_ir.expand.integers import TargetIntegers, expand_integers
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import integers
from pydispatch.compiler.kernel_ir.rows import lowerings_of
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel, distribute_kernels
from pydispatch.compiler.kernel_ir.simt.workgroup import Machine
from pydispatch.compiler.kernel_ir.storage import COHERENT_BINDINGS

SUBJECTS = (arith, floats, casts, math, memory, views, control_flow, scf, grid, calls, constants)
"""Modules whose `ROWS` are the lowerings, by operation name."""


@functools.cache
def lowerings() -> dict[str, Lowering]:
    """Return the lowerings of all modules of SUBJECTS, by operation name."""
    return lowerings_of(SUBJECTS)


def emit_module(
    module: ModuleOp,
    exports: Sequence[Export],
    constants: Sequence[str] = (),
    reports_cut_loops: bool = False,
) -> bytes:
    """Emit a SPIR-V module with an entry point for each export, and return its bytes.

    Args:
        module: A module of kernel IR, which is lowered to invocations in place.
        exports: The exports, each with a function in the module.
        constants: Keys of the executable constants, one for each 32-bit word, in order.
        reports_cut_loops: Whether an entry point takes one more buffer if its loops may have more iterations than some
            device runs. It writes 1 there if the device has cut a loop short.

    Raises:
        CompileError: An operation has no lowering.
    """
    lowered = distribute_kernels(module, exports, Machine())  # by the name of the export
    kernels = Kernels(module, lowerings(), constants)
    check_exports(kernels.functions, [export.name for export in exports])
    for export in exports:
        _export(kernels, export, lowered[export.name], reports_cut_loops)
    return kernels.m.bytes()


def _export(kernels: Kernels, export: Export, kernel: Kernel, reports_cut_loops: bool) -> None:
    """Emit the function and the entry point of one export.

    Args:
        kernels: State of the module that is emitted.
        export: The export.
        kernel: Its function, lowered to the code of one invocation.
        reports_cut_loops: Whether the entry point checks that the device did not cut long loops short.
    """
    f = FunctionEmitter(kernels, kernel)
    f.declared_size, f.layout = export.workgroup_size, export.layout
    # has_word_counts: shifts take only the low 32 bits of their count
    expand_integers(kernel.function, TargetIntegers(f.index_width, has_word_counts=True, registers=WIDTHS))
    f.region(kernel.function.body)
    if reports_cut_loops and f.iterations.may_exceed_limit:
        watch_loops(f)
    f.code.do("Return")
    _decorate_bindings(f)
    # The instruction that begins the function, and the declaration of the entry point with its workgroup size.
    module = kernels.m
    entry_id, void = module.id(), module.void()
    function_instruction = encode("Function", void, entry_id, NO_CONTROL, module.type("TypeFunction", void))
    f.code.lines[:0] = f.entry  # code that lowerings added to the beginning, where it dominates all other code
    f.code.finish(function_instruction)
    module.name(entry_id, export.name)
    module.entry(export.name, entry_id, [*f.interface.values()], kernel.size)


def _decorate_bindings(emitter: FunctionEmitter) -> None:
    """Decorate the variables of the bindings that an entry point accesses."""
    # Through a coherent binding, invocations of a workgroup read elements that other invocations wrote.
    coherent_bindings = integers(emitter.function, COHERENT_BINDINGS)
    for binding, variables in emitter.binding_variables.items():
        for variable in variables:
            if len(variables) > 1:  # a binding that is declared twice, such as an array of bytes and one of f32
                emitter.m.decorate(variable, "Aliased")
            if binding in coherent_bindings:
                emitter.m.decorate(variable, "Coherent")
