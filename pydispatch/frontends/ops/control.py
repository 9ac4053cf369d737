"""Branches and loops of a program. Their bodies are functions that write operations and give tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, builtin, scf, tensor
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Block, Region, SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Expr, Shape, Size, Symbol, Term, symbol
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops.shapes import element

Branch = Callable[[], Sequence[Tensor]]


def if_(b: Builder, condition: Tensor, then: Branch, otherwise: Branch) -> list[Tensor]:
    """What one of two branches gives. condition: a single truth value; one that is known decides here."""
    if condition.numbers is not None:
        return list(then() if condition.numbers.reshape(-1)[0] else otherwise())
    chosen = element(b, condition)
    written = _Branches(b, [then, otherwise])
    on_true, on_false = written.regions()
    op = scf.IfOp(chosen, written.types, on_true, on_false)
    return written.results(list(b.add(op).results))


def switch(b: Builder, index: Tensor, branches: Sequence[Branch]) -> list[Tensor]:
    """What the branch of a number gives; a number that no branch has stands for the last one."""
    if (known := index.sizes()) is not None and not isinstance(known[0], Expr):
        number = known[0] if 0 <= known[0] < len(branches) else len(branches) - 1
        return list(branches[number]())
    if len(branches) == 1:
        return list(branches[0]())
    number_value = b.scalar(index)
    written = _Branches(b, branches)
    *cases, default = written.regions()
    op = scf.IndexSwitchOp(
        number_value, DenseArrayBase.from_list(builtin.i64, range(len(cases))), default, cases, written.types
    )
    return written.results(list(b.add(op).results))


class _Branches:
    """Branches as blocks that give values of the same types."""

    def __init__(self, b: Builder, branches: Sequence[Branch]) -> None:
        self._b = b
        outside = b.symbols
        self._blocks: list[Block] = []
        made: list[list[Tensor]] = []
        for branch in branches:
            block = Block()
            with b.inside(block):
                made.append(list(branch()))
            self._blocks.append(block)
        self._like = made[0]
        for other in made[1:]:
            same = len(other) == len(self._like) and all(
                x.dtype == y.dtype and x.rank == y.rank for x, y in zip(self._like, other, strict=True)
            )
            if not same:
                shown = [", ".join(map(str, tensors)) for tensors in (self._like, other)]
                raise b.fail(f"the branches give different tensors: {shown[0]} and {shown[1]}")
        self._shapes = [_common([x.shape for x in column], outside) for column in zip(*made, strict=True)]
        self._made = made
        self.types = [
            tensor_type(x.dtype.element, _open(shape))
            for x, shape in zip(self._like, self._shapes, strict=True)
            for _ in range(2 if x.dtype.is_complex else 1)
        ]

    def regions(self) -> list[Region]:
        """The regions of the branches."""
        for block, tensors in zip(self._blocks, self._made, strict=True):
            with self._b.inside(block):
                values = [value for x in tensors for value in self._b.parts(x)]
                block.add_op(scf.YieldOp(*(cast_to(self._b, v, t) for v, t in zip(values, self.types, strict=True))))
        return [Region(block) for block in self._blocks]

    def results(self, values: list[SSAValue]) -> list[Tensor]:
        """The tensors that the operation gives."""
        given = iter(values)
        found = []
        for x, shape in zip(self._like, self._shapes, strict=True):
            parts = [next(given) for _ in range(2 if x.dtype.is_complex else 1)]
            sizes = [n if n is not None else size_at(self._b, parts[0], d) for d, n in enumerate(shape)]
            found.append(self._b.wrap(x.dtype, sizes, *parts))
        return found


def _open(shape: Sequence[Size | None]) -> list[Size]:
    """A shape for a type: sizes that are not common are open."""
    return [symbol("?") if n is None else n for n in shape]


def _common(shapes: Sequence[Shape], outside: frozenset[str]) -> list[Size | None]:
    """Sizes that are the same in all shapes and known outside; None for others."""
    found: list[Size | None] = []
    for column in zip(*shapes, strict=True):
        same = all(n == column[0] for n in column)
        found.append(column[0] if same and symbols_of(column[0]) <= outside else None)
    return found


def symbols_of(size: Size) -> set[str]:
    """The names of the symbols in a size."""
    if not isinstance(size, Expr):
        return set()
    found: set[str] = set()
    for atoms, _ in size.terms:
        for atom in atoms:
            if isinstance(atom, Symbol):
                found.add(atom.name)
            elif isinstance(atom, Term):
                found |= symbols_of(atom.a) | symbols_of(atom.b)
    return found


def size_at(b: Builder, value: SSAValue, axis: int) -> Size:
    """The size of a tensor value along an axis, as what it is when the program runs."""
    return b.size_of(b.add(tensor.DimOp(value, b.index(axis))).result)


def cast_to(b: Builder, value: SSAValue, type: Attribute) -> SSAValue:
    """A tensor value with a type that knows more or fewer of its sizes."""
    return value if value.type == type else b.add(tensor.CastOp(value, type)).dest  # type: ignore[arg-type]


def while_(
    b: Builder, first: Sequence[Tensor], condition: Callable[[list[Tensor]], Tensor],
    body: Callable[[list[Tensor]], Sequence[Tensor]],
) -> list[Tensor]:  # fmt: skip
    """Tensors that a body replaces while a condition on them holds. Their types and shapes stay."""
    values = [value for x in first for value in b.parts(x)]
    types = [value.type for value in values]
    before, after = Block(arg_types=types), Block(arg_types=types)
    with b.inside(before):
        holds = element(b, condition(_arguments(b, first, before.args)))
        before.add_op(scf.ConditionOp(holds, *before.args))
    with b.inside(after):
        made = list(body(_arguments(b, first, after.args)))
        after.add_op(scf.YieldOp(*_carried(b, first, made)))
    op = b.add(scf.WhileOp(values, types, Region(before), Region(after)))
    return _arguments(b, first, op.results)


def for_(
    b: Builder, count: Size, first: Sequence[Tensor], body: Callable[[Size, list[Tensor]], Sequence[Tensor]]
) -> list[Tensor]:
    """Tensors that a body replaces `count` times; it gets the number of the iteration, from 0."""
    values = [value for x in first for value in b.parts(x)]
    block = Block(arg_types=[builtin.IndexType(), *(value.type for value in values)])
    with b.inside(block):
        # A symbol is taken to be at least 1, and this is a number from 0.
        following = b.add(arith.AddiOp(block.args[0], b.index(1))).result
        number = b.size_of(following, "i") - 1
        made = list(body(number, _arguments(b, first, block.args[1:])))
        block.add_op(scf.YieldOp(*_carried(b, first, made)))
    op = b.add(scf.ForOp(b.index(0), b.index(count), b.index(1), values, Region(block)))
    return _arguments(b, first, op.results)


def _arguments(b: Builder, like: Sequence[Tensor], values: Sequence[SSAValue]) -> list[Tensor]:
    given = iter(values)
    return [b.wrap(x.dtype, x.shape, *(next(given) for _ in range(2 if x.dtype.is_complex else 1))) for x in like]


def _carried(b: Builder, first: Sequence[Tensor], made: Sequence[Tensor]) -> list[SSAValue]:
    """The values of the next iteration, in the types of the first."""
    if len(made) != len(first):
        raise b.fail(f"a loop over {len(first)} value(s) gives {len(made)}")
    values = []
    for x, y in zip(first, made, strict=True):
        if x.dtype != y.dtype or x.rank != y.rank:
            raise b.fail(f"a loop begins with {x}, and an iteration gives {y}")
        for part in b.parts(b.as_shape(y, x.shape)):
            values.append(cast_to(b, part, tensor_type(x.dtype.element, x.shape)))
    return values
