"""Kernels and drivers of the folders of each device, and one fixture for all devices."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("cuda", "vulkan", "webgpu")]
os.environ["PYDISPATCH_VULKAN_VALIDATION"] = "1"
os.environ.setdefault("LP_NUM_THREADS", "0")  # lavapipe: threads cost more than they bring on small grids

from cuda_fake import fake  # noqa: E402
from device_table import DEVICES, Device, name_of  # noqa: E402

import pydispatch as pd  # noqa: E402

__all__ = ["fake"]  # a fixture


@pytest.fixture(params=DEVICES, ids=name_of)
def row(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each device in turn; the validation layer of Vulkan must print nothing."""
    found: Device = request.param
    if found.is_fake:
        request.getfixturevalue("fake")
    messages: list[str] = []
    if found.target == "vulkan":
        from pydispatch.runtime.devices.vulkan.instance import instance

        messages = instance().messages
    before = len(messages)
    yield found
    assert messages[before:] == []


@pytest.fixture
def device(row: Device) -> Any:
    return pd.device(row.device)


@pytest.fixture(scope="session")
def artifact_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Device], Any]:
    """Return the artifact of `device_table.PROGRAM` for a device, compiled once for each target."""
    first = {row.target: row for row in reversed(DEVICES)}

    @functools.cache
    def compiled(target: str) -> Any:
        return first[target].compiled(first[target].kernels(tmp_path_factory.mktemp(target)))

    return lambda row: compiled(row.target)


@pytest.fixture
def program(row: Device, device: Any, artifact_of: Callable[[Device], Any]) -> Any:
    return device.load(artifact_of(row))
