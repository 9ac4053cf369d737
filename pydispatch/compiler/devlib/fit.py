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

from pydispatch.compiler.devlib.polynomials import DOUBLE, SINGLE, Real, Spec, erfcx_scaled


def fit(function: Callable[[Real], Real], low: Real, high: Real, degree: int) -> list[float]:
    """Return the coefficients, lowest power first, of the polynomial that is equal to `function` at the Chebyshev nodes
    of the interval [low, high]. It has `degree + 1` coefficients, computed with 400 bits and rounded to double.
    """
    with mp.workprec(400):
        # Sample the function at the nodes, which are in -1 to 1 and are mapped to the interval.
        count = degree + 1
        nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        values = [function((mp.mpf(low) + high) / 2 + (mp.mpf(high) - low) / 2 * node) for node in nodes]
        # Coefficients of the Chebyshev series in t from -1 to 1, then of the powers of t, then of the powers of x, with
        # t = scale * x + shift.
        series = [
            2 * sum(v * mp.cos(k * mp.pi * (2 * i + 1) / (2 * count)) for i, v in enumerate(values)) / count
            for k in range(count)
        ]
        series[0] /= 2
        scale = 2 / (mp.mpf(high) - low)
        shift = -(mp.mpf(high) + low) / (mp.mpf(high) - low)
        return [float(c) for c in substituted(powers_of_series(series), scale, shift)]


def powers_of_series(series: list[Real]) -> list[Real]:
    """Return the coefficients of the powers of t, lowest first, of a Chebyshev series: the sum of series[k] T(k)."""
    count = len(series)
    # Chebyshev polynomials as powers of t: T(0) = 1, T(1) = t, T(k + 1) = 2 t T(k) - T(k - 1).
    previous, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    powers = [series[0], *([mp.mpf(0)] * (count - 1))]
    for k in range(1, count):
        for i, c in enumerate(current):
            powers[i] += series[k] * c
        following = [mp.mpf(0), *(2 * c for c in current)]
        for i, c in enumerate(previous):
            following[i] -= c
        previous, current = current, following
    return powers


def substituted(powers: list[Real], scale: Real, shift: Real) -> list[Real]:
    """Return the coefficients of the powers of x of a polynomial in t = scale * x + shift, lowest first.

    powers: coefficients of the powers of t, lowest first.
    """
    count = len(powers)
    result = [mp.mpf(0)] * count
    for power in reversed(powers):  # Horner's rule: result = result * (scale * x + shift) + power
        result = [result[i] * shift + (result[i - 1] * scale if i else 0) for i in range(count)]
        result[0] += power
    return result


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


def truncated(value: Real, bits: int) -> float:
    """Return a positive `value` truncated, or a negative one rounded down, to `bits` significant bits."""
    mantissa, exponent = mp.frexp(value)
    return float(mp.ldexp(mp.floor(mantissa * 2**bits), int(exponent) - bits))


def parts(value: Real, *bits: int) -> list[float]:
    """Return doubles, largest first, whose sum is `value`: with bits[0], bits[1] ... significant bits each.

    The last one is what remains, rounded to a double.
    """
    result = []
    for count in bits[:-1]:
        result.append(truncated(value, count))
        value -= mp.mpf(result[-1])
    return [*result, float(value)]


def table(name: str, rows: list[list[float]]) -> str:
    """Return a C macro of the initializer of a two-dimensional array, with exact hexadecimal numbers."""
    body = ",\n".join("  {" + ", ".join(c.hex() for c in row) + "}" for row in rows)
    return f"#define {name} {{ \\\n" + body.replace("\n", " \\\n") + " }\n"


def log_rows() -> list[list[float]]:
    """Return the rows (1/c, high, low) of the logarithm table, one for each of 128 intervals of z in [0.6875, 1.375).

    The 80 intervals below 1 have the width 1/256, the 48 above it 1/128, as numbers are half as dense there.
    c is near the center of the interval; 1/c is rounded to 10 bits. high + low is -log(1/c), with 42 bits in high.
    """
    rows = []
    for i in range(128):
        # The interval from `low` to `low + width`.
        if i < 80:
            low, width = mp.mpf(11) / 16 + mp.mpf(i) / 256, mp.mpf(1) / 256
        else:
            low, width = 1 + mp.mpf(i - 80) / 128, mp.mpf(1) / 128
        # Next to 1 the inverse is 1, so that the table adds 0 to a logarithm near 0, whose error is relative.
        inverse = mp.mpf(1) if i in (79, 80) else mp.nint(1024 / (low + width / 2)) / 1024
        value = -mp.log(inverse)
        high = mp.nint(value * 2**42) / 2**42
        rows.append([float(inverse), float(high), float(value - high)])
    return rows


