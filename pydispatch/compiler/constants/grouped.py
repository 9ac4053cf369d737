"""Constant factors of narrow-integer products in the form that kernels multiply: converted, in panels of grouped steps.

A dispatch function computes such a factor from an argument, for example widens a byte and subtracts a zero point. This
computation moves into the function that derives the constant. The dispatch keeps an argument of packed elements, which
it widens again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, Float32Type, IntegerAttr, IntegerType, TensorType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.analysis.edit import erase_unused
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic, arithmetic_of, unextended
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import values_from_outside
from pydispatch.ir.structured import GENERIC
from pydispatch.ir.values import shape_of


@dataclass(frozen=True)
class Grouped:
    """Right-hand factor of a contraction, packed in groups and computed from one argument of the dispatch function.

    A group is the adjacent steps of K that one dot-product instruction multiplies and adds, such as 4 bytes. Example:
    the argument is a tensor<64x32xi8>, and the factor is its elements, widened to i32, minus the zero point 3. The
    factor's values are -131 to 124. For instructions that take signed bytes of B, they are packed minus the offset -3.

    `grouped_factor` recognizes the factor. `packed_elements` computes it for the constant that a dispatch passes, and
    `multiply_packed` changes the dispatch function to read the packed elements.

    Attributes:
        contraction: The contraction C += A * B; the factor is B.
        arithmetic: Type and offset of packed elements, and how many steps of K (a group) an instruction takes.
        argument: The only argument of the dispatch function that the factor depends on.
        ops: The operations between argument and contraction that compute the factor, producers first.
    """

    contraction: Contraction
    arithmetic: Arithmetic
    argument: BlockArgument
    ops: tuple[Operation, ...]

    @property
    def factor(self) -> Factor:
        """The right-hand factor of the contraction, which is converted and stored in panels."""
        return self.contraction.b

    @property
    def packed_type(self) -> TensorType[Attribute]:
        """Type of the factor's tensor with the element type that kernels multiply: bytes, i16 or bf16."""
        return TensorType(self.arithmetic.compute, shape_of(self.contraction.tensor_of(self.factor)))


def grouped_factor(function: func.FuncOp, contraction: Contraction, levels: Sequence[Level]) -> Grouped | None:
    """Return the right-hand factor B of a contraction for packing in groups; None if it cannot be packed so.

    A group is the adjacent steps of K that one dot-product instruction multiplies and adds, such as 4 bytes. The
    kernels of all ISA levels must multiply B in the same packed form: element type, group size and offset. B must be
    one matrix that is computed from a single argument, which no other operation of the function reads.

    Args:
        function: The dispatch function.
        contraction: The contraction, an operation of the function.
        levels: ISA levels of all targets.
    """
    arithmetics = [arithmetic_of(contraction, level) for level in levels]
    # Any of them: all must have the same packed form. With equal offsets, `unsigned_b` can differ between levels only
    # if all values of B are 0 to 127: such bytes widen to the same integers with and without sign.
    arithmetic = arithmetics[0]
    if arithmetic is None or arithmetic.group == 1:  # no such kernel, or one without groups
        return None
    packed_form = arithmetic.compute, arithmetic.group, arithmetic.b_offset
    if any(a is None or (a.compute, a.group, a.b_offset) != packed_form for a in arithmetics):
        return None
    reads_one_input = set(contraction.b.inputs) == {contraction.b.main_input}  # no tensor of scales or zero points
    has_batch = bool(set(contraction.outer) & contraction.b.dims)  # several matrices, which groups do not pack
    # Only a generic has a body that multiply_packed() can rewrite.
    if contraction.op.name != GENERIC or not reads_one_input or has_batch:
        return None
    # The values that B is computed from: its tensor, and what its scalar code reads from outside the contraction.
    backward_slice = _slice(function, [contraction.tensor_of(contraction.b), *_captured(contraction)])
    if backward_slice is None:
        return None
    ops, arguments = backward_slice
    if len(arguments) != 1:
        return None
    (argument,) = arguments
    return Grouped(contraction, arithmetic, argument, ops) if _is_read_only_by(argument, ops, contraction.op) else None


def _captured(contraction: Contraction) -> list[SSAValue]:
    """Return the values from outside the contraction that the factor's scalar code reads."""
    inside = set(_values_defined_in(contraction.generic.block))
    return [v for op in contraction.b.code for v in op.operands if v not in inside]


def _slice(
    function: func.FuncOp, values: Sequence[SSAValue]
) -> tuple[tuple[Operation, ...], set[BlockArgument]] | None:
    """Return the backward slice of `values` in a function: the operations that compute them, in program order, and the
    arguments that these read. Return None if a value depends on an argument of another block.
    """
    body = function.body.block
    ops: set[Operation] = set()
    arguments: set[BlockArgument] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, BlockArgument):
            if value.owner is not body:
                return None
            arguments.add(value)
        elif isinstance(value, OpResult) and value.op not in ops:
            ops.add(value.op)
            pending += values_from_outside(value.op)  # operands, and values that its regions read
    return tuple(op for op in body.ops if op in ops), arguments


def _is_read_only_by(argument: BlockArgument, slice_ops: Sequence[Operation], consumer: Operation) -> bool:
    """Return whether `argument`, and every value that `slice_ops` compute from it, is used only by `slice_ops` and
    `consumer`.
    """
    pending: list[SSAValue] = [argument]
    while pending:
        for use in pending.pop().uses:
            user: Operation | None = use.operation
            while user is not None and user.parent is not argument.owner:
                user = user.parent_op()  # up to the operation of the function's body that contains the use
            if user is consumer:
                continue
            if user is None or user not in slice_ops:
                return False
            pending += user.results
    return True


