"""Sinking of reshapes below the operations that read their results.

Keys and values of attention that several heads share are repeated by a broadcast and a reshape. With the reshape below
the product, the repeated tensor needs no memory: the product and the operations on its result iterate over groups of
heads. Values are unchanged; only their indices differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.sizes import reassociation as groups_of
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.fusion.maps import defining_copy, generic_like
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

Shapes = dict[int, list[int]]
"""For each loop that is split: the sizes of the loops that replace it, outermost first."""


def collapse_after(op: Operation) -> SSAValue | None:
    """Make a generic read the source of a collapse_shape, with more loops, and collapse its result instead.

    Example: `y = exp(collapse_shape(x))`, with x of [4, 3, 64] and y of [12, 64], becomes `collapse_shape(exp(x))`.
    The loop of 12 iterations is split into loops of 4 and 3. Other operands that this loop indexes are expanded.

    Return the collapsed result; None if a size is dynamic, or no input is a collapse_shape that this applies to.
    """
    generic = structured(op)
    if len(op.results) != 1 or any(n < 0 for v in generic.operands for n in shape_of(v)):
        return None
    # The first input that is a suitable collapse_shape decides; `_loops_collapsed` returns {} for others.
    sizes_of_loop: Shapes = {}
    for value, map_ in zip(generic.inputs, generic.maps, strict=False):
        sizes_of_loop = sizes_of_loop or _loops_collapsed(generic, value, map_)
    if not sizes_of_loop or not _can_split_loops(generic, sizes_of_loop):
        return None
    split = _LoopSplit.of(sizes_of_loop, len(generic.iterators))
    # Each operand is expanded where a split loop indexes it, and indexed by the new loops.
    sizes = [split.sizes(shape_of(v), map_) for v, map_ in zip(generic.operands, generic.maps, strict=True)]
    operands = [_expanded(op, value, own_sizes) for value, own_sizes in zip(generic.operands, sizes, strict=True)]
    maps = [split.new_map(map_) for map_ in generic.maps]
    kinds = [kind for kind, loops in zip(generic.iterators, split.new_loops, strict=True) for _ in loops]
    body, n, first_loops = op.detach_region(0), len(generic.inputs), split.first_loops
    new = generic_like(op, body, operands[:n], operands[n:], maps, kinds, loops=first_loops)
    # The result is collapsed to its old shape. The output, whose sizes it has, is the last operand.
    properties = {"reassociation": reassociation(_consecutive_groups([len(group) for group in sizes[-1]]))}
    collapse = tensor.CollapseShapeOp(operands=[new], result_types=[op.results[0].type], properties=properties)
    return insert_before(collapse, op)


@dataclass(frozen=True)
class _LoopSplit:
    """Loops of a generic of which some are split into several nested ones.

    Attributes:
        sizes_of_loop: For each loop that is split, the sizes of the loops that replace it, such as {0: [4, 3]}.
        new_loops: For each loop, the loops that replace it: [[0, 1], [2]] if loop 0 is split, and loop 1 is not.
    """

    sizes_of_loop: Shapes
    new_loops: list[list[int]]

    @classmethod
    def of(cls, sizes_of_loop: Shapes, loop_count: int) -> _LoopSplit:
        """Return the split of `loop_count` loops, with consecutive numbers for the new ones."""
        new_loop_counts = [len(sizes_of_loop[loop]) if loop in sizes_of_loop else 1 for loop in range(loop_count)]
        return cls(sizes_of_loop, _consecutive_groups(new_loop_counts))

    @property
    def first_loops(self) -> list[AffineExpr]:
        """The first new loop of each loop, as an index: for a loop that is not split, the only one."""
        return [AffineExpr.dimension(loops[0]) for loops in self.new_loops]

    def sizes(self, shape: Sequence[int], map_: AffineMap) -> list[list[int]]:
        """Return the sizes that each dimension of an operand is expanded to: [[4, 3], [64]] for [12, 64]."""
        return [
            self.sizes_of_loop.get(index.position, [size]) if isinstance(index, AffineDimExpr) else [size]
            for size, index in zip(shape, map_.results, strict=False)
        ]

    def new_map(self, map_: AffineMap) -> AffineMap:
        """Return the map from the new loops to the indices of an expanded operand."""
        indices = list[AffineExpr]()
        for index in map_.results:
            if isinstance(index, AffineDimExpr):
                indices += map(AffineExpr.dimension, self.new_loops[index.position])
            else:  # split loops are only indices by themselves (`_can_split_loops`)
                indices.append(index.replace_dims_and_symbols(self.first_loops, []))
        return AffineMap(sum(map(len, self.new_loops)), 0, tuple(indices))


def _loops_collapsed(generic: Structured, value: SSAValue, map_: AffineMap) -> Shapes:
    """Return the loops of `generic` over dimensions that a collapse_shape has combined, with the sizes before it.

    An input collapsed from [4, 3, 64] to [12, 64] and read at (d0, d1) gives {0: [4, 3]}. Return an empty dict unless
    the input `value` is a collapse_shape of another generic's result.

    map_: the indexing map of the input `value`.
    """
    reshape = value.owner
    if not isinstance(reshape, Operation) or reshape.name != "tensor.collapse_shape":
        return {}
    source = reshape.operands[0]
    if not isinstance(source.owner, Operation) or source.owner.name != GENERIC:
        return {}
    if 1 in shape_of(source):
        return {}  # the rules of maps.py drop dimensions of size 1 instead
    if generic.contracts and not _is_repeated(source):
        # A product is faster with one collapsed loop. It is split only if that saves the memory of a repeated operand,
        # such as the keys of an attention with fewer key heads than query heads.
        return {}
    shapes: Shapes = {}
    for group, index in zip(groups_of(reshape), map_.results, strict=True):
        if len(group) > 1:
            if not isinstance(index, AffineDimExpr):  # such as d0 + d1: no loop of its own can be split
                return {}
            shapes[index.position] = [shape_of(source)[d] for d in group]
    return shapes


def _is_repeated(value: SSAValue) -> bool:
    """Return whether a tensor is a broadcast of another one."""
    copy = defining_copy(value)
    return copy is not None and len(dims_in(copy.maps[0])) < len(copy.iterators)  # a loop does not index the source


def _can_split_loops(generic: Structured, split: Shapes) -> bool:
    """Return whether loops can be split: parallel ones that index tensors only by themselves, without arithmetic, and
    that no linalg.index reads.

    split: the loops, with the sizes of the loops that replace each.
    """
    if any(generic.iterators[loop] != "parallel" for loop in split):
        return False
    if any(inner.name == "linalg.index" and inner.dim.value.data in split for inner in walk(generic.block)):  # type: ignore[attr-defined]
        return False
    # An index such as d0 + d1 or 2 * d0 would need arithmetic on the new loops.
    computed_indices = [r for m in generic.maps for r in m.results if not isinstance(r, AffineDimExpr)]
    return not any(split.keys() & r.used_dims() for r in computed_indices)


def _expanded(op: Operation, value: SSAValue, sizes: list[list[int]]) -> SSAValue:
    """Insert an expand_shape of a value before `op`, and return its result; the value itself if nothing is expanded.

    sizes: for each dimension of the value, the sizes of the dimensions that it is expanded to.
    """
    if all(len(group) == 1 for group in sizes):
        return value
    assert isinstance(value.type, TensorType)
    assert [prod(group) for group in sizes] == list(shape_of(value))
    shape = [n for group in sizes for n in group]
    type_ = TensorType(value.type.element_type, shape)
    groups = reassociation(_consecutive_groups([len(group) for group in sizes]))
    return insert_before(tensor.ExpandShapeOp(value, [], groups, shape, type_), op)


def _consecutive_groups(lengths: list[int]) -> list[list[int]]:
    """Return consecutive integers from 0 on in groups of these lengths: [1, 2] gives [[0], [1, 2]]."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [list(range(start, start + n)) for start, n in zip(starts, lengths, strict=True)]
