"""`flow.tensor.*`: operations on whole tensors."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

OPERATIONS: list[type[Operation]] = []
ATTRIBUTES: list[type[Attribute]] = []
