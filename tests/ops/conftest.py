"""The properties of operations on another device: PYDISPATCH_OPS_DEVICE=ptx-interpreter or vulkan:0.

The examples of a property are functions of a few programs. Only while examples are searched for (PYDISPATCH_EXAMPLES)
each is a program of its own, which Hypothesis makes smaller when it is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import harness
import numpy as np
import pytest

import pydispatch as pd

DEVICE = os.environ.get("PYDISPATCH_OPS_DEVICE", "")


class OnArrays:
    """A program, or a function of one, whose results are arrays."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getitem__(self, name: str) -> OnArrays:
        return OnArrays(self._inner[name])

    def __getattr__(self, name: str) -> OnArrays:
        return OnArrays(getattr(self._inner, name))

    def __call__(self, *args: Any, **options: Any) -> Any:
        found = self._inner(*args, **options)
        if isinstance(found, tuple):
            return tuple(np.asarray(v) if isinstance(v, pd.Buffer) else v for v in found)
        return np.asarray(found) if isinstance(found, pd.Buffer) else found


class Loader:
    """What `pydispatch.device` gives."""

    def __init__(self) -> None:
        self._device = device(DEVICE)

    def load(self, artifact: Any) -> OnArrays:
        return OnArrays(self._device.load(artifact))


compile_, device = pd.compile, pd.device
if DEVICE:
    target = "vulkan" if DEVICE.startswith("vulkan") else "cuda"

    def compile_for_device(text: Any, **options: Any) -> Any:
        options.pop("cpu", None)
        return compile_(text, **{**options, "targets": target})

    chosen: list[Loader] = []

    def chosen_device(name: str = "cpu") -> Loader:
        if not chosen:
            chosen.append(Loader())
        return chosen[0]

    pd.compile, pd.device = compile_for_device, chosen_device  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    if harness.SEARCHING:
        return (yield)
    with harness.together():
        return (yield)
