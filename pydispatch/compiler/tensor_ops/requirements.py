"""Requirements on sizes that keep an operation in bounds: rules state them, the host checks them before a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from pydispatch.compiler.tensor_ops.terms import Term


@dataclass(frozen=True)
class Equal:
    """Requirement that two integers are equal, usually a size and the size that an operation expects.

    Attributes:
        expected: The required value, such as 4.
        actual: The value that is checked, such as 3.
        message: Error message, such as "the result has {}". {} is replaced by "3 elements instead of 4".
        unit: What the integers count, for the message.
    """

    expected: Term
    actual: Term
    message: str
    unit: str = "elements"


@dataclass(frozen=True)
class NotNegative:
    """Requirement that an integer is not negative.

    Attributes:
        value: The integer.
        message: Error message.
    """

    value: Term
    message: str


@dataclass(frozen=True)
class SliceFits:
    """Requirement that a slice is inside an axis of a tensor.

    Attributes:
        axis: The axis.
        offset: First element of the slice; None if it is computed, because kernels clamp such an offset.
        size: Number of elements of the slice.
        stride: Distance between two of its elements, negative for a slice that runs backwards; a value if computed.
        axis_size: Number of elements of the axis.
    """

    axis: int
    offset: int | None
    size: Term
    stride: int | SSAValue
    axis_size: Term


@dataclass(frozen=True)
class WindowFits:
    """Requirement that an index computed from loops is inside an axis of a tensor, unless a loop has no iterations.

    Attributes:
        operand: Index of the operand that is the tensor.
        axis: The axis.
        index: The index as an expression of the loops.
        loops: Number of iterations of each loop; None if nothing states it.
        axis_size: Number of elements of the axis.
    """

    operand: int
    axis: int
    index: AffineExpr
    loops: Sequence[Term | None]
    axis_size: Term


Requirement = Equal | NotNegative | SliceFits | WindowFits
"""Condition on sizes, offsets or strides: checked while compiling if they are constants, else before the dispatch."""
