"""Loads of a dispatch body whose elements are overwritten, because tensors are computed in the memory of bindings."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.analysis.destinations import LOADS, STORES, base_of, final_write_of, slice_of


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
