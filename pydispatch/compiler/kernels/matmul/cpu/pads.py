"""Windows that read through a pad: blocks inside read what is padded, those at the edge choose without branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts
from pydispatch.ir.structured import Structured


class Pads:
    """The inputs of a reduction that are pads of no other dimensions than those of the windows.

    n: the dimension that vectors lie along; near: that of a block's neighbours.
    """

    def __init__(self, elements: Elements, generic: Structured, n: int, near: int | None) -> None:
        self.e, self.g, self.near = elements, generic, near
        self.sizes = loop_sizes(elements, generic)
        self.found: list[tuple[int, Any]] = []
        for number, value in enumerate(generic.inputs):
            if not isinstance(value, OpResult) or value.op.name != "tensor.pad" or elements.is_materialized(value):
                continue
            low, high = pad_amounts(elements, value.op)
            padded = [i for i, (a, b) in enumerate(zip(low, high, strict=True)) if a != 0 or b != 0]
            results = generic.maps[number].results
            if padded and not any(n in _dims(results[i]) for i in padded):
                self.found.append((number, value.op))

    def inside(self, build: Builder, at: Sequence[Index], low: Index, width: int) -> SSAValue | bool:
        """Return whether all steps of a block, `width` neighbours from `low`, read elements that are not padding."""
        first, last = list(at), list(at)
        for d in self.g.loops:
            first[d], last[d] = 0, build.minus(self.sizes[d], 1)
        if self.near is not None:
            first[self.near], last[self.near] = low, build.plus(low, width - 1)
        inside: SSAValue | bool = True
        for number, op in self.found:
            before, after = pad_amounts(self.e, op)
            sizes = self.e.dims(op.source)
            begin, end = (evaluate(build, self.g.maps[number], p) for p in (first, last))
            for from_, to, a, b, size in zip(begin, end, before, after, sizes, strict=True):
                if a != 0:
                    inside = _both(build, inside, build.less(build.minus(a, 1), from_))
                if b != 0:
                    inside = _both(build, inside, build.less(build.minus(to, a), size))
        return inside

    def prepare(self, build: Builder, point: Sequence[Index], edge: bool) -> None:
        """Compute the padded elements of a point, so that the body finds them."""
        for number, op in self.found:
            value = self.g.inputs[number]
            where = evaluate(build, self.g.maps[number], point)
            key = (value, tuple(where))
            if build.recall(key) is not None:
                continue
            if not edge:
                low, _ = pad_amounts(self.e, op)
                places = [build.minus(i, a) for i, a in zip(where, low, strict=True)]
                build.remember(key, self.e.at(build, op.source, places))
            elif self._has_nearest(op):
                build.remember(key, self._chosen(build, op, where))

    def _has_nearest(self, op: Any) -> bool:
        """Return whether each index has a nearest element: where nothing is padded, its own place is inside."""
        widths, sizes = pad_amounts(self.e, op), tensor_type(op.source).get_shape()
        return all(size > 0 for a, b, size in zip(*widths, sizes, strict=True) if a != 0 or b != 0)

    def _chosen(self, build: Builder, op: Any, where: Sequence[Index]) -> SSAValue:
        """Return the nearest element that exists, or the padding in its place."""
        low, high = pad_amounts(self.e, op)
        places: list[Index] = []
        inside: SSAValue | bool = True
        for index, before, after, size in zip(where, low, high, self.e.dims(op.source), strict=True):
            place = build.minus(index, before)
            if before != 0 or after != 0:
                inside = _both(build, inside, build.less(build.minus(before, 1), index))
                inside = _both(build, inside, build.less(place, size))
                place = build.least(build.most(place, 0), build.minus(size, 1))
            places.append(place)
        block = op.regions[0].block
        mapping = {a: build.value(i) for a, i in zip(block.args, where, strict=True)}
        padding = clone_block(self.e, build, block, mapping, [])[0]
        if isinstance(inside, bool):
            return self.e.at(build, op.source, places) if inside else padding
        return build.pure(arith.SelectOp(inside, self.e.at(build, op.source, places), padding))


def _dims(expression: AffineExpr) -> set[int]:
    return {x.position for x in expression.dfs() if isinstance(x, AffineDimExpr)}


def _both(build: Builder, lhs: SSAValue | bool, rhs: SSAValue | bool) -> SSAValue | bool:
    if isinstance(lhs, bool):
        return rhs if lhs else False
    if isinstance(rhs, bool):
        return lhs if rhs else False
    return build.pure(arith.AndIOp(lhs, rhs))
