"""`pydispatch devices`."""

from __future__ import annotations

import json

import pytest
from pydispatch._core import sched

from pydispatch.cli import __main__ as cli


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cpu\n") and f"  workers: {sched.default_workers()}" in out
    assert all(feature in out for feature in sched.cpu_features()) and "\ntools\n" in out
    assert "clang" in out and "lld" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["devices"]["cpu"]["features"] == sorted(sched.cpu_features())


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out = capsys.readouterr().out
    assert all(name in out for name in ("compile", "run", "inspect", "devices"))
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pydispatch ")
