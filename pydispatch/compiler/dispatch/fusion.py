"""Which elementwise tensor operations of a block become one dispatch.

An operation joins the groups of the operations that produce its operands, unless a value would then have to leave the
group and come back into it: a dispatch runs as a whole, so nothing outside may stand between two of its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue


def is_elementwise(op: Operation) -> bool:
    """True for an arith or math operation that computes ranked tensors from operands."""
    if not op.name.startswith(("arith.", "math.")) or op.name == "arith.constant" or not op.results:
        return False
    return all(isinstance(r.type, TensorType) for r in op.results)


def inputs_of(op: Operation) -> list[SSAValue]:
    """The operands of an operation and of everything inside its regions."""
    return [*op.operands, *(v for region in op.regions for inner in region.walk() for v in inner.operands)]


class Groups:
    """The groups of one block: `ops[g]` are the operations of group number g, `owner` says where an operation is."""

    def __init__(self) -> None:
        self.ops: dict[int, list[Operation]] = {}
        self.owner: dict[Operation, int] = {}

    def of(self, value: SSAValue) -> int | None:
        """The group that produces a value."""
        return self.owner.get(value.op) if isinstance(value, OpResult) else None

    def needs(self, values: Iterable[SSAValue], group: int) -> bool:
        """Whether computing any of `values` needs `group` to have run. A group needs whatever its operations need."""
        pending = list(values)
        seen: set[Operation | int] = set()
        while pending:
            value = pending.pop()
            if not isinstance(value, OpResult):
                continue
            number = self.owner.get(value.op)
            if number == group:
                return True
            node: Operation | int = value.op if number is None else number
            if node in seen:
                continue
            seen.add(node)
            for op in [value.op] if number is None else self.ops[number]:
                pending += inputs_of(op)
        return False

    def inputs(self, group: int) -> list[SSAValue]:
        """What the operations of a group read from outside."""
        return [v for op in self.ops[group] for v in inputs_of(op) if self.of(v) != group]

    def add(self, op: Operation) -> None:
        """Puts `op` into a group of its own and joins those of its producers that it may."""
        home = len(self.ops) and max(self.ops) + 1
        self.ops[home] = [op]
        self.owner[op] = home
        for candidate in dict.fromkeys(self.of(v) for v in inputs_of(op)):
            if candidate is None or candidate == home:
                continue
            outside = [v for v in self.inputs(home) if self.of(v) != candidate]
            back = [v for v in self.inputs(candidate) if self.of(v) != home]
            if not self.needs(outside, candidate) and not self.needs(back, home):
                self.ops[candidate] += self.ops.pop(home)
                for member in self.ops[candidate]:
                    self.owner[member] = candidate
                home = candidate


def form_groups(block: Block, eligible: Callable[[Operation], bool] = is_elementwise) -> list[list[Operation]]:
    """Partitions the eligible operations of `block` into groups, each listed in block order."""
    groups = Groups()
    for op in block.ops:
        if eligible(op):
            groups.add(op)
    position = {op: i for i, op in enumerate(block.ops)}
    return [sorted(ops, key=position.__getitem__) for ops in groups.ops.values()]
