"""Validation rules of SPIR-V instructions by opcode: operands and result type."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.formats.spirv.declared import Shape, check_variable
from pydispatch.formats.spirv.functions.blocks import NO_CODE
from pydispatch.formats.spirv.functions.glsl import check_extended
from pydispatch.formats.spirv.functions.operands import FunctionChecker
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import Op, Storage

_FREE = NO_CODE | {Op.LABEL, Op.LOOP_MERGE, Op.SELECTION_MERGE, Op.BRANCH, Op.UNDEF}
"""Opcodes that `check_blocks` checks, or that take anything."""

_MAPS = {
    **dict.fromkeys((109, 110), "i f"), **dict.fromkeys((111, 112), "f i"), **dict.fromkeys((113, 114), "i i"),
    **dict.fromkeys((115, 116, *range(207, 216)), "f f"), 126: "i =", 127: "f =",
    **dict.fromkeys((128, 130, 132), "i =="),
    **dict.fromkeys((134, 135, 137, 138, 139, 197, 198, 199), "i =="),
    **dict.fromkeys((129, 131, 133, 136, 140, 141), "f =="),
    **dict.fromkeys((156, 157), "b f"), **dict.fromkeys((164, 165, 166, 167), "b =="), 168: "b =",
    **dict.fromkeys(range(170, 180), "b ii"), **dict.fromkeys(range(180, 192), "b ff"),
    **dict.fromkeys((194, 195, 196), "i =i"), **dict.fromkeys((200, 204), "i ="), 205: "i i",
    201: "i ==sS", **dict.fromkeys((202, 203), "i =sS"),
}  # fmt: skip
"""Opcode → mapping of its components, see `FunctionChecker.components`."""


def check_instruction(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check the operands and the result type of an instruction; raise ArtifactError if they are invalid."""
    op = inst.op
    if code.is_open and any(not code.is_known(inst.words[position]) for position in inst.ids):
        return
    mapping = _MAPS.get(op)
    if mapping is not None:
        code.components(inst, mapping, inst.ids)
        return
    rule = _RULES.get(op)
    if rule is not None:
        rule(code, inst)
        return
    if op in _FREE:
        return
    if Op.ATOMIC_LOAD <= op <= Op.ATOMIC_LAST:
        _atomic(code, inst)
    elif Op.GROUP_NON_UNIFORM_FIRST <= op <= Op.GROUP_NON_UNIFORM_LAST:
        _group(code, inst)
    else:
        for position in inst.ids:
            code.value(inst, position)


