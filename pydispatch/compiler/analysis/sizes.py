"""Sizes of tensors as terms over values of the host function: two equal terms are the same size.

The rule of an operation (`compiler/tensor_ops`) states the sizes of its results by those of its operands; this module
follows such statements through producers. A `Dim` that remains in a term is the size of an argument, or of the result
of an operation whose rule states nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.terms import Product, SizeElement, Stated, Sum, Term, add, multiply
from pydispatch.ir.values import Dim, constant_index, shape_of

Known = dict[tuple[SSAValue, int], Term]
"""(tensor, axis) → its size."""
_CACHE = threading.local()
"""Has the attribute `known`, a `Known`, inside of `size_cache` only."""


def term_of(value: SSAValue) -> Term:
    """Return the term of an index value: an integer for a constant, the size for a `tensor.dim`, else the value."""
    known = constant_index(value)
    if known is not None:
        return known
    op = value.owner
    if isinstance(op, Operation) and op.name == "tensor.dim":
        axis = constant_index(op.operands[1])
        if axis is not None and 0 <= axis < len(shape_of(op.operands[0])):
            return size_of(op.operands[0], axis)
    if isinstance(op, Operation) and op.name == "tensor.rank" and isinstance(op.operands[0].type, TensorType):
        return len(shape_of(op.operands[0]))
    return value


def sizes_of(value: SSAValue) -> tuple[Term, ...]:
    """Return all sizes of a tensor."""
    return tuple(size_of(value, axis) for axis in range(len(shape_of(value))))


def dynamic_sizes(value: SSAValue, op: Operation) -> list[SSAValue]:
    """Insert operations before `op` that compute the dynamic sizes of a tensor, and return these. Each is read from the
    tensor in which it originates, so that no operation waits for `value`.
    """
    sizes: list[SSAValue] = []
    for axis, n in enumerate(shape_of(value)):
        if n < 0:
            term = size_of(value, axis)
            # A size that is a sum or product is read from the tensor itself.
            origin = term if isinstance(term, Dim) else Dim(value, axis)
            sizes.append(term if isinstance(term, SSAValue) else _inserted_dim(origin, op))
    return sizes


def _inserted_dim(size: Dim, op: Operation) -> SSAValue:
    """Insert a `tensor.dim` that reads a size, and its constant axis, before `op`."""
    index = insert_before(arith.ConstantOp.from_int_and_width(size.axis, IndexType()), op)
    return insert_before(tensor.DimOp(size.tensor, index), op)


def size_of(value: SSAValue, axis: int) -> Term:
    """Return the size of a tensor along an axis as a term over the values in which it originates.

    For the axis 0 of

    - a tensor<4xf32>: 4
    - an argument %a of type tensor<?xf32>: `Dim(%a, 0)`
    - `arith.addf %a, %b : tensor<?xf32>`: `Dim(%a, 0)`, followed from the result to the operand
    - `tensor.empty(%n) : tensor<?xf32>`: the index value %n
    - `tensor.concat dim(0) %a, %b`: `Sum((Dim(%a, 0), Dim(%b, 0)))`

    Within a `size_cache` block, terms are cached by (tensor, axis).
    """
    known: Known = getattr(_CACHE, "known", {})
    passed: list[tuple[SSAValue, int]] = []  # dimensions on the way, which all have the size that is found
    # Follow the size from tensor to tensor while `stated`, the size that the producer of `value` states, is the size of
    # another tensor. At the end `stated` is
    # - None if `value` is an argument, or its producer states nothing; if that was cached, `Dim(value, axis)` itself
    # - else a number, an index value, or a term or an entry of a tensor of sizes, which _resolved() follows further.
    while True:
        stated = known[value, axis] if (value, axis) in known else _stated(value, axis)
        passed.append((value, axis))
        if not isinstance(stated, Dim) or (stated.tensor is value and stated.axis == axis):
            break
        value, axis = stated.tensor, stated.axis
    resolved = None if stated is None else _resolved(stated)
    answer = Dim(value, axis) if resolved is None else resolved
    if hasattr(_CACHE, "known"):
        known.update(dict.fromkeys(passed, answer))
    return answer


def _stated(value: SSAValue, axis: int) -> Stated | None:
    """Return a size that the type, or the operation that computes the tensor, states; None if they state none."""
    size = shape_of(value)[axis]
    if size >= 0:
        return size
    if not isinstance(value, OpResult):
        return None
    rule = rule_of(value.op)  # how the operation computes tensors; None for an operation without tensors
    return rule.size(value.op, value, axis) if rule is not None else None


def _resolved(stated: Stated) -> Term | None:
    """Return a size that `_stated` has returned as a term over the values in which it originates.

    Return None for an element of a tensor of sizes (`SizeElement`) whose value is not known.

    stated: an integer; an index value; a dimension of a tensor; a sum or product of such; or a `SizeElement`.
    """
    if isinstance(stated, SSAValue):
        return term_of(stated)
    if isinstance(stated, Sum | Product):
        parts = [size_of(p.tensor, p.axis) if isinstance(p, Dim) else _resolved(p) for p in stated.parts]
        known_parts = [part for part in parts if part is not None]
        assert len(known_parts) == len(parts)  # parts are terms; only a SizeElement, which is none, can be unknown
        return (add if isinstance(stated, Sum) else multiply)(known_parts)
    if isinstance(stated, SizeElement):
        return _listed_size(stated)
    return stated  # an int, or a Dim that size_of() has followed


def _listed_size(entry: SizeElement) -> Term | None:
    """Return an element of a tensor of sizes that `tensor.from_elements` builds; None if its value is not known.

    Casts from and to `index` are followed. Terms are of the type `index`: a value of another type is only known if it
    is a constant.
    """
    shape = entry.tensor.owner
    if not isinstance(shape, Operation) or shape.name != "tensor.from_elements":
        return None
    element = shape.operands[entry.index]
    while isinstance(element.owner, Operation) and element.owner.name in ("arith.index_cast", "arith.index_castui"):
        element = element.owner.operands[0]
    is_known = isinstance(element.type, IndexType) or constant_index(element) is not None
    return term_of(element) if is_known else None


@contextmanager
def size_cache(known: Known) -> Iterator[None]:
    """Cache the results of `size_of` in `known` within the `with` block. Producers of tensors must not change in it.

    A size is found by following a chain of producers. Without the cache, the sizes of all tensors of a long chain take
    quadratic time.
    """
    before = getattr(_CACHE, "known", None)
    _CACHE.known = known
    try:
        yield
    finally:
        if before is None:
            del _CACHE.known
        else:
            _CACHE.known = before


def kept_dims(op: Operation, shape: Sequence[int]) -> list[int] | None:
    """Return the dimension of the larger tensor for each dimension of the smaller tensor of a slice operation.

    The type of the smaller tensor may lack dimensions in which the slice has size 1. A slice of 4x1x8 that drops this
    dimension has the shape 4x8, and the result is [0, 2]. If there is a choice, dimensions as far inside as possible
    are dropped: 1x1x8 with the shape 1x8 gives [0, 2]. A dynamic size is never dropped.

    Args:
        op: The slice operation.
        shape: Shape of the smaller tensor; -1 for a dynamic size.

    Returns:
        The dimensions, ascending; None if the slice's sizes without some sizes of 1 do not match `shape`.
    """
    sizes = [n if isinstance(n, int) else -1 for n in slice_of(op).sizes]
    kept: list[int] = []
    left_to_drop = len(sizes) - len(shape)  # dimensions that the smaller tensor lacks
    for dim, size in enumerate(sizes):
        position = len(kept)
        # Equal sizes match, and a dynamic size (-1) matches any static one: exactly one of the two is negative.
        matches = position < len(shape) and (shape[position] == size or (size < 0) != (shape[position] < 0))
        # A size of 1 is kept if the sizes after it have enough other ones to drop.
        may_keep = matches and _can_drop_ones(sizes[dim + 1 :], shape[position + 1 :], left_to_drop)
        if size == 1 and left_to_drop and not may_keep:
            left_to_drop -= 1
            continue
        if not matches:
            return None
        kept.append(dim)
    return kept if len(kept) == len(shape) else None


def _can_drop_ones(sizes: Sequence[int], shape: Sequence[int], count: int) -> bool:
    """Return whether `sizes` without `count` of its sizes of 1 may be `shape`, by their ranks and numbers of ones."""
    has_rank = len(sizes) - count == len(shape)
    has_enough_ones = list(sizes).count(1) - list(shape).count(1) >= count
    return has_rank and has_enough_ones


def reassociation(op: Operation) -> list[list[int]]:
    """Return, for each dimension of the tensor of lower rank of an expand_shape or collapse_shape, the adjacent
    dimensions of the other tensor that it stands for.
    """
    rows = cast("ArrayAttr[ArrayAttr[IntegerAttr]]", op.properties["reassociation"])
    return [[int(n.value.data) for n in row.data] for row in rows.data]


def equal_sizes(op: Operation) -> Sequence[Sequence[Dim]]:
    """Return lists of dimensions whose sizes an operation requires to be equal."""
    rule = rule_of(op)
    return rule.equal_sizes(op) if rule is not None else ()
