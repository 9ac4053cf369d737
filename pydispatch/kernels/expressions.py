"""Expressions of a kernel → typed operations."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from pydispatch.errors import CompileError
from pydispatch.kernels import calls
from pydispatch.kernels.arithmetic import TypeMismatch, binary, cast, compare, inverted, joined, negated
from pydispatch.kernels.called_functions import is_like_kernel
from pydispatch.kernels.entities import (
    Entity,
    Formula,
    Known,
    Literal,
    MemoryRef,
    Scalar,
    Spilled,
    TupleValue,
    Undefined,
    described,
    known,
    rebuilt,
    scalars_in,
)
from pydispatch.kernels.handlers import HANDLERS
from pydispatch.kernels.imported import ImportedSource
from pydispatch.kernels.source import MISSING
from pydispatch.kernels.spellings import foreign_function, missing_attribute, missing_name
from pydispatch.kernels.subscripts import Subscripts
from pydispatch.kernels.syntax import REMEDIES, kind_of
from pydispatch.kernels.writer import Writer
from pydispatch.patterns.types import DType
from pydispatch.suggestions import nearest

BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
"""Binary operators of Python to their symbols, without `@`, which is no operation on two elements."""
COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
"""Comparison nodes of Python to their symbols."""


class Expressions(Subscripts):
    """Part of the code generators of kernels: the expressions of a kernel.

    `evaluate` is the entry: it calls the method that is named after the class of the syntax node, such as `_binop` for
    `ast.BinOp`. A method emits the operations of a node, and returns its value.
    """

    def evaluate(self, node: ast.expr) -> Entity:
        """Evaluate an expression: emit its operations and return its value.

        Raise CompileError for syntax that kernels lack.
        """
        method = getattr(self, f"_{type(node).__name__.lower()}", None)  # _binop for ast.BinOp
        if method is None:
            raise self.error(
                node,
                f"{kind_of(node)} is not a part of kernels",
                REMEDIES.get(type(node), "use numbers, tuples and elements of views"),
            )
        with self.writer.at(self.source, node):
            try:
                return method(node)
            except TypeMismatch as error:
                message, remedy = error.args
                raise self.error(node, message, remedy) from None

    def _constant(self, node: ast.Constant) -> Entity:
        """Return a number as a literal, and any other constant as a Python object."""
        if isinstance(node.value, (bool, int, float)):
            return Literal(node.value)
        return Known(node.value)

    def _name(self, node: ast.Name) -> Entity:
        """Return the value of a name: a local variable, or an object of the surrounding Python code.

        A local variable may be a formula, whose expression is evaluated at each use. Raise CompileError for a name
        without a value here, and for a variable that differs between invocations in a statement that they execute
        together.
        """
        entity = self.environment.get(node.id)
        if entity is None:
            meaning = self.source.meaning(node.id)
            if meaning is MISSING:
                remedy = nearest(node.id, self.environment) or "give it a value before"
                raise self.error(node, f"'{node.id}' is not defined", remedy)
            return known(meaning)
        if isinstance(entity, Undefined):  # no value on some path to this statement, as `reason` states
            raise self.error(node, f"'{node.id}' {entity.reason}", f"give '{node.id}' a value before that")
        # A variable with a value for each invocation in memory. Within a phase it was replaced by the loaded number, so
        # this statement is one that the invocations execute together.
        if isinstance(entity, Spilled):
            raise self.error(
                node,
                f"'{node.id}' may differ between the invocations of a workgroup here, and {self.collective_rule}",
                "use what is the same for all of them: sizes, group_id, numbers",
            )
        return self._formula(node, entity) if isinstance(entity, Formula) else entity

    def _formula(self, node: ast.Name, formula: Formula) -> Entity:
        """Return the value of a variable that is recomputed at each use. An error in its formula is reported at the
        use.
        """
        try:
            return self.evaluate(formula.node)
        except CompileError as error:
            raise self.error(node, f"'{node.id}': {error.message}", error.note or "") from None

    def _attribute(self, node: ast.Attribute) -> Entity:
        """Return shape, ndim or dtype of memory, an attribute of a Python object, or an item of a named tuple.

        Raise CompileError for an attribute that the value lacks.
        """
        base = self.evaluate(node.value)
        if isinstance(base, MemoryRef):
            if node.attr == "shape":
                return TupleValue(base.shape)
            if node.attr == "ndim":
                return Literal(len(base.shape))
            if node.attr == "dtype":
                return Known(DType(base.dtype))
            raise self.error(node, f"a view has no '{node.attr}' in a kernel", "there are shape, ndim and dtype")
        if isinstance(base, Known):
            try:
                return known(getattr(base.value, node.attr))
            except AttributeError as error:
                raise self.error(node, str(error), missing_name(node.attr, dir(base.value))) from None
        if isinstance(base, TupleValue) and node.attr in base.names:
            return base.items[base.names.index(node.attr)]
        remedy = missing_attribute(node, attributes=())
        if isinstance(base, TupleValue):
            remedy = f"there are {', '.join(base.names)}" if base.names else "its items have indices: t[0]"
        raise self.error(node, f"{described(base)} has no '{node.attr}'", remedy)

    def _tuple(self, node: ast.Tuple) -> Entity:
        """Evaluate a tuple of expressions."""
        return TupleValue(tuple(map(self.evaluate, node.elts)))

    def _binop(self, node: ast.BinOp) -> Entity:
        """Evaluate a binary operation: an elementwise one, or `@`."""
        symbol = BINARY.get(type(node.op))
        if symbol is None:  # `@`
            return self.matrix_product(node, self.evaluate(node.left), self.evaluate(node.right))
        operands = node.left, node.right
        values = [self.evaluate(operand) for operand in operands]
        return self.elementwise(operands, values, lambda a, b: binary(self.writer, symbol, a, b))

    def matrix_product(self, node: ast.BinOp | ast.AugAssign, lhs: Entity, rhs: Entity) -> Entity:
        """Return the product of two tiles. Raise CompileError unless a subclass has tiles."""
        raise self.error(
            node, f"'@' of {described(lhs)} and {described(rhs)}", "'@' multiplies tiles: x[i:i + 16, k:k + 16] is one"
        )

    def _unaryop(self, node: ast.UnaryOp) -> Entity:
        """Evaluate `not`, or an elementwise unary operation."""
        if isinstance(node.op, ast.Not):
            return inverted(self.writer, self.condition(node.operand))

        def changed(value: Scalar | Literal) -> Scalar | Literal:
            """Emit the unary operation on one number."""
            if isinstance(node.op, ast.USub):
                return negated(self.writer, value)
            return value if isinstance(node.op, ast.UAdd) else inverted(self.writer, value)

        return self.elementwise([node.operand], [self.evaluate(node.operand)], changed)

    def _compare(self, node: ast.Compare) -> Entity:
        """Emit a comparison, and return its result: a condition, or a tile of conditions if an operand is a tile.

        A chain such as `a < b < c` becomes `a < b and b < c`. Raise CompileError for `in`, `is` and their negations.
        """
        symbols = [COMPARED.get(type(operator), "") for operator in node.ops]
        if "" in symbols:
            raise self.error(
                node, f"'{ast.unparse(node)}' is not a comparison of numbers", "use <, <=, ==, !=, >= and >"
            )

        def chain(*values: Scalar | Literal) -> Scalar | Literal:
            """Emit the comparisons of `values` and their conjunction, and return it.

            `values` are the operands in order; of operands that are tiles they are one element.
            """
            result: Scalar | Literal = Literal(value=True)
            for position, (symbol, left, right) in enumerate(zip(symbols, values, values[1:], strict=False)):
                # Inference of the kernel's grid records the bounds of ids.
                self.on_comparison(operands[position : position + 2], symbol, (left, right))
                result = self._conjunction(result, compare(self.writer, symbol, left, right))
            return result

        operands = [node.left, *node.comparators]
        return self.elementwise(operands, [self.evaluate(operand) for operand in operands], chain)

    def _conjunction(self, lhs: Scalar | Literal, rhs: Scalar | Literal) -> Scalar | Literal:
        """Return the conjunction of two conditions, folded if one of them is known."""
        for literal, other in ((lhs, rhs), (rhs, lhs)):
            if isinstance(literal, Literal):
                return other if literal.value else literal
        assert isinstance(lhs, Scalar) and isinstance(rhs, Scalar)
        return self.writer.value(f"arith.andi {lhs.name}, {rhs.name} : i1", "i1")

    def _boolop(self, node: ast.BoolOp) -> Entity:
        """Evaluate `and` or `or` with short-circuit evaluation.

        A later operand without side effects is computed unconditionally, which needs no branch.
        """
        is_and = isinstance(node.op, ast.And)
        result = self.condition(node.values[0])
        for operand in node.values[1:]:
            if isinstance(result, Literal):
                if result.value != is_and:  # `False and ...`, `True or ...`: later operands are not evaluated
                    return result
                result = self.condition(operand)
                continue
            result = self._short_circuit(result, operand, is_and)
        return result

    def _short_circuit(self, first: Scalar, node: ast.expr, is_and: bool) -> Scalar | Literal:
        """Return `first and node` (if is_and) or `first or node`, as a condition.

        If `node` has no side effects, it is computed in any case. Otherwise it is computed in a branch, only if `first`
        does not decide: a false `first` decides `and`, a true one decides `or`.
        """
        # Emit `node` into a writer of its own, whose lines are used below.
        outer, self.writer = self.writer, self.writer.nested()
        second = self.condition(node)
        inner, self.writer = self.writer, outer
        if isinstance(second, Literal):
            if not inner.has_effects:
                return first if second.value == is_and else second
            second = inner.constant(second.value, "i1")  # an inlined function that stores, and returns a constant
        if not inner.has_effects:  # both operands are computed, and combined
            outer.lines += inner.lines
            return outer.value(f"arith.{'andi' if is_and else 'ori'} {first.name}, {second.name} : i1", "i1")
        # An scf.if on `first`: one branch computes `node`, the other one yields the value that `first` decides.
        inner.line(f"scf.yield {second.name} : i1")
        other = outer.nested()  # the branch in which `first` decides
        other.line(f"scf.yield {other.constant(not is_and, 'i1').name} : i1")
        assignment, (result,) = outer.results(["i1"])
        branches = (inner, other) if is_and else (other, inner)
        outer.branches(f"{assignment}scf.if {first.name} -> (i1)", *branches)
        return result

    def _ifexp(self, node: ast.IfExp) -> Entity:
        """Emit `a if condition else b`; a condition known at compile time selects the only operand that is emitted."""
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            return self.evaluate(node.body if condition.value else node.orelse)
        writers, values = [], []
        outer = self.writer
        for branch in (node.body, node.orelse):
            self.writer = outer.nested()
            values.append(self.evaluate(branch))
            writers.append(self.writer)
        self.writer = outer
        return self.merged(node, condition, writers, values)

    def merged(self, node: ast.AST, condition: Scalar, writers: Sequence[Writer], values: Sequence[Entity]) -> Entity:
        """Select between the values that two writers computed: the first if the condition holds, else the second.

        Without side effects both are computed and arith.select is used; else the writers become branches of scf.if.

        Args:
            node: The expression or statement that selects, for errors.
            condition: Value of type i1.
            writers: Two writers with the lines that compute the first and the second value.
            values: The two values, numbers or tuples of numbers.
        """
        first, second = self.unified(node, writers, values)
        scalars = [scalars_in(value) or [] for value in (first, second)]  # the same types in the same order
        types = [value.type for value in scalars[0]]
        if not any(writer.has_effects for writer in writers):
            self.writer.lines += [line for writer in writers for line in writer.lines]
            chosen = [
                self.writer.value(f"arith.select {condition.name}, {a.name}, {b.name} : {a.type}", a.type)
                for a, b in zip(*scalars, strict=True)
            ]
            return rebuilt(first, chosen)
        # Each branch yields its numbers: those of a tuple are several results.
        for writer, value in zip(writers, scalars, strict=True):
            writer.line(f"scf.yield {', '.join(s.name for s in value)} : {', '.join(types)}")
        assignment, results = self.writer.results(types)
        self.writer.branches(f"{assignment}scf.if {condition.name} -> ({', '.join(types)})", *writers)
        return rebuilt(first, results)

    def unified(self, node: ast.AST, writers: Sequence[Writer], values: Sequence[Entity]) -> list[Entity]:
        """Convert the values of two branches to the same structure and types, and return the two converted values.

        For an `if` whose branches assign `y = 1` and `y = z`, with an f32 z, the values are Literal(1) and %z. The
        conversion of the literal, `%3 = arith.constant 1.0 : f32`, is emitted in the first branch, and %3 and %z are
        returned.

        Args:
            node: The expression or statement with the branches, for errors.
            writers: Writers of the two branches: a value is converted by lines of its own branch.
            values: The two values, numbers or tuples of numbers. A number without a type gets that of the other value.

        Raises:
            CompileError: The structures differ, or two numbers have no common type.
        """
        a, b = values
        if isinstance(a, TupleValue) and isinstance(b, TupleValue) and len(a.items) == len(b.items):
            # For each item, its values in the two branches; they are then regrouped into a tuple for each branch.
            pairs = [self.unified(node, writers, pair) for pair in zip(a.items, b.items, strict=True)]
            return [replace(a, items=tuple(pair[i] for pair in pairs)) for i in (0, 1)]
        if not isinstance(a, (Scalar, Literal)) or not isinstance(b, (Scalar, Literal)):
            raise self.error(
                node,
                f"both ways give the same kind of value, got {described(a)} and {described(b)}",
                "use a variable of its own for each",
            )
        type = self.number_or_error(node, lambda: joined(a, b, "a choice"))
        return [cast(writer, value, type) for writer, value in zip(writers, (a, b), strict=True)]

    def _call(self, node: ast.Call) -> Entity:
        """Evaluate a call, and return its value.

        What is called is known at compile time: an element type (a conversion), a function with a handler (those of
        pydispatch and math), a named tuple, an imported function, or a plain Python function, which is inlined. Raise
        CompileError for anything else.
        """
        called = self.evaluate(node.func)
        if not isinstance(called, Known):
            is_variable = isinstance(node.func, ast.Name) and node.func.id in self.environment
            advice = f"give the variable '{ast.unparse(node.func)}' another name" if is_variable else "call functions"
            raise self.error(node.func, f"{described(called)} cannot be called", advice)

        # Calls that kernels do not have.
        function = called.value
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self.error(node, "arguments with * are not a part of kernels", "give each argument")
        # Modules and unhashable objects are no keys of the tables of functions (`may_be_key`).
        remedy = self.remedies.get(function) if may_be_key(function) else None
        if remedy:
            raise self.error(node, f"{ast.unparse(node.func)} is not a part of kernels", remedy)

        # Each kind of function that kernels may call. `is_like_kernel` is false for functions of NumPy and pydispatch.
        if isinstance(function, DType):
            return self.called(node, partial(calls.convert, type=function.name), [*map(self.evaluate, node.args)])
        handler = self.handlers.get(function) if may_be_key(function) else None
        arguments = [self.evaluate(argument) for argument in node.args]
        if handler is not None:
            return self.called(node, handler, arguments)
        if inspect.isclass(function) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return self._named_tuple(node, function, arguments)
        if isinstance(function, ImportedSource):
            return self._imported(node, function, arguments)
        if inspect.isfunction(function) and is_like_kernel(function, self.source):
            return self.inlined(node, function, arguments)

        inner = getattr(function, "__wrapped__", None)  # the Python function of another kernel
        if inspect.isfunction(inner):
            advice = f"move what both need into a plain function, without @pydispatch.kernel over '{inner.__name__}'"
        else:
            default = (
                "functions of Python that are written like kernels can, and those that docs/python-kernels.md lists"
            )
            advice = foreign_function(function, self.handlers) or default
        raise self.error(node, f"'{ast.unparse(node.func)}' cannot be called in a kernel", advice)

    def _named_tuple(self, node: ast.Call, kind: Any, arguments: list[Entity]) -> TupleValue:
        """Return the tuple that a call of `kind`, a NamedTuple class, gives. Raise CompileError for wrong arguments."""
        names: tuple[str, ...] = kind._fields
        defaults = {name: known(default) for name, default in kind._field_defaults.items()}
        in_order = dict(zip(names, arguments, strict=False))
        by_name = {keyword.arg or "**": self.evaluate(keyword.value) for keyword in node.keywords}  # "**" is no name
        values = {**defaults, **in_order, **by_name}
        has_surplus = len(arguments) > len(names)
        is_given_twice = bool(in_order.keys() & by_name.keys())
        if has_surplus or is_given_twice or values.keys() != set(names):
            raise self.error(
                node, f"'{kind.__name__}' has {', '.join(names)}, and this call does not give these",
                "give each value once, in order or by its name",
            )  # fmt: skip
        return TupleValue(tuple(values[name] for name in names), names)

    def _imported(self, node: ast.Call, function: ImportedSource, arguments: list[Entity]) -> Scalar:
        """Emit a call of an `@pydispatch.imported` function, which is linked at load time, and return its result."""
        calls.check_count(self, node, arguments, len(function.parameters))
        values = [
            self.converted(argument, entity, type, f"an argument of '{function.name}'")
            for argument, entity, type in zip(node.args, arguments, function.parameters, strict=True)
        ]
        self.imports[function.symbol] = function.declaration
        self.writer.has_effects = True  # so that it is called only where the kernel calls it
        names, types = ", ".join(value.name for value in values), ", ".join(function.parameters)
        call = f"func.call @{function.local}({names}) : ({types}) -> {function.result}"
        return self.writer.value(call, function.result)

    handlers: Mapping[Any, calls.Handler] = HANDLERS
    """Functions that kernels may call → what emits the call."""
    remedies: Mapping[Any, str] = calls.REMEDIES
    """Functions that kernels do not have → what to write instead, for errors."""

    def called(self, node: ast.Call, handler: calls.Handler, arguments: list[Entity]) -> Entity:
        """Return the result of a handler for evaluated arguments. A subclass applies it to each element of tiles."""
        return handler(self, node, arguments)

    def record_write(self, node: ast.AST, memory: MemoryRef) -> None:
        """Record that the kernel writes a memory, if that is a view; other memory is no result of the kernel."""
        if memory.parameter:
            self.written.add(memory.parameter)


def may_be_key(value: object) -> bool:
    """Return whether a called object may be in a table of functions; unhashable objects and modules are in none."""
    try:
        hash(value)
    except TypeError:
        return False
    return not isinstance(value, ModuleType)
