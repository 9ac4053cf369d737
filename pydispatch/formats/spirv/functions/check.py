"""The functions of a SPIR-V module: blocks, branches, and the types of operands. See `../check.py`."""

from __future__ import annotations

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.declared import SpirvDeclarations
from pydispatch.formats.spirv.functions.blocks import check_blocks
from pydispatch.formats.spirv.functions.operands import FunctionChecker
from pydispatch.formats.spirv.functions.rules import check_instruction
from pydispatch.formats.spirv.functions.walk import back_edges
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import Op

_IN_CONSTANTS = frozenset((
    *range(109, 118), 124,  # conversions: ConvertFToU to ConvertPtrToU, Bitcast
    *range(126, 142),  # arithmetic: SNegate to FMod
    *range(164, 170),  # logic: LogicalEqual to LogicalNot, Select
    77, 78, 79, 81, 82,  # elements: VectorExtractDynamic to VectorShuffle, CompositeExtract, CompositeInsert
    65, 66, 67, 70,  # the four access chains
    *range(170, 192), *range(194, 201),  # comparisons, IEqual to FUnordGreaterThanEqual; bits, ShiftRightLogical to Not
))  # fmt: skip
"""Opcodes that OpSpecConstantOp may compute."""


def check_functions(declared: SpirvDeclarations, has_unknown_instructions: bool) -> None:
    """Check all functions of a module, and that none is recursive.

    `has_unknown_instructions` states that the module has instructions of unknown extensions, whose results may have any
    type.
    """
    calls: dict[int, list[int]] = {}  # function → functions that it calls
    for id, function in declared.functions.items():
        calls[id] = _check(FunctionChecker(declared, function, has_unknown_instructions))
    for _, callee in back_edges(roots=calls, edges=calls):
        raise ArtifactError(f"{declared.tables.what}: function id {callee} calls itself, which shaders cannot")


def check_constant(declared: SpirvDeclarations, inst: SpirvInstruction) -> None:
    """Check an OpSpecConstantOp, the result of an operation on constants, as if it were the operation itself.

    `%c = OpSpecConstantOp %int IAdd %a %b` is checked like `%c = OpIAdd %int %a %b`: its words are those of the IAdd,
    and the opcode IAdd as word 3, before the operands.
    """
    op = inst.words[3]
    if op not in _IN_CONSTANTS:
        raise declared.fail(inst.at, f"a constant of opcode {op}, which computes no constants")
    inner = SpirvInstruction(
        op=op,
        words=[0, inst.type_id, inst.id, *inst.words[4:]],  # word 0, count and opcode, is not read by the checks
        at=inst.at,
        type_word=1,
        result_word=2,
        id_positions=[position - 1 for position in inst.id_positions],
    )
    without_blocks = SpirvFunction(inst)  # check_instruction() needs a function; constants are outside of functions
    checker = FunctionChecker(declared, without_blocks, has_unknown_instructions=False)
    # Errors name a word of the module. `inst` has the opcode as word 3, so operand word p of `inner` is its word p + 1.
    checker.fail = lambda at, text: declared.fail(at if at < inst.at + 3 else at + 1, text)
    check_instruction(checker, inner)


def _check_head(code: FunctionChecker) -> None:
    """Check that a function has the parameters and the result of its function type, word 4 of its OpFunction."""
    head = code.function.head
    op, operands = code.declared.type(head.words[4])  # operands: types of the result and of the parameters
    signature = [head.type_id, *(p.type_id for p in code.function.parameters)]
    if op != Op.TYPE_FUNCTION or list(operands) != signature:
        raise code.fail(head.at, "a function does not have the parameters and result of its type")


def _check(code: FunctionChecker) -> list[int]:
    """Check one function and return the ids of the functions that it calls.

    Phases: the head against the function type, the control flow graph, each instruction, and then the values of phis,
    which may be defined after the phi.
    """
    declared, function = code.declared, code.function
    _check_head(code)
    for parameter in function.parameters:
        code.values[parameter.id] = parameter.type_id
    if not function.body:
        if function.head.id not in declared.tables.linkage:
            raise code.fail(function.head.at, "a function without code that is not imported either")
        return []
    code.labels = {inst.id for inst in function.body if inst.op == Op.LABEL}
    check_blocks(declared, function)
    for inst in function.body:
        check_instruction(code, inst)  # appends to `code.calls` and `code.phis`
        if inst.type_word:
            code.values[inst.id] = inst.type_id
    # The values of phis, all of which are known by now: (word of the value, its id, type of the phi).
    for at, id, type_ in code.phis:
        if code.type_of(id) != type_ and not code.has_unknown_instructions:
            raise code.fail(at, f"id {id} is no value of the type {type_}")
    return code.calls
