"""scf.parallel and scf.forall: points spread over the invocations of a workgroup, and reductions over them.

Point number p of a loop belongs to invocation p modulo their number. A reduction whose combination may be regrouped is
spread likewise: every invocation combines its points, then a tree in workgroup memory combines what they have; which
points meet where depends on the number of invocations alone. Other reductions run in order, in every invocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.floats import float_constant
from pydispatch.compiler.emit.spirv.ops.memref import workgroup_array
from pydispatch.compiler.emit.spirv.types import Index, known
from pydispatch.compiler.kernel_ir.combiners import combiners, is_free
from pydispatch.compiler.kernel_ir.hazards import MANY, Accesses
from pydispatch.compiler.kernel_ir.types import is_float
from pydispatch.ir.dialects.scf import ForallOp
from pydispatch.ir.op_info import identity_of

Range = tuple[Index, Index, Index]
"""(lower, upper, step)."""

RADIX = 8
"""How many partial results one invocation combines in a step of the tree."""


def steps(f: FunctionEmitter, range_: Range) -> Index:
    """How many steps a range has."""
    lower, upper, step = range_
    if known(lower) and known(upper) and known(step):
        return max(0, -(-(upper - lower) // step))
    extent = f.sub(upper, lower)
    if known(step) and step == 1:
        return extent
    less = f.sub(step, 1)
    # A negative extent is no step: the loop's comparison is signed.
    total = f.add(extent, less)
    return f.code.let("SDiv", f.index_type(), f.idx(total), f.idx(step))


def _number(f: FunctionEmitter, range_: Range, number: Index) -> Index:
    return f.add(range_[0], f.mul(number, range_[2]))


def _points_of(f: FunctionEmitter, bounds: Sequence[Range], counts: Sequence[Index], flat: Id) -> list[Index]:
    """The point with the row-major number `flat`."""
    found: list[Index] = []
    rest: Index = flat
    many = [number for number, count in enumerate(counts) if not (known(count) and count == 1)]
    for number in reversed(range(len(bounds))):
        count = counts[number]
        if number not in many:
            found.insert(0, bounds[number][0])
        elif number == many[0]:
            found.insert(0, _number(f, bounds[number], rest))
        else:
            if known(count):
                within, rest = f.divide(rest, count, remainder=True), f.divide(rest, count)
            else:
                type_ = f.index_type()
                within = f.code.let("UMod", type_, f.idx(rest), f.idx(count))
                rest = f.code.let("UDiv", type_, f.idx(rest), f.idx(count))
            found.insert(0, _number(f, bounds[number], within))
    return found


def spread(
    f: FunctionEmitter, bounds: Sequence[Range], body: Callable[[list[Index]], None], accesses: Accesses
) -> None:
    """Runs `body` for every point: spread over the invocations, or in order inside another point."""
    if not f.together:
        f.points += 1
        _sequential(f, list(bounds), [], body)
        f.points -= 1
        return
    f.before(accesses)
    counts = [steps(f, range_) for range_ in bounds]
    total: Index = 1
    for count in counts:
        total = f.mul(total, count)
    f.points += 1
    own = f.invocation()

    def point(flat: Id) -> None:
        body(_points_of(f, bounds, counts, flat))

    if known(total) and total <= f.invocations:
        _guarded(f, own, total, lambda: point(own))
    else:

        def turn(counter: Id, carried: list[Id]) -> list[Id]:
            point(counter)
            return []

        f.loop(own, total, f.invocations, [], turn, most=_share(f, total))
    f.points -= 1


def _share(f: FunctionEmitter, total: Index) -> int | None:
    """How many points an invocation has at most, where that is known."""
    return -(-total // f.invocations) if known(total) else None


def _guarded(f: FunctionEmitter, own: Id, total: int, body: Callable[[], None]) -> None:
    if total == f.invocations:
        body()
        return
    if total <= 0:
        return

    def then() -> list[Id]:
        body()
        return []

    f.choose(f.less(own, total), then, list, [])


def _sequential(
    f: FunctionEmitter, bounds: list[Range], point: list[Index], body: Callable[[list[Index]], None]
) -> None:
    if not bounds:
        body(point)
        return
    lower, upper, step = bounds[0]
    if known(lower) and known(upper) and known(step) and 0 < upper - lower <= step:
        _sequential(f, bounds[1:], [*point, lower], body)
        return

    def turn(counter: Id, carried: list[Id]) -> list[Id]:
        _sequential(f, bounds[1:], [*point, counter], body)
        return []

    f.loop(lower, upper, step, [], turn)


def points(f: FunctionEmitter, op: Operation, bounds: Sequence[Range]) -> None:
    """A loop over independent points."""
    block = op.regions[0].blocks[0]

    def body(point: list[Index]) -> None:
        for argument, value in zip(block.args, point, strict=True):
            f.define(argument, value)
        f.region(op.regions[0], lambda terminator: None)

    spread(f, bounds, body, f.accesses(op) if f.together else Accesses())


def _parallel(f: FunctionEmitter, op: Operation) -> None:
    loop = cast(scf.ParallelOp, op)
    bounds: list[Range] = [
        (f.index(lower), f.index(upper), f.index(step))
        for lower, upper, step in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True)
    ]
    if not loop.initVals:
        points(f, op, bounds)
    elif f.together and all(is_free(op) for op in combiners(loop)):
        _tree(f, loop, bounds)
    else:
        _in_order(f, loop, bounds)


def identity(f: FunctionEmitter, op: Operation, type_: Attribute) -> Id:
    """What changes nothing when it is combined."""
    found = identity_of(op, type_)
    assert found is not None
    number = found.value.data
    return float_constant(f, number, type_) if isinstance(number, float) else f.constant(number, type_)


def combine(f: FunctionEmitter, loop: scf.ParallelOp, number: int, left: Id, right: Id) -> Id:
    last = loop.body.blocks[0].last_op
    assert last is not None
    region = last.regions[number]
    for argument, value in zip(region.blocks[0].args, (left, right), strict=True):
        f.define(argument, value)
    combined: list[Id] = []
    f.region(region, lambda end: combined.append(f.get(end.operands[0])))
    return combined[0]


def _point(f: FunctionEmitter, loop: scf.ParallelOp, point: Sequence[Index], carried: list[Id]) -> list[Id]:
    """The body once; what it gives is combined with `carried`."""
    for argument, value in zip(loop.body.blocks[0].args, point, strict=True):
        f.define(argument, value)
    made: list[Id] = []

    def leave(end: Operation) -> None:
        if len(end.regions) != len(carried):
            raise f.error(f"scf.reduce combines {len(end.regions)} values, the loop carries {len(carried)}")
        values = [f.get(operand) for operand in end.operands]
        made.extend(
            combine(f, loop, n, left, right) for n, (left, right) in enumerate(zip(carried, values, strict=True))
        )

    f.region(loop.body, leave)
    return made


def _in_order(f: FunctionEmitter, loop: scf.ParallelOp, bounds: Sequence[Range]) -> None:
    """Plain loops that carry the results."""
    types = [f.type(value.type) for value in loop.initVals]
    f.before(f.accesses(loop))
    f.points += 1

    def level(depth: int, point: list[Index], carried: list[Id]) -> list[Id]:
        if depth == len(bounds):
            return _point(f, loop, point, carried)

        def turn(counter: Id, values: list[Id]) -> list[Id]:
            return level(depth + 1, [*point, counter], values)

        return f.loop(*bounds[depth], list(zip(types, carried, strict=True)), turn)

    results = level(0, [], [f.get(value) for value in loop.initVals])
    f.points -= 1
    for result, value in zip(loop.results, results, strict=True):
        f.define(result, value)


def _tree(f: FunctionEmitter, loop: scf.ParallelOp, bounds: Sequence[Range]) -> None:
    f.before(f.accesses(loop))
    types = [f.type(value.type) for value in loop.initVals]
    counts = [steps(f, range_) for range_ in bounds]
    total: Index = 1
    for count in counts:
        total = f.mul(total, count)
    own, first = f.invocation(), f.once("is first", f._is_first)
    operations = combiners(loop)
    starts: list[Id] = []
    for op, type_, value in zip(operations, types, loop.initVals, strict=True):
        assert op is not None
        starts.append(f.code.let("Select", type_, first, f.get(value), identity(f, op, value.type)))
    f.points += 1

    def turn(counter: Id, carried: list[Id]) -> list[Id]:
        return _point(f, loop, _points_of(f, bounds, counts, counter), carried)

    partial = f.loop(own, total, f.invocations, list(zip(types, starts, strict=True)), turn, most=_share(f, total))
    f.points -= 1
    for number, (result, own_part) in enumerate(zip(loop.results, partial, strict=True)):
        f.define(result, _meet(f, loop, number, result, own_part))


def _meet(f: FunctionEmitter, loop: scf.ParallelOp, number: int, result: SSAValue, value: Id) -> Id:
    """The partial results of all invocations combined, known to all of them."""
    boolean = f.width(result.type) == 1
    type_ = f.m.int(32) if boolean else f.type(result.type)
    size = 8 if isinstance(result.type, Float64Type) or f.width(result.type) == 64 else 4
    key = ("scratch", type_, number)
    scratch = f.once(key, lambda: workgroup_array(f, type_, f.invocations, size))
    pointer, m, let = f.m.pointer("Workgroup", type_), f.m, f.code.let

    def at(index: Index) -> Id:
        return let("AccessChain", pointer, scratch, f.idx(index))

    def read(index: Index) -> Id:
        word = let("Load", type_, at(index))
        return let("INotEqual", m.bool(), word, m.integer(0)) if boolean else word

    def write(index: Index, register: Id) -> None:
        word = let("Select", type_, register, m.integer(1), m.integer(0)) if boolean else register
        f.code.do("Store", at(index), word)

    def gathered(first: Index, many: int, apart: int) -> Id:
        """What lies at `first` and behind it, combined in order."""
        total = read(first)
        if isinstance(combiner_type, Float32Type | Float64Type) or not is_float(combiner_type):
            for part in range(1, many):
                total = combine(f, loop, number, total, read(f.add(first, part * apart)))
            return total

        def turn(part: Id, carried: list[Id]) -> list[Id]:
            return [combine(f, loop, number, carried[0], read(f.add(first, f.mul(part, apart))))]

        # Small floats take a hundred instructions each time.
        return f.loop(1, many, 1, [(f.type(combiner_type), total)], turn)[0]

    combiner_type = result.type
    f.before(Accesses(set(), {key}))
    own, count = f.invocation(), f.invocations
    write(own, value)
    f.points += 1  # what combines is no uniform code
    while count > RADIX and count % RADIX == 0:
        f.barrier()
        following = count // RADIX

        def gather(following: int = following) -> list[Id]:
            write(own, gathered(own, RADIX, following))
            return []

        f.choose(f.less(own, following), gather, list, [])
        count = following
    f.barrier()
    total = gathered(0, count, 1)
    f.points -= 1
    f.hazards.note(Accesses({key}, set()), MANY)
    return total


def _forall(f: FunctionEmitter, op: Operation) -> None:
    loop = cast(ForallOp, op)
    if loop.outputs:
        raise f.error(
            "scf.forall with shared_outs cannot be compiled into a kernel",
            "its results are tensors: write into memrefs instead",
        )

    def number(bound: int | SSAValue) -> Index:
        return bound if isinstance(bound, int) else f.index(bound)

    sides = [[number(bound) for bound in loop.bounds(which)] for which in ("lower", "upper", "step")]
    points(f, op, list(zip(*sides, strict=True)))


ROWS: dict[str, Lowering] = {"scf.parallel": _parallel, "scf.forall": _forall}
