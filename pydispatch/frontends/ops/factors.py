"""Factors of matrices as LAPACK stores them: LU with pivots (getrf), QR as reflections (geqrf, orgqr).

Each is a loop over columns; a step changes all matrices of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I32, I64
from pydispatch.frontends.graph.sizes import Size, minimum, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.control import for_
from pydispatch.frontends.ops.gathers import take_along
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.reductions import argument, reduce
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.shapes import broadcast_to, full, reshape, slice_, slice_axis


def lu(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(L below the diagonal, where it is 1, and U from it on; the row that each column's was exchanged with, from 1;
    the column of the first pivot that is 0, from 1, or 0). x: [..., m, n] of floats or complex numbers."""
    a = _matrices(b, "LU", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, place: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        a, pivots, failed = tensors
        column, top = slice_axis(b, a, 2, j, j + 1), slice_axis(b, a, 1, j, j + 1)

        def length(s: Scalars, value: Scalar) -> Scalar:
            below = s.compare("ge", s.position(1), place)
            size = s.unary("abs", s.real(value))
            if value.dtype.is_complex:
                size = s.binary("add", size, s.unary("abs", s.imag(value)))
            return s.select(below, size, s.const(-1.0, size.dtype))

        chosen = argument(b, "max", ew.apply(b, length, column), 1, keep=True)
        row = take_along(b, a, broadcast_to(b, chosen, (batch, 1, n)), 1)
        corner, pivot = slice_axis(b, top, 2, j, j + 1), slice_axis(b, row, 2, j, j + 1)

        def element(s: Scalars, value: Scalar, left: Scalar, *given: Scalar) -> Scalar:
            above, best, chosen, corner, pivot = given
            i, k = s.position(1), s.position(2)
            exchanged, moved = s.compare("eq", i, chosen), s.compare("eq", i, place)
            value = s.select(moved, best, s.select(exchanged, above, value))
            left = s.select(exchanged, corner, left)
            none = s.compare("eq", pivot, s.const(0.0, pivot.dtype))
            factor = s.select(none, left, s.binary("div", left, pivot))
            rest = s.select(s.compare("eq", k, place), factor, s.binary("sub", value, s.binary("mul", factor, best)))
            later = s.binary("and", s.compare("gt", i, place), s.compare("ge", k, place))
            return s.select(later, rest, value)

        def noted(s: Scalars, before: Scalar, chosen: Scalar) -> Scalar:
            number = s.binary("add", s.convert(chosen, I32), s.const(1, I32))
            return s.select(s.compare("eq", s.position(1), place), number, before)

        def first(s: Scalars, before: Scalar, pivot: Scalar) -> Scalar:
            none = s.compare("eq", pivot, s.const(0.0, pivot.dtype))
            new = s.binary("and", none, s.compare("eq", before, s.const(0, I32)))
            return s.select(new, s.binary("add", s.convert(place, I32), s.const(1, I32)), before)

        made = ew.apply(b, element, a, column, top, row, chosen, corner, pivot)
        one = reshape(b, chosen, (batch, 1))
        return [made, ew.apply(b, noted, pivots, one), ew.apply(b, first, failed, reshape(b, pivot, (batch,)))]

    numbers = [full(b, 0, (batch, count), I32), full(b, 0, (batch,), I32)]
    made, pivots, failed = _loop(b, count, step, [a, *numbers])
    lead = x.shape[:-2]
    return reshape(b, made, x.shape), reshape(b, pivots, (*lead, count)), reshape(b, failed, lead)


def qr(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """(R from the diagonal on, below it the reflections' vectors without their leading 1; the reflections' factors).

    x: [..., m, n] of floats or complex numbers. A reflection is 1 - factor v adjoint(v).
    """
    a = _matrices(b, "QR", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, place: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        a, factors = tensors
        column, alpha = slice_axis(b, a, 2, j, j + 1), _element(b, a, j)

        def square(s: Scalars, value: Scalar) -> Scalar:
            size = s.unary("abs", value)
            below = s.compare("gt", s.position(1), place)
            return s.select(below, s.binary("mul", size, size), s.const(0.0, size.dtype))

        rest = reduce(b, "add", ew.apply(b, square, column), [1], keep=True)

        def reflection(s: Scalars, alpha: Scalar, rest: Scalar) -> list[Scalar]:
            """Return the new element of the diagonal, the factor, and the divisor of the vector."""
            size, zero = s.unary("abs", alpha), s.const(0.0, rest.dtype)
            length = s.unary("sqrt", s.binary("add", s.binary("mul", size, size), rest))
            none = s.binary("and", s.compare("eq", rest, zero), s.compare("eq", s.imag(alpha), zero))
            beta = s.unary("neg", s.binary("copysign", length, s.real(alpha)))
            whole = s.convert(beta, alpha.dtype)
            factor = s.binary("div", s.binary("sub", whole, alpha), whole)
            apart = s.binary("sub", alpha, whole)
            kept, one = s.const(0.0, alpha.dtype), s.const(1.0, alpha.dtype)
            return [s.select(none, alpha, whole), s.select(none, kept, factor), s.select(none, one, apart)]

        beta, factor, apart = ew.apply_several(b, reflection, alpha, rest)

        def divided(s: Scalars, value: Scalar, by: Scalar) -> Scalar:
            return _leading(s, place, s.binary("div", value, by))

        vector = ew.apply(b, divided, column, apart)
        turned = _reflected(b, a, vector, ew.apply(b, lambda s, f: s.conj(f), factor))

        def element(s: Scalars, value: Scalar, new: Scalar, v: Scalar, beta: Scalar) -> Scalar:
            i, k = s.position(1), s.position(2)
            here = s.select(s.compare("gt", i, place), v, s.select(s.compare("eq", i, place), beta, value))
            return s.select(s.compare("gt", k, place), new, s.select(s.compare("eq", k, place), here, value))

        def noted(s: Scalars, before: Scalar, factor: Scalar) -> Scalar:
            return s.select(s.compare("eq", s.position(1), place), factor, before)

        made = ew.apply(b, element, a, turned, vector, beta)
        return [made, ew.apply(b, noted, factors, reshape(b, factor, (batch, 1)))]

    made, factors = _loop(b, count, step, [a, full(b, 0.0, (batch, count), x.dtype)])
    return reshape(b, made, x.shape), reshape(b, factors, (*x.shape[:-2], count))


def of_reflections(b: Builder, x: Tensor, factors: Tensor) -> Tensor:
    """Return the first columns of the product of reflections, as `qr` gives them. x: [..., m, n]; factors: [..., k]."""
    a = _matrices(b, "reflections", x)
    count = factors.shape[-1]
    given = reshape(b, factors, (a.shape[0], 1, count))

    def one(s: Scalars, _: Scalar) -> Scalar:
        same = s.compare("eq", s.position(1), s.position(2))
        return s.select(same, s.const(1.0, x.dtype), s.const(0.0, x.dtype))

    def step(number: Size, _: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        j = count - 1 - number
        place = _place(b, j)
        column = slice_axis(b, a, 2, j, j + 1)
        vector = ew.apply(b, lambda s, value: _leading(s, place, value), column)
        return [_reflected(b, tensors[0], vector, slice_axis(b, given, 2, j, j + 1))]

    return reshape(b, _loop(b, count, step, [ew.apply(b, one, a)])[0], x.shape)


def _matrices(b: Builder, what: str, x: Tensor) -> Tensor:
    """[..., m, n] → [rows, m, n]."""
    if x.rank < 2 or not (x.dtype.is_float or x.dtype.is_complex):
        raise b.fail(f"{what} of {x}: expected matrices of floats or complex numbers")
    return reshape(b, x, [product(x.shape[:-2]), *x.shape[-2:]])


def _element(b: Builder, x: Tensor, j: Size) -> Tensor:
    """x[:, j, j] as [rows, 1, 1]."""
    return slice_(b, x, (0, j, j), (x.shape[0], j + 1, j + 1))


def _leading(s: Scalars, place: Scalar, value: Scalar) -> Scalar:
    """Return an element of a reflection's vector: 0 before `place`, where it is 1."""
    before = s.select(s.compare("eq", s.position(1), place), s.const(1.0, value.dtype), s.const(0.0, value.dtype))
    return s.select(s.compare("gt", s.position(1), place), value, before)


def _reflected(b: Builder, a: Tensor, vector: Tensor, factor: Tensor) -> Tensor:
    """(1 - factor v adjoint(v)) a, with v [rows, m, 1] and factor [rows, 1, 1]."""
    parts = ew.apply(b, lambda s, value, v: s.binary("mul", s.conj(v), value), a, vector)
    along = reduce(b, "add", parts, [1], keep=True)

    def element(s: Scalars, value: Scalar, v: Scalar, length: Scalar, factor: Scalar) -> Scalar:
        return s.binary("sub", value, s.binary("mul", s.binary("mul", factor, v), length))

    return ew.apply(b, element, a, vector, along, factor)


def _place(b: Builder, j: Size) -> Scalar:
    return Scalar(I64, (b.add(arith.IndexCastOp(b.index(j), I64.element)).result,))


def _loop(
    b: Builder, count: Size, step: Callable[[Size, Scalar, list[Tensor]], list[Tensor]], tensors: list[Tensor]
) -> list[Tensor]:
    """Return the tensors after step(j, j as an element, tensors) for each j < count."""
    return tensors if count == 0 else for_(b, count, tensors, lambda j, given: step(j, _place(b, j), given))
