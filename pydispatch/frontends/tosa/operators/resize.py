"""Conversion of image resizing."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, DType
from pydispatch.graph.size_functions import maximum
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.indexing import CoordinateBuilder, elements_at


@dataclass(frozen=True)
class _ResizeAxis:
    """Interpolation positions along a resized axis.

    Element i of the result is between the source elements `lower[i]` and `upper[i]`, at the fraction
    `distance[i] / scale` after the first of them. The tensors are i32[size].

    Attributes:
        size: Number of elements of the result.
        scale: Number of parts into which the distance of two source elements is divided.
        lower: For each element the index of the source element before it, limited to the axis.
        upper: For each element the index of the source element after it, limited to the axis.
        distance: For each element its distance from `lower` in parts, from 0 to scale - 1.
    """

    size: Size
    scale: int
    lower: Tensor
    upper: Tensor
    distance: Tensor


def _axis(builder: Builder, size: Size, numerator: int, denominator: int, offset: int, border: int) -> _ResizeAxis:
    """Return the interpolation positions of an axis of `size` elements that is scaled by numerator / denominator.

    Element i of the result is at (i * denominator + offset) / numerator of the source. Its integer part is `lower`,
    limited to the axis, and its remainder is `distance`.

    Example: an axis of 3 elements, scaled by 2 / 1 with offset and border 0, has the 5 positions 0, 1/2, 1, 3/2 and 2.
    `lower` is [0, 0, 1, 1, 2], `upper` is [1, 1, 2, 2, 2] and `distance` is [0, 1, 0, 1, 0], in halves.

    Args:
        builder: The builder.
        size: Number of elements of the source.
        numerator: Number of parts into which the distance of two source elements is divided: the unit of `offset` and
            `border`.
        denominator: Distance of two elements of the result, in these parts.
        offset: Position of element 0 of the result.
        border: How far the last element of the result may be beyond the last source element.

    Raises:
        CompileError: The last position is not that of an element, so that the result would have no whole number of
            elements.
    """
    # Largest i * denominator that the border permits, in parts of 1 / numerator: the position of the last element,
    # i * denominator + offset, is at most (size - 1) * numerator + border.
    room = (size - 1) * numerator - offset + border
    if not isinstance(room, Expr) and (room < 0 or room % denominator):
        raise builder.fail(
            f"an axis of {size} scaled by {numerator} / {denominator} with offset {offset} and border {border} has no "
            "whole number of elements"
        )
    out = room // denominator + 1

    def size_tensor(n: Size) -> Tensor:
        """Return a size as an i32 scalar."""
        return reductions.size_as(builder, n, I32)

    def binary(name: str, x: Tensor, n: Size) -> Tensor:
        """Apply a function of `elementwise.binary`, by its name, to a tensor and a size."""
        return ew.binary(builder, name, x, size_tensor(n))

    at = binary("add", binary("mul", shapes.iota(builder, [out], axis=0, dtype=I32), denominator), offset)
    # Modulo and division that round down: "rem" has the sign of `at`, which a negative offset makes negative.
    # The distance is ((at rem numerator) + numerator) rem numerator.
    distance = binary("rem", binary("add", binary("rem", at, numerator), numerator), numerator)
    whole = binary("div", ew.binary(builder, "sub", at, distance), numerator)
    last = maximum(size - 1, 0)  # index of the last source element; an empty axis has none, and 0 here
    lower, upper = (binary("min", binary("max", n, 0), last) for n in (whole, binary("add", whole, 1)))
    return _ResizeAxis(size=out, scale=numerator, lower=lower, upper=upper, distance=distance)


def _taken(builder: Builder, x: Tensor, shape: tuple[Size, ...], rows: Tensor, columns: Tensor) -> Tensor:
    """Return the elements of images x [n, height, width, c] at the given rows and columns.

    Element [n, i, j, c] of the result is x[n, rows[i], columns[j], c]. For rows [0, 2] and columns [1, 1, 2], an image
    of 3 x 3 elements becomes one of 2 x 3 elements.

    shape: shape of the result, (n, number of rows, number of columns, c). rows, columns: vectors of indices.
    """

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return the position in x of an element of the result: its own image and channel, and its entries of `rows`
        and `columns`, which are `coords.elements` 0 and 1.

        It is called once, in the body of an operation that runs for each element of the result; `coords` emits the
        arithmetic.
        """
        return [
            coords.loop_index(0),
            coords.index_of(coords.elements[0]),
            coords.index_of(coords.elements[1]),
            coords.loop_index(3),
        ]

    # `elements_at` runs `coordinates` for each element of the result; its last two operands are `coords.elements`.
    return elements_at(builder, x, shape, coordinates, _along(builder, rows, axis=1), _along(builder, columns, axis=2))


