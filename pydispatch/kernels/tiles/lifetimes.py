"""Use counts and last uses of the variables of a function, by which memory of dead tiles is reused."""

from __future__ import annotations

import ast
from collections import Counter

from pydispatch.kernels.names import targets_of

Position = tuple[int, int]
"""Line and column in the source of a function; positions are compared in the order of the text."""
_BEGIN: Position = (0, 0)
"""Position (line, column) before all statements of a function: lines are counted from 1."""


class Lifetimes:
    """Use counts and last uses of the variables of one function, whose syntax tree is `tree`.

    `TileVariables` has an instance for each function that it emits. A tile that is read once need not be stored, and
    the buffer of a variable is reused after the statement at which the variable `ends`.

    Attributes:
        assigned: Number of assignments of each variable in the text of the function.
        read: Number of reads of each variable in the text of the function.
    """

    def __init__(self, tree: ast.FunctionDef) -> None:
        """Record the assignments and reads of all variables in `tree`."""
        self.assigned: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self._last_read: dict[str, Position] = {}  # position of the last read in the text of the function
        self._stores: dict[str, list[Position]] = {}  # positions of the assignments; none for parameters
        self._loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
        for node in ast.walk(tree):
            for name in targets_of(node):
                self.assigned[name] += 1
                self._stores.setdefault(name, []).append(_begin(node))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._record_read(node.id, node)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._record_read(node.target.id, node.target)

    def _record_read(self, name: str, node: ast.AST) -> None:
        """Record that a node reads a variable."""
        self.read[name] += 1
        self._last_read[name] = max(self._last_read.get(name, _BEGIN), _begin(node))

    def ends(self, name: str, statement: ast.stmt) -> bool:
        """Return whether a variable is dead after a statement: its present value is not read again.

        It is live if it is read later in the text, or if the statement is in a loop that does not assign the variable
        anew in each iteration: the next iteration may then read the value.

            a = x[0:16]
            b = a + 1          # a is dead after this statement
            for k in range(4):
                c = b * k      # b is live: the next iteration reads it
                y[k] = max(c)  # c is dead: the next iteration assigns it first
        """
        # Positions are (line, column).
        end = statement.end_lineno or 0, statement.end_col_offset or 0
        if self._last_read.get(name, _BEGIN) >= end:
            return False
        begin = _begin(statement)
        stores = self._stores.get(name, [_BEGIN])  # a parameter has its value at the beginning
        for loop in self._loops:
            loop_begin, loop_end = _begin(loop), (loop.end_lineno or 0, loop.end_col_offset or 0)
            is_enclosing = loop is not statement and loop_begin <= begin < loop_end
            # Without an assignment outside of the loop, the variable has no value before the loop. So each iteration of
            # a valid kernel assigns the variable before it reads it: the next iteration does not read the old value.
            is_loop_local = all(loop_begin < position < loop_end for position in stores)
            if is_enclosing and not is_loop_local:
                return False
        return True


def _begin(node: ast.AST) -> Position:
    """Return the source position (line, column) at which a node begins."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
