"""Quantization before concatenations and gathers: they move bytes in place of floats.

A chain of elementwise operations that converts the result of a concatenation or gather to 8-bit integers is applied to
its operands instead, if nothing else reads the result. Each operand can then be quantized by the kernel that computes
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.quantized.dequantized import element_of
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

BYTE = 8
"""Bits of the integers to which results are quantized."""


def quantize_before_moves(function: Operation) -> None:
    """Move quantization before the concatenations and gathers of a host function, in place, where it is the only reader
    of their result.
    """
    changed = False
    # In reverse order: a quantization that has moved before one operation may then move before an earlier one, too.
    for op in reversed(list(walk(function))):
        if isinstance(op, tensor.ConcatOp):
            changed = _rewrite_concat(op) or changed
        elif op.name == GENERIC and (extract := _extract_of(cast(GenericOp, op))) is not None:
            changed = _rewrite_gather(cast(GenericOp, op), extract) or changed
    if changed:
        erase_unused(function)


def _rewrite_concat(op: tensor.ConcatOp) -> bool:
    """Apply the elementwise operations that follow a concatenation to its operands instead; return whether it did."""
    chain = _chain_after(op)
    if not chain or not all(_is_static(value) for value in op.operands):
        return False
    quantized = [_applied(chain, value, op) for value in op.operands]
    type_ = TensorType(element_of(quantized[0]), shape_of(op.results[0]))
    concat = tensor.ConcatOp.build(operands=[quantized], result_types=[type_], properties=op.properties)
    _replace(op, chain, insert_before(concat, op))
    return True


def _rewrite_gather(op: GenericOp, extract: tensor.ExtractOp) -> bool:
    """Apply the elementwise operations that follow a gather to its source instead; return whether it did.

    `quantize(gather(source, indices))` moves f32; it becomes `gather(quantize(source), indices)`, which moves bytes.
    The source must not have more elements than the result: the operations would be computed more often.

    extract: the operation in its body that reads the source.
    """
    source, result = extract.tensor, op.results[0]
    chain = _chain_after(op)
    if not chain or not _is_static(source) or prod(shape_of(source)) > prod(shape_of(result)):
        return False
    quantized = _applied(chain, source, op)  # the source, quantized by copies of these operations
    type_ = TensorType(element_of(quantized), shape_of(result))
    body = _body_with_source(op, quantized)
    empty = insert_before(tensor.EmptyOp([], type_), op)
    gather = GenericOp(op.inputs, [empty], body, op.indexing_maps, op.iterator_types, [type_])
    _replace(op, chain, insert_before(gather, op))
    return True


def _body_with_source(gather: GenericOp, source: SSAValue) -> Region:
    """Return a copy of a gather's body that extracts elements of another source, perhaps of another type."""
    element = element_of(source)
    body = gather.body.clone()
    block = body.block
    # The argument for the output, and the extract, get the new element type.
    output = block.args[len(gather.inputs)]
    new_output = block.insert_arg(element, output.index)
    output.replace_all_uses_with(new_output)
    block.erase_arg(output)
    old_extract = next(inner for inner in block.ops if isinstance(inner, tensor.ExtractOp))
    new_extract = tensor.ExtractOp(source, old_extract.indices, element)
    block.insert_op_before(new_extract, old_extract)
    old_extract.result.replace_all_uses_with(new_extract.result)
    erase_op(old_extract)
    return body


def _replace(op: Operation, chain: Sequence[GenericOp], value: SSAValue) -> None:
    """Replace the result of the chain of operations after `op` by `value`, and erase the chain and `op`."""
    chain[-1].results[0].replace_all_uses_with(value)
    for unused in (*reversed(chain), op):
        erase_op(unused)


def _extract_of(op: GenericOp) -> tensor.ExtractOp | None:
    """Return the tensor.extract whose element a generic yields, if the generic is a gather; None for others.

    A gather has a static shape, computes each element from one tensor.extract, and reads a tensor from outside of it.
    """
    block = op.body.block
    terminator = block.last_op
    if len(op.results) != 1 or terminator is None:
        return None
    extract = terminator.operands[0].owner
    if not isinstance(extract, tensor.ExtractOp):
        return None
    is_from_outside = extract.tensor.owner is not block
    is_only_extract = sum(isinstance(inner, tensor.ExtractOp) for inner in block.ops) == 1
    is_gather = structured(op).is_parallel and is_from_outside and is_only_extract
    return extract if is_gather and _is_static(op.results[0]) else None


