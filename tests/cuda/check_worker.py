"""Runs the functions of a check file on the interpreter, in a process of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pydispatch as pd


def outcomes(path: Path, device: str = "ptx-interpreter") -> tuple[int, dict[str, str], float]:
    """(functions that ran, name → what went wrong, seconds). A file that does not compile is the name ""."""
    start, wrong, ran = time.perf_counter(), {}, 0
    try:
        program: Any = pd.device(device).load(pd.compile(path, targets="cuda"))
    except pd.Error as error:
        return 0, {"": f"{type(error).__name__}: {error}"}, time.perf_counter() - start
    for name, call in program.functions.items():
        if call.arguments:
            continue
        ran += 1
        try:
            call()
        except pd.Error as error:
            wrong[name] = f"{type(error).__name__}: {error}"
    return ran, wrong, time.perf_counter() - start
