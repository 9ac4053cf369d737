"""Counts work in place of seconds: what a test says about cost then holds on every machine and under any load."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class TooMuchWorkError(AssertionError):
    pass


def count_calls(f: Callable[[], Any], limit: int | None = None) -> int:
    """How many calls, of functions in Python and in C, `f` makes on this thread.

    limit: AssertionError as soon as there are more, so that what would take for ever ends too.
    """
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if limit is not None and count > limit:
                sys.setprofile(None)
                raise TooMuchWorkError(f"more than {limit} calls, in {frame.f_code.co_name}")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what a collection deletes may belong to earlier tests
    sys.setprofile(profile)
    try:
        f()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count - 1  # without the one that ends the count
