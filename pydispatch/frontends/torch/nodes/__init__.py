"""Conversions of PyTorch operators, one module per subject. Importing this package fills `registry.CONVERSIONS`."""

from __future__ import annotations

import importlib
import pkgutil

from pydispatch.frontends.torch.registry import CONVERSIONS, SHARING, VIEWS, register

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

_COPIES = ("view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "select", "slice", "narrow", "split",
           "split_with_sizes", "unbind", "diagonal", "unfold", "unflatten")  # fmt: skip
"""Views that also exist as `<name>_copy`, an operator that returns a copy."""
register({f"aten.{name}_copy": CONVERSIONS[f"aten.{name}"] for name in _COPIES})

__all__ = ["CONVERSIONS", "SHARING", "VIEWS"]
