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
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import shape_of


def split_off_columns(function: Operation) -> None:
    """Make the readers of a concatenation that ends with single columns read its operands instead.

    This changes the concatenations of a host function. A concatenation stays if a reader needs elements of several
    operands as one tensor.
    """
    concatenations = [op for op in walk(function) if isinstance(op, tensor.ConcatOp) and _has_columns(op)]
    if concatenations:
        # An unused reader that needs the whole tensor, such as the indices of a maximum, would prevent the rewrite.
        erase_unused(function)
    for op in concatenations:
        readers = None if op.parent is None else _readers(op)  # without a parent, erase_unused() has erased it
        if readers is not None:
            _Parts(op).rewrite(readers)


def _has_columns(concat: tensor.ConcatOp) -> bool:
    """Return whether a concatenation has two or more operands, and all but the first have size 1 along its axis."""
    axis = int(concat.dim.value.data)
    return len(concat.inputs) > 1 and all(shape_of(column)[axis] == 1 for column in concat.inputs[1:])


@dataclass(frozen=True)
class _Readers:
    """Operations that depend on a concatenation, each list in the order of the block.

    Attributes:
        elementwise: Operations whose results have an element for each element of the concatenation.
        reductions: Operations that combine the elements along the axis of the concatenation, or of such a result.
        slices: Slices of the concatenation, or of such a result, that have just the first part along the axis.
    """

    elementwise: list[GenericOp]
    reductions: list[GenericOp]
    slices: list[tensor.ExtractSliceOp]


def _readers(concat: tensor.ConcatOp) -> _Readers | None:
    """Return the readers of a concatenation if all of them can compute on its parts instead; None if one cannot.

    The parts are the operands of the concatenation: a tensor, and further single columns. Readers are elementwise
    operations, reductions, and slices of exactly the first part. An example is a softmax over scores [8][128] with one
    more column:

        %c = concat %scores, %sink : [8][129]
        %m = reduce max %c : [8]
        %e = exp(%c - %m) : [8][129]
        %s = reduce add %e : [8]
        %w = slice %e : [8][128]

    Here %m and %s are reductions, %e is elementwise, %w a slice. Return None also if no reader is a reduction.
    """
    axis = int(concat.dim.value.data)
    readers = _Readers(elementwise=[], reductions=[], slices=[])
    values: set[SSAValue] = {concat.results[0]}  # the concatenation, and tensors computed from it elementwise
    assert concat.parent is not None
    # Classify the readers in the block of the concatenation, in order, so that `values` has the operands of each.
    for op in concat.parent.ops:
        if values.isdisjoint(op.operands):
            continue
        if isinstance(op, tensor.ExtractSliceOp) and _reads_first_part(op, concat.inputs[0], axis):
            readers.slices.append(op)
        elif (kind := _kind_of(op, values, axis)) == "elementwise":
            readers.elementwise.append(cast(GenericOp, op))
            values.add(op.results[0])
        elif kind == "reduction":
            readers.reductions.append(cast(GenericOp, op))
        else:
            return None
    # All uses of `values` must be among these readers.
    known = {*readers.elementwise, *readers.reductions, *readers.slices}
    if any(use.operation not in known for value in values for use in value.uses):
        return None  # an operation inside a loop or a branch
    return readers if readers.reductions else None


def _kind_of(op: Operation, values: set[SSAValue], axis: int) -> str | None:
    """Classify a reader of tensors with the shape of a concatenation as "elementwise" or "reduction"; None for others.

    An elementwise reader can compute the part of its result from the same part of these tensors. A reduction runs along
    the axis of the concatenation, so that results of the parts can be combined. Any other reader, for which the result
    is None, needs the whole tensor, or reads elements of another part.

    values: the concatenation and tensors that are computed from it elementwise. axis: its axis.
    """
    if not isinstance(op, GenericOp) or len(op.results) != 1:
        return None
    if any(inner.name == "linalg.index" for inner in walk(op.body)):  # indices in a part differ from those in the whole
        return None
    generic = structured(op)
    if not _reads_parts_alike(generic, values, axis):
        return None
    if any(output in values for output in generic.outputs):  # one of `values` has the initial values of the result
        return None
    # Elementwise: the result has the same indices, and does not depend on initial values.
    if generic.is_parallel:
        is_overwritten = not generic.block.args[-1].uses.get_length()  # the body does not read the initial values
        return "elementwise" if is_identity(generic.maps[-1]) and is_overwritten else None
    # A reduction of one operand over the loop of the axis alone, by an operation that may be regrouped.
    other_dims = tuple(AffineExpr.dimension(d) for d in range(len(generic.iterators)) if d != axis)
    is_along_axis = generic.maps[-1].results == other_dims and len(generic.inputs) == 1
    return "reduction" if is_along_axis and combiner(op) is not None else None


