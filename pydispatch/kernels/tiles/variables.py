"""Variables of kernels whose values are tiles: their memory, when it is reused, and when lazy tiles are stored."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pydispatch.kernels.entities import Entity, Scalar, Tile, TupleValue, Undefined, described
from pydispatch.kernels.names import assigned_in, read_in
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.lifetimes import Lifetimes
from pydispatch.kernels.tiles.updates import Updates
from pydispatch.kernels.tiles.values import OTHER_INDEX, SAME_INDEX

_ENDED = Undefined("is not used any more")
"""Stands for a variable after its last use."""


class Variable(NamedTuple):
    """Variable of one function, the kernel's or an inlined one: several may have variables of the same name."""

    function: ast.FunctionDef
    name: str


class TileVariables(Updates):
    """Part of the code generator of kernels in the tile style (`TileKernel`): assignments of tiles to variables.

    It decides which memory a variable gets, and when this memory is used again.
    """

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Begin without variables for the function `source`. workgroup: invocations along each axis."""
        super().__init__(source, workgroup)
        self._known_lifetimes: dict[ast.FunctionDef, Lifetimes] = {}  # cache of `_lifetimes`
        self._statement: ast.stmt | None = None  # the statement that is being emitted
        self._owners: dict[str, Variable] = {}
        """The variable that each buffer was allocated for, by the buffer's name. Other variables may be lazy tiles that
        read the buffer (`Tile.reads`)."""
        self._depth = 0  # number of loops and conditions around the current statement
        self._depth_of_first_value: dict[Variable, int] = {}
        """Value of `_depth` where each variable gets its first value. That value determines the variable's shape, which
        may change at this depth but not in deeper loops and conditions."""

    @property
    def _lifetimes(self) -> Lifetimes:
        """Lifetimes of the variables of the current function: the kernel, or one that is being inlined."""
        tree = self.source.tree
        if tree not in self._known_lifetimes:
            self._known_lifetimes[tree] = Lifetimes(tree)
        return self._known_lifetimes[tree]

    def _variable(self, name: str) -> Variable:
        """Return the variable of the current function with a name."""
        return Variable(self.source.tree, name)

    def bind(self, target: ast.Name, value: Entity, origin: ast.AST) -> None:
        """Assign a value to a variable of the kernel. origin: the node of the value, for errors.

        A lazy tile (computed where it is read) is stored in memory if the variable is read more than once. A tile
        variable that is assigned again retains its memory and shape; in the block of its first value it may get another
        shape, and then another buffer. Raise CompileError if a variable that is a tile becomes a number, or the
        reverse.

        Example:
            t = x[0:16]      # first value of t
            t = x[0:8]       # allowed, in the same block
            if n > 8:
                t = x[0:16]  # CompileError: after the condition, t would have one of two shapes
        """
        name, old = target.id, self.environment.get(target.id)
        if not isinstance(value, Tile):
            if isinstance(old, Tile):
                raise self.error(
                    origin, f"'{name}' is {described(old)}, and this is {described(value)}", "use another variable"
                )
            super().bind(target, value, origin)
            return
        self.check_name(target)
        if isinstance(old, (Scalar, TupleValue)):
            raise self.error(
                origin, f"'{name}' is {described(old)}, and this is {described(value)}", "use another variable"
            )
        variable = self._variable(name)  # the name in its function: inlined functions may have the same names
        # A variable may get another shape in the block of its first value, but not in loops and conditions inside it.
        is_beside_first_value = self._depth_of_first_value.get(variable) == self._depth
        if isinstance(old, Tile) and old.is_variable and (old.shape == value.shape or not is_beside_first_value):
            self._assign_variable(name, old, value, origin)
        else:
            self._depth_of_first_value[variable] = self._depth
            value = snapshot(value)  # after `a = b`, later assignments to b must not change a
            if not value.buffer and self._lifetimes.read[name] > 1:
                value = self._store_variable(name, value, origin)
            self.environment[name] = value

    def _store_variable(self, name: str, value: Tile, origin: ast.AST) -> Tile:
        """Store the first value of a tile variable in memory, and return the stored tile.

        The value is computed into the buffer of another variable of its shape and type if no later statement reads that
        buffer, and if each element of the value reads only the element of the buffer that it replaces. Otherwise it
        gets another buffer.

        Example:
            # Either statement is the last that reads a.
            b = a + 1.0  # b gets the buffer of a: a[i, j] + 1.0 replaces a[i, j]
            b = a.T      # b gets another: a[j, i] would replace a[i, j], which element [j, i] of b still reads

        Args:
            name: The variable.
            value: Its value, a lazy tile.
            origin: The node of the value, for errors.
        """
        # Reuse the buffer of a variable that is not read any more.
        is_variable = self._lifetimes.assigned[name] > 1  # with several assignments, all write into the same buffer
        variable, statement = self._variable(name), self._statement
        has_one_target = isinstance(statement, ast.AnnAssign) or (
            isinstance(statement, ast.Assign) and len(statement.targets) == 1
        )
        if has_one_target:  # in `b = c = a + 1.0`, c would still read the memory that is reused
            for other, entity in list(self.environment.items()):
                if not isinstance(entity, Tile) or (entity.shape, entity.dtype) != (value.shape, value.dtype):
                    continue
                # `reads` says how the value reads each buffer: with SAME_INDEX, element i only reads element i. A dead
                # buffer that the value does not read is no candidate: `release_dead` releases it after the statement.
                is_replaced_in_place = value.reads.get(entity.buffer) is SAME_INDEX
                if is_replaced_in_place and self._owns_dead_buffer(other, entity):
                    tile = self.stored_tile(entity.buffer, value.shape, value.dtype, is_variable)
                    self.fill(origin, tile, value)
                    self.environment[other] = _ENDED  # its buffer has another value now: a use would be an error
                    self._owners[entity.buffer] = variable
                    return tile
        # No such variable: allocate a buffer.
        tile = self.materialized(origin, value, is_variable)
        self._owners[tile.buffer] = variable
        return tile

    def _owns_dead_buffer(self, name: str, tile: Tile) -> bool:
        """Return whether the buffer of a tile was allocated for the variable `name` of the current function, and no
        statement after the current one reads the buffer.
        """
        if self._statement is None or self._owners.get(tile.buffer) != self._variable(name):
            return False
        others = (entity for other, entity in self.environment.items() if other != name)
        is_read_by_lazy_tile = any(isinstance(entity, Tile) and tile.buffer in entity.reads for entity in others)
        return self._lifetimes.ends(name, self._statement) and not is_read_by_lazy_tile

    def release_dead(self) -> None:
        """Release the buffers that no statement after the current one reads, for reuse by other tiles.

        The variable that such a buffer was allocated for (`_owners`) is marked as ended.
        """
        for name, entity in list(self.environment.items()):
            if isinstance(entity, Tile) and entity.buffer and self._owns_dead_buffer(name, entity):
                del self._owners[entity.buffer]
                self.environment[name] = _ENDED
                self.release(entity)

    def _assign_variable(self, name: str, old: Tile, value: Tile, origin: ast.AST) -> None:
        """Store a new value into the memory of the tile variable `name`, whose stored tile is `old`."""
        if value is old:  # x = x
            return
        if value.shape != old.shape:
            raise self.error(
                origin, f"'{name}' is {described(old)}, and this is {described(value)}", "use another variable"
            )
        self.check_type(origin, value, old.dtype, f"'{name}' is {described(old)}")
        # Lazy tiles of other variables that read the memory are stored first, with its elements before this assignment.
        self.materialize_readers(origin, lambda tile: old.buffer in tile.reads and tile is not value)
        # If the value reads elements of the memory at other indices (x = x.T), storing one would change what another
        # reads: compute the value in a buffer of its own first.
        if value.reads.get(old.buffer, SAME_INDEX) is OTHER_INDEX:
            value = self.materialized(origin, value, is_temporary=True)
        self.fill(origin, old, value)

    def materialize_readers(self, node: ast.AST, which: Callable[[Tile], bool]) -> None:
        """Store the lazy tiles of variables for which `which` is true, before the memory that they read changes."""
        for name, entity in self.environment.items():
            if isinstance(entity, Tile) and not entity.buffer and which(entity):
                self.environment[name] = self.materialized(node, entity)

    def spill_tiles(self, node: ast.stmt, inner: Sequence[ast.AST]) -> None:
        """Materialize tiles before `inner`, the statements of a loop or condition `node`.

        A tile variable that `inner` assigns gets a buffer of its own. Any other lazy tile (computed where it is read)
        is computed here in two cases: `inner` reads the tile, or the tile reads memory that `inner` may change.
        """
        changed, read = assigned_in(inner), read_in(inner)
        for name, entity in self.environment.items():
            if not isinstance(entity, Tile) or entity.is_variable:
                continue
            if name in changed:
                self.environment[name] = self.materialized(node, entity, is_variable=True)
                continue
            is_lazy, reads_memory = not entity.buffer, bool(entity.reads)
            if is_lazy and (name in read or reads_memory):
                self.environment[name] = self.materialized(node, entity)


def snapshot(tile: Tile) -> Tile:
    """Return the value of a tile variable as a lazy tile that reads the variable's buffer, and other tiles unchanged.

    `materialize_readers` stores a lazy tile before the buffer changes, so it keeps the current value.
    """
    return replace(tile, buffer="", is_variable=False) if tile.is_variable else tile
