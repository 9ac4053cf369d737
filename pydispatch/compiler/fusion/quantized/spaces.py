"""Loops of rewritten products by block-scaled weights: indices over them, and terms in bodies with these loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.fusion.quantized.dequantized import GenericBody
from pydispatch.compiler.fusion.quantized.mixed_radix import Digit, Position, affine, substituted
from pydispatch.compiler.fusion.quantized.terms import TensorElement, Term, elements_in


@dataclass(frozen=True)
class Space:
    """The loops of a rewritten product.

    Attributes:
        sizes: Their sizes; None where dynamic.
        positions: The index of STEPS, COLUMNS and each loop that both factors have, over the new loops.
        rows: For each row loop of the product, the new loop.
    """

    sizes: tuple[int | None, ...]
    positions: Mapping[int, Position]
    rows: Mapping[int, int]

    def index(self, position: Position) -> AffineExpr | None:
        """Return an index over the loops of the weights as an expression of the new loops, or None."""
        new = substituted(position, self.positions)
        return None if new is None else affine(new, dict(enumerate(self.sizes)))

    def map(self, at: Sequence[Position]) -> AffineMap | None:
        """Return the map from the new loops to an index, or None."""
        results = [r for position in at if (r := self.index(position)) is not None]
        return AffineMap(len(self.sizes), 0, tuple(results)) if len(results) == len(at) else None

    def digits(self, at: Sequence[Position], shape: Sequence[int]) -> list[list[Digit]] | None:
        """Return for each dimension of a tensor the loops that it is collapsed from, outermost first, or a digit of
        size 1; None where an index is another one. at: the index in the tensor. shape: its sizes.
        """
        dims = list[list[Digit]]()
        for position, size in zip(at, shape, strict=True):
            digits, stride_of_digit = substituted(position, self.positions), 1
            for stride, digit in reversed(digits or ()):
                if stride != stride_of_digit or digit.low != 1 or digit.size != self.sizes[digit.loop]:
                    return None
                stride_of_digit *= digit.size
            if digits is None or stride_of_digit != size:
                return None
            dims.append([digit for _, digit in digits] or [Digit(0, 1, 1)])
        return dims

    def has(self, terms: Sequence[Term]) -> bool:
        """Return whether the index of each element that terms read is an expression of the new loops."""
        return all(self.map(element.at) is not None for term in terms for element in elements_in(term))

    def emit(self, body: GenericBody, term: Term) -> SSAValue:
        """Add the computation of a term to a body with these loops, and return its value."""
        if isinstance(term, TensorElement):
            index = self.map(term.at)
            assert index is not None
            return body.input(term.tensor, index)
        return body.add(term.build([self.emit(body, operand) for operand in term.operands]))


def as_float(body: GenericBody, value: SSAValue) -> SSAValue:
    """Add the conversion of a signed integer to f32; return an f32 value as it is."""
    return body.add(arith.SIToFPOp(value, f32)) if isinstance(value.type, IntegerType) else value
