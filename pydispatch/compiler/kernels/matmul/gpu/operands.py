"""Operands of a product on a GPU: factors with collapsed dimensions, and the widest vector loads of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.gpu.tiles import Tile
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.tensor_ops.registry import looks_through
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts

LARGEST_LOAD_BITS = 128
"""Width in bits of the widest vector that an invocation loads."""


@dataclass(frozen=True)
class Operand:
    """Factor of a product, with the dimensions that are collapsed into its rows or columns.

    Attributes:
        factor: The factor.
        dims: The loops of the contraction that are collapsed into its rows or columns, outermost first.
        vector_width: Number of consecutive elements that an invocation loads at once.
        is_k_contiguous: Whether these elements are consecutive along K, not along rows or columns.
    """

    factor: Factor
    dims: tuple[int, ...]
    vector_width: int
    is_k_contiguous: bool


@dataclass(frozen=True)
class OperandPlanner:
    """Planner of the operands of a contraction.

    Attributes:
        elements: Tensors of the dispatch function.
        contraction: The contraction. Its factors are the values that are multiplied, such as f16 that the function
            extends to f32.
        sizes: Sizes of all loop dimensions; None where dynamic.
    """

    elements: Elements
    contraction: Contraction
    sizes: Sequence[int | None]

    def operands(self, rows: tuple[int, ...], columns: tuple[int, ...], tile: Tile) -> tuple[Operand, Operand]:
        """Return the operands A and B, with the widest vector loads of their elements that `tile` allows.

        `rows` and `columns` are the dimensions that are collapsed into the rows of A and the columns of B.
        """
        a = self._operand(self.contraction.a, rows, extent=tile.height, tile=tile)
        return a, self._operand(self.contraction.b, columns, extent=tile.width, tile=tile)

    def _operand(self, factor: Factor, dims: tuple[int, ...], extent: int, tile: Tile) -> Operand:
        """Return a factor as an operand, with the widest vector load that is legal, along K or along its rows.

        B[k, n] of f32 with 512 columns is loaded along N, in vectors of 4 elements (16 bytes). Vectors need a dimension
        of static size that is contiguous in an argument, and that the loop reads as a whole. Other factors are loaded
        element by element, with a vector width of 1. A column of B is called a row here.

        Args:
            factor: The factor.
            dims: The dimensions that are collapsed into its rows, M or N last.
            extent: Number of rows of the factor in a tile.
            tile: The tile of a workgroup.
        """
        k, last_dim = self.contraction.k, dims[-1]
        has_rows_of_k = factor.is_contiguous(k) and factor.coordinates[-1].is_identity(k)
        # Along K, too, if neither dimension is contiguous: loads are scalar then.
        is_along_k = has_rows_of_k or not factor.is_contiguous(last_dim)
        load_dim, length = (k, tile.depth) if is_along_k else (last_dim, extent)
        vector_width = 1
        if self._has_whole_rows(factor, load_dim):
            vector_width = self._vector_width(factor, length, extent * tile.depth, tile.invocations)
        return Operand(factor=factor, dims=dims, vector_width=vector_width, is_k_contiguous=is_along_k)

    def _has_whole_rows(self, factor: Factor, dim: int) -> bool:
        """Return whether `dim` reads each row of an argument, which has a static size, from its first element on.

        The factor's tensor must be the argument, or a view of it, perhaps with padding.
        """
        tensor = self.contraction.tensor_of(factor)
        is_view_of_argument = _contiguous_argument(self.elements, tensor) is not None
        if not isinstance(tensor.type, TensorType) or not is_view_of_argument or not factor.is_contiguous(dim):
            return False
        row_length = tensor.type.get_shape()[-1]  # -1 if dynamic
        return factor.coordinates[-1].is_identity(dim) and self.sizes[dim] == row_length > 0

    def _vector_width(self, factor: Factor, length: int, tile_elements: int, invocations: int) -> int:
        """Return the elements of the widest legal vector load, of at most `LARGEST_LOAD_BITS`; 1 for scalar loads.

        A row of the tensor must be whole vectors, so that each row begins at a multiple of the vector's size. So must
        the `length` of the tile along the vector. The tile must have a vector for each invocation.
        """
        type_ = tensor_type(self.contraction.tensor_of(factor))
        row_length = type_.get_shape()[-1]
        # Elements of less than a byte count as bytes. An unknown width counts as that of the widest load: no vectors.
        bits = max(8, bit_width(type_.element_type) or LARGEST_LOAD_BITS)
        for width in (16, 8, 4, 2):
            has_whole_vectors = row_length % width == 0 and length % width == 0
            has_vector_for_each_invocation = tile_elements // width >= invocations
            if width * bits <= LARGEST_LOAD_BITS and has_whole_vectors and has_vector_for_each_invocation:
                return width
        return 1


def _contiguous_argument(elements: Elements, value: SSAValue) -> BlockArgument | None:
    """Return the argument that a value is a view of, or a padded view; None if there is none.

    Return None, too, for padding along the last dimension. Consecutive elements along this dimension are then always
    consecutive in memory, or all padding: a vector load never has both.
    """
    while isinstance(value, OpResult) and not elements.is_materialized(value):
        if looks_through(value.op):
            value = value.op.operands[0]
            continue
        if value.op.name != "tensor.pad":
            return None
        low, high = pad_amounts(elements, value.op)
        if low[-1] != 0 or high[-1] != 0:
            return None
        value = value.op.operands[0]
    return value if isinstance(value, BlockArgument) else None
