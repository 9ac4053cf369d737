"""Matrix factorizations in LAPACK's storage: LU with pivots (getrf), QR as Householder reflections (geqrf, orgqr).

Each is a loop over columns whose steps update all matrices of a batch at once.
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


def lu(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the packed LU factors of x [..., m, n], the pivots, and the position of the first zero pivot.

    U is on and above the diagonal, L below it; L's diagonal is 1. The pivots are the rows that each row was exchanged
    with, and like the position count from 1; a position of 0 means that no pivot is zero.
    """
    a = _matrices(builder, "LU", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, position: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        a, pivots, failed = tensors
        column, top = slice_axis(builder, a, 2, j, j + 1), slice_axis(builder, a, 1, j, j + 1)

        def length(scalars: Scalars, value: Scalar) -> Scalar:
            below = scalars.compare("ge", scalars.position(1), position)
            size = scalars.unary("abs", scalars.real(value))
            if value.dtype.is_complex:
                size = scalars.binary("add", size, scalars.unary("abs", scalars.imag(value)))
            return scalars.select(below, size, scalars.const(-1.0, size.dtype))

        chosen = argument(builder, "max", ew.apply(builder, length, column), 1, keep=True)
        row = take_along(builder, a, broadcast_to(builder, chosen, (batch, 1, n)), 1)
        corner, pivot = slice_axis(builder, top, 2, j, j + 1), slice_axis(builder, row, 2, j, j + 1)

        def element(scalars: Scalars, value: Scalar, left: Scalar, *others: Scalar) -> Scalar:
            above, best, chosen, corner, pivot = others
            i, k = scalars.position(1), scalars.position(2)
            exchanged, moved = scalars.compare("eq", i, chosen), scalars.compare("eq", i, position)
            value = scalars.select(moved, best, scalars.select(exchanged, above, value))
            left = scalars.select(exchanged, corner, left)
            none = scalars.compare("eq", pivot, scalars.const(0.0, pivot.dtype))
            factor = scalars.select(none, left, scalars.binary("div", left, pivot))
            rest = scalars.select(
                scalars.compare("eq", k, position),
                factor,
                scalars.binary("sub", value, scalars.binary("mul", factor, best)),
            )
            later = scalars.binary("and", scalars.compare("gt", i, position), scalars.compare("ge", k, position))
            return scalars.select(later, rest, value)

        def noted(scalars: Scalars, before: Scalar, chosen: Scalar) -> Scalar:
            row = scalars.binary("add", scalars.convert(chosen, I32), scalars.const(1, I32))
            return scalars.select(scalars.compare("eq", scalars.position(1), position), row, before)

        def first(scalars: Scalars, before: Scalar, pivot: Scalar) -> Scalar:
            none = scalars.compare("eq", pivot, scalars.const(0.0, pivot.dtype))
            new = scalars.binary("and", none, scalars.compare("eq", before, scalars.const(0, I32)))
            return scalars.select(
                new, scalars.binary("add", scalars.convert(position, I32), scalars.const(1, I32)), before
            )

        updated = ew.apply(builder, element, a, column, top, row, chosen, corner, pivot)
        one = reshape(builder, chosen, (batch, 1))
        return [
            updated,
            ew.apply(builder, noted, pivots, one),
            ew.apply(builder, first, failed, reshape(builder, pivot, (batch,))),
        ]

    numbers = [full(builder, 0, (batch, count), I32), full(builder, 0, (batch,), I32)]
    factors, pivots, failed = _loop(builder, count, step, [a, *numbers])
    lead = x.shape[:-2]
    return reshape(builder, factors, x.shape), reshape(builder, pivots, (*lead, count)), reshape(builder, failed, lead)


def qr(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the packed QR factors of x [..., m, n], and the factors of the reflections.

    R is on and above the diagonal; below it are the vectors v of the reflections without their leading 1. A reflection
    is 1 - factor v adjoint(v).
    """
    a = _matrices(builder, "QR", x)
    batch, m, n = a.shape
    count = minimum(m, n)

    def step(j: Size, position: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        a, factors = tensors
        column, alpha = slice_axis(builder, a, 2, j, j + 1), _element(builder, a, j)

        def square(scalars: Scalars, value: Scalar) -> Scalar:
            size = scalars.unary("abs", value)
            below = scalars.compare("gt", scalars.position(1), position)
            return scalars.select(below, scalars.binary("mul", size, size), scalars.const(0.0, size.dtype))

        rest = reduce(builder, "add", ew.apply(builder, square, column), [1], keep=True)

        def reflection(scalars: Scalars, alpha: Scalar, rest: Scalar) -> list[Scalar]:
            """Return the new element of the diagonal, the factor, and the divisor of the vector."""
            size, zero = scalars.unary("abs", alpha), scalars.const(0.0, rest.dtype)
            length = scalars.unary("sqrt", scalars.binary("add", scalars.binary("mul", size, size), rest))
            none = scalars.binary(
                "and", scalars.compare("eq", rest, zero), scalars.compare("eq", scalars.imag(alpha), zero)
            )
            beta = scalars.unary("neg", scalars.binary("copysign", length, scalars.real(alpha)))
            whole = scalars.convert(beta, alpha.dtype)
            factor = scalars.binary("div", scalars.binary("sub", whole, alpha), whole)
            divisor = scalars.binary("sub", alpha, whole)
            kept, one = scalars.const(0.0, alpha.dtype), scalars.const(1.0, alpha.dtype)
            return [
                scalars.select(none, alpha, whole),
                scalars.select(none, kept, factor),
                scalars.select(none, one, divisor),
            ]

        beta, factor, divisor = ew.apply_several(builder, reflection, alpha, rest)

        def divided(scalars: Scalars, value: Scalar, by: Scalar) -> Scalar:
            return _leading(scalars, position, scalars.binary("div", value, by))

        vector = ew.apply(builder, divided, column, divisor)
        reflected = _reflected(builder, a, vector, ew.apply(builder, lambda s, f: s.conj(f), factor))

        def element(scalars: Scalars, value: Scalar, new: Scalar, v: Scalar, beta: Scalar) -> Scalar:
            i, k = scalars.position(1), scalars.position(2)
            here = scalars.select(
                scalars.compare("gt", i, position), v, scalars.select(scalars.compare("eq", i, position), beta, value)
            )
            return scalars.select(
                scalars.compare("gt", k, position), new, scalars.select(scalars.compare("eq", k, position), here, value)
            )

        def noted(scalars: Scalars, before: Scalar, factor: Scalar) -> Scalar:
            return scalars.select(scalars.compare("eq", scalars.position(1), position), factor, before)

        updated = ew.apply(builder, element, a, reflected, vector, beta)
        return [updated, ew.apply(builder, noted, factors, reshape(builder, factor, (batch, 1)))]

    factored, factors = _loop(builder, count, step, [a, full(builder, 0.0, (batch, count), x.dtype)])
    return reshape(builder, factored, x.shape), reshape(builder, factors, (*x.shape[:-2], count))


def of_reflections(builder: Builder, x: Tensor, factors: Tensor) -> Tensor:
    """Return the first n columns of the product of reflections, in the format of `qr`. x is [..., m, n], factors [...,
    k].
    """
    a = _matrices(builder, "reflections", x)
    count = factors.shape[-1]
    factor_rows = reshape(builder, factors, (a.shape[0], 1, count))

    def one(scalars: Scalars, _: Scalar) -> Scalar:
        same = scalars.compare("eq", scalars.position(1), scalars.position(2))
        return scalars.select(same, scalars.const(1.0, x.dtype), scalars.const(0.0, x.dtype))

    def step(index: Size, _: Scalar, tensors: list[Tensor]) -> list[Tensor]:
        j = count - 1 - index
        position = _position(builder, j)
        column = slice_axis(builder, a, 2, j, j + 1)
        vector = ew.apply(builder, lambda s, value: _leading(s, position, value), column)
        return [_reflected(builder, tensors[0], vector, slice_axis(builder, factor_rows, 2, j, j + 1))]

    return reshape(builder, _loop(builder, count, step, [ew.apply(builder, one, a)])[0], x.shape)


def _matrices(builder: Builder, what: str, x: Tensor) -> Tensor:
    """Flatten the batch axes of matrices [..., m, n] to [batch, m, n]. Raise CompileError for other operands; `what`
    names the result.
    """
    if x.rank < 2 or not (x.dtype.is_float or x.dtype.is_complex):
        raise builder.fail(f"{what} of {x}: expected matrices of floats or complex numbers")
    return reshape(builder, x, [product(x.shape[:-2]), *x.shape[-2:]])


def _element(builder: Builder, x: Tensor, j: Size) -> Tensor:
    """Return the diagonal element x[:, j, j] as [batch, 1, 1]."""
    return slice_(builder, x, (0, j, j), (x.shape[0], j + 1, j + 1))


def _leading(scalars: Scalars, position: Scalar, value: Scalar) -> Scalar:
    """Return an element of a reflection's vector: 0 before `position`, 1 at it, `value` after it."""
    before = scalars.select(
        scalars.compare("eq", scalars.position(1), position),
        scalars.const(1.0, value.dtype),
        scalars.const(0.0, value.dtype),
    )
    return scalars.select(scalars.compare("gt", scalars.position(1), position), value, before)


def _reflected(builder: Builder, a: Tensor, vector: Tensor, factor: Tensor) -> Tensor:
    """Return (1 - factor v adjoint(v)) a, with v [batch, m, 1] and factor [batch, 1, 1]."""
    products = ew.apply(builder, lambda s, value, v: s.binary("mul", s.conj(v), value), a, vector)
    projection = reduce(builder, "add", products, [1], keep=True)

    def element(scalars: Scalars, value: Scalar, v: Scalar, length: Scalar, factor: Scalar) -> Scalar:
        return scalars.binary("sub", value, scalars.binary("mul", scalars.binary("mul", factor, v), length))

    return ew.apply(builder, element, a, vector, projection, factor)


def _position(builder: Builder, j: Size) -> Scalar:
    """Return an index as an i64 element that bodies of operations can use."""
    return Scalar(I64, (builder.add(arith.IndexCastOp(builder.index(j), I64.element)).result,))


def _loop(
    builder: Builder, count: Size, step: Callable[[Size, Scalar, list[Tensor]], list[Tensor]], tensors: list[Tensor]
) -> list[Tensor]:
    """Return the tensors after step(j, j as an element, tensors) for each j < count."""
    return (
        tensors if count == 0 else for_(builder, count, tensors, lambda j, state: step(j, _position(builder, j), state))
    )
