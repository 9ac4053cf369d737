"""The fake driver is like the real package, and the real package works over it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_driver import ENUMS, FUNCTIONS, STRUCTURES, FakeDriver
from fake_library import SIGNATURES

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def real() -> Any:
    import cuda.bindings.driver

    return cuda.bindings.driver


def test_functions_are_those_of_the_package(real: Any) -> None:
    assert set(FUNCTIONS) == set(SIGNATURES) and len(FUNCTIONS) > 50
    for name in FUNCTIONS:
        mine = list(inspect.signature(getattr(FakeDriver, f"_{name}")).parameters)[1:]
        assert mine == list(inspect.signature(getattr(real, name)).parameters), name


def test_numbers_are_those_of_the_package(real: Any) -> None:
    for kind in ENUMS:
        theirs = getattr(real, kind.__name__)
        assert {item.name: int(item) for item in kind} == {i.name: int(getattr(theirs, i.name)) for i in kind}


def test_structures_have_what_the_package_has(real: Any) -> None:
    for kind in STRUCTURES:
        assert set(kind.__slots__) <= set(dir(getattr(real, kind.__name__))), kind.__name__


def test_every_function_that_is_used_is_there() -> None:
    """What the device calls is what the fake offers, and nothing more."""
    folder = HERE.parents[1] / "pydispatch" / "runtime" / "devices" / "cuda"
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    used = set(re.findall(r"(?:driver|found)\.(cu[A-Z]\w+)", text))
    assert used == set(FUNCTIONS), used ^ set(FUNCTIONS)


def test_the_real_package_over_the_fake_driver(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", HERE / "library_worker.py", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.splitlines()[-1:] == ["ok"], done.stderr[-6000:]
