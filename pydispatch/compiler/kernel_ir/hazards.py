"""Hazard analysis: the positions of barriers between the invocations of a workgroup.

Code outside parallel loops is uniform: every invocation runs it with the same values, and one of them stores. A barrier
is needed between a write by one invocation and an access of the same memory by another, in either order. Accesses in a
loop also conflict with those of its previous iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.atomics import UPDATES
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.readers import UNREGISTERED, attribute, op_name, operands_of
from pydispatch.ir.functions import CALLS

Key = object
"""Identifies storage: ("binding", ordinal), ("argument", value) for an argument of the function, or the operation of an
allocation."""
ONE_INVOCATION, SEVERAL_INVOCATIONS = 1, 2
"""Who accesses storage: invocation 0 alone, or several. The maximum of two of these numbers is their union."""


@dataclass
class Accesses:
    """Keys of the storage that code reads and writes.

    A key identifies a whole binding, argument of the function or allocation: elements are not told apart.
    """

    reads: set[Key] = field(default_factory=set)
    writes: set[Key] = field(default_factory=set)

    def add(self, other: Accesses) -> None:
        """Add the accesses of other code."""
        self.reads |= other.reads
        self.writes |= other.writes


class Hazards:
    """Memory accesses since the last barrier at one point of a kernel, which decide where barriers are inserted.

    `Workgroup` goes through uniform code in order. Before each access it calls `conflict`; if that returns True, it
    inserts a barrier and calls `clear`. It then calls `record`. At a branch, each region begins with a `copy`, and
    `join` merges the states after the regions.

    For example, one parallel loop writes memory `a`, and the next one reads `a`. After the first loop,
    `written_since_barrier` is {a: SEVERAL_INVOCATIONS}, so that the reads conflict: a barrier is inserted between the
    loops. Storage means a whole binding, argument or allocation, identified by its `Key`; elements are not told apart.

    Attributes:
        written_once: Storage whose elements are written at most once: two writes are of different elements, and need no
            barrier between them.
        written_since_barrier: Storage that was written -> by whom: `ONE_INVOCATION` (always the invocation number 0) or
            `SEVERAL_INVOCATIONS`.
        read_since_barrier: Storage that was read.
    """

    def __init__(self, written_once: Iterable[Key] = ()) -> None:
        """Begin without accesses, as directly after a barrier.

        written_once: keys of storage (a binding, argument or allocation) whose elements are written at most once in the
        kernel. Two writes are then of different elements, and need no barrier between them.
        """
        self.written_once = frozenset(written_once)
        self.written_since_barrier: dict[Key, int] = {}  # storage → ONE_INVOCATION or SEVERAL_INVOCATIONS wrote it
        self.read_since_barrier: set[Key] = set()

    def conflict(self, accesses: Accesses, by: int) -> bool:
        """Return whether a barrier is needed before these accesses: a read after a write, or a write after an access.

        Args:
            accesses: Keys of the storage that is read and written. A key stands for a whole binding, argument or
                allocation.
            by: Who makes them, `ONE_INVOCATION` or `SEVERAL_INVOCATIONS`.
        """
        if any(key in self.written_since_barrier for key in accesses.reads):
            return True
        for key in accesses.writes:
            if key in self.read_since_barrier:
                return True
            # Two writes need no barrier if both are by invocation 0, which executes them in order, or if they are of
            # different elements (`written_once`).
            earlier_writer = self.written_since_barrier.get(key)  # None if there was no write
            are_ordered = by == ONE_INVOCATION and earlier_writer == ONE_INVOCATION
            if earlier_writer is not None and key not in self.written_once and not are_ordered:
                return True
        return False

    def record(self, accesses: Accesses, by: int) -> None:
        """Record accesses; by: who makes the writes, `ONE_INVOCATION` or `SEVERAL_INVOCATIONS`."""
        self.read_since_barrier |= accesses.reads
        for key in accesses.writes:  # the maximum is SEVERAL_INVOCATIONS if any write was by several; 0: no write yet
            self.written_since_barrier[key] = max(by, self.written_since_barrier.get(key, 0))

    def clear(self) -> None:
        """Forget all accesses: a barrier was executed."""
        self.written_since_barrier.clear()
        self.read_since_barrier.clear()

    def copy(self) -> Hazards:
        """Return a copy of the state; both share `written_once`, which never changes."""
        copy = Hazards(written_once=self.written_once)
        copy.written_since_barrier = dict(self.written_since_barrier)
        copy.read_since_barrier = set(self.read_since_barrier)
        return copy

    def join(self, other: Hazards) -> None:
        """Merge the state of another control-flow path that reaches the same point."""
        self.read_since_barrier |= other.read_since_barrier
        for key, by in other.written_since_barrier.items():
            # The maximum is SEVERAL_INVOCATIONS if several invocations wrote on either path; 0: no write on this path.
            self.written_since_barrier[key] = max(by, self.written_since_barrier.get(key, 0))


def base_of(value: SSAValue) -> set[Key]:
    """Return the keys of the storage that a memref may refer to.

    The key of a binding is ("binding", ordinal), the key of a function's argument ("argument", value), and the key of
    an allocation its operation. There are several keys if branches or loops choose between memrefs.
    """
    keys: set[Key] = set()
    pending, seen = [value], {value}
    while pending:
        for source in _sources_or_add_key(pending.pop(), keys):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return keys


def binding_ordinal(key: Key) -> int | None:
    """Return the ordinal of the binding that a key stands for; None for the key of other storage."""
    return key[1] if isinstance(key, tuple) and key[0] == "binding" else None


def _sources_or_add_key(value: SSAValue, keys: set[Key]) -> list[SSAValue]:
    """Return the memrefs that `value` may be derived from; add its key to `keys` if it is storage itself.

    Storage is an argument of the function, a binding or an allocation. A view is derived from its operands, a result or
    argument of a loop or branch from the memrefs that are passed in or yielded.
    """
    if type(value) is BlockArgument:
        parent = value.block.parent_op()
        if parent is None or op_name(parent) == "func.func":
            keys.add(("argument", value))
            return []
        # The argument of a loop or branch: a memref that is passed in, or that an iteration yields for the next one.
        return [o for o in parent.operands if isinstance(o.type, MemRefType)] + _yields(parent)
    assert isinstance(value, OpResult)
    op = value.op
    if op.name == SUBSPAN:
        ordinal = attribute(op, "binding")
        keys.add(("binding", int(ordinal.value.data) if isinstance(ordinal, IntegerAttr) else 0))
        return []
    sources = [o for o in operands_of(op) if type(o.type) is MemRefType] + _yields(op)
    if not sources:  # no memref that it could be derived from: an allocation, or a call that returns new memory
        keys.add(op)
    return sources


def _yields(op: Operation) -> list[SSAValue]:
    """Return the memrefs that the regions of an operation yield."""
    yielded: list[SSAValue] = []
    for region in op.regions:
        for block in region.blocks:
            last = block.last_op
            if last is not None:
                yielded += [o for o in last.operands if isinstance(o.type, MemRefType)]
    return yielded


def accesses_of(op: Operation) -> Accesses:
    """Return the storage that an operation and its regions read and write.

    Storage is identified by the key of a binding, argument or allocation (`base_of`). A call is assumed to read and
    write all memrefs that are passed to it.
    """
    # Most code accesses one memref many times: memrefs whose keys were added already.
    accesses, loaded, stored = Accesses(), set[SSAValue](), set[SSAValue]()
    # Walk over `op` and its regions: `inner` is the current operation, `blocks` are still to visit. The generator
    # `walk` would be slower.
    inner: Operation | None = op
    blocks: list[Block] = []
    while inner is not None:
        name = inner.name
        if name == "memref.load":
            source, *_ = operands_of(inner)
            if source not in loaded:
                loaded.add(source)
                accesses.reads |= base_of(source)
        elif name == "memref.store":
            _, target, *_ = operands_of(inner)
            if target not in stored:
                stored.add(target)
                accesses.writes |= base_of(target)
        # `_own_accesses` looks at the real name of an unregistered operation.
        elif name in TOUCHING or name == UNREGISTERED:
            accesses.add(_own_accesses(inner))
        if inner.regions:
            for region in inner.regions:
                blocks += region.blocks
        inner = None if inner is op else inner.next_op  # the operations after `op` are not part of it
        while inner is None and blocks:  # the block has ended: go on with the next one that has operations
            inner = blocks.pop().first_op
    return accesses


TOUCHING = frozenset(("memref.load", "memref.store", *UPDATES, "memref.copy", *CALLS, "pyd.copy_async", "pyd.mma"))
"""Operations that may read or write memory."""


def _own_accesses(op: Operation) -> Accesses:
    """Return the accesses of an operation itself, without its regions; `accesses_of` handles loads and stores."""
    name = op_name(op)
    if name in UPDATES:
        _, target, *_ = op.operands  # value, memref, indices
        return Accesses(writes=base_of(target))
    if name in ("memref.copy", "pyd.copy_async"):
        source, target = op.operands
        return Accesses(reads=base_of(source), writes=base_of(target))
    if name == "pyd.mma":  # it also reads C, which is private memory of each invocation
        _lane, a, b, c = op.operands
        return Accesses(reads=base_of(a) | base_of(b), writes=base_of(c))
    if name in CALLS:
        keys = {key for o in op.operands if isinstance(o.type, MemRefType) for key in base_of(o)}
        return Accesses(reads=set(keys), writes=set(keys))  # two sets, since `Accesses.add` changes them in place
    return Accesses()
