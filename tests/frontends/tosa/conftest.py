"""What runs programs of TOSA."""

from __future__ import annotations

import pytest
from tosa_programs import Runner

import pydispatch as pd


@pytest.fixture(scope="session")
def tosa() -> Runner:
    return Runner(pd.device("cpu"))
