"""What runs programs of TOSA."""

from __future__ import annotations

import pytest

import pydispatch as pd
from tosa_programs import Runner


@pytest.fixture(scope="session")
def tosa() -> Runner:
    return Runner(pd.device("cpu"))
