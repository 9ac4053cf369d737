"""Kernels that reduce Hessenberg matrices to Schur form by implicitly shifted QR iterations (Francis).

One workgroup reduces one matrix in place, and multiplies the rotations and reflections into a second one. The largest
magnitude of a matrix is about 1, so that squares neither overflow nor underflow.

If an eigenvalue has not converged after MOST_ITERATIONS, all results of its matrix are NaN.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any

import numpy as np

from pydispatch.kernels.annotations import View
from pydispatch.kernels.functions import group_id
from pydispatch.kernels.kernel import KernelSource
from pydispatch.patterns.types import DType

MOST_ITERATIONS = 60
"""Maximum number of QR iterations per eigenvalue; usual are 2 to 3. LAPACK allows 30 on average."""

EXCEPTIONAL = 10
"""Iterations after which an eigenvalue that has not converged gets an exceptional shift, which breaks cycles."""


def _fill_with_nan(a: View, i: int) -> None:
    """Set all elements of matrix i of a batch [batch, n, m] to NaN."""
    for j in range(a.shape[1]):
        for k in range(a.shape[2]):
            a[i, j, k] = math.nan


def _with_sign(size: Any, value: Any) -> Any:
    """Return a non-negative size with the sign of a value, which is positive for zero."""
    return size if value >= 0.0 else -size


def _length(a: Any, b: Any) -> Any:
    """Return the Euclidean length of (a, b)."""
    return math.sqrt(a * a + b * b)


def _start_of_block(h: View, i: int, last: int, eps: Any) -> int:
    """Return the first row of the unreduced block of the real Hessenberg matrix h[i] that ends at row `last`.

    A negligible element below the diagonal becomes 0: it separates blocks. It is at most the machine epsilon `eps`
    times the sum of its two neighbours on the diagonal, or at most eps^2. The latter is for zeros on the diagonal, as
    the largest magnitude in the matrix is about 1.
    """
    first = last
    while first > 0:
        below = abs(h[i, first, first - 1])
        if below <= eps * (abs(h[i, first - 1, first - 1]) + abs(h[i, first, first])) or below <= eps * eps:
            h[i, first, first - 1] = 0.0
            break
        first -= 1
    return first


def _rotate_rows(a: View, i: int, row: int, first_column: int, cos: Any, sin: Any) -> None:
    """Rotate rows `row` and `row + 1` of the real matrix a[i] by [[cos, sin], [-sin, cos]], from `first_column` on."""
    for k in range(first_column, a.shape[2]):
        u, v = a[i, row, k], a[i, row + 1, k]
        a[i, row, k] = cos * u + sin * v
        a[i, row + 1, k] = cos * v - sin * u


def _rotate_columns(a: View, i: int, column: int, row_count: int, cos: Any, sin: Any) -> None:
    """Multiply columns `column` and `column + 1` of a[i] from the right by [[cos, -sin], [sin, cos]].

    This is the transpose of the rotation of `_rotate_rows`. Only the first `row_count` rows are changed.
    """
    for k in range(row_count):
        u, v = a[i, k, column], a[i, k, column + 1]
        a[i, k, column] = cos * u + sin * v
        a[i, k, column + 1] = cos * v - sin * u


def _standard_rotation(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """Return cosine and sine of the rotation R for which R M transpose(R) is the standard form of M = [[a, b], [c, d]].

    R is [[cos, sin], [-sin, cos]]. The standard form is upper triangular if the eigenvalues of M are real. Otherwise
    its diagonal elements are equal: [[0, 2], [-8, 4]] has the eigenvalues 2 +- 2 sqrt(3) i, and the diagonal becomes
    [2, 2].
    """
    half = 0.5 * (a - d)
    discriminant = half * half + b * c  # the eigenvalues are d + half +- sqrt(discriminant)
    cos, sin = 1.0 + 0.0 * a, 0.0 * a  # 1 and 0 of the type of a
    if discriminant >= 0.0 and c != 0.0:
        # (root, c) is an eigenvector, of the eigenvalue d + root. R turns it into a multiple of (1, 0), so that the
        # element below the diagonal becomes 0. The square root has the sign of `half`: the sum has no cancellation.
        root = half + _with_sign(math.sqrt(discriminant), half)
        length = _length(root, c)
        cos, sin = root / length, c / length
    elif discriminant < 0.0 and half != 0.0:
        # For R by the angle t, the diagonal elements differ by 2 half cos(2t) + total sin(2t), which is 0 for
        # cos(2t) = |total| / length and sin(2t) = -2 half sign(total) / length. The half-angle formulas give R.
        total = b + c
        length = _length(total, 2.0 * half)
        cos = math.sqrt(0.5 * (1.0 + abs(total) / length))
        sin = -_with_sign(half, total) / (length * cos)
    return cos, sin


def _standardize(h: View, q: View, i: int, row: int) -> None:
    """Rotate the block of rows `row` and `row + 1` of h[i] to its standard form, and multiply q[i] by the transpose of
    the rotation.

    Afterwards the element below the diagonal is exactly 0 if the eigenvalues of the block are real. Otherwise the
    diagonal elements are exactly equal. The rotation alone, `_standard_rotation`, gives both but for rounding errors.
    """
    # A pair that is complex by rounding errors alone has off-diagonal elements of equal signs after the first rotation,
    # and becomes real by the second one.
    for _ in range(2):
        a, b, c, d = h[i, row, row], h[i, row, row + 1], h[i, row + 1, row], h[i, row + 1, row + 1]
        cos, sin = _standard_rotation(a, b, c, d)
        # Rows from column `row` on, columns in the rows before row + 2: the other elements are 0.
        _rotate_rows(h, i, row, row, cos, sin)
        _rotate_columns(h, i, row, row + 2, cos, sin)
        _rotate_columns(q, i, row, q.shape[1], cos, sin)
        half = 0.5 * (a - d)
        if half * half + b * c >= 0.0:  # real eigenvalues, as in `_standard_rotation`
            h[i, row + 1, row] = 0.0
        else:
            mean = 0.5 * (h[i, row, row] + h[i, row + 1, row + 1])
            h[i, row, row] = mean
            h[i, row + 1, row + 1] = mean


def _francis_step(h: View, q: View, i: int, first: int, last: int, trace: Any, det: Any) -> None:
    """Apply one QR step with two shifts (Francis' step, as in EISPACK's hqr2) to rows `first` to `last` of h[i], and
    multiply q[i] by its reflections.

    There are at least three rows, and no element of their subdiagonal is 0. A shift is an estimate of an eigenvalue.
    The shifts are given by their sum `trace` and their product `det`, which are real for conjugate shifts. The first
    reflection makes elements below the subdiagonal nonzero, the bulge; each following one, of three rows and at the end
    of two, moves it down by a row. The last one removes it, so that h[i] is a Hessenberg matrix again.
    """
    n = h.shape[2]
    a, b, c = h[i, first, first], h[i, first, first + 1], h[i, first + 1, first]
    # The first column of h^2 - trace h + det, divided by c: the first reflection makes it a multiple of (1, 0, 0).
    x = (a * (a - trace) + det) / c + b
    y = a + h[i, first + 1, first + 1] - trace
    z = h[i, first + 2, first + 1]
    for k in range(first, last):
        if k > first:
            # Column k - 1 of the bulge: this reflection makes it a multiple of (1, 0, 0).
            x, y = h[i, k, k - 1], h[i, k + 1, k - 1]
            z = h[i, k + 2, k - 1] if k + 2 <= last else 0.0 * x  # 0 of the type of x
        size = max(max(abs(x), abs(y)), abs(z))
        if size > 0.0:
            x, y, z = x / size, y / size, z / size
            length = _with_sign(math.sqrt(x * x + y * y + z * z), x)  # the sign of x: no cancellation in x + length
            if k > first:
                h[i, k, k - 1] = -length * size
                h[i, k + 1, k - 1] = 0.0
                if k + 2 <= last:
                    h[i, k + 2, k - 1] = 0.0
            # The reflection is 1 - (1, v, w) (p, r, s)^T: it turns (x, y, z) into (-length, 0, 0).
            p, v, w = (x + length) / length, y / (x + length), z / (x + length)
            r, s = p * v, p * w
            for j in range(k, n):
                total = h[i, k, j] + v * h[i, k + 1, j]
                if k + 2 <= last:
                    total += w * h[i, k + 2, j]
                    h[i, k + 2, j] -= s * total
                h[i, k, j] -= p * total
                h[i, k + 1, j] -= r * total
            # Below row k + 3 these columns are 0.
            _reflect_columns(h, i, k, min(k + 4, last + 1), k + 2 <= last, v, w, p, r, s)
            _reflect_columns(q, i, k, n, k + 2 <= last, v, w, p, r, s)


def _reflect_columns(
    a: View, i: int, k: int, end: int, has_third: bool, v: Any, w: Any, p: Any, r: Any, s: Any
) -> None:
    """Multiply columns k, k + 1 and, with `has_third`, k + 2 of a[i] by the reflection 1 - (1, v, w) (p, r, s)^T, in
    the rows before `end`.
    """
    for j in range(end):
        total = a[i, j, k] + v * a[i, j, k + 1]
        if has_third:
            total += w * a[i, j, k + 2]
            a[i, j, k + 2] -= s * total
        a[i, j, k] -= p * total
        a[i, j, k + 1] -= r * total


@cache
def real_schur_kernel(dtype: DType) -> KernelSource:
    """Return the kernel for real matrices: it reduces Hessenberg matrices h to Schur form T, and multiplies q by the
    orthogonal factor. Both are [batch, n, n] of f32 or f64, and are changed in place.

    h = Z T transpose(Z), and q becomes q Z. T is triangular but for blocks of two rows, [[a, b], [c, a]] with b c < 0,
    one for each pair of conjugate eigenvalues a +- sqrt(-b c) i.
    """
    eps = float(np.finfo(f"float{dtype.name[1:]}").eps)

    def real_schur(h: Annotated[View, dtype["batch", "n", "n"]], q: Annotated[View, dtype["batch", "n", "n"]]) -> None:
        """Reduce h[i] to Schur form block by block, from its last row up, and multiply q[i] by the orthogonal factor.

        Workgroup i reduces matrix i of the batch. Both matrices become NaN if an eigenvalue does not converge. An
        element below the diagonal is negligible if it is at most `eps`, the machine epsilon of the type, times the sum
        of its two neighbours on the diagonal; `_start_of_block` sets it to 0.
        """
        i = group_id(0)
        last = h.shape[2] - 1  # last row that is not finished: the rows below it have Schur form
        iterations = 0  # QR steps since the last block was finished
        while last >= 0 and iterations <= MOST_ITERATIONS:
            # Rows `first` to `last` are the block that is reduced: no element of its subdiagonal is negligible.
            first = _start_of_block(h, i, last, dtype(eps))
            if first >= last - 1:  # the block has one or two rows: its eigenvalues have converged
                if first == last - 1:
                    _standardize(h, q, i, first)
                last = first - 1
                iterations = 0
            else:
                iterations += 1
                # The shifts are the eigenvalues of the last two rows and columns, [[a, b], [c, d]].
                a, b = h[i, last - 1, last - 1], h[i, last - 1, last]
                c, d = h[i, last, last - 1], h[i, last, last]
                trace, det = a + d, a * d - b * c
                if iterations % EXCEPTIONAL == 0:  # the shifts that EISPACK's hqr tries, in case the iteration cycles
                    size = abs(c) + abs(h[i, last - 1, last - 2])
                    trace, det = 1.5 * size, size * size
                _francis_step(h, q, i, first, last, trace, det)
        if last >= 0:  # an eigenvalue has not converged
            _fill_with_nan(h, i)
            _fill_with_nan(q, i)

    return KernelSource(real_schur, workgroup=1, grid=lambda h, q: h.shape[0])


def _start_of_complex_block(re: View, im: View, i: int, last: int, eps: Any) -> int:
    """Return the first row of the unreduced block of the complex Hessenberg matrix (re[i], im[i]) that ends at row
    `last`.

    A negligible element below the diagonal is set to 0: it separates blocks. Magnitudes are |real| + |imag|. An element
    is negligible if it is at most eps times the sum of its neighbours on the diagonal, or at most eps^2. The latter is
    for zeros on the diagonal, as the largest magnitude in the matrix is about 1.
    """
    first = last
    while first > 0:
        below = abs(re[i, first, first - 1]) + abs(im[i, first, first - 1])
        diagonal = abs(re[i, first - 1, first - 1]) + abs(im[i, first - 1, first - 1])
        diagonal += abs(re[i, first, first]) + abs(im[i, first, first])
        if below <= eps * diagonal or below <= eps * eps:
            re[i, first, first - 1] = 0.0
            im[i, first, first - 1] = 0.0
            break
        first -= 1
    return first


def _product(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part of (a + bi) (c + di)."""
    return a * c - b * d, a * d + b * c


