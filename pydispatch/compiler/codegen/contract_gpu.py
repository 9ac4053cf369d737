"""Contractions for GPUs."""

from __future__ import annotations

from xdsl.dialects import func

from pydispatch.compiler.codegen.frame import Kernel
from pydispatch.ir import hal


def lower_contraction_gpu(source: func.FuncOp, target: hal.ExecutableTargetAttr) -> Kernel | None:
    """The kernel of a contraction, None when the function is none or has a shape that is done point by point."""
    return None
