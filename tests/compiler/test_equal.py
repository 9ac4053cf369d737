"""Which functions of dispatches are equal."""

from __future__ import annotations

import pydispatch.ir as ir
from pydispatch.compiler.outline.equal import structural_key

FUNCTION = """
func.func @{name}(%a: tensor<4xf32>) -> tensor<4xf32> {{
  {body}
  return %r : tensor<4xf32>
}}
"""
SINE = "%s = math.sin %a : tensor<4xf32>"
COSINE = "%c = math.cos %a : tensor<4xf32>"
DIFFERENCE = "%r = arith.subf %s, %c : tensor<4xf32>"
OTHER = "%r = arith.subf %c, %s : tensor<4xf32>"


def shape(name: str, *body: str) -> object:
    module = ir.parse(FUNCTION.format(name=name, body="\n  ".join(body)))
    return structural_key(next(iter(module.body.block.ops)))


def test_names_and_the_order_of_operations_without_effects_do_not_count() -> None:
    assert shape("f", SINE, COSINE, DIFFERENCE) == shape("g", COSINE, SINE, DIFFERENCE)


def test_the_order_of_operands_counts() -> None:
    assert shape("f", SINE, COSINE, DIFFERENCE) != shape("f", SINE, COSINE, OTHER)
