"""Convolutions of operands with inserted zeros, such as transposed convolutions, without the products with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.products import contract
from pydispatch.operations.shapes import rearranged, reshape, transpose
from pydispatch.operations.slicing import pad, slice_axis


def convolve_without_inserted_zeros(
    builder: Builder, x: Tensor, w: Tensor, padding: Sequence[tuple[Size, Size]], factors: Sequence[int], dtype: DType,
    channels_last: bool,
) -> Tensor:  # fmt: skip
    """Return the convolution of x with `factors` - 1 zeros between its elements, without the products with these zeros.

    Along an axis with factor s, padding L before it and kernel w, result o is phase r (0 <= r < s) of group u, where
    s u + r = o + s - 1 - L. It is the sum over p of x[u + p] w[s p + s - 1 - r]. One contraction computes all phases of
    all groups; a reshape interleaves them. `padding` has the zeros before and after each axis; `channels_last` is that
    of `convolution`.

    The window has strides and dilations of 1, each kernel size is a multiple of its factor, and all sizes but the batch
    are static and not 0, as `convolutions._can_skip_inserted_zeros` checks.

    If s is 2 and the first result is phase 1, each group is shifted by one result, so that none lies outside of the
    result: it is phase 1 of group u and phase 0 of group u + 1. Loops over phases then count 1 - r, which is also the
    distance from u.
    """
    n, f, c = x.shape[0], w.shape[0], x.shape[1]
    # Along each spatial axis, the groups of results and the padding of x by which they read from its beginning.
    grouped = [
        _GroupedAxis.of(x.shape[2 + axis], w.shape[2 + axis], s, *padding[axis]) for axis, s in enumerate(factors)
    ]
    groups = [axis.groups for axis in grouped]
    x = pad(builder, x, [0, 0, *(axis.low for axis in grouped)], [0, 0, *(axis.high for axis in grouped)])
    steps = [k // s for k, s in zip(w.shape[2:], factors, strict=True)]
    loops = _PhaseLoops(grouped, factors, channels_last)
    sizes = [n, *groups, *factors, f, c, *steps]  # of the loops
    # The filters are first rearranged to the order of the loops that read them.
    w = rearranged(builder, w, tuple(sizes[i] for i in loops.of_filters), loops.filter_source())
    convolved = contract(
        builder, x, w, x_map=loops.x_map(), y_map=loops.map_to(loops.of_filters), out_map=loops.map_to(loops.of_result),
        shape=tuple(sizes[i] for i in loops.of_result), parallel=loops.is_parallel, dtype=dtype,
    )  # fmt: skip
    # Merge each axis of groups with the axis of their phases.
    counts = [count * s for count, s in zip(groups, factors, strict=True)]
    convolved = reshape(builder, convolved, [n, *counts, f] if channels_last else [n, f, *counts])
    first_spatial_axis = 1 if channels_last else 2
    for position, axis in enumerate(grouped):  # the first and the last group may have phases outside of the result
        convolved = slice_axis(builder, convolved, first_spatial_axis + position, axis.start, axis.start + axis.out)
    return transpose(builder, convolved, [0, x.rank - 1, *range(1, x.rank - 1)]) if channels_last else convolved


class _PhaseLoops:
    """Numbers of the loops of `convolve_without_inserted_zeros`: n, groups u..., phases r..., f, c, steps p...

    With one spatial axis they are 0 to 5: `groups` is [1], `phases` [2], `f` 3, `c` 4 and `steps` [5].

    Attributes:
        of_filters: The loops that read the filters, in the order of the axes of the rearranged filters.
        of_result: The loops in the order of the axes of the result. Each axis of groups is before the axis of their
            phases: [n, f, u, r, ...], or with the channels last [n, u, r, ..., f].
        is_parallel: For each loop, whether it is no reduction; those over c and the steps are.
    """

    def __init__(self, axes: Sequence[_GroupedAxis], factors: Sequence[int], channels_last: bool) -> None:
        """Assign the numbers. Along the spatial axes `axes`, elements are `factors` apart."""
        self._axes, self._factors, spatial = axes, factors, len(axes)
        self.groups = range(1, 1 + spatial)
        self.phases = range(self.groups.stop, self.groups.stop + spatial)
        self.f, self.c = self.phases.stop, self.phases.stop + 1
        self.steps = range(self.c + 1, self.c + 1 + spatial)
        phases, steps = self.phases, self.steps
        self.of_filters = [*phases, *steps, self.c, self.f] if channels_last else [*phases, self.f, self.c, *steps]
        interleaved = [i for pair in zip(self.groups, phases, strict=True) for i in pair]
        self.of_result = [0, *interleaved, self.f] if channels_last else [0, self.f, *interleaved]
        self.is_parallel = [i < self.c for i in range(steps.stop)]

    def map_to(self, loops: Sequence[int]) -> AffineMap:
        """Return the map to an operand or result with one axis for each of `loops`."""
        return AffineMap(self.steps.stop, 0, tuple(AffineExpr.dimension(i) for i in loops))

    def filter_source(self) -> AffineMap:
        """Return the map from the axes of the rearranged filters to those of the filters [f, c, kernel...]."""

        def d(loop: int) -> AffineExpr:
            return AffineExpr.dimension(self.of_filters.index(loop))

        # The element of the kernel is s p + s - 1 - r. The loop of a shifted axis counts 1 - r: this is s - 1 - r.
        taps = [
            d(step) * s + (d(phase) if axis.is_shifted else d(phase) * -1 + (s - 1))
            for phase, step, s, axis in zip(self.phases, self.steps, self._factors, self._axes, strict=True)
        ]
        return AffineMap(len(self.of_filters), 0, (d(self.f), d(self.c), *taps))

    def x_map(self) -> AffineMap:
        """Return the map to the padded x [n, c, ...]: its element is u + p, or for a shifted axis u + 1 - r + p."""
        d = AffineExpr.dimension
        positions = [
            d(group) + d(phase) + d(step) if axis.is_shifted else d(group) + d(step)
            for group, phase, step, axis in zip(self.groups, self.phases, self.steps, self._axes, strict=True)
        ]
        return AffineMap(self.steps.stop, 0, (d(0), d(self.c), *positions))


@dataclass(frozen=True)
class _GroupedAxis:
    """Spatial axis of a convolution of an operand with `factor` - 1 zeros inserted between its elements.

    `convolve_without_inserted_zeros` creates one for each spatial axis. The results are divided into groups of `factor`
    consecutive ones. The phase of a result, from 0 to `factor` - 1, is its position in the group. All results of one
    phase multiply the same elements of the kernel; the other elements meet inserted zeros.

    Example: the operand a b c, factor 2, a kernel w of 4 elements, padding 1 before and after. With the zeros, the
    operand is 0 a 0 b 0 c 0. The results of group 0 are a w1 + b w3 (phase 0) and a w0 + b w2 (phase 1), those of group
    1 are b w1 + c w3 and b w0 + c w2. `out` is 4, `groups` is 2, and `start`, `low` and `high` are 0. With padding 2
    before, the first result is a w2, phase 1 of group -1. Groups are then shifted: the first one has the results a w2
    and a w1 + b w3.

    Attributes:
        out: Number of results.
        is_shifted: Whether each group has phase 1 of one group and phase 0 of the next, so that the first group is
            complete. Only if the factor is 2 and the first result is phase 1.
        start: Phase of the first result; 0 if groups are shifted.
        groups: Number of groups, the incomplete first and last one included.
        low: Padding elements before the operand, so that the first group reads from its beginning; below 0, elements
            that are cut off.
        high: Padding elements after the operand, so that the last group reads to its end; below 0 as for `low`.
    """

    out: int
    is_shifted: bool
    start: int
    groups: int
    low: int
    high: int

    @classmethod
    def of(cls, size: Size, kernel: Size, factor: int, before: Size, after: Size) -> _GroupedAxis:
        """Compute the groups and the padding of an axis. All sizes are static.

        A group has `factor` consecutive results of the convolution along the axis, which read the same elements of the
        operand. The phase r of a result is its position in the group: it multiplies element p of these by the element
        factor * p + factor - 1 - r of the kernel. For 3 elements, 4 elements of the kernel, factor 2 and padding 1
        before and after, the 4 results are 2 groups of 2 phases.

        Args:
            size: Number of elements of the operand, without the inserted zeros.
            kernel: Number of elements of the kernel, a multiple of the factor.
            factor: Distance of neighbouring elements after zeros were inserted.
            before: Zeros before the operand, counted after the insertion; below 0, elements that are cut off.
            after: Zeros after it.
        """
        assert isinstance(size, int) and isinstance(kernel, int) and isinstance(before, int) and isinstance(after, int)
        out = (size - 1) * factor + 1 + before + after - kernel + 1  # number of results
        # Result o is phase r of group u, with factor * u + r = o + factor - 1 - before. The groups u of the first
        # result, o = 0, and of the last one, o = out - 1:
        first_group, last_group = (factor - 1 - before) // factor, (out + factor - 2 - before) // factor
        start, groups = (factor - 1 - before) % factor, last_group - first_group + 1
        # If the first result is phase 1 of 2, its group lacks phase 0: groups then have phase 1 and the next phase 0.
        is_shifted = factor == 2 and start == 1
        if is_shifted:
            groups = -(-out // 2)  # out / 2, rounded up
            last_group = first_group + groups  # phase 0 of the last pair
        return cls(
            out=out,
            is_shifted=is_shifted,
            start=0 if is_shifted else start,
            groups=groups,
            low=-first_group,
            high=last_group + kernel // factor - size,  # a group reads kernel // factor elements
        )
