"""erf and erfc: near zero an odd polynomial; beyond, exp(-x^2) times one."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.exponentials import exp, exp_parts
from pydispatch.compiler.kernel_ir.math.formats import format_of, polynomial, quotient, scaled, two_product
from pydispatch.compiler.kernel_ir.math.numbers import Number, choose
from pydispatch.compiler.kernel_ir.math.pairs import fast_sum

NEAR = 0.875
"""Magnitude below which the functions are a polynomial of x^2."""


def erf(x: Number) -> Number:
    """Return the error function: near zero x + x P(x^2); beyond, 1 - exp(-x^2) G(x), until that rounds to 1."""
    format = format_of(x)
    size = x.magnitude().at_most(format.erf_end)  # from there on erf is 1
    z = size * size
    near = size.fma(polynomial(z, "erf"), size)
    if format.computes_in_pairs:  # f64: G is a polynomial of u, over 1 + 2x
        u = (size - 4.0) / (size + 4.0)
        far = 1.0 - exp(-z) * polynomial(u, "erfcx") / (1.0 + 2.0 * size)
    else:  # f32: G is a polynomial around the centre of 0.875 to `erf_end`
        far = (-exp(-z)).fma(polynomial(size - 2.4375, "erfcx"), 1.0)
    return choose(size < NEAR, near, far).with_sign_of(x)


def erfc(x: Number) -> Number:
    """Return the complementary error function.

    There are three cases:

    - |x| < `NEAR`: 1 - erf(x), where erf(x) = x + x P(x^2) with a polynomial P.
    - x >= `NEAR`: exp(-x^2) erfcx(x). The scaled function erfcx(x) = exp(x^2) erfc(x) decreases slowly, about as
      0.56 / x, and is G(u) / (1 + 2x) with a polynomial G of u = (x - 4) / (x + 4). For x > 6, f64 has Q(1/x^2) / x
      instead, with a polynomial Q.
    - x <= -`NEAR`: 2 - erfc(-x).
    """
    format = format_of(x)
    size = x.magnitude().at_most(format.erfc_end)  # from there on erfc is 0
    u = (size - 4.0) / (size + 4.0)  # maps all x >= 0 to the interval from -1 to 1
    scale = fast_sum(2.0 * size, size.new(1.0))  # 1 + 2x as a pair
    # erfcx(x) as the sum g + g_low. Only f64 `computes_in_pairs`. In f32, G is the polynomial "erfc": "erfcx" belongs
    # to `erf` there.
    g, g_low = quotient((polynomial(u, "erfcx" if format.computes_in_pairs else "erfc"), size.new(0.0)), scale)
    if format.computes_in_pairs:
        outer = size > 6.0
        t = 1.0 / choose(outer, size, 6.0)  # 6 where t is not used, so that nothing divides by 0
        g, g_low = choose(outer, polynomial(t * t, "erfc far") * t, g), choose(outer, 0.0, g_low)
    # exp(-x^2) erfcx(x). x^2 is a pair: the error of a rounded square may change the exponential by many units in the
    # last place.
    square, square_low = two_product(size, size)
    m, k = exp_parts(-square, -square_low)  # exp(-x^2) = 2^k (1 + m)
    y = scaled(g + ((g + g_low) * m + g_low), k)  # 2^k (g + g_low) (1 + m), the largest term added last
    y = choose(x < 0.0, 2.0 - y, y)
    y = choose(size < NEAR, (1.0 - x) - x * polynomial(x * x, "erf"), y)
    return choose(x.is_nan(), x, y)
