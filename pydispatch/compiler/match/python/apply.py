"""Application of Python patterns. All matches are selected before any of them is replaced.

Matches are selected by benefit, then in the order of the patterns, then from the end of the program to its start. A
match that shares an operation other than a constant with a selected one is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.match.edit import cleanup
from pydispatch.compiler.match.graph.matches import Match, Mismatch
from pydispatch.compiler.match.graph.tree import Tree
from pydispatch.compiler.match.graph.view import GraphView
from pydispatch.compiler.match.python.match import Compiled, MatchInfo, compile_pattern, user_function_error
from pydispatch.compiler.match.python.replace import Replacer
from pydispatch.compiler.match.report import Report
from pydispatch.ir.core.walk import walk
from pydispatch.ir.functions import FUNCTIONS
from pydispatch.patterns import Pattern, Replacement
from pydispatch.patterns.sizes import Undecided

MOST_EXPLAINED = 8
"""Maximum number of unmatched patterns whose misses are reported; each costs another pass over the program."""


@dataclass(frozen=True)
class Candidate:
    """Match that a kernel may replace. `Decide` functions choose among candidates."""

    pattern: Pattern
    match: Match
    kernel: str  # description of the kernel, as reports show it


Decide = Callable[[Sequence[Candidate]], Sequence[bool]]
"""Callback that returns, in the order of the candidates, whether to replace each of them."""


def apply_patterns(
    patterns: Sequence[Pattern], module: ModuleOp, report: Report, targets: tuple[str, ...] = (), replace: bool = True,
    decide: Decide | None = None,
) -> None:  # fmt: skip
    """Match the patterns in `module`, report the matches, and replace them by their kernels.

    Args:
        patterns: The patterns.
        module: The program, which is changed in place.
        report: Receives the matches, and the near misses of patterns without a match.
        targets: The formats that the program is compiled for, for predicates and generators.
        replace: Whether to replace matches; otherwise they are only reported.
        decide: Selects the matches to replace; None for all.

    Raises:
        CompileError: A kernel does not fit its match.
    """
    # The matches, of which no two share operations.
    compiled = [compile_pattern(p, i) for i, p in enumerate(patterns)]
    view = GraphView()
    ops = [op for function in module.body.block.ops if function.name in FUNCTIONS for op in walk(function)]
    accepted = _select_disjoint(_find(compiled, ops, view, targets, report))
    replacer = Replacer(module, targets)
    if decide is not None and replace:  # matches that it rejects are only reported
        accepted = _decided(accepted, replacer, decide)
    for compiled_pattern, match, chosen in accepted:
        report.match(compiled_pattern.name, match.root, replacer.describe(chosen))
    _report_misses(compiled, ops, view, report)
    if not replace or not accepted:
        return
    # Replace from the end of the program, so that the readers of a match's results are replaced before it.
    positions = {op: position for position, op in enumerate(ops)}
    for compiled_pattern, match, chosen in sorted(accepted, key=lambda selection: -positions[selection.match.root]):
        if chosen is not None:
            replacer.replace(compiled_pattern, match, chosen)
    cleanup.eliminate_dead(module)


def _report_misses(compiled: Sequence[Compiled], ops: Sequence[Operation], view: GraphView, report: Report) -> None:
    """Record in `report` why the first `MOST_EXPLAINED` patterns without a match do not match any operation."""
    unmatched = set(report.unmatched)
    graphs = [c for c in compiled if c.dag is not None]  # only patterns matched as graphs can explain a mismatch
    for compiled_pattern in [c for c in graphs if c.name in unmatched][:MOST_EXPLAINED]:
        for op in ops:
            match_or_not = compiled_pattern.match(op, view)
            if isinstance(match_or_not, Mismatch):
                report.miss(compiled_pattern.name, op, match_or_not)


class _Selection(NamedTuple):
    """Match of a pattern, and its replacement; None for a match that is only reported."""

    compiled: Compiled
    match: Match
    replacement: Replacement | None


def _decided(accepted: list[_Selection], replacer: Replacer, decide: Decide) -> list[_Selection]:
    """Return the matches of `accepted` in order; a match that `decide` rejects has None as its replacement.

    `decide` is called once, for the matches with a replacement, and returns whether to replace each.
    """
    candidates = [
        Candidate(compiled.pattern, match, replacer.describe(chosen))
        for compiled, match, chosen in accepted
        if chosen is not None
    ]
    verdicts = iter(decide(candidates) if candidates else ())  # True or False for each candidate
    decided: list[_Selection] = []
    for compiled, match, chosen in accepted:
        is_replaced = chosen is not None and next(verdicts)
        decided.append(_Selection(compiled, match, chosen if is_replaced else None))
    return decided


def _find(
    compiled: Sequence[Compiled], ops: Sequence[Operation], view: GraphView, targets: tuple[str, ...], report: Report
) -> list[tuple[tuple[int, int, int], _Selection]]:
    """Return every match with its sort key (-benefit, order of the pattern, -position in the program).

    In the order of the keys, a match precedes those of lower benefit, of later patterns, and at earlier operations.
    Mismatches are recorded in `report`.

    Args:
        compiled: The patterns.
        ops: Operations at which a match may have its root, in program order.
        view: Nodes of the program.
        targets: Formats that the program is compiled for, which predicates may query.
        report: Report of the misses.
    """
    # A discrimination tree finds the patterns that an operation may match. Matcher functions of the user are tried at
    # every operation.
    tree: Tree[Compiled] = Tree()
    for candidate in compiled:
        report.declare(candidate.name, candidate.dag.nodes[0].label if candidate.dag is not None else "")
        if candidate.dag is not None:
            tree.add(candidate.dag.path, candidate)
    matcher_functions = [candidate for candidate in compiled if candidate.dag is None]  # of no known root
    keyed = []
    for position, op in enumerate(ops):
        for candidate in (*tree.find(op, view), *matcher_functions):
            match = candidate.match(op, view)
            if isinstance(match, Mismatch):
                report.miss(candidate.name, op, match)
                continue
            # A match counts if a replacement applies to it, or the pattern has none.
            chosen = _choose(candidate, match, targets, report)
            is_only_reported = not candidate.pattern.replacements
            if chosen is not None or is_only_reported:
                sort_key = (-candidate.pattern.benefit, candidate.order, -position)
                keyed.append((sort_key, _Selection(candidate, match, chosen)))
    return keyed


def _select_disjoint(keyed: list[tuple[tuple[int, int, int], _Selection]]) -> list[_Selection]:
    """Return the matches in the order of their sort keys, without those that share an operation with an earlier one.

    keyed: (sort key, match) of each. The key is (-benefit, order of the pattern, -position in the program).
    """
    taken: set[Operation] = set()
    accepted = []
    for _sort_key, selection in sorted(keyed, key=lambda entry: entry[0]):
        # Matches may share constants: replacing one does not change them.
        ops = {op for op in (selection.match.ops | {selection.match.root}) if op.name != "arith.constant"}
        if not ops & taken:
            taken |= ops
            accepted.append(selection)
    return accepted


def _choose(compiled: Compiled, match: Match, targets: tuple[str, ...], report: Report) -> Replacement | None:
    """Return the first replacement whose predicate holds, or None; report each predicate that does not hold.

    A replacement without a predicate always applies. A predicate that does not hold may return a string, its reason.

    Raises:
        CompileError: A predicate, a function of the user, raises an exception.
    """
    info: Any = MatchInfo(compiled, match, targets)
    for replacement in compiled.pattern.replacements:
        if replacement.when is None:
            return replacement
        try:
            verdict: object = replacement.when(info)
        except Undecided as why:  # it depends on a dynamic size
            verdict = str(why)
        except Exception as error:
            raise user_function_error("predicate", compiled.name, error, match.root) from error
        if verdict and not isinstance(verdict, str):
            return replacement
        why_not = verdict if isinstance(verdict, str) else f"its predicate does not hold for {info}"
        operation_count = len(match.ops) or 1  # every operation of the pattern matched, at least the root
        report.miss(compiled.name, match.root, Mismatch(depth=operation_count, reason=why_not, op=match.root))
    return None
