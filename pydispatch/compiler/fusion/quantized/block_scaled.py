"""Recognition of block-scaled weights: factors of a product that are (stored - zero) * scale + offset.

Stored integers have 4 or 8 significant bits. Zero points, scales and offsets are the same for all steps of K, or for
blocks of them. The arithmetic may be spread over any number of elementwise operations, reshapes and broadcasts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.fusion.quantized.dequantized import GenericBody, element_of
from pydispatch.compiler.fusion.quantized.mixed_radix import Position, combined, digits_of
from pydispatch.compiler.fusion.quantized.product_loops import K_LOOP, Loops
from pydispatch.compiler.fusion.quantized.terms import Computed, TensorElement, Term, computed_by, elements_in
from pydispatch.compiler.fusion.quantized.views import Positions, read_by_view
from pydispatch.compiler.kernels.matmul.linear import linear_index
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.ranges import Range, range_of
from pydispatch.ir.affine_maps import is_permutation
from pydispatch.ir.structured import GENERIC, Structured, structured


def stored_range(value: SSAValue, is_signed: bool) -> Range:
    """Return the least and the greatest element of a tensor of integers, read as signed or unsigned.

    Return the range of their type if the elements are not known, or if some are negative but read as unsigned.
    """
    width = cast(IntegerType, element_of(value)).width.data
    # The range of the elements as signed integers: that of their type, such as (-128, 127), if they are not known.
    low, high = range_of(value) or (-(1 << width - 1), (1 << width - 1) - 1)
    if is_signed or low >= 0:
        return low, high
    return 0, (1 << width) - 1


@dataclass(frozen=True)
class Weights:
    """Recognized factor of a product: weights of the form (stored - sum(zeros)) * product(scales) + sum(offsets).

    A term is a scalar expression that is the same for several adjacent steps of K, such as an element of a tensor of
    scales.

    Attributes:
        stored: A tensor of integers.
        index: The index of a weight in `stored`, as sums of digits of K_LOOP, N_LOOP and batch loops.
        is_signed: Whether the stored integers are signed.
        zeros: Terms that are subtracted from the stored integers, as f32 or integers.
        scales: Terms that are factors of the difference, f32.
        offsets: Terms that are added to the scaled difference, f32.
    """

    stored: SSAValue
    index: Positions
    is_signed: bool
    zeros: tuple[Term, ...] = ()
    scales: tuple[Term, ...] = ()
    offsets: tuple[Term, ...] = ()

    @property
    def width(self) -> int:
        """Bits of a stored integer."""
        return cast(IntegerType, element_of(self.stored)).width.data

    @property
    def range(self) -> Range:
        """The least and the greatest stored integer."""
        return stored_range(self.stored, self.is_signed)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms: zero points, scales and offsets."""
        return (*self.zeros, *self.scales, *self.offsets)

    @property
    def block(self) -> int | None:
        """Number of adjacent steps of K that share all terms (zero points, scales and offsets).

        The index of a term, such as of a scale in its tensor, has digits of the step k: `k // place_value % size`. A
        digit changes after `place_value` steps, so that the least place value is the block. None if all steps of K
        share all terms, or if a place value is not a multiple of the least one.
        """
        elements = (element for term in self.terms for element in elements_in(term))  # tensor elements of the terms
        place_values = [digit.place_value for element in elements for digit in digits_of(K_LOOP, element.at)]
        least = min(place_values, default=None)
        return least if least is not None and all(value % least == 0 for value in place_values) else None

    def block_loops(self, block: int, steps: int) -> tuple[int, ...]:
        """Return the sizes of nested loops over the blocks of K, outermost first.

        Terms may be shared by groups of blocks, called super-blocks. There is then a loop over super-blocks around the
        loop over their blocks, so that the indices of weights and terms are affine expressions of the loops. For K =
        1024 in blocks of 32, with a scale for each 256 steps, the sizes are (4, 8). If blocks and super-blocks do not
        nest, there is a single loop over all blocks.

        Args:
            block: Number of steps of K in a block.
            steps: Number of all steps of K.
        """
        elements = (element.at for term in self.terms for element in elements_in(term))
        digits = {digit for at in (self.index, *elements) for digit in digits_of(K_LOOP, at)}
        # A digit is `k // place_value % size` of step k. It is the index of a loop if there are loops whose iterations
        # take `place_value` steps and `place_value * size` steps.
        loop_steps = {n for digit in digits for n in (digit.place_value, digit.place_value * digit.size)}
        ascending = sorted({block, *(n for n in loop_steps if block < n < steps), steps})  # [32, 256, 1024]
        if any(larger % smaller for smaller, larger in pairwise(ascending)):
            return (steps // block,)
        return tuple(larger // smaller for smaller, larger in pairwise(ascending))[::-1]  # (8, 4) reversed


def weights_of(contraction: Contraction, factor: Factor, loops: Loops) -> Weights | None:
    """Return a factor of an f32 product as block-scaled weights; None if it is computed otherwise.

    Args:
        contraction: The product.
        factor: One of its factors.
        loops: Its loops by their roles for that factor (`loops_of`).
    """
    return _BodyAt(contraction.generic, loops.positions).weights(factor.value)


# Tensors


def _weights_at(value: SSAValue, at: Positions) -> Weights | None:
    """Return the element of an f32 tensor at the index `at` as a weight; None if it is computed otherwise."""
    if not isinstance(value, OpResult):
        return None
    body = _body_of(value, at)
    if body is not None:  # `value` is computed by an elementwise operation
        return body.weights(body.result)
    source = read_by_view(value, at)  # None unless `value` is a reshape, a broadcast or the like
    return None if source is None else _weights_at(*source)


def _integer_at(value: SSAValue, at: Positions, is_signed: bool) -> Weights | None:
    """Return the element of a tensor of integers at an index as a weight without scales; None for other types.

    If the element is computed from a narrower integer, or as a difference with a zero point, the stored integer is the
    one that it is computed from. Otherwise the stored integer is the element itself.
    """
    if not isinstance(element_of(value), IntegerType):
        return None
    inner: Weights | None = None
    if isinstance(value, OpResult):
        if (body := _body_of(value, at)) is not None:
            inner = body.recognized_integer(body.result, is_signed)
        elif (source := read_by_view(value, at)) is not None:
            inner = _integer_at(*source, is_signed)
    element_itself = Weights(value, at, is_signed)
    # The element that `value` is computed from is only worth reading if it is narrower or has zero points. Otherwise,
    # such as for a reshape, the element of `value` itself is read.
    is_simpler = inner is not None and (inner.zeros or inner.width < element_itself.width)
    return inner if is_simpler else element_itself


def _term_at(value: SSAValue, at: Positions) -> Term | None:
    """Return the element of a tensor at an index as a term (scalar expression) of weights.

    Return None if the element differs between adjacent steps of K: the weights of a block share their terms.
    """
    if isinstance(value.owner, tensor.SplatOp) and isinstance(value.owner.input.owner, arith.ConstantOp):
        return computed_by(value.owner.input.owner)  # the constant itself, at any index
    is_same_for_adjacent_steps = all(digit.place_value > 1 for digit in digits_of(K_LOOP, at))
    if is_same_for_adjacent_steps:
        return TensorElement(value, at)
    if not isinstance(value, OpResult):
        return None
    body = _body_of(value, at)
    if body is not None:
        return body.term(body.result)
    source = read_by_view(value, at)
    return None if source is None else _term_at(*source)


def _body_of(value: OpResult, at: Positions) -> _BodyAt | None:
    """Return a recognizer of the body of the elementwise generic that computes `value`, for the element at index `at`.

    Return None for tensors that other operations compute.
    """
    if value.op.name != GENERIC:
        return None
    generic = structured(value.op)
    result_map = generic.maps[-1]
    is_elementwise = generic.is_parallel and len(value.op.results) == 1 and is_permutation(result_map)
    if not is_elementwise:
        return None
    # Each loop indexes one dimension of the result: its index is that of the element along this dimension.
    position_of_loop = {
        cast(AffineDimExpr, loop).position: position for position, loop in zip(at, result_map.results, strict=True)
    }
    return _BodyAt(generic, tuple(position_of_loop[loop] for loop in range(len(generic.iterators))))


# Scalars


@dataclass(frozen=True)
class _BodyAt:
    """Recognizer of scalars in the body of a generic, at one index of its loops, as weights or as terms of weights.

    A weight is a dequantized number, (stored - zero) * scale + offset. A term is a zero point, scale or offset, which
    adjacent steps of K share.

    Attributes:
        generic: The generic, which computes a factor of a product, or a term of it.
        loops: For each loop of the generic, its index as a sum of stride * digit. A digit is `loop // place_value %
            size` of a loop of the product.
    """

    generic: Structured
    loops: Positions

    @property
    def result(self) -> SSAValue:
        """The value that the body yields."""
        last = self.generic.block.last_op
        assert last is not None
        return last.operands[0]

    def weights(self, value: SSAValue) -> Weights | None:
        """Return an f32 scalar of the body as a weight; None if it is no function of one stored integer and terms.

        A weight is (stored - zero) * scale + offset, where there may be several terms of each kind, or none. A term is
        a number that is the same for all steps of a block. The function follows the operands of `value` to the
        conversion of the stored integer, and collects a term from each operation on the way: (sitofp(q) - z) * s has
        the zeros (z,) and the scales (s,). An element of an input is followed into the operation that computes it.
        """
        if isinstance(value, BlockArgument):
            element = self._element_read(value)
            return None if element is None else _weights_at(*element)
        op = value.owner
        if not isinstance(op, Operation) or value.type != f32:
            return None
        # The conversion of the stored integer; an integer of another form is first stored in a new tensor.
        if isinstance(op, arith.SIToFPOp | arith.UIToFPOp):
            return self.integer_weight(op.operands[0], is_signed=isinstance(op, arith.SIToFPOp))
        if not isinstance(op, arith.MulfOp | arith.AddfOp | arith.SubfOp):
            return None
        # One operand is a weight, the other a term: the same number for all steps of a block.
        operand_pairs = [(op.operands[0], op.operands[1])]
        if not isinstance(op, arith.SubfOp):  # term - weight is not recognized
            operand_pairs.append((op.operands[1], op.operands[0]))
        for weight_operand, term_operand in operand_pairs:
            inner = self.weights(weight_operand)
            term = None if inner is None else self.term(term_operand)
            if inner is not None and term is not None:
                return _combined(op, inner, term)
        return None

    def integer_weight(self, value: SSAValue, is_signed: bool) -> Weights | None:
        """Return an integer scalar of the body as a weight without scales.

        If the scalar is not recognized, insert an operation that stores it in a new tensor, which then has the stored
        integers. Return None if that is not possible.

        is_signed: whether the scalar is interpreted as signed.
        """
        recognized = self.recognized_integer(value, is_signed)
        if recognized is not None:
            return recognized
        new_tensor = self._store_in_tensor(value)
        # The new tensor has the shape of the generic's result, and is read at the same index.
        return None if new_tensor is None else Weights(new_tensor, self._result_position(), is_signed)

    def recognized_integer(self, value: SSAValue, is_signed: bool) -> Weights | None:
        """Return an integer scalar as a weight without a scale, or None if it has none of these forms:

        - q: an element that is read from a tensor.
        - extsi(x) or extui(x): the weight x. If x has none of the forms, `integer_weight` inserts an operation that
          stores x in a new tensor; the weight is then read from that tensor.
        - w - z: the weight w, which has one of the forms, with the zero point z. The zeros of extui(q) - z are (z,).

        is_signed: whether the scalar is interpreted as signed.
        """
        if isinstance(value, BlockArgument):
            element = self._element_read(value)
            return None if element is None else _integer_at(*element, is_signed)
        op = value.owner
        if isinstance(op, arith.ExtUIOp):
            return self.integer_weight(op.operands[0], is_signed=False)
        if not is_signed:  # read as unsigned, a negative extsi(q) or w - z is a huge number, not the weight
            return None
        if isinstance(op, arith.ExtSIOp):
            return self.integer_weight(op.operands[0], is_signed=True)
        # A difference that may wrap around is not recognized: its value can differ from w - z.
        if isinstance(op, arith.SubiOp) and _is_exact(op):
            zero = self.term(op.operands[1])
            inner = None if zero is None else self.recognized_integer(op.operands[0], is_signed=True)
            if zero is not None and inner is not None:
                return replace(inner, zeros=(*inner.zeros, zero))
        return None

    def term(self, value: SSAValue) -> Term | None:
        """Return a scalar of the body as a term; None if it differs between adjacent steps of K, or if operations
        compute it that are not scalar arithmetic.
        """
        if isinstance(value, BlockArgument):
            element = self._element_read(value)
            return None if element is None else _term_at(*element)
        op = value.owner
        if not isinstance(op, Operation) or op.regions or not op.name.startswith(("arith.", "math.")):
            return None
        operands = [self.term(operand) for operand in op.operands]
        known = tuple(operand for operand in operands if operand is not None)
        return computed_by(op, *known) if len(known) == len(operands) else None

    def _element_read(self, argument: BlockArgument) -> tuple[SSAValue, Positions] | None:
        """Return the tensor that an argument of the body is an element of, and the index of the element.

        The index is returned as sums of digits of the loops of the product (`Position`). Return None for other
        arguments, and if a coordinate of the index is no sum of loops times positive constants.
        """
        generic = self.generic
        if argument.owner is not generic.block or argument.index >= len(generic.inputs):
            return None
        positions = list[Position]()
        for result in generic.maps[argument.index].results:
            coordinate = linear_index(result)
            if coordinate is None or coordinate.constant:  # a position is a sum of digits without a constant
                return None
            # The sum of stride * index of each loop d of the body. `loops` states this index in loops of the product.
            positions.append(combined((stride, self.loops[d]) for d, stride in coordinate.terms))
        return generic.inputs[argument.index], tuple(positions)

    def _store_in_tensor(self, value: SSAValue) -> SSAValue | None:
        """Insert an elementwise generic that computes only `value`, before the generic of this body; return its result.

        The result is a tensor of integers that products can read as weights: for the weight sitofp((a << 4) | b) * s,
        it is a tensor of (a << 4) | b. Return None if the generic is a reduction, or if its body does not compute
        `value`.
        """
        generic = self.generic
        if not generic.is_parallel or not isinstance(value, OpResult):
            return None
        # Copy the operations up to `value`, over the same inputs.
        body = GenericBody()
        mapping: dict[SSAValue, SSAValue] = {  # arguments and maps of the outputs follow those of the inputs
            argument: body.input(tensor_, index)
            for argument, tensor_, index in zip(generic.block.args, generic.inputs, generic.maps, strict=False)
        }
        *operations, _ = generic.block.ops
        for op in operations:
            body.block.add_op(op.clone(mapping))
            if op is value.op:
                break
        # `like`: the new generic has the shape of this result. `ops` also has operations for dynamic sizes.
        ops = body.generic(mapping[value], like=generic.op.results[0], index=generic.maps[-1])
        assert generic.op.parent is not None
        generic.op.parent.insert_ops_before(ops, generic.op)
        return ops[-1].results[0]

    def _result_position(self) -> Positions:
        """Return the index of the element that the body yields."""
        return tuple(self.loops[cast(AffineDimExpr, r).position] for r in self.generic.maps[-1].results)


def _is_exact(op: arith.SubiOp) -> bool:
    """Return whether a difference never wraps around, judged by the known ranges of its operands."""
    lhs, rhs = range_of(op.lhs), range_of(op.rhs)
    if lhs is None or rhs is None:
        return False
    (lhs_least, lhs_greatest), (rhs_least, rhs_greatest) = lhs, rhs
    end = 1 << cast(IntegerType, op.result.type).width.data - 1  # 128 for i8, which has the numbers -128 ... 127
    return -end <= lhs_least - rhs_greatest and lhs_greatest - rhs_least < end


def _combined(op: Operation, inner: Weights, term: Term) -> Weights:
    """Return the weights that `op` computes from other weights and a term, as their product, sum or difference.

    For stored integers q:

        (q * scale + offset) * term     gets the scale `term`; the offset becomes `offset * term`
        q - term                        gets the zero point `term`
        (q * scale + offset) - term     gets the offset `-term`
        (q * scale + offset) + term     gets the offset `term`
    """
    if isinstance(op, arith.MulfOp):
        offsets = tuple(computed_by(op, offset, term) for offset in inner.offsets)
        return replace(inner, scales=(*inner.scales, term), offsets=offsets)
    if isinstance(op, arith.SubfOp) and not inner.scales and not inner.offsets:
        return replace(inner, zeros=(*inner.zeros, term))
    if isinstance(op, arith.SubfOp):
        term = Computed(arith.NegfOp, lambda values: arith.NegfOp(values[0]), (term,))
    return replace(inner, offsets=(*inner.offsets, term))
