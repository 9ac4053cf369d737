"""Applies Python patterns. Which matches are taken is settled before anything is replaced.

Matches are taken by benefit, then in the order of the patterns, then from the end of the program to its start. One that
shares an operation with one taken before is left, unless they share nothing but constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.preprocess import cleanup
from pydispatch.compiler.preprocess.dag import Match, Mismatch
from pydispatch.compiler.preprocess.python_match import Compiled, MatchInfo, compile_pattern
from pydispatch.compiler.preprocess.python_replace import Replacer
from pydispatch.compiler.preprocess.report import Report
from pydispatch.compiler.preprocess.tree import Tree
from pydispatch.compiler.preprocess.view import View
from pydispatch.patterns import Pattern, Replacement
from pydispatch.patterns.sizes import Undecided

EXPLAINED = 8


def apply_patterns(patterns: Sequence[Pattern], module: ModuleOp, report: Report, replace: bool = True) -> None:
    """Rewrites `module`. CompileError for a kernel that does not fit. replace=False: only looks."""
    compiled = [compile_pattern(p, i) for i, p in enumerate(patterns)]
    view = View()
    tree: Tree[Compiled] = Tree()
    for each in compiled:
        report.declare(each.name)
        if each.dag is not None:
            tree.add(each.dag.path, each)
    others = [each for each in compiled if each.dag is None]
    found: list[tuple[tuple[int, int, int], Compiled, Match, Replacement | None]] = []
    functions = [op for op in module.body.block.ops if op.name in ("func.func", "util.func")]
    for place, op in enumerate(op for function in functions for op in function.walk()):
        for each in (*tree.find(op, view), *others):
            match = each.match(op, view)
            if isinstance(match, Mismatch):
                report.miss(each.name, op, match)
                continue
            chosen = _choose(each, match, module, report)
            if chosen is not None or not each.pattern.replacements:
                found.append(((-each.pattern.benefit, each.order, -place), each, match, chosen))
    found.sort(key=lambda item: item[0])
    taken: set[Operation] = set()
    replacer = Replacer(module)
    accepted = []
    for _, each, match, chosen in found:
        ops = {op for op in (match.ops | {match.root}) if op.name != "arith.constant"}
        if ops & taken:
            continue
        taken |= ops
        report.match(each.name, match.root, replacer.describe(chosen))
        accepted.append((each, match, chosen))
    for each in [c for c in compiled if c.name in report.unmatched and c.dag is not None][:EXPLAINED]:
        for function in functions:
            for op in function.walk():
                match = each.match(op, view)
                if isinstance(match, Mismatch):
                    report.miss(each.name, op, match)
    if replace:
        for each, match, chosen in accepted:
            if chosen is not None:
                replacer.replace(each, match, chosen)
        if accepted:
            cleanup.eliminate_dead(module)


def _choose(each: Compiled, match: Match, module: ModuleOp, report: Report) -> Replacement | None:
    """The first replacement whose predicate holds."""
    info: Any = MatchInfo(each, match, module)
    for replacement in each.pattern.replacements:
        if replacement.when is None:
            return replacement
        try:
            verdict = replacement.when(info)
        except Undecided as why:
            verdict = str(why)
        if verdict is True or (verdict and not isinstance(verdict, str)):
            return replacement
        why_not = verdict if isinstance(verdict, str) else f"its predicate does not hold for {info}"
        report.miss(each.name, match.root, Mismatch(len(match.ops) or 1, why_not, match.root))
    return None
