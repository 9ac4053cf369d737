"""Emitter of WGSL: the table of lowerings, and the emission of the entry points of a module.

`emit_module` is the door. A lowering is a row `op name -> function(FunctionEmitter, op)` in a file of `ops/`. The
text needs no feature of a device, unless f16 is wanted as a type of the language: buffers of group 0, all of them read
and written, constants as words of a uniform buffer, executable constants as overrides numbered by word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from pydispatch.compiler.emit.exports import check_exports
from pydispatch.compiler.emit.shaders import control_flow, grid, views
from pydispatch.compiler.emit.shaders.definitions import Definitions
from pydispatch.compiler.emit.shaders.registers import WIDTHS
from pydispatch.compiler.emit.wgsl import buffers
from pydispatch.compiler.emit.wgsl.function import HIDDEN_ZERO, FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.module import Module
from pydispatch.compiler.emit.wgsl.ops import arith, calls, casts, constants, floats, math, memory, scf
from pydispatch.compiler.emit.wgsl.words import is_free
from pydispatch.compiler.kernel_ir.expand.integers import TargetIntegers, expand_integers
from pydispatch.compiler.kernel_ir.kernel import Export
from pydispatch.compiler.kernel_ir.readers import integers
from pydispatch.compiler.kernel_ir.rows import lowerings_of
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel, distribute_kernels
from pydispatch.compiler.kernel_ir.simt.workgroup import Machine
from pydispatch.compiler.kernel_ir.storage import COHERENT_BINDINGS

SUBJECTS = (arith, floats, casts, math, memory, views, control_flow, scf, grid, calls, constants)
"""Modules whose `ROWS` are the lowerings."""


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of an emitted module.

    Attributes:
        name: Name of its function: that of the export if WGSL allows it.
        size: Invocations of a workgroup along x, y and z.
        workgroup_bytes: Bytes of workgroup memory.
        bindings: Ordinals of the bindings that it uses, ascending.
        reads_constants: Whether it reads layout constants (scalar arguments of the dispatch).
    """

    name: str
    size: tuple[int, int, int]
    workgroup_bytes: int
    bindings: tuple[int, ...]
    reads_constants: bool


@functools.cache
def lowerings() -> dict[str, Lowering]:
    """Return the lowering of each operation, by name, collected from the modules `SUBJECTS` (arith, memory, ...)."""
    return lowerings_of(SUBJECTS)


def emit_module(
    module: ModuleOp, exports: Sequence[Export], constants: Sequence[str] = (), has_f16: bool = False
) -> tuple[str, list[EntryPoint]]:
    """Emit a WGSL module with an entry point for each export, and return its text and the entry points.

    Args:
        module: A module of kernel IR, which is lowered to invocations in place.
        exports: The exports, each with a function in the module.
        constants: Keys of the executable constants, one for each 32-bit word, in order.
        has_f16: Whether f16 is a type of the language instead of computed in f32; a module that uses it begins with
            `enable f16;`.

    Raises:
        CompileError: An operation has no lowering.
    """
    lowered = distribute_kernels(module, exports, Machine())  # by the name of the export
    definitions, written = Definitions(module), Module()
    check_exports(definitions.functions, [export.name for export in exports])
    entries: list[EntryPoint] = []
    for export in exports:
        f = FunctionEmitter(written, definitions, lowerings(), lowered[export.name], constants)
        f.has_f16 = has_f16
        entries.append(_entry(f, export, lowered[export.name]))
    return written.text(), entries


def _entry(emitter: FunctionEmitter, export: Export, kernel: Kernel) -> EntryPoint:
    """Emit the entry point of an export, whose code is that of `kernel`, and return its description.

    Args:
        emitter: Emitter of the entry point, without statements.
        export: The export.
        kernel: Its function, lowered to the code of one invocation.
    """
    emitter.declared_size, emitter.layout = export.workgroup_size, export.layout
    # Bindings in which invocations of a workgroup read what others wrote before a barrier.
    emitter.synchronizes_buffers = bool(integers(kernel.function, COHERENT_BINDINGS))
    _set_element_types(emitter, kernel)
    # has_word_counts: shifts take only the low 32 bits of their count
    expand_integers(kernel.function, TargetIntegers(emitter.index_width, has_word_counts=True, registers=WIDTHS))
    emitter.region(kernel.function.body)  # a return at the end needs no statement
    # A variable that is combined with sums, so that compilers cannot regroup them. It would be 1 in an empty grid, in
    # which no code runs. So it is always 0, which compilers do not know.
    if HIDDEN_ZERO in emitter.module.declarations:
        emitter.entry.insert(0, f"  {HIDDEN_ZERO} = u32({emitter.built_in('workgroups')}.x == 0u);")
    name = _entry_name(export)
    size = ", ".join(map(str, kernel.size))
    comment = "" if name == export.name else f"// {export.name!r}\n"
    head = f"{comment}@compute @workgroup_size({size})\nfn {name}({', '.join(emitter.parameters.values())}) {{"
    emitter.module.entries.append("\n".join([head, *emitter.entry, *emitter.lines, "}"]))
    return EntryPoint(
        name=name,
        size=kernel.size,
        workgroup_bytes=emitter.workgroup_bytes,
        bindings=tuple(sorted(emitter.used_bindings)),
        reads_constants=emitter.reads_constants,
    )


def _set_element_types(emitter: FunctionEmitter, kernel: Kernel) -> None:
    """Set how the emitter declares bindings, and the allocations that atomic operations access."""
    # Keys of bindings are ("binding", ordinal), those of allocations their operations.
    declarations = buffers.buffer_declarations(kernel.ops, emitter.has_f16)
    emitter.atomic = {
        key: buffer for key, buffer in declarations.items() if buffer.is_atomic and not isinstance(key, tuple)
    }
    emitter.buffers = {
        key[1]: buffer for key, buffer in declarations.items() if isinstance(key, tuple) and key[0] == "binding"
    }


def _entry_name(export: Export) -> str:
    """Return the name of the function of an export: its own if WGSL allows it, and it is none of the library's."""
    is_permitted = is_free(export.name) and not export.name.startswith("pyd_")  # of library functions and definitions
    return export.name if is_permitted else f"entry{export.ordinal}"
