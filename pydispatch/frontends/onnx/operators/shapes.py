"""Conversions of operators that move elements: reshapes, transposes, joins, splits, repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.size_functions import ceil_div
from pydispatch.graph.sizes import Expr, Size, is_static, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, matrices, shapes, slicing
from pydispatch.operations.chosen_axes import ChosenAxes
from pydispatch.operations.host_integers import HostInteger, Integer
from pydispatch.operations.host_integers import product as product_of

# -- reshape


@ONNX.converts("Reshape")
def _reshape(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    """Return x in another shape. -1 stands for the remaining elements, 0 for the size of the same axis of x.

    With the attribute allowzero, 0 is the size 0.
    """
    allow_zero = call.flag("allowzero")
    integers = call.integers_of(shape, "shape")
    if any(isinstance(n, HostInteger) for n in integers):  # numbers that the host reads only when the program runs
        return shapes.reshape(call.b, x, _computed_shape(call, x, integers, allow_zero))
    sizes = call.sizes(shape, "shape")
    if not allow_zero:
        if any(n == 0 for n in sizes[x.rank :]):
            raise call.fail(f"shape {sizes} has a 0 for an axis that {x} lacks")
        sizes = [x.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    return shapes.reshape(call.b, x, sizes)


def _computed_shape(call: NodeCall, x: Tensor, integers: Sequence[Integer], allow_zero: bool) -> list[Size]:
    """Return the shape that `integers`, which are computed in each call, state for a reshape of x.

    -1 stands for the remaining elements. 0 is the size of the same axis of x, or the size 0 with `allow_zero`.
    """
    b = call.b
    sizes = [HostInteger.of(b, n) for n in integers]
    if not allow_zero:
        sizes = [n.is_equal(0).where(x.shape[d], n) if d < x.rank else n for d, n in enumerate(sizes)]
    total = product_of(b, x.shape)
    # With one -1, the product of all sizes is the negated product of the others. Without one, `remaining` is not used.
    remaining = total // (-product_of(b, sizes)).max(1)
    sizes = [(n < 0).where(remaining, n) for n in sizes]
    total.is_equal(product_of(b, sizes)).require(
        f"Reshape: {x} has another number of elements than its operand 'shape' states"
    )
    return [n.size() for n in sizes]


@ONNX.converts("Flatten")
def _flatten(call: NodeCall, x: Tensor) -> Tensor:
    """Reshape to a matrix: the axes before the attribute `axis` are merged into its rows, the others into columns."""
    axis = call.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise call.fail(f"axis {axis} is not within the {x.rank} axes of its operand")
    axis += x.rank if axis < 0 else 0
    return shapes.reshape(call.b, x, [product(x.shape[:axis]), product(x.shape[axis:])])


def stated_axes(call: NodeCall, axes: Tensor | None, since: int, rank: int) -> list[int] | ChosenAxes | None:
    """Return the axes of a tensor of rank `rank` that a node states, not negative; None if it states none.

    They are the operand `axes` since version `since` of the operator, and an attribute before.
    """
    if call.version >= since:
        return None if axes is None else call.axes_of(axes, rank)
    attribute = call.maybe_integers("axes")
    return None if attribute is None else call.axes(attribute, rank)


@ONNX.converts("Squeeze")
def _squeeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Remove the stated axes, which must have size 1; without axes, all of size 1.

    The sizes of axes that are computed in each call (ChosenAxes) are checked at run time.
    """
    stated = stated_axes(call, axes, since=13, rank=x.rank)
    if not isinstance(stated, ChosenAxes):
        return shapes.squeeze(call.b, x, stated)
    for size in stated.chosen(x.shape):
        size.is_equal(1).require(f"Squeeze: an axis of {x} that its operand 'axes' names has another size than 1")
    # `others`: the sizes of the axes that are not removed.
    return shapes.reshape(call.b, x, [n.size() for n in stated.others(x.shape)])


