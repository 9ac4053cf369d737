"""Scaling of tensors by powers of two, so that squares of their elements neither overflow nor underflow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reductions import reduce


def scaled_to_one(builder: Builder, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Divide x by a power of two so that the largest magnitude along axes is in [1, 2).

    Args:
        builder: The builder of the program.
        x: Floats of f32 or f64.
        axes: The axes whose elements share a divisor.

    Returns:
        The quotients, and the divisors, whose size along `axes` is 1. Quotients are exact unless they are subnormal.
            Zeros remain zeros; elements that share a divisor with an infinity or NaN are divided by 1.
    """
    integer = {32: I32, 64: I64}[x.dtype.bits]
    exponents = int(np.array(np.inf, x.dtype.numpy).view(integer.numpy))  # mask of the exponent: the bits of infinity
    smallest = exponents & -exponents  # the bits of the smallest normal number: an exponent of 1

    def power(size: Element) -> Element:
        """Return the largest power of two that is at most `size`, from its exponent bits; 1 for an infinity or NaN."""
        result = (size.bitcast(integer) & exponents).max(smallest).bitcast(x.dtype)
        return size.unary("is_finite").where(result, 1.0)

    largest = reduce(builder, "max", formula(builder, lambda v: v.unary("abs"), x), axes, keep=True)
    divisors = formula(builder, power, largest)
    return ew.binary(builder, "div", x, divisors), divisors
