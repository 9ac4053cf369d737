"""Rewrites of host functions that compute in narrower types: integers of quantized models, and rounded factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydispatch.compiler.constants.padded_channels import pad_channels
from pydispatch.compiler.constants.rounded import round_factors
from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.fusion.quantized.dequantized import has_integers
from pydispatch.compiler.outline.form import host_functions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from pydispatch.compiler.kernels.matmul.cpu.tiles import Level


def lower_precision(module: ModuleOp, options: Options, levels: Sequence[Level]) -> list[str]:
    """Compute in integers what quantized models state in floats, and round factors as the options permit.

    Args:
        module: The module, whose host functions are changed in place.
        options: Options of the compilation.
        levels: CPU levels of the targets; empty unless all targets are CPUs.

    Returns:
        Sentences about the rounded factors, for `explain`.
    """
    functions = host_functions(module)
    # Quantized models: functions with tensors of integers, whose dequantized values are computed as floats.
    if quantized := list(filter(has_integers, functions)):
        # NumPy, which these modules import, takes a tenth of the time to compile a small program.
        from pydispatch.compiler.fusion.quantized.block_products import multiply_block_scaled
        from pydispatch.compiler.fusion.quantized.rewrites import rewrite_integers
    # For CPUs, products of dequantized factors become products of bytes, whose channels are padded to whole groups.
    if levels:
        distinct = {level.byte_products for level in levels}
        byte_products = distinct.pop() if len(distinct) == 1 else ""  # "": the CPUs have no instruction in common
        for function in quantized:
            rewrite_integers(function, byte_products)
        for function in functions:
            pad_channels(function)
    # Products by weights with a scale for each block of K; their sums are added in another order.
    if options.reassociate:
        for function in quantized:
            multiply_block_scaled(function, bool(levels), options.activation_bits // 8)
    # Round factors to bf16 or f16: with `precision` both factors of a product, with `weight_type` constants only.
    notes: list[str] = []
    element = options.precision or options.weight_type
    if element is not None:
        for function in functions:
            notes += round_factors(function, element, only_constants=options.precision is None)
    return notes
