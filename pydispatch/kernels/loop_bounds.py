"""Bounds of the parallel loop over invocations, from conditions such as `if global_id(0) < n` around its statements."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from pydispatch.kernels import functions
from pydispatch.kernels.arithmetic import binary, cast, is_float
from pydispatch.kernels.calls import TABLE
from pydispatch.kernels.collectives import COLLECTIVES
from pydispatch.kernels.coverage import is_size
from pydispatch.kernels.entities import Scalar
from pydispatch.kernels.expressions import may_be_key
from pydispatch.kernels.names import assigned_in, exits_of, returns_value
from pydispatch.kernels.source import MISSING, Source
from pydispatch.kernels.subgroups import Subgroups
from pydispatch.kernels.variables import Variables, assignments
from pydispatch.patterns.types import DType


class LoopBounds(Subgroups):
    """Part of the code generator of kernels (`Phases`): analysis of the expressions of a kernel.

    It determines the objects that expressions name, whether they depend on the invocation, and the bounds of the loop
    over invocations that conditions imply.
    """

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Collect the variables that the function `source` assigns. workgroup: invocations along each axis."""
        super().__init__(source, workgroup)
        # Constants that the kernel's function defines before its body; the extents are the sizes of the workgroup.
        self.zero, self.one = Scalar("%zero", "index"), Scalar("%one", "index")
        self.extents = [Scalar(f"%extent{axis}", "index") for axis in range(len(self.workgroup))]
        self._assigned = assigned_in(source.tree.body)
        self.variables = Variables()  # empty; `Phases` replaces it for a kernel with barriers

    def _named_object(self, node: ast.expr) -> Any:
        """Return the Python object that a name or attribute refers to; MISSING for variables of the kernel and other
        expressions.
        """
        if isinstance(node, ast.Name):
            return MISSING if node.id in self._assigned or node.id in self.environment else self.source.meaning(node.id)
        if isinstance(node, ast.Attribute):
            base = self._named_object(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        return MISSING

    def _is_pure(self, node: ast.expr, names: set[str]) -> bool:
        """Return whether an expression has the same value wherever one invocation evaluates it.

        Such an expression reads no elements of memory, which stores may change, calls no collectives, and reads only
        those variables of the kernel that are in `names`.
        """
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                if child.id in self._assigned and child.id not in names:
                    return False
            elif isinstance(child, ast.Subscript):
                is_size = isinstance(child.value, ast.Attribute) and child.value.attr == "shape"
                if not is_size:
                    return False
        return self._has_no_effects(node)

    def _has_no_effects(self, node: ast.expr) -> bool:
        """Return whether an expression calls nothing but conversions and functions that are no collectives."""
        calls = (self._named_object(child.func) for child in ast.walk(node) if isinstance(child, ast.Call))
        return all(
            isinstance(called, DType) or (may_be_key(called) and called in TABLE and called not in COLLECTIVES)
            for called in calls
        )

    def _depends_on_invocation(self, node: ast.expr) -> bool:
        """Return whether an expression calls global_id or local_id, so that its value differs between invocations."""
        ids = (functions.global_id, functions.local_id)
        return any(isinstance(child, ast.Call) and self._named_object(child.func) in ids for child in ast.walk(node))

    def _bounded(self, nodes: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], Scalar | None]:
        """Return (the statements that the loop of a phase runs, the end of this loop along axis 0).

        A phase has the statements between two barriers; its loop runs over the invocations of a workgroup. If a guard
        `if global_id(0) < n:` is the last statement, the loop ends where the condition becomes false, and the
        statements in the guard take its place: loops without conditions can be vectorized. Other conditions of the
        guard remain. The phase on the left gives the statements on the right, and the end that `_loop_end_of_test`
        emits for i < n:

            i = global_id(0)                   i = global_id(0)
            if i < n and x[i] > 0:             if x[i] > 0:
                y[i] = 1                           y[i] = 1

        A phase with an early return is left to `_bounded_by_return`. Return (nodes, None) for any other phase: the loop
        runs over all invocations.
        """
        *before, guard = nodes
        # A phase that does not end with an `if` may have a guard before its end: `if i >= n: return`.
        if not isinstance(guard, ast.If):
            return self._bounded_by_return(nodes) if len(nodes) >= 2 else (nodes, None)
        # A spilled variable is stored for every invocation, so that its phase runs for all of them.
        assigns_spilled = not self.variables.spilled.isdisjoint(assigned_in(nodes))
        if guard.orelse or assigns_spilled or _has_exit(guard):
            return nodes, None
        tests = [guard.test]
        if isinstance(guard.test, ast.BoolOp) and isinstance(guard.test.op, ast.And):
            tests = guard.test.values
        values = self._expressions_at_guard(before)
        if values is None:  # statements before it do more than assign values: every invocation executes them
            return nodes, None
        for test in tests:
            end = self._loop_end_of_test(test, values)
            if end is None and not self._has_no_effects(test):
                break  # this test must be evaluated by every invocation, so that no later test may end the loop
            if end is None:
                continue
            others = [other for other in tests if other is not test]  # the loop's end replaces `test` only
            if not others:
                return [*before, *guard.body], end
            # The guard with the remaining conditions.
            remaining = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(ast.And(), others), guard.test)
            return [*before, ast.copy_location(ast.If(remaining, guard.body, []), guard)], end
        return nodes, None

    def _expressions_at_guard(self, before: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
        """Return the expression of each variable after the statements `before` a guard, in terms of ids and parameters.

        `i = global_id(0)` and `j, k = i, 1` give {"i": global_id(0), "j": global_id(0), "k": 1}, as syntax trees. So
        the guard `if j < n` is found to compare the id. The formulas of the kernel, variables whose expressions never
        change, are in the result as well.

        Return None if a statement has another effect than to assign a variable: a loop that ends at the guard's bound
        would skip the effect for the invocations beyond the bound.
        """
        values: dict[str, ast.expr] = {}
        # `_expression_of` replaces the variables in an expression by their expressions in `values`.
        for name, value in self.variables.formulas.items():
            values[name] = _expression_of(value, values)
        for statement in before:
            if not _assigns_variables(statement) or not self._is_pure(statement.value, self._assigned):
                return None
            assigned = {name: value for name, value, _ in assignments([statement])}
            expressions = {name: value for name, value in assigned.items() if value is not None}
            if len(expressions) < len(assigned):  # a name without an expression of its own, as in `a, b = pair`
                return None
            values |= {name: _expression_of(value, values) for name, value in expressions.items()}
        return values

    def _bounded_by_return(self, nodes: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], Scalar | None]:
        """Return (the statements that a phase with `if i >= n: return` needs, the end of its loop along axis 0).

        A phase has the statements between two barriers; its loop runs over the invocations. The phase on the left is
        handled as if it were the one on the right, which `_bounded` reduces to a loop of the last line that ends at n:

            if i >= n:                         if i < n:
                return                             y[i] = x[i]
            y[i] = x[i]

        Return (nodes, None) if this gives no end: then the statements stay as they are, and the loop runs over all
        invocations.
        """
        index = next((index for index, statement in enumerate(nodes) if _is_conditional_return(statement)), None)
        if index is None:
            return nodes, None
        # Only the first conditional return is considered.
        statement = nodes[index]
        assert isinstance(statement, ast.If)
        test = statement.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.GtE):
            return nodes, None
        in_range = ast.copy_location(ast.Compare(test.left, [ast.Lt()], test.comparators), test)
        guarded = ast.copy_location(ast.If(in_range, list(nodes[index + 1 :]), []), statement)
        bounded, end = self._bounded([*nodes[:index], guarded])
        return (bounded, end) if end is not None else (nodes, None)

    def _loop_end_of_test(self, test: ast.expr, values: Mapping[str, ast.expr]) -> Scalar | None:
        """Emit how many invocations of a workgroup pass the test `global_id(0) < n`; return None for any other test.

        That is min(workgroup size, n - index of the workgroup's first invocation), the end of a loop over the
        invocations that pass. With n = 100, the workgroups of 64 invocations have the ends 64, 36, -28, ...: a loop
        with a negative end has no iterations.

        Args:
            test: The condition.
            values: The expression of each variable that the test may name, such as `global_id(0)` for `i`.
        """
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt):
            return None
        left, right = (_expression_of(side, values) for side in (test.left, test.comparators[0]))
        is_global_id = (
            isinstance(left, ast.Call)
            and self._named_object(left.func) is functions.global_id
            and len(left.args) == 1
            and isinstance(left.args[0], ast.Constant)
            and left.args[0].value == 0
        )
        # The end is computed before the loop: n must not read elements, variables that the kernel assigns, or ids.
        if not is_global_id or not self._is_pure(right, set()) or self._depends_on_invocation(right):
            return None
        size = self.number(right)
        if isinstance(size, Scalar) and is_float(size.type):  # the conversion to index would round it
            return None
        group = self.writer.value("stream.dispatch.workgroup.id[0] : index", "index")
        first = self.writer.value(f"arith.muli {group.name}, {self.extents[0].name} : index", "index")
        # The end of the loop replaces the comparison `global_id(0) < n`. The comparison is reported as if it were
        # emitted, because an inferred grid is computed from comparisons of ids with sizes.
        if is_size(right, size):
            self.record_position(left, "global", 0, first)
            self.on_comparison((left, right), "<", (first, size))
        distance = binary(self.writer, "-", cast(self.writer, size, "index"), first)
        end = binary(self.writer, "min", self.extents[0], distance)
        assert isinstance(end, Scalar)
        return end


def _expression_of(value: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """Return the expression that `values` has for a variable, and any other expression as it is."""
    return values.get(value.id, value) if isinstance(value, ast.Name) else value


def _is_conditional_return(statement: ast.stmt) -> bool:
    """Return whether a statement is `if ...: return`, without a value, which `Statements` refuses, and without else."""
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) != 1:
        return False
    (only,) = statement.body
    return isinstance(only, ast.Return) and not returns_value(only)


def _assigns_variables(statement: ast.stmt) -> TypeGuard[ast.Assign]:
    """Return whether a statement is an assignment that stores into no memory."""
    return isinstance(statement, ast.Assign) and not any(
        isinstance(node, ast.Subscript) for target in statement.targets for node in ast.walk(target)
    )


def _has_exit(node: ast.If) -> bool:
    """Return whether an `if` has a break, continue or return that leaves it."""
    return bool(exits_of(node))
