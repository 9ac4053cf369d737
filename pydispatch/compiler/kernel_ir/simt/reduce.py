"""Reductions over points, spread over the invocations of a workgroup."""

from __future__ import annotations

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.combiners import combiners, is_free
from pydispatch.compiler.kernel_ir.hazards import MANY, Accesses
from pydispatch.compiler.kernel_ir.simt.build import DOWN, INDEX, Build, Index
from pydispatch.compiler.kernel_ir.simt.lower import Spreading
from pydispatch.compiler.kernel_ir.simt.ranges import FEW, Range, cloned, point_of, repeats, rounds, steps, total_of
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.op_info import identity_of

WARP = 32
WORKGROUP = IntegerAttr(3, 64)

FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)


def _is_free(op: Operation | None) -> bool:
    return op is not None and isinstance(op.results[0].type, (*FLOATS, IntegerType, IndexType)) and is_free(op)


def regroups(loop: scf.ParallelOp) -> bool:
    """Whether all results may be combined in any order."""
    last = loop.body.blocks[0].last_op
    if last is None or len(last.regions) != len(loop.initVals):
        given = 0 if last is None else len(last.regions)
        raise CompileError(
            f"scf.reduce combines {given} values, the loop carries {len(loop.initVals)}", location_of(loop)
        )
    return all(_is_free(op) for op in combiners(loop))


def _identity(build: Build, op: Operation, type_: Attribute) -> SSAValue:
    """What changes nothing when it is combined."""
    found = identity_of(op, type_)
    assert found is not None
    return build.let(arith.ConstantOp(found))


def _combine(build: Build, loop: scf.ParallelOp, number: int, left: SSAValue, right: SSAValue) -> SSAValue:
    op = combiners(loop)[number]
    assert op is not None
    arguments = op.parent.args if op.parent is not None else ()
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, (left, right), strict=True))
    made = op.clone(value_mapper=values)
    set_location(made, op)
    return build.let(made)


def tree(s: Spreading, loop: scf.ParallelOp, bounds: list[Range]) -> None:
    """Replaces the loop. What it accesses has been noted."""
    build = Build(loop, loop)
    counts = [steps(build, range_) for range_ in bounds]
    total, own, first = total_of(build, counts), s.own(), s.first()
    narrow = s.narrow or (isinstance(total, int) and total < FEW)
    starts: list[SSAValue] = []
    for op, value in zip(combiners(loop), loop.initVals, strict=True):
        assert op is not None
        starts.append(build.let(arith.SelectOp(first, value, _identity(build, op, value.type))))

    block = loop.body.blocks[0]

    def turn(inner: Build, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        point = point_of(inner, bounds, counts, number, narrow)
        made = cloned(block, inner, [inner.value(part) for part in point])
        return [_combine(inner, loop, n, *pair) for n, pair in enumerate(zip(carried, made, strict=True))]

    partial = rounds(build, own, total, s.count, repeats(block), starts, turn)
    results = _meet(s, build, loop, partial)
    for old, new in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def _meet(s: Spreading, build: Build, loop: scf.ParallelOp, values: list[SSAValue]) -> list[SSAValue]:
    """The partial results of all invocations combined, known to all of them."""
    lanes = min(WARP, s.count)
    if s.count % lanes or lanes & (lanes - 1):
        return _line(s, build, loop, values, s.count, s.own())
    for number, value in enumerate(values):
        width = lanes // 2
        while width:
            value = _combine(build, loop, number, value, build.shuffle(value, DOWN, width, lanes))
            width //= 2
        values[number] = value
    if s.count == lanes:
        return [build.shuffle(value, INDEX, 0, lanes) for value in values]
    return _line(s, build, loop, values, s.count // lanes, None)


def _line(
    s: Spreading, build: Build, loop: scf.ParallelOp, values: list[SSAValue], count: int, place: SSAValue | None
) -> list[SSAValue]:
    """So many partial results in a line of workgroup memory, which every invocation combines from the first on.

    place: where in the line this invocation writes; None: the first invocation of each warp has one.
    """
    s.sites += 1
    lines = [_scratch(s, number, value.type, count) for number, value in enumerate(values)]
    keys = {line.owner for line in lines}
    s.write_scratch(loop, set(keys))
    writer = build
    if place is None:
        lane, place = _lane(build, s.own())
        writer = build.when(lane)
    for line, value in zip(lines, values, strict=True):
        writer.op(memref.StoreOp.get(_held(writer, value), line, [place]))
    if writer is not build:
        writer.op(scf.YieldOp())
    s.barrier(build)
    results: list[SSAValue] = []
    for number, line in enumerate(lines):
        type_ = values[number].type
        parts = [_taken(build, build.let(memref.LoadOp.get(line, [build.value(n)])), type_) for n in range(count)]
        value = parts[0]
        for part in parts[1:]:
            value = _combine(build, loop, number, value, part)
        results.append(value)
    s.hazards.note(Accesses(set(keys), set()), MANY)
    return results


def _lane(build: Build, own: SSAValue) -> tuple[SSAValue, SSAValue]:
    """(whether the invocation is the first of its warp, the number of the warp)."""
    lane = build.let(arith.AndIOp(own, build.value(WARP - 1)))
    first = build.let(arith.CmpiOp(lane, build.value(0), "eq"))
    return first, build.let(arith.ShRUIOp(own, build.value(WARP.bit_length() - 1)))


def _scratch(s: Spreading, number: int, type_: Attribute, count: int) -> SSAValue:
    """Two reductions in a row do not share memory, so that no barrier stands between them."""
    held = IntegerType(32) if _is_small(type_) else type_
    key = (held, number, count, s.sites % 2)
    if key not in s.scratch:
        memref_type = MemRefType(held, [count], memory_space=WORKGROUP)
        s.scratch[key] = s.alloc_at_entry(lambda: memref.AllocOp([], [], memref_type))
    return s.scratch[key]


def _is_small(type_: Attribute) -> bool:
    """Whether elements share bytes in memory, or have none of their own width."""
    return isinstance(type_, IntegerType) and type_.width.data not in (8, 16, 32, 64, 128)


def _held(build: Build, value: SSAValue) -> SSAValue:
    if not _is_small(value.type):
        return value
    if bit_width(value.type) > 32:
        raise CompileError(f"a reduction of {value.type} cannot be spread over invocations", location_of(build.like))
    return build.let(arith.ExtUIOp(value, IntegerType(32)))


def _taken(build: Build, value: SSAValue, type_: Attribute) -> SSAValue:
    if not _is_small(type_):
        return value
    assert isinstance(type_, IntegerType)
    return build.let(arith.TruncIOp(value, type_))
