"""Branches and loops. Their bodies are Python functions that emit operations and return tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import builtin, scf, tensor
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr, Shape, Size, symbol, symbols_of
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.operations.indexing import insert_slice
from pydispatch.operations.shapes import element, expand_dims

Tensors = Sequence[Tensor]
"""Tensors that a region yields or a loop carries."""
Branch = Callable[[], Tensors]
"""Function that emits a branch, and returns its results."""
Row = tuple[DType, Shape]
"""Element type and shape of the tensor that each iteration of a `scan` yields."""

Form = tuple[DType, tuple[Size | None, ...]]
"""Type of a tensor that a region yields; None is a size that differs between runs of the region."""


# -- branches


def if_(
    builder: Builder, condition: Tensor, then: Branch, otherwise: Branch, remedy: str | None = None
) -> list[Tensor]:
    """Add a branch on a condition, and return its results.

    A constant condition selects a branch at compile time. The branches must return tensors of equal dtypes and ranks.
    A size that differs between them is dynamic in the result: results [2, 3] and [4, 3] give [n, 3].

    Args:
        builder: The builder.
        condition: A single bool.
        then: Emits the branch for true, and returns its results.
        otherwise: Emits the branch for false, and returns its results.
        remedy: What the user can do if the types differ, for the error; None for no advice.
    """
    if condition.numbers is not None:
        return list(then() if condition.numbers.reshape(-1)[0] else otherwise())
    chosen = _truth(builder, condition)
    (on_true, on_false), forms = _branches(builder, [then, otherwise], remedy)
    return _wrap_values(builder, builder.add(scf.IfOp(chosen, _types(forms), on_true, on_false)).results, forms)


def _truth(builder: Builder, condition: Tensor) -> SSAValue:
    """Return a condition as an SSA value of type i1. Raise CompileError if it is not of type bool, or has a static size
    other than 1; dynamic sizes are assumed to be 1.
    """
    if not condition.dtype.is_bool or any(n != 1 for n in condition.shape if not isinstance(n, Expr)):
        raise builder.fail(f"a condition is {condition}; expected one truth value")
    return element(builder, condition)


def switch(builder: Builder, index: Tensor, branches: Sequence[Branch]) -> list[Tensor]:
    """Add a branch on an integer, and return the results of branches[index].

    An index outside of the list, negative ones included, selects the last branch.
    """
    # An integer that is not computed from sizes selects a branch at compile time.
    known = index.known_integers()
    if known is not None and not isinstance(known[0], Expr):
        branch_index = known[0] if 0 <= known[0] < len(branches) else len(branches) - 1
        return list(branches[branch_index]())
    if len(branches) == 1:
        return list(branches[0]())
    chosen = builder.scalar(index)
    (*cases, default), forms = _branches(builder, branches)
    numbers = DenseArrayBase.from_list(builtin.i64, range(len(cases)))  # the index that selects each case
    return _wrap_values(
        builder, builder.add(scf.IndexSwitchOp(chosen, numbers, default, cases, _types(forms))).results, forms
    )


def _branches(
    builder: Builder, branches: Sequence[Branch], remedy: str | None = None
) -> tuple[list[Region], list[Form]]:
    """Emit branches into regions, and return the regions and the common type of each result.

    A type is (dtype, shape). A size is None (dynamic) in the common type if the branches differ in it, or if it is
    computed in a branch: results [2, 3] and [4, 3] have the common shape (None, 3). Raise CompileError if the branches
    return other numbers of tensors, dtypes or ranks; `remedy` is then what the user can do, or None.
    """
    # Emit the branches.
    outside = builder.symbols  # symbols of sizes that are known before the branches
    blocks: list[Block] = []
    results: list[list[Tensor]] = []
    for branch in branches:
        blocks.append(Block())
        with builder.inside(blocks[-1]):
            results.append(list(branch()))
    # Determine the common types.
    forms: list[Form] = [(x.dtype, tuple(n if symbols_of(n) <= outside else None for n in x.shape)) for x in results[0]]
    for other in results[1:]:
        if not _have_equal_types_and_ranks(results[0], other):
            shown = [", ".join(map(str, tensors)) for tensors in (results[0], other)]
            raise builder.fail(f"the branches give different tensors: {shown[0]} and {shown[1]}", remedy)
        forms = _joined(forms, other)
    # Yield the results, converted to these types.
    for block, tensors in zip(blocks, results, strict=True):
        with builder.inside(block):
            block.add_op(scf.YieldOp(*_unwrap_tensors(builder, tensors, forms)))
    return [Region(block) for block in blocks], forms


# -- loops


def while_(
    builder: Builder,
    first: Tensors,
    condition: Callable[[list[Tensor]], Tensor],
    body: Callable[[list[Tensor]], Tensors],
    *,
    shapes_vary: bool = False,
) -> list[Tensor]:
    """Add a loop whose body replaces tensors as long as a condition on them holds, and return the final tensors.

    Args:
        builder: The builder.
        first: The tensors before the first iteration.
        condition: Emits the condition for given tensors: a single bool.
        body: Emits an iteration: returns the new tensors for given ones. dtypes and ranks must not change.
        shapes_vary: Whether an iteration may change sizes; otherwise all shapes are those of `first`.
    """
    # The regions of scf.while: `before` has the condition, `after` the body. forms: dtype and shape of each tensor
    # before and after each iteration. A while loop has no index (`lead`).
    after, forms = _iteration(builder, first, lead=[], body=lambda _, tensors: body(tensors), shapes_vary=shapes_vary)
    before = Block(arg_types=_types(forms))
    with builder.inside(before):
        holds = _truth(builder, condition(_wrap_values(builder, before.args, forms)))
        before.add_op(scf.ConditionOp(holds, *before.args))
    op = builder.add(scf.WhileOp(_unwrap_tensors(builder, first, forms), _types(forms), Region(before), Region(after)))
    return _wrap_values(builder, op.results, forms)


def for_(
    builder: Builder, count: Size, first: Tensors, body: Callable[[Size, list[Tensor]], Tensors], *,
    shapes_vary: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Add a loop whose body replaces tensors `count` times, and return the final tensors.

    If `count` is the int 0, the body is not emitted: it may read rows that do not exist.

    Args:
        builder: The builder.
        count: Number of iterations.
        first: The tensors before the first iteration.
        body: Emits an iteration: body(index of the iteration, from 0; tensors) returns the new tensors, of equal dtypes
            and ranks.
        shapes_vary: Whether an iteration may change sizes; otherwise all shapes are those of `first`.
    """
    if count == 0:
        return list(first)

    def iteration(lead: Sequence[SSAValue], tensors: list[Tensor]) -> Tensors:
        """Emit the body of one iteration; `lead` is a list of one value, the loop index."""
        return body(builder.size_of(lead[0], "i"), tensors)

    # forms: the types that the tensors have before and after each iteration.
    block, forms = _iteration(builder, first, lead=[builtin.IndexType()], body=iteration, shapes_vary=shapes_vary)
    op = builder.add(
        scf.ForOp(
            builder.index(0),
            builder.index(count),
            builder.index(1),
            _unwrap_tensors(builder, first, forms),
            Region(block),
        )
    )
    return _wrap_values(builder, op.results, forms)


