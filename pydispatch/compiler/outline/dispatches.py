"""Properties of executables that their dispatches determine: variants, numbers of push constants, written bindings."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, ModuleOp, TensorType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal


def check_variants(module: ModuleOp) -> None:
    """Raise CompileError for a dispatch that names a variant which its hand-written executable does not have."""
    variants_of = {
        op.sym_name.data: [v.sym_name.data for v in op.body.block.ops if isinstance(v, hal.ExecutableVariantOp)]
        for op in module.body.block.ops
        if isinstance(op, hal.ExecutableOp)
    }
    for op in walk(module):
        if not isinstance(op, flow.DispatchOp):
            continue
        for reference in op.entry_points.data:
            names, executable = reference.nested_references.data, reference.root_reference.data
            # @executable::@variant::@export; @executable::@export names no variant.
            names_variant = len(names) == 2 and executable in variants_of
            if names_variant and names[0].data not in variants_of[executable]:
                raise CompileError(
                    f"executable '@{executable}' has no variant '@{names[0].data}'",
                    location_of(op),
                    f"variants: {', '.join('@' + n for n in variants_of[executable]) or 'none'}",
                )


def derive_constants(module: ModuleOp) -> None:
    """Set the number of push constants of each export layout that states none, from the scalars of its dispatches."""
    words: dict[tuple[str, str], int] = {}  # (executable, export) → 32-bit words of the scalars of a dispatch
    for op in walk(module):
        if isinstance(op, flow.DispatchOp):
            needed = sum(words_of(a.type, location_of(op)) for a in op.arguments if not is_tensor(a))
            for reference in op.entry_points.data:
                words[reference.root_reference.data, reference.nested_references.data[-1].data] = needed
    for op in module.body.block.ops:
        if not isinstance(op, (hal.ExecutableOp, hal.ExecutableSourceOp)):
            continue
        for export in walk(op):
            # A layout that states no number of constants has 0.
            if isinstance(export, hal.ExecutableExportOp) and export.layout.constants.data == 0:
                count = words.get((op.sym_name.data, export.sym_name.data), 0)
                layout = export.layout
                export.properties["layout"] = hal.PipelineLayoutAttr(IntAttr(count), layout.bindings, layout.flags)


def written_bindings(module: ModuleOp) -> dict[tuple[str, str], set[int]]:
    """Return (executable, export) → indices of the bindings that any dispatch of the export writes.

    A result that is tied to an argument writes its binding; other results have bindings after those of the arguments.
    """
    written: dict[tuple[str, str], set[int]] = {}
    for op in walk(module):
        if not isinstance(op, flow.DispatchOp):
            continue
        # The n-th tensor among the arguments has binding n. Here are the indices of these arguments.
        tensor_arguments = [i for i, argument in enumerate(op.arguments) if is_tensor(argument)]
        result_bindings: set[int] = set()
        next_binding = len(tensor_arguments)
        for result, tied_argument in zip(op.results, tied_operands(op), strict=True):
            if tied_argument >= 0:
                result_bindings.add(tensor_arguments.index(tied_argument))
            elif is_tensor(result):
                result_bindings.add(next_binding)
                next_binding += 1
        for reference in op.entry_points.data:
            key = (reference.root_reference.data, reference.nested_references.data[-1].data)
            written.setdefault(key, set()).update(result_bindings)
    return written


def is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def tied_operands(op: flow.DispatchOp) -> list[int]:
    """Return, for each result, the index of the argument that it is written into; -1 for a new tensor."""
    if op.tied_operands is None:
        return [-1] * len(op.results)
    return [int(i) for i in op.tied_operands.get_values()]
