"""Sums of products: matrix products of any rank, einsum, convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr, Shape, differ
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.reductions import reduce
from pydispatch.operations.scalars import Scalars, scalars_of
from pydispatch.operations.shapes import expand_dims, rearranged, squeeze, transpose


def contract(
    builder: Builder, x: Tensor, y: Tensor, x_map: AffineMap, y_map: AffineMap, out_map: AffineMap, shape: Shape,
    parallel: Sequence[bool], dtype: DType,
) -> Tensor:  # fmt: skip
    """Return the contraction of x and y: out[out_map(i)] is the sum of x[x_map(i)] * y[y_map(i)] over all loop indices
    i.

    For a matrix product, the loops are (i, j, k), of which k is a sum, and the maps are (i, k), (k, j) and (i, j).

    Args:
        builder: The builder.
        x: The first operand.
        y: The second operand.
        x_map: Map from loop indices to the indices of x.
        y_map: Map from loop indices to the indices of y.
        out_map: Map from loop indices to the indices of the result.
        shape: Shape of the result.
        parallel: For each loop whether it is parallel; otherwise the loop is a sum.
        dtype: Type of the products, the sums and the result.
    """
    # The sums start with zeros: one tensor, or two for real and imaginary parts.
    zero = [builder.splat(builder.scalar_constant(0, dtype), shape) for _ in range(2 if dtype.is_complex else 1)]
    inputs = [(part, map) for t, map in ((x, x_map), (y, y_map)) for part in builder.parts(t)]

    def body(block: Block, args: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        """Add the product of an element of x and one of y, both converted to `dtype`, to the running sum."""
        s = Scalars(block)
        u, v, total = scalars_of([x.dtype, y.dtype, dtype], args)
        product = s.binary("mul", s.convert(u, dtype), s.convert(v, dtype))
        return s.binary("add", total, product).parts

    outputs = [(z, out_map) for z in zero]
    return builder.wrap(dtype, shape, *builder.generic(inputs, outputs, parallel=parallel, body=body))


def dot_general(
    builder: Builder, x: Tensor, y: Tensor, batch: Sequence[tuple[int, int]], contracted: Sequence[tuple[int, int]],
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return the sums of products over pairs of contracted axes.

    The result has the batch axes, then the remaining axes of x, then those of y. `batch` and `contracted` are pairs of
    an axis of x and an axis of y, of equal size. The default of `dtype`, in which the sums are computed, is the type of
    x.
    """
    for i, j in (*batch, *contracted):
        m, n = x.shape[i], y.shape[j]
        if not isinstance(m, Expr) and not isinstance(n, Expr) and m != n:
            raise builder.fail(f"product of {x} and {y}: axis {i} has size {m}, axis {j} has {n}")
    free_x = [d for d in range(x.rank) if d not in {i for i, _ in (*batch, *contracted)}]
    free_y = [d for d in range(y.rank) if d not in {j for _, j in (*batch, *contracted)}]

    # The loops count the axes of the result, which are batch axes, those of x alone and those of y alone, and then the
    # contracted axes. For a matrix product [m, k] by [k, n] they are m, n, k. For each loop its axis of x and of y:
    axes_of_loops: list[tuple[int | None, int | None]] = [
        *batch, *((d, None) for d in free_x), *((None, d) for d in free_y), *contracted,
    ]  # fmt: skip
    loop_of_x = {i: loop for loop, (i, _) in enumerate(axes_of_loops) if i is not None}
    loop_of_y = {j: loop for loop, (_, j) in enumerate(axes_of_loops) if j is not None}
    out = [x.shape[i] for i, _ in batch] + [x.shape[d] for d in free_x] + [y.shape[d] for d in free_y]
    loops = len(axes_of_loops)

    def map_of(order: Sequence[int]) -> AffineMap:
        """Return the map of an operand whose axis d is indexed by loop order[d]."""
        return AffineMap(loops, 0, tuple(AffineExpr.dimension(n) for n in order))

    return contract(
        builder,
        x,
        y,
        x_map=map_of([loop_of_x[d] for d in range(x.rank)]),
        y_map=map_of([loop_of_y[d] for d in range(y.rank)]),
        out_map=map_of(range(len(out))),
        shape=tuple(out),
        parallel=[n < len(out) for n in range(loops)],  # the contracted axes are last, and are sums
        dtype=dtype or x.dtype,
    )


