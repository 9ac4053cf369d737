"""Factors of f32 products are rounded to bf16 or f16: constant ones, which halves the bytes that a product reads, or
both, so that targets with products of bf16 use them.

The product widens them again, so sums are f32. Only the rounded constant is hoisted into a constant; other factors are
rounded as the product reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.fusion.quantized.dequantized import GenericBody
from pydispatch.compiler.fusion.quantized.zero_points import depends_on_constants
from pydispatch.compiler.kernels.matmul.gathered import gathered_pages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of, is_contraction
from pydispatch.ir.affine_maps import is_projected_permutation
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC
from pydispatch.ir.values import shape_of


def round_factors(
    function: Operation, element: BFloat16Type | Float16Type, *, only_constants: bool = True
) -> list[str]:
    """Round the factors of the f32 products of a host function, in place.

    A product reads the rounded factors and widens their elements again, so that its sums stay f32. Half as many bytes
    are read of a constant factor, and targets can use their instructions for bf16 if both factors are rounded.

    Args:
        function: The host function.
        element: The type that factors are rounded to.
        only_constants: Whether only the factor that is a constant is rounded.

    Returns:
        A sentence for each product that stays as it is, with its location and the reason, such as
            "12:5 matmul stays tensor<4x4xf32>: neither factor is a constant of f32".
    """
    rounded = dict[SSAValue, SSAValue]()  # constant → its rounded copy, which several products may read
    sentences = list[str]()
    for op in list(walk(function)):
        if op.name != GENERIC or op.parent is None or not is_contraction(op):
            continue
        factors = _factors_to_round(op, only_constants)
        if isinstance(factors, str):  # why none is rounded
            sentences.append(f"{describe_location(op)} stays {op.results[0].type}: {factors}")
        else:
            _round(op, factors, rounded, element)
    if rounded:  # the original constants may be unused now
        erase_unused(function)
    return sentences


@dataclass(frozen=True)
class _Factors:
    """Operands of a product that are rounded.

    Attributes:
        constant: Index of the operand that is computed from constants, of which a rounded copy is stored; None without.
        others: Indices of the operands whose elements the product rounds as it reads them.
    """

    constant: int | None
    others: tuple[int, ...]


def _factors_to_round(op: Operation, only_constants: bool) -> _Factors | str:
    """Return the factors of a product that are rounded, or a clause that says why none is.

    With `only_constants`, the constant factor is rounded, so that fewer bytes are read. Otherwise both factors are
    rounded or none, since instructions that multiply bf16 take it for both.

    Args:
        op: A generic that adds up products of two factors.
        only_constants: Whether only the factor that is a constant is rounded.

    Returns:
        The factors; or the end of the sentence "<location> stays <type>: ...", such as "its sums are not f32".
    """
    contraction = contraction_of(op)
    if contraction is None:
        return "it is no product of two factors that has a kernel of its own"
    if contraction.acc != f32:
        return "its sums are not f32"
    if not all(is_projected_permutation(m) for m in contraction.generic.maps):
        return "it is a convolution or another product of windows"
    factors = (contraction.b, contraction.a)
    # Pages are blocks of a cache of keys and values that a table selects. Rounding would copy the gathered tensor.
    if any(gathered_pages(contraction.tensor_of(factor)) is not None for factor in factors):
        return "a factor is gathered pages, which attention reads in place"
    constants = [factor.main_input for factor in factors if _is_constant(contraction, factor)]
    if len(constants) == 2:  # the product is itself a constant
        return "both factors are constants"
    if only_constants:
        return _Factors(constants[0], ()) if constants else "neither factor is a constant of f32"
    others = [f.main_input for f in factors if f.main_input not in constants and _is_element(contraction, f)]
    if len(constants) + len(others) < 2:
        return "a factor is no element of a tensor of f32"
    return _Factors(constants[0] if constants else None, tuple(others))


def _is_element(contraction: Contraction, factor: Factor) -> bool:
    """Return whether a factor is the element of a tensor of f32, not a value that the product computes from it."""
    return factor.is_element and contraction.element_of(factor).type == f32


def _is_constant(contraction: Contraction, factor: Factor) -> bool:
    """Return whether a factor is the element of a tensor of f32 that is computed from constants."""
    value = contraction.tensor_of(factor)
    is_read_once = list(contraction.generic.inputs).count(value) == 1  # rounding one factor of a square rounds both
    return _is_element(contraction, factor) and is_read_once and depends_on_constants(value)


def _round(
    op: Operation, factors: _Factors, rounded: dict[SSAValue, SSAValue], element: BFloat16Type | Float16Type
) -> None:
    """Replace a product by one of factors rounded to `element`.

    With %a among `factors.others`, %w the constant and bf16 for `element`, the body

        ^(%a: f32, %w: f32, %sum: f32): mulf %a, %w ...

    becomes

        ^(%a: f32, %narrow: bf16, %sum: f32):
          %0 = arith.truncf %a : f32 to bf16
          %1 = arith.extf %0 : bf16 to f32
          %2 = arith.extf %narrow : bf16 to f32
          mulf %1, %2 ...

    Kernels recognize a factor that is widened from bf16.

    Args:
        op: The product.
        factors: Its factors to round.
        rounded: Constant → its rounded copy. New copies are added, for other products by the same constant.
        element: The type that factors are rounded to.
    """
    new, parent = op.clone(), op.parent
    block = new.regions[0].block
    for operand in factors.others:  # round each element, and widen it again
        wide = block.args[operand]
        narrow = arith.TruncFOp(wide, element)
        widened = arith.ExtFOp(narrow.result, f32)
        wide.replace_all_uses_with(widened.result)
        narrow.operands[0] = wide  # the replacement of the uses of `wide` changed this operand, too
        assert block.first_op is not None
        block.insert_ops_before([narrow, widened], block.first_op)
    if factors.constant is not None:
        _read_rounded(new, factors.constant, rounded, element)
    set_location(new, op)
    assert parent is not None
    parent.insert_op_before(new, op)
    replace_op(op, new.results[0])


def _read_rounded(
    new: Operation, operand: int, rounded: dict[SSAValue, SSAValue], element: BFloat16Type | Float16Type
) -> None:
    """Let a product read a rounded constant, and widen each element in its body.

    With bf16, the argument `%w: f32` of the body becomes `%narrow: bf16`, and its uses read
    `arith.extf %narrow : bf16 to f32`.

    Args:
        new: The product, which is changed.
        operand: Index of the operand that is rounded.
        rounded: Constant → its rounded copy, which is created on first use.
        element: Element type of the copy.
    """
    factor = new.operands[operand]
    if factor not in rounded:
        rounded[factor] = _rounded_copy(factor, element)
    new.operands[operand] = rounded[factor]
    # Replace the argument of the body for this operand by one of the narrow type, widened.
    block = new.regions[0].block
    wide = block.args[operand]
    narrow = block.insert_arg(element, operand)
    widened = arith.ExtFOp(narrow, f32)
    assert block.first_op is not None
    block.insert_op_before(widened, block.first_op)
    wide.replace_all_uses_with(widened.result)
    block.erase_arg(wide)


def _rounded_copy(factor: SSAValue, element: BFloat16Type | Float16Type) -> SSAValue:
    """Insert after a constant a generic that rounds its elements to a narrower type, and return the rounded tensor.

    It is inserted next to the constant because products in other regions read the copy, too.
    """
    assert isinstance(factor, OpResult) and factor.op.parent is not None
    body, identity = GenericBody(), AffineMap.identity(len(shape_of(factor)))
    narrowed = body.add(arith.TruncFOp(body.input(factor, identity), element))
    ops = body.generic(narrowed, like=factor, index=identity)  # operations of the output, then the generic
    factor.op.parent.insert_ops_after(ops, factor.op)
    return ops[-1].results[0]
