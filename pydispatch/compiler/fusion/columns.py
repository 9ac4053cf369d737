"""Operations on a concatenation with single columns at its end become operations on its parts.

Models write the sink of attention in this way: one more score for each query takes part in the softmax, and its weight
is dropped. The concatenation, and all tensors of its shape, are not computed then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.sizes import dynamic_sizes, size_of, term_of
from pydispatch.compiler.fusion.build import affine_maps, iterator_types, rewrite_loops
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.split import combiner
from pydispatch.ir.affine_maps import dims_in, is_identity, with_unit_loops
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import structured
from pydispatch.ir.values import shape_of


def split_off_columns(function: Operation) -> None:
    """Rewrite the readers of concatenations with single columns at the end, in a host function, in place.

    A concatenation stays if a reader needs elements of several parts as one tensor.
    """
    concatenations = [op for op in walk(function) if isinstance(op, tensor.ConcatOp) and _has_columns(op)]
    if concatenations:
        erase_unused(function)  # such as the indices of a maximum, which need the whole tensor
    for op in concatenations:
        readers = None if op.parent is None else _readers(op)
        if readers is not None:
            _Parts(op).rewrite(readers)


def _has_columns(concat: tensor.ConcatOp) -> bool:
    """Return whether all parts but the first have size 1 along the axis of a concatenation."""
    axis = int(concat.dim.value.data)
    return len(concat.inputs) > 1 and all(shape_of(column)[axis] == 1 for column in concat.inputs[1:])


@dataclass(frozen=True)
class _Readers:
    """Operations that depend on a concatenation, each list in the order of the block.

    Attributes:
        elementwise: Their results have an element for each element of the concatenation.
        reductions: They combine the elements along the axis of the concatenation.
        slices: They read elements of the first part alone.
    """

    elementwise: list[GenericOp]
    reductions: list[GenericOp]
    slices: list[tensor.ExtractSliceOp]


def _readers(concat: tensor.ConcatOp) -> _Readers | None:
    """Return the readers of a concatenation; None if one of them is of another kind, or if none is a reduction."""
    axis = int(concat.dim.value.data)
    readers = _Readers([], [], slices=[])
    values: set[SSAValue] = {concat.results[0]}
    assert concat.parent is not None
    for op in concat.parent.ops:
        if values.isdisjoint(op.operands):
            continue
        if isinstance(op, tensor.ExtractSliceOp):
            if not _reads_first_part(op, concat.inputs[0], axis):
                return None
            readers.slices.append(op)
            continue
        kind = _kind_of(op, values, axis)
        if kind is None:
            return None
        assert isinstance(op, GenericOp)
        if kind == "elementwise":
            values.add(op.results[0])
            readers.elementwise.append(op)
        else:
            readers.reductions.append(op)
    known = {*readers.elementwise, *readers.reductions, *readers.slices}
    if any(use.operation not in known for value in values for use in value.uses):
        return None  # an operation inside a loop or a branch
    return readers if readers.reductions else None


def _kind_of(op: Operation, values: set[SSAValue], axis: int) -> str | None:
    """Return "elementwise" or "reduction" for a reader of tensors with the shape of a concatenation; None for others.

    values: the concatenation and tensors that are computed from it elementwise.
    """
    if not isinstance(op, GenericOp) or len(op.results) != 1:
        return None
    if any(inner.name == "linalg.index" for inner in walk(op.body)):
        return None
    generic = structured(op)
    sizes = [extent or 0 for extent in generic.extents]
    for operand, map_ in zip(generic.inputs, generic.maps, strict=False):
        if operand in values:
            is_read_alike = is_identity(with_unit_loops(map_, sizes))
        else:  # each part reads all of it
            is_read_alike = axis not in dims_in(map_)
        if not is_read_alike:
            return None
    if any(output in values for output in generic.outputs):
        return None
    if generic.is_parallel:
        is_overwritten = not generic.block.args[-1].uses.get_length()
        return "elementwise" if is_identity(generic.maps[-1]) and is_overwritten else None
    kept = tuple(AffineExpr.dimension(d) for d in range(len(generic.iterators)) if d != axis)
    is_along_axis = generic.maps[-1].results == kept and len(generic.inputs) == 1
    return "reduction" if is_along_axis and combiner(op) is not None else None


def _reads_first_part(op: tensor.ExtractSliceOp, part: SSAValue, axis: int) -> bool:
    """Return whether a slice of a concatenation begins and ends with the first part along the axis."""
    offset, size, stride = (row[axis] for row in slice_of(op).components)
    end = size if isinstance(size, int) else term_of(size)
    return offset == 0 and stride == 1 and end == size_of(part, axis)


class _Parts:
    """The parts of a concatenation, and of tensors of its shape.

    Attributes:
        concat: The concatenation.
        axis: Its axis.
        parts_of: The parts of each tensor, in the order of the concatenation: a first part, then single columns.
    """

    def __init__(self, concat: tensor.ConcatOp) -> None:
        self.concat, self.axis = concat, int(concat.dim.value.data)
        self.parts_of: dict[SSAValue, Sequence[SSAValue]] = {concat.results[0]: list(concat.inputs)}

    def rewrite(self, readers: _Readers) -> None:
        """Replace the readers by operations on the parts."""
        block = self.concat.parent
        assert block is not None
        for op in list(block.ops):
            if op in readers.elementwise:
                self.parts_of[op.results[0]] = self._elementwise(cast(GenericOp, op))
            elif op in readers.reductions:
                replace_op(op, self._reduced(cast(GenericOp, op)))
        for slice_ in readers.slices:  # of elements before the columns, which the first part has
            first, *_columns = self.parts_of[slice_.operands[0]]
            slice_.operands[0] = first

    def _elementwise(self, op: GenericOp) -> list[SSAValue]:
        """Compute the parts of an elementwise result."""
        result = cast("TensorType[Attribute]", op.results[0].type)
        parts = []
        for index, part in enumerate(self.concat.inputs):
            type_ = TensorType(result.element_type, shape_of(part))
            empty = insert_before(tensor.EmptyOp(dynamic_sizes(part, op), type_), op)
            inputs = [self.parts_of[operand][index] if operand in self.parts_of else operand for operand in op.inputs]
            parts.append(rewrite_loops(op, [*inputs, empty], structured(op).maps))
        return parts

    def _reduced(self, op: GenericOp) -> SSAValue:
        """Reduce the first part, and combine the result with each column."""
        first, *columns = self.parts_of[op.inputs[0]]
        generic = structured(op)
        total = rewrite_loops(op, [first, op.outputs[0]], generic.maps)
        for column in columns:
            total = self._combined(op, column, total)
        return total

    def _combined(self, op: GenericOp, column: SSAValue, total: SSAValue) -> SSAValue:
        """Combine a reduction's result so far with the elements of one column."""
        type_ = cast("TensorType[Attribute]", total.type)
        rank = type_.get_num_dims()
        dims = [AffineExpr.dimension(d) for d in range(rank)]
        map_ = AffineMap(rank, 0, (*dims[: self.axis], AffineExpr.constant(0), *dims[self.axis :]))
        body = Block(arg_types=[*(argument.type for argument in op.body.block.args), type_.element_type])
        # The last argument of the body is the element of `empty`, which it does not read.
        copies: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, body.args, strict=False))
        for inner in op.body.block.ops:
            body.add_op(inner.clone(copies))
        assert isinstance(body.last_op, YieldOp)
        empty = insert_before(tensor.EmptyOp(dynamic_sizes(total, op), type_), op)
        maps = affine_maps([map_, AffineMap.identity(rank), AffineMap.identity(rank)])
        kinds = iterator_types(["parallel"] * rank)
        return insert_before(GenericOp([column, total], [empty], Region(body), maps, kinds, [type_]), op)
