"""Conversions of ONNX operators by name. The functions of `operators` register themselves."""

from __future__ import annotations

from collections.abc import Mapping

from pydispatch.frontends.registry import Registry

ONNX = Registry()
"""Conversions of ONNX's own operators."""
MICROSOFT = Registry()
"""Conversions of the operators that ONNX Runtime adds."""

OPERATORS: Mapping[str, Registry] = {"": ONNX, "com.microsoft": MICROSOFT}
"""The conversions of each domain; "" is ai.onnx."""
