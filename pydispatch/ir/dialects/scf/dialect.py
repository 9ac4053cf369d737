"""The dialect."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Dialect, Operation

from pydispatch.ir.dialects.scf import control  # noqa: F401  (refines operations of the library)
from pydispatch.ir.dialects.scf.parallel import ForallOp, InParallelOp

_EXTRA: list[type[Operation]] = [ForallOp, InParallelOp]  # operations of MLIR that xDSL lacks
Scf = Dialect("scf", [*scf.Scf.operations, *_EXTRA], [*scf.Scf.attributes])
