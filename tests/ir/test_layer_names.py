"""What a text says of where its operations come from: errors, dispatches and calls name the layer."""

from __future__ import annotations

import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.ir.core.locations import location_of

PROGRAM = """
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.addf %x, %y : tensor<?xf32> loc(#loc3)
  %1 = arith.mulf %0, %y : tensor<?xf32> loc("direct"("file.py":1:2))
  %2 = math.exp %1 : tensor<?xf32> loc(callsite(#loc3 at #loc1))
  %3 = math.tanh %2 : tensor<?xf32> loc(fused<"pass">["first", "second"])
  %4 = math.sqrt %3 : tensor<?xf32> loc(#loc1)
  %5 = math.sin %4 : tensor<?xf32> loc(#loc5)
  %6 = math.cos %5 : tensor<?xf32> loc(unknown)
  %7 = math.absf %6 : tensor<?xf32> loc("last")
  return %7 : tensor<?xf32> loc(#loc9)
}
#loc1 = loc("model.py":287:8 to 292:5)
#loc3 = loc("jit(f)/dense/add"(#loc1))
#loc5 = loc(#loc5)
"""


def test_names_of_origins() -> None:
    module = ir.parse(PROGRAM, "model.mlir")
    function = module.body.block.first_op
    assert function is not None
    places = [location_of(op) for op in function.regions[0].block.ops]
    assert [p.layer for p in places if p is not None] == [
        "jit(f)/dense/add", "direct", "jit(f)/dense/add", "first", "", "", "", "last", ""
    ]  # fmt: skip
    assert str(places[0]) == "model.mlir:3:8 (jit(f)/dense/add)"
    assert str(places[4]) == "model.mlir:7:8"


def test_a_call_that_fails_names_the_layer() -> None:
    import numpy as np

    program = pd.device("cpu").load(pd.compile(PROGRAM))
    with pytest.raises(pd.InvalidArgumentError, match=r"<text>:10:8 \(last\)"):
        program.main(np.zeros(3, np.float32), np.zeros(4, np.float32))
