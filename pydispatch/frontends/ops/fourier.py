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


def fft(builder: Builder, x: Tensor, axis: int = -1, inverse: bool = False) -> Tensor:
    """numpy.fft.fft, or ifft, along one axis. x: complex, or real floats. The result is complex."""
    transform = waves(builder, x, axis, 1 if inverse else -1)
    n = transform.shape[axis]
    if not inverse or n in (0, 1):
        return transform
    factor = ew.binary(
        builder, "div", full(builder, 1.0, (), transform.dtype.real), size_as(builder, n, transform.dtype.real)
    )
    return ew.apply(builder, _scaled, transform, factor)


def waves(builder: Builder, x: Tensor, axis: int, sign: int) -> Tensor:
    """Return the sums over j of x[..., j, ...] exp(sign 2 pi i j k / n), for each k below the size n of an axis."""
    axis = axis_of(builder, axis, x.rank)
    if not x.dtype.is_complex and x.dtype.name not in ("f32", "f64"):
        raise builder.fail(f"a Fourier transform of {x}: elements are f32, f64, c64 or c128")
    order = [*(d for d in range(x.rank) if d != axis), axis]
    moved = transpose(builder, x, order)
    rows = reshape(builder, moved, [product(moved.shape[:-1]), moved.shape[-1]])
    sums = reshape(builder, _transform(builder, rows, x.shape[axis], sign), moved.shape)
    return transpose(builder, sums, [order.index(d) for d in range(x.rank)])


