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
        # A vector may be composed of scalars and smaller vectors, whose components follow each other.
        shapes = [code.shape(inst, position) for position in inst.id_positions]
        have_component_type = all((s.kind, s.width) == (result.kind, result.width) for s in shapes)
        component_count = sum(s.count for s in shapes)
        code.demand(inst, have_component_type and result.count == component_count > 1)
        return
    count, element_types = declared.parts(inst.type_id)  # a count of None is not known
    code.demand(inst, bool(element_types) and (count is None or count == len(inst.id_positions)))
    is_struct = declared.opcode(inst.type_id) == Op.TYPE_STRUCT
    for index, position in enumerate(inst.id_positions):
        element_type = element_types[index] if is_struct else element_types[0]  # arrays and matrices have one type
        code.expect_type(inst, position, element_type)


def check_shuffle(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorShuffle type result a b component...`: each component is an index into the components of a, then
    of b, or 0xFFFFFFFF for an undefined one."""
    result, a, b = code.declared.shape(inst.type_id), code.shape(inst, 3), code.shape(inst, 4)
    indices = inst.words[5:]
    code.demand(inst, result is not None and a.count > 1 and b.count > 1)  # the operands are vectors
    assert result is not None
    code.demand(inst, result.count == len(indices) > 1)
    code.demand(inst, {(s.kind, s.width) for s in (result, a, b)} == {(result.kind, result.width)})
    exist = all(index < a.count + b.count or index == 0xFFFFFFFF for index in indices)
    code.demand(inst, exist, "components that are not there")


def check_element(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpVectorExtractDynamic type result vector index`, or `OpVectorInsertDynamic type result vector component
    index`."""
    code.shape(inst, 3)  # raises unless the vector, word 3, is a scalar or vector
    vector_type = code.operand_type(inst, 3)
    component_type = code.declared.part(vector_type, index=None)  # None for a scalar, which has no components
    is_extract = inst.op == Op.VECTOR_EXTRACT_DYNAMIC
    result_type = component_type if is_extract else vector_type
    code.demand(inst, result_type == inst.type_id and component_type is not None)
    assert component_type is not None
    if not is_extract:
        code.expect_type(inst, 4, component_type)
    code.expect_integers(inst, 4 if is_extract else 5)  # the index


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
    op = Op(inst.op)
    left, right = code.operand_type(inst, 3), code.operand_type(inst, 4)  # words: opcode, type, result, left, right
    left_rows, left_columns = _rows_and_columns(code, left)
    right_rows, right_columns = _rows_and_columns(code, right)
    # Rows and columns of the result; then the size of the dimension that is summed over, in both factors.
    expected = {
        Op.VECTOR_TIMES_SCALAR: _ProductSizes(left_rows, 1),
        Op.MATRIX_TIMES_SCALAR: _ProductSizes(left_rows, left_columns),
        Op.VECTOR_TIMES_MATRIX: _ProductSizes(right_columns, 1, right_rows, left_rows),
        Op.MATRIX_TIMES_VECTOR: _ProductSizes(left_rows, 1, left_columns, right_rows),
        Op.MATRIX_TIMES_MATRIX: _ProductSizes(left_rows, right_columns, left_columns, right_rows),
        Op.OUTER_PRODUCT: _ProductSizes(left_rows, right_rows),
        Op.DOT: _ProductSizes(1, 1, left_rows, right_rows),
    }[op]
    has_expected_sizes = expected.summed == expected.other_summed and _rows_and_columns(code, inst.type_id) == (
        expected.rows,
        expected.columns,
    )
    are_matrices = tuple(code.declared.opcode(type_) == Op.TYPE_MATRIX for type_ in (left, right))
    takes_scalar = op in (Op.VECTOR_TIMES_SCALAR, Op.MATRIX_TIMES_SCALAR)
    has_scalar = (right_rows, right_columns) == (1, 1)
    has_expected_factors = are_matrices == _TAKES_MATRICES.get(op, (False, False)) and (has_scalar or not takes_scalar)
    element_types = {_scalar(code, type_) for type_ in (left, right, inst.type_id)}
    have_one_float_type = len(element_types) == 1 and None not in element_types
    code.demand(inst, has_expected_sizes and has_expected_factors and have_one_float_type)


def _rows_and_columns(code: FunctionChecker, type_: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a matrix, vector (one column) or scalar (1, 1); 0 rows for other
    types."""
    op, operands = code.declared.type(type_)
    if op == Op.TYPE_MATRIX:
        column_type, column_count = operands
        column = code.declared.shape(column_type)
        if column is not None:
            return column.count, column_count
    shape = code.declared.shape(type_)
    return (shape.count if shape is not None else 0), 1


def _scalar(code: FunctionChecker, type_: int) -> tuple[str, int] | None:
    """Return the kind and the width of a floating-point scalar, vector or matrix type; None for other types."""
    op, operands = code.declared.type(type_)
    vector_or_scalar = operands[0] if op == Op.TYPE_MATRIX else type_  # OpTypeMatrix: type of a column, column count
    shape = code.declared.shape(vector_or_scalar)
    return (shape.kind, shape.width) if shape is not None and shape.kind == "f" else None


def check_transpose(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check `OpTranspose type result matrix`. A matrix has two columns or more; vectors count as one column."""
    rows, columns = _rows_and_columns(code, code.operand_type(inst, 3))
    code.demand(inst, _rows_and_columns(code, inst.type_id) == (columns, rows) and columns > 1)
