"""Conversions of Fourier transforms, matrix factorizations and triangular systems, and of JAX's calls of LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.dtypes import I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import eigen, factors, fourier, jacobi, linear, shapes, systems
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reductions import reduce


def _fft(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Convert a transform over up to three trailing axes: FFT, IFFT, RFFT or IRFFT.

    A transform to or from real numbers has half a spectrum along the last axis only; along the other axes it is one of
    complex numbers. RFFT begins and IRFFT ends with the last axis, because only there one side is real.

    Raise CompileError for another number of axes, and for an axis whose size is not the one that its length needs.
    """
    kind: Any = op.properties["fft_type"]
    lengths = tracer.integers(op, "fft_length")
    if not 1 <= len(lengths) <= min(3, x.rank):
        raise tracer.b.fail(f"'stablehlo.fft' of {x} over {len(lengths)} axes: one to three, which the tensor has")
    axes = list(range(x.rank - len(lengths), x.rank))
    name = kind.data
    for axis, length in zip(axes, lengths, strict=True):
        expected = length // 2 + 1 if name == "IRFFT" and axis == axes[-1] else length
        if x.shape[axis] != expected:
            raise tracer.b.fail(f"'stablehlo.fft' of {x}: length {length} needs {expected} elements along axis {axis}")
    if name == "RFFT":
        x = fourier.rfft(tracer.b, x, axes.pop())
    half_axis = axes.pop() if name == "IRFFT" else None
    for axis in axes:
        x = fourier.fft(tracer.b, x, axis, inverse=name in ("IFFT", "IRFFT"))
    return x if half_axis is None else fourier.irfft(tracer.b, x, lengths[-1], half_axis)


def _triangular_solve(tracer: StablehloTracer, op: Operation, a: Tensor, y: Tensor) -> Tensor:
    """Return the solution of a triangular system, as the attributes state: a x = y, or x a = y without `left_side`."""
    transposed: Any = op.properties["transpose_a"]
    left, lower, unit = (bool(tracer.integer(op, name)) for name in ("left_side", "lower", "unit_diagonal"))
    if transposed.data == "TRANSPOSE_INVALID":
        raise tracer.b.fail("transpose_a is TRANSPOSE_INVALID")
    return linear.triangular_solve(
        tracer.b, a, y, left=left, lower=lower, transposed=transposed.data != "NO_TRANSPOSE",
        conjugated=transposed.data == "ADJOINT", has_unit_diagonal=unit,
    )  # fmt: skip


# -- custom calls of LAPACK, which JAX emits for CPUs


def _letter(tracer: StablehloTracer, op: Operation, name: str) -> str:
    """Return the letter in the attribute `name` of a LAPACK call, such as "L" or "U" in `uplo`.

    The attribute is the character code of the letter.
    """
    config = op.attributes.get("mhlo.backend_config")
    value: Any = config.data.get(name) if isinstance(config, DictionaryAttr) else None
    if value is None:
        raise tracer.b.fail(f"the call of LAPACK has no attribute '{name}'")
    return chr(value.value.data)


