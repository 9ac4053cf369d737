"""Products by block-scaled weights read the stored integers: the weights never exist as a tensor of f32.

Such a product becomes one contraction over blocks of K that dequantizes each weight where it multiplies it. Where all
targets are CPUs, constant weights are also packed into panels, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, TensorType, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import replace_with
from pydispatch.compiler.fusion.build import reassociation
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.quantized.block_panels import Layout, Panels, layout_of
from pydispatch.compiler.fusion.quantized.block_scaled import Weights, weights_of
from pydispatch.compiler.fusion.quantized.dequantized import GenericBody, element_of, sizes_of
from pydispatch.compiler.fusion.quantized.mixed_radix import Digit, collapsed, loop_index
from pydispatch.compiler.fusion.quantized.product_loops import K_LOOP, N_LOOP, Loops, loops_of
from pydispatch.compiler.fusion.quantized.recognize import dim_expr, is_zero
from pydispatch.compiler.fusion.quantized.spaces import Space, as_float
from pydispatch.compiler.fusion.quantized.zero_points import depends_on_constants
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.affine_maps import dims_in, is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import INTEGER_BYTES
from pydispatch.ir.structured import GENERIC
from pydispatch.ir.values import shape_of


def multiply_block_scaled(function: Operation, packs: bool, integer_bytes: int) -> None:
    """Rewrite the products of a host function that have block-scaled weights, in place.

    Block-scaled weights are a factor of the form (stored - zero) * scale + offset, computed from stored integers of 4
    or 8 bits; a block of adjacent steps of K shares zero, scale and offset. The new product reads the stored integers
    and dequantizes each of them in its body; operations that computed the f32 weights are erased if nothing else reads
    them. Sums may be added in another order.

    Args:
        function: The host function.
        packs: Whether constant weights are packed into panels (adjacent columns, stored in the order in which kernels
            of CPUs read them).
        integer_bytes: Kernels may round elements of the other factor, the activations, to integers of this size. The
            attribute INTEGER_BYTES of a product takes precedence.
    """
    changed = False
    for op in list(walk(function)):
        # An operation without a parent was erased when an earlier product was rewritten.
        contraction = contraction_of(op) if op.name == GENERIC and op.parent is not None else None
        if contraction is None or contraction.acc != f32:
            continue
        if not is_projected_permutation(contraction.generic.maps[-1]):  # a dimension of the result has no own loop
            continue
        permitted = op.attributes.get(INTEGER_BYTES, IntegerAttr(integer_bytes, i64))
        # The weights may be either factor; usually they are B.
        if any(_rewrite(contraction, factor, packs, permitted) for factor in (contraction.b, contraction.a)):
            changed = True
    if changed:
        erase_unused(function)


def _rewrite(contraction: Contraction, factor: Factor, packs: bool, integer_bytes: Attribute) -> bool:
    """Rewrite a product if `factor` has block-scaled weights; return whether it was rewritten.

    Constant weights are packed into panels if `packs` and if their sizes permit it (`in_panels`). Other weights are
    read in their own layout, by a product with a loop over blocks of K (`in_blocks`).

    Args:
        contraction: The product.
        factor: One of its two factors.
        packs: Whether constant weights are packed into panels.
        integer_bytes: Size in bytes of the integers that kernels may round elements of the other factor to: the
            attribute `INTEGER_BYTES` of the new product.
    """
    # Recognize the weights.
    loops = loops_of(contraction, factor)
    weights = None if loops is None else weights_of(contraction, factor, loops)
    if loops is None or weights is None:
        return False
    # Build the new product, from panels if possible, and replace the old one.
    other_factor = contraction.a if factor is contraction.b else contraction.b
    product = _Product(contraction, other_factor, loops, weights)
    ops = product.in_panels() if packs and depends_on_constants(weights.stored) else None
    ops = ops or product.in_blocks()  # the last of these operations computes the result of the product
    if ops is None or contraction.op.parent is None:
        return False
    for new in ops:
        if new.name == GENERIC:
            new.attributes[INTEGER_BYTES] = integer_bytes
    replace_with(contraction.op, ops)
    return True


@dataclass(frozen=True)
class _Product:
    """Rewriter of one product of activations with block-scaled weights, whose blocks of K have scales of their own.

    Call `in_panels` for constant weights that may be packed, and `in_blocks` for others or if that returns None.

    Attributes:
        contraction: The contraction that computes it.
        other: The factor that is not the weights.
        loops: The loops of the contraction by their roles: over rows, columns, batches, or steps of K.
        weights: The weights: stored integers, zero points, scales and offsets.
    """

    contraction: Contraction
    other: Factor
    loops: Loops
    weights: Weights

    def _size(self, loops: Sequence[int]) -> int:
        """Return the number of iterations of some nested loops of the contraction, all of static size."""
        return prod(self.contraction.generic.extent(d) for d in loops)

    @property
    def _steps_of_k(self) -> int:
        """Number of products in each sum: the size of the dimension K."""
        return self._size(self.contraction.generic.reduced_loops)

    # Weights in their own layout

    def in_blocks(self) -> list[Operation] | None:
        """Build the product over blocks of the weights in their own layout; it is the last operation of the list.

        The loop over K becomes loops over blocks of adjacent steps that share zero point z, scale s and offset, and a
        loop over the steps of a block. Integers q of [4096, 64] in blocks of 32 steps are reshaped to [128, 32, 64]:

            before: C[m, n] += A[m, k] * W[k, n], where W[k, n] = (q[k, n] - z[k // 32, n]) * s[k // 32, n]
            after:  C[m, n] += A[m, 32 * b + i] * ((q[b, i, n] - z[b, n]) * s[b, n])

        Return None if all steps have the same scale and zero point, so that kernels need no blocks. Return None also if
        an index is not affine.
        """
        generic, block, loops = self.contraction.generic, self.weights.block, self.loops
        if block is None or block == self._steps_of_k:
            return None
        outer = [*loops.rows, *loops.batch, *loops.columns]  # for each parallel loop of the new product, the old one
        space = self._space_of_blocks(outer, block)
        result = tuple(
            AffineExpr.dimension(outer.index(cast(AffineDimExpr, r).position)) for r in generic.maps[-1].results
        )
        ops, body = list[Operation](), GenericBody()  # a reshape of the weights, if it is needed, precedes the product
        factor = self._other_factor(body, space)
        weight = None if factor is None else self._weight(ops, body, space)
        if factor is None or weight is None:
            return None
        index = AffineMap(len(space.sizes), 0, result)
        return [*ops, _summed(body, factor, weight, start=generic.outputs[0], result=index, parallel=len(outer))]

    def _space_of_blocks(self, outer: Sequence[int], block: int) -> Space:
        """Return the loops of the new product: the loops `outer` of the old one, loops over blocks of K, and steps.

        The result also has the indices of the old product as functions of these loops. For [16, 4096] times [4096, 64]
        in blocks of 32, `outer` has the loops of 16 and 64 iterations, and the new loops have the sizes (16, 64, 128,
        32). The step of K (K_LOOP) is 32 * d2 + d3, the column (N_LOOP) is d1, and the row is d0.

        Args:
            outer: For each parallel loop of the new product, the loop of the old one.
            block: Number of adjacent steps of K that share scale and zero point.
        """
        generic, loops = self.contraction.generic, self.loops
        # Nested loops over the blocks of K, then the loop over the steps in a block: (128, 32) for K = 4096 in blocks
        # of 32.
        inner = (*self.weights.block_loops(block, self._steps_of_k), block)
        steps = collapsed([loop_index(len(outer) + i, n) for i, n in enumerate(inner)], inner)
        columns = collapsed(
            [loop_index(outer.index(d), generic.extent(d)) for d in loops.columns],
            [generic.extent(d) for d in loops.columns],
        )
        batch = {d: loop_index(outer.index(d), generic.extent(d)) for d in loops.batch}
        return Space(
            (*(generic.extents[d] for d in outer), *inner),
            positions={K_LOOP: steps, N_LOOP: columns, **batch},
            rows={d: outer.index(d) for d in loops.rows},
        )

    def _weight(self, ops: list[Operation], body: GenericBody, space: Space) -> SSAValue | None:
        """Add the dequantization of one weight to a body, and return its f32 value; None if an index is not affine.

        Stored integers [4096, 64] that loops over 128 blocks, 32 steps and 64 columns read are first reshaped to [128,
        32, 64].

        ops: list that receives a reshape of the weights, after which each loop indexes a dimension of its own.
        """
        # Digits: for each dimension of the stored tensor, the loops that index it, such as d0 and d1 for 4 * d0 + d1.
        weights, digits = self.weights, space.digits(self.weights.index, shape_of(self.weights.stored))
        if digits is None or not space.can_index(weights.terms):
            return None
        # Read a stored integer, and compute (stored - zeros) * scales + offsets. A digit of size 1 stands for no loop:
        # its index is the constant 0, dim_expr(None).
        tensor_ = _with_dimension_per_digit(ops, weights.stored, digits)
        index = [dim_expr(digit.loop if digit.size > 1 else None) for dim in digits for digit in dim]
        stored = body.input(tensor_, AffineMap(len(space.sizes), 0, tuple(index)))
        value = body.add(arith.SIToFPOp(stored, f32) if weights.is_signed else arith.UIToFPOp(stored, f32))
        for zero in weights.zeros:  # integers or f32; scales and offsets are f32
            value = body.add(arith.SubfOp(value, as_float(body, space.emit(body, zero))))
        for scale in weights.scales:
            value = body.add(arith.MulfOp(value, space.emit(body, scale)))
        for offset in weights.offsets:
            value = body.add(arith.AddfOp(value, space.emit(body, offset)))
        return value

    def _other_factor(self, body: GenericBody, space: Space) -> SSAValue | None:
        """Add the computation of the factor that is not the weights to a body, and return its value.

        The factor is read at the indices of the original product, as functions of the new loops: A[m, k] in a product
        over 128 blocks of 32 steps is read at (m, 32 * block + step).

        Return None if one of the loops that the factor reads is no affine expression of the loops of `space`, the loops
        of the new product.
        """
        generic = self.contraction.generic
        input_indices = self.other.inputs  # of the inputs that the factor reads
        factor_loops = {loop for i in input_indices for loop in dims_in(generic.maps[i])}
        loops = list[AffineExpr]()  # the index of each loop of the contraction, over the new loops
        for dim, position in enumerate(self.loops.positions):
            new_loop = space.rows.get(dim)  # a loop over rows is kept; others become expressions of the new loops
            expression = AffineExpr.dimension(new_loop) if new_loop is not None else space.index(position)
            if expression is None and dim in factor_loops:
                return None
            # 0 stands for a loop that the factor does not read.
            loops.append(AffineExpr.constant(0) if expression is None else expression)
        index = AffineMap(len(space.sizes), 0, tuple(loops))
        mapping: dict[SSAValue, SSAValue] = {
            generic.block.args[i]: body.input(generic.inputs[i], generic.maps[i].compose(index)) for i in input_indices
        }
        # Copy the operations of the body that compute the factor; without any, the factor is an input's element.
        for op in self.other.code:
            body.block.add_op(op.clone(mapping))
        return mapping.get(self.other.value, self.other.value)

    # Weights in panels

    def in_panels(self) -> list[Operation] | None:
        """Build the product with weights in panels, preceded by the operations that pack them.

        A panel is a number of adjacent columns that are stored together (`Layout.width`). The product has the loops
        over rows, then those of the layout, and a result with panels: for 16 rows and 64 columns in panels of 16, it is
        [16, 4, 16]. That is reshaped to the result of the original product, [16, 64].

        The last operation of the list computes this result. Return None in these cases:

        - Panels do not fit the sizes.
        - The product has batch loops.
        - The columns of the result are not adjacent dimensions.
        - An index is not affine.
        """
        generic, loops = self.contraction.generic, self.loops
        layout = layout_of(self.weights, self._size(loops.columns), self._steps_of_k)
        if layout is None or loops.batch or not self._has_adjacent_columns:
            return None
        if len(loops.columns) > 1 and any(n is None for n in generic.extents):  # expand_shape would need sizes
            return None
        # The loops of the new contraction: loops over rows, then the loops of the layout.
        rows = len(loops.rows)
        sizes = (*(generic.extents[d] for d in loops.rows), *layout.loops)
        space = Space(sizes, positions=layout.positions(rows), rows={d: i for i, d in enumerate(loops.rows)})
        ops, body = list[Operation](), GenericBody()
        factor = self._other_factor(body, space)
        weight = None if factor is None else Panels(self.weights, layout).weight(ops, body, rows)
        if factor is None or weight is None:
            return None
        # The product: sums that begin with 0, reshaped to the shape of the original result.
        ops += self._zeros_in_panels(layout)
        index = self._index_in_panels(space)
        ops.append(_summed(body, factor, weight, start=ops[-1].results[0], result=index, parallel=rows + 2))
        ops += self._reshaped(ops[-1].results[0], layout.columns)
        if not is_zero(generic.outputs[0]):  # the sums began with 0
            ops += _sum_of(ops[-1].results[0], generic.outputs[0])
        return ops

    @property
    def _result_loops(self) -> list[int]:
        """The loop that indexes each dimension of the original result."""
        return [cast(AffineDimExpr, r).position for r in self.contraction.generic.maps[-1].results]

    @property
    def _first_column(self) -> int:
        """Index of the first dimension of columns in the original result; 0 if there are no columns."""
        return self._result_loops.index(self.loops.columns[0]) if self.loops.columns else 0

    @property
    def _has_adjacent_columns(self) -> bool:
        """Whether the columns are adjacent dimensions of the original result, in the order of their loops."""
        first, columns = self._first_column, self.loops.columns
        return tuple(self._result_loops[first : first + len(columns)]) == columns

    def _index_in_panels(self, space: Space) -> AffineMap:
        """Return the map from the loops of the product in panels, `space`, to the index of its result.

        It is that of the original result, with two loops in place of those over columns: the loop over panels, which
        follows the loops over rows, and the loop over the columns of a panel.
        """
        rows, first = len(self.loops.rows), self._first_column
        loops = [space.rows[d] for d in self._result_loops if d in space.rows]
        loops[first:first] = [rows, rows + 1]
        return AffineMap(len(space.sizes), 0, tuple(map(AffineExpr.dimension, loops)))

    def _zeros_in_panels(self, layout: Layout) -> list[Operation]:
        """Build a tensor of zeros in the shape of the result in panels; it is the last operation of the list.

        The shape is that of the original result, with [panel, column of the panel] in place of columns.
        """
        output, first = self.contraction.generic.outputs[0], self._first_column
        before, after = shape_of(output)[:first], shape_of(output)[first + len(self.loops.columns) :]
        size_ops, dims = sizes_of(output)
        zero = arith.ConstantOp(FloatAttr(0.0, f32))
        type_ = TensorType(f32, [*before, layout.panels, layout.width, *after])
        return [*size_ops, zero, tensor.SplatOp(zero.result, dims, type_)]

    def _reshaped(self, panels: SSAValue, columns: int) -> list[Operation]:
        """Build the reshapes of a result in panels, [..., panel, column of the panel, ...], to the product's own shape.

        A collapse_shape joins the two dimensions of panels to one dimension of columns. If the product has several
        dimensions of columns, an expand_shape divides this one into them. The panels [16, 4, 16] of a result [16, 2,
        32] are collapsed to [16, 64], and expanded to [16, 2, 32].

        Args:
            panels: The result in panels.
            columns: Number of columns of the product.
        """
        shape, column_rank = list(shape_of(self.contraction.generic.outputs[0])), len(self.loops.columns)
        first = self._first_column  # the dimension of `panels` that counts panels
        collapsed_type = TensorType(f32, [*shape[:first], columns, *shape[first + column_rank :]])
        properties = {"reassociation": _groups(first=first, count=2, rank=len(shape_of(panels)))}
        collapse = tensor.CollapseShapeOp(operands=[panels], result_types=[collapsed_type], properties=properties)
        if column_rank <= 1:
            return [collapse]
        column_groups, type_ = _groups(first=first, count=column_rank, rank=len(shape)), TensorType(f32, shape)
        return [collapse, tensor.ExpandShapeOp(collapse.results[0], [], column_groups, shape, type_)]


def _with_dimension_per_digit(ops: list[Operation], value: SSAValue, digits: Sequence[Sequence[Digit]]) -> SSAValue:
    """Return a tensor with a dimension for each digit, after a reshape if several digits index one dimension.

    For the digits [[d0, d1], [d2]] of the dimensions, the groups of the reshape are [[0, 1], [2]].

    ops: list that receives the reshape.
    """
    sizes = [digit.size for dim in digits for digit in dim]
    if len(sizes) == len(digits):
        return value
    ends = list(accumulate(len(dim) for dim in digits))
    groups = reassociation(list(range(end - len(dim), end)) for end, dim in zip(ends, digits, strict=True))
    ops.append(tensor.ExpandShapeOp(value, [], groups, sizes, TensorType(element_of(value), sizes)))
    return ops[-1].results[0]


def _groups(*, first: int, count: int, rank: int) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Return the reassociation that collapses `count` adjacent dimensions of `rank` ones, from `first` on, into one."""
    before, after = range(first), range(first + count, rank)
    return reassociation([*([d] for d in before), list(range(first, first + count)), *([d] for d in after)])


def _sum_of(lhs: SSAValue, rhs: SSAValue) -> list[Operation]:
    """Build the elementwise sum of two tensors of one shape; it is the last operation of the list."""
    body, identity = GenericBody(), AffineMap.identity(len(shape_of(lhs)))
    value = body.add(arith.AddfOp(body.input(lhs, identity), body.input(rhs, identity)))
    return body.generic(value, like=rhs, index=identity)


def _summed(
    body: GenericBody, factor: SSAValue, weight: SSAValue, *, start: SSAValue, result: AffineMap, parallel: int
) -> Operation:
    """Build the contraction that sums up products, from a body that computes both factors of one product.

    Args:
        body: The body.
        factor: The value of one factor in the body.
        weight: The value of the other factor in the body.
        start: The initial values of the sums.
        result: Map from the loops to the index of the sum.
        parallel: Number of parallel loops, which precede the reduction loops.
    """
    product = body.add(arith.MulfOp(factor, weight))
    running_sum = body.block.insert_arg(f32, len(body.inputs))
    iterators = ["parallel"] * parallel + ["reduction"] * (result.num_dims - parallel)
    return body.build_generic(body.add(arith.AddfOp(running_sum, product)), start, result, iterators)
