"""Operations that are copied or moved into groups after fusion: duplicable operations, fills and scalars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import (
    is_duplicable,
    is_fill,
    is_scalar_code,
    is_view,
    size_operands,
)
from pydispatch.compiler.fusion.merging import FusionGroups
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk


def complete(groups: FusionGroups) -> None:
    """Copy or move into each group the operations that it reads and that belong to no group.

    These are duplicable operations (views, and inexpensive ones with large results), fills (constants, splats and empty
    tensors), and scalars.
    """
    _copy_duplicable(groups)
    _add_fills(groups)
    _drop_fills(groups)  # the originals, where every reader has a copy
    _absorb_scalars(groups)
    _add_fills(groups)  # fills that the scalars read which have just become members


def _copy_duplicable(groups: FusionGroups) -> None:
    """Copy each duplicable operation (`is_duplicable`) of the block into the groups that read it.

    The operations are visited in reverse order: a copied reader is in its group before its operands are visited.
    """
    in_program_order = list(groups.position)
    for op in reversed(in_program_order):
        is_erased = op.parent is None
        if is_duplicable(op) and op not in groups.group_of and not is_erased:
            _copy_to_readers(groups, op)


def _copy_to_readers(groups: FusionGroups, op: Operation) -> None:
    """Copy `op` into each group that reads it where fusion is legal; keep or erase the original.

    A view is copied only into groups that compute its source. Groups without a copy, and operations in no group, read
    the original. With such readers, a view stays on the host, and any other operation becomes a group of its own.
    Without such readers, the original is erased.
    """
    has_other_readers = False
    for group, readers in _readers_by_group(groups, op).items():
        if group is None or not _try_copy(groups, op, group, readers):
            has_other_readers = True
    if not has_other_readers:
        erase_op(op)
    elif not is_view(op):
        groups.add(op)


def _readers_by_group(groups: FusionGroups, op: Operation) -> dict[int | None, list[Operation]]:
    """Return the readers of `op` by group; those in no group have the key None."""
    readers: dict[int | None, list[Operation]] = {}
    for result in op.results:
        for use in result.uses:
            reader = groups.ancestor(use.operation)
            group = None if reader is None else groups.group_of.get(reader)
            readers.setdefault(group, []).append(use.operation)
    return readers


def _try_copy(groups: FusionGroups, op: Operation, group: int, readers: Sequence[Operation]) -> bool:
    """Copy `op` into a group for its `readers` there, and return whether that is legal; if not, record the reason.

    A view is copied only into groups that compute its source: on the host it costs nothing.
    """
    if is_view(op):
        if not _has_source_of_view(groups, op, group):
            return False
        _copy_into(groups, op, group, readers)
        return True
    # Legality is checked on the group with the copy, which is removed again if it violates a rule of fusion.
    copy = _copy_into(groups, op, group, readers)
    reason = _violation_of_copy(groups, op, group)
    if reason is None:
        return True
    _remove_copy(groups, copy, op)
    for reader in readers:
        groups.rejected[op, groups.ancestor(reader) or reader] = reason
    return False


def _violation_of_copy(groups: FusionGroups, op: Operation, group: int) -> str | None:
    """Return why a group with a copy of `op`, a duplicable operation, cannot be one dispatch; None if it can."""
    # When two groups were merged, legality was checked together with the duplicable operations between their members
    # (`intermediates`): these need no second check.
    intermediates = groups.intermediates.get(group, ())
    if op in intermediates:
        return None
    # Legality is checked for the group as it will be after all copies. Copies are made from the last operation to the
    # first: operations before `op` are not members yet.
    uncopied = {other for other in intermediates if groups.position[other] < groups.position[op]}
    return groups.legality.violation(groups.in_order({*groups.members[group], *uncopied}))


def _has_source_of_view(groups: FusionGroups, view: Operation, group: int) -> bool:
    """Return whether the tensor that a view reads, perhaps through other views, is computed in or copied into `group`.

    A tensor from outside of the block is neither.
    """
    source = groups.producer(view.operands[0])
    while source is not None and source not in groups.group_of and is_view(source):
        source = groups.producer(source.operands[0])
    if source is None:
        return False
    if source in groups.group_of:
        return groups.group_of[source] == group
    return is_duplicable(source) or is_fill(source)


def _copy_into(groups: FusionGroups, op: Operation, group: int, readers: Iterable[Operation]) -> Operation:
    """Clone `op` into a group, make `readers` use the clone, and return the clone."""
    copy = op.clone()
    set_location(copy, op)
    groups.block.insert_op_before(copy, op)
    groups.position[copy] = groups.position[op]  # in program order, a copy counts as its original
    for old, new in zip(op.results, copy.results, strict=True):
        new.name_hint = old.name_hint
        for reader in readers:
            for index, operand in enumerate(reader.operands):
                if operand is old:
                    reader.operands[index] = new
    groups.members[group].add(copy)
    groups.group_of[copy] = group
    return copy


def _remove_copy(groups: FusionGroups, copy: Operation, op: Operation) -> None:
    """Undo `_copy_into`: the readers of the copy use `op` again."""
    groups.members[groups.group_of.pop(copy)].remove(copy)
    del groups.position[copy]
    for old, new in zip(op.results, copy.results, strict=True):
        new.replace_all_uses_with(old)
    erase_op(copy)


def _drop_fills(groups: FusionGroups) -> None:
    """Erase the fills that are no longer used, because every reader has its own copy."""
    for op in reversed(list(groups.block.ops)):
        if is_fill(op) and op not in groups.group_of and not op.results[0].uses.get_length():
            erase_op(op)


def _add_fills(groups: FusionGroups) -> None:
    """Copy into each group the fills that it reads: constants, splats and empty tensors.

    A copy is inserted before the first operation of the group. The fills that a copy reads, such as the constant of a
    splat, are copied, too; these may be located after the copy that reads them, and `run_order` sorts the operations of
    a group later.
    """
    for group in list(groups.members):
        copies: dict[Operation, Operation] = {}  # fill → its copy in this group
        pending = groups.in_order(groups.members[group])  # members and copies whose operands are still to be replaced
        # Replace the fills that each operation reads by copies. A copy may itself read fills, and is pending, too.
        while pending:
            op = pending.pop()
            for inner, index, fill in _fills_read(groups, group, op):
                if fill not in copies:
                    copies[fill] = fill.clone()
                    set_location(copies[fill], fill)
                    groups.block.insert_op_before(copies[fill], groups.in_order(groups.members[group])[0])
                    pending.append(copies[fill])
                inner.operands[index] = copies[fill].results[0]
        for fill, copy in copies.items():
            _add_copy(groups, group, fill, copy)


def _add_copy(groups: FusionGroups, group: int, fill: Operation, copy: Operation) -> None:
    """Make the copy of a fill a member of a group.

    A fill from outside of the block precedes all operations of the block. Its position is a negative number that no
    other copy has: equal positions would be ordered by addresses, which differ between processes.
    """
    is_in_block = fill in groups.position
    groups.position[copy] = groups.position[fill] if is_in_block else -len(groups.position)
    groups.members[group].add(copy)
    groups.group_of[copy] = group


def _fills_read(groups: FusionGroups, group: int, op: Operation) -> Iterator[tuple[Operation, int, Operation]]:
    """Yield the fills from outside of a group that an operation reads, also in its regions.

    Yields: the reader, the index of its operand, and the fill.
    """
    for inner in walk(op):
        for index, operand in enumerate(inner.operands):
            source = operand.owner
            if not isinstance(source, Operation) or source in groups.members[group] or not is_fill(source):
                continue
            is_inside_op = groups.ancestor(source) is op  # in a region of `op`, which has it anyway
            if not is_inside_op:
                yield inner, index, source


def _absorb_scalars(groups: FusionGroups) -> None:
    """Move scalars that only one group uses, and that depend on elements of tensors, into that group.

    Otherwise the host would compute them, and wait for the kernel that computes the elements. Scalars that depend on
    no element stay on the host.
    """
    group_of_scalar = _groups_of_scalars(groups)  # scalar → the only group that uses it
    element_readers: set[Operation] = set()  # scalars that depend on an element, and are moved
    for op in groups.block.ops:
        reads_element = op.name == "tensor.extract"
        depends_on_element = reads_element or any(groups.producer(v) in element_readers for v in op.operands)
        if op in group_of_scalar and depends_on_element:
            element_readers.add(op)
            groups.members[group_of_scalar[op]].add(op)
            groups.group_of[op] = group_of_scalar[op]
            if reads_element:
                _record_element_edge(groups, op)


def _groups_of_scalars(groups: FusionGroups) -> dict[Operation, int]:
    """Return each scalar operation that only one group uses, also through other scalars, with that group."""
    group_of_scalar: dict[Operation, int] = {}
    for op in reversed(list(groups.block.ops)):  # readers before the scalars that they read
        if not is_scalar_code(op):
            continue
        readers: set[int | None] = set()  # None for the host, which computes sizes and scalars outside of groups
        for use in op.results[0].uses:
            user = groups.ancestor(use.operation)
            # Whether the user takes the scalar as a size of a tensor. The host computes sizes.
            is_size = user is not None and user is use.operation and user.operands[use.index] in size_operands(user)
            if user is None or is_size:
                readers.add(None)
            else:
                readers.add(groups.group_of.get(user, group_of_scalar.get(user)))
        if len(readers) == 1 and None not in readers:
            group_of_scalar[op] = next(group for group in readers if group is not None)
    return group_of_scalar


def _record_element_edge(groups: FusionGroups, op: Operation) -> None:
    """Record for reports that the group of `op`, a tensor.extract, was not fused with the group that computes its
    tensor: the element is read when the whole tensor has been computed.
    """
    source = groups.producer(op.operands[0])
    while source is not None and source not in groups.group_of and is_view(source):
        source = groups.producer(source.operands[0])
    if source is not None and groups.group_of.get(source) != groups.group_of[op]:
        groups.rejected[source, op] = reasons.ELEMENT
