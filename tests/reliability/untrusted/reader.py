"""A reader that is looked for faults in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from untrusted.mutations import BYTES, Mutation

ROOT = Path(__file__).resolve().parents[3]


class Reader(NamedTuple):
    """What is called with the bytes, where inputs come from, and the ways in which they are changed."""

    call: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    mutations: tuple[Mutation, ...] = BYTES


def text_of(data: bytes) -> str:
    """The input as text."""
    return data.decode("utf-8", "replace")


def error() -> type[Exception]:
    """What a reader may raise."""
    import pydispatch

    return pydispatch.Error
