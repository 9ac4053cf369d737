"""The `pdl` dialect of xDSL; unlike there, types and attributes that are constants need no user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import pdl
from xdsl.ir import Dialect

from pydispatch.ir.core.refine import refine


def _check_unless(constant: str) -> Callable[[Any], None]:
    """Return a verifier that runs xDSL's, unless the operation has the property `constant`, its constant value.

    xDSL's verifier refuses types and attributes in a pattern that no operation of the pattern uses. MLIR permits them
    if they are constants.
    """

    def check(op: Any) -> None:
        """Run xDSL's verifier, unless the property `constant` is set: MLIR permits constants without a user."""
        if constant not in op.properties:
            op.verify_()

    return check


refine(pdl.TypeOp, check=_check_unless("constantType"))
refine(pdl.TypesOp, check=_check_unless("constantTypes"))
refine(pdl.AttributeOp, check=_check_unless("value"))

PDL: Dialect = pdl.PDL  # xDSL's dialect, whose operations are refined above
