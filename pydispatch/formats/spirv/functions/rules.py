"""Validation rules of SPIR-V instructions by opcode: operands and result type.

A rule gets the checker of the function (`code`). Its methods look at the operand in a word of the instruction, by its
position: `shape` and `pointer` return what it is, `expect_type` and `expect_integers` require a type. `demand` raises
ArtifactError, with a description of what the instruction has, unless a condition holds.
"""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.formats.spirv.declared import Shape, check_variable
from pydispatch.formats.spirv.functions.blocks import NO_CODE
from pydispatch.formats.spirv.functions.composites import (
    check_construct,
    check_element,
    check_extract,
    check_insert,
    check_product,
    check_shuffle,
    check_transpose,
)
from pydispatch.formats.spirv.functions.glsl import check_extended
from pydispatch.formats.spirv.functions.operands import FunctionChecker
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import Op, Storage

_CHECKED_ELSEWHERE = NO_CODE | {Op.LABEL, Op.LOOP_MERGE, Op.SELECTION_MERGE, Op.BRANCH, Op.UNDEF}
"""Opcodes that `check_blocks` checks, or that take anything."""

_COMPONENTWISE = {
    109: "i f", 110: "i f", 111: "f i", 112: "f i",  # ConvertFToU, ConvertFToS, ConvertSToF, ConvertUToF
    113: "i i", 114: "i i", 115: "f f", 116: "f f",  # UConvert, SConvert, FConvert, QuantizeToF16
    **dict.fromkeys(range(207, 216), "f f"),  # derivatives: DPdx to FwidthCoarse
    126: "i =", 127: "f =",  # SNegate, FNegate
    **dict.fromkeys((128, 130, 132), "i =="),  # IAdd, ISub, IMul
    **dict.fromkeys((134, 135, 137, 138, 139), "i =="),  # UDiv, SDiv, UMod, SRem, SMod
    **dict.fromkeys((197, 198, 199), "i =="),  # BitwiseOr, BitwiseXor, BitwiseAnd
    **dict.fromkeys((129, 131, 133, 136, 140, 141), "f =="),  # FAdd, FSub, FMul, FDiv, FRem, FMod
    156: "b f", 157: "b f",  # IsNan, IsInf
    **dict.fromkeys((164, 165, 166, 167), "b =="), 168: "b =",  # LogicalEqual, NotEqual, Or and And; LogicalNot
    **dict.fromkeys(range(170, 180), "b ii"),  # comparisons of integers: IEqual to SLessThanEqual
    **dict.fromkeys(range(180, 192), "b ff"),  # comparisons of floats: FOrdEqual to FUnordGreaterThanEqual
    **dict.fromkeys((194, 195, 196), "i =i"),  # ShiftRightLogical, ShiftRightArithmetic, ShiftLeftLogical
    200: "i =", 204: "i =", 205: "i i",  # Not, BitReverse, BitCount
    201: "i ==ss", 202: "i =ss", 203: "i =ss",  # BitFieldInsert, BitFieldSExtract, BitFieldUExtract
}  # fmt: skip
"""Opcode of an instruction that works component by component → kinds of its result and, after a space, of its operands.

i, f and b are integer, float and bool. `=` is an operand of the result's type, and s an integer scalar of any width."""


