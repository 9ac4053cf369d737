"""Axes that are operands of a model: each call chooses them. The ranks of results are known nevertheless."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size
from pydispatch.graph.sizes import product as product_of_sizes
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.operations.host_integers import HostCondition, HostInteger, Integer, product
from pydispatch.operations.indexing import CoordinateBuilder, elements_at


class ChosenAxes:
    """Distinct axes of a tensor of rank `rank` that each call chooses: the host computes them at run time.

    Attributes:
        rank: Rank of the tensor.
        axes: The chosen axes as integers of the host, not negative, in the order of the operand.
        is_chosen: For each axis of the tensor a condition of the host: whether it is one of them.
    """

    def __init__(self, builder: Builder, axes: Sequence[HostInteger], rank: int) -> None:
        """Add checks to `builder` that the axes, which may count from the end, are distinct and within the rank."""
        if len(axes) > rank:
            raise builder.fail(f"{len(axes)} axes of a tensor of rank {rank}")
        self.builder, self.rank = builder, rank
        self.axes = [(axis < 0).where(axis + rank, axis) for axis in axes]
        for axis in self.axes:
            ((axis >= 0) & (axis < rank)).require(f"an axis is not from {-rank} to {rank - 1}")
        self.is_chosen = [self._is_chosen(d) for d in range(rank)]
        # If two of the axes are equal, fewer than len(axes) axes of the tensor are chosen.
        if len(axes) > 1:
            self._count_before(rank).is_equal(len(axes)).require("axes name an axis twice")

    def _is_chosen(self, d: int) -> HostCondition:
        """Return whether axis `d` is one of the chosen axes."""
        chosen, *others = (axis.is_equal(d) for axis in self.axes)
        for other in others:
            chosen = chosen | other
        return chosen

    def _count_before(self, d: int) -> HostInteger:
        """Return how many of the axes before axis d are chosen."""
        count = HostInteger.of(self.builder, 0)
        for is_chosen in self.is_chosen[:d]:
            count = count + is_chosen.where(1, 0)
        return count

    def scattered(self, values: Sequence[Integer], defaults: Sequence[Integer]) -> list[HostInteger]:
        """Return for each axis of the tensor its value if it is chosen, else its default.

        values: one value for each chosen axis, in the order of `axes`. defaults: one for each axis of the tensor.
        """
        scattered = []
        for d, default in enumerate(defaults):
            entry = HostInteger.of(self.builder, default)
            for axis, value in zip(self.axes, values, strict=True):
                entry = axis.is_equal(d).where(value, entry)
            scattered.append(entry)
        return scattered

    def replaced(self, sizes: Sequence[Size], size: Integer) -> list[Size]:
        """Return the shape `sizes` of the tensor with the size of each chosen axis replaced by `size`."""
        return [is_chosen.where(size, n).size() for is_chosen, n in zip(self.is_chosen, sizes, strict=True)]

    def chosen(self, values: Sequence[Integer]) -> list[HostInteger]:
        """Return the values of the chosen axes, in the order of `axes`. `values` has one value for each axis of the
        tensor.
        """
        return [_selected(self.builder, axis, values) for axis in self.axes]

    def others(self, values: Sequence[Integer]) -> list[HostInteger]:
        """Return the values of the axes that are not chosen, in order. `values` has one value for each axis of the
        tensor.

        With one chosen axis c of three, the first of them is values[0] or, if c is 0, values[1].
        """
        others = []
        for n in range(self.rank - len(self.axes)):
            # The n-th axis that is not chosen is one of n, ..., last, as at most all chosen axes precede it. It is the
            # axis d that is not chosen and has d - n chosen ones before it.
            last = n + len(self.axes)
            value = HostInteger.of(self.builder, values[last])
            for d in reversed(range(n, last)):
                is_other = self.is_chosen[d].where(1, 0).is_equal(0)  # not chosen
                value = (is_other & self._count_before(d).is_equal(d - n)).where(values[d], value)
            others.append(value)
        return others

    def inserted(self, sizes: Sequence[Size]) -> list[Size]:
        """Return the shape with size 1 at the chosen axes and, in order, `sizes` at the others.

        sizes: one for each axis that is not chosen.
        """
        if not sizes:
            return [1] * self.rank
        result: list[Size] = []
        for d, is_chosen in enumerate(self.is_chosen):
            index_among_others = d - self._count_before(d)
            # The minimum is in range also where the axis is chosen; the size is not used there.
            size = _selected(self.builder, index_among_others.min(len(sizes) - 1), sizes)
            result.append(is_chosen.where(1, size).size())
        return result


def _selected(builder: Builder, index: HostInteger, values: Sequence[Integer]) -> HostInteger:
    """Return values[index] for an index that the host computes."""
    selected = HostInteger.of(builder, values[0])
    for n, value in enumerate(values[1:], 1):
        selected = index.is_equal(n).where(value, selected)
    return selected


def chosen_last(builder: Builder, x: Tensor, axes: ChosenAxes) -> Tensor:
    """Transpose x so that the chosen axes are last, in the order of `axes.axes`, and the others keep their order.

    If a call chooses axis 0 of x [2, 3, 4], the result is [3, 4, 2]. The order of axes is not known at compile time.
    Therefore x is read as a vector: the position of an element is the sum of index times stride over the axes of the
    result. In this example the strides, [12, 4, 1] in the order of x, are [4, 1, 12].
    """
    flat = shapes.reshape(builder, x, [product_of_sizes(x.shape)])
    strides = [product_of_sizes(x.shape[d + 1 :]) for d in range(x.rank)]
    # Sizes and strides become values that the host computes in each call, in the order of the result's axes.
    sizes = [n.size() for n in (*axes.others(x.shape), *axes.chosen(x.shape))]
    steps = [n.value for n in (*axes.others(strides), *axes.chosen(strides))]

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return the position in the vector `flat` of the element of the result at the loop indices."""
        position = coords.index_constant(0)
        for d, step in enumerate(steps):
            position = coords.plus(position, coords.times(coords.loop_index(d), step))
        return [position]

    return elements_at(builder, flat, tuple(sizes), coordinates)


def as_rows(builder: Builder, x: Tensor, axis: ChosenAxes) -> Tensor:
    """Reshape x to three axes: the axes before the single chosen axis merged, that axis, the axes after it merged."""
    (chosen,) = axis.axes
    before = product(builder, ((chosen > d).where(n, 1) for d, n in enumerate(x.shape)))
    after = product(builder, ((chosen < d).where(n, 1) for d, n in enumerate(x.shape)))
    (size,) = axis.chosen(x.shape)
    return shapes.reshape(builder, x, [n.size() for n in (before, size, after)])
