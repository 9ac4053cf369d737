"""Tensors of a dispatch body whose elements are overwritten, because others are computed in their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue, Use

from pydispatch.compiler.analysis.destinations import (
    LOADS,
    STORES,
    base_of,
    destination_of,
    final_write_of,
    is_computed_in_place,
    result_of,
    slice_of,
)
from pydispatch.ir.dialects import iree_codegen

EXECUTED_ONCE = ("affine.if", "scf.execute_region", "scf.if", "scf.index_switch")
"""Operations that execute each of their regions at most once. Others with regions are loops."""


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
        self.record_store_of_earlier_iteration(store)
        self._early_stores.discard(store)

    def record_store_of_earlier_iteration(self, store: Operation) -> None:
        """Record, at the start of a loop, a store of its body: earlier iterations have executed it already.

        The loads before the loop that may have read its slice are overwritten. The store itself is recorded again
        where the body has it, so that an early store remains one until then.
        """
        self._overwritten |= {load for load in self._loads if _may_overwrite(store, load)}

    def record_early_store(self, value: SSAValue) -> None:
        """If a tensor is stored later, record that it was already computed in the memory of this store."""
        store = store_of(value)
        if store is not None:
            self._early_stores.add(store)

    def has_overwritten(self, value: SSAValue, store: Operation | None = None) -> bool:
        """Return whether a tensor is a loaded slice, or a slice of one, that was overwritten after the load.

        Args:
            value: The tensor.
            store: A store that does not count as overwriting `value`: its operand is computed in the memory of
                `value`. None if there is no such store.
        """
        load = _source_of(value).owner
        if not isinstance(load, Operation) or load.name not in LOADS:
            return False
        return load in self._overwritten or any(
            early is not store and _may_overwrite(early, load) for early in self._early_stores
        )


def store_of(value: SSAValue) -> Operation | None:
    """Return the operation that stores a tensor into a binding; None if it is not stored.

    A tensor that is inserted into another tensor has the store of the latter. A microkernel that computes a tensor with
    a store writes to the memory of this store at once, before the store itself is translated.
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


def stale_reader(
    destination: SSAValue, op: Operation, result: SSAValue, is_outer: Callable[[SSAValue], bool]
) -> Operation | None:
    """Return an operation that may read elements after `op` has overwritten them in the memory of another tensor.

    Return None if there is none. All slices of a tensor, and the tensors after insertions into it, are in one memory.
    In this example the microkernel overwrites elements of %t before %v is read:

        %s = tensor.extract_slice %t[2] [4] [1] : tensor<8xf32> to tensor<4xf32>
        %r = iree_codegen.ukernel.generic "f" outs(%s : tensor<4xf32>) -> tensor<4xf32>
        %v = tensor.extract %t[%c3] : tensor<8xf32>
        %u = tensor.insert_slice %r into %t[2] [4] [1] : tensor<4xf32> into tensor<8xf32>

    Args:
        destination: Tensor that `op` overwrites.
        op: A microkernel or an insertion.
        result: Tensor that `op` computes in the memory of `destination`. Tensors that are computed from it have the new
            elements.
        is_outer: Returns whether a tensor is from outside of the body. The dispatch reads a copy of such tensors.
    """
    root, written_slices = _location_of(destination, is_outer)
    if op.name == "tensor.insert_slice":
        written_slices = [*written_slices, op]
    # A tensor that `result` is inserted into has the new elements, too.
    with_new_elements = _updated(result, is_outer, follows_inserted=True)
    # Check the reads of all other tensors in the same memory.
    for value in _updated(root, is_outer):
        if value in with_new_elements:
            continue
        _, read_slices = _location_of(value, is_outer)
        for use in value.uses:
            is_tile = _is_tile(use)
            if use.operation is not op and (is_tile or _is_read_from_memory(use, is_outer)):
                # Slices that are not static are taken to overlap, but not those of tiles that are computed in place.
                may_overlap = _nested_overlap(written_slices, read_slices, if_unknown=not is_tile)
                if may_overlap and _may_execute_after(use.operation, op, value):
                    return use.operation
    return None


def _location_of(value: SSAValue, is_outer: Callable[[SSAValue], bool]) -> tuple[SSAValue, list[Operation]]:
    """Return the tensor in whose memory `value` is, and the operations that state its slice, outermost first.

    An operation is an extract_slice, or the insert_slice of an empty tensor: such a tensor is computed in the memory
    that it is inserted into. The list is empty if `value` has all of the memory.
    """
    slices: list[Operation] = []
    while not is_outer(value) and isinstance(owner := value.owner, Operation):
        if owner.name == "tensor.extract_slice":
            slices.append(owner)
            value = owner.operands[0]
        elif owner.name == "tensor.insert_slice":
            value = owner.operands[1]
        elif isinstance(owner, iree_codegen.UkernelGenericOp):
            value = destination_of(value)
        else:  # another operation computes a tensor with memory of its own, unless it is an empty one to be inserted
            insertion = final_write_of(value) if owner.name == "tensor.empty" else None
            if insertion is None or insertion.name != "tensor.insert_slice":
                break
            slices.append(insertion)
            value = insertion.operands[1]
    return value, slices[::-1]