def packed_elements(grouped: Grouped, source: SSAValue) -> list[Operation]:
    """Build the operations that compute the packed elements of the factor from `source`, in the order of its tensor.

    The caller then stores them in panels, each of some adjacent columns of the factor. The operations
    are copies of `grouped.ops`, with `source` for the argument, then a `linalg.generic` of the packed type. Its body
    computes an element by the scalar code of the factor, subtracts `arithmetic.b_offset` and narrows the result. For a
    factor `extsi(x) - 3` with the offset -3, an element is `trunci((extsi(x) - 3) - -3)`.

    Args:
        grouped: The factor.
        source: The value that a dispatch passes for the argument.

    Returns:
        The operations, producers first. The last one returns the packed elements, in the shape of the factor's tensor.
    """
    contraction, arithmetic, factor = grouped.contraction, grouped.arithmetic, grouped.factor
    mapping: dict[SSAValue, SSAValue] = {grouped.argument: source}
    ops = [op.clone(mapping) for op in grouped.ops]
    value = contraction.tensor_of(factor)
    value = mapping.get(value, value)
    element = cast("TensorType[Attribute]", value.type).element_type
    # The body: the factor's scalar code on an element of `value`, then the conversion to the packed type.
    body = Block(arg_types=[element, arithmetic.compute])
    inner = {**mapping, contraction.element_of(factor): body.args[0]}
    body.add_ops([op.clone(inner) for op in factor.code])
    element_of_factor = inner.get(factor.value, factor.value)
    body.add_op(YieldOp(_converted(body, element_of_factor, arithmetic)))
    empty = tensor.EmptyOp([], grouped.packed_type)
    rank = grouped.packed_type.get_num_dims()
    maps = ArrayAttr([AffineMapAttr(AffineMap.identity(rank))] * 2)
    loops = ArrayAttr([IteratorTypeAttr(IteratorType.PARALLEL)] * rank)
    return [*ops, empty, GenericOp([value], [empty.results[0]], Region(body), maps, loops, [grouped.packed_type])]


def _converted(body: Block, value: SSAValue, arithmetic: Arithmetic) -> SSAValue:
    """Append to `body` the conversion of `value`, an element of the factor, to the packed type; return the result."""
    if arithmetic.b_offset:  # subtracted, so that bytes have the sign that the instruction takes
        offset = arith.ConstantOp(IntegerAttr(arithmetic.b_offset, cast("IntegerType", value.type)))
        difference = arith.SubiOp(value, offset)
        body.add_ops([offset, difference])
        value = difference.result
    if not isinstance(arithmetic.compute, IntegerType):
        return unextended(value, arithmetic.compute) or value  # without the extension from bf16 to f32, if any
    if value.type == arithmetic.compute:
        return value
    low_bits = arith.TruncIOp(value, cast("IntegerType", arithmetic.compute))
    body.add_op(low_bits)
    return low_bits.result


def multiply_packed(grouped: Grouped, packed: SSAValue) -> None:
    """Replace the contraction in the dispatch function by one that reads `packed` elements and widens them in its body.

    With the offset -3, the body

        %0 = arith.extsi %b : i8 to i32
        %1 = arith.subi %0, %c3 : i32        // the factor
        %2 = arith.muli %a, %1 : i32

    becomes

        %0 = arith.extsi %packed_element : i8 to i32
        %1 = arith.addi %0, %c-3 : i32       // the same factor
        %2 = arith.muli %a, %1 : i32

    Operations that computed the unpacked factor and have no other use are erased.

    Args:
        grouped: The factor and its contraction.
        packed: Tensor of the packed elements, of type `grouped.packed_type`.
    """
    contraction, arithmetic = grouped.contraction, grouped.arithmetic
    old, operand_index = contraction.op, grouped.factor.main_input
    new = old.clone()
    new.operands[operand_index] = packed
    set_location(new, old)
    block = new.regions[0].block
    # The factor in the clone: old and new body define the same values in the same order.
    old_values, new_values = _values_defined_in(contraction.generic.block), _values_defined_in(block)
    factor = dict(zip(old_values, new_values, strict=True))[contraction.b.value]
    # Widen the packed element, and use the result instead of the factor.
    element = block.insert_arg(arithmetic.compute, operand_index)
    ops = _widened(element, factor.type, arithmetic)
    first = block.first_op
    assert first is not None
    block.insert_ops_before(ops, first)
    factor.replace_all_uses_with(ops[-1].results[0] if ops else element)
    erase_unused([op for op in block.ops if op.results])
    block.erase_arg(block.args[operand_index + 1])  # the argument of the old operand, which `element` has moved by one
    parent = old.parent
    assert parent is not None
    parent.insert_op_before(new, old)
    old.results[0].replace_all_uses_with(new.results[0])
    erase_op(old)
    erase_unused(grouped.ops)


def _widened(element: SSAValue, to: Attribute, arithmetic: Arithmetic) -> list[Operation]:
    """Build the operations that widen a packed element to the type `to`, and add the offset that packing subtracted.

    The result of the last operation is the factor. Return no operations if the types are equal.
    """
    if element.type == to:
        return []
    if not isinstance(to, IntegerType):
        return [arith.ExtFOp(element, cast("Float32Type", to))]
    wide = (arith.ExtUIOp if arithmetic.unsigned_b else arith.ExtSIOp)(element, to)
    if not arithmetic.b_offset:
        return [wide]
    offset = arith.ConstantOp(IntegerAttr(arithmetic.b_offset, to))
    return [wide, offset, arith.AddiOp(wide.result, offset.result)]


def _values_defined_in(block: Block) -> list[SSAValue]:
    """Return the arguments of a block and the results of its operations, in order."""
    return [*block.args, *(result for op in block.ops for result in op.results)]