def _square_root(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part of the square root of a + bi whose real part is at least 0."""
    larger = math.sqrt(0.5 * (_length(a, b) + abs(a)))
    smaller = 0.5 * abs(b) / larger if larger > 0.0 else larger
    return (larger if a >= 0.0 else smaller), _with_sign(smaller if a >= 0.0 else larger, b)


def _wilkinson_shift(re: View, im: View, i: int, last: int) -> tuple[Any, Any]:
    """Return the eigenvalue, real and imaginary part, of the block of rows last - 1 and last that is closer to the last
    diagonal element.

    For the complex block [[p, q], [r, s]], the eigenvalues are s + half +- root, with half = (p - s) / 2 and
    root = sqrt(half^2 + q r).
    """
    # s is a + bi, and q r is off_re + off_im i.
    a, b = re[i, last, last], im[i, last, last]
    half_re, half_im = 0.5 * (re[i, last - 1, last - 1] - a), 0.5 * (im[i, last - 1, last - 1] - b)
    off_re, off_im = _product(
        re[i, last - 1, last], im[i, last - 1, last], re[i, last, last - 1], im[i, last, last - 1]
    )
    x, y = _product(half_re, half_im, half_re, half_im)
    root_re, root_im = _square_root(x + off_re, y + off_im)
    # The eigenvalues are also s - q r / (half +- root). The sign for which the sum has no cancellation, that of a
    # positive real part of half conj(root), has the larger denominator, and so the eigenvalue that is closer to s.
    if half_re * root_re + half_im * root_im < 0.0:
        root_re, root_im = -root_re, -root_im
    root_re, root_im = root_re + half_re, root_im + half_im
    square = root_re * root_re + root_im * root_im
    if square > 0.0:  # else both eigenvalues are s
        x, y = _product(off_re, off_im, root_re, -root_im)
        a, b = a - x / square, b - y / square
    return a, b


def _complex_step(re: View, im: View, qre: View, qim: View, i: int, first: int, last: int, a: Any, b: Any) -> None:
    """Apply one QR step with the shift a + bi to rows `first` to `last` of (re[i], im[i]), real and imaginary part.

    A shift is an estimate of an eigenvalue. The step multiplies the matrix by unitary matrices from the left, and by
    their adjoints from the right; (qre[i], qim[i]) is multiplied by the adjoints only. Each unitary matrix combines two
    rows: the first makes an element below the subdiagonal nonzero, the bulge, and each following one moves it down by a
    row. The last one removes it.
    """
    n = re.shape[2]
    # Two elements of a column, x + yi and u + vi, of which the unitary matrix makes the second one 0: at first elements
    # of the matrix minus the shift, later the subdiagonal element and the bulge in column k - 1.
    x, y = re[i, first, first] - a, im[i, first, first] - b
    u, v = re[i, first + 1, first], im[i, first + 1, first]
    for k in range(first, last):
        if k > first:
            x, y = re[i, k, k - 1], im[i, k, k - 1]
            u, v = re[i, k + 1, k - 1], im[i, k + 1, k - 1]
        size = max(max(abs(x), abs(y)), max(abs(u), abs(v)))
        if size > 0.0:
            x, y, u, v = x / size, y / size, u / size, v / size
            # The unitary matrix [[p, s], [-conj(s), conj(p)]] turns (x + yi, u + vi) into (length, 0).
            length = math.sqrt(x * x + y * y + u * u + v * v)
            pre, pim, sre, sim = x / length, -y / length, u / length, -v / length
            if k > first:
                re[i, k, k - 1] = length * size
                im[i, k, k - 1] = 0.0
                re[i, k + 1, k - 1] = 0.0
                im[i, k + 1, k - 1] = 0.0
            _combine_rows(re, im, i, k, pre, pim, sre, sim)
            row_count = min(k + 3, last + 1)  # rows up to k + 2, where the next bulge is; the rows below are 0 here
            _combine_columns(re, im, i, k, row_count, pre, pim, sre, sim)
            _combine_columns(qre, qim, i, k, n, pre, pim, sre, sim)


def _combine_rows(re: View, im: View, i: int, k: int, pre: Any, pim: Any, sre: Any, sim: Any) -> None:
    """Multiply rows k and k + 1 of (re[i], im[i]), from column k on, by [[p, s], [-conj(s), conj(p)]].

    `pre` and `pim` are the parts of p, `sre` and `sim` those of s.
    """
    for j in range(k, re.shape[2]):
        x, y, u, v = re[i, k, j], im[i, k, j], re[i, k + 1, j], im[i, k + 1, j]
        re[i, k, j] = pre * x - pim * y + sre * u - sim * v
        im[i, k, j] = pre * y + pim * x + sre * v + sim * u
        re[i, k + 1, j] = pre * u + pim * v - sre * x - sim * y
        im[i, k + 1, j] = pre * v - pim * u - sre * y + sim * x


def _combine_columns(re: View, im: View, i: int, k: int, end: int, pre: Any, pim: Any, sre: Any, sim: Any) -> None:
    """Multiply columns k and k + 1 of (re[i], im[i]), in the rows before `end`, by the adjoint of
    [[p, s], [-conj(s), conj(p)]].

    `pre` and `pim` are the parts of p, `sre` and `sim` those of s.
    """
    for j in range(end):
        x, y, u, v = re[i, j, k], im[i, j, k], re[i, j, k + 1], im[i, j, k + 1]
        re[i, j, k] = pre * x + pim * y + sre * u + sim * v
        im[i, j, k] = pre * y - pim * x + sre * v - sim * u
        re[i, j, k + 1] = pre * u - pim * v - sre * x + sim * y
        im[i, j, k + 1] = pre * v + pim * u - sre * y - sim * x


@cache
def complex_schur_kernel(dtype: DType) -> KernelSource:
    """Return the kernel for complex matrices: it reduces Hessenberg matrices h = re + im i to triangular matrices T,
    and multiplies q = qre + qim i by the unitary factor. All are [batch, n, n] of f32 or f64, and are changed in place.

    h = Z T adjoint(Z), and q becomes q Z. The diagonal of T has the eigenvalues.
    """
    eps = float(np.finfo(f"float{dtype.name[1:]}").eps)

    def complex_schur(
        re: Annotated[View, dtype["batch", "n", "n"]],
        im: Annotated[View, dtype["batch", "n", "n"]],
        qre: Annotated[View, dtype["batch", "n", "n"]],
        qim: Annotated[View, dtype["batch", "n", "n"]],
    ) -> None:
        """Reduce matrix i, the index of the workgroup, to triangular form, row by row from its last row on.

        If an eigenvalue does not converge, all results of the matrix become NaN. An element below the diagonal is
        negligible if it is at most `eps`, the machine epsilon of the type, times the sum of its two neighbours on the
        diagonal; `_start_of_complex_block` sets it to 0.
        """
        i = group_id(0)
        last = re.shape[2] - 1  # last row that is not finished: the rows below it are triangular
        iterations = 0  # QR steps since the last row was finished
        while last >= 0 and iterations <= MOST_ITERATIONS:
            # Rows `first` to `last` are the block that is reduced: no element of its subdiagonal is negligible.
            first = _start_of_complex_block(re, im, i, last, dtype(eps))  # dtype(eps): eps as a constant of the type
            if first == last:  # the block is one element, which is an eigenvalue
                last = first - 1
                iterations = 0
            else:
                iterations += 1
                shift_re, shift_im = _wilkinson_shift(re, im, i, last)
                if iterations % EXCEPTIONAL == 0:  # another shift, in case the iteration cycles
                    shift_re += abs(re[i, last, last - 1]) + abs(im[i, last, last - 1])
                _complex_step(re, im, qre, qim, i, first, last, shift_re, shift_im)
        if last >= 0:  # an eigenvalue has not converged
            _fill_with_nan(re, i)
            _fill_with_nan(im, i)
            _fill_with_nan(qre, i)
            _fill_with_nan(qim, i)

    return KernelSource(complex_schur, workgroup=1, grid=lambda re, im, qre, qim: re.shape[0])


@cache
def split_pairs_kernel(dtype: DType) -> KernelSource:
    """Return the kernel that makes real Schur forms triangular, with exactly conjugate eigenvalues.

    (re, im) is a real Schur form as `real_schur_kernel` returns it, with im = 0, and (qre, qim) is multiplied by the
    unitary factor. All are [batch, n, n] of f32 or f64, and are changed in place. The eigenvalue with the positive
    imaginary part is first: the block [[1, 2], [-8, 1]] gets the diagonal [1 + 4i, 1 - 4i].
    """

    def split_pairs(
        re: Annotated[View, dtype["batch", "n", "n"]],
        im: Annotated[View, dtype["batch", "n", "n"]],
        qre: Annotated[View, dtype["batch", "n", "n"]],
        qim: Annotated[View, dtype["batch", "n", "n"]],
    ) -> None:
        """Make matrix i, the index of the workgroup, triangular: split each block [[a, b], [c, a]] of two rows.

        b and c have opposite signs.
        """
        i = group_id(0)
        n = re.shape[2]
        zero = dtype(0)
        for k in range(n - 1):
            a, b, c = re[i, k, k], re[i, k, k + 1], re[i, k + 1, k]
            if c != 0.0:  # rows k and k + 1 are a block of two rows
                # With the sign of b, (x, yi) is an eigenvector of [[a, b], [c, a]] for the eigenvalue a + |x| yi.
                x, y = math.sqrt(abs(b)), math.sqrt(abs(c))
                size = x * y
                length = _length(x, y)
                x, y = _with_sign(x, b) / length, y / length
                # The unitary matrix [[p, s], [-conj(s), conj(p)]] turns the eigenvector into (1, 0), so that the block
                # becomes triangular. Its first row is the conjugate of the eigenvector: p = x + 0i and s = 0 - yi.
                pre, pim, sre, sim = x, zero, zero, -y
                _combine_rows(re, im, i, k, pre, pim, sre, sim)
                _combine_columns(re, im, i, k, k + 2, pre, pim, sre, sim)
                _combine_columns(qre, qim, i, k, n, pre, pim, sre, sim)
                # The exact values of elements that the products computed with rounding errors: a + size i, a - size i
                # and 0.
                re[i, k, k], re[i, k + 1, k + 1], re[i, k + 1, k] = a, a, zero
                im[i, k, k], im[i, k + 1, k + 1], im[i, k + 1, k] = size, -size, zero

    return KernelSource(split_pairs, workgroup=1, grid=lambda re, im, qre, qim: re.shape[0])
