"""Matches one `pdl.pattern` against one operation. Casts are ignored; dynamic sizes of a type match any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects import pdl
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.backtracking import ways_of_all
from pydispatch.compiler.match.graph.facts import cast_problem
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.graph.same import is_spelling_of
from pydispatch.compiler.match.graph.view import CASTS, source_of
from pydispatch.ir.op_info import info_of

_STEPS = 10_000
"""Maximum number of compared operations: n nested commutative operations have 2**n orders of operands."""

Bound = dict[SSAValue, Any]
"""A value of the pattern -> the operation, value, type or attribute of the program that it matched. A range of the
pattern has a list of these."""


class PdlSearch:
    """Attempt to match a PDL pattern at an operation of the program.

    The methods `match_...` compare a part of the pattern (`wanted`) with a part of the program (`actual`, `op`), and
    record a mismatch in `best`. The methods that compare operations or operands are generators: they yield once for
    each way to match, with the values bound accordingly. `PdlPattern.match` creates an attempt, and calls
    `match_operation` for the root.

    Attributes:
        bound: Value of the pattern → what it has matched in the program so far.
        depth: Number of operations that matched so far; ranks mismatches, so that the one that got furthest is
            reported.
        best: The deepest mismatch so far; None if nothing has failed.
    """

    def __init__(self) -> None:
        """Begin with no value bound, no operation matched, and no mismatch recorded."""
        self.bound: Bound = {}  # value of the pattern → what it matches in the program
        self.depth = 0  # number of operations matched so far
        self.best: Mismatch | None = None  # the deepest mismatch so far
        self.steps = 0  # number of operations compared so far, which is limited

    def fail(self, reason: str, where: str, op: Operation | None) -> bool:
        """Record a mismatch if more operations matched before it than before the recorded one; return False.

        Args:
            reason: Why the comparison failed, for messages.
            where: Position in the pattern, such as "operand 1 of linalg.matmul"; "" for the root.
            op: Operation of the program at which it failed.
        """
        if self.best is None or self.depth > self.best.depth:
            self.best = Mismatch(self.depth, f"{where}: {reason}" if where else reason, op)
        return False

    def known(self, value: SSAValue) -> Any:
        """Return the binding of a pattern value, or the constant that the pattern states for it; None if there is
        neither.
        """
        if value in self.bound:
            return self.bound[value]
        return constant_of(value)

    def match_operation(self, wanted: pdl.OperationOp, op: Operation, where: str) -> Iterator[None]:
        """Yield None for each way in which an operation of the pattern matches `op`, with the operation bound.

        While the generator is suspended, `bound` has the values of this way. The recorded failure is the one before
        which the most operations had matched. Both orders of commutative operands are tried. An operation of the
        pattern that is bound already, because another path from the root leads to it, matches only the operation that
        it is bound to.

        Args:
            wanted: Operation of the pattern.
            op: Operation of the program.
            where: Position in the pattern for messages, such as "operand 1 of linalg.matmul"; "" for the root.
        """
        if wanted.op in self.bound:
            if self.bound[wanted.op] is op:
                yield
            else:
                self.fail(f"another {op.name} than elsewhere in the pattern", where, op)
            return
        if self._is_alike(wanted, op, where):
            operands = list(op.operands)
            orders = [operands]
            # Equal operands have no second order.
            if len(operands) == 2 and info_of(op).commutative and source_of(operands[0]) is not source_of(operands[1]):
                orders.append(operands[::-1])
            # Both orders start from the same bindings and the same number of matched operations.
            saved_bound, saved_depth = dict(self.bound), self.depth
            for order in orders:
                for _ in self.match_operands(wanted.operand_values, order, op):
                    self.bound[wanted.op] = op
                    yield
                self.bound, self.depth = dict(saved_bound), saved_depth

    def _is_alike(self, wanted: pdl.OperationOp, op: Operation, where: str) -> bool:
        """Return whether an operation of the pattern matches `op` in all but the operands, and bind its attributes and
        types.

        The reason is recorded if not. `where` is the position in the pattern for messages, such as "operand 1 of
        linalg.matmul"; "" for the root.
        """
        # Each commutative operation doubles the orders to try: the search is given up after a number of steps.
        self.steps += 1
        if self.steps > _STEPS:
            return self.fail("too many ways to order the operands of commutative operations", where, op)
        # The name, or a `linalg.generic` that computes what the named operation does; then the attributes, then the
        # types of results.
        name = wanted.opName.data if wanted.opName is not None else None
        if name is not None and op.name != name and not is_spelling_of(op, name):
            return self.fail(f"expected {name}, got {op.name}", where, op)
        names = [n.data for n in wanted.attributeValueNames]
        for attribute, value in zip(names, wanted.attribute_values, strict=True):
            if not self.match_attribute(attribute, value, op, where):
                return False
        if not self.match_types(wanted.type_values, [r.type for r in op.results], f"result of {op.name}", op):
            return False
        self.depth += 1
        return True

    def match_attribute(self, name: str, wanted: SSAValue, op: Operation, where: str) -> bool:
        """Return whether the attribute `name` of `op` matches the pattern, and bind it.

        The pattern may state its value, or its type, or have bound it elsewhere; otherwise any attribute matches.

        Args:
            name: Name of the attribute or property.
            wanted: The value of the pattern that stands for the attribute.
            op: Operation of the program.
            where: Position of the operation in the pattern, for messages; "" for the root.
        """
        # The operation must have it, with the known value, and of the known type.
        actual = op.properties.get(name, op.attributes.get(name))
        if actual is None:
            return self.fail(f"{op.name} has no attribute '{name}'", where, op)
        owner = wanted.owner
        stated = self.known(wanted)
        if stated is not None and not _equal(stated, actual):
            return self.fail(f"attribute '{name}' of {op.name}: expected {stated}, got {actual}", where, op)
        if isinstance(owner, pdl.AttributeOp) and owner.value_type is not None:
            wanted_type = self.known(owner.value_type)
            if wanted_type is not None and getattr(actual, "type", None) != wanted_type:
                return self.fail(f"attribute '{name}' of {op.name}: expected a {wanted_type}, got {actual}", where, op)
        self.bound[wanted] = actual
        return True

    def match_types(self, wanted: Sequence[SSAValue], actual: list[Attribute], where: str, op: Operation) -> bool:
        """Return whether a list or range of types in the pattern matches the types `actual`, and bind them.

        Args:
            wanted: Values of the pattern that stand for one type each, or one value that stands for all of them.
            actual: Types of values of the program.
            where: The values that have the types, for messages, such as "result of arith.addf".
            op: Operation of the program that has the values.
        """
        if not wanted:  # the pattern states no types
            return True
        if len(wanted) == 1 and isinstance(wanted[0].type, pdl.RangeType):
            stated = self.known(wanted[0])
            if stated is not None and list(stated) != actual:
                return self.fail(f"expected types {_texts(stated)}, got {_texts(actual)}", where, op)
            self.bound[wanted[0]] = actual
            return True
        if len(wanted) != len(actual):
            return self.fail(f"expected {len(wanted)} result(s), got {len(actual)}", where, op)
        return all(self.match_type(w, a, where, op) for w, a in zip(wanted, actual, strict=True))

    def match_type(self, wanted: SSAValue, actual: Attribute, where: str, op: Operation | None) -> bool:
        """Return whether a type of the pattern matches `actual`, and bind it.

        If the pattern states the type, `actual` must be castable to it: dynamic sizes of the stated type match any
        size. A type variable must be the same type everywhere.
        """
        constant = constant_of(wanted)
        if constant is not None:
            problem = cast_problem(actual, constant)
            return problem is None or self.fail(problem, where, op)
        bound_type = self.bound.setdefault(wanted, actual)
        return bound_type == actual or self.fail(f"expected {bound_type} as elsewhere, got {actual}", where, op)

    def match_operands(self, wanted: Sequence[SSAValue], actual: list[SSAValue], op: Operation) -> Iterator[None]:
        """Yield for each way in which operands in the pattern match the operands `actual` of `op`, with them bound."""
        if len(wanted) == 1 and isinstance(wanted[0].type, pdl.RangeType):
            yield from self.match_range(wanted[0], actual, op)
        elif len(wanted) != len(actual):
            self.fail(f"expected {len(wanted)} operand(s), got {len(actual)}", op.name, op)
        else:
            yield from ways_of_all(
                len(wanted), lambda i: self.match_operand(wanted[i], actual[i], f"operand {i} of {op.name}", op)
            )

    def match_range(self, wanted: SSAValue, actual: list[SSAValue], op: Operation) -> Iterator[None]:
        """Yield None for each way in which a range of values in the pattern matches `actual`, with the range bound.

        Args:
            wanted: The range: a `pdl.results` or a `pdl.operands` of the pattern.
            actual: All operands of `op`.
            op: Operation of the program.
        """
        owner, where = wanted.owner, f"operands of {op.name}"
        if isinstance(owner, pdl.ResultsOp):
            for _ in self._match_results(owner, actual, where, op):
                self.bound[wanted] = actual
                yield
        elif self._are_of_types(owner, actual, where, op):
            self.bound[wanted] = actual
            yield

    def _are_of_types(self, range_: Operation | Block, actual: list[SSAValue], where: str, op: Operation) -> bool:
        """Return whether values have the types that a `pdl.operands` states for its range; True if it states none.

        where, op: position in the pattern, and operation of the program, for the mismatch.
        """
        types = range_.value_type if isinstance(range_, pdl.OperandsOp) else None
        return types is None or self.match_types([types], [v.type for v in actual], where, op)

    def _match_results(
        self, wanted: pdl.ResultsOp, actual: list[SSAValue], where: str, user: Operation
    ) -> Iterator[None]:
        """Yield None for each way in which an operation of the pattern matches the producer of the values `actual`.

        The values must be the results that `wanted` selects of the producer: all of them, in order. Casts of the values
        are skipped.

        where, user: position in the pattern, and operation that reads the values, for the mismatch.
        """
        sources, parent = [source_of(v) for v in actual], wanted.parent_.owner
        producer = sources[0].owner if sources else None
        assert isinstance(parent, pdl.OperationOp)
        if isinstance(producer, Operation) and sources == results_of(wanted, producer):
            yield from self.match_operation(parent, producer, where)
        else:
            self.fail("expected the results of one operation, all of them in order", where, user)

    def match_operand(self, wanted: SSAValue, actual: SSAValue, where: str, user: Operation) -> Iterator[None]:
        """Yield None for each way in which a value of the pattern matches an operand, with the value bound.

        A cast of the pattern, such as `tensor.cast`, also matches a value without one.

        Args:
            wanted: A `pdl.operand`, which stands for any value of its type, or a result of an operation of the pattern.
            actual: The operand of the program.
            where: Position of the operand in the pattern, for messages, such as "operand 1 of linalg.matmul".
            user: The operation of the program that has the operand.
        """
        # An input of the pattern: the same value wherever the pattern has it, of the stated type.
        owner = wanted.owner
        if isinstance(owner, pdl.OperandOp):
            bound_value = self.bound.get(wanted)
            if bound_value is not None and source_of(bound_value) is not source_of(actual):
                self.fail("another value than elsewhere in the pattern", where, user)
            elif owner.value_type is None or self.match_type(owner.value_type, actual.type, where, user):
                self.bound.setdefault(wanted, actual)
                yield
            return
        if not isinstance(owner, pdl.ResultOp | pdl.ResultsOp):
            self.fail("a range of values among others is not supported", where, user)
            return
        # A result of an operation of the pattern, which must match the producer of the operand.
        parent = owner.parent_.owner
        assert isinstance(parent, pdl.OperationOp)
        if is_cast(parent):
            ways = self._match_cast(parent, actual, where, user)
        else:
            ways = self._match_result(owner, actual, where, user)
        for _ in ways:
            self.bound[wanted] = actual
            yield

    def _match_result(
        self, wanted: pdl.ResultOp | pdl.ResultsOp, actual: SSAValue, where: str, user: Operation
    ) -> Iterator[None]:
        """Yield for each way in which a result of an operation of the pattern matches an operand. Casts of the operand
        in the program are skipped.

        Args:
            wanted: The result in the pattern.
            actual: The operand of the program.
            where: Position of the operand in the pattern, for messages, such as "operand 1 of linalg.matmul".
            user: The operation of the program that has the operand.
        """
        source, parent = source_of(actual), wanted.parent_.owner
        assert isinstance(parent, pdl.OperationOp)
        index = wanted.index.value.data if wanted.index is not None else 0  # without an index: the only result
        if not isinstance(source, OpResult):
            self.fail(f"expected {name_of(parent)}, got an argument", where, user)
        elif source.index != index:
            self.fail(f"expected result {index} of {name_of(parent)}, got result {source.index}", where, user)
        else:
            yield from self.match_operation(parent, source.op, where)

    def _match_cast(self, wanted: pdl.OperationOp, actual: SSAValue, where: str, user: Operation) -> Iterator[None]:
        """Yield for each way in which a cast of the pattern matches an operand: a cast, or else the value that the
        pattern casts.

        Args:
            wanted: The cast in the pattern.
            actual: The operand of the program.
            where: Position of the operand in the pattern, for messages, such as "operand 1 of linalg.matmul".
            user: The operation of the program that has the operand.
        """
        if isinstance(actual, OpResult) and actual.op.name in CASTS:
            yield from self.match_operation(wanted, actual.op, where)
        elif self.match_types(wanted.type_values, [actual.type], where, user):
            yield from self.match_operand(wanted.operand_values[0], actual, where, user)


def results_of(wanted: pdl.ResultOp | pdl.ResultsOp, op: Operation) -> Any:
    """Return the result of `op` that a `pdl.result` selects; None if `op` has no such result.

    A `pdl.results` without an index selects the list of all results. With one it selects that result, in a list if it
    is used as a range.
    """
    if wanted.index is None:
        return list(op.results)
    index = wanted.index.value.data
    if index >= len(op.results):
        return None
    return [op.results[index]] if isinstance(wanted.val.type, pdl.RangeType) else op.results[index]


def constant_of(value: SSAValue) -> Any:
    """Return the type, list of types or attribute that the pattern states for one of its values; None if it states
    none, so that the value is a variable.
    """
    owner = value.owner
    if isinstance(owner, pdl.TypeOp):
        return owner.constantType
    if isinstance(owner, pdl.TypesOp):
        return list(owner.constantTypes.data) if isinstance(owner.constantTypes, ArrayAttr) else None
    if isinstance(owner, pdl.AttributeOp):
        return owner.value
    return None


def _equal(wanted: Attribute, actual: Attribute) -> bool:
    """Return whether two attributes are equal, or are scalar or splat constants of equal elements."""
    if wanted == actual:
        return True
    key = expressions.constant_key(wanted)
    return key is not None and key == expressions.constant_key(actual)


def is_cast(op: pdl.OperationOp) -> bool:
    """Return whether an operation of a pattern is a cast between static and dynamic sizes, which programs may lack."""
    return op.opName is not None and op.opName.data in CASTS and len(op.operand_values) == 1


def name_of(op: pdl.OperationOp) -> str:
    """Return the name of the operation that `op` matches, for messages."""
    return op.opName.data if op.opName is not None else "an operation"


def _texts(types: Sequence[Attribute]) -> str:
    """Return types as text for messages: `(f32, i32)`."""
    return f"({', '.join(map(str, types))})"
