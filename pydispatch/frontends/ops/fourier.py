"""Fourier transforms of any length.

A length is taken apart into factors of at most `DIRECT`: along each of them a transform is a product with a matrix
(Cooley and Tukey). What has no such factor is a product with its matrix while that is small, and otherwise a
convolution by transforms of a power of two (Bluestein). Where only a call decides the length, the matrix is computed in
the call.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import C64, C128, I64, DType
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.formulas import Element, formula, positions
from pydispatch.frontends.ops.indexing import reverse
from pydispatch.frontends.ops.products import contract
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.reductions import size_as
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.shapes import axis_of, concat, full, pad, reshape, slice_axis, transpose

if TYPE_CHECKING:
    import numpy as np

DIRECT = 64
"""The longest factor: products with larger matrices cost more than another pass over memory."""
DIRECT_PRIME = 256
"""The longest transform without a factor that is a product with a matrix."""


def fft(b: Builder, x: Tensor, axis: int = -1, inverse: bool = False) -> Tensor:
    """numpy.fft.fft, or ifft, along one axis. x: complex, or real floats. The result is complex."""
    made = waves(b, x, axis, 1 if inverse else -1)
    n = made.shape[axis]
    if not inverse or n in (0, 1):
        return made
    factor = ew.binary(b, "div", full(b, 1.0, (), made.dtype.real), size_as(b, n, made.dtype.real))
    return ew.apply(b, _scaled, made, factor)


def waves(b: Builder, x: Tensor, axis: int, sign: int) -> Tensor:
    """Return the sums over j of x[..., j, ...] exp(sign 2 pi i j k / n), for each k below the size n of an axis."""
    axis = axis_of(b, axis, x.rank)
    if not x.dtype.is_complex and x.dtype.name not in ("f32", "f64"):
        raise b.fail(f"a Fourier transform of {x}: elements are f32, f64, c64 or c128")
    order = [*(d for d in range(x.rank) if d != axis), axis]
    moved = transpose(b, x, order)
    rows = reshape(b, moved, [product(moved.shape[:-1]), moved.shape[-1]])
    made = reshape(b, _transform(b, rows, x.shape[axis], sign), moved.shape)
    return transpose(b, made, [order.index(d) for d in range(x.rank)])


def rfft(b: Builder, x: Tensor, axis: int = -1) -> Tensor:
    """numpy.fft.rfft along one axis: of n real floats the first n // 2 + 1 elements of their transform."""
    axis = axis_of(b, axis, x.rank)
    return slice_axis(b, fft(b, x, axis), axis, 0, x.shape[axis] // 2 + 1)


def irfft(b: Builder, x: Tensor, n: Size, axis: int = -1) -> Tensor:
    """numpy.fft.irfft along one axis: the n real floats of which x has the first n // 2 + 1 elements of the
    transform."""
    axis = axis_of(b, axis, x.rank)
    if x.shape[axis] != n // 2 + 1 and not isinstance(x.shape[axis], Expr) and not isinstance(n, Expr):
        raise b.fail(f"{n} real elements along axis {axis} of {x} need {n // 2 + 1} elements of a transform")
    rest = reverse(b, slice_axis(b, x, axis, 1, n - n // 2), [axis])
    whole = concat(b, [x, ew.apply(b, lambda s, z: s.conj(z), rest)], axis)
    return parts_of(b, fft(b, whole, axis, inverse=True))[0]


def parts_of(b: Builder, x: Tensor) -> list[Tensor]:
    """Return the real part, and the imaginary part when the tensor is complex."""
    return [b.wrap(x.dtype.real, x.shape, part) for part in b.parts(x)]


def complex_of(b: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor of two parts of f32 or f64."""
    return b.wrap(C128 if real.dtype.bits == 64 else C64, real.shape, b.value(real), b.value(imag))


def _array(numbers: Any, dtype: DType) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.asarray(numbers).astype(dtype.numpy)


def _scaled(s: Scalars, z: Scalar, factor: Scalar) -> Scalar:
    return s.complex(s.binary("mul", s.real(z), factor), s.binary("mul", s.imag(z), factor))


def _transform(b: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """sum_j x[r, j] exp(sign 2 pi i j k / n) for each row r and each k."""
    if isinstance(n, Expr):
        return reshape(b, _along_blocks(b, reshape(b, x, [x.shape[0], n, 1]), n, sign), [x.shape[0], n])
    if n <= 1:
        return x if x.dtype.is_complex else ew.convert(b, x, C128 if x.dtype.bits == 64 else C64)
    factor = next((f for f in range(min(n, DIRECT), 1, -1) if n % f == 0), n)
    if factor == n and n > DIRECT_PRIME:
        return _bluestein(b, x, n, sign)
    rest, rows = n // factor, x.shape[0]
    blocks = reshape(b, x, [rows, factor, rest])
    made = _along_blocks(b, blocks, factor, sign)  # rows, factor, rest
    if rest == 1:
        return reshape(b, made, [rows, n])
    turned = ew.binary(b, "mul", made, b.constant(_array(_powers(factor, rest, n, sign), made.dtype), made.dtype))
    inner = _transform(b, reshape(b, turned, [rows * factor, rest]), rest, sign)
    return reshape(b, transpose(b, reshape(b, inner, [rows, factor, rest]), [0, 2, 1]), [rows, n])


def _powers(rows: int, columns: int, n: int, sign: int) -> np.ndarray[Any, Any]:
    """exp(sign 2 pi i j k / n) for j < rows and k < columns."""
    import numpy as np

    return np.exp(sign * 2j * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % n) / n)


def _matrix(b: Builder, n: Size, sign: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary parts of exp(sign 2 pi i j k / n) for j and k below n."""
    if not isinstance(n, Expr):
        powers = _powers(n, n, n, sign)
        return b.constant(_array(powers.real, dtype), dtype), b.constant(_array(powers.imag, dtype), dtype)
    products = positions(b, lambda grid: grid.at(0) * grid.at(1), (n, n))

    def angle(jk: Element, whole: Element) -> Element:
        return (jk % whole).to(dtype) / whole.to(dtype) * (sign * 2 * math.pi)

    angles = formula(b, angle, products, size_as(b, n, I64))
    return ew.unary(b, "cos", angles), ew.unary(b, "sin", angles)


def _along_blocks(b: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """Return the transforms of x [rows, n, rest] along its second axis: one product of real matrices.

    Real and imaginary parts lie beside each other: (re, im) times ((c, s), (-s, c)).
    """
    cos, sin = _matrix(b, n, sign, x.dtype.real)
    matrix = concat(b, [cos, sin], 1)
    if x.dtype.is_complex:
        matrix = concat(b, [matrix, concat(b, [ew.unary(b, "neg", sin), cos], 1)], 0)
    both = concat(b, parts_of(b, x), 1)
    dims = [AffineExpr.dimension(d) for d in range(4)]
    row, made_k, rest, summed = dims
    made = contract(
        b, both, matrix, AffineMap(4, 0, (row, summed, rest)),
        AffineMap(4, 0, (summed, made_k)), AffineMap(4, 0, (row, made_k, rest)), (x.shape[0], n * 2, x.shape[2]),
        [True, True, True, False], x.dtype.real,
    )  # fmt: skip
    return complex_of(b, slice_axis(b, made, 1, 0, n), slice_axis(b, made, 1, n, n * 2))


def _bluestein(b: Builder, x: Tensor, n: int, sign: int) -> Tensor:
    """j k = (j^2 + k^2 - (k - j)^2) / 2 makes a convolution with exp(-sign pi i j^2 / n) of a transform."""
    import numpy as np

    places = np.arange(n)
    chirp = np.exp(sign * 1j * np.pi * (places * places % (2 * n)) / n)
    m = 1 << (2 * n - 2).bit_length()
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = kernel[-np.arange(n)] = chirp.conj()
    dtype = C128 if x.dtype.bits == 64 else C64
    x = x if x.dtype.is_complex else ew.convert(b, x, dtype)
    factors = b.constant(_array(chirp, dtype), dtype)
    high: list[Size] = [0, m - n]
    wide = pad(b, ew.binary(b, "mul", x, factors), [0, 0], high)
    spectrum = b.constant(_array(np.fft.fft(kernel) / m, dtype), dtype)
    convolved = _transform(b, ew.binary(b, "mul", _transform(b, wide, m, -1), spectrum), m, 1)
    return ew.binary(b, "mul", slice_axis(b, convolved, 1, 0, n), factors)