def rfft(builder: Builder, x: Tensor, axis: int = -1) -> Tensor:
    """numpy.fft.rfft along one axis: of n real floats the first n // 2 + 1 elements of their transform."""
    axis = axis_of(builder, axis, x.rank)
    return slice_axis(builder, fft(builder, x, axis), axis, 0, x.shape[axis] // 2 + 1)


def irfft(builder: Builder, x: Tensor, n: Size, axis: int = -1) -> Tensor:
    """numpy.fft.irfft along one axis: the n real floats of which x has the first n // 2 + 1 elements of the
    transform."""
    axis = axis_of(builder, axis, x.rank)
    if x.shape[axis] != n // 2 + 1 and not isinstance(x.shape[axis], Expr) and not isinstance(n, Expr):
        raise builder.fail(f"{n} real elements along axis {axis} of {x} need {n // 2 + 1} elements of a transform")
    rest = reverse(builder, slice_axis(builder, x, axis, 1, n - n // 2), [axis])
    whole = concat(builder, [x, ew.apply(builder, lambda s, z: s.conj(z), rest)], axis)
    return parts_of(builder, fft(builder, whole, axis, inverse=True))[0]


def parts_of(builder: Builder, x: Tensor) -> list[Tensor]:
    """Return the real part, and the imaginary part when the tensor is complex."""
    return [builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x)]


def complex_of(builder: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor of two parts of f32 or f64."""
    return builder.wrap(C128 if real.dtype.bits == 64 else C64, real.shape, builder.value(real), builder.value(imag))


def _array(numbers: Any, dtype: DType) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.asarray(numbers).astype(dtype.numpy)


def _scaled(scalars: Scalars, z: Scalar, factor: Scalar) -> Scalar:
    return scalars.complex(
        scalars.binary("mul", scalars.real(z), factor), scalars.binary("mul", scalars.imag(z), factor)
    )


def _transform(builder: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """sum_j x[r, j] exp(sign 2 pi i j k / n) for each row r and each k."""
    if isinstance(n, Expr):
        return reshape(
            builder, _along_blocks(builder, reshape(builder, x, [x.shape[0], n, 1]), n, sign), [x.shape[0], n]
        )
    if n <= 1:
        return x if x.dtype.is_complex else ew.convert(builder, x, C128 if x.dtype.bits == 64 else C64)
    factor = next((f for f in range(min(n, DIRECT), 1, -1) if n % f == 0), n)
    if factor == n and n > DIRECT_PRIME:
        return _bluestein(builder, x, n, sign)
    rest, rows = n // factor, x.shape[0]
    blocks = reshape(builder, x, [rows, factor, rest])
    transformed = _along_blocks(builder, blocks, factor, sign)  # rows, factor, rest
    if rest == 1:
        return reshape(builder, transformed, [rows, n])
    twisted = ew.binary(
        builder,
        "mul",
        transformed,
        builder.constant(_array(_powers(factor, rest, n, sign), transformed.dtype), transformed.dtype),
    )
    inner = _transform(builder, reshape(builder, twisted, [rows * factor, rest]), rest, sign)
    return reshape(builder, transpose(builder, reshape(builder, inner, [rows, factor, rest]), [0, 2, 1]), [rows, n])


def _powers(rows: int, columns: int, n: int, sign: int) -> np.ndarray[Any, Any]:
    """exp(sign 2 pi i j k / n) for j < rows and k < columns."""
    import numpy as np

    return np.exp(sign * 2j * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % n) / n)


def _matrix(builder: Builder, n: Size, sign: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary parts of exp(sign 2 pi i j k / n) for j and k below n."""
    if not isinstance(n, Expr):
        powers = _powers(n, n, n, sign)
        return builder.constant(_array(powers.real, dtype), dtype), builder.constant(_array(powers.imag, dtype), dtype)
    products = positions(builder, lambda grid: grid.at(0) * grid.at(1), (n, n))

    def angle(jk: Element, whole: Element) -> Element:
        return (jk % whole).to(dtype) / whole.to(dtype) * (sign * 2 * math.pi)

    angles = formula(builder, angle, products, size_as(builder, n, I64))
    return ew.unary(builder, "cos", angles), ew.unary(builder, "sin", angles)


def _along_blocks(builder: Builder, x: Tensor, n: Size, sign: int) -> Tensor:
    """Return the transforms of x [rows, n, rest] along its second axis: one product of real matrices.

    Real and imaginary parts are stored next to each other: (re, im) times ((c, s), (-s, c)).
    """
    cos, sin = _matrix(builder, n, sign, x.dtype.real)
    matrix = concat(builder, [cos, sin], 1)
    if x.dtype.is_complex:
        matrix = concat(builder, [matrix, concat(builder, [ew.unary(builder, "neg", sin), cos], 1)], 0)
    both = concat(builder, parts_of(builder, x), 1)
    dims = [AffineExpr.dimension(d) for d in range(4)]
    row, frequency, rest, summed = dims
    product_ = contract(
        builder, both, matrix, AffineMap(4, 0, (row, summed, rest)),
        AffineMap(4, 0, (summed, frequency)), AffineMap(4, 0, (row, frequency, rest)), (x.shape[0], n * 2, x.shape[2]),
        [True, True, True, False], x.dtype.real,
    )  # fmt: skip
    return complex_of(builder, slice_axis(builder, product_, 1, 0, n), slice_axis(builder, product_, 1, n, n * 2))


def _bluestein(builder: Builder, x: Tensor, n: int, sign: int) -> Tensor:
    """j k = (j^2 + k^2 - (k - j)^2) / 2 makes a convolution with exp(-sign pi i j^2 / n) of a transform."""
    import numpy as np

    positions = np.arange(n)
    chirp = np.exp(sign * 1j * np.pi * (positions * positions % (2 * n)) / n)
    m = 1 << (2 * n - 2).bit_length()
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = kernel[-np.arange(n)] = chirp.conj()
    dtype = C128 if x.dtype.bits == 64 else C64
    x = x if x.dtype.is_complex else ew.convert(builder, x, dtype)
    factors = builder.constant(_array(chirp, dtype), dtype)
    high: list[Size] = [0, m - n]
    wide = pad(builder, ew.binary(builder, "mul", x, factors), [0, 0], high)
    spectrum = builder.constant(_array(np.fft.fft(kernel) / m, dtype), dtype)
    convolved = _transform(builder, ew.binary(builder, "mul", _transform(builder, wide, m, -1), spectrum), m, 1)
    return ew.binary(builder, "mul", slice_axis(builder, convolved, 1, 0, n), factors)
