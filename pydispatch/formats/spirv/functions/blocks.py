"""The blocks of a function of SPIR-V: how they begin and end, and where they lead. See `../check.py`."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.spirv.declared import SpirvDeclarations
from pydispatch.formats.spirv.functions.walk import back_edges
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import Op

NO_CODE = frozenset((Op.NOP, Op.LINE, Op.NO_LINE))
"""Opcodes that may stand between the instructions of a block, and that compute nothing."""
_ENDS = frozenset((Op.BRANCH, Op.BRANCH_CONDITIONAL, Op.SWITCH, Op.KILL, Op.RETURN, Op.RETURN_VALUE, Op.UNREACHABLE,
                   Op.TERMINATE_INVOCATION, Op.DEMOTE_TO_HELPER_INVOCATION))  # fmt: skip
"""Opcodes that end a block."""
_MERGES = (Op.LOOP_MERGE, Op.SELECTION_MERGE)
"""Opcodes that precede the branch of a loop or selection, and name the block where it ends."""
_ALLOWED_AFTER: dict[int, tuple[int, ...]] = {
    Op.LOOP_MERGE: (Op.BRANCH, Op.BRANCH_CONDITIONAL), Op.SELECTION_MERGE: (Op.BRANCH_CONDITIONAL, Op.SWITCH)
}  # fmt: skip
"""The terminators allowed after a merge instruction."""


def check_blocks(declared: SpirvDeclarations, function: SpirvFunction) -> None:
    """Check the control flow graph of a function with a body; raise ArtifactError with the index of the faulty word."""
    code = [inst for inst in function.body if inst.op not in NO_CODE]
    labels = {inst.id for inst in code if inst.op == Op.LABEL}
    first_block = code[0].id
    for inst in code:  # a branch leads to a block of the function, but not back to the first one
        for position in _labels_of(inst):
            target = inst.words[position]
            if target not in labels or target == first_block:
                raise declared.fail(inst.at + position, f"id {target} is no block that this function may go to")
    edges, loop_headers = _edges(declared, code)
    for id, target in back_edges([first_block], edges):
        if target not in loop_headers:
            text = f"block {id} goes back to block {target}, which is no head of a loop"
            raise declared.fail(code[0].at, text)
    _check_merges(declared, code, edges)


def _edges(declared: SpirvDeclarations, code: Sequence[SpirvInstruction]) -> tuple[dict[int, list[int]], set[int]]:
    """Return the successors of each block, and the blocks that are loop headers, all by the ids of their labels; raise
    ArtifactError for malformed blocks.

    A block that ends with `OpBranchConditional %c %then %else` gives {block: [then, else]}. A block is a loop header if
    it has an OpLoopMerge. `code` is the body of a function without the instructions of NO_CODE, such as OpLine.
    """
    edges: dict[int, list[int]] = {}
    loops: set[int] = set()
    block = 0  # label of the open block; 0 between blocks
    merge = 0  # opcode of the previous instruction if it is a merge instruction, else 0
    is_begin = True  # whether only labels, phis and variables of the block precede
    for inst in code:
        # A label begins each block; a merge instruction directly precedes the branch of its block.
        is_label, is_between_blocks = inst.op == Op.LABEL, block == 0
        if is_label != is_between_blocks:
            text = "begins" if is_between_blocks else "has not ended"
            raise declared.fail(inst.at, f"opcode {inst.op}, where a block {text}")
        if merge and inst.op not in _ALLOWED_AFTER[merge]:
            raise declared.fail(inst.at, f"opcode {inst.op} after a merge instruction")
        merge = inst.op if inst.op in _MERGES else 0
        is_first_block = not edges  # a block is added to the edges when it ends
        if is_label:
            block, is_begin = inst.id, True
        elif inst.op == Op.PHI and not is_begin:
            raise declared.fail(inst.at, "a phi inside a block")
        elif inst.op == Op.VARIABLE and not (is_begin and is_first_block):
            raise declared.fail(inst.at, "a variable inside a block")
        elif inst.op in _ENDS:
            edges[block] = [inst.words[position] for position in _labels_of(inst)]
            block = 0
        elif inst.op == Op.LOOP_MERGE:
            loops.add(block)
        if merge and inst.words[1] == block:  # word 1 of a merge instruction is the merge block
            raise declared.fail(inst.at, "a block that merges into itself")
        is_begin = is_begin and inst.op in (Op.LABEL, Op.PHI, Op.VARIABLE)
    if block:
        raise declared.fail(code[-1].at, "the last block of a function does not end")
    return edges, loops


def _check_merges(declared: SpirvDeclarations, code: Sequence[SpirvInstruction], edges: dict[int, list[int]]) -> None:
    """Check that each merge block belongs to one header and that each phi lists the predecessors of its block.

    `edges` maps each block to its successors.
    """
    # The predecessors of each block, from the successors.
    predecessors: dict[int, set[int]] = {id: set() for id in edges}
    for id, targets in edges.items():
        for target in targets:
            predecessors[target].add(id)
    # The merge blocks of all headers so far, and the block that the current instruction is in.
    merges: set[int] = set()
    block = 0
    for inst in code:
        if inst.op == Op.LABEL:
            block = inst.id
        elif inst.op in _MERGES:  # word 1 is the merge block
            if inst.words[1] in merges:
                raise declared.fail(inst.at, f"block {inst.words[1]} is where two constructs merge")
            merges.add(inst.words[1])
        elif inst.op == Op.PHI:
            parents = inst.words[4::2]  # after the opcode, type and result: pairs (value, predecessor)
            is_pair_cut = len(inst.words) % 2 == 0
            if is_pair_cut or set(parents) != predecessors[block] or len(set(parents)) != len(parents):
                raise declared.fail(inst.at, "a phi whose blocks are not those that lead to it")


def _labels_of(inst: SpirvInstruction) -> Sequence[int]:
    """Return the positions of the words of an instruction that name blocks."""
    if inst.op in (Op.BRANCH_CONDITIONAL, Op.SWITCH):
        return [position for position in inst.id_positions if position > 1]  # word 1 is the condition or selector
    return inst.id_positions if inst.op in (Op.BRANCH, Op.LOOP_MERGE, Op.SELECTION_MERGE) else ()