def scan(
    builder: Builder, count: Size, first: Tensors, body: Callable[[Size, list[Tensor]], tuple[Tensors, Tensors]], *,
    rows: Sequence[Row] | None = None, backwards: bool = False, shapes_vary: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """Add a loop whose body replaces tensors `count` times, and also returns rows.

    Return the final tensors, and the rows stacked along axis 0. For a body that returns the tensor plus the row index,
    and this sum as a row, the count 3 and the tensor 5 give 8 and the rows [5, 6, 8].

    Args:
        builder: The builder.
        count: Number of iterations, which is the number of rows.
        first: The tensors before the first iteration.
        body: Emits an iteration: body(row index, tensors) returns the new tensors, and the rows at this index.
        rows: The types of the rows if the caller knows them; otherwise the body is emitted once more to determine them.
        backwards: Whether the loop goes from the last row to the first.
        shapes_vary: Whether an iteration may change the sizes of the tensors; otherwise they are those of `first`.
    """
    if rows is None:
        rows = rows_of(builder, lambda: body(0, list(first))[1])
    buffers = [rows_buffer(builder, count, row) for row in rows]

    def iteration(index: Size, tensors: list[Tensor]) -> Tensors:
        """Emit the body for one row index, and store the rows that it returns in the buffers.

        tensors: those that the body replaces, then the buffers.
        """
        row_index = count - 1 - index if backwards else index
        carried, new = body(row_index, tensors[: len(first)])
        return [
            *carried,
            *(with_row(builder, x, row_index, row) for x, row in zip(tensors[len(first) :], new, strict=True)),
        ]

    results = for_(builder, count, [*first, *buffers], iteration, shapes_vary=shapes_vary)
    return results[: len(first)], results[len(first) :]


def rows_of(builder: Builder, rows: Branch) -> list[Row]:
    """Return the types of the rows, the tensors that each iteration of a `scan` returns to be stacked.

    `rows` is called once to emit them into a discarded block. Raise CompileError if a size of a row is computed in the
    iteration: the buffer of all rows is allocated before the loop.
    """
    outside = builder.symbols
    with builder.inside(Block()):
        tensors = list(rows())
    for x in tensors:
        if not all(symbols_of(n) <= outside for n in x.shape):
            raise builder.fail(f"the rows {x} of a loop are stacked, and their sizes are known only when it runs")
    return [(x.dtype, x.shape) for x in tensors]


def rows_buffer(builder: Builder, count: Size, row: Row) -> Tensor:
    """Return a tensor [count, *shape of a row] with undefined elements, in which a loop of `count` iterations stores
    the row that each iteration returns.
    """
    dtype, shape = row
    size = (count, *shape)
    return builder.wrap(dtype, size, *(builder.empty(dtype.element, size) for _ in range(_part_count(dtype))))


def with_row(builder: Builder, x: Tensor, index: Size, row: Tensor) -> Tensor:
    """Return x with x[index] replaced by `row`; the index must be in bounds."""
    new_row = builder.as_shape(expand_dims(builder, row, axes=[0]), (1, *x.shape[1:]))
    return insert_slice(builder, x, new_row, [index, *[0] * row.rank])


def _iteration(
    builder: Builder, first: Tensors, lead: Sequence[Attribute],
    body: Callable[[Sequence[SSAValue], list[Tensor]], Tensors], shapes_vary: bool,
) -> tuple[Block, list[Form]]:  # fmt: skip
    """Emit an iteration into a block, and return it with the types that hold before and after each iteration.

    A type is (dtype, shape). Sizes that an iteration changes become None (dynamic), and the iteration is emitted again
    until no further size changes.

    Args:
        builder: The builder.
        first: The tensors before the first iteration.
        lead: Types of the arguments of the block before the tensors: that of the loop index in a counted loop, else
            none.
        body: Emits the iteration: body(values of `lead`, tensors) -> tensors after the iteration.
        shapes_vary: Whether an iteration may change sizes.
    """
    forms: list[Form] = [(x.dtype, x.shape) for x in first]
    while True:  # each further turn makes at least one size dynamic, and discards the block
        block = Block(arg_types=[*lead, *_types(forms)])
        with builder.inside(block):
            results = list(body(block.args[: len(lead)], _wrap_values(builder, block.args[len(lead) :], forms)))
            _require_equal_types_and_ranks(builder, first, results)
            if not shapes_vary:
                results = [builder.as_shape(y, x.shape) for x, y in zip(first, results, strict=True)]
            joined = _joined(forms, results) if shapes_vary else forms
            if joined == forms:
                block.add_op(scf.YieldOp(*_unwrap_tensors(builder, results, forms)))
                return block, forms
        forms = joined


def _require_equal_types_and_ranks(builder: Builder, first: Tensors, results: Tensors) -> None:
    """Raise CompileError if an iteration returns other tensors than the loop begins with, but for their sizes."""
    if len(results) != len(first):
        raise builder.fail(f"a loop over {len(first)} value(s) gives {len(results)}")
    for x, y in zip(first, results, strict=True):
        if not _have_equal_types_and_ranks([x], [y]):
            raise builder.fail(f"a loop begins with {x}, and an iteration gives {y}")


# -- types of the results of regions


def _have_equal_types_and_ranks(these: Tensors, those: Tensors) -> bool:
    """Return whether two lists of tensors have the same dtypes and ranks."""
    return [(x.dtype, x.rank) for x in these] == [(y.dtype, y.rank) for y in those]


def _joined(forms: Sequence[Form], tensors: Tensors) -> list[Form]:
    """Return types that fit both `forms` and `tensors`, the results of another branch or of a loop's iteration.

    A type is (dtype, shape). A size in which the two differ becomes None, dynamic: [2, 3] and [2, 4] give [2, None].
    """
    joined: list[Form] = []
    for (dtype, shape), x in zip(forms, tensors, strict=True):
        sizes = zip(shape, x.shape, strict=True)
        joined.append((dtype, tuple(n if n is not None and n == m else None for n, m in sizes)))
    return joined


def _part_count(dtype: DType) -> int:
    """Return the number of SSA values of an element: 2 for complex types, else 1."""
    return 2 if dtype.is_complex else 1


def _type(form: Form) -> Attribute:
    """Return the MLIR type of one part of a tensor: all of it, or the real or imaginary part of a complex one."""
    dtype, shape = form
    return tensor_type(dtype.element, [symbol("?") if n is None else n for n in shape])


def _types(forms: Sequence[Form]) -> list[Attribute]:
    """Return the MLIR types of all parts of tensors, two for each complex one."""
    return [_type(form) for form in forms for _ in range(_part_count(form[0]))]


def _wrap_values(builder: Builder, values: Sequence[SSAValue], forms: Sequence[Form]) -> list[Tensor]:
    """Wrap SSA values, one for each tensor or two for a complex one, as tensors.

    `forms` has the type and shape of each tensor; a size of None is dynamic, and is read from the value at run time.
    """
    remaining = iter(values)
    tensors = []
    for dtype, shape in forms:
        parts = [next(remaining) for _ in range(_part_count(dtype))]
        sizes = [size_at(builder, parts[0], d) if n is None else n for d, n in enumerate(shape)]
        tensors.append(builder.wrap(dtype, sizes, *parts))
    return tensors


def _unwrap_tensors(builder: Builder, tensors: Tensors, forms: Sequence[Form]) -> list[SSAValue]:
    """Return the SSA values of tensors, two for a complex one, cast to the types in `forms`, one for each tensor."""
    return [
        cast_to(builder, part, _type(form)) for x, form in zip(tensors, forms, strict=True) for part in builder.parts(x)
    ]


def size_at(builder: Builder, value: SSAValue, axis: int) -> Size:
    """Return the size of a tensor value along an axis, read at run time."""
    return builder.size_of(builder.add(tensor.DimOp(value, builder.index(axis))).result)


def cast_to(builder: Builder, value: SSAValue, type: Attribute) -> SSAValue:
    """Cast a tensor value to a type with more or fewer static sizes."""
    return value if value.type == type else builder.add(tensor.CastOp(value, type)).dest  # type: ignore[arg-type]
