"""Mapping of the dimensions of a view's source to the dimensions of the view (a cast, reshape or padding)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from pydispatch.compiler.analysis.sizes import reassociation
from pydispatch.ir.values import shape_of

Axes = list["int | None"]
"""For each dimension of the source, the dimension of the view that corresponds to it, or None."""


def _same_axes(op: Operation) -> Axes:
    """Return the axes of an operation that keeps all dimensions, such as a padding.

    A dimension whose size changes or is dynamic has no corresponding one.
    """
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    is_kept = [old == new and old >= 0 for old, new in zip(source, result, strict=True)]
    return [axis if kept else None for axis, kept in enumerate(is_kept)]


def _only_long_dimension(group: Sequence[int], shape: Sequence[int]) -> int | None:
    """Return the only dimension of a group whose size is not 1; None if there are none or several."""
    long = [d for d in group if shape[d] != 1]
    return long[0] if len(long) == 1 else None


def _collapsed_axes(op: Operation) -> Axes:
    """Return, for each dimension of a collapse_shape's source, the dimension of the result that corresponds to it.

    A group of dimensions is collapsed into one. The result corresponds to the only dimension of the group whose size is
    not 1; all others have None. For [1, 8, 2, 3] collapsed to [8, 6], the result is [None, 0, None, None].
    """
    shape = shape_of(op.operands[0])
    axes: Axes = [None] * len(shape)
    for axis, group in enumerate(reassociation(op)):
        if (only := _only_long_dimension(group, shape)) is not None:
            axes[only] = axis
    return axes


def _expanded_axes(op: Operation) -> Axes:
    """Return, for each dimension of an expand_shape's source, the dimension of the result that corresponds to it.

    A dimension is expanded to a group of dimensions. The corresponding one is the only dimension of the group whose
    size is not 1; None if there are none or several. For [8, 6] expanded to [1, 8, 2, 3], the result is [1, None].
    """
    return [_only_long_dimension(group, shape_of(op.results[0])) for group in reassociation(op)]


VIEWS: dict[str, Callable[[Operation], Axes]] = {
    "tensor.cast": _same_axes,
    "tensor.collapse_shape": _collapsed_axes,
    "tensor.expand_shape": _expanded_axes,
    "tensor.pad": _same_axes,
}
"""Operations that are views of their first operand, or pad it → function that returns their axes."""
