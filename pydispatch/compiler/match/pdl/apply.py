"""Application of the patterns of a `pdl` module until none of them matches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects import pdl
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.match.edit import cleanup
from pydispatch.compiler.match.graph.expressions import intern_key
from pydispatch.compiler.match.graph.matches import Mismatch
from pydispatch.compiler.match.graph.tree import Tree
from pydispatch.compiler.match.graph.view import source_of
from pydispatch.compiler.match.pdl.pattern import PdlPattern, canonical_name
from pydispatch.compiler.match.pdl.rewrite import Rewriting
from pydispatch.compiler.match.report import Report
from pydispatch.compiler.match.transform.index import kind_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk

SWEEPS = 32
"""Maximum number of sweeps over the program; patterns that still match after them are taken to match forever."""
GROWTH = 64
"""Factor by which patterns may grow the program; patterns that exceed it are taken to match forever."""
SMALL_PROGRAM = 64
"""Number of operations that a smaller program counts as, where GROWTH limits its growth: it may grow by more."""
MOST_EXPLAINED = 8
"""Maximum number of unmatched patterns whose misses are reported; each costs another sweep."""


def apply_pdl(spec: ModuleOp, program: ModuleOp, report: Report) -> None:
    """Apply the patterns of `spec` to `program` until none of them matches.

    Args:
        spec: A module with `pdl.pattern` operations.
        program: The program, which is changed in place.
        report: Receives the matches, and the near misses of patterns without a match.

    Raises:
        CompileError: The spec has no pattern, or one that cannot be applied or matches forever; located in the spec.
    """
    # A pattern with its position in the spec.
    patterns = [PdlPattern(op, i) for i, op in enumerate(o for o in walk(spec) if isinstance(o, pdl.PatternOp))]
    if not patterns:
        raise CompileError("the spec has no pdl.pattern", location_of(spec) or location_of(spec.body.block.first_op))
    for pattern in patterns:
        report.declare(pattern.name)
    _apply_until_stable(patterns, program, report)
    # The search by names ruled out most operations without a reason: another sweep finds reasons for the report.
    for pattern in [p for p in patterns if p.name in report.unmatched][:MOST_EXPLAINED]:
        for op in walk(program):
            match = pattern.match(op)
            if isinstance(match, Mismatch):
                report.miss(pattern.name, op, match)


def _apply_until_stable(patterns: Sequence[PdlPattern], program: ModuleOp, report: Report) -> None:
    """Apply patterns in sweeps over the program until a sweep changes nothing.

    Operations without uses are erased after each sweep that changes something.

    Raises:
        CompileError: There were `SWEEPS` sweeps, or the program has grown to `GROWTH` times its size; located at the
            pattern that matched last.
    """
    tree: Tree[PdlPattern] = Tree()  # finds the few patterns that an operation may match
    for pattern in patterns:
        tree.add(pattern.path(), pattern)
    # Kind and attributes of an operation -> positions of the patterns whose root does not match such an operation,
    # whatever its operands are. They are not tried again at other operations of this kind and with these attributes.
    refused: dict[Hashable, set[int]] = {}
    max_operations = GROWTH * max(SMALL_PROGRAM, sum(1 for _ in walk(program)))
    for _ in range(SWEEPS):
        changed = False
        for op in _bounded_walk(program, max_operations, patterns, report):
            if op.parent is not None and _is_attached(op, program):  # not erased by a rewrite of this sweep
                changed = _apply_at(op, tree, program, report, refused) or changed
        if not changed:
            return
        cleanup.eliminate_dead(program)
    raise _endless_error(patterns, report, f"{SWEEPS} rounds")


def _bounded_walk(
    program: ModuleOp, max_operations: int, patterns: Sequence[PdlPattern], report: Report
) -> list[Operation]:
    """Return the operations of a program. Raise CompileError if it has more than `max_operations`.

    Such growth is taken to mean that a pattern matches forever: the error names the pattern of the last match in
    `report`.
    """
    ops = list(walk(program))
    if len(ops) > max_operations:
        raise _endless_error(patterns, report, f"the program has grown to {len(ops)} operations")
    return ops


def _endless_error(patterns: Sequence[PdlPattern], report: Report, limit: str) -> CompileError:
    """Return the CompileError that says that the most recently applied pattern still matches.

    limit: the limit that was reached, such as "32 rounds".
    """
    last = report.found[-1].pattern
    culprit = next(p.op for p in patterns if p.name == last)
    note = "its replacement contains what it matches"
    return CompileError(f"{last} still matches after {limit}", location_of(culprit), note)


def _is_attached(op: Operation, program: ModuleOp) -> bool:
    """Return whether `op` is still in the program: no rewrite has erased it or one around it."""
    return program.is_ancestor(op)


def _apply_at(
    op: Operation, tree: Tree[PdlPattern], program: ModuleOp, report: Report, refused: dict[Hashable, set[int]]
) -> bool:
    """Apply the pattern of highest benefit that matches at `op`; return whether one did.

    Among equal benefits, the first one in the spec is applied.

    Args:
        op: Operation of the program.
        tree: Index of the patterns.
        program: The program, which is changed in place.
        report: Receives the match and near misses.
        refused: Kind and attributes of an operation -> positions in the spec (`PdlPattern.order`) of patterns that
            mismatch in these. It receives new ones.
    """
    # The patterns whose operations have the names of `op` and its producers, without those known not to match.
    candidates = tree.find(op, view=NAMES)  # type: ignore[arg-type]  # its nodes are the names of operations
    if not candidates:
        return False
    known_mismatches = refused.setdefault((kind_of(op), *op.properties.items(), *op.attributes.items()), set())
    untried = [p for p in candidates if p.order not in known_mismatches]
    for pattern in sorted(untried, key=lambda p: (-p.benefit, p.order)):
        match = pattern.match(op)
        if isinstance(match, Mismatch):
            if match.depth == 0:  # already the root's name, attributes or types differ
                known_mismatches.add(pattern.order)
            report.miss(pattern.name, op, match)
            continue
        rewriting = Rewriting(pattern, match, op, program)
        report.match(pattern.name, op, rewriting.description())
        rewriting.run()
        return True
    return False


class _NameNode:
    """Operation of the program as the discrimination tree of the patterns sees it: its name and its operands.

    `_NameView` creates a node for each value that the tree visits. For `%r = arith.addf %a, %b` the key is the id of
    the name "arith.addf", and the children are %a and %b.

    Attributes:
        key: Number of `canonical_name` of the operation, as in `PdlPattern.path`; None for a block argument.
        children: The operands of the operation; none for a block argument.
        commutative: Whether the tree also searches the two operands in exchanged order.
    """

    __slots__ = ("children", "commutative", "key")

    def __init__(self, value: SSAValue) -> None:
        """Create the node of the operation that defines `value`, or of a block argument."""
        op = value.owner if isinstance(value, OpResult) else None
        # A block argument has no key: it matches only the wildcard, which stands for an input of a pattern.
        self.key = intern_key(("name", canonical_name(op.name))) if isinstance(op, Operation) else None
        self.children = list(op.operands) if isinstance(op, Operation) else []
        # True also for subtractions, which are not commutative: the tree then returns too many patterns, of which
        # `PdlPattern.match` rejects those that do not match.
        self.commutative = isinstance(op, Operation) and len(self.children) == 2 and op.name.startswith("arith.")


class _NameView:
    """View of a program by which `Tree.find` compares only names of operations; `PdlPattern.match` checks the rest."""

    def node(self, value: SSAValue | _NameNode) -> _NameNode:
        """Return the node of a value; casts are skipped."""
        return value if isinstance(value, _NameNode) else _NameNode(source_of(value))

    def nodes(self, op: Operation) -> list[_NameNode]:
        """Return one node for each result of an operation."""
        return [_NameNode(r) for r in op.results]


NAMES = _NameView()
"""View of programs by the names of operations, for `Tree.find`; it has no state, so all programs share it."""
