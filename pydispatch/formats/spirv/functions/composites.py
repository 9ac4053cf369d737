"""Validation rules of SPIR-V instructions on composites: elements, and products of vectors and matrices."""

from __future__ import annotations

from typing import NamedTuple

from pydispatch.formats.spirv.functions.operands import FunctionChecker
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import Op


def check_extract(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCompositeExtract type result composite index...`: the indices, from word 4 on, lead to an element of the
    type."""
    element_type = _element_type(code, inst, code.operand_type(inst, 3), first=4)
    code.demand(inst, element_type == inst.type_id)


def check_insert(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpCompositeInsert type result object composite index...`: the indices, from word 5 on, lead to an element
    of the object's type."""
    code.expect_type(inst, 4, inst.type_id)
    code.expect_type(inst, 3, _element_type(code, inst, inst.type_id, first=5))


def check_construct(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpCompositeConstruct: components of a vector, or the elements of another composite."""
    declared, result = code.declared, code.declared.shape(inst.type_id)
    if result is not None:  # a scalar or vector
        shapes = [code.shape(inst, position) for position in inst.id_positions]
        fits = all((s.kind, s.width) == (result.kind, result.width) for s in shapes) and result.count > 1
        code.demand(inst, fits and sum(s.count for s in shapes) == result.count)
        return
    count, element_types = declared.parts(inst.type_id)  # a count of None is not known
    code.demand(inst, bool(element_types) and (count is None or count == len(inst.id_positions)))
    is_struct = declared.opcode(inst.type_id) == Op.TYPE_STRUCT
    for index, position in enumerate(inst.id_positions):
        code.expect_type(inst, position, element_types[index if is_struct else 0])


def check_shuffle(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorShuffle type result a b component...`: each component is an index into the components of a, then
    of b, or 0xFFFFFFFF for an undefined one."""
    result, a, b = code.declared.shape(inst.type_id), code.shape(inst, 3), code.shape(inst, 4)
    chosen = inst.words[5:]
    code.demand(inst, result is not None and result.count == len(chosen) > 1 and a.count > 1 and b.count > 1)
    assert result is not None
    code.demand(inst, {(s.kind, s.width) for s in (result, a, b)} == {(result.kind, result.width)})
    code.demand(inst, all(c < a.count + b.count or c == 0xFFFFFFFF for c in chosen), "components that are not there")


def check_element(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorExtractDynamic type result vector index`, or `OpVectorInsertDynamic type result vector component
    index`."""
    code.shape(inst, 3)  # raises unless the vector, word 3, is a scalar or vector
    vector_type = code.operand_type(inst, 3)
    component_type = code.declared.part(vector_type, index=None)  # None for a scalar, which has no components
    if inst.op == Op.VECTOR_EXTRACT_DYNAMIC:
        code.demand(inst, component_type == inst.type_id and component_type is not None)
        code.expect_integers(inst, 4)
    else:
        code.demand(inst, vector_type == inst.type_id and component_type is not None)
        code.expect_type(inst, 4, component_type or 0)
        code.expect_integers(inst, 5)


def _element_type(code: FunctionChecker, inst: SpirvInstruction, type_: int, first: int) -> int:
    """Return the id of the type of the element that the constant indices lead to, which are the words from `first` on.

    type_: id of the type of the composite. Raise ArtifactError for an index that its type does not have.
    """
    for position in range(first, len(inst.words)):
        inner = code.declared.part(type_, inst.words[position])
        if inner is None:
            raise code.fail(inst.at + position, f"type {type_} has no element {inst.words[position]}")
        type_ = inner
    return type_


_TAKES_MATRICES = {
    Op.MATRIX_TIMES_SCALAR: (True, False), Op.VECTOR_TIMES_MATRIX: (False, True),
    Op.MATRIX_TIMES_VECTOR: (True, False), Op.MATRIX_TIMES_MATRIX: (True, True),
}  # fmt: skip
"""Whether the first, and the second, operand of a product is a matrix. A product that is not listed has no matrix."""


class _ProductSizes(NamedTuple):
    """Sizes of a product of vectors or matrices: the result's, and the dimension that is summed over in each factor.

    The two summed dimensions must have the same size.
    """

    rows: int  # of the result
    columns: int  # of the result
    summed: int = 1  # size of the summed dimension in one factor; 1 if nothing is summed
    other_summed: int = 1  # its size in the other factor


def check_product(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check a product of vectors, matrices and scalars: the sizes of both factors and of the result, and that all three
    have the same floating-point element type.

    A vector counts as a column, even if it is the left factor. Example: OpVectorTimesMatrix of a vector of 3 and a
    matrix of 3 rows and 2 columns sums over the 3 rows, and the result is a vector of 2.
    """
    types = [code.operand_type(inst, 3), code.operand_type(inst, 4)]  # words: opcode, type, result, left, right
    rows, columns = zip(*(_sides(code, type_) for type_ in types), strict=True)
    result = _sides(code, inst.type_id)
    kinds = {_scalar(code, type_) for type_ in (*types, inst.type_id)}
    # Rows and columns of the result; then the size of the dimension that is summed over, in both factors.
    expected = {
        Op.VECTOR_TIMES_SCALAR: _ProductSizes(rows[0], 1),
        Op.MATRIX_TIMES_SCALAR: _ProductSizes(rows[0], columns[0]),
        Op.VECTOR_TIMES_MATRIX: _ProductSizes(columns[1], 1, rows[1], rows[0]),
        Op.MATRIX_TIMES_VECTOR: _ProductSizes(rows[0], 1, columns[0], rows[1]),
        Op.MATRIX_TIMES_MATRIX: _ProductSizes(rows[0], columns[1], columns[0], rows[1]),
        Op.OUTER_PRODUCT: _ProductSizes(rows[0], rows[1]),
        Op.DOT: _ProductSizes(1, 1, rows[0], rows[1]),
    }[Op(inst.op)]
    are_matrices = tuple(code.declared.opcode(type_) == Op.TYPE_MATRIX for type_ in types)
    takes_scalar = inst.op in (Op.VECTOR_TIMES_SCALAR, Op.MATRIX_TIMES_SCALAR)
    fits = (
        kinds != {None}  # None: an operand that is no float
        and len(kinds) == 1
        and are_matrices == _TAKES_MATRICES.get(Op(inst.op), (False, False))
        and (not takes_scalar or (rows[1], columns[1]) == (1, 1))
        and expected.summed == expected.other_summed
    )
    code.demand(inst, fits and result == (expected.rows, expected.columns))


def _sides(code: FunctionChecker, type_: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a matrix, vector (one column) or scalar (1, 1); 0 rows for other
    types."""
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


def check_transpose(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpTranspose type result matrix`. A matrix has two columns or more; `_sides` gives vectors one column."""
    rows, columns = _sides(code, code.operand_type(inst, 3))
    code.demand(inst, _sides(code, inst.type_id) == (columns, rows) and columns > 1)
