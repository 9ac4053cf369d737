"""Conversion of products of dequantized numbers to products of the stored integers, which are scaled once.

A factor is recognised as `scale * (stored - zero point)`, where the scale is the same for all steps of the sum: sum(s a
* t b) = s t sum(a b). The sum of integers must fit i32 for all stored values, so that it is exact. Only its conversion
and scaling are rounded, whereas a sum of f32 rounds every step.

Products of integers are rewritten to read the stored integers too, so that dispatches exchange bytes instead of i32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.edit import replace_with
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.quantized.dequantized import Dequantized, GenericBody, sizes_of
from pydispatch.compiler.fusion.quantized.recognize import ScalarRecognizer, TensorRecognizer, dim_expr, is_zero
from pydispatch.compiler.fusion.quantized.zero_points import CorrectionTerms, ShiftedFactor, zero_point_corrections
from pydispatch.compiler.kernels.matmul.match import Contraction, contraction_of
from pydispatch.ir.affine_maps import is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured
from pydispatch.ir.values import shape_of


def multiply_integers(function: Operation, byte_products: str) -> None:
    """Make the products of a host function whose factors are dequantized multiply the stored integers, in place.

    A product is any contraction: a matrix product or a convolution. Its sums have the type f32, or i32 if the program
    widens the stored integers itself. Products of factors that are not dequantized stay.

    byte_products: signs of the bytes that all targets multiply in one instruction, such as "unsigned by signed"; see
        `Level.byte_products`.
    """
    changed = False
    for op in list(walk(function)):
        # Operations without a parent were erased by the rewriting of an earlier product.
        contraction = contraction_of(op) if op.name == GENERIC and op.parent is not None else None
        if contraction is None or contraction.acc not in (f32, i32):
            continue
        if is_projected_permutation(contraction.generic.maps[-1]):  # a loop for each dimension of the result
            changed = _rewrite_product(contraction, byte_products) or changed
    if changed:
        erase_unused(function)


def _rewrite_product(contraction: Contraction, byte_products: str) -> bool:
    """Make a contraction of f32 with dequantized factors multiply integers, or a contraction of i32 read the stored
    integers. Return whether it was rewritten; if not, the operations that recognition created are erased.

    For f32, sum((s * a) * (t * b)) with scales s and t becomes s * t * sum(a * b) with a sum in i32. For i32, a factor
    that other operations widened from bytes is widened by the contraction itself, which then reads the bytes.

    byte_products: signs of the bytes that instructions of the targets multiply: "unsigned by signed", "all signs",
    "equal signs", or "" for none.
    """
    tensors = TensorRecognizer()
    if not _add_product_of_integers(contraction, byte_products, tensors):
        tensors.erase_created()
        return False
    replace_with(contraction.op, tensors.new_ops)
    return True


def _add_product_of_integers(contraction: Contraction, byte_products: str, tensors: TensorRecognizer) -> bool:
    """Add the operations that compute a contraction from stored integers to `tensors`; the last one has its result.

    Return False if the factors are not as `_stored_factors` requires, or if nothing would change.
    """
    factors = _stored_factors(contraction, tensors)
    if factors is None:
        return False
    a, b = factors
    # For each factor its bytes, and the zero point that is corrected after the product; empty without corrections.
    corrections = zero_point_corrections(contraction, a, b, byte_products)
    reads_stored_already = a.stored in contraction.generic.inputs and b.stored in contraction.generic.inputs
    nothing_changes = contraction.acc == i32 and not corrections and reads_stored_already
    if nothing_changes:
        return False
    # The product of integers, then the corrections for zero points, then the scales.
    if corrections:
        a_bytes, b_bytes = (correction.bytes for correction in corrections)
        new = tensors.add(*_product(contraction, a_bytes, b_bytes))
        new = tensors.add(*_with_zero_points(contraction, new, corrections))
    else:
        new = tensors.add(*_product(contraction, a, b))
    if contraction.acc == f32:
        tensors.add(*_scaled(contraction, new, (a, b)))
    return True


def _stored_factors(contraction: Contraction, tensors: TensorRecognizer) -> tuple[Dequantized, Dequantized] | None:
    """Return the factors of a contraction as dequantized integers whose products can be summed up in i32.

    Return None in these cases:

    - A factor is not recognized as dequantized.
    - Sums may overflow.
    - The stored tensors and the result do not state the sizes of all loops.
    """
    generic = contraction.generic
    result_loops = frozenset(range(len(generic.iterators))) - frozenset(generic.reduced_loops)
    scalars = ScalarRecognizer(tensors, generic, scale_loops=result_loops)
    a, b = scalars.of(contraction.a.value), scalars.of(contraction.b.value)
    if a is None or b is None:
        return None
    if a.signed is None or b.signed is None:  # a factor is not widened to i32 or float: its sign is not known
        return None
    sums_fit = contraction.acc == i32 or _fits(generic, (a, b))
    return (a, b) if sums_fit and _index_all_loops(generic, (a, b)) else None


def _fits(generic: Structured, factors: Sequence[Dequantized]) -> bool:
    """Return whether every sum of products `stored - zero` of the factors fits i32, by the ranges of their types."""
    steps = prod(generic.extents[d] or 0 for d in generic.reduced_loops)  # 0, which does not fit, if one is dynamic
    greatest_product = prod(max(map(abs, factor.range)) for factor in factors)
    return 0 < steps * greatest_product < 1 << 31


def _index_all_loops(generic: Structured, factors: Sequence[Dequantized]) -> bool:
    """Return whether each loop by itself indexes a dimension of a factor or of the result.

    `linalg.generic` infers the size of a loop from such a dimension of an operand, and the rewritten product has no
    other operands.
    """
    maps = [*(factor.index for factor in factors), generic.maps[-1]]
    indexing_loops = {r.position for map_ in maps for r in map_.results if isinstance(r, AffineDimExpr)}
    return indexing_loops == set(range(len(generic.iterators)))


def _product(contraction: Contraction, lhs: Dequantized, rhs: Dequantized) -> list[Operation]:
    """Build the generic that sums the products of the stored integers of both factors in i32; it is last in the list.

    The sums of an i32 contraction begin with the contraction's initial value. The integer sums of an f32 contraction
    begin with zeros: `_scaled` adds the f32 initial value after scaling. The operations that create the zeros precede
    the generic in the list.
    """
    generic = contraction.generic
    initial_ops: list[Operation] = []
    initial = generic.outputs[0]
    if contraction.acc == f32:
        initial_ops, dims = sizes_of(generic.outputs[0])
        zero = arith.ConstantOp(IntegerAttr(0, i32))
        initial_ops += [zero, tensor.SplatOp(zero.result, dims, TensorType(i32, shape_of(generic.outputs[0])))]
        initial = initial_ops[-1].results[0]
    body = GenericBody()
    product = body.add(arith.MuliOp(body.integer(lhs), body.integer(rhs)))
    running_sum = body.block.insert_arg(i32, len(body.inputs))
    new = body.build_generic(body.add(arith.AddiOp(running_sum, product)), initial, generic.maps[-1], generic.iterators)
    new.attributes.update(contraction.op.attributes)
    return [*initial_ops, new]


def _loops_of_result(contraction: Contraction) -> AffineMap:
    """Return the map from the dimensions of a contraction's result to its loops; reduction loops map to 0."""
    generic, rank = contraction.generic, len(shape_of(contraction.op.results[0]))
    result_axis = {r.position: axis for axis, r in enumerate(generic.maps[-1].results) if isinstance(r, AffineDimExpr)}
    loops = (dim_expr(result_axis.get(d)) for d in range(len(generic.iterators)))  # dim_expr(None) is 0
    return AffineMap(rank, 0, tuple(loops))