def _variable(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpVariable in a function."""
    pointee = code.declared.pointee(inst.type_id)
    code.demand(
        inst,
        pointee is not None and pointee[0] == Storage.FUNCTION == inst.words[3],
        "another storage class than Function",
    )
    assert pointee is not None
    check_variable(code.declared, inst, pointee[1])
    if inst.ids:
        code.same(inst, inst.ids[0], pointee[1])


def _load(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpLoad type result pointer`: the pointer, word 3, points to a sized value of the type."""
    pointee = code.pointer(inst, 3)[1]
    is_sized = code.declared.type(pointee)[0] not in (
        Op.TYPE_RUNTIME_ARRAY,
        Op.TYPE_FUNCTION,
        Op.TYPE_VOID,
    )
    code.demand(inst, pointee == inst.type_id and is_sized, "a result that is not what the pointer points to")


def _store(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpStore pointer object`: the object, word 2, has the type that the writable pointer, word 1, points to."""
    storage, pointee = code.pointer(inst, 1)
    code.same(inst, 2, pointee)
    code.writable(inst, storage)


def _copy_memory(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCopyMemory target source`: both pointers, words 1 and 2, point to the same type."""
    code.demand(inst, code.pointer(inst, 1)[1] == code.pointer(inst, 2)[1])


def _chain(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an access chain: integer indices of existing elements, and the type of the result."""
    declared = code.declared
    result = declared.pointee(inst.type_id)
    storage, type_ = code.pointer(inst, 3)
    positions = list(range(4, len(inst.words)))
    if inst.op in (Op.PTR_ACCESS_CHAIN, Op.IN_BOUNDS_PTR_ACCESS_CHAIN):
        code.integers(inst, *positions[:1])
        positions = positions[1:]
    for position in positions:
        code.integers(inst, position)
        index = declared.number(inst.words[position])
        inner = declared.part(type_, index)
        if inner is None:
            raise code.fail(inst.at + position, f"type {type_} has no element {inst.words[position]}")
        type_ = inner
    code.demand(inst, result == (storage, type_), "a result that is no pointer to the element")


def _length(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpArrayLength type result pointer member`: the member of the structure is a runtime array, and the type an
    integer."""
    type_ = code.pointer(inst, 3)[1]
    inner = code.declared.part(type_, inst.words[4]) if code.declared.type(type_)[0] == Op.TYPE_STRUCT else None
    code.demand(inst, inner is not None and code.declared.type(inner)[0] == Op.TYPE_RUNTIME_ARRAY)
    code.demand(inst, code.declared.is_integer(inst.type_id))


def _call(code: FunctionChecker, inst: SpirvInstruction) -> None:
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
        code.same(inst, position, parameter.type_id)


def _select(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpSelect type result condition a b`: both objects have the type, and the condition is one bool, or as many
    as the type has components."""
    condition = code.shape(inst, 3)
    result = code.declared.shape(inst.type_id)
    code.same(inst, 4, inst.type_id)
    code.same(inst, 5, inst.type_id)
    code.demand(
        inst,
        condition.kind == "b" and (condition.count == 1 or (result is not None and result.count == condition.count)),
    )


def _bitcast(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpBitcast: both types have the same number of bits, or one is a pointer."""
    result, operand = code.declared.shape(inst.type_id), code.declared.shape(code.value(inst, 3))
    if result is None or operand is None:
        pointers = [code.declared.pointee(inst.type_id), code.declared.pointee(code.value(inst, 3))]
        code.demand(inst, any(pointer is not None for pointer in pointers))
        return
    code.demand(
        inst, "b" not in (result.kind, operand.kind) and result.width * result.count == operand.width * operand.count
    )


def _extract(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCompositeExtract type result composite index...`: the indices, from word 4 on, lead to an element of the
    type."""
    type_ = code.value(inst, 3)
    for at in range(4, len(inst.words)):
        inner = code.declared.part(type_, inst.words[at])
        if inner is None:
            raise code.fail(inst.at + at, f"type {type_} has no element {inst.words[at]}")
        type_ = inner
    code.demand(inst, type_ == inst.type_id)


def _insert(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCompositeInsert type result object composite index...`: the indices, from word 5 on, lead to an element
    of the object's type."""
    code.same(inst, 4, inst.type_id)
    type_ = inst.type_id
    for at in range(5, len(inst.words)):
        inner = code.declared.part(type_, inst.words[at])
        if inner is None:
            raise code.fail(inst.at + at, f"type {type_} has no element {inst.words[at]}")
        type_ = inner
    code.same(inst, 3, type_)


def _construct(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpCompositeConstruct: components of a vector, or the elements of another composite."""
    declared, result = code.declared, code.declared.shape(inst.type_id)
    if result is not None:
        shapes = [code.shape(inst, position) for position in inst.ids]
        fits = all((s.kind, s.width) == (result.kind, result.width) for s in shapes) and result.count > 1
        code.demand(inst, fits and sum(s.count for s in shapes) == result.count)
        return
    count, types = declared.parts(inst.type_id)
    code.demand(inst, bool(types) and (count is None or count == len(inst.ids)))
    is_struct = declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
    for index, position in enumerate(inst.ids):
        code.same(inst, position, types[index if is_struct else 0])


def _shuffle(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorShuffle type result a b component...`: components count through both vectors; 0xFFFFFFFF is
    undefined."""
    result, a, b = code.declared.shape(inst.type_id), code.shape(inst, 3), code.shape(inst, 4)
    chosen = inst.words[5:]
    code.demand(inst, result is not None and result.count == len(chosen) > 1 and a.count > 1 and b.count > 1)
    assert result is not None
    code.demand(inst, {(s.kind, s.width) for s in (result, a, b)} == {(result.kind, result.width)})
    code.demand(inst, all(c < a.count + b.count or c == 0xFFFFFFFF for c in chosen), "components that are not there")


def _element(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorExtractDynamic type result vector index`, or `OpVectorInsertDynamic type result vector component
    index`."""
    code.shape(inst, 3)
    part = code.declared.part(code.value(inst, 3), None)
    if inst.op == Op.VECTOR_EXTRACT_DYNAMIC:
        code.demand(inst, part == inst.type_id and part is not None)
        code.integers(inst, 4)
    else:
        code.demand(inst, code.value(inst, 3) == inst.type_id and part is not None)
        code.same(inst, 4, part or 0)
        code.integers(inst, 5)


def _copy(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpCopyObject."""
    code.same(inst, 3, inst.type_id)


_TAKES_MATRICES = {
    Op.MATRIX_TIMES_SCALAR: (True, False), Op.VECTOR_TIMES_MATRIX: (False, True),
    Op.MATRIX_TIMES_VECTOR: (True, False), Op.MATRIX_TIMES_MATRIX: (True, True),
}  # fmt: skip
"""Whether the first, and the second, operand of a product is a matrix; no operand of the others is."""


def _product(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check a product of vectors and matrices: rows and columns of both factors and of the result, and one type of
    elements. A vector is a column.
    """
    types = [code.value(inst, 3), code.value(inst, 4)]
    rows, columns = zip(*(_sides(code, type_) for type_ in types), strict=True)
    result = _sides(code, inst.type_id)
    kinds = {_scalar(code, type_) for type_ in (*types, inst.type_id)}
    # Of each product: rows and columns of the result, and two sizes that must be equal.
    result_rows, result_columns, (summed, other_summed) = {
        Op.VECTOR_TIMES_SCALAR: (rows[0], 1, (1, 1)),
        Op.MATRIX_TIMES_SCALAR: (rows[0], columns[0], (1, 1)),
        Op.VECTOR_TIMES_MATRIX: (columns[1], 1, (rows[1], rows[0])),
        Op.MATRIX_TIMES_VECTOR: (rows[0], 1, (columns[0], rows[1])),
        Op.MATRIX_TIMES_MATRIX: (rows[0], columns[1], (columns[0], rows[1])),
        Op.OUTER_PRODUCT: (rows[0], rows[1], (1, 1)),
        Op.DOT: (1, 1, (rows[0], rows[1])),
    }[Op(inst.op)]
    are_matrices = tuple(code.declared.type(type_)[0] == Op.TYPE_MATRIX for type_ in types)
    takes_scalar = inst.op in (Op.VECTOR_TIMES_SCALAR, Op.MATRIX_TIMES_SCALAR)
    fits = (
        kinds != {None}
        and len(kinds) == 1
        and are_matrices == _TAKES_MATRICES.get(Op(inst.op), (False, False))
        and (not takes_scalar or (rows[1], columns[1]) == (1, 1))
        and summed == other_summed
    )
    code.demand(inst, fits and result == (result_rows, result_columns))


def _sides(code: FunctionChecker, type_: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a matrix, vector (one column) or scalar (1, 1)."""
    op, words = code.declared.type(type_)
    inner = code.declared.shape(words[0]) if op == Op.TYPE_MATRIX else None
    if inner is not None:
        return inner.count, words[1]
    shape = code.declared.shape(type_)
    return (shape.count if shape is not None else 0), 1


def _scalar(code: FunctionChecker, type_: int) -> tuple[str, int] | None:
    """Return the kind and the width of a floating-point scalar, vector or matrix type; None for other types."""
    op, words = code.declared.type(type_)
    shape = code.declared.shape(words[0] if op == Op.TYPE_MATRIX else type_)
    return (shape.kind, shape.width) if shape is not None and shape.kind == "f" else None


def _transpose(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpTranspose."""
    rows, columns = _sides(code, code.value(inst, 3))
    code.demand(inst, _sides(code, inst.type_id) == (columns, rows) and columns > 1)


def _carry(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an addition, subtraction or multiplication whose result is a struct of two integers."""
    operand_type = code.value(inst, 3)
    code.same(inst, 4, operand_type)
    members = code.declared.parts(inst.type_id)[1]
    is_struct = code.declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
    code.demand(inst, is_struct and list(members) == [operand_type, operand_type] and code.shape(inst, 3).kind == "i")


def _any(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpAny or OpAll."""
    code.demand(inst, code.declared.shape(inst.type_id) == Shape("b", 0, 1) and code.shape(inst, 3).kind == "b")


def _barrier(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpControlBarrier or OpMemoryBarrier."""
    code.scopes(inst, *inst.ids)


def _phi(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Record the operands of an OpPhi, which are checked at the end of the function."""
    code.phis += [(inst.at + position, inst.words[position], inst.type_id) for position in range(3, len(inst.words), 2)]


def _branch(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpBranchConditional."""
    code.demand(inst, code.shape(inst, 1) == Shape("b", 0, 1), "a condition that is no bool")
    code.demand(inst, len(inst.words) in (4, 6), f"{len(inst.words)} words")


def _switch(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpSwitch: an integer selector and distinct cases."""
    code.integers(inst, 1)
    size = 1 + (2 if code.shape(inst, 1).width > 32 else 1)
    cases = [tuple(inst.words[at : at + size - 1]) for at in range(3, len(inst.words), size)]
    code.demand(inst, len(set(cases)) == len(cases), "a case twice")


def _return(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check a return against the result type of the function."""
    result = code.function.head.type_id
    if inst.op == Op.RETURN:
        code.demand(inst, code.declared.type(result)[0] == Op.TYPE_VOID, "no value, and the function returns one")
    else:
        code.same(inst, 1, result)


def _atomic(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an atomic instruction: a writable pointer to a scalar, constant scopes, operands of its type."""
    is_store = inst.op == Op.ATOMIC_STORE
    start = 1 if is_store else 3
    storage, pointee = code.pointer(inst, start)
    shape = code.declared.shape(pointee)
    code.demand(inst, shape is not None and shape.kind in "if" and shape.count == 1 and shape.width >= 16)
    code.writable(inst, storage)
    code.demand(inst, is_store or inst.type_id == pointee)
    is_exchange = inst.op in (Op.ATOMIC_COMPARE_EXCHANGE, Op.ATOMIC_COMPARE_EXCHANGE_WEAK)
    rest = list(range(start + 1, len(inst.words)))
    scopes = rest[: 3 if is_exchange else 2]
    code.scopes(inst, *scopes)
    for position in rest[len(scopes) :]:
        code.same(inst, position, pointee)
    is_integer = inst.op not in (Op.ATOMIC_LOAD, Op.ATOMIC_STORE, Op.ATOMIC_EXCHANGE)
    code.demand(inst, not is_integer or (shape is not None and shape.kind == "i"))


_GROUP_VOTES = frozenset((333, 334, 335, 336, 340))
"""OpGroupNonUniform Elect, All, Any, AllEqual and InverseBallot, whose result is a bool."""

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


def _group(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check a subgroup instruction (OpGroupNonUniform*)."""
    code.scopes(inst, 3)
    for position in inst.ids[1:]:
        code.value(inst, position)
    result = code.declared.shape(inst.type_id)
    code.demand(inst, result is not None)
    assert result is not None
    if inst.op in _GROUP_VOTES:
        code.demand(inst, result == Shape("b", 0, 1))
    elif inst.op in _GROUP_MOVES:
        code.same(inst, 4, inst.type_id)
        if len(inst.ids) > 2:
            code.integers(inst, 5)
    elif inst.op in _GROUP_BALLOTS:
        code.demand(inst, result.kind == ("b" if inst.op == _BALLOT_BIT_EXTRACT else "i"))
        position = 5 if inst.op == _BALLOT_BIT_COUNT else 4
        wanted = Shape("b", 0, 1) if inst.op == _BALLOT else Shape("i", 32, 4)
        code.demand(inst, code.shape(inst, position) == wanted)
    else:
        code.same(inst, 5, inst.type_id)
        code.demand(inst, result.kind == _GROUP_KINDS.get(inst.op, result.kind))
        operation, has_cluster_size = inst.words[4], len(inst.words) > 6
        is_known = operation < _CLUSTERED_REDUCE or (operation == _CLUSTERED_REDUCE and has_cluster_size)
        code.demand(inst, is_known, "another operation of groups")
        if len(inst.ids) > 2:
            code.scopes(inst, 6)


_RULES: dict[int, Callable[[FunctionChecker, SpirvInstruction], None]] = {
    Op.VARIABLE: _variable, Op.LOAD: _load, Op.STORE: _store, Op.COPY_MEMORY: _copy_memory,
    **dict.fromkeys((65, 66, 67, 70), _chain), Op.ARRAY_LENGTH: _length, Op.FUNCTION_CALL: _call,
    Op.EXT_INST: check_extended, 169: _select, 124: _bitcast, 81: _extract, 82: _insert,
    80: _construct, 79: _shuffle, Op.VECTOR_EXTRACT_DYNAMIC: _element, Op.VECTOR_INSERT_DYNAMIC: _element, 83: _copy,
    **dict.fromkeys(range(Op.VECTOR_TIMES_SCALAR, Op.DOT + 1), _product), 84: _transpose,
    **dict.fromkeys((149, 150, 151, 152), _carry), 154: _any, 155: _any,
    224: _barrier, 225: _barrier, Op.PHI: _phi, Op.BRANCH_CONDITIONAL: _branch,
    Op.SWITCH: _switch, Op.RETURN: _return, Op.RETURN_VALUE: _return,
}  # fmt: skip
