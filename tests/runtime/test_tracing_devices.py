"""pydispatch.trace on devices that run plans by themselves, and of host commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timelines

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.errors import CommandError

PROGRAM = """
util.func private @note(%x: tensor<64xf32>) -> %x
func.func @main(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
  %0 = arith.addf %a, %b : tensor<64xf32>
  %1 = util.call @note(%0) : (tensor<64xf32>) -> %0
  %2 = arith.mulf %1, %1 : tensor<64xf32>
  return %2 : tensor<64xf32>
}
"""
DEVICES = {
    "cpu?workers=2": "cpu", "local-sync": "cpu", "ptx-interpreter": "cuda", "vulkan:0": "vulkan", "webgpu:0": "webgpu",
}  # fmt: skip
X = np.arange(64, dtype=np.float32)


def note(context: Any, x: Any) -> None:
    if context.kind == "cpu":
        assert x[1] == 2.0


def fail(context: Any, x: Any) -> None:
    raise ValueError("no")


def loaded(name: str, command: Any) -> Any:
    device = pd.device(name)
    options = {} if DEVICES[name] == "cpu" else {"synchronous": True}
    provider = device.add_command("note", command, **options)
    try:
        return device.load(pd.compile(PROGRAM, targets=DEVICES[name]))
    finally:
        device.remove_plugin(provider)


@pytest.mark.parametrize("name", DEVICES)
def test_dispatches_and_host_commands(name: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    program = loaded(name, note)
    with pd.trace(file) as trace:
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(program.main(X, X)), 4 * X * X)
        prepared = program.main.prepare(X, X)
        np.testing.assert_array_equal(np.asarray(prepared()), 4 * X * X)
        np.testing.assert_array_equal(np.asarray(program.main.submit(X, X).result()), 4 * X * X)
    data = timelines.read(file)
    assert len(timelines.spans(data, "call")) >= 4
    assert [event["name"] for event in timelines.spans(data, "host")] == ["host @note"] * 4
    runs = [event for event in trace.events if event.kind == "run"]
    assert len(runs) == 8 and all("main_dispatch" in event.name and event.args["workgroups"] for event in runs)
    if DEVICES[name] != "cpu":  # which has a track of its own
        (queue,) = (track for track in trace.tracks if track.name == pd.device(name).name)
        assert [event.kind for event in queue.events] == ["run"] * 8
    if DEVICES[name] == "vulkan":  # WebGPU may submit more, for the copies
        kinds = [event.kind for track in trace.tracks for event in track.events]
        assert kinds.count("submit") == kinds.count("wait") == 8


@pytest.mark.parametrize("name", DEVICES)
def test_host_commands_that_fail(name: str) -> None:
    program = loaded(name, fail)
    with pd.trace(None) as trace, pytest.raises(CommandError):
        program.main(X, X)
    failed = [event.label for event in trace.events if event.args.get("failed")]
    assert sorted(failed) == ["call @main", "host @note"]


def test_queues_have_a_limit() -> None:
    program = loaded("ptx-interpreter", note)
    with pd.trace(None, events=4) as trace:
        for _ in range(3):
            program.main(X, X)
    (queue,) = (track for track in trace.tracks if track.name == "ptx-interpreter")
    assert len(queue.events) == 4 and queue.lost == 2


LOOP = """
func.func @double(%x: tensor<64xf32>, %n: index) -> tensor<64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<64xf32> {
    %b = arith.addf %a, %a : tensor<64xf32>
    scf.yield %b : tensor<64xf32>
  }
  return %r : tensor<64xf32>
}"""


@pytest.mark.parametrize("name", DEVICES)
def test_procedures(name: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    program = pd.device(name).load(pd.compile(LOOP, targets=DEVICES[name]))
    with pd.trace(file) as trace:
        np.testing.assert_array_equal(np.asarray(program.double(X, 3)), 8 * X)
    timelines.read(file)
    (outer,) = (event for event in trace.events if event.label == "call @double")
    assert sum(event.kind == "run" and "addf" in event.name for event in trace.events) == 3
    within = [event for event in trace.events if outer.begin <= event.begin and event.end <= outer.end]
    assert sum(event.kind == "schedule" for event in within) >= 3  # the plan of each step


SOURCE = """func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.addf %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, file = tmp_path / "f.mlir", tmp_path / "out.json"
    source.write_text(SOURCE)
    assert main(["run", str(source), "--input=8xf32=2", f"--trace={file}"]) == 0
    assert [event["name"] for event in timelines.spans(timelines.read(file), "call")] == ["call @f"]
    arguments = ["--input=8xf32=2", "--seconds=0.01", "--warm-up=0", f"--trace={file}"]
    assert main(["bench", str(source), *arguments]) == 0
    assert len(timelines.spans(timelines.read(file), "run")) > 1
    capsys.readouterr()
    assert main(["run", str(source), "--input=8xf32=2", f"--trace={tmp_path}/none/out.json"]) == 1
    assert "cannot write trace" in capsys.readouterr().err
