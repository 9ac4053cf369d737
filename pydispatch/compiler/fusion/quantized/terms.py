"""Terms of block-scaled weights: scalar expressions of their zero points, scales and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.fusion.quantized.dequantized import element_of
from pydispatch.compiler.fusion.quantized.mixed_radix import Position


@dataclass(frozen=True)
class TensorElement:
    """Element of `tensor` at the index `at`: for each dimension, a sum of digits of the loops of the product."""

    tensor: SSAValue
    at: tuple[Position, ...]


@dataclass(frozen=True)
class Computed:
    """Result of a scalar operation on other terms.

    Attributes:
        kind: Class of the operation, such as `arith.ExtFOp`, by which patterns match the term.
        build: Creates the operation from the values of its operands.
        operands: Terms of these operands.
    """

    kind: type[Operation]
    build: Callable[[Sequence[SSAValue]], Operation]
    operands: tuple[Term, ...] = ()


Term = TensorElement | Computed
"""Scalar expression of a zero point, scale or offset."""


def elements_in(term: Term) -> Iterator[TensorElement]:
    """Yield the elements of tensors that a term reads."""
    if isinstance(term, TensorElement):
        yield term
        return
    for operand in term.operands:
        yield from elements_in(operand)


def stored_integer(term: Term) -> tuple[TensorElement, bool] | None:
    """Match a term that is an element of a tensor of integers, perhaps widened or converted to a float.

    Return the element, and whether it is signed: of `sitofp(extui(t[i]))`, t[i] and False. Return None for other terms.
    """
    if isinstance(term, TensorElement):
        return (term, True) if isinstance(element_of(term.tensor), IntegerType) else None
    if term.kind not in (arith.SIToFPOp, arith.UIToFPOp, arith.ExtSIOp, arith.ExtUIOp):
        return None
    (operand,) = term.operands
    inner = stored_integer(operand)
    if inner is None:
        return None
    is_signed = term.kind in (arith.SIToFPOp, arith.ExtSIOp)
    if isinstance(operand, TensorElement):  # the conversion of the element itself states the sign of the element
        element, _ = inner
        return element, is_signed
    # A second conversion keeps all values only if it is signed: uitofp(extsi(t[i])) changes negative ones.
    return inner if is_signed else None


def constant_of(term: Term) -> float | None:
    """Return the value of a term that is a constant of a float type; None for other terms."""
    if not isinstance(term, Computed) or term.kind is not arith.ConstantOp:
        return None
    constant = term.build(())  # a constant has no operands
    assert isinstance(constant, arith.ConstantOp)
    return float(constant.value.value.data) if isinstance(constant.value, FloatAttr) else None


def term_before_widening(term: Term) -> TensorElement | None:
    """Match `extf(t[i])` with elements of a narrower float type, such as f16, and return t[i]; None for other terms."""
    if not isinstance(term, Computed) or term.kind is not arith.ExtFOp:
        return None
    return term.operands[0] if isinstance(term.operands[0], TensorElement) else None


def computed_by(op: Operation, *operands: Term) -> Term:
    """Return the term of a scalar operation like `op` with the terms `operands` in place of its operands."""

    def build(values: Sequence[SSAValue]) -> Operation:
        """Clone `op` with these values as its operands."""
        return op.clone(dict(zip(op.operands, values, strict=True)))

    return Computed(type(op), build, operands)
