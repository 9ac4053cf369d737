"""`workers=`: never more threads at once than a call allows, in every way to call, and the same results."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import hooked
import numpy as np
import programs
import pytest
from test_runtime_reentry import load

import pydispatch as pd

COUNT = 8


class Watch:
    """Notes how many workgroups run at once. Each waits until `expected` have done so."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside = self.most = self.expected = 0

    def hook(self, x: int) -> None:
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.most >= self.expected, 60)
        time.sleep(0.0005)
        with self.changed:
            self.inside -= 1


@pytest.fixture(scope="module")
def watched() -> Any:
    watch = Watch()
    device, program = load(hooked.build(), "cpu?workers=4", watch.hook)[:2]
    yield watch, program
    device.close()


CALLS: dict[str, Callable[[Any, int], Any]] = {
    "call": lambda f, most: f(COUNT, workers=most),
    "call with out": lambda f, most: f(COUNT, out=np.zeros(COUNT, np.float32), workers=most),
    "prepared": lambda f, most: f.prepare(COUNT, workers=most)(),
    "submitted": lambda f, most: f.submit(COUNT, workers=most).result(60),
    "waited for": lambda f, most: f.submit(COUNT, workers=most).result(),
    "many": lambda f, most: f.submit_many([COUNT], workers=most).result(60)[0],
    "mapped": lambda f, most: next(f.map([COUNT], workers=most)),
    "awaited": lambda f, most: asyncio.run(_awaited(f, most)),
}


async def _awaited(function: Any, most: int) -> Any:
    return await function.submit(COUNT, workers=most)


@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize("name", ["ask", "ask_state"])
def test_every_way_to_call(watched: Any, way: str, name: str) -> None:
    watch, program = watched
    for most in (1, 2, 3):
        watch.most, watch.expected = 0, most  # as many as that do come
        np.testing.assert_array_equal(CALLS[way](getattr(program, name), most), np.ones(COUNT, np.float32))
        assert watch.most == most


def test_many_items_share_one_limit(watched: Any) -> None:
    watch, program = watched
    for most in (1, 2):
        watch.most, watch.expected = 0, most
        results = program.ask.submit_many([COUNT] * 5, workers=most).result()
        np.testing.assert_array_equal(results, np.ones((5, COUNT), np.float32))
        assert watch.most == most


def test_a_limit_ends_with_its_call(watched: Any) -> None:
    watch, program = watched
    watch.most, watch.expected = 0, 0
    with pytest.raises(pd.InvalidArgumentError):
        program.ask("text", workers=1)
    program.ask(COUNT, workers=1)
    watch.most, watch.expected = 0, 4
    program.ask(COUNT)
    assert watch.most == 4


def test_equal_results() -> None:
    with pd.device("cpu?workers=3") as device:
        chain = device.load(programs.standard()).chain
        a, b = np.random.default_rng(0).standard_normal((2, 300_000), np.float32)
        expected = chain(a, b).tobytes()
        for most in (1, 2, 3, 1000):
            assert chain(a, b, workers=most).tobytes() == expected
            assert chain.submit(b=b, a=a, workers=most).result().tobytes() == expected


@pytest.mark.parametrize("wrong", [0, -1, 1025, 1.0, True, "2"])
def test_wrong_limits(watched: Any, wrong: Any) -> None:
    for function in (watched[1].ask, watched[1].ask_state):
        for call in (
            lambda f: f(COUNT, workers=wrong),
            lambda f: f.prepare(COUNT, workers=wrong),
            lambda f: f.submit(COUNT, workers=wrong),
            lambda f: f.submit_many([COUNT], workers=wrong),
            lambda f: next(f.map([COUNT], workers=wrong)),
        ):
            with pytest.raises(pd.InvalidArgumentError, match="workers: expected a number from 1 to 1024, got"):
                call(function)
