"""Windows that move over all axes of a tensor: reductions of each, and the gradients of those that select."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, tensor
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, I64, DType
from pydispatch.frontends.graph.sizes import Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.indexing import Places
from pydispatch.frontends.ops.products import Window, window_sizes
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.reductions import Combine, least
from pydispatch.frontends.ops.scalars import Scalars, scalars_of
from pydispatch.frontends.ops.shapes import pad, scalar_parts

Select = Callable[[Scalars, Scalar, Scalar], Scalar]
"""select(s, chosen so far, element) -> whether the former stays."""


def reduce_windows(
    b: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], kernel: Sequence[Size], window: Window,
    combine: Combine, input_dilations: Sequence[int] | None = None, *, around: Sequence[Tensor | complex] | None = None,
    out: Shape | None = None, moving: Sequence[int] | None = None,
) -> list[Tensor]:  # fmt: skip
    """Each window over all axes of tensors of one shape, reduced together.

    starts: the first running values, rank 0, one for each result; their dtypes are those of the results. around: for
    each tensor what lies beyond it, without it `starts`. input_dilations: elements are that far apart, with `around`
    between them. out: how many windows there are along each axis, where padding does not say; the last one may reach
    beyond it. moving: the axes along which windows are larger than 1, without it those where `kernel` says so; loop d
    of `combine` counts windows along axis d, loop rank + n the elements of a window along axis moving[n].
    """
    rank = tensors[0].rank
    interior = [n - 1 for n in input_dilations] if input_dilations else None
    high = window.high
    if out is not None:  # as much as the last window reaches beyond, which may be less than nothing
        reach = [(k - 1) * step + 1 for k, step in zip(kernel, window.dilations, strict=True)]
        high = tuple((out[d] - 1) * window.strides[d] + reach[d] - window.low[d] - tensors[0].shape[d]
                     for d in range(rank))  # fmt: skip
    beyond = starts if around is None else around
    padded = [pad(b, x, window.low, high, value, interior) for x, value in zip(tensors, beyond, strict=True)]
    if out is None:
        inside = Window(window.strides, (0,) * rank, (0,) * rank, window.dilations)
        out = window_sizes(b, padded[0].shape, kernel, inside)
    if moving is None:
        moving = [d for d in range(rank) if kernel[d] != 1]
    loops = rank + len(moving)
    place = {d: AffineExpr.dimension(rank + n) for n, d in enumerate(moving)}
    source = tuple(
        AffineExpr.dimension(d) * window.strides[d] + (place[d] * window.dilations[d] if d in place else 0)
        for d in range(rank)
    )
    inputs = [(part, AffineMap(loops, 0, source)) for x in padded for part in b.parts(x)]
    sizes = b.empty(tensors[0].dtype.element, [kernel[d] for d in moving])  # says how large windows are
    inputs.append((sizes, AffineMap(loops, 0, tuple(place[d] for d in moving))))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    outputs = [(b.splat(value, out), to_result) for t in starts for value in scalar_parts(b, t)]
    dtypes = [x.dtype for x in tensors]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        count = len(inputs) - 1
        elements = scalars_of(dtypes, args[:count])
        running = scalars_of([t.dtype for t in starts], args[count + 1 :])
        return [part for r in combine(Scalars(block), running, elements) for part in r.parts]

    values = iter(b.generic(inputs, outputs, [n < rank for n in range(loops)], body))
    return [b.wrap(t.dtype, out, *(next(values) for _ in range(2 if t.dtype.is_complex else 1))) for t in starts]


def reduce_image_windows(
    b: Builder, x: Tensor, starts: Sequence[tuple[float, DType]], kernel: Sequence[Size], window: Window, out: Shape,
    combine: Combine, around: complex,
) -> list[Tensor]:  # fmt: skip
    """`reduce_windows` over the spatial axes of x [n, c, ...] -> [n, c, *out] for each of `starts`.

    kernel, window, out: for the spatial axes. starts: numbers with the dtypes of the results. Loop 2 + d of `combine`
    counts windows along spatial axis d, loop 2 + len(out) + d the elements of a window.
    """
    whole = Window((1, 1, *window.strides), (0, 0, *window.low), (0, 0, *window.high), (1, 1, *window.dilations))
    return reduce_windows(
        b, [x], [b.constant(number, dtype) for number, dtype in starts], (1, 1, *kernel), whole, combine,
        around=[around], out=(*x.shape[:2], *out), moving=range(2, x.rank),
    )  # fmt: skip


def pool(b: Builder, name: str, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape) -> Tensor:
    """The "add" or "max" of the elements in each window over the spatial axes of x [n, c, ...]."""
    start = least(x.dtype) if name == "max" else 0

    def combine(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        return [s.binary(name, running[0], elements[0])]

    return reduce_image_windows(b, x, [(start, x.dtype)], kernel, window, out, combine, start)[0]


def select_and_scatter(
    b: Builder, x: Tensor, source: Tensor, start: Tensor, kernel: Sequence[Size], window: Window, select: Select,
    combine: Callable[[Scalars, Scalar, Scalar], Scalar],
) -> Tensor:  # fmt: skip
    """For each window over x an element of `source` combined into the place that `select` chooses in that window.

    start: what every place begins with. Places are computed from both sides: which one each window chooses, then for
    each place the windows that chose it.
    """
    chosen = _chosen_places(b, x, source.shape, kernel, window, select)
    rank = x.rank
    sizes = b.empty(x.dtype.element, kernel)
    loops = 2 * rank
    inside = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    shape = tuple(b.index(n) for n in x.shape)
    windows = [b.index(n) for n in source.shape]
    lows = [b.index(n) for n in window.low]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        p = Places(block, [])
        running = Scalar(x.dtype, tuple(args[1:]))
        at, valid = [], _true(p)
        for d in range(rank):
            place = p.minus(p.plus(p.index(d), lows[d]), p.index(rank + d))
            step = p.number(window.strides[d])
            number = p.add_op(arith.DivSIOp(place, step))
            exact = p.add_op(arith.CmpiOp(p.times(number, step), place, "eq"))
            inside_ = p.add_op(arith.AndIOp(p.add_op(arith.CmpiOp(place, p.number(0), "sge")),
                                            p.add_op(arith.CmpiOp(number, windows[d], "slt"))))  # fmt: skip
            valid = p.add_op(arith.AndIOp(valid, p.add_op(arith.AndIOp(exact, inside_))))
            at.append(p.clamped(number, p.minus(windows[d], p.number(1))))
        index = p.add_op(tensor.ExtractOp(b_chosen, at, I64.element))
        here = p.add_op(arith.IndexCastOp(_flat(p, [p.index(d) for d in range(rank)], shape), I64.element))
        taken = p.add_op(arith.AndIOp(valid, p.add_op(arith.CmpiOp(index, here, "eq"))))
        element = Scalar(x.dtype, tuple(p.add_op(tensor.ExtractOp(part, at, x.dtype.element)) for part in sources))
        return list(p.select(Scalar(BOOL, (taken,)), combine(p, running, element), running).parts)

    b_chosen, sources = b.value(chosen), b.parts(source)
    outputs = [(b.splat(value, x.shape), to_result) for value in scalar_parts(b, start)]
    made = b.generic([(sizes, inside)], outputs, [n < rank for n in range(loops)], body)
    return b.wrap(x.dtype, x.shape, *made)


def _chosen_places(b: Builder, x: Tensor, out: Shape, kernel: Sequence[Size], window: Window, select: Select) -> Tensor:
    """For each window the place in x, counted row by row, of the element that is chosen; -1 for an empty window."""
    rank = x.rank
    loops = 2 * rank
    sizes = b.empty(x.dtype.element, kernel)
    inside = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    shape = [b.index(n) for n in x.shape]
    lows = [b.index(n) for n in window.low]
    values = b.parts(x)

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        p = Places(block, [])
        best, number = Scalar(x.dtype, tuple(args[1:-1])), Scalar(I64, (args[-1],))
        at, valid, clamped = [], _true(p), []
        for d in range(rank):
            first = p.times(p.index(d), p.number(window.strides[d]))
            place = p.minus(p.plus(first, p.index(rank + d)), lows[d])
            inside_ = p.add_op(arith.AndIOp(p.add_op(arith.CmpiOp(place, p.number(0), "sge")),
                                            p.add_op(arith.CmpiOp(place, shape[d], "slt"))))  # fmt: skip
            valid = p.add_op(arith.AndIOp(valid, inside_))
            at.append(place)
            clamped.append(p.clamped(place, p.minus(shape[d], p.number(1))))
        element = Scalar(x.dtype, tuple(p.add_op(tensor.ExtractOp(part, clamped, x.dtype.element)) for part in values))
        here = Scalar(I64, (p.add_op(arith.IndexCastOp(_flat(p, at, shape), I64.element)),))
        first_ = p.compare("lt", number, p.const(0, I64))
        better = p.binary("or", first_, p.unary("not", select(p, best, element)))
        taken = p.binary("and", Scalar(BOOL, (valid,)), better)
        return [*p.select(taken, element, best).parts, p.select(taken, here, number).value]

    starts = [*(b.number(0, x.dtype) for _ in values), b.number(-1, I64)]
    outputs = [(b.splat(start, out), to_result) for start in starts]
    *_, made = b.generic([(sizes, inside)], outputs, [n < rank for n in range(loops)], body)
    return b.wrap(I64, out, made)


def _true(p: Places) -> SSAValue:
    return p.const(True, BOOL).value


def _flat(p: Places, at: Sequence[SSAValue], shape: Sequence[SSAValue]) -> SSAValue:
    """A place counted row by row."""
    total = p.number(0)
    for place, size in zip(at, shape, strict=True):
        total = p.plus(p.times(total, size), place)
    return total
