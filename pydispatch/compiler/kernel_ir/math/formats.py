"""What the functions need to know of f32 and f64: their layout, their constants, their polynomials."""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.kernel_ir.math.coefficients import F32_POLYNOMIALS, F64_POLYNOMIALS
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum

INFINITY, NAN = float("inf"), float("nan")
Constants = tuple[float, ...]


def _constants(*text: str) -> Constants:
    return tuple(map(float.fromhex, text))


@dataclass(frozen=True)
class Format:
    """extended: results are to be within 1 unit in the last place, so reduced arguments are sums of two numbers.

    Constants of several parts go from the largest to the smallest. `ln2_cut` and `pio2_cut` have first parts so short
    that their products with the whole numbers which occur are exact.
    """

    width: int
    fraction: int
    extended: bool
    polynomials: dict[str, Constants]
    ln2: Constants
    ln2_cut: Constants
    log2e: Constants
    log10e: Constants
    log10_2: Constants
    pio2: Constants
    pio2_cut: Constants
    root_half: int
    """The bits of the least mantissa of a reduced logarithm, near sqrt(1/2)."""
    exp_range: tuple[float, float]
    """Beyond, exponentials are 0 and infinite."""
    exp2_range: tuple[float, float]
    expm1_least: float
    """From here on down e^x - 1 is -1."""
    log1p_far: int
    """From 2^this on log1p is the logarithm."""
    hyperbolic_end: float
    """From here on sinh and cosh overflow."""
    tanh_near: float
    tanh_end: float
    erf_end: float
    erfc_end: float
    tiny: float
    """Below, odd functions are their argument."""
    largest_quadrant: float
    """From here on angles need the digits of 2/pi."""
    cube_root: tuple[int, int, int, int]
    """What the third of a number's bits lacks to its cube root; how many steps come near it; the exponent beyond which
    numbers are scaled, and by how much."""

    @property
    def bias(self) -> int:
        return (1 << (self.width - self.fraction - 2)) - 1

    @property
    def shift(self) -> float:
        """Adding it rounds to an integer, which is then in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def shift_bits(self) -> int:
        return (self.bias + self.fraction << self.fraction) + (1 << (self.fraction - 1))

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


F32 = Format(
    width=32,
    fraction=23,
    extended=False,
    polynomials=F32_POLYNOMIALS,
    ln2=_constants("0x1.62e430p-1", "-0x1.05c610p-29"),
    ln2_cut=_constants("0x1.62e4p-1", "0x1.7f7d1cp-20"),
    log2e=_constants("0x1.715476p+0", "0x1.4ae0c0p-26"),
    log10e=_constants("0x1.bcb7b2p-2", "-0x1.5b235ep-27"),
    log10_2=_constants("0x1.344p-2", "0x1.3509f8p-18"),
    pio2=_constants("0x1.921fb6p+0", "-0x1.777a5cp-25"),
    pio2_cut=_constants("0x1.92p+0", "0x1.fb4p-12", "0x1.444p-24", "0x1.68c234p-39"),
    root_half=0x3F2AAAAB,
    exp_range=(-104.0, 89.0),
    exp2_range=(-151.0, 129.0),
    expm1_least=-18.0,
    log1p_far=60,
    hyperbolic_end=90.0,
    tanh_near=0.625,
    tanh_end=10.0,
    erf_end=4.0,
    erfc_end=12.0,
    tiny=2.0**-12,
    largest_quadrant=2.0**13,
    cube_root=(0x2A514067, 1, 100, 60),
)

F64 = Format(
    width=64,
    fraction=52,
    extended=True,
    polynomials=F64_POLYNOMIALS,
    ln2=_constants("0x1.62e42fefa39efp-1", "0x1.abc9e3b39803fp-56"),
    ln2_cut=_constants("0x1.62e42feep-1", "0x1.a39ef35793c76p-33"),
    log2e=_constants("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56"),
    log10e=_constants("0x1.bcb7b1526e50ep-2", "0x1.95355baaafad3p-57"),
    log10_2=_constants("0x1.34413508p-2", "0x1.f79fef311f12bp-34"),
    pio2=_constants("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54"),
    pio2_cut=_constants("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104"),
    root_half=0x3FE6A09E667F3BCD,
    exp_range=(-746.0, 710.0),
    exp2_range=(-1076.0, 1025.0),
    expm1_least=-60.0,
    log1p_far=100,
    hyperbolic_end=712.0,
    tanh_near=0.55,
    tanh_end=22.0,
    erf_end=6.0,
    erfc_end=28.0,
    tiny=2.0**-27,
    largest_quadrant=2.0**20,
    cube_root=(0x2A9F789300000000, 2, 700, 300),
)


def format_of(x: Number) -> Format:
    return F32 if x.width == 32 else F64


def polynomial(x: Number, name: str) -> Number:
    """A polynomial by its name. The long ones of f64 have their odd and even powers summed apart, side by side."""
    format = format_of(x)
    coefficients = format.polynomials[name]
    if not format.extended:
        return _horner(x, coefficients)
    square = x * x
    even, odd = coefficients[-1::-2][::-1], coefficients[-2::-2][::-1]
    return _horner(square, odd).fma(x, _horner(square, even))


def _horner(x: Number, coefficients: Constants) -> Number:
    total = x.new(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.fma(x, coefficient)
    return total


def power2(k: Word) -> Number:
    """2^k for which that is a normal number."""
    format = F32 if k.width == 32 else F64
    return (k + format.bias << format.fraction).as_float()


def scaled(x: Number, k: Word) -> Number:
    """x 2^k for twice the range of exponents, rounded once."""
    first = k.shifted_signed(1)
    return x * power2(first) * power2(k - first)


def rounded(x: Number) -> tuple[Number, Word]:
    """The nearest whole number, as a float and as a word."""
    format = format_of(x)
    shifted = x + format.shift
    return shifted - format.shift, shifted.bits() - format.shift_bits


def upper(x: Number) -> Number:
    """The upper half of the digits."""
    cut = (format_of(x).fraction + 2) // 2
    return (x.bits() & -1 << cut).as_float()


def product(x: Number, y: Number) -> Pair:
    """The product and what it was rounded by; nothing here needs to be fused."""
    whole = x * y
    high, most = upper(x), upper(y)
    low, rest = x - high, y - most
    return whole, ((high * most - whole) + high * rest + low * most) + low * rest


def root_pair(high: Number, low: Number | float = 0.0) -> Pair:
    """The root to twice the precision."""
    root = high.root()
    square, lost = product(root, root)
    return fast_sum(root, ((high - square) - lost + low) / (2.0 * root))


def quotient(top: Pair, bottom: Pair) -> Pair:
    """The quotient of two sums, rounded, and what it leaves of the dividend over the divisor once more."""
    t = top[0] / bottom[0]
    whole, lost = product(t, bottom[0])
    return t, ((top[0] - whole) - lost + top[1] - t * bottom[1]) / bottom[0]
