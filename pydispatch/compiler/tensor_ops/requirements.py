"""Requirements on sizes that keep an operation in bounds: rules state them, the host checks them before a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from pydispatch.compiler.tensor_ops.terms import Term


@dataclass(frozen=True)
class Equal:
    """Requirement that two numbers are equal.

    what: the error message, with {} for a text such as "3 elements instead of 4". unit: the counted unit in that
    text.
    """

    a: Term
    b: Term
    what: str
    unit: str = "elements"


@dataclass(frozen=True)
class NotNegative:
    """A value is 0 or more. what: the message."""

    value: SSAValue
    what: str


@dataclass(frozen=True)
class SliceFits:
    """A slice along an axis of `whole` elements ends inside. offset: None for a computed one, which kernels clamp."""

    axis: int
    offset: int | None
    size: Term
    stride: int | SSAValue
    whole: Term


@dataclass(frozen=True)
class WindowFits:
    """An index computed from loops is inside an axis of `whole` elements, unless a loop is empty. loops: how often each
    runs, None where nothing says it."""

    operand: int
    axis: int
    index: AffineExpr
    loops: Sequence[Term | None]
    whole: Term


Requirement = Equal | NotNegative | SliceFits | WindowFits
