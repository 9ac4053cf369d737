"""Interpreter of transform sequences. A handle holds a list of operations, values or parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.match.edit.symbols import Imported
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.graph.view import GraphView
from pydispatch.compiler.match.report import Report
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.transform.dialect import NamedSequenceOp

ENTRIES = ("__transform_main", "__preprocessing_main", "__kernel_config")
"""Names of the sequence that a spec begins with; a spec with several begins with the first of these."""
Env = dict[SSAValue, list[Any]]
"""The contents of each handle: operations, values or parameters."""

Handler = Callable[["Interpreter", Any, Env], None]
"""Executes an operation of the spec: reads the handles of its operands, and sets those of its results."""


class NoMatch(Exception):
    """Signal that a matcher, a named sequence that inspects the program, rejects an operation."""

    def __init__(self, mismatch: Mismatch) -> None:
        """Create the signal; `mismatch` states the reason and how far the matcher got."""
        super().__init__(mismatch.reason)
        self.mismatch = mismatch


class Interpreter:
    """Interpreter that runs one transform spec over one program.

    `apply_one` creates an interpreter for each spec, and calls `run` once. Handlers, functions (interpreter, operation,
    handles), call the other methods.

    Attributes:
        spec: Module with the transform sequences.
        program: Module that they match and change.
        report: Record of what matched and what did not, for the user.
        handlers: Handler of each operation of a spec, by the operation's name.
        name: Name of the spec in messages.
        view: Graph of the program as patterns see it, without operations that compute nothing.
        symbols: Operations of the spec that define symbols, at any depth.
        top_level: Operations at the top of the spec that define symbols.
        include_depth: Number of sequences that are running, one included by the other.
    """

    def __init__(
        self, spec: ModuleOp, program: ModuleOp, report: Report, handlers: Mapping[str, Handler], name: str = ""
    ) -> None:
        """Index the symbols of `spec`; nothing is run yet."""
        self.spec, self.program, self.report, self.name = spec, program, report, name
        self.handlers = handlers
        self.view = GraphView()
        # Symbols at any depth, and those directly in the spec, which come first in look-ups.
        self.symbols = {_symbol(op): op for op in walk(spec) if _symbol(op) and op.parent_op() is not None}
        self.top_level = {_symbol(op): op for op in spec.body.block.ops if _symbol(op)}
        self.imported: Imported = {}  # copies of symbols of the spec in the program
        self.patterns: dict[Operation, Any] = {}  # operation that states a pattern → the pattern
        self.include_depth = 0

    def run(self) -> None:
        """Run the entry point of the spec. Raises CompileError if the spec or its effect is wrong."""
        # The first of the names that an entry point may have.
        entry = next((self.top_level[e] for e in ENTRIES if isinstance(self.top_level.get(e), NamedSequenceOp)), None)
        if entry is None:
            names = [f"@{n}" for n, op in self.top_level.items() if isinstance(op, NamedSequenceOp)]
            raise CompileError(  # the name may be empty, which leaves two spaces
                f"the spec {self.name} has no transform.named_sequence @__transform_main".replace("  ", " "),
                location_of(self.spec), f"sequences: {', '.join(names) or 'none'}",
            )  # fmt: skip
        assert isinstance(entry, NamedSequenceOp)
        try:
            self.call(entry, [[self.program]] if entry.body.block.args else [])
        except NoMatch as rejection:
            self.fail(entry, f"a matcher outside of transform.foreach_match said no: {rejection.mismatch.reason}")

    def call(self, sequence: NamedSequenceOp, arguments: Sequence[list[Any]]) -> list[list[Any]]:
        """Run a named sequence and return the contents of the handles that it yields. Raises CompileError for deep
        recursion.
        """
        block = sequence.body.block
        if len(arguments) != len(block.args):
            self.fail(sequence, f"@{sequence.sym_name.data} takes {len(block.args)} handle(s), got {len(arguments)}")
        self.include_depth += 1
        if self.include_depth > 100:  # deeper than any spec nests its sequences: taken for endless recursion
            self.fail(sequence, f"@{sequence.sym_name.data} includes itself")
        env: Env = dict(zip(block.args, arguments, strict=True))
        try:
            return self.block(block, env)
        finally:
            self.include_depth -= 1

    def block(self, block: Block, env: Env) -> list[list[Any]]:
        """Run the operations of a block, and return the contents of the handles that it yields; none without a
        yield.

        Args:
            block: Body of a sequence or of an operation.
            env: Contents of the handles that are defined so far; the results of the operations are added.
        """
        for op in block.ops:
            if op.name in ("transform.yield", "transform.match.structured.yield"):
                return [env[v] for v in op.operands]
            handler = self.handlers.get(op.name)
            if handler is None:
                self.fail(op, f"'{op.name}' is not allowed in a sequence", "it describes the program, not what to do")
            handler(self, op, env)
        return []

    def sequence(self, op: Operation, reference: SymbolRefAttr) -> NamedSequenceOp:
        """Return the named sequence that `reference`, an attribute of `op`, names. Raises CompileError for others."""
        name = reference.root_reference.data
        # The top of the spec is searched first: symbols of nested modules may have the same names.
        sequence = self.top_level.get(name) or self.symbols.get(name)
        if not isinstance(sequence, NamedSequenceOp):
            names = [f"@{n}" for n, s in self.symbols.items() if isinstance(s, NamedSequenceOp)]
            self.fail(op, f"there is no sequence '@{name}'", f"sequences: {', '.join(names) or 'none'}")
        return sequence

    def fail(self, op: Operation, message: str, note: str | None = None) -> NoReturn:
        """Raise CompileError at an operation of the spec."""
        raise CompileError(message, location_of(op), note)

    def ops(self, op: Operation, env: Env, index: int = 0) -> list[Operation]:
        """Return the operations of the program that operand `index` of `op` denotes.

        `op` is an operation of the spec. Its operand is a handle: an SSA value of the spec that denotes a list of
        items of the program, which `env` maps it to. Raises CompileError if an item is no operation or has been erased.
        """
        return self.operations_of(op, env[op.operands[index]])

    def operations_of(self, op: Operation, held: list[Any]) -> list[Operation]:
        """Return `held`, the contents of a handle, as operations.

        Raises CompileError at `op`, which uses the handle, if an item is no operation or has been erased.
        """
        for item in held:
            if not isinstance(item, Operation):
                self.fail(op, f"'{op.name}' needs a handle of operations, this one holds "
                          f"{'values' if isinstance(item, SSAValue) else 'numbers'}")  # fmt: skip
            if self.is_erased(item):
                self.fail(op, f"'{op.name}' uses a handle of an operation that is gone",
                          "an earlier step erased or replaced it: use the handle before that step")  # fmt: skip
        return held

    def is_erased(self, op: Operation) -> bool:
        """Return whether an operation of the program is no longer in it."""
        return op is not self.program and op.parent is None

    def one(self, op: Operation, env: Env, index: int = 0) -> Operation:
        """Return the only operation that operand `index` of `op` denotes. Raises CompileError for another number."""
        ops = self.ops(op, env, index)
        if len(ops) != 1:
            self.fail(op, f"'{op.name}' needs a handle of one operation, this one holds {len(ops)}")
        return ops[0]

    def value(self, op: Operation, held: list[Any]) -> SSAValue:
        """Return the only value of `held`, the contents of a handle. Raises CompileError at `op` for other contents."""
        if len(held) != 1 or not isinstance(held[0], SSAValue):
            self.fail(op, f"'{op.name}' needs a handle of one value, this one holds {len(held)}")
        return held[0]

    def forget_users(self, value: SSAValue) -> None:
        """Remove the nodes of a value's users, and of the operations around them, from the view for matching.

        Callers change these uses afterwards. The node of an operation with regions depends on the operations inside.
        """
        for use in value.uses:
            user: Operation | None = use.operation
            while user is not None and user is not self.program:
                self.view.forget(user)
                user = user.parent_op()


NOTHING_AGREES, OPERATION_AGREES, STRUCTURE_AGREES = range(3)
"""Depths of a mismatch: `op` is another operation; it is the wanted one, but another part differs; only a type, a size
or a body differs."""


def reject(reason: str, op: Operation | None, depth: int = OPERATION_AGREES) -> NoReturn:
    """Raise NoMatch: a matcher rejects an operation.

    Args:
        reason: Why, for reports.
        op: The operation; None if the matcher rejects a value or number.
        depth: How much matched before, one of the constants `..._AGREES`. Reports show the reasons of the greatest
            depth.
    """
    raise NoMatch(Mismatch(depth, reason, op))


def _symbol(op: Operation) -> str:
    """Return the name of the symbol that an operation defines; "" for none."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    return name.data if isinstance(name, StringAttr) else ""
