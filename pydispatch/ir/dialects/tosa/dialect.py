"""The dialect."""

from __future__ import annotations

from xdsl.ir import Dialect

from pydispatch.ir.dialects.tosa import control, tensors
from pydispatch.ir.dialects.tosa.attributes import ATTRIBUTES

Tosa = Dialect("tosa", [*tensors.OPERATIONS, *control.OPERATIONS], ATTRIBUTES)
