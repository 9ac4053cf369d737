"""Order of dimensions in which `linalg.generic` and elementwise operations write their results.

No transposition is needed if a result is written in the order in which it is read, or in the order of the operands that
it is computed from. Values are unchanged; only their indices differ.

An order lists, for each new loop or dimension, the old one: [1, 0] transposes a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import KEPT_ORDER, is_fill, size_operands
from pydispatch.compiler.analysis.sizes import dynamic_sizes
from pydispatch.compiler.fusion.build import affine_maps, indices_over, insert_copy
from pydispatch.compiler.fusion.maps import defining_copy, generic_like, has_static_uniform_padding, padded
from pydispatch.ir.affine_maps import is_identity, is_permutation, is_projected_permutation, is_projection
from pydispatch.ir.structured import GENERIC, Structured, is_reduction, structured
from pydispatch.ir.values import reordered_type, shape_of


def write_as_read(op: Operation) -> None:
    """Make a contraction write its result in the order of its readers, if all of them read it through the same
    permutation. The readers are changed in place.

    If all readers of a product c [M][N] read c[d1, d0] and write [d0, d1], the order is [1, 0]: the product writes
    [N][M], and the readers read it at [d0, d1]. Its loops are unchanged.
    """
    generic = structured(op)
    # KEPT_ORDER marks a product for which another pass chose the order of its result.
    if len(op.results) != 1 or not generic.has_reduction_loops or KEPT_ORDER in op.attributes:
        return
    if not is_projection(generic.maps[-1]) or _order_computed(generic) is not None:
        return  # write_as_computed() gives the result the order of the operands
    result = op.results[0]
    order = _order_of_readers(result)
    if order is None or order == sorted(order):
        return
    # The product writes its result, and reads its initial values, with the dimensions in the new order.
    init = permuted_fill(op, generic.outputs[0], order)
    if init is None:  # the initial values are a computed tensor, which would need a transposition
        return
    maps = [*generic.maps[:-1], _reordered(generic.maps[-1], order)]
    new = generic_like(op, op.regions[0].clone(), generic.inputs, [init], maps, generic.iterators)
    # Each reader indexes the new result with its old index in the new order: [d1, d0] becomes [d0, d1].
    for use in list(result.uses):
        reader_maps = list(structured(use.operation).maps)
        reader_maps[use.index] = _reordered(reader_maps[use.index], order)
        use.operation.properties["indexing_maps"] = affine_maps(reader_maps)
        use.operation.operands[use.index] = new


def _reordered(map_: AffineMap, order: Sequence[int]) -> AffineMap:
    """Return a map with its results in another order. order: for each new result, the old one."""
    return AffineMap(map_.num_dims, 0, tuple(map_.results[d] for d in order))


def write_as_computed(op: Operation) -> SSAValue | None:
    """Make an elementwise operation or a row reduction write its result in the order of dimensions of its operands, so
    that its loops follow the memory of the operands.

    For example, y[d0, d1] = exp(x[d1, d0]) becomes z[d0, d1] = exp(x[d0, d1]). The function then returns a transposing
    copy of z, and the caller replaces y by it. Return None if nothing changes.
    """
    generic = structured(op)
    order = _order_computed(generic)
    if order is None or len(op.results) != 1:
        return None
    if not is_projected_permutation(generic.maps[-1]):  # an index such as d0 + d1 cannot be reordered by loops
        return None
    if defining_copy(op.results[0]) is not None:  # `op` is a transposition: its purpose is to change the order
        return None
    return computed_in(op, order)


def computed_in(op: Operation, order: Sequence[int]) -> SSAValue | None:
    """Rewrite a generic to iterate over its loops in the order `order`, and to write its result in that order.

    With the order [1, 0], y[d0, d1] = f(x[d1, d0]) of [M][N] becomes z[d0, d1] = f(x[d0, d1]) of [N][M].

    Return a transposing copy of the new result in the old order. Return None if nothing changes, or if the initial
    values of the result are neither a splat nor an empty tensor.

    order: for each new loop, the old one.
    """
    generic = structured(op)
    # For each dimension of the old result, the new loop that indexes it.
    loops_of_result = [order.index(cast(AffineDimExpr, e).position) for e in generic.maps[-1].results]
    if list(order) == sorted(order) and loops_of_result == sorted(loops_of_result):
        return None
    # For each dimension of the new result, the dimension of the old one: dimensions in the order of their new loops.
    result_order = sorted(range(len(loops_of_result)), key=loops_of_result.__getitem__)
    init = permuted_fill(op, generic.outputs[0], result_order)
    if init is None:
        return None
    new_loops = indices_over(order, len(order))  # by old loop
    maps = [m.replace_dims_and_symbols(new_loops, [], len(order), 0) for m in generic.maps[:-1]]
    maps.append(AffineMap(len(order), 0, tuple(AffineExpr.dimension(dim) for dim in sorted(loops_of_result))))
    body, iterators = op.detach_region(0), [generic.iterators[d] for d in order]
    new = generic_like(op, body, generic.inputs, [init], maps, iterators, loops=new_loops)
    return transposed(new, result_order, op)


def _order_computed(generic: Structured) -> list[int] | None:
    """Return the order of loops in which all computed operands are stored.

    The order has, for each dimension of these operands, the loop that indexes it. Three kinds of operands do not count:
    arguments and fills, those that are not read by a permutation, and those that `write_as_read` can adapt. Return None
    for a contraction, if no operand counts, or if the orders of two operands differ.
    """
    if generic.contracts:
        return None
    orders: set[tuple[int, ...]] = set()
    for value, map_ in zip(generic.inputs, generic.maps, strict=False):
        if not isinstance(value, OpResult) or is_fill(value.op) or not is_permutation(map_):
            continue
        if not _is_written_as_read(value):
            orders.add(tuple(cast(AffineDimExpr, e).position for e in map_.results))
    return list(orders.pop()) if len(orders) == 1 else None


def _is_written_as_read(value: OpResult) -> bool:
    """Return whether a value is a reduction's result that `write_as_read` can give the order of its readers."""
    if not is_reduction(value.op) or _order_computed(structured(value.op)) is not None:
        return False  # a reduction with an order of its own is written in that order
    return bool(_order_of_readers(value))