def atan_rows() -> list[list[float]]:
    """Return for each i from 0 to 16 the row (high, low), whose exact sum is atan(i / 16) to some 106 bits."""
    return [parts(mp.atan(mp.mpf(i) / 16), 53, 53) for i in range(17)]


class Fitted(NamedTuple):
    """Fitted polynomial.

    Attributes:
        macro, name: Its names in C and in kernel IR, as of `Spec`.
        coefficients: Its coefficients, from the lowest power on.
    """

    macro: str
    name: str
    coefficients: list[float]


def fitted(specs: list[Spec], digits: type[np.floating[Any]]) -> list[Fitted]:
    """Fit the polynomial of each spec; coefficients are rounded to the type `digits`, and returned as doubles."""
    results = []
    for macro, name, function, low, high, degree in specs:
        # Functions of rest() and odd() divide by their argument, which adding 1e-30 keeps from 0.
        coefficients = fit(function, mp.mpf(low) + 1e-30, high, degree)
        results.append(Fitted(macro, name, [float(digits(c)) for c in coefficients]))
    return results


def header(double: list[Fitted], floats: list[Fitted]) -> str:
    """Return the text of coefficients.h: macros of the polynomials, tables and constants of the library in C.

    double, floats: the polynomials in double and in float; those without a `macro` are left out.
    """
    out = ["// Written by fit.py; do not edit. PYD_FMA(a, b, c) is a * b + c, fused where the target does it.\n",
           "#ifndef PYD_DEVLIB_COEFFICIENTS_H_\n#define PYD_DEVLIB_COEFFICIENTS_H_\n"]  # fmt: skip
    out += [double_macro(p.macro, p.coefficients) for p in double if p.macro]
    out += [float_macro(p.macro, p.coefficients) for p in floats if p.macro]
    out.append(table("PYD_LOG_TABLE", log_rows()))
    words = ", ".join(f"{word:#018x}" for word in two_over_pi_words())
    out.append(f"#define PYD_TWO_OVER_PI {{{words}}}\n")
    out.append(table("PYD_TWO_OVER_PI_F", quarter_turns_of_floats()))
    out.append(table("PYD_TURNS", quarter_turns_of_doubles()))
    out += constants()
    out.append("#endif  // PYD_DEVLIB_COEFFICIENTS_H_\n")
    return "".join(out)


def two_over_pi_words() -> list[int]:
    """Return 64 zero bits and the first 1280 bits of 2/pi as words of 64 bits, for arguments as large as a double.

    The bits that `pyd_reduce_large` of trig64.c takes begin among the zeros for arguments below 2^54.
    """
    bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280))
    return [0, *((bits >> (1280 - 64 * (i + 1))) & (2**64 - 1) for i in range(20))]


def quarter_turns_of_floats() -> list[list[float]]:
    """Return 2^(b-150) * 2/pi mod 4 for each biased exponent b from 100 to 254, in three parts each.

    A float is m 2^(b-150) with an integer m of 24 bits. Times 2/pi it is an angle in quarter turns, of which four are a
    whole turn. The products of m with the first two parts, of 28 bits, are exact in a double.
    """
    rows = []
    for biased in range(100, 255):
        value = mp.ldexp(2 / mp.pi, biased - 150)
        value -= 4 * mp.floor(value / 4)
        rows.append(parts(value, 28, 28, 53))
    return rows


def quarter_turns_of_doubles() -> list[list[float]]:
    """Return 2^(b-1075) * 2/pi minus the nearest multiple of 4, in four doubles, for each 16th biased exponent b.

    sin, cos and tan in double (trig64.c) reduce their arguments by this table. A double is m 2^(e-1075) with an integer
    m. Times 2/pi it is an angle in quarter turns, of which four are a whole turn. Row b is for the exponents e from b
    to b + 15: C scales m by 2^(e-b), and adds its products with the four doubles.
    """
    rows = []
    for biased in range(960, 2048, 16):
        value = mp.ldexp(2 / mp.pi, biased - 1075)
        rows.append(parts(value - 4 * mp.nint(value / 4), 53, 53, 53, 53))
    return rows