def _reads_parts_alike(generic: Structured, values: set[SSAValue], axis: int) -> bool:
    """Return whether a generic reads elements of `values`, tensors that are divided into parts, at its own indices.

    The operations on all parts read other inputs as a whole, whose indices must not depend on the loop of `axis`.
    """
    # The index 0 along a dimension of size 1 counts as the loop of size 1, whose counter is 0. A dynamic size, None,
    # becomes 0, which is not 1.
    sizes = [extent or 0 for extent in generic.extents]
    return all(
        is_identity(with_unit_loops(map_, sizes)) if operand in values else axis not in dims_in(map_)
        for operand, map_ in zip(generic.inputs, generic.maps, strict=False)
    )


def _reads_first_part(op: tensor.ExtractSliceOp, part: SSAValue, axis: int) -> bool:
    """Return whether a slice of a concatenation has exactly the elements of its first operand, `part`, along the axis.

    Sizes that are not constants are compared as symbolic terms.
    """
    offset, size, stride = (row[axis] for row in slice_of(op).components)
    end = size if isinstance(size, int) else term_of(size)
    return offset == 0 and stride == 1 and end == size_of(part, axis)


class _Parts:
    """Division of a concatenation, and of tensors that are computed from it elementwise, into parts.

    The parts of the concatenation are its operands.

    Attributes:
        concat: The concatenation.
        axis: Its axis.
        parts_of: Tensor of the concatenation's shape → its parts in order: a first part, then columns, which have size
            1 along the axis.
    """

    def __init__(self, concat: tensor.ConcatOp) -> None:
        """Begin with the concatenation as the only tensor whose parts are known."""
        self.concat, self.axis = concat, int(concat.dim.value.data)
        self.parts_of: dict[SSAValue, Sequence[SSAValue]] = {concat.results[0]: list(concat.inputs)}

    def rewrite(self, readers: _Readers) -> None:
        """Replace the readers of the concatenation by operations on its parts, the operands of the concatenation."""
        block = self.concat.parent
        assert block is not None
        for op in list(block.ops):
            if op in readers.elementwise:
                self.parts_of[op.results[0]] = self._elementwise(cast(GenericOp, op))
            elif op in readers.reductions:
                replace_op(op, self._reduced(cast(GenericOp, op)))
        for slice_ in readers.slices:  # each has exactly the elements of the first part along the axis
            first, *_columns = self.parts_of[slice_.operands[0]]
            slice_.operands[0] = first

    def _elementwise(self, op: GenericOp) -> list[SSAValue]:
        """Insert operations before `op` that compute the parts of its elementwise result, and return the parts."""
        result = cast("TensorType[Attribute]", op.results[0].type)
        parts = []
        for index, part in enumerate(self.concat.inputs):
            type_ = TensorType(result.element_type, shape_of(part))
            empty = insert_before(tensor.EmptyOp(dynamic_sizes(part, op), type_), op)
            inputs = [self.parts_of[operand][index] if operand in self.parts_of else operand for operand in op.inputs]
            parts.append(rewrite_loops(op, [*inputs, empty], structured(op).maps))
        return parts

    def _reduced(self, op: GenericOp) -> SSAValue:
        """Insert the reduction of the first part before `op`, combine it with each column, and return the result."""
        first, *columns = self.parts_of[op.inputs[0]]
        generic = structured(op)
        total = rewrite_loops(op, [first, op.outputs[0]], generic.maps)
        for column in columns:
            total = self._combined(op, column, total)
        return total

    def _combined(self, op: GenericOp, column: SSAValue, total: SSAValue) -> SSAValue:
        """Insert the operation that combines a reduction's result so far with one column, and return its result.

        For the maximum of [8][129] along axis 1, whose first part [8][128] has the maximum `total` of [8], the result
        is max(column[i, 0], total[i]).

        column: the column, which has one dimension, of size 1, more than the result. total: the result so far.
        """
        type_ = cast("TensorType[Attribute]", total.type)
        rank = type_.get_num_dims()
        dims = [AffineExpr.dimension(d) for d in range(rank)]
        # The column's element at index 0 of its axis, whose size is 1.
        map_ = AffineMap(rank, 0, (*dims[: self.axis], AffineExpr.constant(0), *dims[self.axis :]))
        # The reduction's body combines an element, here of `column`, with an accumulator, here of `total`. Both tensors
        # are inputs of the new operation. So its body has one more argument for the output `empty`, which is not read.
        body = Block(arg_types=[*(argument.type for argument in op.body.block.args), type_.element_type])
        copies: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, body.args[:-1], strict=True))
        for inner in op.body.block.ops:
            body.add_op(inner.clone(copies))
        assert isinstance(body.last_op, YieldOp)
        empty = insert_before(tensor.EmptyOp(dynamic_sizes(total, op), type_), op)
        maps = affine_maps([map_, AffineMap.identity(rank), AffineMap.identity(rank)])
        kinds = iterator_types(["parallel"] * rank)
        return insert_before(GenericOp([column, total], [empty], Region(body), maps, kinds, [type_]), op)