def check_instruction(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check the operands and the result type of an instruction; raise ArtifactError if they are invalid.

    The kinds of operands of an instruction on components are in a table, `_COMPONENTWISE`; most others have a function
    in `_RULES`. Of the remaining ones, each id must be a value that is defined. Instructions that use results of an
    unknown extension are not checked, since the types of these results are not known.
    """
    op = inst.op
    if code.has_unknown_instructions and any(not code.is_known(inst.words[position]) for position in inst.id_positions):
        return  # an operand is the result of an instruction of an unknown extension
    kinds = _COMPONENTWISE.get(op)
    if kinds is not None:
        code.componentwise(inst, kinds, inst.id_positions)
        return
    rule = _RULES.get(op)
    if rule is not None:
        rule(code, inst)
        return
    if op in _CHECKED_ELSEWHERE:  # labels and branches, by `check_blocks`; or instructions without operands to check
        return
    if Op.ATOMIC_LOAD <= op <= Op.ATOMIC_LAST:
        _check_atomic(code, inst)
    elif Op.GROUP_NON_UNIFORM_FIRST <= op <= Op.GROUP_NON_UNIFORM_LAST:
        _check_subgroup(code, inst)
    else:
        for position in inst.id_positions:
            code.operand_type(inst, position)  # raises unless the operand is a value


def _check_variable_in_function(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpVariable in a function."""
    pointee = code.declared.pointee(inst.type_id)
    stated_storage = inst.words[3]
    is_function_storage = pointee is not None and pointee.storage == stated_storage == Storage.FUNCTION
    code.demand(inst, is_function_storage, "another storage class than Function")
    assert pointee is not None
    check_variable(code.declared, inst, pointee.type)
    if inst.id_positions:  # the variable has an initializer
        code.expect_type(inst, inst.id_positions[0], pointee.type)


def _check_load(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpLoad type result pointer`: the pointer, word 3, points to a sized value of the type."""
    pointee = code.pointer(inst, 3).type
    is_sized = code.declared.opcode(pointee) not in (
        Op.TYPE_RUNTIME_ARRAY,
        Op.TYPE_FUNCTION,
        Op.TYPE_VOID,
    )
    code.demand(inst, pointee == inst.type_id and is_sized, "a result that is not what the pointer points to")


def _check_store(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpStore pointer object`: the object, word 2, has the type that the writable pointer, word 1, points to."""
    storage, pointee = code.pointer(inst, 1)
    code.expect_type(inst, 2, pointee)
    code.expect_writable(inst, storage)


def _check_copy_memory(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCopyMemory target source`: both pointers, words 1 and 2, point to the same type."""
    code.demand(inst, code.pointer(inst, 1).type == code.pointer(inst, 2).type)


def _check_access_chain(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpAccessChain type result base index...`: integer indices of existing elements, and the type of the
    result.

    Each index selects an element of an array, a member of a structure, or a component of a vector or matrix. The result
    is a pointer to the last one in the storage class of the base. `OpPtrAccessChain type result base element index...`
    first moves the base by `element` elements, which does not change its type.
    """
    declared = code.declared
    result = declared.pointee(inst.type_id)
    storage, type_ = code.pointer(inst, 3)
    positions = list(range(4, len(inst.words)))
    if inst.op in (Op.PTR_ACCESS_CHAIN, Op.IN_BOUNDS_PTR_ACCESS_CHAIN):  # the first index moves the base itself
        code.expect_integers(inst, *positions[:1])
        positions = positions[1:]
    for position in positions:
        code.expect_integers(inst, position)
        index = declared.number(inst.words[position])  # None if it is no constant; a member of a structure needs one
        inner = declared.part(type_, index)
        if inner is None:
            raise code.fail(inst.at + position, f"type {type_} has no element {inst.words[position]}")
        type_ = inner
    code.demand(inst, result == (storage, type_), "a result that is no pointer to the element")


def _check_array_length(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpArrayLength type result pointer member`: the member of the structure is a runtime array, and the type an
    integer."""
    type_ = code.pointer(inst, 3).type
    is_struct = code.declared.opcode(type_) == Op.TYPE_STRUCT
    member_type = code.declared.part(type_, inst.words[4]) if is_struct else None
    code.demand(inst, member_type is not None and code.declared.opcode(member_type) == Op.TYPE_RUNTIME_ARRAY)
    code.demand(inst, code.declared.is_integer(inst.type_id))


def _check_call(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpFunctionCall against its callee, and record the callee."""
    callee = code.declared.functions.get(inst.words[3])
    if callee is None:
        raise code.fail(inst.at + 3, f"a call of id {inst.words[3]}, which is no function")
    code.calls.append(inst.words[3])
    count = len(inst.words) - 4
    code.demand(inst, callee.head.type_id == inst.type_id, "another result than the function that it calls")
    code.demand(
        inst, count == len(callee.parameters), f"{count} arguments, the function takes {len(callee.parameters)}"
    )
    for position, parameter in enumerate(callee.parameters, 4):
        code.expect_type(inst, position, parameter.type_id)


def _check_select(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpSelect type result condition a b`: both objects have the type, and the condition is one bool, or as many
    as the type has components."""
    condition = code.shape(inst, 3)
    result = code.declared.shape(inst.type_id)
    code.expect_type(inst, 4, inst.type_id)
    code.expect_type(inst, 5, inst.type_id)
    code.demand(
        inst,
        condition.kind == "b" and (condition.count == 1 or (result is not None and result.count == condition.count)),
    )


def _check_bitcast(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpBitcast: the result or the operand is a pointer, or both have the same number of bits and neither is
    bool, which has no bit pattern."""
    declared, operand_type = code.declared, code.operand_type(inst, 3)
    result, operand = declared.shape(inst.type_id), declared.shape(operand_type)
    if result is None or operand is None:  # one of them is no scalar or vector
        is_pointer_cast = declared.pointee(inst.type_id) is not None or declared.pointee(operand_type) is not None
        code.demand(inst, is_pointer_cast)
        return
    have_bits = result.kind != "b" and operand.kind != "b"
    code.demand(inst, have_bits and result.width * result.count == operand.width * operand.count)


def _check_copy_object(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCopyObject type result operand`: the operand, word 3, has the type of the result."""
    code.expect_type(inst, 3, inst.type_id)


def _check_extended_arithmetic(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check OpIAddCarry, OpISubBorrow, OpUMulExtended or OpSMulExtended: the result is a struct of two integers, the
    low word and the carry, borrow or high word."""
    operand_type = code.operand_type(inst, 3)
    code.expect_type(inst, 4, operand_type)
    members = code.declared.parts(inst.type_id).types
    is_struct = code.declared.opcode(inst.type_id) == Op.TYPE_STRUCT
    code.demand(inst, is_struct and list(members) == [operand_type, operand_type] and code.shape(inst, 3).kind == "i")


def _check_any_or_all(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpAny type result vector` or OpAll: the result is a bool, the vector, word 3, has bools."""
    code.demand(inst, code.declared.shape(inst.type_id) == Shape("b", 0, count=1) and code.shape(inst, 3).kind == "b")


def _check_barrier(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpControlBarrier or OpMemoryBarrier, whose operands are all constants: scopes and memory semantics."""
    code.expect_constant_integers(inst, *inst.id_positions)


def _record_phi(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Record the values of an OpPhi, which are checked at the end of the function, because they may be defined later.

    From word 3 on it has pairs (value, id of the block that leads here).
    """
    code.phis += [(inst.at + position, inst.words[position], inst.type_id) for position in range(3, len(inst.words), 2)]


def _check_conditional_branch(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpBranchConditional condition block block`, with two branch weights or none after the blocks."""
    code.demand(inst, code.shape(inst, 1) == Shape("b", 0, count=1), "a condition that is no bool")
    code.demand(inst, len(inst.words) in (4, 6), f"{len(inst.words)} words")


def _check_switch(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpSwitch selector default (literal label)...`: an integer selector, and distinct literals of its width."""
    code.expect_integers(inst, 1)
    literal_words = 2 if code.shape(inst, 1).width > 32 else 1
    starts = range(3, len(inst.words), literal_words + 1)
    literals = [tuple(inst.words[start : start + literal_words]) for start in starts]
    code.demand(inst, len(set(literals)) == len(literals), "a case twice")


def _check_return(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpReturn or OpReturnValue against the result type of the function."""
    result = code.function.head.type_id
    if inst.op == Op.RETURN:
        code.demand(inst, code.declared.opcode(result) == Op.TYPE_VOID, "no value, and the function returns one")
    else:
        code.expect_type(inst, 1, result)


def _check_atomic(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an atomic instruction: a writable pointer to a scalar, constant scopes, operands of its type.

    `%r = OpAtomicIAdd %type %pointer %scope %semantics %value` has the words opcode, type, result, pointer, scope,
    memory semantics and value. Only loads, stores and exchanges take floats.
    """
    is_store = inst.op == Op.ATOMIC_STORE
    pointer_position = 1 if is_store else 3  # a store has no result type and no result before it
    storage, pointee = code.pointer(inst, pointer_position)
    shape = code.declared.shape(pointee)
    code.demand(inst, shape is not None)
    assert shape is not None
    code.demand(inst, shape.kind in ("i", "f") and shape.count == 1 and shape.width >= 16)
    code.expect_writable(inst, storage)
    code.demand(inst, is_store or inst.type_id == pointee)
    is_exchange = inst.op in (Op.ATOMIC_COMPARE_EXCHANGE, Op.ATOMIC_COMPARE_EXCHANGE_WEAK)
    # A scope and memory semantics; a compare-exchange has semantics for success and for failure. Then the values.
    scope_position = pointer_position + 1
    value_position = scope_position + (3 if is_exchange else 2)
    code.expect_constant_integers(inst, *range(scope_position, min(value_position, len(inst.words))))
    for position in range(value_position, len(inst.words)):
        code.expect_type(inst, position, pointee)
    takes_floats = inst.op in (Op.ATOMIC_LOAD, Op.ATOMIC_STORE, Op.ATOMIC_EXCHANGE)
    code.demand(inst, takes_floats or shape.kind == "i")


_BOOL = Shape("b", 0, count=1)
"""Shape of a predicate."""
_BALLOT_OF_LANES = Shape("i", 32, count=4)
"""Shape of a ballot, which has a bit for each lane."""

_GROUP_VOTES: dict[int, Shape | None] = {333: None, 334: _BOOL, 335: _BOOL, 336: None, 340: _BALLOT_OF_LANES}
"""OpGroupNonUniform Elect, All, Any, AllEqual and InverseBallot, whose result is a bool → shape of the operand; None
where there is none, or one of any shape."""

_GROUP_MOVES = frozenset((337, 338, *range(345, 349), 365, 366))
"""OpGroupNonUniform Broadcast, BroadcastFirst, the four shuffles, QuadBroadcast and QuadSwap."""

_BALLOT, _BALLOT_BIT_EXTRACT, _BALLOT_BIT_COUNT = 339, 341, 342
_GROUP_BALLOTS = frozenset((_BALLOT, _BALLOT_BIT_EXTRACT, _BALLOT_BIT_COUNT, 343, 344))
"""OpGroupNonUniform Ballot, BallotBitExtract, BallotBitCount, BallotFindLSB and BallotFindMSB."""

_GROUP_KINDS = dict(zip(range(349, 365), "ififiifiifiiibbb", strict=True))
"""Kind of the elements of the reductions, OpGroupNonUniformIAdd (349) to OpGroupNonUniformLogicalXor (364): integers,
floats or bools."""

_CLUSTERED_REDUCE = 3
"""Group operation with the size of a cluster as an operand; those below are Reduce and the two scans."""


def _check_subgroup(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check a subgroup instruction (OpGroupNonUniform*).

    Words 1 to 3 are the type, the result and the scope. The operands after them depend on the kind of instruction;
    `id_positions` has the scope and those of them that are ids:

        vote        predicate, value or ballot; none for Elect        result: a bool
        move        value, then the lane or direction if it has one   result: of the type of the value
        ballot      a bool for Ballot, a ballot for the others, which BallotBitExtract follows by the lane
                                                                      result: a ballot, bool or integer
        reduction   group operation, value, cluster size if any       result: of the type of the value

    A ballot is a vector of four 32-bit integers with a bit for each lane. BallotBitCount has a group operation before
    its ballot. A group operation is a literal word: Reduce, a scan, or a reduction of clusters, which needs their size.
    """
    code.expect_constant_integers(inst, 3)  # the scope
    for position in inst.id_positions[1:]:
        code.operand_type(inst, position)
    result = code.declared.shape(inst.type_id)
    code.demand(inst, result is not None)
    assert result is not None
    if inst.op in _GROUP_VOTES:
        operand_shape = _GROUP_VOTES[inst.op]  # None: no operand, or one of any shape
        code.demand(inst, result == _BOOL and (operand_shape is None or code.shape(inst, 4) == operand_shape))
    elif inst.op in _GROUP_MOVES:
        code.expect_type(inst, 4, inst.type_id)
        if len(inst.id_positions) > 2:  # BroadcastFirst has only the value
            code.expect_integers(inst, 5)
    elif inst.op in _GROUP_BALLOTS:
        _check_ballot(code, inst, result)
    else:
        _check_group_reduction(code, inst, result)


def _check_ballot(code: FunctionChecker, inst: SpirvInstruction, result: Shape) -> None:
    """Check `OpGroupNonUniformBallot type result scope predicate`, or an instruction that reads a ballot.

    The other instructions have the words `type result scope ballot`; BallotBitExtract has the lane after the ballot,
    and BallotBitCount a group operation before it. `result` is the shape of the result.
    """
    if inst.op == _BALLOT:
        code.demand(inst, result == _BALLOT_OF_LANES and code.shape(inst, 4) == _BOOL)
        return
    result_kind = "b" if inst.op == _BALLOT_BIT_EXTRACT else "i"
    code.demand(inst, result.kind == result_kind and result.count == 1)
    ballot_position = 5 if inst.op == _BALLOT_BIT_COUNT else 4
    code.demand(inst, code.shape(inst, ballot_position) == _BALLOT_OF_LANES)
    if inst.op == _BALLOT_BIT_EXTRACT:
        code.expect_integers(inst, 5)  # the lane


def _check_group_reduction(code: FunctionChecker, inst: SpirvInstruction, result: Shape) -> None:
    """Check a subgroup reduction or scan: `OpGroupNonUniformIAdd type result scope operation value`, for example.

    The operation, a literal word, is Reduce, a scan, or ClusteredReduce, which has the cluster size after the value.
    `result` is the shape of the result.
    """
    code.expect_type(inst, 5, inst.type_id)
    code.demand(inst, result.kind == _GROUP_KINDS.get(inst.op, result.kind))
    operation, has_cluster_size = inst.words[4], len(inst.words) > 6
    is_known = operation < _CLUSTERED_REDUCE or (operation == _CLUSTERED_REDUCE and has_cluster_size)
    code.demand(inst, is_known, "another operation of groups")
    if len(inst.id_positions) > 2:
        code.expect_constant_integers(inst, 6)  # the cluster size


_RULES: dict[int, Callable[[FunctionChecker, SpirvInstruction], None]] = {
    Op.VARIABLE: _check_variable_in_function, Op.LOAD: _check_load, Op.STORE: _check_store,
    Op.COPY_MEMORY: _check_copy_memory,
    Op.ACCESS_CHAIN: _check_access_chain, Op.IN_BOUNDS_ACCESS_CHAIN: _check_access_chain,
    Op.PTR_ACCESS_CHAIN: _check_access_chain, Op.IN_BOUNDS_PTR_ACCESS_CHAIN: _check_access_chain,
    Op.ARRAY_LENGTH: _check_array_length, Op.FUNCTION_CALL: _check_call, Op.EXT_INST: check_extended,
    Op.SELECT: _check_select, Op.BITCAST: _check_bitcast, Op.COPY_OBJECT: _check_copy_object,
    Op.COMPOSITE_EXTRACT: check_extract, Op.COMPOSITE_INSERT: check_insert, Op.COMPOSITE_CONSTRUCT: check_construct,
    Op.VECTOR_SHUFFLE: check_shuffle, Op.VECTOR_EXTRACT_DYNAMIC: check_element, Op.VECTOR_INSERT_DYNAMIC: check_element,
    **dict.fromkeys(range(Op.VECTOR_TIMES_SCALAR, Op.DOT + 1), check_product), Op.TRANSPOSE: check_transpose,
    Op.I_ADD_CARRY: _check_extended_arithmetic, Op.I_SUB_BORROW: _check_extended_arithmetic,
    Op.U_MUL_EXTENDED: _check_extended_arithmetic, Op.S_MUL_EXTENDED: _check_extended_arithmetic,
    Op.ANY: _check_any_or_all, Op.ALL: _check_any_or_all,
    Op.CONTROL_BARRIER: _check_barrier, Op.MEMORY_BARRIER: _check_barrier,
    Op.PHI: _record_phi, Op.BRANCH_CONDITIONAL: _check_conditional_branch, Op.SWITCH: _check_switch,
    Op.RETURN: _check_return, Op.RETURN_VALUE: _check_return,
}  # fmt: skip
"""Opcode → check of an instruction."""
