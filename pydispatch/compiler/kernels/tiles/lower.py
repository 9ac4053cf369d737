"""Tiles → kernel IR without them: register blocks on CPUs, tensor cores or groups of lanes on CUDA, loops elsewhere."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernels.matmul.cpu.tiles import level_of
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
        if not isinstance(function, FuncOp):
            continue
        ops = [op for op in walk(function) if isinstance(op, ReadTileOp | MatmulOp)]
        if not ops:
            continue
        backend = require_backend(target)
        # The CPU, None if the target's emitter has no `pyd.contract`. The compute capability of the GPU, such as 80,
        # None if the emitter has no `pyd.mma`.
        machine, generation = backend.cpu_machine(target), backend.mma_generation(target)
        stated = attribute(function, "pyd.invocations")
        invocations = int(stated.value.data) if isinstance(stated, IntegerAttr) else INVOCATIONS
        # Reads that loops with stages or, on a CPU, products do themselves are left out below.
        stage_loops(function, invocations, generation)
        ops = [op for op in ops if op.parent is not None]  # `stage_loops` erases the reads that it replaces
        level = None if machine is None else level_of(machine)
        reads = cpu.reads_for_products(ops) if level is not None else {}
        # Reads that products do themselves: no tile is filled for them.
        merged = {read for reads_of_factors in reads.values() for read in reads_of_factors if read is not None}
        # Each of the other operations is replaced by code that is built in a block of its own.
        for op in (op for op in ops if op not in merged):
            build = Builder(Block(), op)
            if isinstance(op, ReadTileOp):
                if level is None:
                    gpu.read(build, op)
                else:
                    cpu.read(build, op)
            elif level is not None:
                cpu.multiply(build, op, level, reads[op])
            elif generation is None or not lanes.multiply(build, op, invocations, generation):
                gpu.multiply(build, op, invocations)
            _replace(op, build.block)
        for read in merged:
            erase_op(read)


def _replace(op: ReadTileOp | MatmulOp, block: Block) -> None:
    """Replace an operation, which has no results, by the operations of a block."""
    around = op.parent
    assert around is not None
    for lowered in list(block.ops):
        lowered.detach()
        around.insert_op_before(lowered, op)
    erase_op(op)
