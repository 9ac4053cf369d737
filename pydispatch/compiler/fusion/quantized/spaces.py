"""Loops of rewritten products by block-scaled weights: indices over them, and terms in bodies with these loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.fusion.quantized.dequantized import GenericBody
from pydispatch.compiler.fusion.quantized.mixed_radix import Digit, Position, affine, substituted
from pydispatch.compiler.fusion.quantized.terms import TensorElement, Term, elements_in


@dataclass(frozen=True)
class Space:
    """Loops of the generic that replaces a product, and the loops of that product as functions of them.

    Attributes:
        sizes: Number of iterations of each new loop; None where dynamic.
        positions: K_LOOP (all reduction loops as one), N_LOOP (all column loops as one), or a loop that both factors
            have → its index, a sum of stride * digit. A digit is `loop // place_value % size` of a new loop.
        rows: Loop of the original product that the weights lack → new loop. Empty for loops that only pack weights.
    """

    sizes: tuple[int | None, ...]
    positions: Mapping[int, Position]
    rows: Mapping[int, int] = field(default_factory=dict)

    def index(self, position: Position) -> AffineExpr | None:
        """Return an index over the original product's loops as an expression of the new ones; None if not affine."""
        new_position = substituted(position, self.positions)
        return None if new_position is None else affine(new_position, dict(enumerate(self.sizes)))

    def index_map(self, at: Sequence[Position]) -> AffineMap | None:
        """Return the map from the new loops to the index `at` in a tensor; None if it is not affine.

        at: for each dimension of the tensor, the index over the loops of the original product.
        """
        results = [r for position in at if (r := self.index(position)) is not None]
        return AffineMap(len(self.sizes), 0, tuple(results)) if len(results) == len(at) else None

    def digits(self, at: Sequence[Position], shape: Sequence[int]) -> list[list[Digit]] | None:
        """Return for each dimension of a tensor the whole loops that index it, outermost first.

        Each loop is returned as the digit `loop // 1 % size`, where `size` is its number of iterations. With loops of
        sizes 8 and 4, the index 4 * d0 + d1 of a dimension of size 32 gives d0 and d1. A dimension of size 1 gives one
        digit of size 1. Return None if an index is no such sum of whole loops.

        Args:
            at: For each dimension of the tensor, the index over the loops of the original product.
            shape: Sizes of the tensor.
        """
        dims = list[list[Digit]]()
        for position, size in zip(at, shape, strict=True):
            new_position, expected_stride = substituted(position, self.positions), 1
            for stride, digit in reversed(new_position or ()):  # innermost loop first: strides descend
                is_whole_loop = digit.place_value == 1 and digit.size == self.sizes[digit.loop]
                if stride != expected_stride or not is_whole_loop:
                    return None
                expected_stride *= digit.size
            if new_position is None or expected_stride != size:
                return None
            # A dimension of size 1 needs no loop; its digit of size 1 is always 0.
            dims.append([digit for _, digit in new_position] or [Digit(loop=0, place_value=1, size=1)])
        return dims

    def can_index(self, terms: Sequence[Term]) -> bool:
        """Return whether the index of each element that terms read is an affine expression of the new loops."""
        return all(self.index_map(element.at) is not None for term in terms for element in elements_in(term))

    def emit(self, body: GenericBody, term: Term) -> SSAValue:
        """Add the computation of a term that `can_index` accepts to a body with these loops, and return its value."""
        if isinstance(term, TensorElement):
            index = self.index_map(term.at)
            assert index is not None
            return body.input(term.tensor, index)
        return body.add(term.build([self.emit(body, operand) for operand in term.operands]))


def as_float(body: GenericBody, value: SSAValue) -> SSAValue:
    """Add the conversion of a signed integer to f32; return an f32 value as it is."""
    return body.add(arith.SIToFPOp(value, f32)) if isinstance(value.type, IntegerType) else value
