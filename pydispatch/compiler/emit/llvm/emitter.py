"""Emitter of LLVM IR text: the table of lowerings, and the emission of the functions of a module.

`emit_module` is the entry point. A lowering is a row `op name -> function(FunctionEmitter, op)` in a file of `ops/`,
by subject; a `Platform` holds what the CPU and CUDA do differently.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType

from xdsl.dialects.func import FuncOp

from pydispatch.compiler.emit.exports import check_exports
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import MASKED_LANES, MOST_VECTORS
from pydispatch.compiler.emit.llvm.module import ModuleWriter, Symbols
from pydispatch.compiler.emit.llvm.ops import (
    arith,
    atomics,
    calls,
    contract,
    conversions,
    divide,
    hal,
    math,
    memref,
    parallel,
    prefetch,
    prefix_scan,
    scf,
    splice,
    tile_registers,
    transpose,
    views,
    weights,
)
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.kernel_ir.edge_vectors import separate_edge_vectors
from pydispatch.compiler.kernel_ir.expand.expand import expand
from pydispatch.compiler.kernel_ir.expand.integers import TargetIntegers, expand_integers
from pydispatch.compiler.kernel_ir.full_loops import separate_full_loops
from pydispatch.compiler.kernel_ir.full_tiles import separate_full_tiles
from pydispatch.compiler.kernel_ir.index_sets import split_index_sets
from pydispatch.compiler.kernel_ir.outer_loops.vectorize import vectorize_outer_loops
from pydispatch.compiler.kernel_ir.prefix_scans import scan_in_vectors
from pydispatch.compiler.kernel_ir.private_arrays import unroll_loops_over_private_arrays
from pydispatch.compiler.kernel_ir.rows import lowerings_of
from pydispatch.compiler.kernel_ir.strided import interchange_strided_loops
from pydispatch.compiler.kernel_ir.workgroup_vectors import keep_arrays_in_registers

SUBJECTS = (
    arith, conversions, divide, math, memref, atomics, views, scf, parallel, calls, hal, contract, tile_registers,
    transpose, prefetch, prefix_scan, splice, weights,
)  # fmt: skip
"""Modules whose `ROWS` are the lowerings for CPUs."""


@functools.cache
def lowerings(subjects: tuple[ModuleType, ...] = SUBJECTS) -> dict[str, Lowering]:
    """Return the lowerings in the `ROWS` of these modules, by operation name."""
    return lowerings_of(subjects)


def emit_module(
    symbols: Symbols,
    platform: Platform[FunctionEmitter],
    exports: Sequence[str],
    subjects: tuple[ModuleType, ...] = SUBJECTS,
    notes: list[str] | None = None,
) -> str:
    """Return the LLVM IR text of the functions `exports` of a kernel IR module and all functions that they call.

    Args:
        symbols: The functions and globals of the module. Affine operations and views are expanded in place.
        platform: The target.
        exports: Names of the exported functions.
        subjects: The modules whose `ROWS` lower operations.
        notes: List that is extended by a line for each parallel loop around sequential loops: whether its iterations
            became lanes of vectors, or why not. None discards these lines.

    Raises:
        CompileError: An operation has no lowering.
    """
    writer = ModuleWriter(symbols, platform.fallible, lowerings(subjects))

    def emit_function(function: FuncOp, exported: bool) -> str:
        """Run the passes over a function, and return its LLVM IR; lines about its loops are added to `notes`."""
        lines = _run_passes(function, platform)
        if notes is not None:
            notes.extend(lines)
        return FunctionEmitter(writer, platform, function, exported).run()

    check_exports(writer.functions, exports)
    # Emission of a call adds the called helper to `writer.needed`.
    texts = [emit_function(writer.functions[name], exported=True) for name in exports]
    for name in writer.needed:  # grows during the loop: a helper that is emitted may call others
        texts.append(emit_function(writer.functions[name], exported=False))
    platform.finish(writer)  # adds globals besides the functions, such as tables of exports
    return writer.text(texts)


def _run_passes(function: FuncOp, platform: Platform[FunctionEmitter]) -> list[str]:
    """Expand operations without a lowering, and rewrite loops so that LLVM vectorizes them, in place.

    On CPUs, one thread runs the invocations of a workgroup in parallel loops, whose iterations become lanes of vectors.

    Returns:
        A line for each parallel loop around sequential loops: whether its iterations became lanes of vectors, or why
        not. The list is empty for GPUs.
    """
    expand(function)  # affine operations and views
    # Strided loops, in which invocation i of W processes the elements i, i + W, ..., are moved outside of the parallel
    # loops over invocations, which then process adjacent elements.
    interchange_strided_loops(
        function,
        has_masks=any(feature in platform.features for feature, _ in MASKED_LANES),
        # At most so many vectors of invocations are computed together: each takes registers.
        most_vectors=next((most for feature, most in MOST_VECTORS if feature in platform.features), 1),
    )
    notes: list[str] = []
    if platform.arch != "nvptx64":  # GPUs do not vectorize loops
        unroll_loops_over_private_arrays(function)  # so that LLVM replaces the arrays by registers
        notes = vectorize_outer_loops(function)
        scan_in_vectors(function)  # sequential loops that compute prefix sums become pyd.prefix_scan
        # Loop versions: for constant trip counts, and for tiles that lie inside of their arrays.
        separate_full_loops(function)
        separate_full_tiles(function)
        if "avx512f" in platform.features:  # the pass needs 32 vector registers of 512 bits
            keep_arrays_in_registers(function)
        separate_edge_vectors(function)  # vectors between the edges of an array are computed without masks
    split_index_sets(function)  # parallel loops are split at the edges of conditions on their index
    # has_word_counts: the machine uses the low 32 bits of a shift count
    expand_integers(function, TargetIntegers(has_word_counts=platform.has_word_counts))
    return notes
