"""Choices and loops whose course calls decide, over tensors that are carried along."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, builtin, scf, tensor
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64, DType
from pydispatch.frontends.graph.sizes import Shape, Size, symbol
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops import indexing, shapes

Carried = Sequence[Tensor]
Body = Callable[[list[Tensor]], Carried]
_ANY = symbol("?")

Form = tuple[DType, tuple[Size | None, ...]]
"""The type of a tensor that is carried; None is a size that is not the same everywhere."""


def choose(b: Builder, condition: Tensor, yes: Callable[[], Carried], no: Callable[[], Carried]) -> list[Tensor]:
    """What one of two functions gives, each written into a branch. condition: one truth value."""
    forms = [_joined(b, f, g) for f, g in zip(_tried(b, yes), _tried(b, no), strict=True)]
    flag = shapes.element(b, condition)
    op = b.add(scf.IfOp(flag, _types(forms), Region(_branch(b, yes, forms)), Region(_branch(b, no, forms))))
    return _received(b, op.results, forms)


def repeat(b: Builder, start: Carried, goes_on: Callable[[list[Tensor]], Tensor], body: Body) -> list[Tensor]:
    """The tensors after a loop that runs while `goes_on` gives true. Sizes may change on the way."""
    forms = _settled(b, start, body)
    types = _types(forms)
    before, after = Block(arg_types=types), Block(arg_types=types)
    with b.inside(before):
        given = _received(b, before.args, forms)
        flag = shapes.element(b, goes_on(given))
        b.add(scf.ConditionOp(flag, *before.args))
    with b.inside(after):
        b.add(scf.YieldOp(*_sent(b, body(_received(b, after.args, forms)), forms)))
    op = b.add(scf.WhileOp(_sent(b, start, forms), types, Region(before), Region(after)))
    return _received(b, op.results, forms)


def count_to(b: Builder, count: Size, start: Carried, body: Callable[[Size, list[Tensor]], Carried]) -> list[Tensor]:
    """The tensors after `count` runs of a body, which gets the number of the run and the tensors."""
    trial = b.size_of(b.index(1), "i") - 1
    forms = _settled(b, start, lambda tensors: body(trial, tensors))
    block = Block(arg_types=[builtin.IndexType(), *_types(forms)])
    with b.inside(block):
        # A symbol is taken to be at least 1, and this is a number from 0.
        number = b.size_of(b.add(arith.AddiOp(block.args[0], b.index(1))).result, "i") - 1
        b.add(scf.YieldOp(*_sent(b, body(number, _received(b, block.args[1:], forms)), forms)))
    op = b.add(scf.ForOp(b.index(0), b.index(count), b.index(1), _sent(b, start, forms), Region(block)))
    return _received(b, op.results, forms)


def stacked(
    b: Builder, count: Size, start: Carried, rows: Sequence[tuple[DType, Shape]],
    body: Callable[[Size, list[Tensor]], tuple[Carried, Carried]],
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """`count_to` for a body that gives rows too, of these types and shapes: (tensors, rows of all runs, stacked)."""
    buffers = [rows_for(b, count, dtype, shape) for dtype, shape in rows]

    def with_rows(number: Size, tensors: list[Tensor]) -> list[Tensor]:
        made, new = body(number, tensors[: len(start)])
        return [*made, *(with_row(b, t, number, row) for t, row in zip(tensors[len(start) :], new, strict=True))]

    found = count_to(b, count, [*start, *buffers], with_rows)
    return found[: len(start)], found[len(start) :]


def rows_of(b: Builder, start: Carried, rows: Callable[[list[Tensor]], Carried]) -> list[tuple[DType, Shape]]:
    """The types and shapes of rows that a body gives, found out in a block that is thrown away."""
    with b.inside(Block()):
        return [(t.dtype, t.shape) for t in rows(list(start))]


def rows_for(b: Builder, count: Size, dtype: DType, shape: Shape) -> Tensor:
    """Room for as many rows."""
    size = (count, *shape)
    return b.wrap(dtype, size, *(b.empty(dtype.element, size) for _ in range(2 if dtype.is_complex else 1)))


def with_row(b: Builder, x: Tensor, number: Size, row: Tensor) -> Tensor:
    """x with a row in the place of that of a number, which must be in bounds."""
    made = b.as_shape(shapes.expand_dims(b, row, [0]), (1, *x.shape[1:]))
    return indexing.insert_slice(b, x, made, [number, *[0] * row.rank])


def number_of(b: Builder, size: Size) -> Tensor:
    """A size as a tensor of rank 0."""
    value = b.add(arith.IndexCastOp(b.index(size), I64.element)).result
    return b.wrap(I64, (), b.add(tensor.FromElementsOp(value, result_type=tensor_type(I64.element, ()))).result)


# -- forms


def _tried(b: Builder, made: Callable[[], Carried]) -> list[Form]:
    """The types of what a function gives, found out in a block that is thrown away."""
    with b.inside(Block()):
        return [(t.dtype, t.shape) for t in made()]


def _joined(b: Builder, f: Form, g: Form) -> Form:
    if f[0] != g[0] or len(f[1]) != len(g[1]):
        raise b.fail(f"a value is {f[0]}{list(f[1])} on one way and {g[0]}{list(g[1])} on the other")
    return f[0], tuple(n if n == m else None for n, m in zip(f[1], g[1], strict=True))


def _settled(b: Builder, start: Carried, body: Body) -> list[Form]:
    """Types that hold before the first run and after every one."""
    forms: list[Form] = [(t.dtype, t.shape) for t in start]
    for _ in range(1 + sum(len(shape) for _, shape in forms)):
        block = Block(arg_types=_types(forms))
        with b.inside(block):
            given = _received(b, block.args, forms)
            own = [{n for n, kept in zip(t.shape, form[1], strict=True) if kept is None}
                   for t, form in zip(given, forms, strict=True)]  # fmt: skip
            made = body(given)
            if len(made) != len(forms):
                raise b.fail(f"{len(forms)} values are carried along, {len(made)} come out of a run")
            new = [_joined(b, form, (t.dtype, tuple(None if n in mine else n for n in t.shape)))
                   for form, t, mine in zip(forms, made, own, strict=True)]  # fmt: skip
        if new == forms:
            return forms
        forms = new
    return forms


def _types(forms: Sequence[Form]) -> list[Attribute]:
    return [tensor_type(dtype.element, [_ANY if n is None else n for n in shape])
            for dtype, shape in forms for _ in range(2 if dtype.is_complex else 1)]  # fmt: skip


def _received(b: Builder, values: Sequence[SSAValue], forms: Sequence[Form]) -> list[Tensor]:
    given = iter(values)
    found = []
    for dtype, shape in forms:
        parts = [next(given) for _ in range(2 if dtype.is_complex else 1)]
        sizes = [b.size_of(b.add(tensor.DimOp(parts[0], b.index(d))).result) if n is None else n
                 for d, n in enumerate(shape)]  # fmt: skip
        found.append(b.wrap(dtype, sizes, *parts))
    return found


def _sent(b: Builder, tensors: Carried, forms: Sequence[Form]) -> list[SSAValue]:
    values: list[SSAValue] = []
    for t, (dtype, shape) in zip(tensors, forms, strict=True):
        target = tensor_type(dtype.element, [_ANY if n is None else n for n in shape])
        for part in b.parts(t):
            values.append(part if part.type == target else b.add(tensor.CastOp(part, target)).dest)
    return values


def _branch(b: Builder, made: Callable[[], Carried], forms: Sequence[Form]) -> Block:
    block = Block()
    with b.inside(block):
        b.add(scf.YieldOp(*_sent(b, made(), forms)))
    return block
