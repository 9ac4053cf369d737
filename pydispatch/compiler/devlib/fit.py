"""Computes every polynomial and table of the mathematical functions: of kernel IR and of the device library in C.

Run `python -m pydispatch.compiler.devlib.fit` (needs mpmath) after a change. It writes `csrc/coefficients.h` and
`kernel_ir/math/coefficients.py`, which are in the repository, so that a build needs no mpmath. A polynomial is the
interpolant at Chebyshev nodes, computed with 400 bits, then rounded: its error is within a small factor of the best
possible one, far below the rounding error of the evaluation. Leading terms, which must be exact, are not
fitted: the user of the polynomial adds them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp  # type: ignore[import-untyped,unused-ignore]
import numpy as np

mp.mp.prec = 1500
Real = Any
"""Number of mpmath, which has no types."""


def fit(function: Callable[[Real], Real], low: Real, high: Real, degree: int) -> list[float]:
    """Return the coefficients, lowest power first, of the polynomial that is equal to `function` at the Chebyshev nodes
    of the interval [low, high]. It has `degree + 1` coefficients.
    """
    with mp.workprec(400):
        count = degree + 1
        nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        values = [function((mp.mpf(low) + high) / 2 + (mp.mpf(high) - low) / 2 * node) for node in nodes]
        # Coefficients of the Chebyshev series in t from -1 to 1, then of the powers of t (`powers`), then of the powers
        # of x (`result`) with t = scale * x + shift.
        series = [
            2 * sum(v * mp.cos(k * mp.pi * (2 * i + 1) / (2 * count)) for i, v in enumerate(values)) / count
            for k in range(count)
        ]
        series[0] /= 2
        # Chebyshev polynomials as powers of t: T(0) = 1, T(1) = t, T(k + 1) = 2 t T(k) - T(k - 1).
        previous, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
        powers = [series[0], *([mp.mpf(0)] * degree)]
        for k in range(1, count):
            for i, c in enumerate(current):
                powers[i] += series[k] * c
            following = [mp.mpf(0), *(2 * c for c in current)]
            for i, c in enumerate(previous):
                following[i] -= c
            previous, current = current, following
        scale = 2 / (mp.mpf(high) - low)
        shift = -(mp.mpf(high) + low) / (mp.mpf(high) - low)
        result = [mp.mpf(0)] * count
        for k in range(degree, -1, -1):  # Horner over polynomials
            result = [
                (result[i] * shift if i < count else 0) + (result[i - 1] * scale if i else 0) for i in range(count)
            ]
            result[0] += powers[k]
        return [float(c) for c in result]


def horner(coefficients: list[str], variable: str) -> str:
    """Return C code of a polynomial by Horner's rule: [a, b, c], x -> PYD_FMA(PYD_FMA(c, x, b), x, a).

    coefficients: C literals, lowest power first.
    """
    text = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        text = f"PYD_FMA({text}, {variable}, {c})"
    return text


def double_macro(name: str, coefficients: list[float]) -> str:
    """Return the definition of a C macro that evaluates a polynomial in double. coefficients: lowest power first.

    From degree 4 on, even and odd powers are summed separately, which halves the dependency chain; such a macro takes
    x and x^2.
    """
    words = [c.hex() for c in coefficients]
    if len(words) < 5:
        return f"#define {name}(x) {horner(words, '(x)')}\n"
    even, odd = horner(words[0::2], "(x2)"), horner(words[1::2], "(x2)")
    return f"#define {name}(x, x2) PYD_FMA({odd}, (x), \\\n  {even})\n"


def float_macro(name: str, coefficients: list[float]) -> str:
    """Return the definition of a C macro that evaluates a polynomial in float. coefficients: lowest power first."""
    words = [c.hex() + "f" for c in coefficients]
    return f"#define {name}(x) {horner(words, '(x)').replace('PYD_FMA', 'PYD_FMAF')}\n"


def split(value: Real, bits: int) -> float:
    """Return a positive `value` truncated, or a negative one rounded down, to `bits` significant bits."""
    mantissa, exponent = mp.frexp(value)
    return float(mp.ldexp(mp.floor(mantissa * 2**bits), int(exponent) - bits))


def parts(value: Real, *bits: int) -> list[float]:
    """Return doubles, largest first, whose sum is `value`: with bits[0], bits[1] ... significant bits each.

    The last one is what remains, rounded to a double.
    """
    result = []
    for count in bits[:-1]:
        result.append(split(value, count))
        value -= mp.mpf(result[-1])
    return [*result, float(value)]


def table(name: str, rows: list[list[float]]) -> str:
    """Return a C macro of the initializer of a two-dimensional array, with exact hexadecimal numbers."""
    body = ",\n".join("  {" + ", ".join(c.hex() for c in row) + "}" for row in rows)
    return f"#define {name} {{ \\\n" + body.replace("\n", " \\\n") + " }\n"


def rest(function: Callable[[Real], Real], terms: list[Real], order: int) -> Callable[[Real], Real]:
    """Return (function(x) - terms[0] - terms[1] x - ...) / x^order, as a function of x that is not defined at 0."""
    return lambda x: (function(x) - sum(t * x**i for i, t in enumerate(terms))) / x**order


def odd(function: Callable[[Real], Real], lead: Real, order: int = 1) -> Callable[[Real], Real]:
    """Return (function(x)/x - lead) / z^order as a function of z = x^2 > 0.

    For an odd function this is its series in x^2 without the first coefficient, `lead`.
    """
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - lead) / z**order


def log_rows() -> list[list[float]]:
    """Return the rows (1/c, high, low) of the logarithm table, one for each of 128 intervals of z in [0.6875, 1.375).

    The 80 intervals below 1 have the width 1/256, the 48 above it 1/128, as numbers are half as dense there.
    c is near the center of the interval; 1/c is rounded to 10 bits. high + low is -log(1/c), with 42 bits in high.
    """
    rows = []
    for i in range(128):
        low = mp.mpf(11) / 16 + mp.mpf(i) / 256 if i < 80 else 1 + mp.mpf(i - 80) / 128
        width = mp.mpf(1) / (256 if i < 80 else 128)
        # Next to 1 the inverse is 1, so that the table adds 0 to a logarithm near 0, whose error is relative.
        inverse = mp.mpf(1) if i in (79, 80) else mp.nint(1024 / (low + width / 2)) / 1024
        value = -mp.log(inverse)
        high = mp.nint(value * 2**42) / 2**42
        rows.append([float(inverse), float(high), float(value - high)])
    return rows


def atan_rows() -> list[list[float]]:
    """Return for each i from 0 to 16 the row (high, low), whose exact sum is atan(i / 16) to some 106 bits."""
    return [parts(mp.atan(mp.mpf(i) / 16), 53, 53) for i in range(17)]


def erfcx(x: Real) -> Real:
    """Return the scaled complementary error function, e^(x^2) erfc(x), which does not underflow for large x."""
    return mp.exp(x * x) * mp.erfc(x)


def erfcx_scaled(u: Real) -> Real:
    """Return erfcx(x) (1 + 2x) as a function of u = (x - 4) / (x + 4), which maps x >= 0 to [-1, 1)."""
    x = 4 * (1 + u) / (1 - u)
    return erfcx(x) * (1 + 2 * x)


class Spec(NamedTuple):
    """Polynomial of a math function that the script fits: the function, the interval and the degree.

    Attributes:
        macro: Name of its macro in C; "" for one that only kernel IR has.
        name: Name in kernel IR; "" for one that only C has.
        function: The function that it approximates.
        low, high: Ends of the interval.
        degree: Degree of the polynomial.
    """

    macro: str
    name: str
    function: Callable[[Real], Real]
    low: Real
    high: Real
    degree: int


class Fitted(NamedTuple):
    """Fitted polynomial.

    Attributes:
        macro, name: Its names in C and in kernel IR, as of `Spec`.
        coefficients: Its coefficients, from the lowest power on.
    """

    macro: str
    name: str
    coefficients: list[float]


def polynomials() -> tuple[list[Spec], list[Spec]]:
    """Return the polynomials to fit in f64, and those to fit in f32. C computes some f32 functions by those in f64."""
    # The second argument of rest() and odd() are the leading terms, which are exact and not fitted.
    # Intervals of odd() are those of x^2, rounded up: 0.6169 is (pi/4)^2, 0.2501 (1/2)^2, 0.17158 tan(pi/8)^2,
    # 0.02945 tan(pi/8)^4, 0.00107 (1/32)^2 with a margin, 0.3026 0.55^2, 0.7657 (7/8)^2, and 0.3907 (5/8)^2.
    half = mp.log(2) / 2
    exp_rest = rest(mp.exp, [1, 1, mp.mpf(1) / 2], order=3)
    log_rest = rest(lambda x: mp.log1p(x), [0, 1, -mp.mpf(1) / 2], order=3)
    cos_rest = rest(lambda z: mp.cos(mp.sqrt(z)), [1, -mp.mpf(1) / 2], order=2)  # as a function of z = x^2
    double = [
        Spec("PYD_EXP_P", "exp", exp_rest, low=-half, high=half, degree=9),
        Spec("PYD_EXPF_P", "", exp_rest, low=-half, high=half, degree=5),
        Spec("PYD_LOG_P", "log of pairs", log_rest, low=-mp.mpf(1) / 120, high=mp.mpf(1) / 120, degree=6),
        # log m = 2 atanh(s), s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)]
        Spec("PYD_LOGF_P", "log", odd(lambda s: 2 * mp.atanh(s), 2), low=0, high=mp.mpf("0.02945"), degree=7),
        Spec("PYD_SIN_P", "sin", odd(mp.sin, 1), low=0, high=mp.mpf("0.6169"), degree=6),
        Spec("PYD_COS_P", "cos", cos_rest, low=0, high=mp.mpf("0.6169"), degree=6),
        Spec("PYD_SINF_P", "", odd(mp.sin, 1), low=0, high=mp.mpf("0.6169"), degree=4),
        Spec("PYD_COSF_P", "", lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, low=0, high=mp.mpf("0.6169"), degree=5),
        Spec("PYD_ASIN_P", "asin", odd(mp.asin, 1), low=0, high=mp.mpf("0.2501"), degree=13),
        Spec("PYD_ASINF_P", "", odd(mp.asin, 1), low=0, high=mp.mpf("0.2501"), degree=8),
        Spec("PYD_ATAN_P", "", odd(mp.atan, 1), low=0, high=mp.mpf("0.17158"), degree=12),
        Spec("", "atan", odd(mp.atan, 1), low=0, high=mp.mpf("0.00107"), degree=5),
        Spec("PYD_ATANF_P", "", odd(mp.atan, 1), low=0, high=1, degree=14),
        Spec("PYD_SINH_P", "sinh", odd(mp.sinh, 1), low=0, high=1, degree=8),
        Spec("PYD_TANH_P", "tanh", odd(mp.tanh, 1), low=0, high=mp.mpf("0.3026"), degree=12),
        Spec("PYD_ERF_P", "erf", odd(mp.erf, 1, 0), low=0, high=mp.mpf("0.7657"), degree=13),
        Spec("PYD_ERFF_P", "", odd(mp.erf, 1, 0), low=0, high=mp.mpf("0.7657"), degree=7),
        Spec("PYD_ERFCXF_P", "", erfcx, low=mp.mpf("0.875"), high=4, degree=13),
        Spec("PYD_RCBRT_P", "", lambda z: 1 / mp.cbrt(z), low=1, high=2, degree=5),
        # erfcx(x) (1 + 2x) of u = (x - 4)/(x + 4), for 0 <= x <= 12; from 0.4375 to 28, where erfc in double is 0; and
        # from 0.8 to 6, where erf in double is 1.
        Spec("PYD_ERFCF_P", "", erfcx_scaled, low=-1, high=mp.mpf("0.5"), degree=16),
        Spec(
            "PYD_ERFC_P",
            "",
            rest(erfcx_scaled, [erfcx_scaled(0)], order=1),
            low=mp.mpf("-0.8029"),
            high=mp.mpf("0.75"),
            degree=20,
        ),
        Spec("PYD_ERFCD_P", "erfcx", erfcx_scaled, low=mp.mpf(-2) / 3, high=mp.mpf("0.2"), degree=17),
        # And beyond 6: x erfcx(x), of 1/x^2.
        Spec(
            "",
            "erfc far",
            lambda z: erfcx(1 / mp.sqrt(z)) / mp.sqrt(z),
            low=mp.mpf(1) / 784,
            high=mp.mpf(1) / 36,
            degree=12,
        ),
    ]
    single = [
        Spec("PYD_EXPS_P", "", exp_rest, low=-half, high=half, degree=3),
        Spec("PYD_EXP2S_P", "", lambda x: mp.mpf(2) ** x, low=-mp.mpf(1) / 2, high=mp.mpf(1) / 2, degree=5),
        Spec("", "exp", exp_rest, low=-half, high=half, degree=4),
        Spec("PYD_LOGS_P", "log", log_rest, low=-mp.mpf(1) / 3, high=mp.mpf(1) / 3, degree=8),
        Spec("PYD_TANHS_P", "tanh", odd(mp.tanh, 1), low=0, high=mp.mpf("0.3907"), degree=5),
        Spec("PYD_SINHS_P", "sinh", odd(mp.sinh, 1), low=0, high=1, degree=4),
        Spec("PYD_ERFS_P", "erf", odd(mp.erf, 2 / mp.sqrt(mp.pi)), low=0, high=mp.mpf("0.7657"), degree=6),
        Spec(
            "", "erfcx", lambda t: erfcx(t + mp.mpf("2.4375")), low=-mp.mpf("1.5625"), high=mp.mpf("1.5625"), degree=11
        ),
        Spec("PYD_ERFCS_LOG2_P", "", lambda x: mp.log(mp.erfc(x), 2) / x, low=mp.mpf("0.875"), high=4, degree=6),
        Spec("PYD_SINS_P", "sin", odd(mp.sin, 1), low=0, high=mp.mpf("0.6169"), degree=3),
        Spec("PYD_COSS_P", "cos", cos_rest, low=0, high=mp.mpf("0.6169"), degree=3),
        Spec("PYD_ATANS_P", "atan", odd(mp.atan, 1), low=0, high=1, degree=9),
        Spec("PYD_ASINS_P", "asin", odd(mp.asin, 1), low=0, high=mp.mpf("0.2501"), degree=5),
        Spec("", "erfc", erfcx_scaled, low=-1, high=mp.mpf("0.5"), degree=16),
    ]
    return double, single


def fitted(specs: list[Spec], digits: type[np.floating[Any]]) -> list[Fitted]:
    """Fit the polynomial of each spec; coefficients are rounded to the type `digits`, and returned as doubles."""
    results = []
    for macro, name, function, low, high, degree in specs:
        # Functions of rest() and odd() divide by their argument, which adding 1e-30 keeps from 0.
        coefficients = fit(function, mp.mpf(low) + 1e-30, high, degree)
        results.append(Fitted(macro, name, [float(digits(c)) for c in coefficients]))
    return results


def header(double: list[Fitted], floats: list[Fitted]) -> str:
    """Return the text of coefficients.h, which has the polynomials with a macro. double, floats: all, by their type.

    Numbers are split into parts of so many bits each. Parts of 28 bits times a float of 24 bits, and parts of 32 or 33
    bits times an integer of 20, are exact in the 53 bits of a double; a part of 53 bits is the rounded rest.
    """
    out = ["// Written by fit.py; do not edit. PYD_FMA(a, b, c) is a * b + c, fused where the target does it.\n",
           "#ifndef PYD_DEVLIB_COEFFICIENTS_H_\n#define PYD_DEVLIB_COEFFICIENTS_H_\n"]  # fmt: skip
    out += [double_macro(p.macro, p.coefficients) for p in double if p.macro]
    out += [float_macro(p.macro, p.coefficients) for p in floats if p.macro]

    def constant(prefix: str, value: Real, *bits: int) -> None:
        """Append macros prefix_1, prefix_2, ... with the parts of a number, of so many bits each."""
        for i, part in enumerate(parts(value, *bits)):
            out.append(f"#define {prefix}_{i + 1} {part.hex()}\n")

    out.append(table("PYD_LOG_TABLE", log_rows()))

    # 2/pi as 64-bit words after 64 zero bits, for arguments as large as a double can hold.
    bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280))  # 20 words of 64
    words = [0, *((bits >> (1280 - 64 * (i + 1))) & (2**64 - 1) for i in range(20))]
    out.append("#define PYD_TWO_OVER_PI {" + ", ".join(f"{w:#018x}" for w in words) + "}\n")
    # For a float m 2^(b-150) with 24-bit integer m and biased exponent b: 2^(b-150) * 2/pi mod 4, as four quarter turns
    # are a whole one, in parts of 28, 28 and 53 bits.
    rows = []
    for biased in range(100, 255):
        value = mp.ldexp(2 / mp.pi, biased - 150)
        value -= 4 * mp.floor(value / 4)
        rows.append(parts(value, 28, 28, 53))  # 24 bits of m times 28 bits of a part are exact in a double
    out.append(table("PYD_TWO_OVER_PI_F", rows))

    # For doubles m 2^(b-1075), a row for the 16 exponents from each b on: 2^(b-1075) * 2/pi minus the nearest multiple
    # of 4.
    rows = []
    for biased in range(960, 2048, 16):
        value = mp.ldexp(2 / mp.pi, biased - 1075)
        rows.append(parts(value - 4 * mp.nint(value / 4), 53, 53, 53, 53))  # multiplied as sums of doubles
    out.append(table("PYD_TURNS", rows))

    # Powers of two times 2/pi, minus the nearest multiple of 4, in parts whose products with a float are exact.
    for power in (22, 51, 80):  # 29 apart, the span of exponents that each constant reduces
        value = mp.ldexp(2 / mp.pi, power)
        constant(f"PYD_TURN{power}", value - 4 * mp.nint(value / 4), 28, 28, 28, 53)
    constant("PYD_LN2", mp.log(2), 32, 53)
    constant("PYD_LN2_FULL", mp.log(2), 53, 53)
    constant("PYD_LOG10_2", mp.log10(2), 32, 53)
    constant("PYD_LN10", mp.log(10), 53, 53)
    constant("PYD_LOG2E", 1 / mp.log(2), 53, 53)
    constant("PYD_LOG10E", 1 / mp.log(10), 53, 53)
    constant("PYD_LOG2_10", mp.log(10) / mp.log(2), 53, 53)
    constant("PYD_PIO2", mp.pi / 2, 53, 53)
    constant("PYD_PIO2_CUT", mp.pi / 2, 33, 33, 33, 53)
    constant("PYD_TWO_OVER_PI_D", 2 / mp.pi, 53)
    constant("PYD_ERFC", erfcx_scaled(0), 53, 53)  # the leading term of PYD_ERFC_P, at u = 0 or x = 4
    constant("PYD_CBRT2", mp.cbrt(2), 53)
    constant("PYD_CBRT4", mp.cbrt(4), 53)
    out.append("#endif  // PYD_DEVLIB_COEFFICIENTS_H_\n")
    return "".join(out)


def python(double: list[Fitted], floats: list[Fitted]) -> str:
    """Return the text of coefficients.py, which has the polynomials with a name in kernel IR.

    double, floats: all polynomials, by their type.
    """

    def numbers(values: list[float], indent: str) -> str:
        """Return a tuple of numbers as Python code, wrapped into lines. indent: spaces before the closing one."""
        lines = textwrap.wrap(", ".join(map(repr, values)) + ",", 116 - len(indent), break_on_hyphens=False)
        return "(\n" + "".join(f"{indent}    {line}\n" for line in lines) + f"{indent})"

    out = ['"""Written by devlib/fit.py; do not edit. Polynomials have the highest power first."""\n\n',
           "from __future__ import annotations\n\n",
           f"TWO_OVER_PI = 0x{int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280)):X}  # noqa: E501\n",
           '"""1280 bits of 2/pi after the binary point."""\n\n']  # fmt: skip
    for title, fits in (("F32_POLYNOMIALS", floats), ("F64_POLYNOMIALS", double)):
        rows = (f'    "{p.name}": {numbers(p.coefficients[::-1], "    ")},\n' for p in fits if p.name)
        out.append(f"{title}: dict[str, tuple[float, ...]] = {{\n" + "".join(rows) + "}  # fmt: skip\n\n")
    for title, table_rows, meaning in (
        ("ATAN", atan_rows(), "For each i from 0 to 16: atan(i / 16) as the sum of two numbers."),
        ("LOG", log_rows(), "For each of 128 intervals of z: r, about 1/z, and -log r as the sum of two numbers."),
    ):
        flat = [value for row in table_rows for value in row]
        out.append(f'{title}: tuple[float, ...] = {numbers(flat, "")}  # fmt: skip\n"""{meaning}"""\n\n')
    return "".join(out).rstrip("\n") + "\n"


def files() -> tuple[str, str]:
    """Return the texts of coefficients.h and coefficients.py."""
    of_double, of_single = polynomials()
    double, floats = fitted(of_double, np.float64), fitted(of_single, np.float32)
    # erf x = x + x (lead + z P): 1 is left out, so that the rounding of the remaining coefficients has no effect.
    # Kernels take `lead` as a coefficient. The header lacks it: in C, erff() has it as a constant.
    lead = float(np.float32(float(2 / mp.sqrt(mp.pi) - 1)))
    kernels = [p._replace(coefficients=[lead, *p.coefficients]) if p.name == "erf" else p for p in floats]
    return header(double, floats), python(double, kernels)


def main() -> None:
    """Write both files into the repository."""
    here = Path(__file__).parent
    in_c, in_kernels = files()
    here.joinpath("csrc", "coefficients.h").write_text(in_c)
    here.parent.joinpath("kernel_ir", "math", "coefficients.py").write_text(in_kernels)


if __name__ == "__main__":
    main()
