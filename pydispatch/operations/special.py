"""Special functions as formulas of single elements: the inverse error function by Giles, and Bessel functions by
Chebyshev series (Cephes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.graph.dtypes import F64
from pydispatch.operations.formulas import Element, polynomial, widened
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars

# Coefficients of the polynomials of `erf_inv` by Giles, highest power first: for small and for larger w.
_ERF_INV_32 = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
     0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
     1.00167406, 2.83297682),
)  # fmt: skip
_ERF_INV_64 = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17,
     -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14,
     -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
     1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
     -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352, -0.00074070253416626697512,
     -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
     1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05,
     -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
     0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107,
     0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09,
     7.6157012080783393804e-09, -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08,
     2.2900482228026654717e-07, -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
     7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
     4.8499064014085844221),
)  # fmt: skip
"""Coefficients of the polynomials of `erf_inv` in f64 by Giles, highest power first: for small, middle and large
w = -log(1 - x^2)."""


@widened
def erf_inv(x: Element) -> Element:
    """Return the inverse error function: x times a polynomial in w = -log(1 - x^2) or in its root.

    The ranges of w, and the number that is subtracted in each of them, are those of Giles's coefficients.
    """
    w = -(-(x * x)).unary("log1p")
    root = w.unary("sqrt")
    if x.dtype == F64:
        near, middle, far = _ERF_INV_64  # for w below 6.25, below 16, and above
        p = (w < 16.0).where(polynomial(root - 3.25, middle), polynomial(root - 5.0, far))
        p = (w < 6.25).where(polynomial(w - 3.125, near), p)
    else:
        small, large = _ERF_INV_32
        p = (w < 5.0).where(polynomial(w - 2.5, small), polynomial(root - 3.0, large))
    # At 1 and -1, w is infinite and p may be NaN; the function is infinite.
    return x.unary("abs").is_equal(1.0).where(x * math.inf, p * x)


# Chebyshev coefficients of `bessel_i0e` and `bessel_i1e` from Cephes: for arguments up to 8, and above.
_I0E_SMALL = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
    -1.16853328779934516808e-14, 7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12,
    -1.72682629144155570723e-11, 9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
    -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
    -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
    -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)  # fmt: skip
_I0E_LARGE = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17, 3.46122286769746109310e-17,
    -2.82762398051658348494e-16, -3.42548561967721913462e-16, 1.77256013305652638360e-15, 3.81168066935262242075e-15,
    -9.55484669882830764870e-15, -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
    7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11, -3.14991652796324136454e-11,
    1.18891471078464383424e-11, 4.94060238822496958910e-10, 3.39623202570838634515e-9, 2.26666899049817806459e-8,
    2.04891858946906374183e-7, 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)  # fmt: skip
_I1E_SMALL = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
    7.60068429473540693410e-15, -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12,
    1.17361862988909016308e-11, -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
    3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
    5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
    2.52587186443633654823e-1,
)  # fmt: skip
_I1E_LARGE = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17, -3.20952592199342395980e-17,
    2.96262899764595013876e-16, 3.30820231092092828324e-16, -1.88035477551078244854e-15, -3.81440307243700780478e-15,
    1.04202769841288027642e-14, 4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11, 3.25260358301548823856e-11,
    -1.89749581235054123450e-11, -5.58974346219658380687e-10, -3.83538038596423702205e-9, -2.63146884688951950684e-8,
    -2.51223623787020892529e-7, -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip
"""Chebyshev coefficients of sqrt(z) * `bessel_i1e`(z) for z above 8, as a series in 32 / z - 2 for `_chebyshev`; those
in _I0E_LARGE are of `bessel_i0e`."""


def _chebyshev(x: Element, coefficients: Sequence[float]) -> Element:
    """Return the value of a Chebyshev series at x / 2, by Clenshaw's recurrence.

    x is from -2 to 2. The coefficients begin with the highest order. The last one, of order 0, counts half, as in
    Cephes.
    """
    b0, b1, b2 = x.const(0.0), x.const(0.0), x.const(0.0)
    for c in coefficients:
        b2, b1 = b1, b0
        b0 = x * b1 - b2 + c
    return (b0 - b2) * 0.5


def _scaled_i0(x: Element) -> Element:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    z = x.unary("abs")
    # Cephes maps z from 0 to 8, and 1 / z from 0 to 1 / 8, to the range from -2 to 2.
    small = _chebyshev(z * 0.5 - 2.0, _I0E_SMALL)
    large = _chebyshev(32.0 / z - 2.0, _I0E_LARGE) / z.unary("sqrt")
    return (z <= 8.0).where(small, large)


def _scaled_i1(x: Element) -> Element:
    """Return exp(-|x|) times the modified Bessel function of order 1, with the ranges of `_scaled_i0`."""
    z = x.unary("abs")
    small = _chebyshev(z * 0.5 - 2.0, _I1E_SMALL) * z
    large = _chebyshev(32.0 / z - 2.0, _I1E_LARGE) / z.unary("sqrt")
    return x.unary("sign") * (z <= 8.0).where(small, large)


@widened
def bessel_i0e(x: Element) -> Element:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    return _scaled_i0(x)


@widened
def bessel_i1e(x: Element) -> Element:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    return _scaled_i1(x)


@widened
def bessel_i0(x: Element) -> Element:
    """Return the modified Bessel function of order 0."""
    return x.unary("abs").unary("exp") * _scaled_i0(x)


@widened
def bessel_i1(x: Element) -> Element:
    """Return the modified Bessel function of order 1."""
    return x.unary("abs").unary("exp") * _scaled_i1(x)


def square(scalars: Scalars, x: Scalar) -> Scalar:
    """Return x * x.

    The square of a + b i is (a - b) (a + b) + 2 a b i. For |a| = |b| the real part is set to 0, since a + b or a - b
    may overflow, and 0 times infinity is NaN.
    """
    if not x.dtype.is_complex:
        return scalars.binary("mul", x, x)
    a, b = scalars.real(x), scalars.imag(x)
    zero = scalars.const(0.0, a.dtype)
    difference = scalars.binary("sub", scalars.unary("abs", a), scalars.unary("abs", b))
    factors = scalars.binary("mul", scalars.binary("sub", a, b), scalars.binary("add", a, b))
    is_zero = scalars.compare("eq", difference, zero)
    real = scalars.select(is_zero, zero, factors)
    product = scalars.binary("mul", a, b)
    return scalars.complex(real, scalars.binary("add", product, product))
