"""A few random sequences of calls of the C API; tests/reliability/sequences.py runs many, with sanitizers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reliability"))

import sequences


def test_sequences(tmp_path: Path) -> None:
    assert sequences.run("plain", 1, 300, 60, tmp_path) == (300, 0)
