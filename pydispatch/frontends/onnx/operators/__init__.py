"""Conversions of ONNX operators, one module per subject. Importing this package fills `registry.OPERATORS`."""

from __future__ import annotations

import importlib
import pkgutil

from pydispatch.frontends.onnx.registry import OPERATORS

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = ["OPERATORS"]
