"""Matches one `pdl.pattern` against one operation. Casts are ignored; dynamic sizes of a type match any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import pdl
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.expressions import ValueNumber, intern_key
from pydispatch.compiler.match.graph.facts import cast_problem
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.graph.same import is_spelling_of
from pydispatch.compiler.match.graph.view import source_of
from pydispatch.compiler.match.pdl.native import CONSTRAINTS
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import info_of

Bound = dict[SSAValue, Any]
"""A value of the pattern -> the operation, value, type or attribute of the program that it matched. A range of the
pattern has a list of these."""


def canonical_name(name: str) -> str:
    """Return the name under which an operation is indexed: one for all of linalg, whose operations may be written
    generic or named.
    """
    return "linalg.*" if name.startswith("linalg.") else name


class PdlPattern:
    """Pattern of a PDL module, prepared for matching.

    A caller finds the patterns that may match an operation by their `path`, and calls `match` for each.

    Attributes:
        op: The `pdl.pattern`.
        order: Position of the pattern in the module.
        name: Name for messages: the symbol with "@", or "pattern N".
        benefit: Patterns of higher benefit are tried first.
        rewrite: The `pdl.rewrite` that ends the pattern.
        root: The operation of the pattern that no other operation of it reads.
        constraints: Native constraints, which are checked after the operations have matched.

    Raises:
        CompileError: The pattern has several roots, or a constraint that does not exist.
    """

    def __init__(self, op: pdl.PatternOp, order: int) -> None:
        """Analyze the pattern `op` and its native constraints. For the arguments see the attributes of the class."""
        self.op, self.order = op, order
        self.name = f"@{op.sym_name.data}" if isinstance(op.sym_name, StringAttr) else f"pattern {order}"
        self.benefit = op.benefit.value.data
        last = op.body.block.last_op
        assert isinstance(last, pdl.RewriteOp)
        self.rewrite = last
        self.root = self._root()
        self.constraints = [o for o in op.body.block.ops if isinstance(o, pdl.ApplyNativeConstraintOp)]
        for constraint in self.constraints:
            if constraint.constraint_name.data not in CONSTRAINTS:
                raise CompileError(
                    f"there is no native constraint '{constraint.constraint_name.data}'",
                    location_of(constraint),
                    f"constraints: {', '.join(CONSTRAINTS)}",
                )

    def _root(self) -> pdl.OperationOp:
        """Return the only operation of the pattern whose results no other one reads.

        Matching begins there, so that all others are producers. The rewrite may name another operation as its root.

        Raises:
            CompileError: There are several such operations, or none.
        """
        ops = [o for o in self.op.body.block.ops if isinstance(o, pdl.OperationOp)]
        read = {
            v.owner.parent_.owner
            for o in ops
            for v in o.operand_values
            if isinstance(v.owner, pdl.ResultOp | pdl.ResultsOp)
        }
        roots = [o for o in ops if o not in read]
        if len(roots) != 1:
            raise CompileError(f"{self.name} has {len(roots)} operations that no other reads, expected one root",
                               location_of(self.op))  # fmt: skip
        return roots[0]

    def path(self, limit: int = 48) -> list[ValueNumber | None]:
        """Return numbers of the names of the operations in pre-order, for a discrimination tree (`graph/tree.py`).

        The pattern of `arith.addf(%x, arith.mulf(%y, %z))`, with inputs %x, %y and %z, has the path
        [that of "arith.addf", None, that of "arith.mulf", None, None]. None stands for any value. A variable number of
        operands ends the path, which may be a prefix.

        limit: maximum length; a longer path tells patterns apart that begin alike, but takes memory.
        """
        path: list[ValueNumber | None] = []
        pending: list[pdl.OperationOp | None] = [self.root]
        while pending and len(path) < limit:
            op = pending.pop()
            if op is None or op.opName is None:
                path.append(None)
                continue
            path.append(intern_key(("name", canonical_name(op.opName.data))))
            if any(isinstance(v.owner, pdl.OperandsOp | pdl.ResultsOp) for v in op.operand_values):
                break
            owners = [v.owner for v in reversed(op.operand_values)]  # the first operand is popped first
            pending += [o.parent_.owner if isinstance(o, pdl.ResultOp) else None for o in owners]  # type: ignore[misc]
        return path

    def match(self, op: Operation) -> Bound | Mismatch:
        """Match the pattern with its root at `op`. Return the bound values, or the reason for the mismatch."""
        search = _Search()
        if not search.match_operation(self.root, op, where=""):
            assert search.best is not None
            return search.best
        for constraint in self.constraints:
            arguments = [search.known(v) for v in constraint.args]
            problem = CONSTRAINTS[constraint.constraint_name.data](arguments)
            if problem is not None:
                return Mismatch(search.depth, f"{constraint.constraint_name.data}: {problem}", op)
        return search.bound


class _Search:
    """Attempt to match a PDL pattern at an operation of the program.

    The methods `match_...` compare a part of the pattern (`mine`) with a part of the program (`got`, `op`). They record
    a mismatch in `best`. `PdlPattern.match` creates an attempt, and calls `match_operation` for the root.

    Attributes:
        bound: Value of the pattern → what it has matched in the program so far.
        depth: Number of operations that matched so far; ranks mismatches, so that the one that got furthest is
            reported.
        best: The deepest mismatch so far; None if nothing has failed.
    """

    def __init__(self) -> None:
        """Begin with no value bound, no operation matched (`depth`), and no mismatch recorded (`best`)."""
        self.bound: Bound = {}
        self.depth = 0
        self.best: Mismatch | None = None

    def fail(self, reason: str, where: str, op: Operation | None) -> bool:
        """Record a mismatch if it is deeper than the best one so far, and return False.

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

    def match_operation(self, mine: pdl.OperationOp, op: Operation, where: str) -> bool:
        """Return whether an operation of the pattern matches `op`, and bind it.

        Both orders of commutative operands are tried.

        where: see `fail`.
        """
        if mine.op in self.bound:
            is_same = self.bound[mine.op] is op
            return is_same or self.fail(f"another {op.name} than elsewhere in the pattern", where, op)
        name = mine.opName.data if mine.opName is not None else None
        if name is not None and op.name != name and not is_spelling_of(op, name):
            return self.fail(f"expected {name}, got {op.name}", where, op)
        names = [n.data for n in mine.attributeValueNames]
        for attribute, value in zip(names, mine.attribute_values, strict=True):
            if not self.match_attribute(attribute, value, op, where):
                return False
        if not self.match_types(mine.type_values, [r.type for r in op.results], f"result of {op.name}", op):
            return False
        self.depth += 1
        operands = list(op.operands)
        orders = [operands]
        if len(operands) == 2 and info_of(op).commutative:
            orders.append(operands[::-1])
        for order in orders:
            saved, depth = dict(self.bound), self.depth  # restored if this order of the operands does not match
            if self.match_operands(mine.operand_values, order, op):
                self.bound[mine.op] = op
                return True
            self.bound, self.depth = saved, depth
        return False

    def match_attribute(self, name: str, mine: SSAValue, op: Operation, where: str) -> bool:
        """Return whether the attribute `name` of `op` matches the pattern, and bind it.

        Args:
            name: Name of the attribute or property.
            mine: The value of the pattern that stands for the attribute.
            op: Operation of the program.
            where: See `fail`.
        """
        got = op.properties.get(name, op.attributes.get(name))
        if got is None:
            return self.fail(f"{op.name} has no attribute '{name}'", where, op)
        owner = mine.owner
        wanted = self.known(mine)
        if wanted is not None and not _equal(wanted, got):
            return self.fail(f"attribute '{name}' of {op.name}: expected {wanted}, got {got}", where, op)
        if isinstance(owner, pdl.AttributeOp) and owner.value_type is not None:
            type = self.known(owner.value_type)
            have = getattr(got, "type", None)
            if type is not None and have != type:
                return self.fail(f"attribute '{name}' of {op.name}: expected a {type}, got {got}", where, op)
        self.bound[mine] = got
        return True

    def match_types(self, mine: Sequence[SSAValue], got: list[Attribute], where: str, op: Operation) -> bool:
        """Return whether a list or range of types in the pattern matches the types `got`, and bind them.

        Args:
            mine: Values of the pattern that stand for one type each, or one value that stands for all of them.
            got: Types of values of the program.
            where: See `fail`.
            op: Operation of the program that has the values.
        """
        if not mine:  # the pattern states no types
            return True
        if len(mine) == 1 and isinstance(mine[0].type, pdl.RangeType):
            wanted = self.known(mine[0])
            if wanted is not None and list(wanted) != got:
                return self.fail(f"expected types {_texts(wanted)}, got {_texts(got)}", where, op)
            self.bound[mine[0]] = got
            return True
        if len(mine) != len(got):
            return self.fail(f"expected {len(mine)} result(s), got {len(got)}", where, op)
        return all(self.match_type(m, g, where, op) for m, g in zip(mine, got, strict=True))

    def match_type(self, mine: SSAValue, got: Attribute, where: str, op: Operation | None) -> bool:
        """Return whether a type of the pattern matches `got`, and bind it. where, op: see `fail`.

        If the pattern states the type, `got` must be castable to it: dynamic sizes of the stated type match any size. A
        type variable must be the same type everywhere.
        """
        constant = constant_of(mine)
        if constant is not None:
            problem = cast_problem(got, constant)
            return problem is None or self.fail(problem, where, op)
        before = self.bound.setdefault(mine, got)
        return before == got or self.fail(f"expected {before} as elsewhere, got {got}", where, op)

    def match_operands(self, mine: Sequence[SSAValue], got: list[SSAValue], op: Operation) -> bool:
        """Return whether the operands in the pattern match the operands `got` of `op`, and bind them."""
        if len(mine) == 1 and isinstance(mine[0].type, pdl.RangeType):
            return self.match_range(mine[0], got, op)
        if len(mine) != len(got):
            return self.fail(f"expected {len(mine)} operand(s), got {len(got)}", op.name, op)
        return all(
            self.match_operand(m, g, f"operand {i} of {op.name}", op)
            for i, (m, g) in enumerate(zip(mine, got, strict=True))
        )

    def match_range(self, mine: SSAValue, got: list[SSAValue], op: Operation) -> bool:
        """Return whether a range of values in the pattern matches `got`, all operands of `op`, and bind it.

        The range is `pdl.operands`, which any values match, or the results of one operation of the pattern.
        """
        owner = mine.owner
        if isinstance(owner, pdl.ResultsOp):
            producers = {v.owner for v in map(source_of, got)}
            if len(producers) != 1 or not isinstance(next(iter(producers)), Operation):
                return self.fail("expected all operands to be results of one operation", op.name, op)
            producer = next(iter(producers))
            assert isinstance(producer, Operation) and isinstance(owner.parent_.owner, pdl.OperationOp)
            return self.match_operation(owner.parent_.owner, producer, f"operands of {op.name}")
        if (
            isinstance(owner, pdl.OperandsOp)
            and owner.value_type is not None
            and not self.match_types([owner.value_type], [v.type for v in got], f"operands of {op.name}", op)
        ):
            return False
        self.bound[mine] = got
        return True

    def match_operand(self, mine: SSAValue, got: SSAValue, where: str, user: Operation) -> bool:
        """Return whether a value of the pattern matches an operand, and bind it.

        Args:
            mine: A `pdl.operand`, which any value of its type matches, or a result of an operation of the pattern.
            got: The operand of the program.
            where: See `fail`.
            user: The operation of the program that has the operand.
        """
        owner = mine.owner
        if isinstance(owner, pdl.OperandOp):
            before = self.bound.get(mine)
            if before is not None and source_of(before) is not source_of(got):
                return self.fail("another value than elsewhere in the pattern", where, user)
            if owner.value_type is not None and not self.match_type(owner.value_type, got.type, where, user):
                return False
            self.bound.setdefault(mine, got)
            return True
        if not isinstance(owner, pdl.ResultOp | pdl.ResultsOp):
            return self.fail("a range of values among others is not supported", where, user)
        source = source_of(got)
        parent = owner.parent_.owner
        assert isinstance(parent, pdl.OperationOp)
        if not isinstance(source, OpResult):
            return self.fail(f"expected {_name(parent)}, got an argument", where, user)
        index = owner.index.value.data if owner.index is not None else 0  # `pdl.results` without one: the only result
        if source.index != index:
            return self.fail(f"expected result {index} of {_name(parent)}, got result {source.index}", where, user)
        if not self.match_operation(parent, source.op, where):
            return False
        self.bound[mine] = got
        return True


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


def _equal(wanted: Attribute, got: Attribute) -> bool:
    """Return whether two attributes are equal, or are scalar or splat constants of equal elements."""
    if wanted == got:
        return True
    key = expressions.constant_key(wanted)
    return key is not None and key == expressions.constant_key(got)


def _name(op: pdl.OperationOp) -> str:
    """Return the name of the operation that `op` matches, for messages."""
    return op.opName.data if op.opName is not None else "an operation"


def _texts(types: Sequence[Attribute]) -> str:
    """Return types as text for messages: `(f32, i32)`."""
    return f"({', '.join(map(str, types))})"