def matmul(builder: Builder, x: Tensor, y: Tensor, dtype: DType | None = None) -> Tensor:
    """Return numpy.matmul(x, y): the last two axes are matrices, the axes before them broadcast; a vector x is a row, a
    vector y a column.
    """
    if not x.rank or not y.rank:
        raise builder.fail(f"matmul of {x} and {y}: both need at least one axis")
    is_row, is_column = x.rank == 1, y.rank == 1
    x = expand_dims(builder, x, axes=[0]) if is_row else x
    y = expand_dims(builder, y, axes=[1]) if is_column else y
    result = _matmul(builder, x, y, dtype)
    # The axes of size 1 that the vectors got are removed from the result.
    inserted = ([result.rank - 2] if is_row else []) + ([result.rank - 1] if is_column else [])
    return squeeze(builder, result, inserted) if inserted else result


def _matmul(builder: Builder, x: Tensor, y: Tensor, dtype: DType | None) -> Tensor:
    """Return the product of two operands of rank 2 or more: one contraction if y is a single matrix; otherwise batch
    axes broadcast.
    """
    if y.rank == 2:
        return dot_general(builder, x, y, batch=[], contracted=[(x.rank - 1, 0)], dtype=dtype)
    # The loops are the axes of the result, [*batch axes, rows, columns], and the sum.
    lead = ew.broadcast_shape(builder, x.shape[:-2], y.shape[:-2])
    shape = (*lead, x.shape[-2], y.shape[-1])
    k_loop = len(shape)  # the loop of the sum, after those of the result's axes
    row_loop, column_loop, loop_count = k_loop - 2, k_loop - 1, k_loop + 1
    if not isinstance(x.shape[-1], Expr) and not isinstance(y.shape[-2], Expr) and x.shape[-1] != y.shape[-2]:
        raise builder.fail(f"matmul of {x} and {y}: {x.shape[-1]} columns and {y.shape[-2]} rows")

    def map_of(t: Tensor, last: Sequence[int]) -> AffineMap:
        """Return the map of operand t. Its batch axes are broadcast to the first loops, those of the result's batch
        axes; `last` are the loops of its matrix axes.
        """
        first_loop = len(lead) - (t.rank - 2)  # loop of the first batch axis of t: batch axes are aligned from the last
        batch_exprs: list[AffineExpr] = []
        for loop, n in enumerate(t.shape[:-2], first_loop):
            is_repeated = n == 1 and lead[loop] != 1  # the only element along the axis is read in each iteration
            batch_exprs.append(AffineExpr.constant(0) if is_repeated else AffineExpr.dimension(loop))
        return AffineMap(loop_count, 0, (*batch_exprs, *(AffineExpr.dimension(n) for n in last)))

    out_map = AffineMap(loop_count, 0, tuple(AffineExpr.dimension(n) for n in range(k_loop)))
    return contract(
        builder,
        x,
        y,
        x_map=map_of(x, last=(row_loop, k_loop)),
        y_map=map_of(y, last=(k_loop, column_loop)),
        out_map=out_map,
        shape=shape,
        parallel=[True] * k_loop + [False],
        dtype=dtype or x.dtype,
    )


def einsum(builder: Builder, equation: str, *operands: Tensor) -> Tensor:
    """Return numpy.einsum, including "...". Operands are combined from left to right.

    Before each product, axes that neither a later operand nor the result has are summed.
    """
    inputs, result_letters = _parsed(builder, equation, operands)
    result, letters = operands[0], inputs[0]
    result, letters = _diagonal(builder, result, letters)
    for n, other in enumerate(operands[1:], 1):
        later = set(result_letters).union(*inputs[n + 1 :])  # letters that are needed after the product with `other`
        result, letters = _sum_unneeded(builder, result, letters, later | set(inputs[n]))
        y, other_letters = _diagonal(builder, other, inputs[n])
        y, other_letters = _sum_unneeded(builder, y, other_letters, later | set(letters))
        result, letters = _product(builder, result, letters, y, other_letters, later)
    result, letters = _sum_unneeded(builder, result, letters, set(result_letters))
    return transpose(builder, result, [letters.index(c) for c in result_letters])


