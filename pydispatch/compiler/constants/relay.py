"""Transposition and packing of constant matrices by kernels with dynamic sizes, which all constants share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, TensorType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.kernels.matmul.panels import Layout, padded
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of


@dataclass(frozen=True)
class Matrix:
    """Constant that is stored as a row-major matrix.

    Attributes:
        value: The `value` attribute of the constant operation: the elements, or how they are derived.
        type: Type of the constant as it is stored. It may have further dimensions: [rows, a, b] or [a, b, columns], of
            which a and b count as one dimension of the matrix.
        rows: Number of rows.
        columns: Number of columns.
    """

    value: Attribute
    type: TensorType[Attribute]
    rows: int
    columns: int


def matrix_of(op: Operation) -> Matrix | None:
    """Return a constant with two dimensions as a matrix; None for others."""
    type_ = op.results[0].type
    if not isinstance(type_, TensorType) or type_.get_num_dims() != 2:
        return None
    return Matrix(op.properties["value"], type_, *type_.get_shape())


def source_of_transposition(op: Operation) -> OpResult | None:
    """Return the matrix that a generic transposes without other computation; None for other operations."""
    if op.name != GENERIC:
        return None
    generic = structured(op)
    swap = AffineMap(2, 0, (AffineExpr.dimension(1), AffineExpr.dimension(0)))
    swaps_dims = generic.maps == (swap, AffineMap.identity(2))
    computes_nothing = len(list(generic.block.ops)) == 1  # the yield alone
    if len(generic.inputs) != 1 or not swaps_dims or not computes_nothing:
        return None
    (matrix,) = generic.inputs
    terminator = generic.block.last_op
    assert terminator is not None
    yields_input = terminator.operands[0] is generic.block.args[0]
    is_transposed = shape_of(op.results[0]) == shape_of(matrix)[::-1]
    return matrix if yields_input and is_transposed and isinstance(matrix, OpResult) else None


class _Code:
    """Builder of detached operations that transform a constant matrix whose sizes are dynamic in the code.

    Attributes:
        ops: The operations, in order.
        element: Element type of the matrix.
        matrix: The current matrix, [rows, columns].
        dims: Its number of rows and of columns, as values of type index.
    """

    def __init__(self, matrix: Matrix) -> None:
        """Begin the code with the load of `matrix`, reshaped to [rows, columns] if it has another number of dimensions.

        All sizes are dynamic, so that matrices of any size share the code.
        """
        self.ops: list[Operation] = []
        self.element = matrix.type.element_type
        dynamic = TensorType(self.element, [-1] * matrix.type.get_num_dims())
        self.matrix = self.put(
            tensors.TensorDynamicConstantOp(properties={"value": matrix.value}, result_types=[dynamic])
        )
        self.dims = [self.size(axis) for axis in range(matrix.type.get_num_dims())]
        if len(self.dims) != 2:
            self._reshape_to_matrix(has_columns_last=matrix.type.get_shape()[-1] == matrix.columns)

    def _reshape_to_matrix(self, has_columns_last: bool) -> None:
        """Append operations that reshape the constant to a matrix [rows, columns], and update `matrix` and `dims`.

        The constant has the sizes `dims`, values of type index. All of them but one are joined: 3x3x64x128 becomes
        576x128 if the last dimension is the columns, 3x24576 if the first one is the rows.

        has_columns_last: whether the last dimension is the columns; else the first one is the rows.
        """
        dims = self.dims
        total = dims[0]  # becomes the number of elements
        for dim in dims[1:]:
            total = self.put(arith.MuliOp(total, dim))
        if has_columns_last:
            self.dims = [self.put(arith.DivUIOp(total, dims[-1])), dims[-1]]
        else:
            self.dims = [dims[0], self.put(arith.DivUIOp(total, dims[0]))]
        self.matrix = self.put(
            tensors.TensorReshapeOp(
                operands=[self.matrix, dims, self.dims], result_types=[TensorType(self.element, [-1, -1])]
            )
        )

    def put(self, op: Operation) -> SSAValue:
        """Append an operation, and return its result."""
        self.ops.append(op)
        return op.results[0]

    def number(self, value: int) -> SSAValue:
        """Append a constant of type index, and return it."""
        return self.put(arith.ConstantOp.from_int_and_width(value, IndexType()))

    def size(self, axis: int) -> SSAValue:
        """Append the read of a size of the current matrix, and return it."""
        return self.put(tensor.DimOp(self.matrix, self.number(axis)))

    def pad(self, axis: int, size: SSAValue) -> None:
        """Pad the matrix with zeros at the end of `axis`, up to `size`."""
        missing = self.put(arith.SubiOp(size, self.dims[axis]))
        high: list[int | SSAValue] = [0, 0]
        high[axis] = missing
        for op in padded(self.matrix, high, shape=[-1, -1]):
            self.matrix = self.put(op)
        self.dims[axis] = size

    def copy(self, *, sizes: Sequence[SSAValue], static_shape: Sequence[int], reads: Sequence[AffineExpr]) -> None:
        """Append operations that copy elements of the matrix into a new tensor, the result of the last operation.

        Args:
            sizes: Dynamic sizes of the new tensor, in the order of its dimensions.
            static_shape: Sizes of the new tensor; -1 for each of `sizes`.
            reads: Row and column in the matrix of the element to copy, as expressions of the index in the new tensor.
        """
        type_ = TensorType(self.element, static_shape)
        empty = self.put(tensor.EmptyOp(list(sizes), type_))
        body = Block(arg_types=[self.element] * 2)
        body.add_op(YieldOp(body.args[0]))
        rank = len(static_shape)
        maps = ArrayAttr([AffineMapAttr(AffineMap(rank, 0, tuple(reads))), AffineMapAttr(AffineMap.identity(rank))])
        loops = ArrayAttr([IteratorTypeAttr(IteratorType.PARALLEL)] * rank)
        self.put(GenericOp([self.matrix], [empty], Region(body), maps, loops, [type_]))

    def finish_as(self, type_: TensorType[Attribute]) -> list[Operation]:
        """Append a cast of the last result to a type with static sizes, and return all operations."""
        self.put(tensor.CastOp(self.ops[-1].results[0], type_))
        return self.ops


def transposition_of(matrix: Matrix) -> list[Operation]:
    """Build the operations that transpose a matrix. The result of the last operation is the transposed matrix."""
    code = _Code(matrix)
    rows, columns = code.dims
    swapped = [AffineExpr.dimension(1), AffineExpr.dimension(0)]
    code.copy(sizes=[columns, rows], static_shape=[-1, -1], reads=swapped)
    return code.finish_as(TensorType(code.element, [matrix.columns, matrix.rows]))


def in_panels(matrix: Matrix, layout: Layout, result: TensorType[Attribute]) -> list[Operation]:
    """Build the operations that pack a matrix into panels: [panels, size of the other dimension, width].

    A panel is `layout.width` adjacent columns, or rows for axis 0, stored together: the elements of one index of the
    other dimension are contiguous. A matrix 512x70 with axis 1 and width 32 is padded with zeros to 512x96 and stored
    as 3x512x32. The sizes of the copy other than the width are dynamic, so that all matrices share its kernel.

    Args:
        matrix: The constant.
        layout: Layout of the panels in terms of the matrix: axis 0 or 1, without groups.
        result: Type of the panels. It keeps the unpacked dimensions of the constant apart, which `matrix` joins into
            one: 4x3x3x64x32 for a constant 3x3x64x128 that is the matrix 576x128. The panels, 4x576x32, are reshaped.

    Returns:
        The operations, producers first. The result of the last one holds the panels, with the type `result`.
    """
    code, axis, width = _Code(matrix), layout.axis, layout.width
    # The number of panels, a value of type index: ceil(size / width) = (size + width - 1) / width.
    needs_padding = (matrix.rows, matrix.columns)[axis] % width != 0
    dividend = code.dims[axis]
    if needs_padding:
        dividend = code.put(arith.AddiOp(dividend, code.number(width - 1)))
    panels = code.put(arith.DivUIOp(dividend, code.number(width)))
    if needs_padding:
        code.pad(axis, code.put(arith.MuliOp(panels, code.number(width))))
    # Copy the matrix into the panels: for axis 1, element [p, k, c] is that of row k and column p * width + c. Then
    # return to static sizes.
    sizes = [panels, code.dims[1 - axis]]
    code.copy(sizes=sizes, static_shape=[-1, -1, width], reads=layout.unpacked_map(2).results)
    panels_type = layout.type_of(TensorType(code.element, [matrix.rows, matrix.columns]))
    ops = code.finish_as(panels_type)
    if panels_type != result:
        ops.append(tensors.TensorReshapeOp(operands=[ops[-1].results[0], [], []], result_types=[result]))
    return ops
