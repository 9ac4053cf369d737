"""Conversions of the greatest common divisor and the least common multiple of integers."""

from __future__ import annotations

from pydispatch.frontends.torch.promotion import Operand, promoted
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, reductions, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula, formulas


@converts("aten.gcd")
def gcd(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the greatest common divisors, by Euclid's algorithm on all elements at once until every remainder is 0.

    Raise CompileError if the operands are no integers.
    """
    x, y = promoted(builder, self, other)
    if not x.dtype.is_integer:
        raise builder.fail(f"common divisors of {x} and {y}; expected integers")
    shape = ew.broadcast_shape(builder, x.shape, y.shape)
    x, y = (shapes.broadcast_to(builder, v, shape) for v in (x, y))
    if not x.dtype.is_unsigned:
        x, y = (ew.unary(builder, "abs", v) for v in (x, y))

    def has_remainder(tensors: list[Tensor]) -> Tensor:
        """Return whether the second number of any pair is not 0, so that the algorithm is not finished."""
        return reductions.reduce(builder, "or", formula(builder, lambda v: v.is_unequal(0), tensors[1]))

    def euclid_step(tensors: list[Tensor]) -> list[Tensor]:
        """Replace (v, w) by (w, v mod w) where w is not 0. Pairs with w = 0 are finished and stay as they are; since
        every element is computed, they divide by 1 instead of 0.
        """
        return formulas(
            builder, lambda v, w: (w.is_equal(0).where(v, w), w.is_equal(0).where(w, v % w.is_equal(0).where(1, w))),
            *tensors,
        )  # fmt: skip

    return control.while_(builder, [x, y], has_remainder, euclid_step)[0]


@converts("aten.lcm")
def lcm(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the least common multiples; 0 if a number is 0."""
    x, y = promoted(builder, self, other)
    divisor = gcd(builder, x, y)
    multiple = formula(builder, lambda v, w, d: v / d.is_equal(0).where(1, d) * w, x, y, divisor)
    return multiple if x.dtype.is_unsigned else ew.unary(builder, "abs", multiple)
