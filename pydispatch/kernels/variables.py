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
    """Assignment of a variable in a phase (statements between two barriers).

    Attributes:
        phase: Index of the phase in the kernel, from 0.
        value: The assigned expression; None if the name has none of its own, as in `a, b = pair` or a `for` loop.
        is_statement: Whether the assignment is itself a statement of the phase, rather than nested in an `if` or loop.
    """

    phase: int
    value: ast.expr | None
    is_statement: bool


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
        kind_of: Returns the kind of a statement, as in `Stretch.kind`.
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
            "exchange"), as in `Stretch.kind`.
        is_pure: Returns whether an expression reads no memory, and no variables but the given names.
        never_assigned: Names that no statement assigns.
        differing: Returns whether an expression itself mentions the id of the invocation.
    """
    # Stretches of the kind "phase", expressions that all invocations evaluate outside of phases, uniform variables.
    phases, evaluated_everywhere, uniform = list[Stretch](), list[ast.expr](), set[str]()

    def visit(block: Sequence[ast.stmt]) -> None:
        """Add the phases of a block and of the blocks in it to `phases`, and the expressions that are evaluated between
        them to `evaluated_everywhere`.

        These expressions are the calls of reductions and exchanges, and the conditions and iterables of `if`, `for` and
        `while` statements that contain collectives. The results of reductions and the variables of such `for` loops are
        the same for all invocations: they are added to `uniform`. Results of exchanges may differ.
        """
        for part in split(block, kind_of):
            node = part.nodes[0]
            if part.kind == "phase":
                phases.append(part)
            elif part.kind == "reduction":
                uniform.update(targets_of(node))
                evaluated_everywhere.extend(n for n in ast.walk(node) if isinstance(n, ast.Call))
            elif part.kind == "exchange":
                evaluated_everywhere.extend(n for n in ast.walk(node) if isinstance(n, ast.Call))
            elif part.kind == "control":
                assert isinstance(node, (ast.If, ast.For, ast.While))
                if isinstance(node, ast.For):
                    uniform.update(targets_of(node))
                evaluated_everywhere.append(node.iter if isinstance(node, ast.For) else node.test)
                visit(node.body)
                visit(node.orelse)

    visit(statements)

    # A variable is crossing if it is assigned in a phase, and read outside of phases or in a phase before an assignment
    # in that phase. Crossing variables that are neither formulas nor uniform need memory.
    assigned: dict[str, list[Assignment]] = {}
    for index, part in enumerate(phases):
        for name, value, is_statement in assignments(part.nodes):
            assigned.setdefault(name, []).append(Assignment(index, value, is_statement))
    exposed = read_in(evaluated_everywhere).union(*(read_before_assigned(part.nodes) for part in phases))
    crossing = assigned.keys() & exposed - uniform
    variables = Variables(uniform=uniform)
    _add_formulas(variables, crossing, assigned, is_pure, never_assigned)
    _add_uniform(variables, crossing - variables.formulas.keys(), assigned, is_pure, never_assigned, differing)
    variables.spilled = crossing - variables.formulas.keys() - variables.uniform
    return variables


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
            if name in formulas or name in variables.uniform or len(own) != 1:
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

    All values assigned to such a variable are computed without memory and without ids of invocations, from variables
    that are never assigned, from formulas of which this is true as well, and from uniform variables. All of these may
    depend on each other, so the largest such set is determined: it starts with all candidates, and candidates are
    removed until no remaining one depends on a removed one.

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
        known = never_assigned | uniform_formulas | variables.uniform | candidates
        # An assignment inside an `if` or loop of a phase, or without a value of its own, may differ.
        remaining = {
            name for name in candidates
            if all(
                own.is_statement and own.value and not differing(own.value) and is_pure(own.value, known)
                for own in assigned[name]
            )
        }  # fmt: skip
        if remaining == candidates:
            break
        candidates = remaining
    variables.uniform |= candidates
