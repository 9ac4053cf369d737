"""Variables of a kernel with barriers: which are rematerialized in every phase, and which are spilled."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.kernels.names import read_before_assigned, read_in, targets_of


@dataclass(frozen=True)
class Stretch:
    """Consecutive statements that all invocations of a workgroup reach together.

    Attributes:
        kind: One of:
            - "phase": each invocation executes the statements on its own.
            - "barrier", "shared" or "reduction": a single statement with this collective.
            - "exchange": a single statement for which each invocation stores a value that others read. The statement
              is also the first one of the next phase, which reads these values.
            - "control": a single `if`, `for` or `while` statement that contains one of the collectives.
        nodes: The statements.
    """

    kind: str
    nodes: tuple[ast.stmt, ...]


@dataclass
class Variables:
    """Variables of a kernel, classified by how their values survive barriers.

    Attributes:
        formulas: Expressions of values that never change, recomputed where they are needed.
        uniform: Variables with the same value in all invocations.
        spilled: Variables that need memory across barriers, one element per invocation.
    """

    formulas: dict[str, ast.expr] = field(default_factory=dict)
    uniform: set[str] = field(default_factory=set)
    spilled: set[str] = field(default_factory=set)


class Assignment(NamedTuple):
    """Assignment of a variable, in a phase (statements between two barriers) or by all invocations together.

    Attributes:
        value: The assigned expression; None if the name has none of its own, as in `a, b = pair` or a `for` loop.
        is_statement: Whether the assignment is itself a statement of the phase, rather than nested in an `if` or loop.
        is_live: Whether the variable may be read after the phase before it is assigned again.
        is_collective: Whether a reduction or a `for` loop with collectives assigns it, in all invocations alike.
    """

    value: ast.expr | None
    is_statement: bool
    is_live: bool
    is_collective: bool = False


def split(statements: Iterable[ast.stmt], kind_of: Callable[[ast.stmt], str]) -> Iterator[Stretch]:
    """Yield the stretches of a block: each run of adjacent "phase" statements, and each other statement by itself.

    Example:
        i = global_id(0)         # phase
        v = x[i]                 # phase
        w = subgroup_sum(v)      # exchange
        y[i] = w                 # phase
        barrier()                # barrier

    gives the stretches phase (2 statements), exchange (1), phase (2) and barrier (1). The comments are the kinds of the
    statements. The exchange is in two stretches: in its own, each invocation stores its value; the next phase begins
    with it, to read the stored values.

    Args:
        statements: The block.
        kind_of: Returns the kind of a statement: "phase" if each invocation executes it on its own, "control" if it is
            an `if` or a loop that contains a collective, else that of its collective, such as "barrier".
    """
    run: list[ast.stmt] = []  # adjacent "phase" statements
    for statement in statements:
        kind = kind_of(statement)
        if kind == "phase":
            run.append(statement)
            continue
        if run:
            yield Stretch("phase", tuple(run))
            run = []
        yield Stretch(kind, (statement,))
        if kind == "exchange":  # also the first statement of the next phase
            run.append(statement)
    if run:
        yield Stretch("phase", tuple(run))


def assignments(nodes: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, bool]]:
    """Yield (name, value, is_statement) of every assignment in the statements `nodes` of a phase.

    value: the assigned expression; None if the name has none of its own, as in `a, b = pair` or a `for` loop.
    is_statement: whether the assignment is one of `nodes`, rather than nested in one.
    """
    for statement in nodes:
        for node in ast.walk(statement):
            for name in targets_of(node):
                yield name, _value(node, name), node is statement


def _value(node: ast.AST, name: str) -> ast.expr | None:
    """Return the expression that a statement assigns to a name; None if the name has none of its own.

    `a += b` assigns `a + b`. A name that is unpacked from an expression, or the target of a loop, has none.
    """
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            return value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return next((v for t, v in pairs if isinstance(t, ast.Name) and t.id == name), None)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        changed = ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
        return ast.fix_missing_locations(ast.copy_location(changed, node))
    return None


def classify(
    statements: Sequence[ast.stmt], kind_of: Callable[[ast.stmt], str], is_pure: Callable[[ast.expr, set[str]], bool],
    never_assigned: set[str], differing: Callable[[ast.expr], bool],
) -> Variables:  # fmt: skip
    """Classify the variables of a kernel by how their values survive barriers.

    A phase is the statements between two barriers or other collectives, which each invocation executes on its own.
    Variables that are used in one phase only need no class.

    A variable that is read in another phase than it is assigned in is a formula (its expression is computed again in
    each phase), uniform (computed once, as all invocations have the same value), or else spilled to memory. If they are
    read after a barrier, `i = global_id(0)` is a formula, `total = group_sum(x[i])` uniform, and `v = x[i]` spilled.

    Args:
        statements: The body of the kernel.
        kind_of: Returns the kind of a statement: "phase", "control" or a collective ("barrier", "shared", "reduction",
            "exchange"). "control" is an `if` or a loop that contains a collective.
        is_pure: Returns whether an expression reads no memory, and no variables but the given names.
        never_assigned: Names that no statement assigns.
        differing: Returns whether an expression itself mentions the id of the invocation.
    """
    liveness = _Liveness(kind_of)
    liveness.before(statements, after=set())
    assigned: dict[str, list[Assignment]] = {}
    # The analysis goes backwards: reversed, the stretches are in the order of the source. Only a phase has assignments
    # of single invocations; those of collectives follow.
    for stretch, live in reversed(liveness.after_stretch.items()):
        for name, value, is_statement in assignments(stretch.nodes) if stretch.kind == "phase" else ():
            assigned.setdefault(name, []).append(Assignment(value, is_statement, is_live=name in live))
    for name, is_live in liveness.collective.items():
        assigned.setdefault(name, []).append(Assignment(None, is_statement=True, is_live=is_live, is_collective=True))

    # Crossing variables that are neither formulas nor uniform need memory.
    crossing = {name for name, own in assigned.items() if any(assignment.is_live for assignment in own)}
    variables = Variables()
    _add_formulas(variables, crossing, assigned, is_pure, never_assigned)
    _add_uniform(variables, crossing - variables.formulas.keys(), assigned, is_pure, never_assigned, differing)
    variables.spilled = crossing - variables.formulas.keys() - variables.uniform
    return variables


class _Liveness:
    """Backward analysis of live variables: those that may be read before they are assigned again.

    A stretch (`Stretch`) is a phase, which is consecutive statements that each invocation executes on its own, or a
    single statement that all invocations reach together: a collective, such as a barrier, or an `if` or loop that
    contains one. An exchange is a collective whose invocations store values that others read in the next phase.

    Attributes:
        after_stretch: The variables that are live after each stretch of the kernel, last stretch first.
        collective: Targets of reductions, and of `for` loops that contain collectives → whether the assigned value is
            live.
    """

    def __init__(self, kind_of: Callable[[ast.stmt], str]) -> None:
        """Begin without stretches. kind_of: returns the kind of a statement, such as "phase" or "barrier"."""
        self._kind_of = kind_of
        self.after_stretch: dict[Stretch, set[str]] = {}
        self.collective: dict[str, bool] = {}

    def before(self, block: Sequence[ast.stmt], after: set[str]) -> set[str]:
        """Return the variables that are live before a block, and add its stretches to `after_stretch`.

        A stretch is a run of statements that each invocation executes on its own (a phase), or a single statement that
        contains a collective, such as a barrier. A stretch in a loop is visited repeatedly: its live variables add up.

        after: variables that are live after the block.
        """
        live = after
        for stretch in reversed(list(split(block, self._kind_of))):
            self.after_stretch.setdefault(stretch, set()).update(live)
            node = stretch.nodes[0]
            if stretch.kind == "phase":
                assigned = set[str]()  # on every path through the phase
                exposed = read_before_assigned(stretch.nodes, assigned)
                live = exposed | (live - assigned)  # read before it is assigned, or live after and not assigned
            elif stretch.kind in ("reduction", "exchange"):
                # The statement of an exchange is also the first one of the next phase, which assigns its target.
                targets = self._assign_collectively(node, live) if stretch.kind == "reduction" else set()
                live = read_in(n for n in ast.walk(node) if isinstance(n, ast.Call)) | (live - targets)
            # An `if` or a loop that contains a collective; barriers and allocations read no variables.
            elif isinstance(node, ast.If):
                other = self.before(node.orelse, live)
                live = read_in([node.test]) | other | self.before(node.body, live)
            elif isinstance(node, (ast.For, ast.While)):
                live = self._before_loop(node, live)
        return live

    def _before_loop(self, node: ast.For | ast.While, after: set[str]) -> set[str]:
        """Return the variables that are live before a loop that contains collectives.

        The body is visited until no iteration adds a variable. after: variables that are live after the loop.
        """
        # `live`: variables that are live between two iterations. At first, those after the loop and in its head.
        live = self.before(node.orelse, after) | read_in([node.iter if isinstance(node, ast.For) else node.test])
        while True:
            before_body = self.before(node.body, live)
            if isinstance(node, ast.For):
                before_body -= self._assign_collectively(node, before_body)
            if before_body <= live:
                return live
            live = live | before_body

    def _assign_collectively(self, node: ast.stmt, live: set[str]) -> set[str]:
        """Add the targets of a reduction or loop to `collective`, and return them. live: variables live after it."""
        targets = set(targets_of(node))
        for name in sorted(targets):
            self.collective[name] = self.collective.get(name, False) or name in live
        return targets


def _add_formulas(
    variables: Variables, crossing: set[str], assigned: dict[str, list[Assignment]],
    is_pure: Callable[[ast.expr, set[str]], bool], never_assigned: set[str],
) -> None:  # fmt: skip
    """Add formulas (variables whose expression is computed again in each phase) to `variables.formulas`.

    A formula is assigned once, by a statement that is not nested, from formulas and variables that are never assigned.
    Only crossing formulas are added, and formulas that their expressions read.

    Example:
        i = global_id(0)     # a formula, which j reads
        j = 2 * i + n        # a crossing formula; n is a parameter
        k = i + 1            # a formula, but not added: no other phase reads it
        v = x[k]             # not a formula: it reads memory
        barrier()
        y[j] = v

    adds i and j, in this order.

    Args:
        variables: The classification so far.
        crossing: Variables that are read in another phase than they are assigned in.
        assigned: Assignments of each variable.
        is_pure: Returns whether an expression reads no memory, and no variables but the given names.
        never_assigned: Names that no statement assigns.
    """
    # All formulas, crossing or not, each after the formulas that it reads. Passes over the variables are repeated,
    # since a formula that one pass finds may be read by a variable before it.
    formulas = dict[str, ast.expr]()
    grew = True
    while grew:
        grew = False
        for name, own in assigned.items():
            if name in formulas or len(own) != 1:  # a variable that is assigned several times is no formula
                continue
            value, is_statement = own[0].value, own[0].is_statement
            if is_statement and value is not None and is_pure(value, never_assigned | formulas.keys()):
                formulas[name] = value
                grew = True
    # Crossing variables, and all variables that their formulas read, directly or not. In the reversed order each
    # formula precedes those that it reads, so that one pass is enough.
    read = set(crossing)
    for name in reversed(formulas):
        if name in read:
            read |= read_in([formulas[name]])
    variables.formulas.update((name, value) for name, value in formulas.items() if name in read)


def _add_uniform(
    variables: Variables, names: set[str], assigned: dict[str, list[Assignment]],
    is_pure: Callable[[ast.expr, set[str]], bool], never_assigned: set[str], differing: Callable[[ast.expr], bool],
) -> None:  # fmt: skip
    """Add the crossing variables that have the same value in all invocations to `variables.uniform`.

    Reductions and `for` loops with collectives assign the same value in all invocations. All other values assigned to
    such a variable are computed without memory and without ids of invocations, from variables that are never assigned,
    from formulas of which this is true as well, and from uniform variables. All of these may depend on each other, so
    the largest such set is determined: it starts with all candidates, and candidates are removed until no remaining one
    depends on a removed one.

    Example:
        k = 0                # uniform: k depends on itself only
        m = 0                # not uniform, because of its second value
        while k < n:
            barrier()
            k = k + 1
            m = m + local_id(0)

    Args:
        variables: The classification so far. Its formulas are complete.
        names: Candidates: variables that are read in another phase than they are assigned in, and are no formulas.
        assigned: Assignments of each variable.
        is_pure: Returns whether an expression reads no memory, and no variables but the given names.
        never_assigned: Names that no statement assigns.
        differing: Returns whether an expression itself mentions the id of the invocation.
    """
    # Formulas with the same value in all invocations: first those without an id of the invocation.
    uniform_formulas = {name for name, value in variables.formulas.items() if not differing(value)}
    while True:  # remove formulas that read a formula that differs between invocations
        different = variables.formulas.keys() - uniform_formulas
        remaining = {name for name in uniform_formulas if not read_in([variables.formulas[name]]) & different}
        if remaining == uniform_formulas:
            break
        uniform_formulas = remaining
    candidates = set(names)
    while True:  # remove candidates until each one's values depend only on the remaining ones
        known = never_assigned | uniform_formulas | candidates
        remaining = {
            name
            for name in candidates
            if all(own.is_collective or _is_same(own, known, is_pure, differing) for own in assigned[name])
        }
        if remaining == candidates:
            break
        candidates = remaining
    variables.uniform |= candidates


def _is_same(
    assignment: Assignment, known: set[str], is_pure: Callable[[ast.expr, set[str]], bool],
    differing: Callable[[ast.expr], bool],
) -> bool:  # fmt: skip
    """Return whether an assignment in a phase leaves a variable with one value for all invocations after the phase.

    known: names of variables with one value for all invocations. is_pure: returns whether an expression reads no
    memory, and no variables but the given names. differing: returns whether it mentions the id of the invocation.
    """
    value = assignment.value
    # The value of an assignment inside an `if` or loop of a phase, or without an expression of its own, may differ. It
    # is not evaluated after the phase, so that it matters only if it is read there.
    if not assignment.is_statement or value is None:
        return not assignment.is_live
    return not differing(value) and is_pure(value, known)
