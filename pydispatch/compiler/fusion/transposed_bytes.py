"""Transpositions of the narrow results of convolutions with channels last: before they are widened, not after.

A quantized convolution of images with channels first computes bytes with channels last. Where the program dequantizes
them, the transposition moves bytes instead of floats, and its dispatch widens them.
"""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import KEPT_ORDER
from pydispatch.compiler.fusion.build import insert_copy
from pydispatch.compiler.fusion.maps import defining_copy, generic_like
from pydispatch.compiler.fusion.quantized.dequantized import element_of
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.ir.affine_maps import is_identity, is_permutation
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of


def transpose_before_widening(function: Operation) -> None:
    """Make the transpositions of a host function move narrow elements, such as bytes, before they are widened.

    The transposed tensors are results of convolutions with channels last, which elementwise operations have widened.
    """
    for op in list(walk(function)):
        # An operation without a parent was erased when an earlier transposition was moved.
        if op.name != GENERIC or op.parent is None or len(op.results) != 1:
            continue
        copy = defining_copy(op.results[0])  # `op`, if it only copies elements
        if copy is not None and is_permutation(copy.maps[0]) and is_identity(copy.maps[1]):
            _rewrite(op, copy)


def _rewrite(op: Operation, copy: Structured) -> None:
    """Transpose narrow elements before elementwise operations widen them, instead of the widened elements.

    Before, with bytes of [14, 14, 64]: `transpose(scale(convert(bytes)))`, which moves f32. After, with the result [64,
    14, 14]: `scale(convert(transpose(bytes)))`, which moves bytes. The narrowest tensor of the chain of elementwise
    operations is transposed. Nothing changes unless it is the result of a convolution with channels last.

    Args:
        op: The transposition.
        copy: The same operation as a `Structured`, which has its operands, indexing maps and iterator types.
    """
    shape = shape_of(op.results[0])
    narrowest, moved = _narrowest_source(copy.inputs[0])
    has_dynamic_size = any(size < 0 for size in shape)
    if not moved or has_dynamic_size or not _has_channels_last(narrowest):
        return
    # Transpose the narrowest value, and apply copies of the operations after it, the first one first.
    result = insert_copy(op, narrowest, copy.maps[0], TensorType(element_of(narrowest), shape))
    identity = AffineMap.identity(len(shape))
    for generic in reversed(moved):
        empty = insert_before(tensor.EmptyOp([], TensorType(element_of(generic.op.results[0]), shape)), op)
        body = generic.op.regions[0].clone()
        result = generic_like(
            generic.op, body, [result], [empty], [identity] * 2, generic.iterators, insertion_point=op
        )
    replace_op(op, result)


def _narrowest_source(value: SSAValue) -> tuple[SSAValue, list[Structured]]:
    """Return the narrowest tensor that unary elementwise operations compute `value` from, and these, the last first.

    It is `value` itself, without operations, if no tensor is narrower.
    """
    narrowest, chain, moved_count = value, list[Structured](), 0
    while (generic := _unary_of(value)) is not None:
        chain.append(generic)
        value = generic.inputs[0]
        if bits_of(element_of(value)) < bits_of(element_of(narrowest)):
            narrowest, moved_count = value, len(chain)
    return narrowest, chain[:moved_count]


def _unary_of(value: SSAValue) -> Structured | None:
    """Return the elementwise generic of one tensor that computes a value for a single reader; None for others."""
    if not isinstance(value, OpResult) or value.op.name != GENERIC or len(list(value.uses)) != 1:
        return None
    generic = structured(value.op)
    is_unary = len(generic.inputs) == len(value.op.results) == 1 and isinstance(generic.inputs[0].type, TensorType)
    is_elementwise = generic.is_parallel and all(map(is_identity, generic.maps))
    reads_initial_value = bool(generic.block.args[-1].uses)
    reads_index = any(inner.name == "linalg.index" for inner in walk(value.op))
    return generic if is_unary and is_elementwise and not reads_initial_value and not reads_index else None


def _has_channels_last(value: SSAValue) -> bool:
    """Return whether a value is computed elementwise from a generic that another pass gave channels last.

    Such generics have the attribute KEPT_ORDER.
    """
    while isinstance(value, OpResult) and value.op.name == GENERIC:
        if KEPT_ORDER in value.op.attributes:
            return True
        generic = structured(value.op)
        if not generic.is_parallel or not generic.inputs:  # without inputs: computed from indices
            return False
        value = generic.inputs[0]
    return False
