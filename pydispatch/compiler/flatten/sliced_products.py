"""Products of one slice of a tensor in each iteration of a loop become one product of all slices before the loop.

A step of an LSTM multiplies the inputs of one step by their weights. All inputs are known before the loop: one product
reads the weights once instead of in every iteration, and fills register blocks that the few rows of a step do not fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.flatten.loop_arguments import iterations_of
from pydispatch.compiler.fusion.build import affine_maps, generic_op, iterator_types, reassociation
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import shape_of

MOST_ELEMENTS = 16 << 20
"""Maximum number of elements of the product of all slices, which stays in memory while the loop runs."""


def hoist_sliced_products(loop: scf.ForOp) -> None:
    """Replace products of one slice in each iteration by slices of one product before the loop, where that pays.

    The loop is changed in place. Each element of a product is the same sum, added in the same order.
    """
    for op in list(loop.body.block.ops):
        product = _sliced_product(op, loop) if isinstance(op, GenericOp) else None
        if product is not None and product.pays:
            shape, type_ = shape_of(op.results[0]), op.results[0].type
            assert isinstance(type_, TensorType)
            offsets, sizes = [product.index, *[0] * len(shape)], [1, *shape]
            slice_ = tensor.ExtractSliceOp(product.emit(), offsets, sizes, [1] * len(sizes), type_)
            replace_op(op, insert_before(slice_, op))


@dataclass(frozen=True)
class _SlicedProduct:
    """Product in a loop that the pass hoists: one factor is a slice of a tensor at an index that the loop computes.

    All other factors are loop-invariant.

    Attributes:
        generic: The product.
        position: Position of the slice among its inputs.
        source: The loop-invariant tensor whose first dimension is sliced.
        index: Index of the slice, which the loop computes.
        start: The loop-invariant number that sums begin with.
        loop: The loop.
    """

    generic: Structured
    position: int
    source: SSAValue
    index: SSAValue | int
    start: SSAValue
    loop: scf.ForOp

    @property
    def pays(self) -> bool:
        """Whether one product of all slices is faster than a product of each.

        The loop must have at least one iteration per slice; otherwise some products would be computed in vain. The
        largest other factor, which is then read once instead of in each iteration, must be at least as large as the
        product of a slice, which is now also stored before the loop and read in it.
        """
        count, elements = shape_of(self.source)[0], prod(shape_of(self.generic.outputs[0]))
        factors = [prod(shape_of(v)) for n, v in enumerate(self.generic.inputs) if n != self.position]
        is_worthwhile = max(factors) >= elements and count * elements <= MOST_ELEMENTS
        return is_worthwhile and (iterations_of(self.loop) or 0) >= count

    def emit(self) -> SSAValue:
        """Insert the product of all slices before the loop; return it with a first dimension that selects the slice.

        For 16 slices [2][64] and weights [64][256], a slice's product is [2][256], and the result is [16][2][256].
        """
        if self._first_loop_is_row:
            return self._product_of_stacked_rows()
        # A new outermost loop runs over the slices. It indexes the source, operand `position` of the product, and the
        # result, its last operand.
        maps = list(self.generic.maps)
        indexed_operands = (self.position, len(maps) - 1)
        new_maps = [_with_loop(map_, leads=n in indexed_operands) for n, map_ in enumerate(maps)]
        shape = [shape_of(self.source)[0], *shape_of(self.generic.outputs[0])]
        return self._product(self.source, new_maps, ["parallel", *self.generic.iterators], shape)

    def _product_of_stacked_rows(self) -> SSAValue:
        """Insert the product of all slices as that of one matrix, which fills register blocks better; return it.

        16 slices [2][64] become the matrix [32][64]. Its product with weights [64][256] is [32][256], which is expanded
        to [16][2][256].
        """
        source_shape, slice_shape = shape_of(self.source), shape_of(self.generic.outputs[0])
        count, rows = source_shape[0], slice_shape[0]
        # Collapse the first two dimensions of the source.
        axes = reassociation([[0, 1], *([n] for n in range(2, len(source_shape)))])
        collapse = tensor.CollapseShapeOp(
            operands=[self.source],
            result_types=[_like(self.source, [count * rows, *source_shape[2:]])],
            properties={"reassociation": axes},
        )
        matrix = self._insert(collapse)
        product = self._product(matrix, self.generic.maps, self.generic.iterators, [count * rows, *slice_shape[1:]])
        # Expand the first dimension of the product.
        shape = [count, *slice_shape]
        groups = reassociation([[0, 1], *([n] for n in range(2, len(shape)))])
        return self._insert(tensor.ExpandShapeOp(product, [], groups, shape, _like(product, shape)))

    def _product(
        self, source: SSAValue, maps: Sequence[AffineMap], iterators: Sequence[str], shape: Sequence[int]
    ) -> SSAValue:
        """Insert the product before the loop with other maps and loops, and return its result, of shape `shape`.

        source: the factor that takes the place of the slice.
        """
        output = _like(self.generic.outputs[0], list(shape))
        start = self._insert(tensor.SplatOp(self.start, [], output))
        inputs = [source if n == self.position else value for n, value in enumerate(self.generic.inputs)]
        body, kinds = self.generic.op.regions[0].clone(), iterator_types(list(iterators))
        return self._insert(generic_op(inputs, [start], body, affine_maps(list(maps)), kinds, [output]))

    @property
    def _first_loop_is_row(self) -> bool:
        """Whether one loop is the first index of the slice and of the result, and indexes nothing else.

        True for slice[m, k] * weights[k, n] with the result [m, n]: m is a row. The product of all slices then is a
        product of the same form, with the rows of all slices as its rows.
        """
        *factor_maps, result_map = self.generic.maps
        slice_map = factor_maps.pop(self.position)  # the maps of the other factors remain
        row = slice_map.results[0]
        other_indices = [
            *slice_map.results[1:], *result_map.results[1:], *(index for m in factor_maps for index in m.results)
        ]  # fmt: skip
        is_loop = isinstance(row, AffineDimExpr) and result_map.results[:1] == (row,)
        return is_loop and not any(row in index.dfs() for index in other_indices)

    def _insert(self, new: Operation) -> SSAValue:
        """Insert an operation before the loop, with the location of the product, and return its first result."""
        value = insert_before(new, self.loop)
        set_location(new, self.generic.op)
        return value


def _sliced_product(op: Operation, loop: scf.ForOp) -> _SlicedProduct | None:
    """Return a contraction in a loop as a product of a slice; None if it has another form than `_SlicedProduct`.

    Exactly one input is computed in the loop. It is `source[i]`, a slice of a loop-invariant tensor without the first
    dimension, at any index i that the loop computes. The initial values are a splat of a loop-invariant number, and all
    sizes are static. An example:

        scf.for %i = ... {
          %x = tensor.extract_slice %source[%i, 0, 0] [1, 2, 64] : 16x2x64 to 2x64
          %p = product of %x and %weights
        }

    The slice may also be 1x2x64 and be collapsed to 2x64.
    """
    generic = structured(op)
    has_static_sizes = all(-1 not in shape_of(value) for value in generic.operands)
    is_contraction = generic.contracts and len(op.results) == 1
    computed_inputs = [n for n, value in enumerate(generic.inputs) if _is_inside(value, loop)]
    if not is_contraction or not has_static_sizes or len(computed_inputs) != 1:
        return None
    (position,) = computed_inputs
    if _body_reads_values_of(loop, op):
        return None
    # The extract_slice, whose result may be collapsed to the shape of the input, and the initial values of the sums.
    sliced_input, fill = generic.inputs[position], generic.outputs[0].owner
    owner = sliced_input.owner
    extract = owner.operands[0].owner if isinstance(owner, tensor.CollapseShapeOp) else owner
    if not isinstance(fill, tensor.SplatOp) or not isinstance(extract, tensor.ExtractSliceOp):
        return None
    if _is_inside(fill.input, loop) or _is_inside(extract.source, loop):
        return None
    shape = shape_of(extract.source)
    if not _is_one_index(extract) or -1 in shape or shape_of(sliced_input) != shape[1:]:
        return None
    index = slice_of(extract).offsets[0]
    return _SlicedProduct(
        generic=generic, position=position, source=extract.source, index=index, start=fill.input, loop=loop
    )


def _is_one_index(extract: tensor.ExtractSliceOp) -> bool:
    """Return whether a slice has one index of the first dimension, and all elements of the others."""
    slice_, shape = slice_of(extract), shape_of(extract.source)
    is_whole = slice_.sizes == (1, *shape[1:]) and slice_.offsets[1:] == (0,) * (len(shape) - 1)
    return is_whole and set(slice_.strides) == {1}


def _body_reads_values_of(loop: scf.ForOp, contraction: Operation) -> bool:
    """Return whether the body of a contraction in a loop reads values that other operations of the loop compute.

    Such a body cannot be cloned before the loop, where these values do not exist. Operands of the contraction itself
    do not count.
    """
    own = set(walk(contraction))  # the contraction and all operations in its body
    operands = [v for inner in own if inner is not contraction for v in inner.operands]
    return any(_is_inside(v, loop) and _defining_op(v) not in own for v in operands)


def _defining_op(value: SSAValue) -> Operation | None:
    """Return the operation that computes a value, or in whose region the value is a block argument."""
    return value.op if isinstance(value, OpResult) else value.owner.parent_op()


def _is_inside(value: SSAValue, loop: Operation) -> bool:
    """Return whether a value is defined in the body of a loop."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and block.parent_op() is not loop:
        outer = block.parent_op()
        block = None if outer is None else outer.parent
    return block is not None


def _with_loop(map_: AffineMap, leads: bool) -> AffineMap:
    """Return an indexing map with a new outermost loop. leads: whether that loop is the first index."""
    dims = [AffineDimExpr(n + 1) for n in range(map_.num_dims)]
    results = tuple(index.replace_dims_and_symbols(dims, []) for index in map_.results)
    return AffineMap(map_.num_dims + 1, 0, (AffineDimExpr(0), *results) if leads else results)


def _like(value: SSAValue, shape: list[int]) -> TensorType:
    """Return a tensor type with the elements of `value`."""
    assert isinstance(value.type, TensorType)
    return TensorType(value.type.element_type, shape)
