"""Conversions of the greatest common divisor and the least common multiple of integers."""

from __future__ import annotations

from pydispatch.frontends.torch.promotion import Operand, promoted
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, reductions, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula, formulas


def gcd(b: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the greatest common divisors, by Euclid's algorithm on all elements at once until every remainder is 0."""
    x, y = promoted(b, self, other)
    if not x.dtype.is_integer:
        raise b.fail(f"common divisors of {x} and {y}; expected integers")
    shape = ew.broadcast_shape(b, x.shape, y.shape)
    x, y = (shapes.broadcast_to(b, v, shape) for v in (x, y))
    if not x.dtype.is_unsigned:
        x, y = (ew.unary(b, "abs", v) for v in (x, y))

    def has_remainder(tensors: list[Tensor]) -> Tensor:
        return reductions.reduce(b, "or", formula(b, lambda v: v.is_unequal(0), tensors[1]))

    def euclid_step(tensors: list[Tensor]) -> list[Tensor]:
        """Replace (v, w) by (w, v mod w) where w is not 0."""
        return formulas(
            b, lambda v, w: (w.is_equal(0).where(v, w), w.is_equal(0).where(w, v % w.is_equal(0).where(1, w))),
            *tensors,
        )  # fmt: skip

    return control.while_(b, [x, y], has_remainder, euclid_step)[0]


def lcm(b: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the least common multiple; 0 if both numbers are 0."""
    x, y = promoted(b, self, other)
    divisor = gcd(b, x, y)
    multiple = formula(b, lambda v, w, d: v / d.is_equal(0).where(1, d) * w, x, y, divisor)
    return multiple if x.dtype.is_unsigned else ew.unary(b, "abs", multiple)


DIVISORS: dict[str, Conversion] = {"aten.gcd": gcd, "aten.lcm": lcm}
