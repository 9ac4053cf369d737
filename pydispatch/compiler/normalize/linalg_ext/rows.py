"""Tensors as rows: two dimensions, of which the second is the one that an operation runs along."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.normalize.build import Build
from pydispatch.compiler.normalize.linalg_ext.code import element_of
from pydispatch.compiler.normalize.moves import moved, projection
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.structure import shape_of

MixedSize = int | SSAValue
"""Size: a number where it is known, else a value of type index."""


def _reassociation(group_ranks: Sequence[int]) -> ArrayAttr[Attribute]:
    """Return the attribute that groups consecutive dimensions, so many in each group: [2, 1] -> [[0, 1], [2]]."""
    groups, start = list[Attribute](), 0
    for count in group_ranks:
        groups.append(ArrayAttr([IntegerAttr(d, i64) for d in range(start, start + count)]))
        start += count
    return ArrayAttr(groups)


def _product(sizes: Sequence[int]) -> int:
    """Return the product of sizes; dynamic if one is."""
    return DYNAMIC if DYNAMIC in sizes else prod(sizes)


def along_last(build: Build, value: SSAValue, along: int) -> SSAValue:
    """Return the tensor with dimension `along` moved to the end."""
    shape = list(shape_of(value.type))
    order = [*(d for d in range(len(shape)) if d != along), along]
    return _permuted(build, value, order)


def along_again(build: Build, value: SSAValue, along: int) -> SSAValue:
    """Return the tensor with its last dimension moved back to position `along`: undo `along_last`."""
    rank = len(shape_of(value.type))
    return _permuted(build, value, [*range(along), rank - 1, *range(along, rank - 1)])


def _permuted(build: Build, value: SSAValue, order: Sequence[int]) -> SSAValue:
    """Return `value` transposed: dimension i of the result is dimension order[i] of `value`."""
    if list(order) == sorted(order):
        return value
    shape = shape_of(value.type)
    dynamic = [build.dim(value, d) for d in order if shape[d] == DYNAMIC]
    target = build.empty(TensorType(element_of(value), [shape[d] for d in order]), dynamic)
    # Index of the result -> index of `value`: for the order (2, 0, 1), the map (d0, d1, d2) -> (d1, d2, d0).
    map_ = projection(len(shape), [list(order).index(d) for d in range(len(shape))])
    return moved(build, value, target, map_)[0]


def collapsed_rows(build: Build, value: SSAValue) -> SSAValue:
    """Return a tensor of shape (..., n) reshaped to (rows, n); one of shape (n) becomes (1, n)."""
    shape = list(shape_of(value.type))
    if len(shape) == 2:
        return value
    element = element_of(value)
    if len(shape) == 1:
        expand = tensor.ExpandShapeOp.build(
            operands=[value, build.dynamic_dims(value)], result_types=[TensorType(element, [1, shape[0]])],
            properties={
                "reassociation": _reassociation([2]),
                "static_output_shape": DenseArrayBase.from_list(i64, [1, shape[0]]),
            },
        )  # fmt: skip
        return build.add(expand).result
    return _collapsed(build, value, group_ranks=[len(shape) - 1, 1])


def _collapsed(build: Build, value: SSAValue, group_ranks: Sequence[int]) -> SSAValue:
    """Collapse each group of adjacent dimensions into one dimension. group_ranks: the number of dimensions of each."""
    shape, sizes, start = list(shape_of(value.type)), list[int](), 0
    for count in group_ranks:
        sizes.append(_product(shape[start : start + count]))
        start += count
    type_ = TensorType(element_of(value), sizes)
    collapse = tensor.CollapseShapeOp.build(
        operands=[value], result_types=[type_], properties={"reassociation": _reassociation(group_ranks)}
    )
    return build.add(collapse).results[0]


def joined_blocks(build: Build, value: SSAValue) -> SSAValue:
    """Reshape (rows, blocks, n) to (rows, blocks * n)."""
    return _collapsed(build, value, group_ranks=[1, 2])


def sliced_rows(build: Build, value: SSAValue, count: MixedSize) -> SSAValue:
    """Return the first `count` elements of each row of a matrix. count: a number, or a value of type index."""
    rows, size = shape_of(value.type)
    if size == count:
        return value
    dynamic = [build.dim(value, 0)] if rows == DYNAMIC else []
    if isinstance(count, SSAValue):
        dynamic.append(count)
    sizes = [rows, DYNAMIC if isinstance(count, SSAValue) else count]
    extract = tensor.ExtractSliceOp.build(
        operands=[value, [], dynamic, []],
        result_types=[TensorType(element_of(value), sizes)],
        properties={
            "static_offsets": DenseArrayBase.from_list(i64, [0, 0]),
            "static_sizes": DenseArrayBase.from_list(i64, sizes),
            "static_strides": DenseArrayBase.from_list(i64, [1, 1]),
        },
    )
    return build.add(extract).results[0]


def expanded_rows(build: Build, value: SSAValue, shape: Sequence[int], dynamic: Sequence[SSAValue]) -> SSAValue:
    """Return a matrix (rows, n) reshaped to `shape`, (..., n). dynamic: the dynamic sizes of `shape`, in order."""
    if len(shape) == 2:
        return value
    if len(shape) == 1:
        return _collapsed(build, value, group_ranks=[2])
    expand = tensor.ExpandShapeOp.build(
        operands=[value, list(dynamic)], result_types=[TensorType(element_of(value), shape)],
        properties={
            "reassociation": _reassociation([len(shape) - 1, 1]),
            "static_output_shape": DenseArrayBase.from_list(i64, list(shape)),
        },
    )  # fmt: skip
    return build.add(expand).result


def size_of(build: Build, value: SSAValue, axis: int) -> MixedSize:
    """Return a size, as a number where it is known."""
    size = shape_of(value.type)[axis]
    return build.dim(value, axis) if size == DYNAMIC else size


def as_value(build: Build, size: MixedSize) -> SSAValue:
    """Return a size as a value."""
    return build.index(size) if isinstance(size, int) else size


def blocks_of(build: Build, size: MixedSize, block: MixedSize) -> MixedSize:
    """Return how many blocks of `block` elements hold `size` elements: `size` / `block`, rounded up."""
    if isinstance(size, int) and isinstance(block, int):
        return -(-size // max(1, block))  # a block of 0 elements holds the 0 elements of an empty row
    return build.add(arith.CeilDivUIOp(as_value(build, size), as_value(build, block))).result
