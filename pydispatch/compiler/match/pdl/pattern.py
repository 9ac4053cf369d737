"""Patterns of a PDL module, prepared for matching: their roots, constraints and paths."""

from __future__ import annotations

from xdsl.dialects import pdl
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph.expressions import ValueNumber, intern_key
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.pdl.match import Bound, PdlSearch, is_cast, name_of, results_of
from pydispatch.compiler.match.pdl.native import CONSTRAINTS
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


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
        """Determine the root of the pattern `op` and its native constraints.

        order: position of the pattern in its module.
        """
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
        operands = [v.owner for o in ops for v in o.operand_values]
        producers = {o.parent_.owner for o in operands if isinstance(o, pdl.ResultOp | pdl.ResultsOp)}
        roots = [o for o in ops if o not in producers]
        if len(roots) != 1:
            raise CompileError(f"{self.name} has {len(roots)} operations that no other reads, expected one root",
                               location_of(self.op))  # fmt: skip
        return roots[0]

    def path(self, limit: int = 48) -> list[ValueNumber | None]:
        """Return numbers of the names of the operations in pre-order, for a discrimination tree (`graph/tree.py`).

        The tree finds the patterns that an operation may match, which are then matched in full. The pattern of
        `arith.addf(%x, arith.mulf(%y, %z))`, with inputs %x, %y and %z, has the path [number of "arith.addf", None,
        number of "arith.mulf", None, None]. None stands for any value. The path ends before the operands of an
        operation that takes any number of them.

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
            pending += [_producer(v) for v in reversed(op.operand_values)]  # the first operand is popped first
        return path

    def match(self, op: Operation) -> Bound | Mismatch:
        """Match the pattern with its root at `op`. Return the bound values, or the reason for the mismatch."""
        search = PdlSearch()
        # match_operation() yields once for each way to match, and the first one is used. Until the generator is
        # resumed, `search.bound` has its bindings.
        if not any(True for _ in search.match_operation(self.root, op, where="")):
            assert search.best is not None
            return search.best  # the mismatch before which the most operations had matched
        problem = self._bind_results(search.bound)
        if problem is None:
            # Matching skips casts of the pattern that the program lacks, but a constraint or the rewrite may read one.
            problem = self._missing_cast(search.bound)
        if problem is not None:
            return Mismatch(search.depth, problem, op)
        for constraint in self.constraints:
            arguments = [search.known(v) for v in constraint.args]
            problem = CONSTRAINTS[constraint.constraint_name.data](arguments)
            if problem is not None:
                return Mismatch(search.depth, f"{constraint.constraint_name.data}: {problem}", op)
        return search.bound

    def _bind_results(self, bound: Bound) -> str | None:
        """Add to `bound` the results of matched operations that no operation of the pattern reads, such as the root's.

        Constraints and the rewrite may read them. Return None, or the reason why a matched operation lacks a result.
        """
        for op in self.op.body.block.ops:
            if isinstance(op, pdl.ResultOp | pdl.ResultsOp) and op.val not in bound and op.parent_ in bound:
                parent = bound[op.parent_]
                results = results_of(op, parent)
                if results is None:
                    assert op.index is not None
                    return f"expected result {op.index.value.data} of {parent.name}, it has {len(parent.results)}"
                bound[op.val] = results
        return None

    def _missing_cast(self, bound: Bound) -> str | None:
        """Return None, or the reason why the match cannot be used: a constraint or the rewrite needs a cast of the
        pattern as an operation, and the program has none there.
        """
        block = self.op.body.block
        for op in block.ops:
            if isinstance(op, pdl.OperationOp) and op.op not in bound:  # a cast: all other operations are matched
                users = [use.operation for use in op.op.uses]
                # `pdl.result` in the pattern only needs the value. Constraints need the operation, and so may any
                # operation in the rewrite.
                reads_value = [isinstance(u, pdl.ResultOp | pdl.ResultsOp) and u.parent is block for u in users]
                if not all(reads_value):
                    return f"the pattern needs its {name_of(op)} as an operation, the program has none"
        return None


def _producer(value: SSAValue) -> pdl.OperationOp | None:
    """Return the operation of the pattern that a value is the result of, behind casts; None for other values."""
    owner = value.owner
    if not isinstance(owner, pdl.ResultOp):
        return None
    producer = owner.parent_.owner
    assert isinstance(producer, pdl.OperationOp)
    return _producer(producer.operand_values[0]) if is_cast(producer) else producer
