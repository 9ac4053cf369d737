"""Zero-point corrections after a product of bytes, for zero points that kernels do not subtract.

A factor is a = u - p of bytes u, where p is the same for all steps: sum((u - p)(v - q)) = sum(u v) - p sum(v) - q
sum(u) + K p q, exact modulo 2^32. Where v is a constant, so is sum(v), and the correction for p is done here. Other
zero points that are known are subtracted by kernels themselves (`kernels/matmul/cpu/factor_sums.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, i32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.fusion.build import indices_over
from pydispatch.compiler.fusion.quantized.dequantized import Dequantized, GenericBody, ScalarExpr, constant_expr
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import shape_of

LEAST_BYTE = -128
"""The least signed byte."""

CONSTANTS = ("arith.constant", "flow.tensor.constant")
"""Operations whose result is a constant."""


@dataclass(frozen=True)
class ShiftedFactor:
    """Factor of a product as `bytes - known_offset - runtime_offset`, in elements of i32.

    `zero_point_corrections` creates one for each factor. A signed byte s with the zero point 3, for an instruction that
    multiplies unsigned bytes, has the bytes s + 128 and the known offset 131.

    Attributes:
        bytes: The factor that the kernel multiplies; the kernel subtracts the zero point of `bytes`, if it has one.
        known_offset: Constant part of the zero point that is corrected after the product: a known zero point, plus the
            shift, 128 or -128, of bytes that instructions take with the other sign.
        runtime_offset: The part of that zero point that is known at run time only; None for 0.
    """

    bytes: Dequantized
    known_offset: int = 0
    runtime_offset: ScalarExpr | None = None

    @property
    def needs_correction(self) -> bool:
        """Whether the bytes differ from the factor by an offset, for which the product must be corrected."""
        return self.known_offset != 0 or self.runtime_offset is not None


def zero_point_corrections(
    contraction: Contraction, lhs: Dequantized, rhs: Dequantized, byte_products: str
) -> Sequence[ShiftedFactor]:
    """Return the two factors, `lhs` first, split into bytes for the kernel and offsets to correct after the product.

    A correction is the zero point of one factor times the sum of the other factor. It replaces the subtraction of the
    zero point in the kernel in two cases: the other factor is a constant, so that its sum is a constant, too, or the
    zero point is known at run time only. For unsigned bytes u with the zero point 3 times constant signed bytes, the
    first factor has the bytes u and the known offset 3; the second one is unchanged.

    Return an empty tuple if no correction is needed or possible.

    Args:
        contraction: The product.
        lhs: Its left-hand factor.
        rhs: Its right-hand factor.
        byte_products: Signs of the two bytes that instructions multiply: "unsigned by signed" (one of each), "equal
            signs" (both signed or both unsigned), "all signs" (any combination), or "" if there are no such
            instructions.
    """
    if not byte_products or lhs.width != 8 or rhs.width != 8:
        return ()
    constant_a, constant_b = depends_on_constants(lhs.stored), depends_on_constants(rhs.stored)
    signed_a, signed_b = _signs_of_bytes(lhs, rhs, constant_a, byte_products)
    least_a, least_b = (LEAST_BYTE if signed else 0 for signed in (signed_a, signed_b))
    first = _shifted(lhs, least_a, is_constant=constant_a, is_other_constant=constant_b)
    second = _shifted(rhs, least_b, is_constant=constant_b, is_other_constant=constant_a)
    # The factors whose sums the corrections need.
    pairs = [(first, second.bytes), (second, first.bytes)]
    summed = [other for factor, other in pairs if factor.needs_correction]
    is_possible = all(_can_be_summed(contraction, factor) for factor in summed)
    return (first, second) if summed and is_possible else ()


def _shifted(factor: Dequantized, least: int, is_constant: bool, is_other_constant: bool) -> ShiftedFactor:
    """Split a factor into bytes and offsets to correct after the product.

    Kernels subtract known zero points of constant factors, and of factors that are not multiplied by a constant: these
    factors are returned as they are, with offset 0. Others are shifted to the sign that instructions accept: a signed
    byte s with the zero point 3 and `least` 0 becomes the byte s + 128 with the offset 131.

    Args:
        factor: The factor.
        least: The least byte that instructions accept, 0 or -128. Bytes of the other sign are shifted by 128.
        is_constant: Whether the factor is a constant.
        is_other_constant: Whether the other factor is a constant, whose sum is then a constant, too.
    """
    known_zero = 0 if factor.zero is None else factor.zero.number  # None: known at run time only
    if known_zero is not None and (is_constant or not is_other_constant):
        return ShiftedFactor(factor)
    is_unsigned = factor.signed is False  # None, not widened yet, counts as signed
    # The byte is `stored + shift`: its zero point is -shift. The factor is then byte - (shift + zero point).
    shift = least - (0 if is_unsigned else LEAST_BYTE)
    bytes_ = replace(factor, zero=constant_expr(-shift) if shift else None)
    if known_zero is None:
        return ShiftedFactor(bytes_, known_offset=shift, runtime_offset=factor.zero)
    return ShiftedFactor(bytes_, known_offset=shift + known_zero)


def _signs_of_bytes(lhs: Dequantized, rhs: Dequantized, is_lhs_constant: bool, byte_products: str) -> tuple[bool, bool]:
    """Return for each factor whether the bytes that are multiplied are signed.

    Bytes that are stored with the other sign are shifted by 128 first.

    Args:
        lhs, rhs: The factors.
        is_lhs_constant: Whether `lhs` is a constant.
        byte_products: Signs of the two bytes that instructions multiply: "unsigned by signed" (one of each), "equal
            signs" (both signed or both unsigned) or "all signs" (any combination).
    """
    unsigned_a, unsigned_b = lhs.signed is False, rhs.signed is False  # None, not widened yet, counts as signed
    # Either factor can be the signed operand of the instruction: a constant lhs is, otherwise rhs is.
    if byte_products == "unsigned by signed":
        return is_lhs_constant, not is_lhs_constant
    if byte_products == "all signs" or (unsigned_a and unsigned_b):
        return not unsigned_a, not unsigned_b
    return True, True  # bytes of either sign are shifted to signed ones


def depends_on_constants(value: SSAValue) -> bool:
    """Return whether a value is a constant, or computed by pure operations from constants alone."""
    pending, visited = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in visited:
            continue
        visited.add(value)
        if not isinstance(value, OpResult) or not info_of(value.op).is_pure:
            return False
        if value.op.name not in CONSTANTS:
            pending += value.op.operands
    return True


def _can_be_summed(contraction: Contraction, factor: Dequantized) -> bool:
    """Return whether the sum of a factor over the reduction loops can be computed by a reduction of its own.

    The reduction loops must have static sizes and index the factor. Each loop that indexes the factor must be the whole
    index of a dimension: a sliding window (d0 + d3) has no such sum.
    """
    generic = contraction.generic
    extents = [generic.extents[d] for d in generic.reduced_loops]
    is_static = all(n is not None and n >= 0 for n in extents)
    plain_dims = {r.position for r in factor.index.results if isinstance(r, AffineDimExpr)}
    has_windows = dims_in(factor.index) != plain_dims
    return is_static and set(generic.reduced_loops) <= plain_dims and not has_windows


class CorrectionTerms:
    """Builder of the correction terms of a product of quantized factors: the sums that its zero points contribute.

    The rewrite of such a product to one of stored integers creates it, and adds the terms to the result.

    Attributes:
        contraction: The contraction.
        new_ops: Operations that compute sums of factors, for the caller to insert before the contraction, in order.
    """

    def __init__(self, contraction: Contraction) -> None:
        """Begin with no operation created."""
        self.contraction, self.new_ops = contraction, list[Operation]()

    def corrected(
        self, body: GenericBody, total: SSAValue, shifted: Sequence[ShiftedFactor], loops: AffineMap
    ) -> SSAValue:
        """Add the computation of the corrected sum of products to a body, and return it.

        For factors u - p and v - q, with bytes u and v, offsets p and q and K steps, this is

            sum((u - p) * (v - q)) = total - p * sum(v) - q * sum(u) + K * p * q

        Args:
            body: Body of a generic over the result of the contraction.
            total: Sum of the products of bytes, an i32 of the body.
            shifted: The two factors, as `zero_point_corrections` returns them.
            loops: Map from dimensions of the result to loops of the contraction; its results for reduction loops are
                the constant 0.
        """
        first, second = shifted
        # Subtract p * sum(v), then q * sum(u). The generic that computes a sum also multiplies it by a known offset:
        # if v is constant, the whole correction p * sum(v) is then a constant.
        for factor, other in ((first, second), (second, first)):
            if factor.runtime_offset is not None:
                total = body.add(arith.SubiOp(total, self._times_other_sum(body, factor, other, loops)))
            elif factor.known_offset:
                correction = self._sum(body, other.bytes, multiplier=-factor.known_offset, loops=loops)
                total = body.add(arith.AddiOp(total, correction))
        if first.needs_correction and second.needs_correction:  # the term K * p * q
            steps = prod(self.contraction.generic.extent(d) for d in self.contraction.generic.reduced_loops)
            zero_points = [_corrected_zero_point(body, factor, loops) for factor in (first, second)]
            product = body.add(arith.MuliOp(zero_points[0], zero_points[1]))
            count = body.add(arith.ConstantOp(IntegerAttr(steps, i32)))
            total = body.add(arith.AddiOp(total, body.add(arith.MuliOp(product, count))))
        return total

    def _times_other_sum(
        self, body: GenericBody, factor: ShiftedFactor, other: ShiftedFactor, loops: AffineMap
    ) -> SSAValue:
        """Add the computation of `factor`'s zero point times the sum of the bytes of `other`, and return it."""
        zero_point = _corrected_zero_point(body, factor, loops)
        return body.add(arith.MuliOp(zero_point, self._sum(body, other.bytes, multiplier=1, loops=loops)))

    def _sum(self, body: GenericBody, factor: Dequantized, *, multiplier: int, loops: AffineMap) -> SSAValue:
        """Add the computation of the sum of a factor over the reduction loops, times a constant, and return it.

        A generic before the contraction computes the sums; the body reads one of them. For a factor [K, N] of a result
        [M, N], the sums have the shape [N], and the result (m, n) reads the sum n.

        Args:
            body: Body of a generic over the result of the contraction, which reads the sum as a new input.
            factor: The factor.
            multiplier: The constant.
            loops: Map from dimensions of the result to loops of the contraction.
        """
        generic = self.contraction.generic
        # The sums iterate over the parallel loops that index the factor.
        parallel_loops = [
            d for d in range(len(generic.iterators)) if d in dims_in(factor.index) and d not in generic.reduced_loops
        ]
        sums = self._sums(factor, parallel_loops, multiplier)
        # The sum for an element of the result, at the loops that index the factor.
        index = tuple(loops.results[d] for d in parallel_loops)
        return body.input(sums, AffineMap(loops.num_dims, 0, index))

    def _sums(self, factor: Dequantized, parallel_loops: Sequence[int], multiplier: int) -> SSAValue:
        """Add a generic over `parallel_loops` that sums up `multiplier * factor` over the reduction loops, from 0 on.

        It is added to `new_ops`; return its result.
        """
        # For the loops (m, n, k) of a product and the factor [K, N], the new loops are those of [n, k]. The factor is
        # not indexed by m, whose index is arbitrary.
        generic = self.contraction.generic
        order = [*parallel_loops, *generic.reduced_loops]
        renamed = AffineMap(len(order), 0, tuple(indices_over(order, len(generic.iterators))))
        zero = arith.ConstantOp(IntegerAttr(0, i32))
        shape, dims = self._sizes_along(factor, parallel_loops)
        initial = tensor.SplatOp(zero.result, dims, TensorType(i32, shape))
        body = GenericBody()
        value = body.integer(factor.reindexed(renamed))
        if multiplier != 1:
            value = body.add(arith.MuliOp(value, body.add(arith.ConstantOp(IntegerAttr(multiplier, i32)))))
        running_sum = body.block.insert_arg(i32, len(body.inputs))
        new_sum = body.add(arith.AddiOp(running_sum, value))
        index = AffineMap(len(order), 0, tuple(map(AffineExpr.dimension, range(len(parallel_loops)))))
        kinds = ["parallel"] * len(parallel_loops) + ["reduction"] * len(generic.reduced_loops)
        sums = body.build_generic(new_sum, initial.result, index, kinds)
        self.new_ops += [zero, initial, sums]
        return sums.results[0]

    def _sizes_along(self, factor: Dequantized, loops: Sequence[int]) -> tuple[list[int], list[SSAValue]]:
        """Return the sizes of a factor's dimensions that `loops` index, and values for the dynamic ones among them.

        A factor of ?x64 gives [-1, 64] and the value of its first size. The operations that compute dynamic sizes are
        added to `new_ops`.
        """
        shape, dynamic_sizes = list[int](), list[SSAValue]()
        for loop in loops:
            axis = factor.index.results.index(AffineExpr.dimension(loop))
            shape.append(shape_of(factor.stored)[axis])
            if shape[-1] < 0:  # a dynamic size
                index = arith.ConstantOp.from_int_and_width(axis, IndexType())
                self.new_ops += [index, tensor.DimOp(factor.stored, index)]
                dynamic_sizes.append(self.new_ops[-1].results[0])
        return shape, dynamic_sizes


def _corrected_zero_point(body: GenericBody, shifted: ShiftedFactor, loops: AffineMap) -> SSAValue:
    """Add the computation of the zero point of a factor that is corrected after the product, and return it: the i32
    `known_offset + runtime_offset`.

    loops: map from the loops of `body` to those of the contraction, which the runtime offset is a function of.
    """
    constant = body.add(arith.ConstantOp(IntegerAttr(shifted.known_offset, i32)))
    if shifted.runtime_offset is None:
        return constant
    return body.add(arith.AddiOp(body.copy(shifted.runtime_offset.reindexed(loops)), constant))
