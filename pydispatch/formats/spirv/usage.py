"""Use of global variables and subgroup operations by the functions of a SPIR-V module."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydispatch.formats.spirv.module import SpirvTables
from pydispatch.formats.spirv.names import Op
from pydispatch.formats.spirv.operands import WRITTEN_POINTERS


@dataclass
class VariableUse:
    """Global variables and subgroup operations that the functions of one entry point use.

    Attributes:
        variables: Ids of the variables.
        written: Ids of the variables that may be written.
        has_subgroup_ops: Whether a function has subgroup operations (OpGroupNonUniform...).
    """

    variables: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    has_subgroup_ops: bool = False


_POINTER_POSITIONS: dict[int, tuple[int, ...]] = {
    Op.LOAD: (3,), Op.STORE: (1,), Op.COPY_MEMORY: (1, 2), Op.COPY_MEMORY_SIZED: (1, 2), Op.ACCESS_CHAIN: (3,),
    Op.IN_BOUNDS_ACCESS_CHAIN: (3,), Op.PTR_ACCESS_CHAIN: (3,), Op.IN_BOUNDS_PTR_ACCESS_CHAIN: (3,),
    Op.ARRAY_LENGTH: (3,), Op.COPY_OBJECT: (3,), Op.IMAGE_TEXEL_POINTER: (3,), Op.ATOMIC_LOAD: (3,),
}  # fmt: skip
"""Opcode → indices of the words that may be the id of a variable, whose memory the instruction accesses or derives a
pointer into. An atomic instruction that is not listed has one in the word that `WRITTEN_POINTERS` states."""
_DERIVING_OPCODES = (
    Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN, Op.PTR_ACCESS_CHAIN, Op.IN_BOUNDS_PTR_ACCESS_CHAIN, Op.COPY_OBJECT,
)  # fmt: skip
"""Instructions whose result is a pointer into the variable that word 3 points to."""
_UNTRACED: dict[int, slice] = {
    Op.FUNCTION_CALL: slice(4, None), Op.RETURN_VALUE: slice(1, 2), Op.STORE: slice(2, 3), Op.VARIABLE: slice(4, 5),
    Op.SELECT: slice(4, None), Op.PHI: slice(3, None, 2),
}  # fmt: skip
"""Instructions that pass values on to where they are not traced, such as a callee, a caller, a variable or the choice
of one of several values → the words with the ids of these values."""


def use_of(tables: SpirvTables, function: int) -> VariableUse:
    """Return the global variables and subgroup operations that a function and its callees use."""
    use, seen, pending = VariableUse(), {function}, [function]
    while pending:
        for callee in _record_body(tables, pending.pop(), use):
            if callee not in seen:
                seen.add(callee)
                pending.append(callee)
    # A variable that begins with the address of another one passes its pointer on.
    untraced = list(use.variables)
    while untraced:
        initializer = tables.initializers.get(untraced.pop())
        if initializer in tables.variables and initializer not in use.written:
            use.variables.add(initializer)
            use.written.add(initializer)
            untraced.append(initializer)
    return use


def _record_body(tables: SpirvTables, function: int, use: VariableUse) -> list[int]:
    """Record the variables and subgroup operations that one function uses; return the ids of its callees.

    An instruction uses a variable if one of its operands is the variable, or a pointer that was derived from it:

        %p = OpAccessChain %pointer %a %i    ; %a is used, and %p derives from it
        OpStore %p %x                        ; %a is written

    Variables whose pointers are passed to callees, returned or stored, or are among those that OpSelect or OpPhi choose
    from, count as written: where the pointers lead is not analyzed.

    Args:
        tables: The module.
        function: Id of the function.
        use: Use of the entry point, to which that of this function is added.
    """
    variables = tables.variables
    bases: dict[int, int] = {}  # pointer that was derived from a variable → the variable
    called: list[int] = []
    untraced: list[int] = []  # ids that may be pointers, which can be derived later: OpPhi takes them from later blocks
    for inst in tables.functions.get(function, ()):
        op, words = inst.op, inst.words
        if op == Op.FUNCTION_CALL:  # words: opcode, type, result, callee, arguments
            called.append(words[3])
        if op in _UNTRACED:
            untraced += words[_UNTRACED[op]]
        if Op.GROUP_NON_UNIFORM_FIRST <= op <= Op.GROUP_NON_UNIFORM_LAST:
            use.has_subgroup_ops = True
            continue
        written_word = WRITTEN_POINTERS.get(op)
        # Indices of the words that may be pointers.
        positions = _POINTER_POSITIONS.get(op) or (() if written_word is None else (written_word,))
        for position in positions:
            base = bases.get(words[position], words[position])
            if base not in variables:
                continue
            use.variables.add(base)
            if op in _DERIVING_OPCODES:
                bases[words[2]] = base  # word 2 is the result
            elif position == written_word:
                use.written.add(base)
    reached = {bases.get(id, id) for id in untraced} & variables.keys()
    use.variables |= reached
    use.written |= reached
    return called