def potrf(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the Cholesky factors, and for each matrix 1 if it is not positive definite, else 0.

    LAPACK overwrites only one triangle, so the other triangle of the result has the elements of x.
    """
    lower = _letter(tracer, op, "uplo") == "L"
    factor = linear.cholesky(tracer.b, x, lower=lower)
    row, column = x.rank - 2, x.rank - 1

    def packed(value: Element, other: Element) -> Element:
        """Return the element of the factor in its triangle, else that of x, which LAPACK leaves unchanged there."""
        i, j = value.position(row, I64), value.position(column, I64)
        return (i >= j if lower else i <= j).where(value, other)

    undefined = ew.unary(tracer.b, "is_nan", factor)  # the factor of a matrix that is not positive definite has NaN
    failed = reduce(tracer.b, "or", undefined, [row, column])
    return formula(tracer.b, packed, factor, x), ew.convert(tracer.b, failed, tracer.dtype(op, 1))


def trsm(tracer: StablehloTracer, op: Operation, a: Tensor, y: Tensor) -> Tensor:
    """Return the solution of a triangular system, op(a) x = y or x op(a) = y as the attribute `side` states.

    Other attributes state which triangle of a is read (`uplo`), whether op transposes ("T") or takes the adjoint ("C",
    in `trans_x`), and whether the diagonal counts as 1 (`diag`).
    """
    return linear.triangular_solve(
        tracer.b, a, y, left=_letter(tracer, op, "side") == "L", lower=_letter(tracer, op, "uplo") == "L",
        transposed=_letter(tracer, op, "trans_x") != "N", conjugated=_letter(tracer, op, "trans_x") == "C",
        has_unit_diagonal=_letter(tracer, op, "diag") == "U",
    )  # fmt: skip


def _factored(
    factorization: Callable[..., Results], tracer: StablehloTracer, op: Operation, *operands: Tensor
) -> Results:
    """Return the results of factorization(builder, *operands), for custom calls without attributes."""
    return factorization(tracer.b, *operands)


getrf, geqrf, orgqr = (
    partial(_factored, factors.lu), partial(_factored, factors.qr), partial(_factored, factors.product_of_reflections),
)  # fmt: skip


def eigh(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the eigenvectors and eigenvalues of symmetric or Hermitian matrices, and LAPACK's status for each
    matrix.
    """
    values, vectors = eigen.eigh(tracer.b, x, lower=_letter(tracer, op, "uplo") == "L")
    return vectors, values, _zero_for_each_matrix(tracer, op, vectors)


def geev(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the eigenvalues of general matrices, the left and the right eigenvectors, and LAPACK's status for each
    matrix.

    The results are in this order. The eigenvalues of complex matrices are one result; those of real matrices are two,
    the real and the imaginary parts. For x f32[5, 4, 4], the shapes are [5, 4], [5, 4], [5, 4, 4], [5, 4, 4] and [5].
    Eigenvectors that the call does not request are zeros. The status is always 0, success: a matrix whose eigenvalues
    cannot be computed has NaN instead.
    """
    b = tracer.b
    wants_left, wants_right = (_letter(tracer, op, f"compute_{side}") == "V" for side in ("left", "right"))
    left = right = None
    if wants_left or wants_right:
        values, right, left = eigen.eig(b, x, wants_left)
    else:
        values = eigen.eigenvalues(b, x)
    # The right eigenvectors are the last result but one. Counting from the start would depend on the number of results
    # of eigenvalues, one or two. The left eigenvectors have the same type.
    right_result = len(op.results) - 2
    zeros = shapes.full(b, 0.0, x.shape, tracer.dtype(op, right_result))
    vectors = left or zeros, right if right and wants_right else zeros
    return *_eigenvalues(tracer, x, values), *vectors, _zero_for_each_matrix(tracer, op, x)


def gees(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the Schur form T, the unitary factor Q with x = Q T Q^H, and the eigenvalues.

    Two results for each matrix follow: the number of sorted eigenvalues, 0 as they are not sorted, and LAPACK's status.
    """
    b = tracer.b
    if _letter(tracer, op, "sort") != "N":
        raise b.fail("the Schur form with sorted eigenvalues is not supported", "leave its eigenvalues in any order")
    t, q = eigen.schur(b, x)
    # For complex matrices the eigenvalues; for real ones their real and their imaginary parts, two results.
    values = _eigenvalues(tracer, x, eigen.eigenvalues_of_schur(b, t))
    sorted_counts, status = (_zero_for_each_matrix(tracer, op, x) for _ in range(2))
    return t, q, *values, sorted_counts, status


def _eigenvalues(tracer: StablehloTracer, x: Tensor, values: Tensor) -> list[Tensor]:
    """Return complex eigenvalues as LAPACK does: for real matrices x as two tensors, real and imaginary parts."""
    if x.dtype.is_complex:
        return [values]
    return [formula(tracer.b, lambda v: v.real, values), formula(tracer.b, lambda v: v.imag, values)]


def _zero_for_each_matrix(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Return a zero for each matrix of x, of the type of the last result: LAPACK's status, where 0 is success."""
    return shapes.full(tracer.b, 0, x.shape[:-2], tracer.dtype(op, len(op.results) - 1))


def gehrd(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the packed Hessenberg form, the factors of its reflections, and LAPACK's status for each matrix.

    The attributes `low` and `high` are the first and last row, counted from 1, of the block that is reduced.
    """
    config: Any = op.attributes["mhlo.backend_config"]
    low, high = (config.data[name].value.data for name in ("low", "high"))
    if (low, high) != (1, x.shape[-1]):
        raise tracer.b.fail(f"the Hessenberg form of rows {low} to {high} of {x}: only that of all rows is supported")
    return *factors.hessenberg(tracer.b, x), _zero_for_each_matrix(tracer, op, x)


def gesdd(tracer: StablehloTracer, op: Operation, x: Tensor) -> Results:
    """Return the operand, its singular values, U, V^H, and LAPACK's status for each matrix.

    The operand takes the place of the matrix that LAPACK overwrites. The call's attribute `mode` is "A" for all columns
    of U and rows of V^H, "S" for min(m, n) of them, and "N" for singular values only: U and V^H are then zeros of the
    shapes that the call states.
    """
    b, mode = tracer.b, _letter(tracer, op, "mode")
    u, values, vt = jacobi.svd(b, x, full=mode == "A")
    if mode == "N":
        # `result`: index of the result of the call whose shape the zeros have; `like` supplies its dynamic sizes.
        u, vt = _zeros_of_result(tracer, op, result=2, like=u), _zeros_of_result(tracer, op, result=3, like=vt)
    return x, values, u, vt, _zero_for_each_matrix(tracer, op, x)


def _zeros_of_result(tracer: StablehloTracer, op: Operation, *, result: int, like: Tensor) -> Tensor:
    """Return zeros in the shape that a call states for its result `result`; dynamic sizes are those of `like`."""
    stated = shape_of(op.results[result].type)
    sizes = [known if size is None else size for size, known in zip(stated, like.shape, strict=True)]
    return shapes.full(tracer.b, 0.0, sizes, like.dtype)


def gtsv(
    tracer: StablehloTracer, op: Operation, lower: Tensor, diagonal: Tensor, upper: Tensor, sides: Tensor
) -> Results:
    """Return the three bands of tridiagonal systems, the solutions for the right-hand `sides`, and LAPACK's status.

    LAPACK overwrites the bands with factors, which JAX does not read: here they are the operands.
    """
    solution, status = systems.tridiagonal_solve(tracer.b, lower, diagonal, upper, sides)
    return lower, diagonal, upper, solution, ew.convert(tracer.b, status, tracer.dtype(op, len(op.results) - 1))


def refused(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Raise CompileError for a factorization that is not supported."""
    target: Any = op.properties["call_target_name"]
    raise tracer.b.fail(
        f"'{target.data}' of LAPACK is not supported; eigenvalues and singular values are",
        f"give a kernel that calls your LAPACK, kernels={{'{target.data}': pd.CFunction(...)}}, or compute it outside",
    )


_LAPACK: dict[str, Convert] = {
    "potrf": potrf, "trsm": trsm, "getrf": getrf, "geqrf": geqrf, "geev": geev, "gees": gees, "gehrd": gehrd,
    "gesdd": gesdd, "gtsv": gtsv,
}  # fmt: skip
"""Conversions of LAPACK's functions for all four element types, by their names without the letter of the type."""
_REFUSED = ("gesvd", "sytrd", "hetrd", "geqp3")
"""Functions of LAPACK, without the letter of the element type, whose custom calls raise the error of `refused`. Other
unknown targets are treated as kernels of the user."""
TARGETS: dict[str, Callable[..., Results]] = {
    **{f"lapack_{kind}{name}_ffi": function for kind in "sdcz" for name, function in _LAPACK.items()},
    **{f"lapack_{kind}_ffi": orgqr for kind in ("sorgqr", "dorgqr", "cungqr", "zungqr")},
    **{f"lapack_{kind}{name}_ffi": refused for kind in "sdcz" for name in _REFUSED},
    **{f"lapack_{name}_ffi": eigh for name in ("ssyevd", "dsyevd", "cheevd", "zheevd")},
    "ProductOfElementaryHouseholderReflectors": orgqr, "Qr": geqrf,  # of JAX for accelerators
}  # fmt: skip
"""Conversions by the targets of custom calls."""

ROWS: dict[str, Convert] = {
    "stablehlo.cholesky": lambda t, op, x: linear.cholesky(t.b, x, lower=bool(t.integer(op, "lower"))),
    "stablehlo.fft": _fft,
    "stablehlo.triangular_solve": _triangular_solve,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
