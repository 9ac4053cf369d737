"""Statements of a kernel between two barriers → structured control flow."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.arithmetic import binary, cast, default_type
from pydispatch.kernels.entities import (
    Entity,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    TupleValue,
    Undefined,
    described,
    flat,
    is_number,
    rebuilt,
)
from pydispatch.kernels.expressions import BINARY, Expressions
from pydispatch.kernels.names import exits_of, targets_of
from pydispatch.kernels.numbers import Environment
from pydispatch.kernels.source import Source
from pydispatch.kernels.writer import Writer

BREAK, CONTINUE, RETURN, RESULT = "break ", "continue ", "return ", "result "
"""Variables that no program can name: whether a loop, an iteration, a function has ended, and what it returns."""
EXITS: dict[type[ast.stmt], str] = {ast.Break: BREAK, ast.Continue: CONTINUE, ast.Return: RETURN}


class Statements(Expressions):
    """Code generator for statements that each invocation executes on its own."""

    def block(self, statements: Sequence[ast.stmt], at_end: frozenset[str] = frozenset()) -> None:
        """Emit statements in order; the statements after one that may exit are guarded by the flag of that exit.

        at_end: exits (`RETURN`, `CONTINUE`) that need no flag, because no statement follows the block.
        """
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            with self.writer.at(self.source, statement):
                if isinstance(statement, tuple(EXITS)):
                    return self._exit(statement, at_end)
                exits = exits_of(statement)
                if isinstance(statement, ast.If) and exits:
                    return self._if_with_exits(statement, rest, at_end)
                self.statement(statement)
            if exits:
                return self._guard_by_exits(exits, rest, at_end)
        return None

    def statement(self, node: ast.stmt) -> None:
        """Emit one statement. Raise CompileError for a kind of statement that kernels do not have."""
        method = getattr(self, f"_{type(node).__name__.lower()}_statement", None)
        if method is None:
            raise self.error(
                node,
                f"'{ast.unparse(node).split()[0].rstrip(':')}' is not a part of kernels",
                _REMEDIES.get(type(node), "kernels have =, if, for, while, return, break, continue and assert"),
            )
        method(node)

    # ---- exits

    def _exit(self, node: ast.stmt, at_end: frozenset[str]) -> None:
        """Set the flag of a break, continue or return, unless the exit does nothing at the end of its block."""
        name = EXITS[type(node)]
        if isinstance(node, ast.Return):
            self._result(node)
        if name not in at_end:
            self.environment[name] = self.writer.constant(True, "i1")

    def _result(self, node: ast.Return) -> None:
        """Record the value that an inlined function returns.

        Raise CompileError if a kernel, or a second return, gives a value.
        """
        if not self.calling:
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                raise self.error(node, "a kernel returns nothing", "store into a view that is a parameter")
            return
        value = Known(None) if node.value is None else self.evaluate(node.value)
        if RESULT in self.environment and not isinstance(self.environment[RESULT], Undefined):
            raise self.error(node, "a function is left once on each way", "move the return to the end")
        self.environment[RESULT] = value

    def _if_with_exits(self, node: ast.If, rest: Sequence[ast.stmt], at_end: frozenset[str]) -> None:
        """Lower an `if` that contains exits, together with the statements after it.

        If one branch always exits, the statements after the `if` move into the other branch and need no exit flag.
        Otherwise they are guarded by the flags of the exits.
        """
        then, other = list(node.body), list(node.orelse)
        if _ends(then) or _ends(other):
            if not _ends(then):
                then += rest
            elif not _ends(other):
                other += rest
            self._branches(node, then, other, at_end)
            return
        self._branches(node, then, other, frozenset())
        self._guard_by_exits(exits_of(node), rest, at_end)

    def _guard_by_exits(self, exits: Iterable[str], rest: Sequence[ast.stmt], at_end: frozenset[str]) -> None:
        """Emit the rest of a block, guarded by a test that none of the exits was taken."""
        if not rest:
            return None
        left: Scalar | Literal = Literal(False)
        for name in sorted(exits):
            flag = self.environment.get(name)
            if isinstance(flag, Scalar):
                left = flag if isinstance(left, Literal) else self._either(left, flag)
        if isinstance(left, Literal):
            return self.block(rest, at_end)
        true = self.writer.constant(True, "i1")
        stays = self.writer.value(f"arith.xori {left.name}, {true.name} : i1", "i1")
        return self._choose(rest[0], stays, lambda: self.block(rest, at_end), lambda: None)

    def _either(self, lhs: Scalar, rhs: Scalar) -> Scalar:
        return self.writer.value(f"arith.ori {lhs.name}, {rhs.name} : i1", "i1")

    # ---- assignments

    def _assign_statement(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def _annassign_statement(self, node: ast.AnnAssign) -> None:
        """Emit `name: dtype = value`: the first assignment of a variable, with its type stated."""
        from pydispatch.kernels.annotations import type_of

        if not isinstance(node.target, ast.Name) or node.value is None:
            raise self.error(node, "a type is given where a variable begins", "write name: pydispatch.f32 = value")
        meaning = self.evaluate(node.annotation)
        type = type_of(meaning.value) if isinstance(meaning, Known) else None
        if type is None or getattr(type, "shape", ()) is not None:
            raise self.error(
                node.annotation, f"'{ast.unparse(node.annotation)}' is no type of a number", "write pydispatch.f32"
            )
        value = cast(self.writer, self.number(node.value), type.dtype)  # type: ignore[union-attr]
        self.assign(node.target, value, node.value)

    def _augassign_statement(self, node: ast.AugAssign) -> None:
        """Emit an augmented assignment, of an element of memory or of a variable."""
        if isinstance(node.target, ast.Subscript):
            memory = self._memory(node.target)
            indices = self.indices(node.target.slice, memory)
            self.accessed(node.target, memory, indices, is_write=False)
            old = self.writer.value(f"memref.load {memory.name}[{indices}] : {memory.type}", memory.dtype)
            self._store(node.target, memory, indices, self._combined(node, old), node)
            return
        if not isinstance(node.target, ast.Name):
            raise self.error(
                node.target, "only variables and elements are changed in place", "change an element of a view"
            )
        self.assign(node.target, self._combined(node, self.evaluate(node.target)), node)

    def _combined(self, node: ast.AugAssign, old: Entity) -> Entity:
        """Return the new value of the target of an augmented assignment, from its old value."""
        symbol, value = BINARY.get(type(node.op)), self.evaluate(node.value)
        if symbol is None:
            return self.matrix_product(node, old, value)

        def combined() -> Entity:
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
            parts = origin.elts if isinstance(origin, ast.Tuple) else [origin] * len(target.elts)
            for element, item, part in zip(target.elts, value.items, parts, strict=True):
                self.assign(element, item, part)
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

        A variable has the type of its first value: later values are converted to it, or raise CompileError.
        """
        self.check_name(target)
        name, old = target.id, self.environment.get(target.id)
        if isinstance(old, (Scalar, TupleValue)) and flat(old) is not None:
            value = self._converted_like(origin, old, value, f"'{name}'")
        else:
            value = self._with_default_types(origin, value)
        self.environment[name] = value

    def check_name(self, target: ast.Name) -> None:
        """Refuse a variable that would hide memory, or a value known when the kernel is compiled."""
        name, old = target.id, self.environment.get(target.id)
        what = ""
        if isinstance(old, MemoryRef):
            what = "a view" if old.parameter else described(old) if old.is_private else "workgroup memory"
        elif name in self.fixed:
            what = "known when the kernel is compiled"
        if what:
            raise self.error(target, f"'{name}' is {what}, and cannot be assigned", "give the variable another name")

    fixed: frozenset[str] = frozenset()
    """Parameters whose values are known when the kernel is compiled."""

    def _with_default_types(self, node: ast.AST, value: Entity) -> Entity:
        """Return a value in which every bare number has been cast to its default type."""
        if isinstance(value, Literal):
            return cast(self.writer, value, default_type(value))
        if isinstance(value, TupleValue):
            return replace(value, items=tuple(self._with_default_types(node, item) for item in value.items))
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
            pairs = zip(old.items, value.items, strict=True)
            return replace(old, items=tuple(self._converted_like(node, *pair, f"a part of {what}") for pair in pairs))
        assert isinstance(old, Scalar)
        return self.converted(node, value, old.type, what)

    def _memory(self, target: ast.Subscript) -> MemoryRef:
        """Return the memory whose element a subscript assigns.

        Raise CompileError if it is no view or workgroup memory.
        """
        memory = self.evaluate(target.value)
        if not isinstance(memory, MemoryRef):
            raise self.error(target, f"elements of {described(memory)} cannot be assigned", "assign elements of views")
        return memory

    def _store(self, target: ast.Subscript, memory: MemoryRef, indices: str, value: Entity, origin: ast.AST) -> None:
        """Emit a store of one element, after converting the value to the type of the memory."""
        stored = self.converted(origin, value, memory.dtype, f"an element of '{ast.unparse(target.value)}'")
        self.writes(target, memory)
        self.accessed(target, memory, indices, is_write=True)
        self.writer.line(f"memref.store {stored.name}, {memory.name}[{indices}] : {memory.type}")
        self.writer.has_effects = True

    # ---- choices

    def _if_statement(self, node: ast.If) -> None:
        self._branches(node, node.body, node.orelse, frozenset())

    def _branches(
        self, node: ast.If, then: Sequence[ast.stmt], other: Sequence[ast.stmt], at_end: frozenset[str]
    ) -> None:
        """Emit an `if`. With a condition known at compile time only the branch taken is emitted."""
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            self.block(then if condition.value else other, at_end)
            return
        self._choose(node, condition, lambda: self.block(then, at_end), lambda: self.block(other, at_end))

    def _choose(self, node: ast.AST, condition: Scalar, then: Callable[[], None], other: Callable[[], None]) -> None:
        """Emit an scf.if whose results are the new values of the variables that a branch changes.

        then, other: emit the statements of the two branches.
        """
        outer, before = self.writer, self.environment
        writers, environments = [], []
        for branch in (then, other):
            self.writer, self.environment = outer.nested(), dict(before)
            branch()
            writers.append(self.writer)
            environments.append(self.environment)
        self.writer, self.environment = outer, before
        changed = [
            name
            for name in dict.fromkeys((*environments[0], *environments[1]))
            if environments[0].get(name) is not environments[1].get(name)
        ]
        values: list[tuple[str, list[Entity]]] = []
        for name in changed:
            pair = [self._value_after_branch(name, environment) for environment in environments]
            if any(environment is None or not is_number(environment) for environment in pair):
                line = self.source.location(node).line
                before[name] = Undefined(f"has no value on every way from the condition in line {line}")
                continue
            writers_of = [writer.at(self.source, node) for writer in writers]
            with writers_of[0], writers_of[1]:
                values.append((name, self.unified(node, writers, [e for e in pair if e is not None])))
        types = [scalar.type for _, pair in values for scalar in flat(pair[0]) or []]
        if types:
            for index, writer in enumerate(writers):
                names = [scalar.name for _, pair in values for scalar in flat(pair[index]) or []]
                writer.line(f"scf.yield {', '.join(names)} : {', '.join(types)}")
        head, results = outer.results(types)
        result_types = f" -> ({', '.join(types)})" if types else ""
        outer.branches(f"{head}scf.if {condition.name}{result_types}", *writers)
        self._bind_results(before, [(name, pair[0]) for name, pair in values], results)

    def _value_after_branch(self, name: str, environment: Environment) -> Entity | None:
        """Return the value of a variable at the end of a branch, or None.

        The flag of an exit that the branch lacks is false.
        """
        value = environment.get(name)
        return Literal(False) if value is None and name in (BREAK, CONTINUE, RETURN) else value

    @staticmethod
    def _bind_results(environment: Environment, forms: Iterable[tuple[str, Entity]], results: Sequence[Scalar]) -> None:
        """Bind variables to results of a region. forms: (name, earlier value), whose number of scalars and nesting
        are kept.
        """
        left = iter(results)
        for name, form in forms:
            environment[name] = rebuilt(form, [next(left) for _ in flat(form) or []])

    # ---- the rest

    def _expr_statement(self, node: ast.Expr) -> None:
        """Evaluate a call; skip a docstring, and refuse other expressions, which have no effect."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        if isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Await)):
            self.evaluate(node.value)
        if not isinstance(node.value, ast.Call):
            raise self.error(node, f"'{ast.unparse(node)}' does nothing", "assign it")
        self.evaluate(node.value)

    def _pass_statement(self, node: ast.Pass) -> None:
        pass

    def _assert_statement(self, node: ast.Assert) -> None:
        """Emit an `assert` with its message, or the text of its condition."""
        condition = cast(self.writer, self.condition(node.test), "i1")
        text = str(node.msg.value) if isinstance(node.msg, ast.Constant) else ast.unparse(node.test)
        self.stated(node, condition, text)

    def inlined(self, node: ast.Call, function: Callable[..., Any], arguments: list[Entity]) -> Entity:
        """Inline a call of a Python function: lower its statements in place of the call, and return its result."""
        if any(function is source.function for source in self.calling) or function is self.source.function:
            raise self.error(node, f"'{function.__name__}' calls itself", "kernels have no recursion: write a loop")
        if (fault := self.inlined_calls.fault(function.__name__)) is not None:
            raise self.error(node, *fault)
        try:
            source = Source(function, "function")
        except InvalidArgumentError as error:
            raise self.error(node, str(error), "write a function with def, in a file or a notebook's cell") from None
        unwanted = source.unwanted()
        if unwanted is not None:
            raise source.error(unwanted, f"parameter '{unwanted.arg}' of '{function.__name__}' is not a plain one",
                               "name each parameter: no *, / and **")  # fmt: skip
        names = [parameter.arg for parameter in source.tree.args.args]
        if node.keywords or len(arguments) != len(names):
            raise self.error(
                node,
                f"'{function.__name__}' takes {len(names)} argument{'s'[: len(names) != 1]} in order, "
                f"got {len(arguments)}",
                f"give {', '.join(names)}" if names else "give none",
            )
        saved = self.source, self.environment, self.fixed
        self.calling.append(self.source)
        self.source, self.fixed = source, frozenset()
        self.environment = dict(zip(names, arguments, strict=True))
        try:
            with self.writer.at(source, source.tree):
                self.block(source.body, frozenset({RETURN}))
            result = self.environment.get(RESULT, Known(None))
        finally:
            self.source, self.environment, self.fixed = saved
            self.calling.pop()
        if isinstance(result, Undefined):
            raise source.error(
                source.tree, f"'{function.__name__}' returns a value on some ways only", "end with a return"
            )
        return result


def _ends(statements: Sequence[ast.stmt]) -> bool:
    """Return whether every path through a block ends in an exit, so that no statement after it runs."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, tuple(EXITS))


_REMEDIES: dict[type[ast.AST], str] = {
    ast.Match: "write if and elif",
    ast.With: "there are no contexts in kernels",
    ast.Try: "there are no exceptions in kernels: test for the condition",
    ast.Raise: "use assert",
    ast.FunctionDef: "define functions outside the kernel",
    ast.Import: "import outside the kernel",
    ast.ImportFrom: "import outside the kernel",
    ast.Global: "give what it needs as parameters",
    ast.Nonlocal: "give what it needs as parameters",
    ast.Delete: "variables need not be deleted",
    ast.ClassDef: "define classes outside the kernel",
}

__all__ = ["Statements", "Writer", "targets_of"]
