"""The backends that tests run on: what is compiled for, and the device that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pydispatch as pd


@dataclass(frozen=True)
class Backend:
    """targets: of `pydispatch.compile`. device: its name for `pydispatch.device`."""

    name: str
    targets: str
    device: str

    def open(self, **options: object) -> Any:
        """The device, with options beside those of its name; one for each set of options."""
        query = "&".join(f"{key}={value}" for key, value in options.items())
        joined = "&" if "?" in self.device else "?"
        return _open(self.device + (joined + query if query else ""))

    def load(self, source: Any, **options: object) -> Any:
        """The program of a source."""
        return self.open(**options).load(pd.compile(source, targets=self.targets))


@cache
def _open(name: str) -> Any:
    return pd.device(name)


BACKENDS = (
    Backend("cpu", "cpu", "cpu?workers=2"),
    Backend("vulkan", "vulkan", "vulkan:0"),
    Backend("cuda", "cuda", "ptx-interpreter?races=1"),
)
