"""A few random sequences of what users do with each device; tests/reliability/device_states.py runs many."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reliability"))

import device_states
from device_states import run
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule


def test_sequences() -> None:
    run(8, 15, 1)


def test_a_seed_chooses_the_sequences() -> None:
    drawn: list[int] = []

    class Recorder(RuleBasedStateMachine):
        @rule(n=st.integers())
        def draw(self, n: int) -> None:
            drawn.append(n)

    def numbers(seed: int) -> list[int]:
        drawn.clear()
        run(4, 6, seed, Recorder)
        return [*drawn]

    assert numbers(1) == numbers(1) != numbers(2)


def test_a_finding_has_its_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(count: int, steps: int, seed: int) -> None:
        if seed == 8:
            raise AssertionError("a wrong element")

    monkeypatch.setattr(device_states, "run", fails)
    monkeypatch.setattr(sys, "argv", ["device_states.py", "--seed", "7", "--count", "50", "--steps", "9"])
    assert device_states.main() == 1
    printed = capsys.readouterr()
    assert "FINDING device states, --seed 8 --count 20 --steps 9:" in printed.err and "a wrong element" in printed.err
    assert [line for line in printed.out.splitlines() if line.startswith("--")] == [
        f"--seed {seed} --count {count} --steps 9" for seed, count in ((7, 20), (8, 20), (9, 10))
    ]
    (row,) = json.loads(printed.out.splitlines()[-1])["rows"]
    assert (row["executions"], row["findings"]) == (50, 1)
