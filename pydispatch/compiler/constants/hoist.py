"""Hoisting of constant expressions out of functions into constants that a program derives once.

A value is hoisted when this saves work in every call and costs little memory. When a value would be large (a broadcast,
widened weights), its operands are considered instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.edit import erase_unused
from pydispatch.compiler.analysis.kinds import CONSTANTS, ONCE, inputs_of
from pydispatch.compiler.constants.functions import DerivedFunctions, constant_of
from pydispatch.compiler.constants.known import KnownConstants, bytes_of, known_of
from pydispatch.compiler.constants.relay import matrix_of, source_of_transposition, transposition_of
from pydispatch.compiler.flatten.inline import DERIVED
from pydispatch.compiler.tensor_ops.rules.fills import SMALL_CONSTANT
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.functions import FUNCTIONS
from pydispatch.ir.op_info import Cost
from pydispatch.ir.values import shape_of

FOLDED_ELEMENTS = 4096
"""Maximum number of elements of a value that is computed while compiling, and of each constant that it depends on."""

LEAST_BYTES = 4 << 10
"""Minimum bytes of a hoisted result of inexpensive operations; kernels recompute smaller ones faster than load them."""

MIN_REDUCTION = 16
"""Minimum ratio of the bytes of constants to those of a result that inexpensive operations compute from them, such as
sums of rows. It applies to results of fewer than LEAST_BYTES. Below this ratio, kernels recompute the result."""

TABLE_BYTES = 1 << 20
"""Largest result of expensive operations (divisions, functions) that is stored although it is larger than its operands,
such as the sines and cosines of positions; also the largest result of other operations that is stored although
padding of the constants makes it larger than they are (see `MAX_PADDING`)."""

MAX_PADDING = 1.5
"""Maximum ratio of the bytes of a result, which may be constants padded with zeros, to the bytes of the constants that
it is computed from."""


def hoist_constants(module: ModuleOp, functions: DerivedFunctions) -> None:
    """Replace constant expressions in the host functions of `module` by constants.

    Small ones are evaluated now. The others become derived constants: a new function computes them once, before the
    first call that needs them.

    functions: receives these functions; values with common operations share one function.
    """
    hosts = [op for op in module.body.block.ops if op.name in FUNCTIONS and op.regions[0].blocks]
    for host in hosts:
        if DERIVED not in host.attributes:  # functions that derive constants run only once, so nothing is gained
            _fold(host)
            known = known_of(host)  # after folding, which replaced operations
            for values in _grouped_by_chain(known, _chosen(known, host)):
                _derive(known, values, functions)


def _fold(host: Operation) -> None:
    """Replace small values that depend on constants alone by constants that NumPy computes while compiling.

    Only values that operations on runtime values use are replaced; what remains without uses is erased.
    """
    known = known_of(host)  # `known.sources` are the operations that depend on constants alone
    for op in [op for op in known.sources if op.name not in CONSTANTS]:
        for value in op.results:
            if _is_used_at_run_time(known, value, host) and _is_small(known, value):
                # It imports NumPy, which most small programs never need.
                from pydispatch.compiler.constants.fold import folded

                constant = folded(known.chain(op), value)  # chain: all operations that compute `op`, producers first
                if constant is not None:
                    _replace_by_constant(value, constant)
                    known.add(constant)  # later operations are computed from it
    erase_unused(known.sources)


def _is_small(known: KnownConstants, value: OpResult) -> bool:
    """Return whether a value is computed during the compilation: it is small, and expensive to compute or no larger
    than the constants that it depends on.
    """
    cost = known.costs[value.op]
    if cost is Cost.FREE or not isinstance(value.type, TensorType):
        return False
    source_sizes = [prod(shape_of(op.results[0])) for op in known.sources[value.op]]
    count = prod(shape_of(value))
    is_small = max([count, *source_sizes]) <= FOLDED_ELEMENTS
    is_expensive = cost >= Cost.DIVISION  # per element: divisions, and functions such as exp
    return is_small and (is_expensive or count <= max(SMALL_CONSTANT, sum(source_sizes)))


def _replace_by_constant(value: OpResult, constant: Operation) -> None:
    """Insert a constant before the operation that defines `value`, and replace all uses of `value` by it."""
    set_location(constant, value.op)
    constant.results[0].name_hint = value.name_hint
    block = value.op.parent
    assert block is not None
    block.insert_op_before(constant, value.op)
    value.replace_all_uses_with(constant.results[0])


def _chosen(known: KnownConstants, function: Operation) -> list[OpResult]:
    """Return the values to hoist: those that operations on runtime values use, if hoisting them is worthwhile.

    `known` has the operations of the host function `function` that depend on constants alone. If hoisting a value is
    not worthwhile, the operands of the value are considered instead.
    """
    chosen: dict[OpResult, None] = {}  # used as an ordered set
    seen: set[Operation] = set()  # operations whose operands were considered
    pending = [r for op in known.sources for r in op.results if _is_used_at_run_time(known, r, function)]
    while pending:
        value = pending.pop()
        op = value.op
        if op.name in CONSTANTS or not isinstance(value.type, TensorType):  # stored already, or a scalar
            continue
        if _hoisting_pays(known, value):
            chosen[value] = None
        elif op not in seen:
            seen.add(op)
            pending += [v for v in inputs_of(op) if isinstance(v, OpResult) and v.op in known.sources]
    return list(chosen)


def _is_used_at_run_time(known: KnownConstants, value: OpResult, function: Operation) -> bool:
    """Return whether an operation on runtime values, or a return, uses a value."""
    for use in value.uses:
        user: Operation | None = use.operation
        while user is not None and user.parent_op() is not function:
            user = user.parent_op()
        if user not in known.sources:  # sources has every operation that depends on constants alone
            return True
    return False


def _hoisting_pays(known: KnownConstants, value: OpResult) -> bool:
    """Return whether storing a value is better than computing it in every call.

    The value is stored in any of these cases, where its sources are the constants that it depends on:
    - A pass has marked its operation by ONCE.
    - Divisions or functions compute it, and it has at most TABLE_BYTES: a table of sines.
    - It has from LEAST_BYTES to TABLE_BYTES, and at most MAX_PADDING times the bytes of its sources: padded weights.
    - It has LEAST_BYTES or more and is no larger than its sources together: transposed weights.
    - Its sources have LEAST_BYTES or more, and at least MIN_REDUCTION times its bytes: sums of the rows of weights.

    Views and fills are never stored.

    Args:
        known: The operations of the host function that depend on constants alone.
        value: A tensor that one of them computes.
    """
    cost, size = known.costs[value.op], bytes_of(value)
    if cost is Cost.FREE:  # views and fills
        return False
    if ONCE in value.op.attributes:  # the pass that built the operation wants it stored, whatever its size
        return True
    if cost >= Cost.DIVISION and size <= TABLE_BYTES:
        return True
    source_bytes = sum(bytes_of(op.results[0]) for op in known.sources[value.op])
    is_padded = LEAST_BYTES <= size <= min(MAX_PADDING * source_bytes, TABLE_BYTES)
    is_no_larger = LEAST_BYTES <= size <= source_bytes
    is_reduction = source_bytes >= max(LEAST_BYTES, MIN_REDUCTION * size)
    return is_padded or is_no_larger or is_reduction


def _grouped_by_chain(known: KnownConstants, values: Iterable[OpResult]) -> list[list[OpResult]]:
    """Partition values so that those computed by common operations are in one group. No value is a view or a fill.

    known: the operations of the host function that depend on constants alone.
    """
    group_of: dict[Operation, list[OpResult]] = {}
    ops_of_group: dict[int, list[Operation]] = {}  # id of a group → the operations that compute its values
    for value in values:
        # Views and fills are no reason to join groups: several functions may repeat them at no cost.
        ops = [op for op in known.chain(value.op) if known.costs[op] is not Cost.FREE]
        group = [value]
        # Join the earlier groups that an operation of the value's chain is in. Their values precede `value`.
        for earlier_group in _distinct(group_of[op] for op in ops if op in group_of):
            group[:0] = earlier_group
            ops += ops_of_group.pop(id(earlier_group))
        ops_of_group[id(group)] = ops
        group_of.update(dict.fromkeys(ops, group))
    return _distinct(group_of.values())


def _distinct(groups: Iterable[list[OpResult]]) -> list[list[OpResult]]:
    """Return each group once, in the order of its first occurrence. `groups` has a group for each of its operations."""
    return list({id(group): group for group in groups}.values())


def _derive(known: KnownConstants, values: list[OpResult], functions: DerivedFunctions) -> None:
    """Replace `values` by constants that one new function of `functions` computes when the program is loaded.

    known: the operations of the host function that depend on constants alone, `values` among them.
    """
    chain = list(dict.fromkeys(op for value in values for op in known.chain(value.op)))
    # All transposed matrices are derived by one shared kernel; for other values `_transposition` returns None.
    name = _transposition(values, functions) or functions.add(*_copied(chain, values))
    for index, value in enumerate(values):
        assert isinstance(value.type, TensorType)
        value.replace_all_uses_with(constant_of(name, index, value, value.type).results[0])
    erase_unused(chain)


def _copied(chain: Sequence[Operation], values: Sequence[OpResult]) -> tuple[list[Operation], list[SSAValue]]:
    """Clone the operations of `chain` with their locations; return the clones, and the value in them for each of
    `values`.

    chain: every known operation that `values` depend on, producers first.
    """
    mapping: dict[SSAValue, SSAValue] = {}
    copies = []
    for op in chain:
        copies.append(op.clone(mapping))
        for new, old in zip(walk(copies[-1]), walk(op), strict=True):
            set_location(new, old)
    return copies, [mapping[v] for v in values]


def _transposition(values: Sequence[OpResult], functions: DerivedFunctions) -> str | None:
    """Add a function that derives the transpose of a constant matrix, and return its name; None for other values.

    Sizes are dynamic in it, so that all matrices share its kernel. values: the results that one function would derive.
    """
    source = source_of_transposition(values[0].op) if len(values) == 1 else None
    if source is None or source.op.name not in CONSTANTS:
        return None
    matrix = matrix_of(source.op)
    if matrix is None:
        return None
    ops = transposition_of(matrix)
    for op in ops:
        set_location(op, values[0].op)
    name = functions.add(ops, ops[-1].results)
    functions.transposed[name] = matrix
    return name
