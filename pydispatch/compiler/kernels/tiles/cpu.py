"""Products of tiles on CPUs: register blocks, one after the other. What is read for a product alone is read in place
where all of it exists."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, choose
from pydispatch.compiler.kernels.ops.builder import Builder, Index, both
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.tiles.parts import (
    Part,
    branch,
    converted,
    either,
    element_of,
    part_of,
    put,
    shape_of,
    taken_away,
)
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.tiles import MatmulOp, ReadTileOp
from pydispatch.ir.dialects.pyd.transpose import TransposeOp


def is_for_products(op: ReadTileOp) -> bool:
    """Whether nothing but products reads the memory of a tile, each right after it was read from a view."""
    users = [use.operation for use in op.tile.uses]
    return all(
        isinstance(user, ReadTileOp) or (isinstance(user, MatmulOp) and _read_before(user, op.tile) is not None)
        for user in users
    ) and all(user.c is not op.tile for user in users if isinstance(user, MatmulOp))


def _read_before(op: Operation, tile: SSAValue) -> ReadTileOp | None:
    """What a tile was read from, right before an operation: only such reads, and what has no effects, lie between."""
    before = op.prev_op
    while before is not None:
        if isinstance(before, ReadTileOp):
            if before.tile is tile:
                return before
        elif not before.name.startswith("arith."):
            return None
        before = before.prev_op
    return None


def read(build: Builder, op: ReadTileOp) -> None:
    """The tile, in memory."""
    _copy(build, part_of(op), op.tile)


def _copy(build: Builder, part: Part, tile: SSAValue, is_inside: bool = False) -> None:
    rows, columns = shape_of(tile)
    if is_inside and part.turned and element_of(part.value) == element_of(tile):
        target = Part(build.source, tile)
        for row in range(0, rows, SIDE):
            for column in range(0, columns, SIDE):
                height, width = min(SIDE, rows - row), min(SIDE, columns - column)
                turned = Part(build.source, part.value, part.first)
                source = turned.view(build, column, row, (width, height))
                build.add(TransposeOp(operands=[source, target.view(build, row, column, (height, width))]))
        return
    type_ = element_of(tile)

    def along(b: Builder, row: Index) -> None:
        def at(inner: Builder, column: Index) -> None:
            if is_inside:
                places = (part.first[0], part.first[1])
                own = (column, row) if part.turned else (row, column)
                where = [inner.value(inner.plus(first, each)) for first, each in zip(places, own, strict=True)]
                value = inner.add(memref.LoadOp.get(part.value, where))
            else:
                value = part.element(inner, row, column)
            put(inner, converted(inner, value, type_), tile, row, column)

        b.parallel(0, columns, at)

    build.parallel(0, rows, along)


def multiply(build: Builder, op: MatmulOp, level: Level) -> None:
    """C += A·B."""
    type_ = element_of(op.c)
    reads = [_read_before(op, tile) for tile in (op.a, op.b)]
    reads = [each if each is not None and is_for_products(each) else None for each in reads]
    parts = [Part(op, tile) if each is None else part_of(each) for tile, each in zip((op.a, op.b), reads, strict=True)]
    memory = [_memory(op, tile, number) for number, tile in enumerate((op.a, op.b))]
    shapes = [shape_of(op.a), shape_of(op.b)]
    inside: SSAValue | bool = True
    for each, part, shape in zip(reads, parts, shapes, strict=True):
        if each is not None:
            inside = both(build, inside, part.inside(build, shape))

    def product(b: Builder, is_inside: bool) -> None:
        factors = []
        for number, (each, part) in enumerate(zip(reads, parts, strict=True)):
            in_place = element_of(part.value) == type_ and (each is None or is_inside)
            if in_place and number == 1:
                in_place = not part.turned
            if not in_place:
                _copy(b, part, memory[number], is_inside or each is None)
            factors.append(part if in_place else Part(op, memory[number]))
        _blocks(b, factors[0], factors[1], Part(op, op.c), (*shapes[0], shapes[1][1]), level)

    if isinstance(inside, bool):
        product(build, inside)
    else:
        then, other = branch(build), branch(build)
        product(then, True)
        product(other, False)
        either(build, inside, then, other)
    for each in {each for each in reads if each is not None}:
        taken_away(each)


def _memory(op: MatmulOp, tile: SSAValue, number: int) -> SSAValue:
    """Memory for a factor in the type of the sums: that of the tile where it has it."""
    type_ = element_of(op.c)
    if element_of(tile) == type_:
        return tile
    function = op.parent_op()
    while not isinstance(function, FuncOp):
        assert function is not None
        function = function.parent_op()
    shape = shape_of(tile)
    entry = function.body.block
    wanted = MemRefType(type_, list(shape), NoneAttr(), IntegerAttr(WORKGROUP, 64))
    for known in entry.ops:
        is_alike = isinstance(known, memref.AllocOp) and known.results[0].type == wanted
        if is_alike and known.results[0].name_hint == f"factor{number}":
            return known.results[0]
    made = memref.AllocOp.get(type_, 64, shape=list(shape))
    made.results[0]._type = wanted
    made.results[0].name_hint = f"factor{number}"
    made.location = op.location
    first = entry.first_op
    assert first is not None
    entry.insert_op_before(made, first)
    return made.results[0]


def _blocks(build: Builder, a: Part, b: Part, c: Part, sizes: tuple[int, int, int], level: Level) -> None:
    """Columns of blocks, so that the rows of B that they read stay in the first cache."""
    rows, steps, columns = sizes
    tiles = choose(level, (bit_width(element_of(c.value)) or 32) // 8, rows, columns, steps, 1, 1, padded=False)

    def block(inner: Builder, row: Index, column: Index, height: int, width: int) -> None:
        operands = [
            a.view(inner, row, 0, (height, steps)),
            b.view(inner, 0, column, (steps, width)),
            c.view(inner, row, column, (height, width)),
        ]
        inner.add(ContractOp(operands=operands, properties={"accumulate": UnitAttr()}))

    def column_of(inner: Builder, column: Index, width: int) -> None:
        whole = rows - rows % tiles.mr

        def one(deeper: Builder, row: Index, _: list[SSAValue]) -> list[SSAValue]:
            block(deeper, row, column, tiles.mr, width)
            return []

        inner.loop(0, whole, [], one, step=tiles.mr)
        if whole < rows:
            block(inner, whole, column, rows - whole, width)

    def panel(inner: Builder, column: Index, _: list[SSAValue]) -> list[SSAValue]:
        column_of(inner, column, tiles.nr)
        return []

    whole = columns - columns % tiles.nr
    build.loop(0, whole, [], panel, step=tiles.nr)
    if whole < columns:
        column_of(build, whole, columns - whole)
