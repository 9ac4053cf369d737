"""Classification of operations for dispatch formation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.rule import Update
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import Effects, info_of
from pydispatch.ir.values import constant_index, shape_of

CONSTANTS = ("arith.constant", "flow.tensor.constant")
"""Operations that define a constant."""


def is_constant(value: SSAValue) -> bool:
    """Return whether a tensor is a constant, or a view of one."""
    owner = value.owner
    while isinstance(owner, Operation) and is_view(owner) and len(owner.operands) == 1:
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and owner.name in CONSTANTS


ONCE = "pyd.once"
"""Attribute of an operation on constants alone: its result is computed once, when the program is loaded, and stored,
whatever its size."""

KEPT_ORDER = "pyd.kept_order"
"""Attribute of a `linalg.generic` that the conversion to channels-last (constants/channels_last.py) has rewritten to
read transposed tensors. Later passes do not change the order of their dimensions back."""


def inputs_of(op: Operation) -> list[SSAValue]:
    """Return the operands of an operation and of everything inside its regions."""
    # xDSL's private fields: this runs for every operation, and the properties take longer.
    inputs = list(op._operands)
    for region in op.regions:
        block = region._first_block
        while block is not None:
            inner = block._first_op
            while inner is not None:
                inputs += inputs_of(inner) if inner.regions else inner._operands
                inner = inner._next_op
            block = block._next_block
    return inputs


MOST_SCALARS = 28
"""Maximum number of scalars and dynamic sizes of a dispatch. An export has up to 64 constants of 32 bits, of which each
scalar or size takes one or two: at most 56."""
MOST_BINDINGS = 64
"""Maximum number of bindings of an export: a bit mask of 64 bits states which of them it writes."""
MOST_TENSORS = 16
"""Maximum number of tensors that a dispatch reads and writes if no target sets a limit, such as for CPUs. A larger
number permits dispatches of more operations, but they save no time on a CPU. Every Vulkan device in use can bind 16."""


@dataclass(frozen=True)
class DispatchArguments:
    """Values that a group of operations reads from outside the group: the arguments of a dispatch of the group.

    `arguments_of` returns that of some operations; fusion then combines those of groups by `joined`, and checks the
    limits of a dispatch by `too_many`.

    Attributes:
        tensors: Tensors, of which each is a binding (a memory range) of the dispatch.
        scalars: Scalars, which are passed by value, as constants of the dispatch. Results of `arith.constant` are not
            among them: the dispatch gets copies of these operations.
    """

    tensors: frozenset[SSAValue]
    scalars: frozenset[SSAValue]

    def joined(self, other: DispatchArguments, is_inside: Callable[[Operation], bool]) -> DispatchArguments:
        """Return the values that the union of two groups of operations reads from outside.

        If one group computes %0 from %a, and the other %1 from %0 and %b, the union reads %a and %b.

        Args:
            other: The values that the second group reads.
            is_inside: Returns whether an operation is in one of the two groups. The results of such operations are
                dropped, since the union computes them itself.
        """

        def outside(values: frozenset[SSAValue]) -> frozenset[SSAValue]:
            """Return the values that no operation of the union of both groups computes."""
            return frozenset(v for v in values if not (isinstance(v, OpResult) and is_inside(v.op)))

        return DispatchArguments(outside(self.tensors | other.tensors), outside(self.scalars | other.scalars))

    def too_many(self, results: int, most_tensors: int) -> str | None:
        """Return why a dispatch with these arguments would exceed a limit, as text for reports; None if it fits.

        The limits are `most_tensors` bindings, and MOST_SCALARS scalars and dynamic sizes.

        Args:
            results: Number of tensors that the dispatch computes for operations outside, each a binding as well.
            most_tensors: Maximum number of bindings.
        """
        if len(self.tensors) + results > most_tensors:
            return reasons.too_many_tensors(most_tensors)
        sizes = sum(1 for v in self.tensors for n in shape_of(v) if n < 0)  # a dynamic size is passed like a scalar
        return reasons.too_many_scalars(MOST_SCALARS) if len(self.scalars) + sizes > MOST_SCALARS else None


def arguments_of(ops: Sequence[Operation]) -> DispatchArguments:
    """Return the values that operations read from outside: the arguments of a dispatch of them.

    A fill is an operation that creates a tensor without memory, such as `tensor.splat` or `tensor.empty`. The dispatch
    gets a copy of each fill that it reads, so that an operand of the fill is an argument instead of its result. For

        %f = tensor.splat %x[%n] : tensor<?xf32>
        %0 = arith.mulf %a, %f : tensor<?xf32>

    and the operation %0, the tensors are {%a} and the scalars {%x}.

    Args:
        ops: The operations, whose regions are searched, too.
    """
    # Values that the operations define: results, and arguments of blocks in their regions.
    inside = {inner for op in ops for inner in walk(op)}
    blocks = {b for inner in inside for region in inner.regions for b in region.blocks}
    tensors: set[SSAValue] = set()
    scalars: set[SSAValue] = set()
    pending = [value for op in ops for value in inputs_of(op)]
    while pending:
        value = pending.pop()
        owner = value.owner
        if owner in blocks or owner in inside:
            continue
        if isinstance(owner, Operation) and is_fill(owner):
            # The copy reads the element of a splat (%x); operands that only decide its size (%n) are left out.
            pending += [v for v in owner.operands if v not in size_operands(owner)]
        elif isinstance(value.type, TensorType):
            tensors.add(value)
        elif not (isinstance(owner, Operation) and owner.name == "arith.constant"):
            scalars.add(value)
    return DispatchArguments(frozenset(tensors), frozenset(scalars))


def is_read_outside(value: SSAValue, is_inside: Callable[[Operation], bool]) -> bool:
    """Return whether a value is read by an operation for which `is_inside` returns False."""
    return any(not is_inside(use.operation) for use in value.uses)


def too_many_arguments(ops: Sequence[Operation], most_tensors: int = MOST_TENSORS) -> str | None:
    """Return why a dispatch of `ops` would have more constants or bindings than fit, or None.

    Each dynamic size of a tensor counts as a constant, even if another tensor has an equal size.
    """
    inside = {inner for op in ops for inner in walk(op)}
    results = sum(is_read_outside(r, inside.__contains__) for op in ops for r in op.results)
    return arguments_of(ops).too_many(results, most_tensors)


def is_fill(op: Operation) -> bool:
    """Return whether the operation creates a tensor without memory: a constant that is stored inside dispatches, a
    splat, or an empty tensor.
    """
    rule = rule_of(op)
    return rule is not None and rule.is_fill(op)


def is_view(op: Operation) -> bool:
    """Return whether the result is the memory of operand 0, or a contiguous part of it, so that nothing is copied."""
    rule = rule_of(op)
    return rule is not None and rule.is_view(op)


def stays_on_host(op: Operation) -> bool:
    """Return whether host code runs the operation itself, unless it has become a part of a dispatch."""
    rule = rule_of(op)
    return rule is None or rule.runs_on_host(op)


def is_scalar_code(op: Operation) -> bool:
    """Return whether an operation computes a scalar and may be moved from the host into a dispatch.

    It is pure arithmetic on scalars, or reads an element of a tensor at constant indices that are in bounds. Constants
    do not count, because a dispatch never takes them as arguments.
    """
    computes_scalar = len(op.results) == 1 and not isinstance(op.results[0].type, TensorType)
    if not computes_scalar or op.name == "arith.constant":
        return False
    if op.name == "tensor.extract":
        indices = [constant_index(v) for v in op.operands[1:]]
        sizes = shape_of(op.operands[0])
        return all(p is not None and 0 <= p < n for p, n in zip(indices, sizes, strict=True))
    info = info_of(op)
    return info.elementwise and not info.traps and not op.regions


def size_operands(op: Operation) -> Sequence[SSAValue]:
    """Return the operands of an operation that decide how large its result is."""
    rule = rule_of(op)
    return () if rule is None else rule.size_operands(op)


def is_duplicable(op: Operation) -> bool:
    """Return whether the operation is copied into every group that reads it: a view, or an operation that needs a
    dispatch, but whose elements are no more expensive to compute again than to load.
    """
    rule = rule_of(op)  # how the operation computes tensors; None for an operation without tensors
    if rule is None:
        return False
    return rule.is_view(op) or (not rule.runs_on_host(op) and rule.repeats_cheaply(op))


def needs_dispatch(op: Operation) -> bool:
    """Return whether the operation computes tensors on a device."""
    return bool(op.results) and not stays_on_host(op)


def may_join(op: Operation) -> bool:
    """Return whether the operation may be in a dispatch together with others. These include updates, which host code
    could do as copies.
    """
    return needs_dispatch(op) or isinstance(rule_of(op), Update)


def has_effects(op: Operation) -> bool:
    """Return whether `op` must keep its order among operations with effects.

    `info_of` states ORDERED for every operation that its table does not list. An operation with a tensor rule (how it
    is computed from tensors, such as a convolution) has no effects even then: it only computes its results.
    """
    return info_of(op).effects is Effects.ORDERED and rule_of(op) is None


def is_pure(op: Operation) -> bool:
    """Return whether an operation has no effects: it may be dropped if unused, repeated, and merged with equal ones.

    An operation with a tensor rule (how it is computed from tensors, such as a convolution) has no effects, even if
    `info_of` states ORDERED, its default for operations that its table does not list.
    """
    return info_of(op).is_pure or (info_of(op).effects is Effects.ORDERED and rule_of(op) is not None)


def producer_of_kind(value: SSAValue, *names: str) -> Operation | None:
    """Return the operation that defines a value if it has one of these names, else None."""
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name in names else None