def _parsed(builder: Builder, equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the axis names of each operand and of the result, such as [["i", "j"], ["j", "k"]], ["i", "k"].

    Axes in "..." are named by their distance from the last of these axes: ".2", ".1".
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise builder.fail(f"einsum '{equation}' has {len(terms)} operands, {len(operands)} are given")
    inputs = []
    for term, x in zip(terms, operands, strict=True):
        before, dots, after = term.partition("...")
        hidden = x.rank - len(before) - len(after)  # axes in "..."
        if (not dots and hidden) or hidden < 0 or not (before + after + "a").isalpha():  # "a": there may be no letter
            raise builder.fail(f"einsum '{equation}': '{term}' does not describe {x}")
        inputs.append([*before, *(f".{n}" for n in range(hidden, 0, -1)), *after])
    letters = [c for names in inputs for c in names]
    # All axes in "..." of the operands together, which broadcast from the last one, the outermost first.
    widest = sorted({c for c in letters if c[0] == "."}, key=lambda c: -int(c[1:]))
    if not arrow:  # NumPy's default: the axes in "...", then letters that occur once, in alphabetical order
        return inputs, [*widest, *sorted({c for c in letters if letters.count(c) == 1 and c[0] != "."})]
    before, dots, after = right.partition("...")
    names = [*before, *(widest if dots else []), *after]
    if len(set(names)) != len(names) or not set(names) <= set(letters):
        raise builder.fail(f"einsum '{equation}': the result '{right}' repeats a letter or has one that no operand has")
    return inputs, names


def _diagonal(builder: Builder, x: Tensor, letters: list[str]) -> tuple[Tensor, list[str]]:
    """Return x with one axis per distinct letter, and these letters. Repeated letters select a diagonal.

    Raise CompileError if axes with one letter have sizes that are known to differ; other sizes are compared in each
    call.
    """
    distinct = list(dict.fromkeys(letters))
    if len(distinct) == len(letters):
        return x, letters
    for axis, letter in enumerate(letters):
        first = letters.index(letter)
        if differ(x.shape[first], x.shape[axis]):
            raise builder.fail(
                f"einsum: the axes {first} and {axis} of {x} have the letter '{letter}', but the sizes "
                f"{x.shape[first]} and {x.shape[axis]}",
                "a diagonal needs axes of one size: slice the longer one",
            )
    # An axis for each letter; all axes of x with this letter are read at the index along it.
    shape = tuple(x.shape[letters.index(c)] for c in distinct)
    source = AffineMap(len(shape), 0, tuple(AffineExpr.dimension(distinct.index(c)) for c in letters))
    return rearranged(builder, x, shape, source), distinct


def _sum_unneeded(builder: Builder, x: Tensor, letters: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    """Sum x over the axes whose letters are not in `needed`. Return the sum and its letters."""
    summed_axes = [d for d, c in enumerate(letters) if c not in needed]
    if not summed_axes:
        return x, letters
    return reduce(builder, "add", x, summed_axes), [c for c in letters if c in needed]


def _product(
    builder: Builder, x: Tensor, xs: list[str], y: Tensor, ys: list[str], later: set[str]
) -> tuple[Tensor, list[str]]:
    """Return the product of x and y, whose axes have the letters xs and ys, and its letters.

    Common letters are contracted unless they are in `later`, the letters of the later operands and of the result.
    Example: x has the letters i, j and y has j, k. If j is not in `later`, the product is the matrix product with the
    letters i, k. If it is, j is a batch axis, and the product has the letters j, i, k.
    """
    both = [c for c in xs if c in ys]
    # Letters whose axis has size 1 in only one of the operands. NumPy broadcasts this axis; here it is removed, which
    # gives the same result: the letter then belongs to the other operand alone.
    ones = [c for c in both if (x.shape[xs.index(c)] == 1) != (y.shape[ys.index(c)] == 1)]
    for c in ones:
        if x.shape[xs.index(c)] == 1:
            x, xs = squeeze(builder, x, [xs.index(c)]), [n for n in xs if n != c]
        else:
            y, ys = squeeze(builder, y, [ys.index(c)]), [n for n in ys if n != c]
    # The other common letters are batch or contracted axes; the result has the batch axes first.
    both = [c for c in both if c not in ones]
    batch = [c for c in both if c in later]
    contracted = [c for c in both if c not in later]
    result = dot_general(
        builder, x, y, [(xs.index(c), ys.index(c)) for c in batch], [(xs.index(c), ys.index(c)) for c in contracted]
    )
    return result, [*batch, *(c for c in xs if c not in both), *(c for c in ys if c not in both)]