@ONNX.converts("Unsqueeze")
def _unsqueeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Add axes of size 1, whose positions in the result are the operand `axes`, or before version 13 the attribute
    `axes`.
    """
    if call.version < 13:
        return shapes.expand_dims(call.b, x, _added_axes(call, x, call.integers("axes")))
    if axes is None:
        raise call.fail("its axes are missing")
    stated = call.integers_of(axes, "axes")
    computed = [n for n in stated if isinstance(n, HostInteger)]
    if computed:  # then all are: an operand is constant or computed as a whole
        # `inserted`: the shape of x with size 1 at these axes of the result.
        return shapes.reshape(call.b, x, ChosenAxes(call.b, computed, x.rank + len(stated)).inserted(x.shape))
    return shapes.expand_dims(call.b, x, _added_axes(call, x, [int(n) for n in stated]))  # type: ignore[arg-type]


def _added_axes(call: NodeCall, x: Tensor, axes: Sequence[int]) -> list[int]:
    """Return the axes that Unsqueeze adds, which may count from the end of the result, as non-negative ones."""
    return call.axes(axes, x.rank + len(axes))


@ONNX.converts("Transpose")
def _transpose(call: NodeCall, x: Tensor) -> Tensor:
    """Permute the axes by the attribute perm; reverse them without it."""
    return shapes.transpose(call.b, x, call.maybe_integers("perm"))


# -- join and take apart


@ONNX.converts("Concat")
def _concat(call: NodeCall, *tensors: Tensor) -> Tensor:
    """Join the operands along an axis."""
    if not tensors:
        raise call.fail("it has no operands")
    return slicing.concat(call.b, tensors, call.axis(call.integer("axis"), tensors[0].rank))


@ONNX.converts("Split")
def _split(call: NodeCall, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    """Split an axis into slices of the stated sizes, or into `num_outputs` of equal size, the last of which may be
    smaller.

    An axis of 7 with num_outputs=3 has the parts 3, 3 and 1. The sizes are an attribute before version 13. Without the
    attribute num_outputs, the number of parts is that of the node's results.

    Raise CompileError if static sizes do not add up to that of the axis; dynamic ones are compared in each call.
    """
    axis = call.axis(call.integer("axis", 0), x.rank)
    part_sizes: Sequence[Size] | None
    if call.version < 13:
        part_sizes = call.maybe_integers("split")
    else:
        part_sizes = None if sizes is None else call.sizes(sizes, "split")
    total = x.shape[axis]
    if part_sizes is None:
        parts = call.integer("num_outputs", call.results)
        if not 0 < parts <= 1 << 16:  # each part adds a slice to the program
            raise call.fail(f"it has {parts} outputs; expected 1 to {1 << 16}")
        part_sizes = _equal_parts(call, x, axis, parts)
    if total == 0:  # an empty axis has empty parts, whatever sizes the node states
        part_sizes = [0] * len(part_sizes)
    # The parts must be the whole axis; dynamic sizes are compared at run time.
    if is_static([total, *part_sizes]):
        if sum(part_sizes) != total:
            raise call.fail(f"its parts {part_sizes} have {sum(part_sizes)} elements, the axis has {total}")
    elif sizes is not None:  # without sizes in the node, the sum is right by construction
        call.b.require_equal(total, sum(part_sizes), f"Split: axis {axis} has {{a}} elements, its parts {{b}}")
    return slicing.split(call.b, x, axis, part_sizes)


def _equal_parts(call: NodeCall, x: Tensor, axis: int, parts: int) -> list[Size]:
    """Return the sizes of `parts` slices of an axis: 1 / parts of its size, rounded up, and what remains for the last
    slice.

    An axis of 5 does not have 4 such slices, as the first three would have 6 elements. This is an error, as in
    onnxruntime; dynamic sizes are checked at run time.
    """
    total = x.shape[axis]
    size = ceil_div(total, parts)
    rest = total - size * (parts - 1)
    message = f"axis {axis} of {x} has too few elements for {parts} slices, of which only the last may be smaller"
    if not isinstance(rest, Expr) and rest < 0:
        raise call.fail(message)
    if isinstance(rest, Expr) and parts > 2 and rest != size:  # of two slices, the second has at least 0 elements
        (HostInteger.of(call.b, rest) >= 0).require(f"Split: {message}")
    return [*[size] * (parts - 1), rest]


@ONNX.converts("Tile")
def _tile(call: NodeCall, x: Tensor, repeats: Tensor) -> Tensor:
    """Repeat the whole tensor along each axis as often as the operand `repeats` states for it."""
    counts = call.sizes(repeats, "repeats")
    if len(counts) != x.rank:
        raise call.fail(f"{len(counts)} repeats are given for the {x.rank} axes of {x}")
    return shapes.tile(call.b, x, counts)


@ONNX.converts("Expand")
def _expand(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    """Repeat x to the shape to which x and a tensor of the shape `shape` broadcast together."""
    wanted = call.integers_of(shape, "shape")
    if not any(isinstance(n, HostInteger) for n in wanted):
        sizes = call.sizes(shape, "shape")
        return shapes.broadcast_to(call.b, x, elementwise.broadcast_shape(call.b, x.shape, tuple(sizes)))
    # Sizes that each call computes. Leading 1s bring both shapes to one rank.
    rank = max(x.rank, len(wanted))
    x = shapes.reshape(call.b, x, [1] * (rank - x.rank) + list(x.shape))
    wanted = [1] * (rank - len(wanted)) + wanted
    return shapes.broadcast_to(call.b, x, [_broadcast_size(call, x, d, n) for d, n in enumerate(wanted)])


def _broadcast_size(call: NodeCall, x: Tensor, axis: int, wanted: Integer) -> Size:
    """Return the size to which an axis of x and a size that each call computes broadcast together.

    Each call checks that they do.
    """
    n, wanted = x.shape[axis], HostInteger.of(call.b, wanted)
    (wanted >= 0).require("Expand: its operand 'shape' has a negative size")
    if n == 1:
        return wanted.size()
    (wanted.is_equal(1) | wanted.is_equal(n)).require(
        f"Expand: the size of axis {axis} of {x} is not that in its operand 'shape', which is not 1"
    )
    return n


# -- blocks


@ONNX.converts("DepthToSpace")
def _depth_to_space(call: NodeCall, x: Tensor) -> Tensor:
    """Move channels of x [n, depth, h, w] into blocks of blocksize * blocksize pixels.

    A depth index consists of the position in the block and the new channel. With the mode "DCR" the position is
    outermost, with "CRD" the channel.
    """
    block = _block(call)
    is_position_outermost = call.text("mode", "DCR", ("DCR", "CRD")) == "DCR"
    n, depth, height, width = _image(call, x)
    if is_position_outermost:
        parts, order = [n, block, block, depth // (block * block), height, width], [0, 3, 4, 1, 5, 2]
    else:
        parts, order = [n, depth // (block * block), block, block, height, width], [0, 1, 4, 2, 5, 3]
    transposed = shapes.transpose(call.b, shapes.reshape(call.b, x, parts), order)
    return shapes.reshape(call.b, transposed, [n, depth // (block * block), height * block, width * block])


@ONNX.converts("SpaceToDepth")
def _space_to_depth(call: NodeCall, x: Tensor) -> Tensor:
    """Move blocks of pixels of x [n, depth, h, w] into channels. In a new depth index the position in the block is
    outermost, and the old channel varies fastest.
    """
    block = _block(call)
    n, depth, height, width = _image(call, x)
    parts = shapes.reshape(call.b, x, [n, depth, height // block, block, width // block, block])
    transposed = shapes.transpose(call.b, parts, [0, 3, 5, 1, 2, 4])
    return shapes.reshape(call.b, transposed, [n, depth * block * block, height // block, width // block])


def _block(call: NodeCall) -> int:
    """Return the attribute blocksize, the number of rows, and of columns, of a block of pixels."""
    block = call.integer("blocksize")
    if block < 1:
        raise call.fail(f"its block size is {block}; expected at least 1")
    return block


def _image(call: NodeCall, x: Tensor) -> Sequence[Size]:
    """Return the sizes of an operand [n, c, h, w]."""
    if x.rank != 4:
        raise call.fail(f"its operand is {x}; expected 4 axes")
    return x.shape


@ONNX.converts("Trilu")
def _trilu(call: NodeCall, x: Tensor, k: Tensor | None = None) -> Tensor:
    """Return x with 0 below diagonal k, or above it if the attribute `upper` is 0. Matrices are the last two axes.

    Diagonal 0 is the main one, which is also the default; positive ones are above it.
    """
    upper = call.flag("upper", default=True)
    if x.rank < 2:
        raise call.fail(f"its operand is {x}; expected 2 axes or more")
    # "ge": elements stay where column - row >= k.
    return matrices.triangle(call.b, x, "ge" if upper else "le", k if k is not None else call.b.constant(np.int64(0)))


# -- optional values: a tensor, or None for an omitted one


@ONNX.converts("OptionalHasElement")
def _has_element(call: NodeCall, x: Tensor | None = None) -> Tensor:
    """Return whether the optional value is a tensor: a bool that is known at compile time."""
    return call.b.constant(np.bool_(x is not None))


@ONNX.converts("OptionalGetElement")
def _get_element(call: NodeCall, x: Tensor) -> Tensor:
    """Return the operand: an optional value with an element is represented by its tensor."""
    return x
