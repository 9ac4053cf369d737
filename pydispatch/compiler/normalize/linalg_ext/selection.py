"""Selection of the first elements of rows by `pyd.top_k`, which one loop over a row computes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.normalize.build import Build
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody, element_of
from pydispatch.compiler.normalize.linalg_ext.rows import MixedSize
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of
from pydispatch.ir.dialects.pyd.top_k import TopKOp

SHORTEST_ROW = 32
"""Minimum number of elements of a row that a heap selects from. A shorter row is selected from by insertion into
registers, or sorted (`first_of_rows`)."""

MOST_IN_HEAP = 4096
"""Maximum number of elements of a heap: it stays in the second-level cache. More elements are selected by merging
sorted runs (`merge.py`)."""


def selects_by_heap(build: Build, count: MixedSize, size: MixedSize) -> bool:
    """Return whether a heap selects the first `count` elements of a row of `size`; else runs are merged.

    A heap is sequential, so it is not used for GPUs, whose invocations would be idle. Its size, `count`, must be known.
    A row of dynamic size is assumed to be long.
    """
    if build.has_invocations or isinstance(count, SSAValue) or not 0 < count <= MOST_IN_HEAP:
        return False
    return isinstance(size, SSAValue) or (count < size and size >= SHORTEST_ROW)


def top_of_rows(
    build: Build, tensors: Sequence[SSAValue], comparator: Region, count: int, position_type: Attribute
) -> list[SSAValue]:
    """Return the first `count` elements of the rows of tensors, (rows, n) each, and their positions in the row.

    Args:
        build: Builder of the code.
        tensors: The tensors; element i of a row of all of them belongs together.
        comparator: Region that takes a pair of elements of each tensor, and yields whether the first precedes.
        count: Number of elements.
        position_type: Integer type of the positions.
    """
    # `pyd.top_k` gets only the tensors that the comparator reads. The others are gathered at the selected positions.
    arguments = comparator.block.args  # a pair of elements for each of the first tensors
    pairs = [arguments[i : i + 2] for i in range(0, len(arguments), 2)]
    compared = [i for i, pair in enumerate(pairs) if any(element.uses for element in pair)]  # indices of tensors
    compared = compared or [0]  # the operation needs a tensor, also for a comparator that reads none
    inputs = [tensors[i] for i in compared]
    body = LoopBody([element_of(x) for x in inputs for _ in range(2)])
    replacements: dict[SSAValue, SSAValue] = {}  # argument of the comparator → argument of the new body
    for position, i in enumerate(compared):
        replacements |= zip(pairs[i], body.block.args[2 * position : 2 * position + 2], strict=True)
    any_argument = body.block.args[0]  # in place of arguments that the comparator does not read
    body.finish(*body.inline(comparator, [replacements.get(argument, any_argument) for argument in arguments]))
    rows = shape_of(tensors[0].type)[0]
    types = [TensorType(element, [rows, count]) for element in (*map(element_of, inputs), position_type)]
    # The results are elements of the compared tensors, and their positions.
    op = build.add(TopKOp(operands=[inputs], result_types=[types], regions=[Region(body.block)]))
    *selected, indices = op.res
    selected_of = dict(zip(compared, selected, strict=True))  # index of a tensor → its selected elements
    results = [selected_of.get(i) or _gathered(build, x, indices) for i, x in enumerate(tensors)]
    return [*results, indices]


def _gathered(build: Build, rows: SSAValue, indices: SSAValue) -> SSAValue:
    """Return the elements of each row at the indices in the same row of `indices`."""
    type_ = TensorType(element_of(rows), shape_of(indices.type))
    body = LoopBody([element_of(indices), type_.element_type])
    index = body.block.args[0]  # the element of `indices`
    column = index if isinstance(index.type, IndexType) else body.as_index(index)
    body.finish(body.extract(rows, [body.add(IndexOp(0)), column]))
    structure = Structure((AffineMap.identity(2),) * 2, parallel=(True, True))
    out = build.empty(type_, [build.dim(rows, 0)] if shape_of(indices.type)[0] == DYNAMIC else [])
    return generic(build, structure, [indices], [out], body.block)[0]
