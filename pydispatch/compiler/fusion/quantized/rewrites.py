"""Rewrites of operations on dequantized numbers, in the order in which they apply."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.fusion.quantized.moves import quantize_before_moves
from pydispatch.compiler.fusion.quantized.pooling import pool_integers
from pydispatch.compiler.fusion.quantized.products import multiply_integers
from pydispatch.compiler.fusion.quantized.requantize import requantize


def rewrite_integers(function: Operation, byte_products: str) -> None:
    """Make the operations of a host function on dequantized numbers compute with the stored integers, in place.

    byte_products: signs of the bytes that all targets multiply in one instruction, such as "unsigned by signed"; see
        `Level.byte_products`.
    """
    quantize_before_moves(function)
    pool_integers(function)
    multiply_integers(function, byte_products)
    requantize(function)
