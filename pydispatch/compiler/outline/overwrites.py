"""Tensors of a dispatch body whose elements are overwritten, because others are computed in their memory."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.destinations import LOADS, STORES, base_of, final_write_of, slice_of

EXECUTED_ONCE = ("affine.if", "scf.execute_region", "scf.if", "scf.index_switch")
"""Operations that execute a region at most once. Others with regions are loops."""


class Overwrites:
    """Record of the loads and stores of bindings in a dispatch body, in the order of the program.

    A loaded slice is a view of its binding, so that a later write of the slice changes it.
    """

    def __init__(self) -> None:
        """Begin at the start of a body, without loads and stores."""
        self._loads: list[Operation] = []
        # Loads before a store that may write their slices: the memory no longer has the elements that were loaded.
        self._overwritten: set[Operation] = set()
        # Stores that are not translated yet, although a microkernel call or an insertion has written to their slices
        # already. A load that the program has before such a store needs the old elements.
        self._early_stores: set[Operation] = set()

    def record_load(self, load: Operation) -> None:
        """Record a load of a binding."""
        self._loads.append(load)

    def record_store(self, store: Operation) -> None:
        """Record that a store writes its slice: the loads before it that may have read the slice are overwritten."""
        self.record_store_of_iteration(store)
        self._early_stores.discard(store)

    def record_store_of_iteration(self, store: Operation) -> None:
        """Record that earlier iterations of a loop, which begins here, have executed a store of its body."""
        self._overwritten |= {load for load in self._loads if _may_overwrite(store, load)}

    def record_early_store(self, value: SSAValue) -> None:
        """Record that a tensor was computed in the memory of the store that it is for, if it is stored."""
        store = store_of(value)
        if store is not None:
            self._early_stores.add(store)

    def has_overwritten(self, value: SSAValue, store: Operation | None = None) -> bool:
        """Return whether a tensor is a loaded slice, or a slice of one, that was overwritten after the load.

        Args:
            value: The tensor.
            store: The store that the tensor computed in the memory of `value` is for, if there is one. Tiles that were
                computed in place for the same store are taken to be other tiles than `value`.
        """
        while isinstance(value.owner, Operation) and value.owner.name == "tensor.extract_slice":
            value = value.owner.operands[0]
        load = value.owner
        if not isinstance(load, Operation) or load.name not in LOADS:
            return False
        return load in self._overwritten or any(
            early is not store and _may_overwrite(early, load) for early in self._early_stores
        )


def store_of(value: SSAValue) -> Operation | None:
    """Return the store of a tensor, or of the tensor that it is inserted into; None if it is not stored.

    Microkernels and insertions compute such a tensor in place: they write to the slice of the store.
    """
    final_write = final_write_of(value)
    while final_write is not None and final_write.name == "tensor.insert_slice":
        final_write = final_write_of(final_write.results[0])
    return final_write if final_write is not None and final_write.name in STORES else None


def later_reader(value: SSAValue, op: Operation) -> Operation | None:
    """Return an operation that may read elements of a tensor, or of a slice of it, after `op`; None if there is none.

    Args:
        value: The tensor.
        op: The operation that overwrites it. In a loop, it may read the tensor itself in the next iteration.
    """
    return next((reader for reader in _readers_of(value) if _may_execute_after(reader, op, value)), None)


def _readers_of(value: SSAValue) -> Iterator[Operation]:
    """Yield the operations that read elements of a tensor, of the tensor itself or of a slice of it."""
    for use in value.uses:
        user = use.operation
        if user.name == "tensor.extract_slice":  # a view, which reads nothing until it is used
            yield from _readers_of(user.results[0])
        elif user.name != "tensor.dim":
            yield user


def _may_execute_after(user: Operation, op: Operation, value: SSAValue) -> bool:
    """Return whether an operation may execute after `op`, with the same instance of a tensor that both use.

    In a loop, every operation of the body may execute after `op`, in the next iteration. A tensor that the loop's body
    defines is another instance in each iteration. An empty tensor that `op` overwrites has no elements to lose: `op`
    may overwrite it again in the next iteration.

    Args:
        user: An operation that uses the tensor.
        op: An operation that uses the tensor, maybe in another region; may be `user`.
        value: The tensor.
    """
    if user is op and isinstance(value.owner, Operation) and value.owner.name == "tensor.empty":
        return False
    defining_block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    # Climb from `op` to the operations around it, `before`, up to the block that defines the tensor. In each block,
    # compare `before` with `after`, the operation that is or contains the user.
    before: Operation | None = op
    while before is not None and before.parent is not None:
        after = before.parent.find_ancestor_op_in_block(user)
        if after is not None and before.is_before_in_block(after):
            return True
        if before.parent is defining_block:  # the loops further out define another instance in each iteration
            return False
        before = before.parent_op()
        # A loop that contains both: the user may execute in the next iteration.
        if before is not None and before.name not in EXECUTED_ONCE and before.is_ancestor(user):
            return True
    return False


def _may_overwrite(store: Operation, load: Operation) -> bool:
    """Return whether a store may write elements that a load reads: of the same binding, in slices that may overlap."""
    if base_of(store.operands[1]) is not base_of(load.operands[0]):
        return False
    pairs = zip(_ranges(store), _ranges(load), strict=True)
    return not any(a is not None and b is not None and (a.stop <= b.start or b.stop <= a.start) for a, b in pairs)


def _ranges(op: Operation) -> list[range | None]:
    """Return the indices of the slice of a load or store in each dimension; None if they are not static."""
    rows = zip(*slice_of(op).components, strict=True)
    return [
        range(offset, offset + size * stride, stride)
        if isinstance(offset, int) and isinstance(size, int) and isinstance(stride, int) and stride > 0
        else None
        for offset, size, stride in rows
    ]