def constants() -> list[str]:
    """Return the macros of the constants, each as a sum of parts NAME_1, NAME_2, ... whose sizes in bits its row lists.

    Parts of 28 bits times a float of 24 bits, and parts of 32 or 33 bits times an integer of 20, are exact in the 53
    bits of a double. A part of 53 bits is the rounded rest.
    """
    # Powers of two times 2/pi, minus the nearest multiple of 4: angles in quarter turns, of which four are a whole one.
    # The powers are 29 apart, the span of exponents that each constant reduces.
    turns = {power: mp.ldexp(2 / mp.pi, power) for power in (22, 51, 80)}
    rows: list[tuple[str, Real, tuple[int, ...]]] = [  # (prefix of the macros, value, bits of the parts)
        *((f"PYD_TURN{n}", turn - 4 * mp.nint(turn / 4), (28, 28, 28, 53)) for n, turn in turns.items()),
        ("PYD_LN2", mp.log(2), (32, 53)),
        ("PYD_LN2_FULL", mp.log(2), (53, 53)),
        ("PYD_LOG10_2", mp.log10(2), (32, 53)),
        ("PYD_LN10", mp.log(10), (53, 53)),
        ("PYD_LOG2E", 1 / mp.log(2), (53, 53)),
        ("PYD_LOG10E", 1 / mp.log(10), (53, 53)),
        ("PYD_LOG2_10", mp.log(10) / mp.log(2), (53, 53)),
        ("PYD_PIO2", mp.pi / 2, (53, 53)),
        ("PYD_PIO2_CUT", mp.pi / 2, (33, 33, 33, 53)),
        ("PYD_TWO_OVER_PI_D", 2 / mp.pi, (53,)),
        ("PYD_ERFC", erfcx_scaled(0), (53, 53)),  # the leading term of PYD_ERFC_P, at u = 0 or x = 4
        ("PYD_CBRT2", mp.cbrt(2), (53,)),
        ("PYD_CBRT4", mp.cbrt(4), (53,)),
    ]
    return [
        f"#define {prefix}_{i} {part.hex()}\n"
        for prefix, value, bits in rows
        for i, part in enumerate(parts(value, *bits), 1)
    ]


def number_tuple(values: list[float], indent: str) -> str:
    """Return a tuple of numbers as Python code, in lines of up to 120 columns.

    indent: spaces before the closing parenthesis; the numbers are indented by 4 more.
    """
    lines = textwrap.wrap(", ".join(map(repr, values)) + ",", 120 - len(indent) - 4, break_on_hyphens=False)
    return "(\n" + "".join(f"{indent}    {line}\n" for line in lines) + f"{indent})"


def python(double: list[Fitted], floats: list[Fitted]) -> str:
    """Return the text of coefficients.py, which has the polynomials with a name in kernel IR.

    double, floats: the polynomials in double and in float; those without a `name` are left out.
    """
    out = ['"""Written by devlib/fit.py; do not edit. Polynomials have the highest power first."""\n\n',
           "from __future__ import annotations\n\n",
           f"TWO_OVER_PI = 0x{int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280)):X}  # noqa: E501\n",
           '"""1280 bits of 2/pi after the binary point."""\n\n']  # fmt: skip
    for title, fits in (("F32_POLYNOMIALS", floats), ("F64_POLYNOMIALS", double)):
        rows = (f'    "{p.name}": {number_tuple(p.coefficients[::-1], "    ")},\n' for p in fits if p.name)
        out.append(f"{title}: dict[str, tuple[float, ...]] = {{\n" + "".join(rows) + "}  # fmt: skip\n")
        meaning = "Name of a polynomial -> coefficients. polynomials.py in devlib has its function and interval."
        out.append(f'"""{meaning}"""\n\n')
    for title, table_rows, meaning in (
        ("ATAN", atan_rows(), "For each i from 0 to 16, two numbers: atan(i / 16) is their sum."),
        (
            "LOG",
            log_rows(),
            "For each of 128 intervals of z, three numbers: r, about 1/z, and two with the sum -log r.",
        ),
    ):
        flat = [value for row in table_rows for value in row]
        out.append(f'{title}: tuple[float, ...] = {number_tuple(flat, "")}  # fmt: skip\n"""{meaning}"""\n\n')
    return "".join(out).rstrip("\n") + "\n"


def files() -> tuple[str, str]:
    """Return the texts of coefficients.h and coefficients.py."""
    double, floats = fitted(DOUBLE, np.float64), fitted(SINGLE, np.float32)
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