def _order_of_readers(result: OpResult) -> list[int] | None:
    """Return the order of a result's dimensions that all its readers have in their own results; None if they differ.

    It lists, for each dimension of a reader's result, the dimension of `result`. A reader that writes [d0, d1, d2] and
    reads `result` at [d2, d0, d1] has the order [1, 2, 0].

    Return None also if a reader is not elementwise, is located in another block, or reads `result` as its initial
    value.
    """
    common: list[int] | None = None
    for use in result.uses:
        order = _order_of_reader(use, result)
        if order is None or common not in (None, order):
            return None
        common = order
    return common


def _order_of_reader(use: Use, result: OpResult) -> list[int] | None:
    """Return the order for one reader of `result`; None if it is not elementwise, or reads no permutation."""
    if use.operation.name != GENERIC or use.operation.parent is not result.owner.parent:
        return None
    generic = structured(use.operation)
    map_ = generic.maps[use.index]
    is_initial_value = use.index >= len(generic.inputs)
    is_elementwise = not generic.has_reduction_loops and is_identity(generic.output_maps[0])
    if is_initial_value or not is_elementwise or not is_permutation(map_):
        return None
    # The loop that indexes each dimension of `result`, and its inverse: for each loop, which is a dimension of the
    # reader's result, the dimension of `result`.
    dims = [cast(AffineDimExpr, e).position for e in map_.results]
    return [dims.index(d) for d in range(len(dims))]


