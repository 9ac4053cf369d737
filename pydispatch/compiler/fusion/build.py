"""Generics with other loops, copies, and the attributes of structured operations and reshapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, IntegerAttr, TensorType, i32
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before


def rewrite_loops(
    op: GenericOp, operands: Sequence[SSAValue], maps: Sequence[AffineMap], iterators: Iterable[str] | None = None
) -> SSAValue:
    """Insert a generic before `op` that has the body of `op`, but other operands or loops.

    Args:
        op: The generic. It is not changed; its body is copied.
        operands: The inputs, then the outputs of the new generic, as many of each as `op` has.
        maps: The indexing map of each operand, over the new loops.
        iterators: "parallel" or "reduction" for each new loop; by default, the iterator types of `op`.

    Returns:
        The first result of the new generic.
    """
    inputs, outputs = operands[: len(op.inputs)], operands[len(op.inputs) :]
    kinds = op.iterator_types if iterators is None else iterator_types(iterators)
    types = [output.type for output in outputs]
    return insert_before(generic_op(inputs, outputs, op.body.clone(), affine_maps(maps), kinds, types), op)


def insert_copy(
    op: Operation, value: SSAValue, index: AffineMap, type_: TensorType[Attribute], dims: Sequence[SSAValue] = ()
) -> SSAValue:
    """Insert a generic before `op` that copies elements of a tensor.

    Args:
        op: The operation before which it is inserted.
        value: The tensor that is read.
        index: The map from an index of the result to the index in `value`.
        type_: The type of the result.
        dims: The sizes of the dynamic dimensions of the result, in order.

    Returns:
        The copy.
    """
    body = Block(arg_types=[type_.element_type] * 2)  # an element of `value`, and one of the output, not read
    body.add_op(YieldOp(body.args[0]))
    empty = insert_before(tensor.EmptyOp(dims, type_), op)
    rank = type_.get_num_dims()
    maps = affine_maps([index, AffineMap.identity(rank)])
    kinds = iterator_types(["parallel"] * rank)
    return insert_before(generic_op([value], [empty], Region(body), maps, kinds, [type_]), op)


def indices_over(remaining: Sequence[int], loop_count: int) -> list[AffineExpr]:
    """Return the index of each of `loop_count` loops over the `remaining` ones; the constant 0 for the others."""
    return [
        AffineExpr.dimension(remaining.index(loop)) if loop in remaining else AffineExpr.constant(0)
        for loop in range(loop_count)
    ]


def generic_op(
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    body: Region,
    maps: ArrayAttr[AffineMapAttr],
    iterators: ArrayAttr[IteratorTypeAttr],
    types: Sequence[Attribute],
) -> GenericOp:
    """Create a linalg.generic like xDSL's constructor, without its checks of the arguments.

    Args:
        inputs, outputs: Its operands.
        body: Its body, which must have no parent.
        maps: Its `indexing_maps`.
        iterators: Its `iterator_types`.
        types: The types of its results.
    """
    properties: dict[str, Attribute] = {
        "indexing_maps": maps,
        "iterator_types": iterators,
        "operandSegmentSizes": _segment_sizes(len(inputs), len(outputs)),
    }
    return GenericOp.create(operands=[*inputs, *outputs], result_types=types, properties=properties, regions=[body])


@lru_cache(maxsize=256)
def _segment_sizes(*sizes: int) -> DenseArrayBase[Any]:
    """Return `operandSegmentSizes`: the number of operands in each group, here inputs and outputs, from a cache."""
    return DenseArrayBase.from_list(i32, sizes)


def affine_maps(maps: Iterable[AffineMap]) -> ArrayAttr[AffineMapAttr]:
    """Return the `indexing_maps` of a linalg.generic."""
    return ArrayAttr([AffineMapAttr(m) for m in maps])


def iterator_types(names: Iterable[str]) -> ArrayAttr[IteratorTypeAttr]:
    """Return the `iterator_types` of a linalg.generic."""
    return _iterator_types(tuple(names))


@lru_cache(maxsize=1024)
def _iterator_types(names: tuple[str, ...]) -> ArrayAttr[IteratorTypeAttr]:
    """Return the attribute from a cache: the generics of a model have few different `iterator_types`."""
    return ArrayAttr([IteratorTypeAttr(IteratorType(n)) for n in names])


def reassociation(groups: Iterable[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Return the `reassociation` of a tensor.expand_shape or tensor.collapse_shape with these groups of dimensions."""
    return _reassociation(tuple(tuple(group) for group in groups))


@lru_cache(maxsize=1024)
def _reassociation(groups: tuple[tuple[int, ...], ...]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Return the attribute of a reshape: ((0, 1), (2,)) groups the first two of three dimensions.

    Most reshapes of a model are equal, and creating this attribute dominates the cost of an expand_shape.
    """
    return ArrayAttr([ArrayAttr([IntegerAttr(d, 64) for d in group]) for group in groups])
