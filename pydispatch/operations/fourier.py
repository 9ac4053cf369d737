"""Fourier transforms of any length.

A length is decomposed into factors of at most `DIRECT`; along each factor a transform is a product with a matrix
(Cooley and Tukey). A length without such a factor is a product with its whole matrix while that is small, else a
convolution by transforms of a power of two (Bluestein). For a dynamic length, the matrix is computed at run time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import C64, C128, I64, DType
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formulas, positions
from pydispatch.operations.indexing import reverse
from pydispatch.operations.products import contract
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import size_as
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import axis_of, full, reshape, transpose
from pydispatch.operations.slicing import concat, pad, slice_axis

if TYPE_CHECKING:
    import numpy as np

DIRECT = 64
"""Largest factor of a length whose transforms are one product with a matrix. Larger matrices cost more than another
pass over memory."""
DIRECT_PRIME = 256
"""Largest length without a factor from 2 to DIRECT, such as a prime, that is transformed by one product with a matrix.
Larger ones use Bluestein's algorithm."""


def fft(builder: Builder, x: Tensor, axis: int = -1, inverse: bool = False) -> Tensor:
    """Return numpy.fft.fft, or ifft if `inverse`, along one axis. x is complex, or f32 or f64; the result
    is complex.
    """
    transform = unscaled_transform(builder, x, axis, 1 if inverse else -1)
    n = transform.shape[axis]
    if not inverse or n in (0, 1):  # a transform of 0 or 1 elements needs no division by n
        return transform
    # Multiply each element by 1 / n.
    factor = ew.binary(
        builder, "div", full(builder, 1.0, (), transform.dtype.real), size_as(builder, n, transform.dtype.real)
    )
    return ew.apply(builder, _scaled, transform, factor)


def unscaled_transform(builder: Builder, x: Tensor, axis: int, sign: int) -> Tensor:
    """Return the sums over j of x[..., j, ...] exp(sign 2 pi i j k / n), for each k below the size n of an axis.

    `sign` is -1 for the forward transform, 1 for the inverse one. The result is complex, with the shape of x.
    """
    axis = axis_of(builder, axis, x.rank)
    if not x.dtype.is_complex and x.dtype.name not in ("f32", "f64"):
        raise builder.fail(f"a Fourier transform of {x}: elements are f32, f64, c64 or c128")
    # Move the axis to the end, transform each row of a matrix, and move the axis back.
    order = [*(d for d in range(x.rank) if d != axis), axis]
    moved = transpose(builder, x, order)
    rows = reshape(builder, moved, [product(moved.shape[:-1]), moved.shape[-1]])
    sums = reshape(builder, _transform(builder, rows, x.shape[axis], sign), moved.shape)
    return transpose(builder, sums, [order.index(d) for d in range(x.rank)])


