"""Assignments in a kernel: values of variables, stores to elements of memory, and the conversions of both."""

from __future__ import annotations

import ast
from dataclasses import replace

from pydispatch.kernels.arithmetic import binary, cast, default_type
from pydispatch.kernels.entities import (
    Entity,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    TupleValue,
    described,
    scalars_in,
)
from pydispatch.kernels.expressions import BINARY, Expressions
from pydispatch.patterns.types import TensorType


class Assignments(Expressions):
    """Part of the code generators of kernels: assignments to variables and to elements of memory.

    `Statements` calls the method that is named after the class of a statement. A variable has no memory: it is bound to
    the SSA value that was assigned last.
    """

    def _assign_statement(self, node: ast.Assign) -> None:
        """Emit `a = value` or `a = b = value`; the value is evaluated once."""
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def _annassign_statement(self, node: ast.AnnAssign) -> None:
        """Emit `name: dtype = value`: convert the value to the stated type, and assign it to a variable."""
        from pydispatch.kernels.annotations import type_of

        if not isinstance(node.target, ast.Name) or node.value is None:
            raise self.error(node, "a type is given where a variable begins", "write name: pydispatch.f32 = value")
        meaning = self.evaluate(node.annotation)
        type = type_of(meaning.value) if isinstance(meaning, Known) else None
        if not isinstance(type, TensorType) or type.shape is not None:  # the type of a number has no shape
            raise self.error(
                node.annotation, f"'{ast.unparse(node.annotation)}' is no type of a number", "write pydispatch.f32"
            )
        value = cast(self.writer, self.number(node.value), type.dtype)
        self.assign(node.target, value, node.value)

    def _augassign_statement(self, node: ast.AugAssign) -> None:
        """Emit an augmented assignment such as `x[i] += y` or `x += y`."""
        if isinstance(node.target, ast.Subscript):
            memory = self._memory(node.target)
            indices = self.indices(node.target.slice, memory)  # evaluated once, for the load and the store
            self.on_access(node.target, memory, indices, is_write=False)  # emits the checks of a checked kernel
            old = self.writer.value(f"memref.load {memory.name}[{indices}] : {memory.type}", memory.dtype)
            self._store(node.target, memory, indices, self._combined(node, old), node)
            return
        if not isinstance(node.target, ast.Name):
            raise self.error(
                node.target, "only variables and elements are changed in place", "change an element of a view"
            )
        self.assign(node.target, self._combined(node, self.evaluate(node.target)), node)

    def _combined(self, node: ast.AugAssign, old: Entity) -> Entity:
        """Return the new value of the target of an augmented assignment such as `x += y`.

        old: the value of the target (x) before.
        """
        symbol, value = BINARY.get(type(node.op)), self.evaluate(node.value)
        if symbol is None:  # `@=`, the only operator that BINARY lacks
            return self.matrix_product(node, old, value)

        def combined() -> Entity:
            """Return the old value of the target combined with the operand `value` by the operator of the statement."""
            return self.elementwise(
                (node.target, node.value), (old, value), lambda a, b: binary(self.writer, symbol, a, b)
            )

        return self.number_or_error(node, combined)

    def assign(self, target: ast.expr, value: Entity, origin: ast.AST) -> None:
        """Assign a value to a variable, to an element of memory, or item by item to a tuple of these.

        origin: the expression of the value, which error messages point at.
        """
        if isinstance(target, ast.Tuple):
            if not isinstance(value, TupleValue) or len(value.items) != len(target.elts):
                raise self.error(
                    target, f"{len(target.elts)} names for {described(value)}", "give one name for each value"
                )
            # The items of `a, b = x, y` have expressions of their own; those of `a, b = pair` have not.
            item_origins = origin.elts if isinstance(origin, ast.Tuple) else [origin] * len(target.elts)
            for element, item, item_origin in zip(target.elts, value.items, item_origins, strict=True):
                self.assign(element, item, item_origin)
        elif isinstance(target, ast.Subscript):
            memory = self._memory(target)
            self._store(target, memory, self.indices(target.slice, memory), value, origin)
        elif isinstance(target, ast.Name):
            self.bind(target, value, origin)
        else:
            raise self.error(
                target, f"'{ast.unparse(target)}' cannot be assigned", "assign variables and elements of views"
            )

    def bind(self, target: ast.Name, value: Entity, origin: ast.AST) -> None:
        """Assign a value to a local variable.

        A variable has the type of its first value: later values are converted to it, or raise CompileError. origin: the
        expression of the value, which error messages point at.
        """
        self.check_name(target)
        name, old = target.id, self.environment.get(target.id)
        # `scalars_in` returns None for a tuple with a view or an untyped number, which has no types to convert to.
        if isinstance(old, (Scalar, TupleValue)) and scalars_in(old) is not None:
            value = self._converted_like(origin, old, value, f"'{name}'")
        else:
            value = self.with_default_types(origin, value)
        self.environment[name] = value

    def check_name(self, target: ast.Name) -> None:
        """Raise CompileError for a variable that would hide memory, or a value known when the kernel is compiled."""
        name, old = target.id, self.environment.get(target.id)
        remedy = "give the variable another name"
        if isinstance(old, MemoryRef):
            if old.parameter:
                kind = "a view"
            else:
                kind = described(old) if old.is_private else "workgroup memory"
                remedy += "; to exchange two arrays, use one with a first dimension of 2, and an index"
        elif name in self.static_names:
            kind = "known when the kernel is compiled"
        else:
            return
        raise self.error(target, f"'{name}' is {kind}, and cannot be assigned", remedy)

    static_names: frozenset[str] = frozenset()
    """Parameters whose values are known when the kernel is compiled."""

    def with_default_types(self, node: ast.AST, value: Entity) -> Entity:
        """Return a value in which every number without a type (Literal) has been cast to its default type."""
        if isinstance(value, Literal):
            return self.number_or_error(node, lambda: cast(self.writer, value, default_type(value)))
        if isinstance(value, TupleValue):
            return replace(value, items=tuple(self.with_default_types(node, item) for item in value.items))
        return value

    def _converted_like(self, node: ast.AST, old: Entity, value: Entity, what: str) -> Entity:
        """Convert a value to the type of a variable's old value; tuples are converted item by item.

        what: names the value in error messages.
        """
        if isinstance(old, TupleValue):
            if not isinstance(value, TupleValue) or len(value.items) != len(old.items):
                raise self.error(
                    node, f"{what} is {described(old)}, and this is {described(value)}", "use another variable"
                )
            pairs = zip(old.items, value.items, strict=True)  # (old value, value) of each item
            return replace(old, items=tuple(self._converted_like(node, *pair, f"a part of {what}") for pair in pairs))
        assert isinstance(old, Scalar)
        return self.converted(node, value, old.type, what)

    def _memory(self, target: ast.Subscript) -> MemoryRef:
        """Return the memory whose element a subscript assigns. Raise CompileError if the base is no memory."""
        memory = self.evaluate(target.value)
        if not isinstance(memory, MemoryRef):
            raise self.error(target, f"elements of {described(memory)} cannot be assigned", "assign elements of views")
        return memory

    def _store(self, target: ast.Subscript, memory: MemoryRef, indices: str, value: Entity, origin: ast.AST) -> None:
        """Emit a store of one element, after converting the value to the type of the memory.

        indices: SSA names of the element's indices, such as "%i, %j". origin: expression of the value, for errors.
        """
        stored = self.converted(origin, value, memory.dtype, f"an element of '{ast.unparse(target.value)}'")
        self.record_write(target, memory)  # a written view is a result of the kernel
        self.on_access(target, memory, indices, is_write=True)  # emits the checks of a checked kernel, before the store
        self.writer.line(f"memref.store {stored.name}, {memory.name}[{indices}] : {memory.type}")
        self.writer.has_effects = True
