"""Reads of elements at computed positions, and slices that begin at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IndexType, IntegerAttr, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Expr, Shape, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.flow.tensors import TensorTieShapeOp
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.indexing import MapStoreOp
from pydispatch.ir.dialects.util.dialect import GlobalLoadOp
from pydispatch.operations.elementwise import MOST_FOLDED_ELEMENTS, apply, broadcast_map
from pydispatch.operations.host_integers import HostInteger
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars, scalars_of
from pydispatch.operations.slicing import pad, slice_


class CoordinateBuilder(Scalars):
    """Builder of positions in tensors (SSA values of type index) in the body of an elementwise operation.

    Code that emits such a body creates an instance for it, most often `elements_at`. Each method appends operations to
    the body and returns the result.

    Attributes:
        block: The body, which is run for each element of the result.
        elements: The operands' elements at the position of that element.
    """

    def __init__(self, block: Block, elements: Sequence[Scalar]) -> None:
        """Append operations to `block`. elements: the operands' elements at the position of the result's element."""
        super().__init__(block)
        self.elements = elements

    def loop_index(self, axis: int) -> SSAValue:
        """Return the loop index along an axis: the position of the result's element."""
        return self.add_op(linalg.IndexOp(axis))

    def index_constant(self, value: int) -> SSAValue:
        """Return a constant of type index."""
        return self.add_op(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def plus(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Return lhs + rhs."""
        return self.add_op(arith.AddiOp(lhs, rhs))

    def minus(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Return lhs - rhs."""
        return self.add_op(arith.SubiOp(lhs, rhs))

    def times(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Return lhs * rhs."""
        return self.add_op(arith.MuliOp(lhs, rhs))

    def clamped(self, a: SSAValue, last: SSAValue) -> SSAValue:
        """Return position a clamped to the range from 0 to `last`."""
        return self.add_op(arith.MinSIOp(self.add_op(arith.MaxSIOp(a, self.index_constant(0))), last))


def elements_at(
    builder: Builder,
    x: Tensor,
    shape: Shape,
    coordinates: Callable[[CoordinateBuilder], Sequence[SSAValue]],
    *tensors: Tensor,
) -> Tensor:
    """Return the tensor of `shape` whose elements are those of x at `coordinates(builder)`, which must be in bounds.

    `coordinates` is called once, in the body of an operation with a loop for each axis of `shape`. It returns the
    position in x, one SSA value per axis of x. The further tensors are broadcast to `shape`; `elements` of the
    CoordinateBuilder are their elements.

    Example: with `lambda coords: [coords.loop_index(1), coords.loop_index(0)]` the result is the transpose of x. With
    `lambda coords: [coords.index_of(coords.elements[0])]` and a further tensor of integers it is x[integers].
    """
    identity = AffineMap.identity(len(shape))
    inputs = [(part, broadcast_map(t.shape, len(shape))) for t in tensors for part in builder.parts(t)]
    sources = builder.parts(x)  # x itself, or its real and imaginary part
    outputs = [(builder.empty(x.dtype.element, shape), identity) for _ in sources]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Extract the element of x at the coordinates: an SSA value for each of `sources`, two if x is complex.

        args: elements of `inputs`, then the initial elements of the result, which are not read.
        """
        p = CoordinateBuilder(block, scalars_of([t.dtype for t in tensors], args[: len(inputs)]))
        position = list(coordinates(p))
        return [p.add_op(tensor.ExtractOp(source, position, x.dtype.element)) for source in sources]

    return builder.wrap(x.dtype, shape, *builder.generic(inputs, outputs, parallel=[True] * len(shape), body=body))


def reverse(builder: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reverse the order of elements along axes."""
    if x.known is not None and x.known.size <= MOST_FOLDED_ELEMENTS:
        import numpy as np

        return Tensor(x.dtype, x.shape, known=np.flip(x.known, tuple(axes)))
    last = {d: builder.index(x.shape[d] - 1) for d in axes}

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return (last position - index) along each reversed axis, and the index itself along the others."""
        return [
            coords.minus(last[d], coords.loop_index(d)) if d in last else coords.loop_index(d) for d in range(x.rank)
        ]

    return elements_at(builder, x, x.shape, coordinates)


# -- checks that positions are valid


def require_elements(builder: Builder, x: Tensor, axes: Iterable[int], shape: Shape) -> None:
    """Add checks that x has elements along axes from which elements are read, unless the result, of shape `shape`, has
    none.
    """
    for axis in axes:
        builder.require_positive(x.shape[axis], f"axis {axis} of {x} has the size 0: it has no element to read",
                                 unless_zero=product(shape))  # fmt: skip


def require_slices(builder: Builder, x: Tensor, sizes: Sequence[Size], shape: Shape | None = None) -> None:
    """Add checks that slices of these sizes fit into x, unless the result, of shape `shape`, has no elements.

    With None for the shape they always have to fit.
    """
    for axis, (n, size) in enumerate(zip(x.shape, sizes, strict=True)):
        builder.require_positive(n - size + 1, f"axis {axis} of {x}: a slice of size {size} is larger than the axis",
                                 unless_zero=1 if shape is None else product(shape))  # fmt: skip


def with_an_element(builder: Builder, x: Tensor) -> Tensor:
    """Return x with one element appended to each axis whose size may be 0.

    Then every axis has a position that can be read, even where the element read is not used.
    """
    high = [1 if isinstance(n, Expr) or n == 0 else 0 for n in x.shape]
    return pad(builder, x, low=[0] * x.rank, high=high) if any(high) else x


# -- slices at computed positions


def clamped_start(start: Size, n: Size, taken: Size) -> Size:
    """Clamp the start of a slice of `taken` elements so that the slice is within an axis of `n` elements."""
    return minimum(maximum(start, 0), n - taken)


def _starts_as_sizes(starts: Sequence[Tensor]) -> list[Size] | None:
    """Return the integers in tensors of one element as sizes; None if one of them is not known as a size."""
    listed = [s.known_integers() for s in starts]
    return None if any(one is None for one in listed) else [one[0] for one in listed if one is not None]


def dynamic_slice(builder: Builder, x: Tensor, starts: Sequence[Tensor], sizes: Sequence[Size]) -> Tensor:
    """Return the slice of x of the sizes `sizes` that begins at `starts`, clamped so that it fits.

    `starts` has one tensor of one integer for each axis of x.

    Example: for the size 2 and x = [a b c d e], the start 1 gives [b c]; the start 9 is clamped to 3 and gives [d e].
    """
    require_slices(builder, x, sizes)
    # Known starts give a slice without computed positions; otherwise each element is read at a computed position.
    known = _starts_as_sizes(starts)
    if known is not None:
        begins = [clamped_start(start, n, size) for start, n, size in zip(known, x.shape, sizes, strict=True)]
        return slice_(builder, x, begins, [begin + size for begin, size in zip(begins, sizes, strict=True)])
    last = [builder.index(n - size) for n, size in zip(x.shape, sizes, strict=True)]

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return for each axis the clamped start of the slice plus the index in the slice."""
        begins = [
            coords.clamped(coords.index_of(coords.convert(start, I64)), last[d])
            for d, start in enumerate(coords.elements)
        ]
        return [coords.plus(begin, coords.loop_index(d)) for d, begin in enumerate(begins)]

    return elements_at(builder, x, tuple(sizes), coordinates, *starts)


def dynamic_update_slice(builder: Builder, x: Tensor, update: Tensor, starts: Sequence[Tensor]) -> Tensor:
    """Return x with the slice that begins at `starts` replaced by `update`; the starts are clamped so that it fits.

    `starts` has one tensor of one integer for each axis of x. If all are known at compile time, the update is an
    insertion. Otherwise, if the slice is a small part of x and the memory of x can be updated in place, only the slice
    is stored. Else each element of the result is chosen from x or the update.
    """
    if update.rank == 0:  # the only element is replaced
        return update
    require_slices(builder, x, update.shape)
    known = _starts_as_sizes(starts)
    if known is not None:
        begins = [clamped_start(start, n, size) for start, n, size in zip(known, x.shape, update.shape, strict=True)]
        return insert_slice(builder, x, update, begins)
    if _is_small_part(x.shape, update.shape) and all(_can_update_in_place(builder, part) for part in builder.parts(x)):
        return _stored_at(builder, x, update, starts)
    return _chosen_from_both(builder, x, update, starts)


def _chosen_from_both(builder: Builder, x: Tensor, update: Tensor, starts: Sequence[Tensor]) -> Tensor:
    """Return x with the slice at `starts` replaced by `update`: each element of the result is chosen from one of both.

    The choice is an elementwise operation on all of x, which fuses with the operations around it. `starts` has one
    tensor of one integer for each axis of x, which is clamped so that the update fits. Example: x = [a b c d e],
    update = [1 2] and the start 2 give [a b 1 2 e]; the start 9 is clamped to 3.
    """
    last_start = [builder.index(n - size) for n, size in zip(x.shape, update.shape, strict=True)]
    sizes = [builder.index(size) for size in update.shape]
    readable = with_an_element(builder, update)  # reads stay in bounds for an empty update too
    last_read = [builder.index(size - 1) for size in readable.shape]
    sources = builder.parts(readable)  # one, or the real and the imaginary part

    def chosen(scalars: Scalars, old: Scalar, *begins: Scalar) -> Scalar:
        """Return the element of the update within the slice, and `old`, the element of x, elsewhere.

        `begins` is the start of the slice along each axis, not clamped yet.
        """
        p = CoordinateBuilder(scalars.block, begins)
        position_in_update: list[SSAValue] = []
        is_inside: Scalar | None = None  # None for no axes yet
        for d, start in enumerate(begins):
            begin = p.clamped(p.index_of(p.convert(start, I64)), last_start[d])
            index = p.minus(p.loop_index(d), begin)  # within the slice it is from 0 to sizes[d] - 1
            is_not_before = p.add_op(arith.CmpiOp(index, p.index_constant(0), "sge"))
            is_before_end = p.add_op(arith.CmpiOp(index, sizes[d], "slt"))
            is_within = Scalar(BOOL, (p.add_op(arith.AndIOp(is_not_before, is_before_end)),))
            is_inside = is_within if is_inside is None else p.binary("and", is_inside, is_within)
            # Outside of the slice any element is read, and not chosen.
            position_in_update.append(p.clamped(index, last_read[d]))
        new = tuple(p.add_op(tensor.ExtractOp(source, position_in_update, x.dtype.element)) for source in sources)
        return old if is_inside is None else p.select(is_inside, Scalar(x.dtype, new), old)

    return apply(builder, chosen, x, *starts)


_SMALL_PART = 4
"""Minimum number of times that a slice fits into a tensor if only the elements of the slice are stored. For a larger
slice each element of the whole tensor is chosen, which fuses with the operations around it."""


def _is_small_part(shape: Shape, part: Shape) -> bool:
    """Return whether a slice of the shape `part` is known to fit at least _SMALL_PART times into a tensor of the shape
    `shape`.

    Only the elements of such a slice are stored; for a larger one each element of the whole tensor is chosen.
    [1, 4] fits 8 times into [8, 4]. A slice of one element along a dynamic axis counts as small.
    """
    times = 1
    for n, size in zip(shape, part, strict=True):
        if isinstance(n, Expr) and size == 1:
            return True
        if isinstance(n, int) and isinstance(size, int) and size:
            times *= n // size
    return times >= _SMALL_PART


def _can_update_in_place(builder: Builder, value: SSAValue) -> bool:
    """Return whether the memory of a tensor can be updated in place, maybe after other slices were stored in it.

    That is so if a loop carries the tensor from one iteration to the next, the caller donates it, or a global has it.
    Then storing a slice costs as much as the slice has elements. Elsewhere an update needs a copy of the tensor, and
    choosing each element costs no more and fuses with the operations around it.
    """
    # Find the tensor before earlier stores of slices and statements of its sizes.
    while isinstance(value.owner, (MapStoreOp, TensorTieShapeOp)):
        value = value.owner.output if isinstance(value.owner, MapStoreOp) else value.owner.operands[0]
    if isinstance(value, BlockArgument):  # of a loop's body, or of the function: `is_kept` if it is not donated
        return not builder.is_kept(value)
    return isinstance(value.owner, GlobalLoadOp)


def _stored_at(builder: Builder, x: Tensor, update: Tensor, starts: Sequence[Tensor]) -> Tensor:
    """Return x after `update` was stored in it at `starts`, clamped so that it fits; only these elements are written.

    It is for an x whose memory can be updated in place (`_can_update_in_place`); another x is copied as a whole first.
    `starts` has one tensor of one integer for each axis of x. Example: x = [a b c d e], update = [1 2] and the start 2
    give [a b 1 2 e].
    """
    # Axes along which the update can begin elsewhere than at 0; it fills the others.
    moved = [d for d in range(x.rank) if update.shape[d] != x.shape[d]]
    last = {d: builder.index(x.shape[d] - update.shape[d]) for d in moved}
    begins = {d: builder.value(starts[d]) for d in moved}
    parts = []  # one, or the real and the imaginary part
    for part, into in zip(builder.parts(update), builder.parts(x), strict=True):
        # The body of map_store maps an index of `update` to an index of x, and to whether the element is stored.
        block = Block(arg_types=[IndexType()] * x.rank)
        p = CoordinateBuilder(block, [])
        target: list[SSAValue] = list(block.args)
        for d in moved:
            start = Scalar(starts[d].dtype, (p.add_op(tensor.ExtractOp(begins[d], [], starts[d].dtype.element)),))
            begin = p.clamped(p.index_of(p.convert(start, I64)), last[d])
            target[d] = p.plus(target[d], begin)
        is_stored = p.add_op(arith.ConstantOp(BoolAttr.from_bool(True)))
        block.add_op(YieldOp.create(operands=[*target, is_stored]))
        op = MapStoreOp.build(operands=[part, into], result_types=[[into.type]], regions=[Region(block)])
        parts.append(builder.add(op).results[0])
    return builder.wrap(x.dtype, x.shape, *parts)


def strided_axis(builder: Builder, x: Tensor, axis: int, start: HostInteger, count: Size, step: HostInteger) -> Tensor:
    """Return x[start::step] along an axis, `count` elements of it; `step` may be negative.

    The positions start + i * step for all i < count must be in bounds, and `axis` not negative.
    """

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return start + index * step along the axis, and the index itself along the others."""
        return [
            coords.plus(start.value, coords.times(coords.loop_index(d), step.value))
            if d == axis
            else coords.loop_index(d)
            for d in range(x.rank)
        ]

    return elements_at(builder, x, (*x.shape[:axis], count, *x.shape[axis + 1 :]), coordinates)


def insert_slice(
    builder: Builder, x: Tensor, update: Tensor, begins: Sequence[Size], strides: Sequence[int] | None = None
) -> Tensor:
    """Return x with `update`, of equal rank and dtype, in place of as many elements of x[begins[0]::strides[0], ...].

    All of them must be in bounds; the default of the strides is 1.

    Example: x = [a b c d e], update = [1 2], begins [1] and strides [2] give [a 1 c 2 e].
    """
    if update.shape == x.shape:  # in bounds, it replaces every element
        return update
    updated = _updated_constant(x, update, begins, strides or [1] * x.rank)
    if updated is not None:
        return builder.constant(updated, x.dtype)

    def static(sizes: Sequence[Size]) -> DenseArrayBase:
        """Return sizes as an attribute, with the mark DYNAMIC for those that are operands."""
        return DenseArrayBase.from_list(i64, [DYNAMIC if isinstance(n, Expr) else n for n in sizes])

    dynamic_strides: list[SSAValue] = []  # none: all strides are static
    parts = []
    for part, into in zip(builder.parts(update), builder.parts(x), strict=True):
        op = tensor.InsertSliceOp.build(
            operands=[part, into, builder.indices(begins), builder.indices(update.shape), dynamic_strides],
            properties={
                "static_offsets": static(begins), "static_sizes": static(update.shape),
                "static_strides": static(strides or [1] * x.rank),
            },
            result_types=[into.type],
        )  # fmt: skip
        parts.append(builder.add(op).result)
    return builder.wrap(x.dtype, x.shape, *parts)


def _updated_constant(x: Tensor, update: Tensor, begins: Sequence[Size], strides: Sequence[int]) -> Any:
    """Return the elements of `insert_slice` as an array if they are a small constant, else None."""
    known_begins = [n for n in begins if not isinstance(n, Expr)]
    if x.known is None or update.known is None or x.known.size > MOST_FOLDED_ELEMENTS or len(known_begins) < x.rank:
        return None
    # Expressions over sizes are stored as objects by NumPy; if x has them, it is an array of objects already.
    array = x.known.astype(object) if update.is_symbolic else x.known.copy()
    steps = zip(known_begins, update.known.shape, strides, strict=True)
    array[tuple(slice(n, n + size * step, step) for n, size, step in steps)] = update.known
    return array
