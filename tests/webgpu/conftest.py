"""Devices of wgpu: Mesa's lavapipe where there is no GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: threads cost more than they bring on small grids

import pydispatch as pd


@pytest.fixture(params=["webgpu:0", "webgpu:0?staging=1", "webgpu:0?standard=1"], ids=["mapped", "staged", "standard"])
def device(request: pytest.FixtureRequest) -> Any:
    """The first device: with all that it has, without mapped buffers, and with the limits of the standard."""
    return pd.device(request.param)


@pytest.fixture
def wgsl(tmp_path: Path) -> Callable[..., Path]:
    """wgsl(name, text) → the path of a .wgsl."""

    def make(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.wgsl"
        path.write_text(text)
        return path

    return make
