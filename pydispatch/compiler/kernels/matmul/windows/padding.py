"""Inputs of sliding windows that are padded tensors: interior blocks read the tensor, edge blocks select the padding.

Edge blocks have no branches: they load the nearest element that exists, and select between it and the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts
from pydispatch.ir.affine_maps import is_nondecreasing
from pydispatch.ir.structured import Structured


@dataclass(frozen=True)
class PaddedInputs:
    """Emitter of elements of padded inputs of a window reduction, which tests only at edges whether they are padding.

    The inputs are padded along dimensions that windows slide over, and not along the dimension of the vectors.

    Attributes:
        elements: Tensors of the dispatch function.
        generic: The reduction.
        position_loop: The parallel loop along which a block computes several neighbouring results; None for none.
        sizes: Sizes of the loops of the reduction.
        pads: For each of these inputs (its ordinal among the inputs of the reduction, the pad that computes it).
    """

    elements: Elements
    generic: Structured
    position_loop: int | None
    sizes: tuple[Index, ...]
    pads: tuple[tuple[int, tensor.PadOp], ...]

    @staticmethod
    def of(elements: Elements, generic: Structured, channel_loop: int, position_loop: int | None) -> PaddedInputs:
        """Return the padded inputs of a reduction whose vectors are along `channel_loop`.

        A padded input is the result of a `tensor.pad` that no buffer stores, such as an image [n, y, x, c] with padding
        around y and x. Two kinds of padded inputs are left out, and computed by the rule of `tensor.pad`:

        - inputs that are padded along the channels, since some lanes of a vector would read padding;
        - inputs whose padded indices may decrease from step to step, such as y - ky: `are_interior` checks the first
          and the last step only.

        Args:
            elements: Tensors of the dispatch function.
            generic: The reduction.
            channel_loop: The loop of `generic` that vectors are along.
            position_loop: The parallel loop along which a block computes several neighbouring results; None for none.
        """
        sizes, pads = loop_sizes(elements, generic), list[tuple[int, tensor.PadOp]]()
        for ordinal, value in enumerate(generic.inputs):
            pad = value.owner
            if not isinstance(pad, tensor.PadOp) or elements.is_materialized(value):  # stored with its padding
                continue
            low, high = pad_amounts(elements, pad)
            indices = generic.maps[ordinal].results
            padded_indices = [
                i for i, before, after in zip(indices, low, high, strict=True) if before != 0 or after != 0
            ]
            is_padded_along_channels = any(channel_loop in _loops_in(index) for index in padded_indices)
            if padded_indices and not is_padded_along_channels and all(map(is_nondecreasing, padded_indices)):
                pads.append((ordinal, pad))
        return PaddedInputs(
            elements=elements, generic=generic, position_loop=position_loop, sizes=tuple(sizes), pads=tuple(pads)
        )

    def are_interior(self, build: Builder, origin: Sequence[Index], first: Index, width: int) -> SSAValue | bool:
        """Return whether a block of `width` positions from `first` on reads no padding at any step.

        A step is one iteration of the reduction, an element of the window. The elements at the first and at the last
        step and position are checked. All others are between them, since no padded index decreases along a loop.

        Args:
            build: Receives the code.
            origin: Index of each loop of the reduction at the start of the block. Indices of `position_loop` and of
                reduced loops are ignored.
            first: First index of the block along `position_loop`.
            width: Number of indices of the block along `position_loop`.

        Returns:
            A bool if it is known at compile time, else an i1.
        """
        first_point, last_point = self._extreme_points(build, origin, first, width)
        is_interior: SSAValue | bool = True
        for ordinal, pad in self.pads:
            low, high = pad_amounts(self.elements, pad)
            sizes = self.elements.dims(pad.source)
            lowest, highest = (evaluate(build, self.generic.maps[ordinal], p) for p in (first_point, last_point))
            for dim, size in enumerate(sizes):
                # The source begins at `low` in the padded tensor: test low - 1 < lowest and highest - low < size.
                if low[dim] != 0:
                    is_interior = both(build, is_interior, build.less(build.minus(low[dim], 1), lowest[dim]))
                if high[dim] != 0:
                    is_interior = both(build, is_interior, build.less(build.minus(highest[dim], low[dim]), size))
        return is_interior

    def _extreme_points(
        self, build: Builder, origin: Sequence[Index], first: Index, width: int
    ) -> tuple[list[Index], list[Index]]:
        """Return the indices of all loops at the first step and position of a block, and at the last ones.

        The parameters are those of `are_interior`.
        """
        first_point, last_point = list(origin), list(origin)
        for dim in self.generic.reduced_loops:
            first_point[dim], last_point[dim] = 0, build.minus(self.sizes[dim], 1)
        if self.position_loop is not None:
            first_point[self.position_loop] = first
            last_point[self.position_loop] = build.plus(first, width - 1)
        return first_point, last_point

    def define_elements(self, build: Builder, point: Sequence[Index], is_edge: bool) -> None:
        """Emit the padded elements that the reduction reads at a point of its loops, and register them for its body.

        The body uses registered values instead of applying the rule of `tensor.pad`, which emits a branch for each
        element. If an image is padded by 1 before its rows and columns, the value at [y, x] is the element of the image
        at [y - 1, x - 1]. At an edge, the value is a select between the nearest element of the image and the padding.

        Args:
            build: Receives the code.
            point: Index of each loop of the reduction.
            is_edge: Whether the elements may be padding; if not, they are read from the source of the pad without a
                check.
        """
        for ordinal, pad in self.pads:
            value = self.generic.inputs[ordinal]
            indices = evaluate(build, self.generic.maps[ordinal], point)
            is_defined = build.recall((value, tuple(indices))) is not None
            if is_defined:  # an earlier call has emitted it, for another position of the block that reads it
                continue
            if not is_edge:
                low, _ = pad_amounts(self.elements, pad)
                unpadded = [build.minus(index, amount) for index, amount in zip(indices, low, strict=True)]
                self.elements.define(build, value, indices, self.elements.at(build, pad.source, unpadded))
            elif self._has_nearest_element(pad):  # otherwise the body computes the padding by the rule of `tensor.pad`
                self.elements.define(build, value, indices, self._source_or_padding(build, pad, indices))

    def _has_nearest_element(self, pad: tensor.PadOp) -> bool:
        """Return whether each padded dimension of the source has elements, so that each padding has a nearest one."""
        low, high = pad_amounts(self.elements, pad)
        shape = tensor_type(pad.source).get_shape()  # -1 for a dynamic size, which may be 0
        amounts_and_sizes = zip(low, high, shape, strict=True)
        return all(size > 0 for before, after, size in amounts_and_sizes if before != 0 or after != 0)

    def _source_or_padding(self, build: Builder, pad: tensor.PadOp, indices: Sequence[Index]) -> SSAValue:
        """Emit the element of a padded tensor at `indices`, and return it.

        The element of the source at the clamped indices is loaded, and a select between it and the padding follows: no
        branch is needed.
        """
        exists, nearest = self._existence_and_nearest(build, pad, indices)
        block = pad.region.block
        mapping: dict[SSAValue, SSAValue] = {
            argument: build.value(index) for argument, index in zip(block.args, indices, strict=True)
        }
        # `point` is for `linalg.index`, which this block cannot have: its arguments are the indices.
        padding = clone_block(self.elements, build, block, mapping, point=[])[0]
        if isinstance(exists, bool):
            return self.elements.at(build, pad.source, nearest) if exists else padding
        return build.pure(arith.SelectOp(exists, self.elements.at(build, pad.source, nearest), padding))

    def _existence_and_nearest(
        self, build: Builder, pad: tensor.PadOp, indices: Sequence[Index]
    ) -> tuple[SSAValue | bool, list[Index]]:
        """Return whether an element of a padded tensor is in its source, and the indices of the nearest one that is."""
        low, high = pad_amounts(self.elements, pad)
        nearest: list[Index] = []
        exists: SSAValue | bool = True
        sizes = self.elements.dims(pad.source)
        for index, low_amount, high_amount, size in zip(indices, low, high, sizes, strict=True):
            unpadded = build.minus(index, low_amount)
            if low_amount != 0 or high_amount != 0:
                # The index is in the source if low - 1 < index and index - low < size. Else clamp it.
                exists = both(build, exists, build.less(build.minus(low_amount, 1), index))
                exists = both(build, exists, build.less(unpadded, size))
                unpadded = build.least(build.most(unpadded, 0), build.minus(size, 1))
            nearest.append(unpadded)
        return exists, nearest


def _loops_in(expression: AffineExpr) -> set[int]:
    """Return the loops that a coordinate of an input depends on, by their positions among the loops."""
    return {x.position for x in expression.dfs() if isinstance(x, AffineDimExpr)}
