"""What runs programs of TOSA."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tosa_programs import Runner

import pydispatch as pd


@pytest.fixture(scope="session")
def tosa() -> Runner:
    return Runner(pd.device("cpu"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    runner = pyfuncitem.funcargs.get("tosa")
    try:
        done = yield
        if isinstance(runner, Runner):
            runner.compare()
    finally:
        if isinstance(runner, Runner):
            runner.checks.clear()  # of a test that failed
    return done
