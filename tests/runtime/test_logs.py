"""The loggers of pydispatch: what is said, and that a process without `logging` stays without."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.errors import DeviceUnavailableError

PROGRAM = """func.func @main(%a: tensor<8x8xf32>) -> tensor<8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.reduce ins(%a : tensor<8x8xf32>) outs(%f : tensor<8xf32>) dimensions = [1]
    (%x: f32, %y: f32) { %0 = arith.addf %x, %y : f32 linalg.yield %0 : f32 }
  return %s : tensor<8xf32>
}"""


def texts(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == f"pydispatch.{name}"]


def test_the_compiler_says_its_phases_and_what_it_found(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path))
    with caplog.at_level(logging.DEBUG, "pydispatch"):
        pd.compile(PROGRAM)
    said = texts(caplog, "compiler")
    for phase in ("input", "preprocessing", "global-optimization", "dispatches", "executables", "program", "code"):
        assert sum(text.startswith(f"phase {phase}: ") and text.endswith(" ms") for text in said) == 1, phase
    assert any(text.startswith("compiled 1 dispatches in ") for text in said)
    assert any(text.startswith("dispatches, and why neighbours are apart:\n@main: 1 dispatch") for text in said)
    assert any(text.startswith("cache: objects ") and text.endswith(" is not there") for text in said)
    caplog.clear()
    with caplog.at_level(logging.INFO, "pydispatch"):
        pd.compile(PROGRAM)
    (text,) = texts(caplog, "compiler")
    assert text.startswith("read back an unchanged program in ")


def test_loading_says_which_variant_and_why(caplog: pytest.LogCaptureFixture) -> None:
    artifact = pd.compile(PROGRAM, targets=["cpu", "vulkan"])
    with caplog.at_level(logging.DEBUG, "pydispatch"):
        pd.device("local-sync").load(artifact).main(np.ones((8, 8), np.float32))
    opened, chosen, loaded = [text for text in texts(caplog, "runtime") if "narrower vectors" not in text]
    assert opened.startswith("device 'cpu?workers=1' is open, after ")
    assert "executable 'main_dispatch_0': variant 'embedded_elf_x86_64' runs here and needs " in chosen
    assert "; 'vulkan_spirv_fb' has the format vulkan-spirv-fb" in chosen
    assert "1 executables, 1 functions, " in loaded and loaded.endswith(" ms")
    assert {record.funcName for record in caplog.records} >= {"device", "load"}  # the places of those who say it


def test_levels(caplog: pytest.LogCaptureFixture) -> None:
    artifact = pd.compile(PROGRAM)
    with caplog.at_level(logging.WARNING, "pydispatch"):
        pd.device("local-sync").load(artifact)
        with pytest.raises(DeviceUnavailableError):
            pd.device("vulkan:0").load(artifact)
    assert not caplog.records


CODE = """
import sys, pydispatch as pd
pd.device("local-sync").describe()
print("logging" in sys.modules)
import logging
pd.device("local-sync")
print([type(h).__name__ for h in logging.getLogger("pydispatch").handlers])
"""


def run(level: str | None) -> tuple[list[str], str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYDISPATCH_LOG"}
    if level is not None:
        environment["PYDISPATCH_LOG"] = level
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines(), done.stderr


def test_a_process_without_logging_stays_without() -> None:
    assert run(None) == (["False", "['NullHandler']"], "")


def test_the_environment_asks_for_a_level() -> None:
    out, said = run("info")
    assert out == ["True", "['StreamHandler']"]
    assert said.count("pydispatch.runtime: device 'cpu?workers=1' is open, after ") == 2
    assert run("error") == (["True", "['StreamHandler']"], "")
    out, said = run("loud")
    assert out[0] == "False" and "PYDISPATCH_LOG=loud: expected debug, info, warning, error" in said