def _chain_after(move: Operation) -> list[GenericOp]:
    """Return the elementwise operations that convert the result of a concatenation or gather to bytes.

    In `to_i8(round(div(concat)))` these are the division, the rounding and the conversion. The first operation reads
    the result of `move`. Each other one is the only reader of the operation before it. The result of the last one has
    8-bit integers.

    The list is empty if there is no such chain: a value has several readers or a dynamic size, a reader is not
    elementwise on this value alone, or it cannot precede `move`.

    move: the concatenation or gather.
    """
    chain: list[GenericOp] = []
    value: SSAValue = move.results[0]
    while value.uses.get_length() == 1 and _is_static(value):
        (use,) = value.uses
        op = use.operation
        if not isinstance(op, GenericOp) or not _is_unary(op) or not _can_precede(op, move):
            break
        chain.append(op)
        value = op.results[0]
        if isinstance(element := element_of(value), IntegerType) and element.width.data == BYTE:
            return chain
    return []


def _is_unary(op: GenericOp) -> bool:
    """Return whether a generic computes each element from the element of its only input at the same index alone."""
    if len(op.inputs) != 1 or len(op.results) != 1 or not structured(op).is_parallel:
        return False
    reads_initial_value = op.body.block.args[1].uses.get_length() > 0
    reads_index = any(inner.name == "linalg.index" for inner in op.body.block.ops)
    if reads_initial_value or reads_index:
        return False
    shape = shape_of(op.results[0])
    maps = [attribute.data for attribute in op.indexing_maps.data]
    return shape_of(op.inputs[0]) == shape and all(_is_identity_up_to_units(m, shape) for m in maps)


def _can_precede(op: GenericOp, move: Operation) -> bool:
    """Return whether `op` may run before `move`: both are in one block, and the body of `op` reads no tensors and only
    values from outside that are defined before `move`.
    """
    if op.parent is not move.parent:
        return False
    body = op.body.block
    for value in inputs_of(op)[len(op.operands) :]:  # the values that the body reads follow the operands
        if value.owner is body or value.owner.parent is body:  # computed in the body itself
            continue
        is_defined_later = (
            isinstance(value, OpResult) and value.op.parent is move.parent and not value.op.is_before_in_block(move)
        )
        if isinstance(value.type, TensorType) or is_defined_later:
            return False
    return True


def _is_identity_up_to_units(index: AffineMap, shape: Sequence[int]) -> bool:
    """Return whether a map is the identity, but for dimensions of size 1, whose index may be the constant 0."""
    if len(index.results) != len(shape):
        return False
    for axis, result in enumerate(index.results):
        is_own_dim = isinstance(result, AffineDimExpr) and result.position == axis
        is_zero = isinstance(result, AffineConstantExpr) and result.value == 0
        if not is_own_dim and not (is_zero and shape[axis] == 1):
            return False
    return True


def _is_static(value: SSAValue) -> bool:
    """Return whether a value is a tensor without dynamic sizes."""
    return isinstance(value.type, TensorType) and value.type.has_static_shape()


def _applied(chain: Sequence[GenericOp], value: SSAValue, insertion_point: Operation) -> SSAValue:
    """Insert copies of a chain of unary elementwise operations before `insertion_point`; return the last one's result.

    The first copy reads `value`, whose shape is static. The copies have this shape instead of that of the chain.
    """
    identity = AffineMap.identity(len(shape_of(value)))
    for op in chain:
        result_type = TensorType(element_of(op.results[0]), shape_of(value))
        empty = insert_before(tensor.EmptyOp([], result_type), insertion_point)
        kinds = iterator_types(["parallel"] * len(shape_of(value)))
        maps = affine_maps([identity, identity])
        value = insert_before(GenericOp([value], [empty], op.body.clone(), maps, kinds, [result_type]), insertion_point)
    return value
