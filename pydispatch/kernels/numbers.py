"""Common base of the code generators for kernels: source, environment, and conversion of values to numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydispatch.errors import CompileError
from pydispatch.inlining import InlinedCalls
from pydispatch.kernels.arithmetic import TypeMismatch, cast, check_literal, widens
from pydispatch.kernels.entities import Entity, Literal, MemoryRef, NoResult, Scalar, Tile, TupleValue, described
from pydispatch.kernels.source import Source
from pydispatch.kernels.writer import Writer

Environment = dict[str, Entity]
"""Names of a kernel → what they stand for. Flags of exits (`names.BREAK`) have names that end with a space."""

T = TypeVar("T")


class Numbers:
    """Base of the code generators of kernels, each of which emits one kernel as MLIR text from its syntax tree.

    The base has the state of the generation and the conversion of values to numbers. Subclasses add expressions,
    statements, loops and phases; `Phases` and `TileKernel` are the complete generators, one for each style of kernel.

    Attributes:
        source: The function whose statements are emitted: the kernel, or a function that is being inlined.
        writer: Emitter of the current region.
        environment: Value of each local name.
        written: Parameters that the kernel writes.
        read: Parameters whose elements the kernel reads.
        callers: Functions around the one that is being inlined, outermost first.
        inlined_calls: Counter of inlined calls, which bounds the size of the code.
        checks: Whether to check indices against sizes.
        watched: Views whose accesses are checked for races; None: no access is, also none of workgroup memory.
        asserts: Message of each assertion, by its error code.
        imports: Declarations of functions that are linked later, by symbol.
        prints: Lines that a checked kernel prints, `prints.PrintedLine`.
        collective_rule: End of errors about collectives (barriers, reductions) in a wrong position.
    """

    collective_rule = (
        "all invocations of a workgroup come to it together, not within conditions that differ between them"
    )

    def __init__(self, source: Source) -> None:
        """Create a generator that has emitted nothing. For the attributes, see the class."""
        self.source = source
        self.writer = Writer(source)
        self.environment: Environment = {}
        self.written: set[str] = set()
        self.read: set[str] = set()
        self.callers: list[Source] = []  # functions around the one that is being inlined, outermost first
        self.inlined_calls = InlinedCalls()
        self.checks = False  # whether to check indices against sizes
        self.watched: frozenset[str] | None = None  # views whose accesses are checked for races
        self.asserts: dict[int, str] = {}  # error code of an assertion → its message
        self.imports: dict[str, str] = {}  # symbol → declaration of a function that is linked later
        self.prints: list[Any] = []  # lines that a checked kernel prints

    def error(self, node: ast.AST, message: str, note: str) -> CompileError:
        """Return a CompileError at a node. `note` is the remedy."""
        return self.source.error(node, message, note)

    # ---- what subclasses do

    def evaluate(self, node: ast.expr) -> Entity:
        """Emit the operations of an expression, and return its value."""
        raise NotImplementedError

    def position(self, node: ast.AST, kind: str, axis: int) -> Entity:
        """Return the id or size that a function such as global_id gives: `kind` is "global", "local", "group", "size"
        or "grid".
        """
        raise NotImplementedError

    def inlined(self, node: ast.Call, function: Callable[..., Any], arguments: list[Entity]) -> Entity:
        """Emit a call of a Python function by its statements, and return its result."""
        raise NotImplementedError

    def on_access(self, node: ast.AST, memory: MemoryRef, indices: str, is_write: bool) -> None:
        """Handle an access to an element, before it is emitted: record that the kernel reads the view.

        Subclasses add checks. Writes are recorded by `record_write`.

        node: the subscript. indices: SSA names, such as "%3, %zero".
        """
        if not is_write and memory.parameter:
            self.read.add(memory.parameter)

    def on_comparison(self, nodes: Sequence[ast.AST], symbol: str, values: Sequence[Scalar | Literal]) -> None:
        """Handle the comparison `values[0] symbol values[1]` before it is emitted; does nothing unless overridden."""

    def allocated(self, memory: MemoryRef) -> None:
        """Handle an allocation of workgroup memory; does nothing unless overridden."""

    # ---- numbers

    def elementwise(
        self, nodes: Sequence[ast.expr], entities: Sequence[Entity], make: Callable[..., Scalar | Literal]
    ) -> Entity:
        """Return make(*entities), after a check that the entities are numbers.

        `nodes` are their expressions, for messages. A subclass with tiles lets `make` compute each element of a tile.
        """
        return make(*map(self.as_number, nodes, entities))

    def as_number(self, node: ast.AST, entity: Entity) -> Scalar | Literal:
        """Return an entity as a number. Raise CompileError for tuples, views, tiles and Python objects."""
        if isinstance(entity, (Scalar, Literal)):
            return entity
        if isinstance(entity, NoResult):
            raise entity.error
        if isinstance(entity, MemoryRef):
            dims = ", ".join("ijkl"[: len(entity.shape)])
            raise self.error(
                node, f"expected a number, got {described(entity)}", f"read an element: {ast.unparse(node)}[{dims}]"
            )
        remedy = "take one of its elements" if isinstance(entity, TupleValue) else "kernels compute with numbers"
        if isinstance(entity, Tile):
            remedy = "reduce it, pydispatch.max(tile), or choose among elements: pydispatch.where(tile > 0, a, b)"
        raise self.error(node, f"expected a number, got {described(entity)}", remedy)

    def number(self, node: ast.expr) -> Scalar | Literal:
        """Evaluate an expression to a number."""
        return self.as_number(node, self.evaluate(node))

    def condition(self, node: ast.expr, entity: Entity | None = None) -> Scalar | Literal:
        """Evaluate a condition to a value of type i1 or a bool literal. Raise CompileError for other types.

        entity: the value of `node`, if it has been evaluated already.
        """
        value = self.as_number(node, self.evaluate(node) if entity is None else entity)
        if isinstance(value, Literal):
            return Literal(bool(value.value))
        if value.type != "i1":
            raise self.error(node, f"expected a condition, got {value.type}", f"compare it: {ast.unparse(node)} != 0")
        return value

    def number_or_error(self, node: ast.AST, make: Callable[[], T]) -> T:
        """Call `make` and return its result; a TypeMismatch becomes a CompileError at the node."""
        try:
            return make()
        except TypeMismatch as error:
            raise self.error(node, error.args[0], error.args[1]) from None

    def folding(self, node: ast.AST, make: Callable[[], Literal]) -> Literal:
        """Return make(), a number known at compile time; its arithmetic errors become a CompileError at the node."""
        try:
            return make()
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            raise self.error(node, f"{ast.unparse(node)}: {error}", "give other numbers") from None

    def converted(self, node: ast.AST, entity: Entity, type: str, what: str) -> Scalar:
        """Convert a value to the type of its destination, which `what` names in messages.

        Only implicit conversions are allowed: of literals that fit, and of shorter types (`widens`). Raise CompileError
        for others.
        """
        value = self.as_number(node, entity)
        if isinstance(value, Literal):
            self.number_or_error(node, lambda: check_literal(value, type, what))
        elif not widens(value.type, type):
            raise self.error(node, f"{what} is {type}, and this is {value.type}", f"convert it: pydispatch.{type}(...)")
        return cast(self.writer, value, type)