def rfft(builder: Builder, x: Tensor, axis: int = -1) -> Tensor:
    """Return numpy.fft.rfft along one axis: the first n // 2 + 1 elements of the transform of n real floats."""
    axis = axis_of(builder, axis, x.rank)
    return slice_axis(builder, fft(builder, x, axis), axis, start=0, limit=x.shape[axis] // 2 + 1)


def irfft(builder: Builder, x: Tensor, n: Size, axis: int = -1) -> Tensor:
    """Return numpy.fft.irfft along one axis: n real floats, of whose transform x has the first n // 2 + 1 elements."""
    axis = axis_of(builder, axis, x.rank)
    if x.shape[axis] != n // 2 + 1 and not isinstance(x.shape[axis], Expr) and not isinstance(n, Expr):
        raise builder.fail(f"{n} real elements along axis {axis} of {x} need {n // 2 + 1} elements of a transform")
    # Element n - k of the transform of real numbers is the conjugate of element k. For n = 6, x has the elements 0 to
    # 3, and elements 4 and 5 are the conjugates of 2 and 1.
    mirrored = reverse(builder, slice_axis(builder, x, axis, start=1, limit=n - n // 2), [axis])
    whole = concat(builder, [x, ew.apply(builder, lambda scalars, z: scalars.conj(z), mirrored)], axis)
    real, _ = parts_of(builder, fft(builder, whole, axis, inverse=True))  # the imaginary part is 0
    return real


def parts_of(builder: Builder, x: Tensor) -> list[Tensor]:
    """Return [real part, imaginary part] of a complex tensor as real tensors; [x] for a real one."""
    return [builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x)]


def complex_of(builder: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor of two f32 or f64 parts."""
    return builder.wrap(C128 if real.dtype.bits == 64 else C64, real.shape, builder.value(real), builder.value(imag))


def _array(numbers: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return numbers as an array of the NumPy type of `dtype`."""
    import numpy as np

    return np.asarray(numbers).astype(dtype.numpy)


def _scaled(scalars: Scalars, z: Scalar, factor: Scalar) -> Scalar:
    """Return a complex number times a real factor."""
    return scalars.complex(
        scalars.binary("mul", scalars.real(z), factor), scalars.binary("mul", scalars.imag(z), factor)
    )


def _transform(builder: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """Return the sums over j of x[r, j] exp(sign 2 pi i j k / n), for each row r of x [rows, n] and each k < n.

    x is real or complex, the result complex. n is decomposed as n = f m, with f the largest factor of at most DIRECT
    (Cooley-Tukey). With j = m a + b and k = c + f d, the quotient j k / n is a c / f + b c / n + b d / m plus an
    integer, which does not matter. The sums over j are therefore transforms of length f over a, products with
    exp(sign 2 pi i b c / n), and transforms of length m over b.

    Examples: 48 is one product with a matrix (f = 48, m = 1). 128 has f = 64 and m = 2. The prime 67 has no such factor
    and is one product with its matrix of 67 x 67; the prime 521 exceeds DIRECT_PRIME and uses Bluestein's algorithm.
    """
    if isinstance(n, Expr):  # a dynamic length cannot be decomposed: one product with the whole matrix
        return reshape(
            builder, _along_blocks(builder, reshape(builder, x, [x.shape[0], n, 1]), n, sign), [x.shape[0], n]
        )
    if n <= 1:
        return x if x.dtype.is_complex else ew.convert(builder, x, C128 if x.dtype.bits == 64 else C64)
    factor = next((f for f in range(min(n, DIRECT), 1, -1) if n % f == 0), n)  # n if there is none up to DIRECT
    if factor == n and n > DIRECT_PRIME:
        return _bluestein(builder, x, n, sign)
    # The transforms of length f: x is read as [rows, a, b] and becomes [rows, c, b]. `rest` is m.
    rest, rows = n // factor, x.shape[0]
    blocks = reshape(builder, x, [rows, factor, rest])
    transformed = _along_blocks(builder, blocks, factor, sign)
    if rest == 1:  # that is the whole transform
        return reshape(builder, transformed, [rows, n])
    # The products with exp(sign 2 pi i b c / n), then the transforms of length m: [rows * f, b] becomes [rows * f, d].
    powers = _array(_powers(rows=factor, columns=rest, n=n, sign=sign), transformed.dtype)
    twisted = ew.binary(builder, "mul", transformed, builder.constant(powers, transformed.dtype))
    inner = _transform(builder, reshape(builder, twisted, [rows * factor, rest]), rest, sign)
    # Element k = c + f d of a row is at [d, c], after the axes of [rows, c, d] are exchanged.
    return reshape(builder, transpose(builder, reshape(builder, inner, [rows, factor, rest]), [0, 2, 1]), [rows, n])


def _powers(rows: int, columns: int, n: int, sign: int) -> np.ndarray[Any, Any]:
    """Return exp(sign 2 pi i j k / n) for j < rows and k < columns."""
    import numpy as np

    return np.exp(sign * 2j * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % n) / n)


def _matrix(builder: Builder, n: Size, sign: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the real and imaginary parts of exp(sign 2 pi i j k / n) for j, k < n. A dynamic n has them computed at
    run time.
    """
    if not isinstance(n, Expr):
        powers = _powers(n, n, n, sign)
        return builder.constant(_array(powers.real, dtype), dtype), builder.constant(_array(powers.imag, dtype), dtype)
    products = positions(builder, lambda grid: grid.at(0) * grid.at(1), (n, n))

    def turned(jk: Element, n: Element) -> list[Element]:
        """Return cosine and sine of the angle sign 2 pi jk / n, where jk is the product j k.

        The angle is reduced to an eighth of a turn, so that multiples of an eighth are exact. Octants are counted from
        0 to 7. jk and n are integers. `sign` and `dtype`, the float type of the results, are arguments of `_matrix`.
        """
        scaled = jk % n * 8  # 8 n is a whole turn, n is an eighth
        octant = scaled / n
        in_octant = scaled - octant * n
        is_mirrored = (octant % 2).is_equal(1)  # in octants 1, 3, 5, 7 the angle is measured from the octant's end
        angle = is_mirrored.where(n - in_octant, in_octant).to(dtype) / n.to(dtype) * (math.pi / 4)
        cos, sin = angle.unary("cos"), angle.unary("sin")
        is_swapped = ((octant + 1) % 4) >= 2  # octants 1, 2, 5, 6, those next to the vertical axis
        cos, sin = is_swapped.where(sin, cos), is_swapped.where(cos, sin)
        is_left, is_below = (octant >= 2) & (octant <= 5), octant >= 4  # where cosine and sine are negative
        is_sine_negative = is_below if sign > 0 else ~is_below
        return [is_left.where(-cos, cos), is_sine_negative.where(-sin, sin)]

    cos, sin = formulas(builder, turned, products, size_as(builder, n, I64))
    return cos, sin


def _along_blocks(builder: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """Return the transforms of x [rows, n, rest] along its second axis, as one product of real matrices.

    x is real or complex, the result complex. The parts of a complex x are concatenated to [rows, 2 n, rest]. With the
    n x n matrices c and s of cosines and sines, (re, im) times ((c, s), (-s, c)) is (re c - im s, re s + im c), the
    parts of the result. For a real x, re times (c, s) is (re c, re s).
    """
    cos, sin = _matrix(builder, n, sign, x.dtype.real)
    matrix = concat(builder, [cos, sin], axis=1)
    if x.dtype.is_complex:
        matrix = concat(builder, [matrix, concat(builder, [ew.unary(builder, "neg", sin), cos], axis=1)], axis=0)
    both = concat(builder, parts_of(builder, x), axis=1)
    # product_[row, frequency, rest] is the sum over `summed` of both[row, summed, rest] * matrix[summed, frequency].
    dims = [AffineExpr.dimension(d) for d in range(4)]
    row, frequency, rest, summed = dims
    product_ = contract(
        builder, both, matrix, AffineMap(4, 0, (row, summed, rest)),
        AffineMap(4, 0, (summed, frequency)), AffineMap(4, 0, (row, frequency, rest)), (x.shape[0], n * 2, x.shape[2]),
        parallel=[True, True, True, False], dtype=x.dtype.real,
    )  # fmt: skip
    return complex_of(
        builder,
        slice_axis(builder, product_, axis=1, start=0, limit=n),
        slice_axis(builder, product_, axis=1, start=n, limit=n * 2),
    )


def _bluestein(builder: Builder, x: Tensor, n: int, sign: int) -> Tensor:
    """Return the sums over j of x[r, j] exp(sign 2 pi i j k / n), for each row r of x [rows, n] and each k < n.

    This is Bluestein's algorithm, for an n without small factors. x is real or complex, the result complex.
    Since j k = (j^2 + k^2 - (k - j)^2) / 2, the transform is a convolution with exp(-sign pi i j^2 / n). Its operand
    and its result are multiplied by exp(sign pi i j^2 / n), the `chirp`.
    """
    import numpy as np

    positions = np.arange(n)
    # exp(sign pi i j^2 / n) has the period 2 n in j^2: the remainder of j^2 gives a more accurate angle.
    chirp = np.exp(sign * 1j * np.pi * (positions * positions % (2 * n)) / n)
    m = 1 << (2 * n - 2).bit_length()  # the least power of two from 2 n - 1, the number of distances k - j
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = kernel[-np.arange(n)] = chirp.conj()  # negative distances are at the end
    dtype = C128 if x.dtype.bits == 64 else C64
    x = x if x.dtype.is_complex else ew.convert(builder, x, dtype)
    factors = builder.constant(_array(chirp, dtype), dtype)
    high: list[Size] = [0, m - n]
    padded = pad(builder, ew.binary(builder, "mul", x, factors), low=[0, 0], high=high)
    spectrum = builder.constant(_array(np.fft.fft(kernel) / m, dtype), dtype)  # with the 1 / m of the inverse transform
    convolved = _transform(
        builder, ew.binary(builder, "mul", _transform(builder, padded, m, sign=-1), spectrum), m, sign=1
    )
    return ew.binary(builder, "mul", slice_axis(builder, convolved, axis=1, start=0, limit=n), factors)
