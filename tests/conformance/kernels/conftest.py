from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernel_targets
import pytest

from pydispatch.errors import CompileError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True, params=kernel_targets.LOADERS)
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each target in turn: what `kernel_targets.load` compiles for."""
    kernel_targets.chosen[0] = request.param
    yield request.param
    kernel_targets.chosen[0] = next(iter(kernel_targets.LOADERS))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def _case(item: pytest.Function) -> str:
    """The name of a test with its parameters, those left out that choose a target."""
    given = {name: value for name, value in item.callspec.params.items() if name not in ("target", "cpu")}
    words = "-".join(_text(value) for value in given.values())
    return f"{item.originalname}[{words}]" if words else str(item.originalname)


def _belongs(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or item.path.parent != HERE:
        return True
    parameters = item.callspec.params
    left_out = kernel_targets.ELSEWHERE.get(parameters["target"], {})
    repeats = parameters["target"] != "cpu" and parameters.get("cpu") == "generic"
    return item.originalname not in left_out and not repeats


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _belongs(item)]


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    outcome: Any = yield
    callspec = getattr(pyfuncitem, "callspec", None)
    refused = kernel_targets.REFUSED.get(callspec.params.get("target", ""), {}) if callspec else {}
    message = refused.get(_case(pyfuncitem)) if refused else None
    if message is not None:
        with pytest.raises(CompileError, match=message):
            outcome.get_result()
        outcome.force_result(True)
