"""Which functions of dispatches are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("count", [8, 1 << 12])
def test_each_byte_of_a_constant_counts(count: int) -> None:
    """Of large constants, too, which are hashed by a sample of their bytes."""

    def with_constant(name: str, values: np.ndarray[Any, Any]) -> object:
        digits = values.tobytes().hex()
        return shape(name, f'%w = arith.constant dense<"0x{digits}"> : tensor<{count}xf32>', SINE, COSINE, DIFFERENCE)

    values = np.arange(count, dtype=np.float32)
    other = values.copy()
    other[count // 3 + 1] = -1
    known = {with_constant("f", values)}
    assert with_constant("g", values.copy()) in known
    assert with_constant("f", other) not in known
