"""Which CPU levels this machine runs, for tests that compile for several."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pytest

X86_64 = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@cache
def runs(level: str, features: str = "") -> bool:
    """Whether code that is compiled for a level or CPU, with these features besides, runs here."""
    if level in ("generic", "native"):
        return True
    if platform.machine() != "x86_64":
        return False
    from pydispatch._core.sched import cpu_features

    from pydispatch.compiler.kernel_ir.kernel import Target
    from pydispatch.compiler.target.cpu import machine_of

    target = Target("llvm-cpu", "embedded-elf-x86_64", level, tuple(filter(None, features.split(","))))
    return set(machine_of(target).requires) <= set(cpu_features())


def of_this_machine(*levels: str) -> list[str]:
    """Those that run here. For hypothesis, which cannot skip one value."""
    return [level for level in levels if runs(level)]


def parameters(levels: Iterable[str], features: Mapping[str, str] | None = None) -> list[Any]:
    """For pytest.mark.parametrize: a level that does not run here is listed as left out. features: of some levels."""
    skip, more = pytest.mark.skip, features or {}
    return [
        n if runs(n, more.get(n, "")) else pytest.param(n, marks=skip(reason=f"this machine does not run {n}"))
        for n in levels
    ]
