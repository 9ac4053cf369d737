"""Properties of the loops of kernels, which decide the passes of LLVM that compile them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, OpResult, SSAValue

from pydispatch.ir.core.walk import is_defined_outside, walk
from pydispatch.ir.dialects.pyd.contract import ContractOp


@dataclass(frozen=True)
class LoopProperties:
    """Features of the loops of a unit's kernels.

    Attributes:
        register_blocks: Whether a kernel computes a matrix product in register blocks (tiles of the result in vector
            registers) of several rows. Some passes of LLVM are then left out, which would find nothing.
        strided_loads_under_conditions: Whether an innermost loop loads elements at a stride under a condition. Such a
            loop needs LLVM's full effort, also in a unit with register blocks.
        constants_after_blocks: Whether a loop computes register blocks and then computes with constants, such as the
            bounds of a clamp, on their elements. LLVM must not load the constants before that loop.
    """

    register_blocks: bool = False
    strided_loads_under_conditions: bool = False
    constants_after_blocks: bool = False


def properties_of(functions: Sequence[FuncOp]) -> LoopProperties:
    """Return the properties of the loops of kernels that are compiled together."""
    return LoopProperties(
        register_blocks=any(map(_has_register_blocks, functions)),
        strided_loads_under_conditions=any(map(_guards_strided_loads, functions)),
        constants_after_blocks=any(map(_uses_constants_after_blocks, functions)),
    )


def _blocks_of_rows(function: FuncOp) -> list[ContractOp]:
    """Return the products of a kernel that are computed in register blocks of several rows."""
    products = (op for op in walk(function) if isinstance(op, ContractOp))
    return [op for op in products if cast("MemRefType[Attribute]", op.a.type).get_shape()[0] > 1]


def _has_register_blocks(function: FuncOp) -> bool:
    """Return whether a kernel computes a product in register blocks of several rows, one step of K at a time."""
    # A grouped product multiplies several steps of K at once, by other code (emit/llvm/ops/groups.py).
    return any(not op.grouped for op in _blocks_of_rows(function))


def _uses_constants_after_blocks(function: FuncOp) -> bool:
    """Return whether the only product of a kernel is in register blocks, and loops beside it compute with constants.

    LLVM loads constants before the outermost loop, so that they occupy vector registers while the sums of a block need
    all 32: LLVM then keeps sums on the stack, or copies each sum from register to register in every step. MobileNetV2,
    with clamps, takes 0.86 of the time if that is prevented (AMD EPYC Zen 4). Kernels with two products, such as
    attention, have more loops beside the blocks, in which constants are better loaded before: attention would take 1.03
    times as long.
    """
    products = _blocks_of_rows(function)
    if len(products) != 1:
        return False
    block = products[0].parent
    assert block is not None
    loops_beside = (op for op in block.ops if op.regions)
    return any(_is_constant(value) for loop in loops_beside for op in walk(loop) for value in op.operands)


def _is_constant(value: SSAValue) -> bool:
    """Return whether a value is a constant that kernels compute elements with: no index."""
    is_constant = isinstance(value, OpResult) and isinstance(value.op, arith.ConstantOp)
    return is_constant and not isinstance(value.type, IndexType)


def _guards_strided_loads(function: FuncOp) -> bool:
    """Return whether an innermost loop of a kernel loads elements at a stride under a condition.

    Such loops copy one channel of each position of an image, for a grouped convolution with channels last. 3x3 windows
    on 14x14x256 in 32 groups take 177 us with full effort, 206 us with the effort for register blocks (AMD EPYC Zen 4).
    """
    for loop in (op for op in walk(function) if isinstance(op, scf.ParallelOp)):
        body = loop.body.block
        branches = [op for op in body.ops if isinstance(op, scf.IfOp)]
        loads = (op for branch in branches for op in walk(branch) if isinstance(op, memref.LoadOp))
        if any(_is_strided(load, body) for load in loads):
            return True
    return False


def _is_strided(load: memref.LoadOp, body: Block) -> bool:
    """Return whether the address of a load depends on values of a loop body, but its last index does not."""
    varies = [not is_defined_outside(index, body) for index in load.indices]
    return any(varies) and not varies[-1]