def _with_zero_points(contraction: Contraction, total: SSAValue, shifted: Sequence[ShiftedFactor]) -> list[Operation]:
    """Build the operations that correct sums of products of bytes for the zero points of the bytes.

    The operations compute sum((a - p) * (b - q)) from the given `total`, sum(a * b), for the zero points p and q.

    total: the i32 sums of the products of bytes. shifted: the factors, as bytes with their zero points.
    """
    loops, body, corrections = _loops_of_result(contraction), GenericBody(), CorrectionTerms(contraction)
    identity = AffineMap.identity(loops.num_dims)
    value = corrections.corrected(body, body.input(total, identity), shifted, loops)
    return [*corrections.new_ops, *body.generic(value, contraction.generic.outputs[0], identity)]


def _scaled(contraction: Contraction, total: SSAValue, factors: Sequence[Dequantized]) -> list[Operation]:
    """Build the operations that scale the integer sums to the f32 result, and add its initial value.

    total: the i32 sums. factors: the two factors, whose scales are multiplied.
    """
    generic, loops_of_result, body = contraction.generic, _loops_of_result(contraction), GenericBody()
    identity = AffineMap.identity(loops_of_result.num_dims)
    value = body.add(arith.SIToFPOp(body.input(total, identity), f32))
    scales = [body.copy(scale.reindexed(loops_of_result)) for factor in factors for scale in factor.scales]
    if scales:
        scale, *other_scales = scales
        for other_scale in other_scales:
            scale = body.add(arith.MulfOp(scale, other_scale))
        value = body.add(arith.MulfOp(value, scale))
    if not is_zero(generic.outputs[0]):
        value = body.add(arith.AddfOp(value, body.input(generic.outputs[0], identity)))
    return body.generic(value, generic.outputs[0], identity)
