"""The summary of a run: findings are repeated after the table, with the seeds that reproduce them."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


def module_of(name: str) -> ModuleType:
    """Import a file of this folder under a name of its own: the folders of other tests have a run.py, too."""
    spec = importlib.util.spec_from_file_location(f"reliability_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = module_of("run")
models = module_of("models")

ROW = {"name": "part", "executions": 3, "findings": 1}
PRINTS = """
import sys
print("noise before", file=sys.stderr)
for seed in (7, 8):
    print(f"FINDING part, --seed {seed} --count 1:", *range(40), sep="\\n", file=sys.stderr)
print('ROWS')
sys.exit(1)
""".replace("ROWS", json.dumps({"rows": [ROW]}))


def test_each_finding_is_returned_with_its_seed() -> None:
    rows, findings = run.run_part("part", [sys.executable, "-c", PRINTS])
    assert [row["findings"] for row in rows] == [1]
    assert [text.splitlines()[0] for text in findings] == [f"FINDING part, --seed {n} --count 1:" for n in (7, 8)]
    assert all(len(text.splitlines()) == run.FINDING_LINES + 1 for text in findings)
    assert "noise" not in "".join(findings)


def test_a_part_that_dies_is_a_finding_with_its_last_lines() -> None:
    text = "import os; print('--seed 5 --count 20', flush=True); os.abort()"
    rows, findings = run.run_part("states", [sys.executable, "-c", text], 20)
    assert rows[0]["executions"] == 20 and rows[0]["findings"] == 1
    assert findings == ["FINDING states:\n--seed 5 --count 20"]


def test_a_part_without_findings() -> None:
    rows, findings = run.run_part("states", [sys.executable, "-c", "print('12 cycles')"], 12)
    assert (rows[0]["findings"], rows[0]["coverage"], findings) == (0, "12 cycles", [])


def test_findings_are_the_last_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    part = tmp_path / "part.py"
    part.write_text(PRINTS)
    monkeypatch.setattr(run, "parts", lambda: {"part": part})
    monkeypatch.setattr(sys, "argv", ["run.py", "--seconds", "1"])
    assert run.main() == 1
    printed = capsys.readouterr().out
    assert printed.index("findings  coverage") < printed.index("FINDING part, --seed 7")
    assert printed.rstrip().splitlines()[-1].startswith("...")


def test_every_part_that_takes_a_seed_gets_it() -> None:
    given = {name: run.arguments(name, path, 10, seed=5) for name, path in run.parts().items()}
    seeded = {name for name, words in given.items() if words[-2:] == ["--seed", "5"]}
    assert seeded == {"fuzz", "device_states", "differential", "models", "readers", "sequences", "threads"}
    assert not any("--seed" in run.arguments(name, path, 10) for name, path in run.parts().items())


def test_random_models_run_only_as_asked() -> None:
    """A process that ran ahead would take time from other kinds for programs that no table counts."""
    command = [sys.executable, str(HERE / "models.py"), "--child", "stablehlo"]
    ended = subprocess.run(command, input="5\n6\n", capture_output=True, text=True, timeout=300, check=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines == [{"ready": "stablehlo"}, *[{"result": "right", "text": ""}] * 2]


def test_a_run_of_models_that_is_stopped_has_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def next_seed(runs: Any) -> None:
        if runs.seed == 7:
            signal.raise_signal(signal.SIGTERM)
        runs.seed += 1

    monkeypatch.setattr(models.Runs, "next", next_seed)
    monkeypatch.setattr(sys, "argv", ["models.py", "--kinds", "onnx", "--seed", "5", "--count", "100"])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert models.main() == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    (row,) = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert (row["name"], row["executions"]) == ("models onnx", 2)
