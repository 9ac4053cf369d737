"""The blocks of a function of SPIR-V: how they begin and end, and where they lead. See `../check.py`."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.spirv.declared import FunctionBody, SpirvDeclarations
from pydispatch.formats.spirv.functions.walk import back_edges
from pydispatch.formats.spirv.names import Op
from pydispatch.formats.spirv.parts import LABEL, LINE, NO_LINE, Inst

PHI, LOOP_MERGE, SELECTION_MERGE, BRANCH, BRANCH_CONDITIONAL, SWITCH = 245, 246, 247, 249, 250, 251
RETURN, RETURN_VALUE = 253, 254
NO_CODE = frozenset((0, LINE, NO_LINE))
_ENDS = frozenset((BRANCH, BRANCH_CONDITIONAL, SWITCH, 252, RETURN, RETURN_VALUE, 255, 4416, 5380))
_MERGES = (LOOP_MERGE, SELECTION_MERGE)
_ALLOWED_AFTER = {LOOP_MERGE: (BRANCH, BRANCH_CONDITIONAL), SELECTION_MERGE: (BRANCH_CONDITIONAL, SWITCH)}
"""The terminators allowed after a merge instruction."""


def check_blocks(declared: SpirvDeclarations, body: FunctionBody) -> None:
    """Check the control flow graph of a function with a body; raise ArtifactError with the index of the faulty word."""
    code = [inst for inst in body.code if inst.op not in NO_CODE]
    labels, first = {inst.id for inst in code if inst.op == LABEL}, code[0].id
    for inst in code:
        for position in _labels_of(inst):
            if inst.words[position] not in labels or inst.words[position] == first:
                raise declared.fail(
                    inst.at + position, f"id {inst.words[position]} is no block that this function may go to"
                )
    edges, loops = _edges(declared, code)
    for id, target in back_edges([first], edges):
        if target not in loops:
            text = f"block {id} goes back to block {target}, which is no head of a loop"
            raise declared.fail(code[0].at, text)
    _check_merges(declared, code, edges)


def _edges(declared: SpirvDeclarations, code: Sequence[Inst]) -> tuple[dict[int, list[int]], set[int]]:
    """Return the successors of each block, and the blocks that are loop headers; raise ArtifactError for malformed
    blocks."""
    edges: dict[int, list[int]] = {}
    loops: set[int] = set()
    block, merge, is_begin = 0, 0, True
    for inst in code:
        if (inst.op == LABEL) != (block == 0):
            text = "begins" if block == 0 else "has not ended"
            raise declared.fail(inst.at, f"opcode {inst.op}, where a block {text}")
        if merge and inst.op not in _ALLOWED_AFTER[merge]:
            raise declared.fail(inst.at, f"opcode {inst.op} after a merge instruction")
        merge = inst.op if inst.op in _MERGES else 0
        if inst.op == LABEL:
            block, is_begin = inst.id, True
        elif (inst.op == PHI and not is_begin) or (inst.op == Op.VARIABLE and not (is_begin and not edges)):
            raise declared.fail(inst.at, f"a {'phi' if inst.op == PHI else 'variable'} inside a block")
        elif inst.op in _ENDS:
            edges[block] = [inst.words[position] for position in _labels_of(inst)]
            block = 0
        elif inst.op == LOOP_MERGE:
            loops.add(block)
        if merge and inst.words[1] == block:
            raise declared.fail(inst.at, "a block that merges into itself")
        is_begin = is_begin and inst.op in (LABEL, PHI, Op.VARIABLE)
    if block:
        raise declared.fail(code[-1].at, "the last block of a function does not end")
    return edges, loops


def _check_merges(declared: SpirvDeclarations, code: Sequence[Inst], edges: dict[int, list[int]]) -> None:
    """Check that each merge block belongs to one header and that each phi lists the predecessors of its block."""
    before: dict[int, set[int]] = {id: set() for id in edges}
    for id, targets in edges.items():
        for target in targets:
            before[target].add(id)
    merges: set[int] = set()
    block = 0
    for inst in code:
        if inst.op == LABEL:
            block = inst.id
        elif inst.op in _MERGES:
            if inst.words[1] in merges:
                raise declared.fail(inst.at, f"block {inst.words[1]} is where two constructs merge")
            merges.add(inst.words[1])
        elif inst.op == PHI:
            parents = inst.words[4::2]
            if len(inst.words) % 2 == 0 or set(parents) != before[block] or len(set(parents)) != len(parents):
                raise declared.fail(inst.at, "a phi whose blocks are not those that lead to it")


def _labels_of(inst: Inst) -> list[int]:
    """Return the positions of the words of an instruction that name blocks."""
    if inst.op in (BRANCH_CONDITIONAL, SWITCH):
        return [position for position in inst.ids if position > 1]
    return inst.ids if inst.op in (BRANCH, LOOP_MERGE, SELECTION_MERGE) else []
