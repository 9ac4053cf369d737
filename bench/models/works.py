"""All models."""

from __future__ import annotations

import language  # noqa: F401
import parts  # noqa: F401
import vision  # noqa: F401
from catalog import Model, models

__all__ = ["Model", "models"]
