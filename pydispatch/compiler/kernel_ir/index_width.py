"""Detection of functions that can observe 64-bit indices; all others compute indices in 32 bits."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernel_ir.scan import Ops

SIGNED_CAST = "arith.index_cast"
"""Conversion between index and other integers that extends the sign."""
CASTS = (SIGNED_CAST, "arith.index_castui")
"""Conversions between index and other integers."""
WIDTH_DEPENDENT = (
    "arith.divui", "arith.remui", "arith.ceildivui", "arith.shrui", "math.ctlz", "math.cttz", "math.ctpop",
)  # fmt: skip
"""Operations whose low 32 bits depend on the upper half of a negative index."""


def index_width(ops: Ops) -> int:
    """Return 64 if the results of a function may depend on indices having 64 bits, else 32.

    Offsets into buffers of more than 2^31 elements are not considered: the caller checks sizes. Results may depend on
    the upper 32 bits of indices if the function

    - has memory with index elements, or converts an index to an integer of more than 32 bits,
    - has an index constant that does not fit into 32 bits,
    - converts an integer of more than 32 bits to an index, and an index to an integer: between the conversions, a
      division may depend on the upper bits,
    - compares two indices that were both integers of more than 32 bits,
    - converts integers to indices and back, and treats an index made of them as unsigned: the upper bits of a negative
      index are ones.

    Args:
        ops: The operations of the function by name.
    """
    result_types = (r.type for ops_of_name in ops.values() for op in ops_of_name for r in op.results)
    if any(isinstance(t, MemRefType) and isinstance(t.element_type, IndexType) for t in result_types):
        return 64
    if any(map(_is_large_constant, ops.get("arith.constant", ()))):
        return 64
    # (type of the operand, type of the result) of each conversion between an index and another integer.
    casts = [(op.operands[0].type, op.results[0].type) for name in CASTS for op in ops.get(name, ())]
    types_from_index = [target for source, target in casts if isinstance(source, IndexType)]
    if any(map(_is_wide, types_from_index)):
        return 64
    has_wide_source = any(_is_wide(source) for source, _ in casts)
    if has_wide_source and (types_from_index or any(map(_compares_wide, ops.get("arith.cmpi", ())))):
        return 64
    has_index_target = any(isinstance(target, IndexType) for _, target in casts)
    return 64 if types_from_index and has_index_target and _treats_as_unsigned(ops) else 32


def _is_wide(type_: Attribute) -> bool:
    """Return whether a type is an integer of more than 32 bits."""
    return isinstance(type_, IntegerType) and type_.width.data > 32


def _is_large_constant(op: Operation) -> bool:
    """Return whether a constant is an index of more than 32 bits."""
    if not isinstance(op.results[0].type, IndexType):
        return False
    value = attribute(op, "value")
    return isinstance(value, IntegerAttr) and not -(1 << 31) <= value.value.data < 1 << 31


def _compares_wide(comparison: Operation) -> bool:
    """Return whether both operands of a comparison are indices that were converted from integers of more than 32 bits.

    The result may then depend on their upper 32 bits.
    """
    return all(map(_is_cast_from_wide, comparison.operands))


def _is_cast_from_wide(value: SSAValue) -> bool:
    """Return whether an index was converted from an integer of more than 32 bits."""
    cast = value.owner
    return isinstance(cast, Operation) and cast.name in CASTS and _is_wide(cast.operands[0].type)


def _treats_as_unsigned(ops: Ops) -> bool:
    """Return whether an unsigned operation may read a negative index, whose upper 32 bits are then ones.

    An index may be negative if it is computed from a converted integer.
    """
    casts = ops.get("arith.index_castui", ())
    # An unsigned integer of 32 bits may be 2^31 or more: as an index of 32 bits it would be negative.
    if any(isinstance(op.results[0].type, IndexType) and _bits(op.operands[0].type) == 32 for op in casts):
        return True
    operands = [operand for name in WIDTH_DEPENDENT for op in ops.get(name, ()) for operand in op.operands]
    return _depends_on_a_cast(operands)


def _depends_on_a_cast(values: list[SSAValue]) -> bool:
    """Return whether one of the indices depends on a converted signed integer.

    Such an index may be negative, unlike counters and sizes. The list `values` is used up.
    """
    seen: set[SSAValue] = set()
    while values:
        value = values.pop()
        op = value.owner
        if not isinstance(op, Operation) or not isinstance(value.type, IndexType):  # an argument, or no index
            continue
        if value in seen or _is_clamped(op):
            continue
        if op.name == SIGNED_CAST:
            return True
        seen.add(value)
        values += op.operands
    return False


def _is_clamped(op: Operation) -> bool:
    """Return whether an operation is the maximum of an index and a constant that is not negative.

    Its result is then not negative, so that unsigned operations on it do not depend on the width of indices.
    """
    if op.name != "arith.maxsi":
        return False
    constants = (operand.owner for operand in op.operands if isinstance(operand.owner, Operation))
    values = (attribute(owner, "value") for owner in constants if owner.name == "arith.constant")
    return any(isinstance(value, IntegerAttr) and value.value.data >= 0 for value in values)


def _bits(type_: Attribute) -> int:
    """Return the width of an integer type; 0 for another type."""
    return type_.width.data if isinstance(type_, IntegerType) else 0
