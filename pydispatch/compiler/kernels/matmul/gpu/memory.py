"""Memory of workgroups and invocations of a GPU: allocation, alignment of accesses, loads of consecutive elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.types import scalar_width
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.compiler.tensor_ops.rules.joins import is_in_source, pad_amounts

PRIVATE = 5
"""Number of the memory space of a memref that is private to an invocation."""

ACCESS_BYTES = 16
"""Size in bytes of the widest access. Rows of a tile are padded by as much, so that they begin in different banks of
workgroup memory."""


def storage(build: Builder, element: Attribute, size: int, space: int) -> SSAValue:
    """Allocate `size` elements of workgroup memory or of an invocation's own memory, aligned for the widest access.

    space: WORKGROUP or PRIVATE.
    """
    allocation = memref.AllocOp if space == WORKGROUP else memref.AllocaOp
    op = allocation.get(element, ACCESS_BYTES, shape=[size])
    op.results[0]._type = MemRefType(element, [size], NoneAttr(), IntegerAttr(space, 64))
    return build.add(op)


def state_alignment(op: Operation, alignment: int) -> None:
    """State the alignment of a load or store in bytes, at most that of the widest access."""
    op.attributes["alignment"] = IntegerAttr(min(ACCESS_BYTES, alignment), 64)


def load_contiguous(
    elements: Elements, build: Builder, value: SSAValue, points: Sequence[list[Index]]
) -> list[SSAValue]:
    """Emit the loads of consecutive elements of an argument or a padded argument, and return the elements.

    Args:
        elements: Tensors of the dispatch function.
        build: Receives the code.
        value: The argument, a pad of one, or a view of either.
        points: Indices of the elements, which are neighbours in memory.
    """
    value = source_of(value)  # the argument or pad that views lead to
    if isinstance(value, OpResult):
        assert isinstance(value.op, tensor.PadOp)
        return _load_padded(elements, build, value.op, points)
    values = [elements.at(build, value, point) for point in points]
    # The first load states the alignment of all, so that the emitter can merge them.
    load = values[0].owner
    assert isinstance(load, memref.LoadOp)
    state_alignment(load, len(points) * scalar_width(values[0].type) // 8)
    return values


def _load_padded(
    elements: Elements, build: Builder, pad: tensor.PadOp, points: Sequence[list[Index]]
) -> list[SSAValue]:
    """Emit a branch that loads the elements of a padded tensor at `points`, or computes them if they are padding.

    Either all of them are padding or none is, so that a single branch decides. The loads stay in it.
    """
    is_in_pad_source = is_in_source(elements, build, pad, points[0])
    low, _ = pad_amounts(elements, pad)
    loaded, padded = Block(), Block()
    inner = build.nested(loaded, pins_loads=True)
    unpadded = [[inner.minus(i, low_amount) for i, low_amount in zip(point, low, strict=True)] for point in points]
    values = load_contiguous(elements, inner, pad.source, unpadded)
    inner.add(scf.YieldOp(*values))
    inner = build.nested(padded, pins_loads=True)
    inner.add(scf.YieldOp(*(_padding(elements, inner, pad, point) for point in points)))
    if not isinstance(is_in_pad_source, SSAValue):  # a bool: known at compile time
        is_in_pad_source = build.pure(arith.ConstantOp(IntegerAttr(int(is_in_pad_source), 1)))
    choice = scf.IfOp(is_in_pad_source, [v.type for v in values], Region(loaded), Region(padded))
    build.add(choice)
    return list(choice.results)


def _padding(elements: Elements, build: Builder, pad: tensor.PadOp, point: Sequence[Index]) -> SSAValue:
    """Return the padding element at the indices `point` of the padded tensor."""
    block = pad.region.block
    mapping: dict[SSAValue, SSAValue] = {
        argument: build.value(i) for argument, i in zip(block.args, point, strict=True)
    }
    # `clone_block` needs a `point` only for `linalg.index`: here the indices are arguments of the block.
    (padding,) = clone_block(elements, build, block, mapping, point=[])
    return padding
