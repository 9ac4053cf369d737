"""Conversions of PyTorch operators by name. The functions of `nodes` register themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydispatch.frontends.registry import Registry
from pydispatch.graph.values import Tensor

Conversion = Callable[..., Any]
"""Function that emits one operator: function(builder, arguments of the operator...) -> tensor, number or tuple.

A first parameter of the type Tracer is passed the tracer instead of its builder."""

Inverse = Callable[..., Tensor]
"""Function that writes through a view: function(builder, base before the write, new contents of the view, index of the
result that is the view, arguments of the operator after the first...) -> base after the write."""

CONVERSIONS = Registry()
"""Conversions by operator name: `aten.sum.dim_IntList`, or `aten.sum` for all overloads without an own entry."""

converts, register = CONVERSIONS.converts, CONVERSIONS.register

VIEWS: dict[str, Inverse | None] = {}
"""View operators, whose results share the memory of their first argument, with the function that writes through a view.
None marks operators whose result may also be a copy. The name has an overload if that is written in another way."""

Sharing = Callable[..., "bool | None"]
"""Function that decides whether the result of a view operator shares memory: function(tracer, memory of the first
argument, result, arguments by name) -> True for a view, False for a copy, None if that is not known."""

SHARING: dict[str, Sharing] = {}
"""Operators in VIEWS that return a view or a copy, depending on their arguments -> function that decides which."""
