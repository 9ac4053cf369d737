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
        a: The required value.
        b: The value that is checked.
        what: Error message, with {} for a text such as "3 elements instead of 4": `b`, the unit, `a`.
        unit: Name of the things that the integers count, in that text.
    """

    a: Term
    b: Term
    what: str
    unit: str = "elements"


@dataclass(frozen=True)
class NotNegative:
    """Requirement that an integer is not negative.

    Attributes:
        value: The integer.
        what: Error message.
    """

    value: SSAValue
    what: str


@dataclass(frozen=True)
class SliceFits:
    """Requirement that a slice is inside an axis of a tensor.

    Attributes:
        axis: The axis.
        offset: First element of the slice; None if it is computed, because kernels clamp such an offset.
        size: Number of elements of the slice.
        stride: Distance between two of its elements, negative for a slice that runs backwards; a value if computed.
        whole: Number of elements of the axis.
    """

    axis: int
    offset: int | None
    size: Term
    stride: int | SSAValue
    whole: Term


@dataclass(frozen=True)
class WindowFits:
    """Requirement that an index computed from loops is inside an axis of a tensor, unless a loop has no iterations.

    Attributes:
        operand: Index of the operand that is the tensor.
        axis: The axis.
        index: The index as an expression of the loops.
        loops: Number of iterations of each loop; None if nothing states it.
        whole: Number of elements of the axis.
    """

    operand: int
    axis: int
    index: AffineExpr
    loops: Sequence[Term | None]
    whole: Term


Requirement = Equal | NotNegative | SliceFits | WindowFits
