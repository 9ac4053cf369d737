"""Opens `cuda:0` on the fake driver, in the place of the real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeDriver

import pydispatch as pd
from pydispatch.runtime.devices.cuda import device as cuda_device
from pydispatch.runtime.devices.cuda import driver


def install(monkeypatch: pytest.MonkeyPatch, cache: Path, **options: Any) -> FakeDriver:
    """A fake driver that pydispatch takes for the real one. options: of FakeDriver."""
    made = FakeDriver(**options)
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(cache))
    monkeypatch.setitem(sys.modules, driver.MODULE, made)
    restart(monkeypatch)
    return made


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing is open."""
    driver._start.cache_clear()
    monkeypatch.setattr(cuda_device, "_contexts", {})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    """One GPU of compute capability 9.0."""
    yield install(monkeypatch, tmp_path)
    driver._start.cache_clear()


@pytest.fixture
def unfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not filled before use, which takes calls of the driver; before `device`."""
    monkeypatch.delenv("PYDISPATCH_CHECK", raising=False)


@pytest.fixture
def device(fake: FakeDriver) -> Any:
    """cuda:0 on it."""
    return pd.device("cuda:0")
