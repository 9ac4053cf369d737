"""Checks that an engine which has ended holds nothing."""

from __future__ import annotations

import threading
from typing import Any

from fake_program import FakeProgram

from pydispatch.generate import Engine


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pydispatch-generate"]


def check_no_leaks(engine: Engine[Any], program: FakeProgram) -> None:
    pool, batch = engine._worker.scheduler.pool, engine._worker.scheduler._decode
    assert not batch.counts.any() and not batch.starts.any() and not batch.pages.any()
    assert pool._references == [0] * program.page_count
    assert pool.available == program.page_count - 1
    assert sorted([*pool._free, *pool._retained]) == list(range(1, program.page_count))
    assert threads() == []
