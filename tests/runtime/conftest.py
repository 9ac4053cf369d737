from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import programs
import pytest

import pydispatch as pd
from pydispatch.runtime.program.program import Program


@pytest.fixture(scope="session")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pdx") / "standard.pdx"
    programs.standard().save(path)
    return path


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def program(request: pytest.FixtureRequest, pdx: Path) -> Iterator[Program]:
    device = pd.device(request.param)
    before = device.memory()["live_blocks"]
    with device.load(pdx) as program:
        yield program
    del program
    assert device.memory()["live_blocks"] == before, "memory that nobody uses is still held"


@pytest.fixture(scope="session")
def strict() -> Program:
    """The standard program, as if its kernels needed 64-byte aligned bindings."""
    return pd.device("local-sync").load(programs.standard(alignment=64))
