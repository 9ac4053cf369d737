"""Subscripts of a kernel → loads of elements, with checked indices."""

from __future__ import annotations

import ast

from pydispatch.kernels.arithmetic import binary, cast
from pydispatch.kernels.entities import (
    INTEGERS,
    Entity,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    TupleValue,
    described,
)
from pydispatch.kernels.numbers import Numbers
from pydispatch.locations import quoted

FIRST_CODE = 0x50600000
"""Error code that a workgroup returns if the first assertion of a kernel fails; later ones have successive codes."""


class Subscripts(Numbers):
    """Part of the code generators of kernels: subscripts, which are elements of memory or items of tuples.

    The generators are one chain of subclasses, from `Numbers` to `Phases` and `TileKernel`, so that a class for one
    kind of syntax can call those for others. `Expressions` calls `_subscript` for each subscript that is read.
    """

    def _subscript(self, node: ast.Subscript) -> Entity:
        """Emit the load of an element of memory, or return an item of a tuple.

        The index of a tuple must be known at compile time; -1 is its last item. Raise CompileError for other bases.
        """
        base = self.evaluate(node.value)
        if isinstance(base, MemoryRef):
            indices = self.indices(node.slice, base)
            self.on_access(node, base, indices, is_write=False)
            self.writer.has_effects = True  # it may be out of bounds unless a condition around it holds
            return self.writer.value(f"memref.load {base.name}[{indices}] : {base.type}", base.dtype)
        if isinstance(base, TupleValue):
            index = self.evaluate(node.slice)
            if not isinstance(index, Literal) or not isinstance(index.value, int):
                raise self.error(
                    node.slice,
                    f"the index of a tuple is known when the kernel is compiled, got {described(index)}",
                    "give a number, or choose with if",
                )
            try:
                return base.items[index.value]
            except IndexError:
                raise self.error(
                    node.slice, f"index {index.value} of a tuple of {len(base.items)}", "its first index is 0"
                ) from None
        if isinstance(base, Known):
            raise self.error(
                node,
                f"'{ast.unparse(node.value)}' is an object of Python, whose elements kernels cannot read",
                "give it to the kernel as a view",
            )
        raise self.error(node, f"{described(base)} has no elements", "views and tuples have")

    def indices(self, node: ast.expr, memory: MemoryRef, evaluated: Entity | None = None) -> str:
        """Return the indices of an element as MLIR text, such as `%i, %j`: one index for each dimension of the memory.

        Raise CompileError for slices, for another number of indices, and for an index that is no integer.

        node: the index, or a tuple of indices. evaluated: its value, if it has been evaluated already.
        """
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        if any(isinstance(index, ast.Slice) for index in nodes):
            raise self.error(
                node,
                "slices are tiles, which a workgroup has as a whole, and this kernel says what each invocation does",
                "loop over range(...) and read elements, or use pydispatch.group_id instead of global_id and local_id",
            )
        if evaluated is None:
            entities = [self.evaluate(index) for index in nodes]
        else:
            entities = list(evaluated.items) if isinstance(evaluated, TupleValue) else [evaluated]
        if len(entities) != len(memory.shape):
            names = ", ".join("ijkl"[: len(memory.shape)])  # example in the remedy
            raise self.error(
                node,
                f"{len(entities)} {'index' if len(entities) == 1 else 'indices'} of {described(memory)}",
                f"give one for each dimension: [{names}]",
            )
        components = []
        for dimension, (entity, size) in enumerate(zip(entities, memory.shape, strict=True)):
            # The variable `at` of x[at] may be a tuple: then all indices have the node of the variable.
            part = nodes[dimension] if len(nodes) == len(entities) else node
            components.append(self.index(node, part, entity, size, dimension).name)
        return ", ".join(components)

    def index(self, node: ast.expr, part: ast.expr, entity: Entity, size: Scalar | Literal, dimension: int) -> Scalar:
        """Return the index along one dimension as a value of type index, and emit its check if `checks` is set.

        Raise CompileError for an index that is no integer, or is known at compile time to be out of bounds.

        Args:
            node: All indices, for errors.
            part: The subexpression of `node` that is this index, for the message of the check.
            entity: The value of the index.
            size: Size of the dimension.
            dimension: Number of the dimension, from 0 on.
        """
        value = self.as_number(node, entity)
        if isinstance(value, Literal):
            value = self._known_index(node, value, size, dimension)
        elif value.type not in INTEGERS:
            raise self.error(node, f"an index of {value.type}", "convert it: pydispatch.i32(...)")
        index = cast(self.writer, value, "index")
        # A known index of a known size was checked by `_known_index`.
        if self.checks and not (isinstance(value, Literal) and isinstance(size, Literal)):
            self._check(part, index, size, dimension)
        return index

    def _check(self, node: ast.expr, index: Scalar, size: Scalar | Literal, dimension: int) -> None:
        """Emit an assertion that an index is less than a size, compared as unsigned: a negative index fails, too."""
        extent = cast(self.writer, size, "index")
        inside = self.writer.value(f"arith.cmpi ult, {index.name}, {extent.name} : index", "i1")
        self.emit_assertion(node, inside, f"the index {ast.unparse(node)} is outside of dimension {dimension}")

    def emit_assertion(self, node: ast.AST, condition: Scalar, text: str) -> None:
        """Emit an assertion. If it fails, the workgroup returns an error code that identifies the assertion."""
        code = FIRST_CODE + len(self.asserts)
        self.asserts[code] = message = f"{self.source.location(node)}: {text}"
        self.writer.line(f"cf.assert {condition.name}, {quoted(message)} {{pyd.code = {code} : i32}}")
        self.writer.has_effects = True

    def _known_index(self, node: ast.expr, value: Literal, size: Scalar | Literal, dimension: int) -> Scalar | Literal:
        """Return an index that is known at compile time; to a negative one, which counts from the end, add the size."""
        if not isinstance(value.value, int) or isinstance(value.value, bool):
            raise self.error(node, f"the index {value.value!r} is not a whole number", "write a whole number")
        if isinstance(size, Literal) and not -size.value <= value.value < size.value:
            raise self.error(
                node,
                f"index {value.value} of dimension {dimension}, whose size is {size.value}",
                f"the last one is {int(size.value) - 1}",
            )
        return value if value.value >= 0 else binary(self.writer, "+", size, value)
