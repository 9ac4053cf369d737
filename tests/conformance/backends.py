"""The backends that tests run on: what is compiled for, and the device that runs it."""

from __future__ import annotations

import os
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


ALL = (
    Backend("cpu", "cpu", "cpu?workers=2"),
    Backend("vulkan", "vulkan", "vulkan:0"),
    Backend("cuda", "cuda", "ptx-interpreter?races=1"),
    Backend("webgpu", "webgpu", "webgpu:0"),
)
BACKENDS = ALL[3:] if os.environ.get("PYDISPATCH_WEBGPU") else ALL[:3]
"""Those that tests run on: WebGPU in the suite `web`, the others in `make test`."""
