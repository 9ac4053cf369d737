"""Every rule of the tensor operations together: what `Elements` computes with."""

from __future__ import annotations

from pydispatch.compiler.kernels.ops.bodies import clone_op
from pydispatch.compiler.kernels.ops.elements import Rules
from pydispatch.compiler.kernels.ops.producers import pull
from pydispatch.compiler.kernels.ops.shapes import dims_of

RULES = Rules(element=pull, sizes=dims_of, scalar=clone_op)
