"""erf and erfc: near zero an odd polynomial; beyond, exp(-x^2) times one."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.exponentials import exp, exp_parts
from pydispatch.compiler.kernel_ir.math.formats import format_of, polynomial, product, scaled
from pydispatch.compiler.kernel_ir.math.numbers import Number, choose


def erf(x: Number) -> Number:
    """Near zero x + x P(x^2); beyond, 1 - exp(-x^2) G(x), until that is 1."""
    format = format_of(x)
    size = x.size().at_most(format.erf_end)
    z = size * size
    near = size.fma(polynomial(z, "erf"), size)
    if format.extended:
        far = 1.0 - exp(-z) * polynomial((size - 4.0) / (size + 4.0), "erfcx") / (1.0 + 2.0 * size)
    else:
        far = (-exp(-z)).fma(polynomial(size - 2.4375, "erfcx"), 1.0)
    return choose(size < 0.875, near, far).with_sign_of(x)


def erfc(x: Number) -> Number:
    """exp(-x^2) G(u) / (1 + 2x), u = (x - 4)/(x + 4). f64 has another polynomial from 6 on, and needs erf near zero."""
    format = format_of(x)
    size = x.size().at_most(format.erfc_end)
    u = (size - 4.0) / (size + 4.0)
    g = polynomial(u, "erfcx" if format.extended else "erfc") / (1.0 + 2.0 * size)
    if format.extended:
        outer = size > 6.0
        t = 1.0 / choose(outer, size, 6.0)
        g = choose(outer, polynomial(t * t, "erfc far") * t, g)
    square, lost = product(size, size)
    m, k = exp_parts(-square, -lost)
    y = scaled(g + g * m, k)
    y = choose(x < 0.0, 2.0 - y, y)
    if format.extended:
        y = choose(size < 0.875, (1.0 - x) - x * polynomial(x * x, "erf"), y)
    return choose(x.is_nan(), x, y)