def permuted_fill(op: Operation, value: SSAValue, order: Sequence[int]) -> SSAValue | None:
    """Insert a splat or an empty tensor before `op`, like `value` but with its dimensions in another order; return it.

    Return None if `value` is any other tensor. order: for each dimension of the new tensor, its dimension in `value`.
    """
    shape, owner = shape_of(value), value.owner
    if not isinstance(owner, tensor.SplatOp | tensor.EmptyOp):
        return None
    splat_op = owner if isinstance(owner, tensor.SplatOp) else None
    sizes = dict(zip([d for d, n in enumerate(shape) if n < 0], size_operands(owner), strict=True))
    dims = [sizes[d] for d in order if d in sizes]
    type_ = reordered_type(value, order)
    new = tensor.EmptyOp(dims, type_) if splat_op is None else tensor.SplatOp(splat_op.input, dims, type_)
    return insert_before(new, op)


def elementwise_before_transposition(op: Operation) -> SSAValue | None:
    """Apply a unary elementwise operation to the source of a transposition instead of its result, and return the
    transposed new result.

    A generic that reads the new result can then read the tensor before its transposition (`read_through_copies`).
    Return None for other operations and operands, and for dynamic sizes.
    """
    is_unary = len(op.operands) == len(op.results) == 1 and not op.regions
    transposition = defining_copy(op.operands[0]) if is_unary else None
    if transposition is None or not all(is_permutation(m) for m in transposition.maps):
        return None
    result_type, source = op.results[0].type, transposition.inputs[0]
    if not isinstance(result_type, TensorType) or any(n < 0 for n in shape_of(source)):
        return None
    type_ = TensorType(result_type.element_type, shape_of(source))
    new = type(op).create(
        operands=[source], result_types=[type_], properties=op.properties, attributes=op.attributes)  # fmt: skip
    return transposed(insert_before(new, op), _dims_in_result(transposition), op)


def pad_before_transposition(op: Operation) -> SSAValue | None:
    """Pad the source of a transposition instead of its result, and return the transposed padded tensor.

    A generic that reads the returned tensor can then read the tensor before its transposition (`read_through_copies`).
    Return None if the padding is dynamic or of several values, or if the tensor is no transposition.
    """
    pad = cast(tensor.PadOp, op)
    transposition = defining_copy(pad.source)
    if transposition is None or not is_permutation(transposition.maps[0]) or not has_static_uniform_padding(pad):
        return None
    # Each dimension of the source is padded like the dimension of the result that it becomes.
    dims_in_result = _dims_in_result(transposition)
    padded_source = padded(pad, transposition.inputs[0], dims_in_result)
    return transposed(padded_source, dims_in_result, op)


def _dims_in_result(transposition: Structured) -> list[int]:
    """Return, for each dimension of the tensor that a transposing copy reads, the dimension of its result."""
    input_map, result_map = transposition.maps
    result_loops = [cast(AffineDimExpr, e).position for e in result_map.results]  # loop of each dimension of the result
    return [result_loops.index(cast(AffineDimExpr, e).position) for e in input_map.results]


def transposed(value: SSAValue, permutation: Sequence[int], op: Operation) -> SSAValue:
    """Insert a transposing copy of a tensor before `op`, and return it.

    permutation: for each dimension of the tensor, the dimension of the copy. With [1, 2, 0], a tensor of [4, 5, 6] has
    a copy of [6, 4, 5], whose element (d0, d1, d2) is the tensor's element (d1, d2, d0).
    """
    rank = len(permutation)
    source_dims = [permutation.index(d) for d in range(rank)]  # for each dimension of the copy, that of the tensor
    dynamic_axes = [d for d, n in enumerate(shape_of(value)) if n < 0]
    size_of_axis = dict(zip(dynamic_axes, dynamic_sizes(value, op), strict=True))
    sizes = [size_of_axis[d] for d in source_dims if d in size_of_axis]
    index = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in permutation))
    return insert_copy(op, value, index, reordered_type(value, source_dims), sizes)