def _updated(
    value: SSAValue, is_outer: Callable[[SSAValue], bool], follows_inserted: bool = False
) -> dict[SSAValue, None]:
    """Return a tensor and the tensors of the body in its memory: slices, and results of operations that overwrite it.

    follows_inserted: how insertions `%u = insert_slice %r into %t` are followed. In any case, %u is in the memory of
    %t. If True, %u also counts as in the memory of %r. If False, the search goes from %t to the empty tensor that %r
    is computed from, if any: it is computed in the memory of %t.
    """
    tensors: dict[SSAValue, None] = {}
    pending: list[SSAValue] = [value]
    while pending:
        tensor = pending.pop()
        if tensor in tensors:
            continue
        tensors[tensor] = None
        for use in tensor.uses:
            user = use.operation
            is_insertion = user.name == "tensor.insert_slice"
            is_destination = is_insertion and use.index == 1
            is_inserted = is_insertion and use.index == 0 and follows_inserted
            result: SSAValue | None = None
            if isinstance(user, iree_codegen.UkernelGenericOp):
                result = result_of(tensor, user)
            elif user.name == "tensor.extract_slice" or is_destination or is_inserted:
                result = user.results[0]
            if result is None or is_outer(result):  # the host may use the tensor too
                continue
            pending.append(result)
            if is_destination and not follows_inserted:
                inserted = base_of(user.operands[0])
                if _is_empty(inserted) and final_write_of(inserted) is user:
                    pending.append(inserted)
    return tensors


def _is_tile(use: Use) -> bool:
    """Return whether a tile is used by the microkernel that overwrites it, or by the insertion of it into its tensor.

    Return False for an empty tensor, which has no elements that a microkernel could read.
    """
    user = use.operation
    if isinstance(user, iree_codegen.UkernelGenericOp):
        value = user.operands[use.index]
        is_overwritten = result_of(value, user) is not None
        return is_overwritten and not _is_empty(_source_of(value))
    return user.name == "tensor.insert_slice" and use.index == 0 and is_computed_in_place(user)


def _is_read_from_memory(use: Use, is_outer: Callable[[SSAValue], bool]) -> bool:
    """Return whether a use reads elements of a tensor from the memory that operations of the body overwrite.

    Tensors from outside are read from a copy. `Overwrites` checks the reads of loaded tensors. An empty tensor has no
    elements to read.
    """
    user = use.operation
    is_destination = user.name == "tensor.insert_slice" and use.index == 1
    if is_destination or user.name in ("tensor.extract_slice", "tensor.dim"):  # a slice is a view: it reads nothing
        return False
    source = _source_of(user.operands[use.index])
    is_loaded = isinstance(source.owner, Operation) and source.owner.name in LOADS
    return not (is_outer(source) or is_loaded or _is_empty(source))


def _source_of(value: SSAValue) -> SSAValue:
    """Return the tensor that a tensor is a slice of, or a slice of a slice; the tensor itself if it is none."""
    while isinstance(value.owner, Operation) and value.owner.name == "tensor.extract_slice":
        value = value.owner.operands[0]
    return value


def _is_empty(value: SSAValue) -> bool:
    """Return whether a tensor is empty: it has no elements that could be read."""
    return isinstance(value.owner, Operation) and value.owner.name == "tensor.empty"


def _nested_overlap(a: Sequence[Operation], b: Sequence[Operation], if_unknown: bool) -> bool:
    """Return whether two slices of a tensor overlap, each stated by nested slices, outermost first.

    if_unknown: the result for slices that are not static.
    """
    different = ((x, y) for x, y in zip(a, b, strict=False) if slice_of(x) != slice_of(y))
    first_difference = next(different, None)  # outside of these two slices, both are in the same slices
    return first_difference is None or _overlaps(*first_difference, if_unknown)


def _overlaps(a: Operation, b: Operation, if_unknown: bool) -> bool:
    """Return whether the slices that two operations state overlap. if_unknown: the result if they are not static."""
    ranges = _ranges(a), _ranges(b)  # for each dimension the range of indices; None if it is not static
    if len(ranges[0]) != len(ranges[1]):  # slices of views of different rank
        return if_unknown
    pairs = list(zip(*ranges, strict=True))
    are_apart = any(x is not None and y is not None and (x.stop <= y.start or y.stop <= x.start) for x, y in pairs)
    if are_apart:  # the ranges of one dimension are disjoint: no element is in both slices
        return False
    are_static = all(x is not None and y is not None for x, y in pairs)
    return are_static or if_unknown


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
        is_loop = before is not None and before.name not in EXECUTED_ONCE
        if before is not None and is_loop and before.is_ancestor(user):
            return True
    return False


def _may_overwrite(store: Operation, load: Operation) -> bool:
    """Return whether a store may write elements that a load reads: of the same binding, in slices that may overlap."""
    return base_of(store.operands[1]) is base_of(load.operands[0]) and _overlaps(store, load, if_unknown=True)


def _ranges(op: Operation) -> list[range | None]:
    """Return the indices of the slice that `op` states, in each dimension; None for one that is not static."""
    ranges: list[range | None] = []
    for offset, size, stride in zip(*slice_of(op).components, strict=True):
        if isinstance(offset, int) and isinstance(size, int) and isinstance(stride, int) and stride > 0:
            ranges.append(range(offset, offset + size * stride, stride))
        else:
            ranges.append(None)
    return ranges
