"""Trial emission of a loop nest: its code is emitted once, inspected and discarded."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.tensor_ops.in_kernels import RULES


@dataclass
class Trial:
    """The outcome of a trial emission of a nest: where its code was emitted.

    Attributes:
        elements: Tensors of the trial, which recorded all computed elements, reductions and loads.
        dims: Sizes of the dimensions of the nest.
        levels: Builder of the code before the loops, then of the body of each loop, outermost first.
        indices: Counter of the loop over each dimension.
    """

    elements: Elements
    dims: list[Index]
    levels: list[Builder]
    indices: list[Index]


def emit_trial(frame: Frame, nest: LoopNest, depth: int | None) -> Trial:
    """Emit the code of a nest into a discarded block, and return the trial: what was emitted, and where.

    Every element is emitted in the outermost loop where its indices are defined (`Elements.at`). So for a softmax over
    f32[64, 100], the builders of its reductions have depth 1: inside of the loop over 64, outside of that over 100.

    `depth` is the number of outer loops. Row reductions and row results are emitted inside of these, before the inner
    loops, as the kernel will emit them. `depth` is None as long as the row reductions are not known: each reduction is
    then emitted where its result is read.
    """
    elements = probe(frame)
    # One loop for each dimension, all nested, before any code: `levels[d]` is the builder inside of d loops.
    dims = nest.dims(elements)
    levels, indices = [elements.entry], list[Index]()
    for size in dims:
        block = Block(arg_types=[IndexType()])
        levels.append(levels[-1].nested(block))
        indices.append(levels[-1].assume_counts_to(block.args[0], size))
    if depth is not None:
        nest.emit_row_reductions(elements, levels[depth], indices[:depth])
        for value, _ in nest.row_stores:
            elements.at(levels[depth], value, indices[:depth])
    for value, _ in nest.stores:
        _emit_element(elements, levels[-1], nest, value, indices)
    return Trial(elements=elements, dims=dims, levels=levels, indices=indices)


def _emit_element(elements: Elements, build: Builder, nest: LoopNest, value: SSAValue, indices: list[Index]) -> None:
    """Emit the element of the result `value` that the nest computes at `indices`.

    The indices of the nest of an update, such as an inserted slice, are those of the slice. The element has another
    position in the result.
    """
    if not isinstance(nest.space, UpdateStep):
        elements.at(build, value, indices)
        return
    update = nest.space
    position = update.position(elements, build, indices)  # emits the computation of the position, as the kernel does
    if update.is_only_update:  # the element that the update writes is the element of the result
        update.element(elements, build, indices)
    else:  # a later update may overwrite the element: compute it from all updates
        elements.at(build, value, position)


def probe(frame: Frame) -> Elements:
    """Return an Elements that emits into a detached block, with the same tensors as the kernel `frame`.

    A nest is emitted there on trial: its code is analyzed, and then discarded. Arguments of the block stand for the
    buffers and scalar arguments of the kernel.
    """
    block = Block()
    build = Builder(block, frame.source)
    elements = Elements(frame.source, build, RULES, frame.elements.reassociate)

    def block_argument(type_: Attribute) -> SSAValue:
        """Append an argument of this type to the block, and return it. A size or index is never negative."""
        argument = block.insert_arg(type_, len(block.args))
        if isinstance(type_, IndexType):
            build.assume_not_negative(argument)  # recorded for arithmetic on the argument
        return argument

    # The number of elements, if all tensors are accessed as one dimension.
    is_flat_dynamic = isinstance(frame.elements.flat, SSAValue)
    # A static number, or None, is taken over; a dynamic one becomes an argument of the block.
    elements.flat = block_argument(IndexType()) if is_flat_dynamic else frame.elements.flat
    # The arguments of the dispatch function. Elements of a tensor are loaded from the buffer that is registered for it.
    for argument in frame.source.body.block.args:
        if isinstance(argument.type, TensorType):
            buffer = frame.buffers[frame.tensors.index(argument)]
            elements.materialize(argument, block_argument(buffer.type))
        else:
            elements.scalars[argument] = block_argument(argument.type)
    # The values that the kernel has stored in memory so far: nests load them instead of computing them again.
    for value in frame.elements.stored_values():
        type_ = MemRefType(tensor_type(value).element_type, tensor_type(value).get_shape())
        elements.materialize(value, block_argument(type_))
    return elements
