"""Random numbers."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.ir.dialects.stablehlo.attributes import RngAlgorithm, RngDistribution
from pydispatch.ir.dialects.stablehlo.clauses import OneWord
from pydispatch.ir.dialects.stablehlo.syntax import operation

OPERATIONS: list[type[Operation]] = [
    operation(
        "stablehlo.rng", "a b shape", clauses=[OneWord("distribution", RngDistribution, "rng_distribution")], pure=False
    ),
    operation(
        "stablehlo.rng_bit_generator", "initial_state", "output_state output",
        clauses=[OneWord("algorithm", RngAlgorithm, "rng_algorithm")],
    ),
]  # fmt: skip
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones."""
