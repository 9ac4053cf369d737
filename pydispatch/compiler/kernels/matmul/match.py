"""Recognition of contractions: generics that add up products of two factors, and the roles of their dimensions.

Dispatches are formed and named by `is_contraction`. `contraction_of` describes the contractions that have kernels of
their own. Both results are cached for each operation, see `pydispatch.ir.structured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured, as_structured

SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
"""The addition of a contraction and the multiplication that goes with it."""


FAR_ROWS = 7
"""What a dimension of rows is worth at most whose neighbours lie further apart in the result than another's: blocks of
so many neighbours are fast enough. Over 250 images of 32x32x3, blocks of images took 10 ms on Zen 5, of pixels 3.2."""


@dataclass(frozen=True)
class Linear:
    """A coordinate of an operand: sum of coefficient times dimension, plus a constant."""

    terms: tuple[tuple[int, int], ...]
    constant: int

    def of(self, dim: int) -> int:
        """Return the coefficient of a dimension."""
        return dict(self.terms).get(dim, 0)

    def is_identity(self, dim: int) -> bool:
        """Return whether the coordinate is a dimension itself, without a stride or an offset."""
        return self.terms == ((dim, 1),) and self.constant == 0


@dataclass(frozen=True)
class Factor:
    """Factor of the product: scalar code over inputs of the generic, all read at coordinates of a main input.

    coordinates: the coordinates of the main input. inputs: for each input, by its number, the coordinate of every
    dimension: its position in `coordinates`, or a constant as a Linear. direct: whether the factor is the main
    input's element itself.
    """

    value: SSAValue
    main: int
    coordinates: tuple[Linear, ...]
    inputs: dict[int, tuple[int | Linear, ...]]
    code: tuple[Operation, ...]
    direct: bool

    @property
    def dims(self) -> set[int]:
        return {dim for c in self.coordinates for dim, _ in c.terms}

    def where(self, dim: int) -> list[int]:
        """Return the positions of the coordinates that depend on a dimension."""
        return [i for i, c in enumerate(self.coordinates) if c.of(dim)]

    def is_last(self, dim: int | None) -> bool:
        """Return whether neighbours along `dim` are neighbours in a row-major main input."""
        return dim is not None and bool(self.coordinates) and self.coordinates[-1].of(dim) == 1


@dataclass(frozen=True)
class Contraction:
    """C[.., m, n] += A[.., m, k] * B[.., k, n] for all outer dimensions, summed over k and `reductions`.

    m or n is None where the product has no such dimension. acc: the type that sums have in the program.
    """

    op: Operation
    generic: Structured
    a: Factor
    b: Factor
    m: int | None
    n: int | None
    k: int
    outer: tuple[int, ...]
    reductions: tuple[int, ...]
    acc: Attribute


def linear(expression: AffineExpr) -> Linear | None:
    """Read an expression; None when it divides or has a negative coefficient."""
    if isinstance(expression, AffineDimExpr):
        return Linear(((expression.position, 1),), 0)
    if isinstance(expression, AffineConstantExpr):
        return Linear((), expression.value)
    if not isinstance(expression, AffineBinaryOpExpr):
        return None
    left, right = linear(expression.lhs), linear(expression.rhs)
    if left is None or right is None:
        return None
    if expression.kind is AffineBinaryOpKind.Add:
        dims = dict(left.terms)
        for dim, coefficient in right.terms:
            dims[dim] = dims.get(dim, 0) + coefficient
        return Linear(tuple(sorted(dims.items())), left.constant + right.constant)
    if expression.kind is AffineBinaryOpKind.Mul:
        if left.terms and not right.terms:
            left, right = right, left
        if left.terms or left.constant < 1:
            return None
        return Linear(tuple((d, c * left.constant) for d, c in right.terms), right.constant * left.constant)
    return None


def contraction_of(op: Operation) -> Contraction | None:
    """Return the parts of a contraction; None if `op` is not a contraction, or has no kernel of its own."""
    g = as_structured(op)
    return None if g is None or g.body is None else g.fact(_recognize)


def is_contraction(op: Operation) -> bool:
    """Return whether an operation reduces products of several inputs by adding them up, whatever else it computes."""
    g = as_structured(op)
    return g is not None and g.body is not None and g.fact(_adds_products)


def _adds_products(generic: Structured) -> bool:
    names = {op.name for op in generic.block.ops}
    return (
        bool(generic.loops)
        and len(generic.inputs) >= 2
        and bool(names & SUMS.keys())
        and bool(names & {*SUMS.values()})
    )


def _recognize(generic: Structured) -> Contraction | None:
    op = generic.op
    if cannot_lower(generic):
        return None
    if len(generic.outputs) != 1 or not generic.loops or len(op.results) != 1:
        return None
    halves = _product(generic)
    if halves is None:
        return None
    factors = [_factor(generic, half) for half in halves]
    if factors[0] is None or factors[1] is None:
        return None
    return _roles(generic, factors[0], factors[1])


def _product(generic: Structured) -> tuple[SSAValue, SSAValue] | None:
    """Return the two values whose product the body adds to its accumulator."""
    last = generic.block.last_op
    assert last is not None
    total = last.operands[0]
    acc = generic.block.args[-1]
    if not isinstance(total, OpResult) or total.op.name not in SUMS or len(list(acc.uses)) != 1:
        return None
    left, right = total.op.operands
    product = right if left is acc else left if right is acc else None
    if not isinstance(product, OpResult) or product.op.name != SUMS[total.op.name]:
        return None
    return product.op.operands[0], product.op.operands[1]


def _factor(generic: Structured, value: SSAValue) -> Factor | None:
    code: list[Operation] = []
    numbers: set[int] = set()
    pending, seen = [value], set[SSAValue]()
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        if isinstance(at, BlockArgument) and at.owner is generic.block:
            numbers.add(at.index)
        elif isinstance(at, OpResult) and at.op.parent_block() is generic.block:
            if at.op.regions or at.op.name.startswith(("linalg.", "tensor.")) or len(at.op.results) != 1:
                return None
            code.append(at.op)
            pending += at.op.operands
    if not numbers or max(numbers) >= len(generic.inputs):
        return None
    order = {op: i for i, op in enumerate(generic.block.ops)}
    code.sort(key=lambda op: order[op])
    main = max(sorted(numbers), key=lambda i: (len(dims_in(generic.maps[i])), len(generic.maps[i].results)))
    coordinates = [linear(r) for r in generic.maps[main].results]
    if any(c is None for c in coordinates):
        return None
    known = tuple(c for c in coordinates if c is not None)
    inputs = {number: _places(generic.maps[number], known) for number in sorted(numbers)}
    if any(places is None for places in inputs.values()):
        return None
    reads = {number: places for number, places in inputs.items() if places is not None}
    direct = value is generic.block.args[main]
    return Factor(value, main, known, reads, tuple(code), direct)


def _places(map: AffineMap, coordinates: tuple[Linear, ...]) -> tuple[int | Linear, ...] | None:
    """Return the position in `coordinates` of each result of a map, or the result if it is constant; None otherwise."""
    places: list[int | Linear] = []
    for result in map.results:
        found = linear(result)
        if found is None or (found.terms and found not in coordinates):
            return None
        places.append(coordinates.index(found) if found.terms else found)
    return tuple(places)


def _static_size(generic: Structured, dim: int) -> int:
    """Return the static size of a dimension, or 64 as an estimate if it is dynamic."""
    size = generic.extents[dim]
    return 64 if size is None else size


def _columns(lhs: Factor, rhs: Factor, parallel: set[int]) -> list[int]:
    """Return the dimensions that may become columns: parallel ones of b alone, along which adjacent elements are one
    apart.
    """
    own = [d for d in sorted(parallel) if d in rhs.dims and d not in lhs.dims]
    return [d for d in own if len(rhs.where(d)) == 1 and rhs.coordinates[rhs.where(d)[0]].of(d) == 1]


def _roles(generic: Structured, first: Factor, second: Factor) -> Contraction | None:
    """Choose m, n and k: n wants to be contiguous in B and C, k in A, and m to be large. None is in several
    coordinates of a factor, as in a diagonal: what it reads does not fill a tile."""
    parallel = set(range(len(generic.iterators))) - set(generic.loops)
    shared = [d for d in generic.loops if len(first.where(d)) == len(second.where(d)) == 1]
    if not shared or not set(generic.loops) <= first.dims | second.dims:
        return None
    results = generic.output_maps[0].results
    last = results[-1].position if results and isinstance(results[-1], AffineDimExpr) else None
    best: tuple[int, Factor, Factor, int | None] | None = None
    for a, b in ((first, second), (second, first)):
        for n in _columns(a, b, parallel):
            score = 4 * (n == last) + 3 * b.is_last(n) + 2 * b.coordinates[b.where(n)[0]].is_identity(n)
            score -= 6 * (_static_size(generic, n) < 4)
            if best is None or score > best[0]:
                best = (score, a, b, n)
    if best is None:
        if any((d in first.dims) != (d in second.dims) for d in parallel):
            return None
        best = (0, first, second, None)
    _, a, b, columns = best
    rows = [d for d in parallel if len(a.where(d)) == 1 and d not in b.dims]
    order = [r.position for r in results if isinstance(r, AffineDimExpr)]
    near = max(rows, key=order.index, default=None)
    m = max(
        rows,
        key=lambda d: (min(_static_size(generic, d), 48 if d == near else FAR_ROWS), a.is_last(d), d),
        default=None,
    )
    k = max(
        shared, key=lambda d: (_static_size(generic, d) > 1, a.is_last(d), b.is_last(d), _static_size(generic, d), d)
    )
    outer = tuple(d for d in sorted(parallel) if d not in (m, columns))
    reductions = tuple(d for d in generic.loops if d != k)
    if columns is None and (outer or not (a.is_last(k) and b.is_last(k))):
        return None  # no columns: products of single elements per result, which plain loops vectorise better
    out = generic.op.results[0].type
    assert isinstance(out, TensorType)
    return Contraction(generic.op, generic, a, b, m, columns, k, outer, reductions, out.element_type)


def contractions(operations: Sequence[Operation]) -> list[Contraction]:
    found = (contraction_of(op) for op in operations)
    return [c for c in found if c is not None]
