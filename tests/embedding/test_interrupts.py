"""Calls through the function table that end early: by a question of the extension's own, and by Python's signals."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import hooked
import numpy as np
import pytest
from embedding_build import HERE, build, import_file

import pydispatch as pd

N = 100_000  # workgroups that sleep a millisecond each
OK, INVALID_ARGUMENT, INTERRUPTED = 0, 1, 10
Hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(scope="module")
def interrupt(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_file(build(HERE / "interrupt.c", tmp_path_factory.mktemp("interrupt")))


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def program(request: pytest.FixtureRequest) -> Any:
    device = pd.device(request.param)
    device.add_import("hook", Hook(lambda params, context, reserved: 0))
    return device.load(hooked.build())


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ["signal", "signal_state"])
def test_python_hears_signals(interrupt: ModuleType, program: Any, name: str) -> None:
    counts = np.zeros(N, np.float32)
    with pytest.raises(KeyboardInterrupt):
        interrupt.run(program, name, N, counts, -1)
    assert counts.sum() < N // 10
    assert program.total() == 0
    assert interrupt.run(program, name, 3, counts, -1) == (OK, "")


@pytest.mark.parametrize("name", ["signal", "signal_state"])
def test_an_extension_asks_by_itself(interrupt: ModuleType, program: Any, name: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    counts = np.zeros(N, np.float32)
    code, text = interrupt.run(program, name, N, counts, 2)
    assert code == INTERRUPTED and "the call was interrupted" in text
    assert counts.sum() < N // 10 and program.total() == 0


def test_a_structure_that_is_not_filled_in(interrupt: ModuleType, program: Any) -> None:
    code, text = interrupt.run(program, "ask", 3, np.zeros(3, np.float32), -2)
    assert code == INVALID_ARGUMENT and "set its size to sizeof(pyd_api_interrupt_t)" in text
