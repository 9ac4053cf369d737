"""Kernels in the tile style: statements, control flow and functions.

All invocations of a workgroup execute the same statements, and divide the elements of each tile among them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.arithmetic import binary
from pydispatch.kernels.calls import Handler
from pydispatch.kernels.entities import (
    Entity,
    Known,
    Literal,
    MemoryRef,
    Tile,
    TupleValue,
    described,
    known,
)
from pydispatch.kernels.names import RETURN
from pydispatch.kernels.source import Source
from pydispatch.kernels.spellings import missing_attribute
from pydispatch.kernels.tiles.slices import ViewSlice
from pydispatch.kernels.tiles.table import ATOMICS, HANDLERS, MIN_MAX, REMEDIES, TAKES_TILES
from pydispatch.kernels.tiles.variables import TileVariables, snapshot
from pydispatch.patterns.types import DType


class TileKernel(TileVariables):
    """Code generator for the body of one kernel in the tile style: statements of a workgroup as a whole, on tiles.

    An instance generates one kernel: `lower` is called once.

    Args:
        source: The kernel's function.
        parameters: Its parameters.
        workgroup: Number of invocations of a workgroup along each axis, axis 0 first.
        statics: Values of the parameters that are known at compile time, by name.
    """

    def __init__(
        self, source: Source, parameters: Sequence[Parameter], workgroup: Sequence[int], statics: Mapping[str, Any]
    ) -> None:
        """Begin with no statement emitted."""
        super().__init__(source, workgroup)
        self.static_names = frozenset(parameter.name for parameter in parameters if parameter.is_static)
        self._statics = statics
        self._evaluated: dict[ast.expr, Entity] = {}
        """Values of expressions that were evaluated to see whether they are tiles; `evaluate` returns each once."""
        self._covered: dict[str, tuple[int, ...]] = {}
        """Shape of the first slice of each view that is written outside of loops and conditions, by the view's name.
        An inferred grid has a workgroup for each such block of the view. A single index counts as size 1."""

    handlers = HANDLERS
    remedies = REMEDIES

    def lower(self, environment: Mapping[str, Entity]) -> list[str]:
        """Return the MLIR of the kernel's body as lines, without the lines in `prologue`, which precede it.

        environment: the entities that parameters stand for.
        """
        self.environment = {**environment, **{name: known(value) for name, value in self._statics.items()}}
        # A return at the end of the kernel needs no flag that skips statements after it.
        self.block(self.source.body, exits_without_flag=frozenset({RETURN}))
        return self.writer.lines

    def covered(self, parameter: str) -> tuple[int, ...] | None:
        """Return the shape of the block that a workgroup writes of the view `parameter`, last dimension first.

        An inferred grid has a workgroup for each block of the view; its axis 0 is along the last dimension. None if all
        writes are inside loops or conditions.
        """
        sizes = self._covered.get(parameter)
        return None if sizes is None else sizes[::-1]

    def position(self, node: ast.AST, kind: str, axis: int) -> Entity:
        """Return the id of the workgroup or a size along an axis. Raise CompileError for ids of single invocations.

        kind: "group" for the id of the workgroup, "grid" for the number of workgroups, "size" for the invocations of a
        workgroup; ids of single invocations have any other kind.
        """
        if kind == "group":
            return self.writer.value(f"stream.dispatch.workgroup.id[{axis}] : index", "index")
        if kind == "grid":
            return self.writer.value(f"stream.dispatch.workgroup.count[{axis}] : index", "index")
        if kind == "size":
            return Literal(self.workgroup[axis] if axis < len(self.workgroup) else 1)
        raise self.error(
            node,
            f"{kind}_id in a kernel with tiles, which its workgroup runs as a whole",
            "compute the first index of a tile: pydispatch.group_id(0) * 16",
        )

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        """Emit a statement, then release the buffers of its temporary tiles and of variables that are dead after it."""
        outer = self._statement, self._temporaries
        self._statement, self._temporaries = node, []
        super().statement(node)
        self.release_temporaries()
        self.release_dead()
        self._statement, self._temporaries = outer

    def _for_statement(self, node: ast.For) -> None:
        """Emit a loop. Tiles that its body assigns are stored in buffers before it, which each iteration overwrites."""
        self.spill_tiles(node, node.body)
        self._in_nested_region(lambda: super(TileKernel, self)._for_statement(node))

    def _while_statement(self, node: ast.While) -> None:
        """Emit a loop. Tiles that it assigns are stored before it, in buffers that all iterations write."""
        self.spill_tiles(node, [*node.body, node.test])
        self._in_nested_region(lambda: super(TileKernel, self)._while_statement(node))

    def _branches(
        self, node: ast.If, then: Sequence[ast.stmt], other: Sequence[ast.stmt], exits_without_flag: frozenset[str]
    ) -> None:
        """Lower a condition; tiles that a branch assigns are stored in buffers before it.

        then, other: statements of the branches. exits_without_flag: exits in them (`RETURN`, `CONTINUE`) that set no
        flag, because no statement follows.
        """
        self.spill_tiles(node, [*then, *other])
        self._in_nested_region(lambda: super(TileKernel, self)._branches(node, then, other, exits_without_flag))

    def _in_nested_region(self, write: Callable[[], None]) -> None:
        """Emit a loop or a condition by calling `write`, during which `_depth`, the nesting depth, is one greater.

        A write to memory at depth 0 is unconditional. A variable may change its shape at the depth of its first value.
        """
        self._depth += 1
        write()
        self._depth -= 1

    def _assign_statement(self, node: ast.Assign) -> None:
        """Assign a value to each target. Tiles of a tuple, and a tile with several targets, are first stored in memory,
        so that an assignment to one target does not change the value of the next."""
        value = self.evaluate(node.value)
        if isinstance(value, TupleValue):  # `a, b = b, a`: each item is stored before the first one is assigned
            value = replace(
                value,
                items=tuple(
                    self.materialized(node, snapshot(item)) if isinstance(item, Tile) else item for item in value.items
                ),
            )
        elif isinstance(value, Tile) and len(node.targets) > 1:
            value = self.materialized(node, snapshot(value))
        for target in node.targets:
            self.assign(target, value, node.value)

    def assign(self, target: ast.expr, value: Entity, origin: ast.AST) -> None:
        """Write a slice of memory, or assign as the base class does. origin: node of the value, for errors."""
        if isinstance(target, ast.Subscript) and self._has_tile_index(target):
            self._write(target, self.slice_of(target, self._memory(target)), value, origin)
            return
        super().assign(target, value, origin)

    def _store(self, target: ast.Subscript, memory: MemoryRef, indices: str, value: Entity, origin: ast.AST) -> None:
        """Store one element of memory. Lazy tiles that read this memory are computed before it changes.

        indices: indices of the element, as MLIR text. origin: node of the value, for errors.
        """
        self.materialize_readers(origin, lambda tile: memory.name in tile.reads)
        super()._store(target, memory, indices, value, origin)

    def _augassign_statement(self, node: ast.AugAssign) -> None:
        """Combine a slice of memory with a value in place, or assign as the base class does."""
        if isinstance(node.target, ast.Subscript) and self._has_tile_index(node.target):
            part = self.slice_of(node.target, self._memory(node.target))
            self._write(node.target, part, self._combined(node, self.loaded(node.target, part)), node)
            return
        super()._augassign_statement(node)

    def _write(self, target: ast.Subscript, part: ViewSlice, value: Entity, origin: ast.AST) -> None:
        """Store a value into the slice `part` of a view, and record how much of the view a workgroup writes.

        target: the subscript that denotes the slice. origin: node of the value, for errors.
        """
        name = part.memory.name
        # Lazy tiles that read this memory are computed before the write changes it.
        self.materialize_readers(origin, lambda tile: name in tile.reads and tile is not value)
        is_unconditional = self._depth == 0  # outside of loops and conditions
        if is_unconditional and part.memory.parameter and not part.index_tiles:
            # The first write counts. A range without a size is a single index.
            self._covered.setdefault(part.memory.parameter, tuple(range_.size or 1 for range_ in part.ranges))
        self.write(target, part, value, origin)

    def inlined(self, node: ast.Call, function: Callable[..., Any], arguments: list[Entity]) -> Entity:
        """Inline a call. Lazy tiles are materialized first, since the callee may write the memory that they read.

        These are all lazy tiles of variables, and the arguments: an argument such as `a + b` is of no variable.
        """
        self.materialize_readers(node, lambda tile: True)
        return super().inlined(node, function, arguments)

    def argument(self, node: ast.Call, entity: Entity) -> Entity:
        """Return a tile as a snapshot, since assignments to a parameter must not change the caller's variable."""
        return snapshot(self.materialized(node, entity)) if isinstance(entity, Tile) else entity

    # ---- expressions

    def _subscript(self, node: ast.Subscript) -> Entity:
        """Load a slice of memory, add axes to a tile, or index as the base class does."""
        base = self.evaluate(node.value)
        if isinstance(base, MemoryRef) and self._has_tile_index(node):
            return self.loaded(node, self.slice_of(node, base))
        if isinstance(base, Tile):
            return self._with_axes(node, base)
        self._evaluated[node.value] = base  # super() does not evaluate it again
        return super()._subscript(node)

    def _has_tile_index(self, node: ast.Subscript) -> bool:
        """Return whether a subscript of a view denotes a tile: it has a slice or a tile among its indices.

        Indices that are evaluated for this are stored for the access, so that they are not emitted twice.
        """
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            if isinstance(part, ast.Slice):  # such as 0:16
                return True
            self._evaluated[part] = index = self.evaluate(part)
            if isinstance(index, Tile):
                return True
        return False

    def evaluate(self, node: ast.expr) -> Entity:
        """Return the value of an expression; one that was evaluated before to look for tiles is not emitted again."""
        return self._evaluated.pop(node) if node in self._evaluated else super().evaluate(node)

    def _with_axes(self, node: ast.Subscript, tile: Tile) -> Tile:
        """Return a tile with new axes of size 1, as in `t[:, None]`. Raise CompileError for any other index of a
        tile.
        """
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kinds = [_kind_of_axis(index) for index in indices]  # "all" for `:`, "none" for None, "" for other indices
        if "" in kinds or kinds.count("all") != len(tile.shape):
            raise self.error(
                node,
                f"'{ast.unparse(node)}' of {described(tile)}",
                "tiles have no elements that are read one by one: reduce them, or add axes, as in t[:, None]",
            )
        sizes = iter(tile.shape)
        shape = tuple(1 if kind == "none" else next(sizes) for kind in kinds)
        dimensions = [dimension for dimension, kind in enumerate(kinds) if kind == "all"]
        tile = self.as_indexable(node, tile)
        return self.lazy(
            node,
            shape,
            tile.dtype,
            [tile],
            lambda at: self.element(tile, [at[dimension] for dimension in dimensions]),
            reads_other_indices=True,  # an element of the result has another index than the element that it reads
        )

    def _attribute(self, node: ast.Attribute) -> Entity:
        """Return shape, ndim, dtype or the transpose (T) of a tile, or the attribute of another value.

        Raise CompileError for an attribute that the value lacks.

        A transpose is a lazy tile that reads elements at reversed indices. If the matrix is loaded from a slice of a
        view, the transpose refers to this slice, so that a product can read the slice directly.
        """
        base = self.evaluate(node.value)
        if not isinstance(base, Tile):
            self._evaluated[node.value] = base  # so that it is not emitted twice
            return super()._attribute(node)
        attributes = ("shape", "ndim", "dtype", "T")
        if node.attr not in attributes:
            raise self.error(node, f"a tile has no '{node.attr}'", missing_attribute(node, attributes))
        if node.attr == "shape":
            return TupleValue(tuple(map(Literal, base.shape)))
        if node.attr == "ndim":
            return Literal(len(base.shape))
        if node.attr == "dtype":
            return Known(DType(base.dtype))
        return self.transposed(node, self.as_indexable(node, base))

    def _binop(self, node: ast.BinOp) -> Entity:
        """Lower a binary operation. `total + a @ b` becomes one matrix product that accumulates into `total`."""
        if not isinstance(node.op, ast.Add):
            return super()._binop(node)
        a, b = self.evaluate(node.left), self.evaluate(node.right)  # a product is a tile that is not emitted yet
        product = self.summed_product(node, a, b)
        if product is not None:
            return product
        return self.elementwise((node.left, node.right), (a, b), lambda x, y: binary(self.writer, "+", x, y))

    def _combined(self, node: ast.AugAssign, old: Entity) -> Entity:
        """Lower `x += y`, where `old` is the value of x; a product of tiles accumulates into a tile."""
        if not isinstance(node.op, ast.Add) or not isinstance(old, Tile):
            return super()._combined(node, old)
        # `x += a @ b` accumulates into x; any other `x += y` adds elements, since y must not be evaluated twice.
        value = self.evaluate(node.value)
        product = self.summed_product(node, old, value)
        if product is not None:
            return product
        target = ast.Name("", ast.Load())  # stands for the target, whose value `old` is known, and is not evaluated
        return self.number_or_error(
            node,
            lambda: self.elementwise((target, node.value), (old, value), lambda x, y: binary(self.writer, "+", x, y)),
        )

    def called(self, node: ast.Call, handler: Handler, arguments: list[Entity]) -> Entity:
        """Lower a call of a function of kernels, whose code `handler` emits.

        A handler of `TAKES_TILES` is passed whole tiles. An atomic operation updates one element of memory for each
        element of its tiles. Any other function is applied element by element, to a lazy tile.
        """
        if handler in TAKES_TILES:
            return handler(self, node, arguments)
        if handler in ATOMICS:
            return self._atomic_update(node, handler, arguments)
        if not any(isinstance(argument, Tile) for argument in arguments):
            return handler(self, node, arguments)
        operands = [
            self.as_indexable(node, argument) if isinstance(argument, Tile) else argument for argument in arguments
        ]
        self._check_elementwise(node, handler, arguments)
        return self.lazy_elementwise(node, operands, lambda *elements: handler(self, node, list(elements)))

    def _check_elementwise(self, node: ast.Call, handler: Handler, arguments: Sequence[Entity]) -> None:
        """Raise CompileError for `print`, which takes numbers only, and for Python's max and min of one tile."""
        name = ast.unparse(node.func)
        if handler is HANDLERS[print]:
            tile = next(argument for argument in arguments if isinstance(argument, Tile))
            raise self.error(node, f"{name} of {described(tile)}", "reduce it, or run the kernel by kernel.python(...)")
        if len(arguments) == 1 and handler in MIN_MAX:
            raise self.error(node, f"{name} of {described(arguments[0])}", f"write pydispatch.{name}(tile)")

    def _atomic_update(self, node: ast.Call, handler: Handler, arguments: list[Entity]) -> Entity:
        """Emit an atomic operation on an element of memory or, if arguments are tiles, on one for each tile element."""
        memory = arguments[0] if len(arguments) > 1 else None  # the handler reports missing arguments
        if isinstance(memory, MemoryRef):
            name = memory.name
            # Tiles that are still expressions read the memory before it changes.
            self.materialize_readers(node, lambda tile: name in tile.reads)
            has_tiles = self.update_elements(node, handler, memory, arguments[1], arguments[2:])
            if has_tiles:
                return Known(None)
        handler(self, node, arguments)
        return Known(None)


def _kind_of_axis(index: ast.expr) -> str:
    """Return "none" if an index of a tile is None, which adds an axis; "all" for `:`, an axis of the tile; else ""."""
    if isinstance(index, ast.Constant) and index.value is None:
        return "none"
    if isinstance(index, ast.Slice) and (index.lower, index.upper, index.step) == (None, None, None):
        return "all"
    return ""
