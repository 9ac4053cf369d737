"""Names that statements assign and read, and exits (break, continue, return) that leave the statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

BREAK, CONTINUE, RETURN = "break ", "continue ", "return "
"""Names in the environment of the flags of exits: i1 values, true if the exit was taken. Variables of kernels have no
space in their names."""
EXITS: dict[type[ast.stmt], str] = {ast.Break: BREAK, ast.Continue: CONTINUE, ast.Return: RETURN}
"""Statements that leave a block → the names of their flags."""


def targets_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that one statement assigns by itself, without the statements in it."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
        targets = [node.target]
    for target in targets:
        yield from names_in(target)


def names_in(target: ast.expr) -> Iterator[str]:
    """Yield the names in the target of an assignment, which may be a tuple of tuples; none for `x[i]`."""
    if isinstance(target, ast.Name):
        yield target.id
    for element in target.elts if isinstance(target, ast.Tuple) else ():
        yield from names_in(element)


def assigned_in(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names that the statements, or statements inside them, assign."""
    return {name for statement in statements for node in ast.walk(statement) for name in targets_of(node)}


def read_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are read anywhere in the nodes. The target of an augmented assignment is read too."""
    names = set()
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def read_before_assigned(statements: Iterable[ast.stmt], assigned: set[str] | None = None) -> set[str]:
    """Return the names that statements may read before they assign them.

    assigned: names that are assigned before the statements, none by default. The names that the statements assign on
    every path are added to this set; the body of a loop may run zero times, so that its assignments do not count.
    """
    done = set() if assigned is None else assigned
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.If):
            after_body, after_orelse = set(done), set(done)
            names |= read_in([node.test]) - done
            names |= read_before_assigned(node.body, after_body) | read_before_assigned(node.orelse, after_orelse)
            done |= after_body & after_orelse
        elif isinstance(node, ast.For):
            names |= read_in([node.iter]) - done
            # The loop variable is assigned in the body; after it only if there was an iteration.
            names |= read_before_assigned(node.body, done | set(targets_of(node)))
        elif isinstance(node, ast.While):
            names |= read_in([node.test]) - done
            names |= read_before_assigned(node.body, set(done))
        else:
            names |= read_in([node]) - done
            done |= set(targets_of(node))
    return names


def returns_value(node: ast.Return) -> bool:
    """Return whether a return states a value other than None."""
    return node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None)


def exits_of(node: ast.AST) -> frozenset[str]:
    """Return the exits that may transfer control out of a statement, as the names of their flags (BREAK, ...).

    `break` and `continue` inside a loop stay within that loop.
    """
    if isinstance(node, ast.stmt) and type(node) in EXITS:
        return frozenset({EXITS[type(node)]})
    exits: set[str] = set()
    if isinstance(node, (ast.If, ast.For, ast.While)):
        for statement in (*node.body, *node.orelse):
            exits |= exits_of(statement)
        if not isinstance(node, ast.If):  # a loop: only a return leaves it as well
            exits &= {RETURN}
    return frozenset(exits)
