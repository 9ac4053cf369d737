"""The library's `pdl` dialect; types and attributes that are constants need no user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import pdl
from xdsl.ir import Dialect

_CONSTANT = {pdl.TypeOp: "constantType", pdl.TypesOp: "constantTypes", pdl.AttributeOp: "value"}


def _relaxed(kind: Any, name: str) -> Callable[[Any], None]:
    library = kind.verify_

    def verify(op: Any) -> None:
        if name not in op.properties:
            library(op)

    return verify


for _kind, _name in _CONSTANT.items():
    setattr(_kind, "verify_", _relaxed(_kind, _name))  # noqa: B010

PDL: Dialect = pdl.PDL
