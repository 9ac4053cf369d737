"""Code generation for the executables of an artifact: backends compile their variants, which are then packed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch.compiler.driver.progress import Tracker
from pydispatch.compiler.host.contract_program import ContractIndices
from pydispatch.compiler.kernel_ir.kernel import Binary, Variant
from pydispatch.compiler.target.backend import Dump, backend_named, backend_of
from pydispatch.compiler.target.cpu import without_fallbacks
from pydispatch.compiler.target.variants import Folders, build_variant, variants_of
from pydispatch.errors import CompileError, CompileWarning
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.logs import caller_level

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import PackedExecutable
    from pydispatch.formats.artifact.artifact import Variant as PackedVariant

MANIFEST_NOTES = {
    "calls": "imports", **{key: key for key in ("dynamic", "spirv", "ptx", "wgsl", "machine_model", "warnings")},
}  # fmt: skip
"""Optional keys of a variant in the manifest, and the note of its binary that each is taken from."""


def emit_executables(
    module: ModuleOp, folders: Folders, dump: Dump | None, tracker: Tracker, contracts: ContractIndices
) -> list[PackedExecutable]:
    """Compile the variants of all executables in parallel, and return the packed executables.

    Args:
        module: The module with the executables.
        folders: Folders that are searched for object files.
        dump: Receives (file name, content) of intermediate forms; None for none.
        tracker: Counts compiled exports.
        contracts: (executable, variant) → for each export, the index of its contract (a function that computes which
            elements the export reads and writes) in the program of contracts; None for an export without one.
    """
    from pydispatch.formats.artifact import artifact as formats

    def emit(variant: Variant) -> Binary:
        """Emit the code of a variant; `tracker` counts each of its exports when its code is complete."""
        variant.report_compiled = tracker.count_compiled
        return _emit(variant, dump)

    # Build all variants, and start the compilation of each.
    ops = [op for op in module.body.block.ops if isinstance(op, hal.ExecutableOp)]
    built = [[build_variant(op, v, folders) for v in variants_of(op)] for op in ops]
    for op, variants in zip(ops, built, strict=True):
        _mark_fallbacks(op, variants)  # variants for a generic CPU beside specific ones are optimized less
    tracker.begin_code(sum(len(variant.exports) for variants in built for variant in variants))
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        pending = [[workers.submit(emit, variant) for variant in variants] for variants in built]
    # Wait for the code of each executable, and pack it.
    executables = []  # in the order of the module, whichever variant is complete first
    for op, variants, binaries in zip(ops, built, pending, strict=True):
        packed = [_pack(v, b.result(), contracts) for v, b in zip(variants, binaries, strict=True)]
        for text in (text for p in packed for text in p.extra.get("warnings", ())):
            warnings.warn(text, CompileWarning, stacklevel=caller_level())
        exports = [e.name for e in variants[0].exports]  # all variants have the same exports
        executables.append(formats.PackedExecutable(op.sym_name.data, exports, packed))
    return executables


def _mark_fallbacks(executable: hal.ExecutableOp, variants: Sequence[Variant]) -> None:
    """Mark the variants for a generic CPU beside variants for specific CPUs of its architecture (`is_fallback`).

    Less time is spent on optimising them. variants: the variants of `executable`, in its order.
    """
    machines = [_machine(op.target) for op in variants_of(executable)]
    specific = without_fallbacks([machine for machine in machines if machine is not None])
    for variant, machine in zip(variants, machines, strict=True):
        variant.is_fallback = machine is not None and machine not in specific


def _machine(target: hal.ExecutableTargetAttr) -> Any:
    """Return the CPU that code of a target is for; None if it is for another kind of device, or is invalid."""
    with suppress(CompileError):
        backend = backend_of(target)
        return None if backend is None else backend.cpu_machine(target)
    return None


def _emit(variant: Variant, dump: Dump | None) -> Binary:
    """Compile one variant by the backend of its target, and return its code.

    dump: receives (EXECUTABLE_VARIANT.SUFFIX, content) of each intermediate; None for none.
    """
    backend = backend_named(variant.target.backend)
    assert backend is not None
    if dump is None:
        return backend.compile_variant(variant, None)

    def dump_with_prefix(suffix: str, content: Any) -> Any:
        """Dump an intermediate of `variant`: backends name only the suffixes of files."""
        return dump(f"{variant.executable}_{variant.name}.{suffix.lstrip('.')}", content)

    return backend.compile_variant(variant, dump_with_prefix)


def _pack(variant: Variant, binary: Binary, contracts: ContractIndices) -> PackedVariant:
    """Return a variant with its compiled code as an artifact stores it.

    contracts: (executable, variant) → indices of the contracts of its exports, as `emit_executables` is passed them.
    """
    from pydispatch.formats.artifact import artifact as formats

    # The keys of the manifest that only some variants have: notes of the backend, such as "machine_model", then the
    # contracts of the exports and the floating-point operations of a call of each.
    extra = {key: binary.notes[note] for key, note in MANIFEST_NOTES.items() if binary.notes.get(note)}
    if stated := contracts.get((variant.executable, variant.name)):
        extra["contracts"] = stated
    flops = [export.flops for export in variant.exports]
    if any(flops):
        extra["flops"] = flops
    return formats.Variant(
        name=variant.name,
        format=variant.target.format,
        data=binary.data,
        suffix=binary.suffix.lstrip("."),
        requires=binary.requires,
        alignment=binary.alignment,
        imports=binary.imports,
        extra=extra,
    )
