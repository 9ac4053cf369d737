"""A few random sequences of what users do with each device; tests/reliability/device_states.py runs many."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reliability"))

from device_states import run


def test_sequences() -> None:
    run(8, 15, 1)
