"""Table of the derivatives of operations."""

from __future__ import annotations

from pydispatch.derivatives.cotangents import Rule
from pydispatch.derivatives.rules.branches import BRANCH_RULES
from pydispatch.derivatives.rules.generic import GENERIC_RULES
from pydispatch.derivatives.rules.kernels import KERNEL_RULES
from pydispatch.derivatives.rules.loops import LOOP_RULES
from pydispatch.derivatives.rules.matrices import MATRIX_RULES
from pydispatch.derivatives.rules.moves import MOVE_RULES
from pydispatch.derivatives.rules.ordering import ORDERING_RULES
from pydispatch.derivatives.rules.scans import SCAN_RULES
from pydispatch.derivatives.rules.scattered import SCATTER_RULES
from pydispatch.derivatives.stated import STATED_RULES

RULES: dict[str, Rule] = {
    **GENERIC_RULES,
    **MOVE_RULES,
    **SCAN_RULES,
    **ORDERING_RULES,
    **SCATTER_RULES,
    **BRANCH_RULES,
    **LOOP_RULES,
    **MATRIX_RULES,
    **KERNEL_RULES,
    **STATED_RULES,
}
"""Rules by the name of the operation."""
