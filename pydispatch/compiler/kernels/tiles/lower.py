"""Tiles → kernel IR without them: register blocks on CPUs, tensor cores or groups of lanes on CUDA, loops elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.compiler.kernels.tiles import cpu, gpu, lanes
from pydispatch.compiler.kernels.tiles.stages import stage_loops
from pydispatch.compiler.target.backend import require_backend
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal.dialect import ExecutableTargetAttr
from pydispatch.ir.dialects.pyd.tiles import MatmulOp, ReadTileOp

INVOCATIONS = 64
"""Invocations of a workgroup, for a function without the attribute `pyd.invocations`."""


def lower_tiles(module: ModuleOp, target: ExecutableTargetAttr) -> None:
    """Rewrite the operations on tiles of every function of a module for a target, in place.

    A tile is a matrix in workgroup memory. `pyd.read_tile` fills it from a part of a view, a memref, and `pyd.matmul`
    adds the product of two tiles to a third one, C. Stages are iterations whose tiles are copied ahead, if the user
    requests them for a loop. A block is part of C.

    | target | `pyd.read_tile` | `pyd.matmul` |
    |---|---|---|
    | CPU with `pyd.contract` | a copy into the tile; none if the product reads the view itself | register blocks |
    | GPU with `pyd.mma` | a loop over elements; asynchronous copies in loops with stages | `pyd.mma` if it fits |
    | others | a loop over elements | a loop over blocks of C |
    """
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and _tile_ops(function):
            backend = require_backend(target)
            # The compute capability of the GPU, such as 80; None if the target's emitter has no `pyd.mma`.
            generation = backend.mma_generation(target)
            stated = attribute(function, "pyd.invocations")
            invocations = int(stated.value.data) if isinstance(stated, IntegerAttr) else INVOCATIONS
            stage_loops(function, invocations, generation)  # erases the reads that it replaces by copies ahead
            machine = backend.cpu_machine(target)  # None if the target's emitter has no `pyd.contract`
            if machine is not None:
                _lower_on_cpu(_tile_ops(function), level_of(machine))
            else:
                _lower_on_gpu(_tile_ops(function), invocations, generation)


def _tile_ops(function: FuncOp) -> list[ReadTileOp | MatmulOp]:
    """Return the operations on tiles of a function, in order."""
    return [op for op in walk(function) if isinstance(op, ReadTileOp | MatmulOp)]


def _lower_on_cpu(ops: Sequence[ReadTileOp | MatmulOp], level: Level) -> None:
    """Replace the operations on tiles of a function for a CPU. No tile is filled that products can read in place.

    The vector registers and caches of the CPU, `level`, decide the sizes of register blocks.
    """
    reads = cpu.reads_for_products(ops)
    reads_in_place = {read for reads_of_factors in reads.values() for read in reads_of_factors if read is not None}
    for op in ops:
        if op in reads_in_place:
            continue
        build = Builder(Block(), source=op)
        if isinstance(op, ReadTileOp):
            cpu.read(build, op)
        else:
            cpu.multiply(build, op, level, reads[op])
        _replace(op, build.block)
    for read in reads_in_place:
        erase_op(read)


def _lower_on_gpu(ops: Sequence[ReadTileOp | MatmulOp], invocations: int, generation: int | None) -> None:
    """Replace the operations on tiles of a function for a GPU.

    A workgroup has `invocations` invocations. `generation` is the compute capability of a GPU with matrix instructions
    (`pyd.mma`), such as 80; None for other GPUs.
    """
    for op in ops:
        build = Builder(Block(), source=op)
        if isinstance(op, ReadTileOp):
            gpu.read(build, op)
        else:
            is_emitted = generation is not None and lanes.multiply(build, op, invocations, generation)
            if not is_emitted:  # `pyd.mma` does not fit the product
                gpu.multiply(build, op, invocations)
        _replace(op, build.block)


def _replace(op: ReadTileOp | MatmulOp, block: Block) -> None:
    """Replace an operation, which has no results, by the operations of a block."""
    enclosing_block = op.parent
    assert enclosing_block is not None
    for lowered in list(block.ops):
        lowered.detach()
        enclosing_block.insert_op_before(lowered, op)
    erase_op(op)
