"""The conversion of `toy.swish` to operations that the compiler knows."""

from xdsl.dialects import arith, math

from pydispatch.compiler.normalize.build import Build
from toy.dialect import SwishOp


def _swish(op: SwishOp, build: Build) -> None:
    """Replace the operation by x / (1 + exp(-x)) on tensors."""
    type = op.result.type
    one = build.splat(1.0, type, build.dynamic_dims(op.source))
    power = build.add(math.ExpOp(build.add(arith.NegfOp(op.source)).result)).result
    total = build.add(arith.AddfOp(one, power)).result
    build.replace(build.add(arith.DivfOp(op.source, total)).result)


CONVERSIONS = {SwishOp.name: _swish}
"""Name of an operation -> function that replaces it."""
