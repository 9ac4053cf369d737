"""Constant factors of f32 products are rounded to bf16 or f16, which halves the bytes that a product reads.

The product widens them again, so products and sums are f32. Only the rounded factor is hoisted into a constant.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.fusion.quantized.dequantized import GenericBody
from pydispatch.compiler.fusion.quantized.zero_points import depends_on_constants
from pydispatch.compiler.fusion.simplify import erase_unused
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of, is_contraction
from pydispatch.ir.affine_maps import is_projected_permutation
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC
from pydispatch.ir.values import shape_of


def round_factors(function: Operation, element: BFloat16Type | Float16Type) -> list[str]:
    """Round the constant factors of the f32 products of a host function, in place.

    Returns:
        A sentence for each product that stays as it is, with its location and the reason.
    """
    rounded = dict[SSAValue, SSAValue]()
    sentences = list[str]()
    for op in list(walk(function)):
        if op.name != GENERIC or op.parent is None or not is_contraction(op):
            continue
        factor = _factor_to_round(op)
        if isinstance(factor, str):
            sentences.append(f"{describe_location(op)} stays {op.results[0].type}: {factor}")
        else:
            _widen(op, factor, rounded, element)
    if rounded:
        erase_unused(function)
    return sentences


def _factor_to_round(op: Operation) -> int | str:
    """Return the number of the operand that is the constant factor of a product, or why none is rounded."""
    contraction = contraction_of(op)
    if contraction is None:
        return "it is no product of two factors that has a kernel of its own"
    if contraction.acc != f32:
        return "its sums are not f32"
    if not all(is_projected_permutation(m) for m in contraction.generic.maps):
        return "it is a convolution or another product of windows"
    constant = [factor for factor in (contraction.b, contraction.a) if _is_constant(contraction, factor)]
    if len(constant) != 1:
        return "neither factor is a constant of f32" if not constant else "both factors are constants"
    return constant[0].main


def _is_constant(contraction: Contraction, factor: Factor) -> bool:
    """Return whether a factor is the element of a tensor of f32 that is computed from constants."""
    g = contraction.generic
    return (
        factor.direct
        and g.block.args[factor.main].type == f32
        and list(g.inputs).count(g.inputs[factor.main]) == 1
        and depends_on_constants(g.inputs[factor.main])
    )


def _widen(op: Operation, operand: int, rounded: dict[SSAValue, SSAValue], element: BFloat16Type | Float16Type) -> None:
    """Replace a product by one that reads a rounded factor and widens each element. rounded: by factor."""
    factor, parent = op.operands[operand], op.parent
    if factor not in rounded:
        assert isinstance(factor, OpResult) and factor.op.parent is not None
        body, identity = GenericBody(), AffineMap.identity(len(shape_of(factor)))
        ops = body.generic(body.add(arith.TruncFOp(body.input(factor, identity), element)), factor, identity)
        factor.op.parent.insert_ops_after(ops, factor.op)  # products in other regions read it, too
        rounded[factor] = ops[-1].results[0]
    new = op.clone()
    new.operands[operand] = rounded[factor]
    block = new.regions[0].block
    wide = block.args[operand]
    narrow = block.insert_arg(element, operand)
    widened = arith.ExtFOp(narrow, f32)
    assert block.first_op is not None and parent is not None
    block.insert_op_before(widened, block.first_op)
    wide.replace_all_uses_with(widened.result)
    block.erase_arg(wide)
    set_location(new, op)
    parent.insert_op_before(new, op)
    replace_op(op, new.results[0])