def _along(builder: Builder, x: Tensor, axis: int) -> Tensor:
    """Reshape a vector so that its elements are along axis `axis` of 4, the others having size 1.

    The result broadcasts to images [n, height, width, c].
    """
    return shapes.reshape(builder, x, [x.shape[0] if d == axis else 1 for d in range(4)])


def _nearest(builder: Builder, axis: _ResizeAxis) -> Tensor:
    """Return the index of the nearer source element for each element of the result along an axis: i32[axis.size]."""

    def nearer(low: Element, high: Element, distance: Element) -> Element:
        """Return the index of the nearer one of two source elements; of equally near ones the second.

        distance: distance from the first in parts, of which `axis.scale` are the distance of the two.
        """
        return (distance * 2 >= axis.scale).where(high, low)

    return formula(builder, nearer, axis.lower, axis.upper, axis.distance)


def _resize(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Resize images [n, height, width, c] to the nearest elements or by bilinear interpolation.

    The operands `scale` (numerator and denominator of the height, then of the width), `offset` and `border` (of the
    height and of the width) define the positions along each axis: element i of the result is at
    (i * denominator + offset) / numerator of the source, and the last one at most border / numerator beyond its last
    element. Older releases have attributes instead. For scale [2, 1, 2, 1] with offset and border [0, 0], images of
    3 x 3 elements become images of 5 x 5.

    Raise CompileError if the image does not have four axes, or scale, offset and border are not known numbers.
    """
    tracer.require_rank(inputs[0], 4, "the image")
    attributes = [tracer.sizes_of(op, inputs, index=at, name=name, count=count)
             for at, name, count in ((1, "scale", 4), (2, "offset", 2), (3, "border", 2))]  # fmt: skip
    # Dynamic sizes, which are no ints, are left out here and refused below.
    scale, offset, border = ([n for n in sizes if isinstance(n, int)] for sizes in attributes)
    if len(scale) != 4 or len(offset) != 2 or len(border) != 2 or min(scale) < 1:
        raise tracer.b.fail(
            "the scale {}, offset {} and border {} must be known numbers, and those of the scale at least 1".format(
                *attributes
            )
        )
    # Positions along the vertical axis y and the horizontal axis x_.
    y, x_ = (
        _axis(tracer.b, inputs[0].shape[1 + d], scale[2 * d], scale[2 * d + 1], offset[d], border[d]) for d in (0, 1)
    )
    shape = (inputs[0].shape[0], y.size, x_.size, inputs[0].shape[3])
    if tracer.word(op, "mode", "") == "NEAREST_NEIGHBOR":
        return _taken(tracer.b, inputs[0], shape, _nearest(tracer.b, y), _nearest(tracer.b, x_))
    # Bilinear: blend the four neighbours of each position, in the order in which `_blend` takes them.
    corners = [
        _taken(tracer.b, inputs[0], shape, row, column) for row in (y.lower, y.upper) for column in (x_.lower, x_.upper)
    ]
    dtype = tracer.dtype(op)
    # The distances as tensors along the height and the width of the result, which broadcast to its elements.
    dy, dx = _along(tracer.b, y.distance, axis=1), _along(tracer.b, x_.distance, axis=2)
    return formula(tracer.b, lambda *e: _blend(dtype, y.scale, x_.scale, *e), *corners, dy, dx)


def _blend(
    dtype: DType, height: int, width: int, v00: Element, v01: Element, v10: Element, v11: Element, dy: Element,
    dx: Element,
) -> Element:  # fmt: skip
    """Return the bilinear sum of four neighbours: v00 (upper left), v01 (upper right), v10 and v11 (below them).

    dtype: type of the result. height, width: numbers of equal parts into which the distance of two neighbours is
    divided. dy, dx: distances from v00, counted in these parts. Floats are divided by height and width; as TOSA
    defines, integers are not, so their sum is height * width times the interpolated number.
    """
    dy, dx = dy.to(dtype), dx.to(dtype)
    if dtype.is_float:
        dy, dx, height, width = dy / height, dx / width, 1, 1
    v00, v01, v10, v11 = (v.to(dtype) for v in (v00, v01, v10, v11))
    ny, nx = dy.const(height) - dy, dx.const(width) - dx
    return v00 * ny * nx + v01 * ny * dx + v10 * dy * nx + v11 * dy * dx


ROWS: dict[str, Convert] = {"tosa.resize": _resize}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
