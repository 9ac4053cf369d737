"""Conversions of grouped matrix products, which mixtures of experts consist of."""

from __future__ import annotations

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import grouped, products, shapes
from pydispatch.operations.normalization import wide


@converts("aten._grouped_mm")
def grouped_mm(
    builder: Builder, self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return a matrix product whose rows, columns or summands are grouped. A group is a range of consecutive indices.

    Each group of rows or columns is multiplied by a matrix of its own; each group of summands gives its own result.

    The ranks of the operands determine what is grouped:
    - Rows: [m, k] by [groups, k, n] is [m, n]. With offs [2, 5], rows 0 and 1 are multiplied by matrix 0, rows 2 to 4
      by matrix 1.
    - Columns: [groups, m, k] by [k, n] is [m, n].
    - Summands, the elements along k: [m, k] by [k, n] is [groups, m, n].
    - Nothing, without `offs`: [groups, m, k] by [groups, k, n] is the batched product [groups, m, n].

    Floats smaller than f32 are summed as f32.

    Args:
        builder: The builder.
        self: Left operand.
        mat2: Right operand.
        offs: Exclusive end of each group along the grouped axis, ascending.
        bias: Summand that broadcasts to the result.
        out_dtype: Type of the result; None for that of `self`.

    Raises:
        CompileError: The operands have other ranks, `offs` is missing, or it is passed for a batched product.
    """
    dtype = wide(self.dtype)  # in which the product is computed: at least f32
    ranks = self.rank, mat2.rank
    if not {*ranks} <= {2, 3} or (offs is None) != (ranks == (3, 3)):
        wanted = "[groups, m, k] and [groups, k, n]" if offs is None else "matrices, of which one may have a group axis"
        raise builder.fail(f"_grouped_mm: operands are {self} and {mat2}; expected {wanted}")
    if offs is None:
        product = products.matmul(builder, self, mat2, dtype)
    elif ranks == (2, 3):
        product = grouped.by_groups_of_rows(builder, self, mat2, offs, dtype)
    elif ranks == (3, 2):
        # The groups are columns: transpose both operands and the product to make them rows.
        columns, matrices = shapes.transpose(builder, mat2, [1, 0]), shapes.transpose(builder, self, [0, 2, 1])
        product = shapes.transpose(builder, grouped.by_groups_of_rows(builder, columns, matrices, offs, dtype), [1, 0])
    else:
        product = grouped.by_groups_of_sums(builder, self, mat2, offs, dtype)
    if bias is not None:
        product = ew.binary(builder, "add", product, ew.convert(builder, bias, dtype))
    return ew.convert(builder, product, out_dtype or self.dtype)


@converts("transformers.grouped_mm_fallback")
def grouped_mm_fallback(builder: Builder, input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """Convert the operator that Transformers defines for PyTorch versions or types without `aten._grouped_mm`."""
    return grouped_mm(builder, input, weight, offs)
