"""Statements of a kernel between two barriers → structured control flow."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.kernels.arithmetic import cast
from pydispatch.kernels.assignments import Assignments
from pydispatch.kernels.entities import (
    Entity,
    Known,
    Literal,
    NoResult,
    Scalar,
    TupleValue,
    Undefined,
    is_number,
    known,
    rebuilt,
    scalars_in,
)
from pydispatch.kernels.names import BREAK, CONTINUE, EXITS, RETURN, exits_of, returns_value
from pydispatch.kernels.numbers import Environment
from pydispatch.kernels.source import Source

RESULT = "result "
"""Name of the value that an inlined function returns, which is any number on paths that have not returned. No variable
has this name, since it ends with a space."""
EXITED = "exited "
"""Name of `_MARKER` where every path has taken an exit, so that no statement that follows in the block runs."""
_NONE, _MARKER = Known(None), Known(value=True)
"""Result of an inlined function that returns no value; value of `EXITED`."""


class Statements(Assignments):
    """Part of the code generators of kernels: statements between two barriers, conditions and inlined calls.

    `block` is the entry: it emits statements in order. A variable that a branch changes becomes a result of the
    `scf.if`. Code after a `return`, `break` or `continue` in a branch is guarded by a flag that the exit sets.
    """

    def block(self, statements: Sequence[ast.stmt], exits_without_flag: frozenset[str] = frozenset()) -> None:
        """Emit statements in order; the statements after one that may exit are guarded by the flag of that exit.

        exits_without_flag: exits (`RETURN`, `CONTINUE`) that set no flag, because no statement follows the block.
        """
        for index, statement in enumerate(statements):
            following = statements[index + 1 :]
            with self.writer.at(self.source, statement):
                if isinstance(statement, tuple(EXITS)):  # the statements after it never run
                    return self._exit(statement, exits_without_flag)
                exits = exits_of(statement)
                if isinstance(statement, ast.If) and exits:
                    return self._if_with_exits(statement, following, exits_without_flag)
                self.statement(statement)
            if exits:
                return self._guard_by_exits(exits, following, exits_without_flag)
        return None

    def statement(self, node: ast.stmt) -> None:
        """Emit one statement. Raise CompileError for a kind of statement that kernels do not have."""
        # Such as `_augassign_statement` for ast.AugAssign.
        method = getattr(self, f"_{type(node).__name__.lower()}_statement", None)
        if method is None:
            raise self.error(
                node,
                f"'{ast.unparse(node).split()[0].rstrip(':')}' is not a part of kernels",
                _REMEDIES.get(type(node), "kernels have =, if, for, while, return, break, continue and assert"),
            )
        method(node)

    # ---- exits

    def _exit(self, node: ast.stmt, exits_without_flag: frozenset[str]) -> None:
        """Set the flag of a break, continue or return, unless no statement follows; record a returned value.

        exits_without_flag: exits (`RETURN`, `CONTINUE`) after which no statement follows.
        """
        name = EXITS[type(node)]
        self.environment[EXITED] = _MARKER
        if isinstance(node, ast.Return):
            self._result(node)
        if name not in exits_without_flag:
            self.environment[name] = self.writer.constant(value=True, type="i1")

    def _result(self, node: ast.Return) -> None:
        """Record the value that an inlined function returns as the variable `RESULT`.

        Raise CompileError for a kernel that returns a value.
        """
        is_inlining = bool(self.callers)
        if not is_inlining:
            if returns_value(node):
                raise self.error(node, "a kernel returns nothing", "store into a view that is a parameter")
            return
        self.environment[RESULT] = self.evaluate(node.value) if node.value and returns_value(node) else _NONE

    def _if_with_exits(self, node: ast.If, following: Sequence[ast.stmt], exits_without_flag: frozenset[str]) -> None:
        """Lower an `if` that contains exits (return, break, continue), together with the statements after it.

        `following` are the statements after the `if` in its block.
        If one branch always exits, `following` moves into the other branch and needs no exit flag:

            if c:                    if c:
                return                   pass
            y[i] = 1                 else:
                                         y[i] = 1

        Otherwise they are guarded by the flags of the exits, so that all exits in the branches set theirs:

            if c:                    returned = False
                if d:                if c:
                    return               if d:
                x[i] = 0                     returned = True
            y[i] = 1                     else:
                                             x[i] = 0
                                     if not returned:
                                         y[i] = 1

        exits_without_flag: exits (`RETURN`, `CONTINUE`) that set no flag, because nothing runs after `following`.
        """
        # One branch always exits: the statements move into the other one, if that does not exit as well.
        then, other = list(node.body), list(node.orelse)
        if _ends(then) or _ends(other):
            if not _ends(then):
                then += following
            elif not _ends(other):
                other += following
            self._branches(node, then, other, exits_without_flag)
            return
        # Otherwise: flags, and a guard.
        self._branches(node, then, other, exits_without_flag=frozenset())
        self._guard_by_exits(exits_of(node), following, exits_without_flag)

    def _guard_by_exits(
        self, exits: Iterable[str], following: Sequence[ast.stmt], exits_without_flag: frozenset[str]
    ) -> None:
        """Emit the `following` statements of a block, guarded by a test that no exit before them was taken.

        For one exit, with the flag %4, they are in the branch of `scf.if` on the negation of %4.

        exits: names of the flags of these exits. A flag is an i1 value that is true if the exit was taken; one that is
        not in the environment was not set on any path. exits_without_flag: exits (`RETURN`, `CONTINUE`) in `following`
        that set no flag, because nothing runs after `following`.
        """
        if not following or self.environment.get(EXITED) is _MARKER:
            return None
        has_left: Scalar | Literal = Literal(value=False)
        for name in sorted(exits):
            flag = self.environment.get(name)
            if isinstance(flag, Scalar):
                has_left = flag if isinstance(has_left, Literal) else self._either(has_left, flag)
        if isinstance(has_left, Literal):  # no flag was set: the statements need no guard
            return self.block(following, exits_without_flag)
        true = self.writer.constant(value=True, type="i1")
        stays = self.writer.value(f"arith.xori {has_left.name}, {true.name} : i1", "i1")
        return self._choose(
            following[0],
            stays,
            then=lambda: self.block(following, exits_without_flag),
            other=lambda: self.environment.update({EXITED: _MARKER}),
        )

    def _either(self, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Emit the disjunction of two conditions."""
        return self.writer.value(f"arith.ori {lhs.name}, {rhs.name} : i1", "i1")

    # ---- conditions

    def _if_statement(self, node: ast.If) -> None:
        """Emit an `if` without exits in its branches."""
        self._branches(node, node.body, node.orelse, exits_without_flag=frozenset())

    def _branches(
        self, node: ast.If, then: Sequence[ast.stmt], other: Sequence[ast.stmt], exits_without_flag: frozenset[str]
    ) -> None:
        """Emit an `if`. With a condition known at compile time only the branch taken is emitted.

        then, other: statements of the branches; `other` is empty without an else. exits_without_flag: exits in them
        (`RETURN`, `CONTINUE`) that set no flag, because nothing runs after them. Any other exit sets a flag, an i1
        value that guards the statements after it.
        """
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            self.block(then if condition.value else other, exits_without_flag)
            return
        self._choose(
            node,
            condition,
            then=lambda: self.block(then, exits_without_flag),
            other=lambda: self.block(other, exits_without_flag),
        )

    def _choose(self, node: ast.AST, condition: Scalar, then: Callable[[], None], other: Callable[[], None]) -> None:
        """Emit an scf.if whose results are the new values of the variables that a branch changes.

        With %1 for the value of y before it, `if c: y = y + z` becomes:

            %3 = scf.if %c -> (f32) {
              %2 = arith.addf %1, %z : f32
              scf.yield %2 : f32
            } else {
              scf.yield %1 : f32
            }

        A variable that has a number in one branch only is undefined afterwards, unless the other branch takes an exit.

        Args:
            node: The `if`, for errors.
            condition: Value of type i1.
            then: Emits the statements of the first branch.
            other: Emits those of the second branch.
        """
        # Emit both branches, each into a writer and an environment of its own.
        outer, before = self.writer, self.environment
        writers, environments = [], []
        for branch in (then, other):
            self.writer, self.environment = outer.nested(), dict(before)
            branch()
            writers.append(self.writer)
            environments.append(self.environment)
        self.writer, self.environment = outer, before
        _add_unread(environments[0], environments[1])
        _add_unread(environments[1], environments[0])
        # A value that both branches have is defined before them.
        before.update(item for item in environments[0].items() if environments[1].get(item[0]) is item[1])

        values: list[tuple[str, list[Entity]]] = []  # (variable, its values at the end of the two branches)
        for name in _changed_names(*environments):
            pair = [self._value_after_branch(name, environment) for environment in environments]
            if any(entity is None or not is_number(entity) for entity in pair):
                line = self.source.location(node).line
                before[name] = Undefined(f"has no value on every way from the condition in line {line}")
                continue
            positions = [writer.at(self.source, node) for writer in writers]  # contexts that set the source location
            with positions[0], positions[1]:  # each value is converted to the common type in its own branch
                values.append((name, self.unified(node, writers, [e for e in pair if e is not None])))

        # Yield the values from the branches as results of the scf.if.
        types = [scalar.type for _, pair in values for scalar in scalars_in(pair[0]) or []]
        if types:
            for index, writer in enumerate(writers):
                names = [scalar.name for _, pair in values for scalar in scalars_in(pair[index]) or []]
                writer.line(f"scf.yield {', '.join(names)} : {', '.join(types)}")
        assignment, results = outer.results(types)  # assignment: such as "%5:2 = "
        result_types = f" -> ({', '.join(types)})" if types else ""
        outer.branches(f"{assignment}scf.if {condition.name}{result_types}", *writers)
        self._bind_results(before, [(name, pair[0]) for name, pair in values], results)

    def _value_after_branch(self, name: str, environment: Environment) -> Entity | None:
        """Return the value of a variable at the end of a branch; None if it has none.

        The flag of an exit that the branch does not take is false.
        """
        value = environment.get(name)
        return Literal(value=False) if value is None and name in (BREAK, CONTINUE, RETURN) else value

    @staticmethod
    def _bind_results(environment: Environment, forms: Iterable[tuple[str, Entity]], results: Sequence[Scalar]) -> None:
        """Bind variables to the scalar results of a region.

        Args:
            environment: The variables.
            forms: Pairs of a variable and a value, a number or a tuple, whose structure the new value gets.
            results: The scalars of all variables, in the order of `forms`.
        """
        remaining = iter(results)
        for name, form in forms:
            environment[name] = rebuilt(form, [next(remaining) for _ in scalars_in(form) or []])

    # ---- other statements, and inlined functions

    def _expr_statement(self, node: ast.Expr) -> None:
        """Emit a call; skip a docstring, and raise CompileError for other expressions, which have no effect."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        if isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Await)):
            self.evaluate(node.value)  # raises the error for expressions that kernels do not have
        if not isinstance(node.value, ast.Call):
            raise self.error(node, f"'{ast.unparse(node)}' does nothing", "assign it")
        self.evaluate(node.value)

    def _pass_statement(self, node: ast.Pass) -> None:
        """Emit nothing."""

    def _assert_statement(self, node: ast.Assert) -> None:
        """Emit an `assert`. Its message is the stated one, or else the text of the condition."""
        condition = cast(self.writer, self.condition(node.test), "i1")
        text = str(node.msg.value) if isinstance(node.msg, ast.Constant) else ast.unparse(node.test)
        self.emit_assertion(node, condition, text)

    def inlined(self, node: ast.Call, function: Callable[..., Any], arguments: list[Entity]) -> Entity:
        """Inline a call of a Python function: lower its statements in place of the call, and return its result.

        While its statements are lowered, `self.source` and `self.environment` are those of the function, whose
        parameters have the values of the arguments. Raise CompileError for recursion, for wrong arguments, for a
        function with `*`, `/` or `**` among its parameters, and for one that returns a value on some paths only.
        """
        source = self._source_of_inlined(node, function)
        parameters = self._parameters(node, function, arguments)
        saved = self.source, self.environment, self.static_names
        self.callers.append(self.source)
        self.source, self.static_names = source, frozenset()  # a called function has no static parameters
        self.environment = parameters
        try:
            with self.writer.at(source, source.tree):
                # A return at the end of the function needs no flag that skips statements after it.
                self.block(source.body, exits_without_flag=frozenset({RETURN}))
            result = self.environment.get(RESULT, _NONE)  # None if this path returns no value
            has_returned = self.environment.get(EXITED) is _MARKER  # on every path
        finally:
            self.source, self.environment, self.static_names = saved
            self.callers.pop()
        is_value = not (isinstance(result, Known) and result.value is None)
        if isinstance(result, Undefined) or (is_value and not has_returned):
            raise self._undefined_result(source, function.__name__)
        returns = (statement for statement in ast.walk(source.tree) if isinstance(statement, ast.Return))
        # This path returned no value, but others do: the call is valid as a statement. A use of `NoResult` as a number
        # raises the error.
        if result is _NONE and any(map(returns_value, returns)):
            return NoResult(None, self._undefined_result(source, function.__name__))
        return result

    def _parameters(self, node: ast.Call, function: Callable[..., Any], arguments: list[Entity]) -> Environment:
        """Return the values of the parameters of a function: arguments in order or by name, or else defaults."""
        signature = inspect.signature(function)
        by_name = {keyword.arg or "**": self.argument(node, self.evaluate(keyword.value)) for keyword in node.keywords}
        try:
            values = signature.bind(*(self.argument(node, entity) for entity in arguments), **by_name).arguments
        except TypeError as error:
            plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
            call = f"{function.__name__}{inspect.Signature(plain)}"
            raise self.error(node, f"'{function.__name__}': {error}", f"write {call}") from None
        defaults = {name: known(p.default) for name, p in signature.parameters.items() if name not in values}
        return {**values, **defaults}

    def argument(self, node: ast.Call, entity: Entity) -> Entity:
        """Return the value that a parameter gets for an argument of a call: the argument, unless overridden."""
        return entity

    def take_result(self, after: Environment) -> None:
        """Record in `after`, the variables after a loop, that its body returned from the inlined function.

        A value is not in scope after the loop: its use as a number raises the error.
        """
        result = self.environment.get(RESULT)
        if result is not None and result is not after.get(RESULT):
            error = self._undefined_result(self.source, self.source.function.__name__)
            after[RESULT] = result if result is _NONE else NoResult(None, error)

    @staticmethod
    def _undefined_result(source: Source, name: str) -> CompileError:
        """Return the error for a function `name` whose result has no value on some paths.

        A value that is returned inside of a loop is undefined after the loop.
        """
        loops = (node for node in ast.walk(source.tree) if isinstance(node, (ast.For, ast.While)))
        inside = (node for loop in loops for node in ast.walk(loop))
        in_loop = next((node for node in inside if isinstance(node, ast.Return) and returns_value(node)), None)
        if in_loop is None:
            return source.error(source.tree, f"'{name}' returns a value on some paths only", "end with a return")
        return source.error(
            in_loop, f"'{name}' returns a value inside of a loop",
            "assign it to a variable, leave the loop with break, and return the variable after the loop",
        )  # fmt: skip

    def _source_of_inlined(self, node: ast.Call, function: Callable[..., Any]) -> Source:
        """Return the source of a function that a call inlines. Raise CompileError for recursion, for too many inlined
        calls, and for a function whose source or parameters do not permit it.
        """
        if any(function is source.function for source in self.callers) or function is self.source.function:
            raise self.error(node, f"'{function.__name__}' calls itself", "kernels have no recursion: write a loop")
        fault = self.inlined_calls.count_or_fault(function.__name__)
        if fault is not None:  # too many calls
            message, note = fault
            raise self.error(node, message, note)
        try:
            source = Source(function, "function")
        except InvalidArgumentError as error:
            raise self.error(node, str(error), "write a function with def, in a file or a notebook's cell") from None
        unwanted = source.unwanted()
        if unwanted is not None:
            raise source.error(unwanted, f"parameter '{unwanted.arg}' of '{function.__name__}' is not a plain one",
                               "name each parameter: no *, / and **")  # fmt: skip
        return source


def _add_unread(environment: Environment, other: Environment) -> None:
    """Give values to variables that only the other branch has, and that are not read if this branch is taken.

    The result of an inlined function is read only on paths that have returned. After an exit no statement reads a
    variable that has no value before it: the next iteration of a loop reads only variables that have one.

    environment: the variables at the end of this branch. other: those of the other branch.
    """
    has_exited = environment.get(EXITED) is _MARKER
    for name, entity in other.items():
        own = environment.get(name)
        is_unread = own is None if name == RESULT else has_exited and (own is None or isinstance(own, Undefined))
        if is_unread and (is_number(entity) or isinstance(entity, Known)):
            environment[name] = _placeholder(entity)


def _placeholder(entity: Entity) -> Entity:
    """Return a value of the structure of `entity` without its scalars, which are not in scope in the other branch."""
    if isinstance(entity, TupleValue):
        return replace(entity, items=tuple(map(_placeholder, entity.items)))
    return Literal(value=False) if isinstance(entity, Scalar) else entity


def _changed_names(first: Environment, second: Environment) -> list[str]:
    """Return the variables that differ after two branches: one that neither assigns has the same object in both."""
    return [name for name in dict.fromkeys((*first, *second)) if first.get(name) is not second.get(name)]


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
"""Statements that kernels lack → what to write instead."""
