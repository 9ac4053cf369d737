"""Programs sent to other processes: by their artifact, or its path, the name of their device, and their parameters."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<3xf32>
func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
  %w = util.global.load @w : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.mul ins(%a, %w : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func @origin(%a: tensor<3xf32>) -> tensor<3xf32> {
  return %a : tensor<3xf32>
}
"""
OTHER = """
import pickle, sys
import numpy as np
program = pickle.load(sys.stdin.buffer)
print(program.f(np.array([1, 2, 3], np.float32)).tolist())
"""
A = np.array([1, 2, 3], np.float32)
WEIGHTS = {"m": {"w": np.array([2, 3, 4], np.float32)}}


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM, targets=["cpu", "vulkan"])


@pytest.mark.parametrize("device", ["cpu?workers=1", "local-sync", "vulkan"])
@pytest.mark.parametrize("kind", ["artifact", "bytes", "path"])
def test_another_process_has_the_same(artifact: pd.Artifact, device: str, kind: str, tmp_path: Path) -> None:
    artifact.save(tmp_path / "f.pdx")
    source = {"artifact": artifact, "bytes": memoryview(artifact.to_bytes()), "path": tmp_path / "f.pdx"}[kind]
    data = pickle.dumps(pd.device(device).load(source, WEIGHTS))
    assert (len(data) < 1000) == (kind == "path"), "a file is not copied"
    ran = subprocess.run([sys.executable, "-c", OTHER], input=data, capture_output=True)
    assert ran.stdout.decode().strip() == "[2.0, 6.0, 12.0]", ran.stderr.decode()


STATEFUL = """
util.global private mutable @calls = dense<0> : tensor<i32>
func.func @counted() -> tensor<i32> {
  %one = arith.constant dense<1> : tensor<i32>
  %old = util.global.load @calls : tensor<i32>
  %new = arith.addi %old, %one : tensor<i32>
  util.global.store %new, @calls : tensor<i32>
  return %new : tensor<i32>
}
func.func @current() -> tensor<i32> {
  %now = util.global.load @calls : tensor<i32>
  return %now : tensor<i32>
}
func.func @double(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""


@pytest.fixture(params=["cpu?workers=1", "vulkan"])
def stateful(request: pytest.FixtureRequest) -> Any:
    device = request.param
    return pd.device(device).load(pd.compile(STATEFUL, targets=device.partition("?")[0]))


def test_functions_are_those_of_one_program(stateful: Any) -> None:
    assert int(np.asarray(stateful.counted())) == 1
    function = stateful.counted
    pickled = pickle.dumps((stateful, function, stateful.current, stateful.session()))
    program, counted, current, session = pickle.loads(pickled)
    assert program.counted is counted and program.current is current and session.counted is not counted
    assert int(np.asarray(counted())) == 1, "state begins anew"
    assert int(np.asarray(current())) == 1 and int(np.asarray(session.current())) == 0
    assert copy.copy(function) is function and int(np.asarray(copy.deepcopy(function)())) == 1
    del program  # the functions remain
    counted, current = pickle.loads(pickle.dumps((counted, current)))
    assert int(np.asarray(counted())) == 1 and int(np.asarray(current())) == 1


def test_another_process_calls_a_function(artifact: pd.Artifact) -> None:
    data = pickle.dumps(pd.device("cpu?workers=1").load(artifact, WEIGHTS).f)
    ran = subprocess.run([sys.executable, "-c", OTHER.replace(".f(", "(")], input=data, capture_output=True)
    assert ran.stdout.decode().strip() == "[2.0, 6.0, 12.0]", ran.stderr.decode()


def test_objects_of_this_process_say_what_to_pickle(stateful: Any) -> None:
    x = np.ones((2, 4), np.float32)
    double, counted = stateful.double, stateful.counted
    with double.batched(max_batch=2) as batched:
        for value, remedy in (
            (double.prepare(x), "prepare the call in the other process"),
            (counted.prepare(), "prepare the call in the other process"),
            (batched, r"call its method batched\(\)"),
            (batched.submit(x), r"pickle its result\(\)"),
            (double.submit(x), r"pickle its result\(\)"),
            (double.submit_many([x, double.submit(x)]), r"pickle its result\(\)"),
            (pd.device("cpu"), r"open it with pydispatch.device\(\)"),
            (pd.device("ptx-interpreter"), r"open it with pydispatch.device\(\)"),
        ):
            with pytest.raises(pd.InvalidArgumentError, match=f"cannot be pickled: .*{remedy}"):
                pickle.dumps(value)


@pytest.mark.parametrize("name", ["ptx-interpreter?races=1&capability=8.6", "vulkan:0?staging=1", "cpu?memory=4MiB"])
def test_the_options_of_the_device_are_kept(name: str) -> None:
    artifact = pd.compile(PROGRAM, targets={"p": "cuda", "v": "vulkan", "c": "cpu"}[name[0]])
    program = pickle.loads(pickle.dumps(pd.device(name).load(artifact, WEIGHTS)))
    assert program.f(A).tolist() == [2, 6, 12] if name[0] == "c" else program.f(A).numpy().tolist() == [2, 6, 12]
    assert program._origin.arguments[0] == name


def test_what_was_added_to_a_device_is_not_lost_silently(artifact: pd.Artifact) -> None:
    device = pd.device("cpu?workers=1")
    before = device.load(artifact, WEIGHTS)
    assert before.origin(A).tolist() == [1, 2, 3], "no attribute of programs has the name of a function"
    device.add_command("notify", lambda context: None)
    with pytest.raises(pd.InvalidArgumentError, match=re.escape("send its artifact, and load it where a device has")):
        pickle.dumps(device.load(artifact, WEIGHTS))
    with pytest.raises(pd.InvalidArgumentError, match=re.escape("send its artifact, and load it where a device has")):
        pickle.dumps(device.load(artifact, WEIGHTS).f)
    assert pickle.loads(pickle.dumps(before)).f(A).tolist() == [2, 6, 12]


def test_an_absolute_path_needs_no_working_directory(
    artifact: pd.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact.save(tmp_path / "f.pdx")
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert pd.device("cpu?workers=1").load(tmp_path / "f.pdx", WEIGHTS).f(A).tolist() == [2, 6, 12]


def test_processes_share_the_pages_of_a_file(tmp_path: Path) -> None:
    """Weights of an artifact are mapped, not copied: a second process takes no memory of its own for them."""
    count = 1 << 20
    weights = np.arange(count, dtype=np.float32)
    hexadecimal, type_ = weights.tobytes().hex().upper(), f"tensor<{count}xf32>"
    pd.compile(f"""
func.func @f(%a: {type_}) -> {type_} {{
  %w = arith.constant dense<"0x{hexadecimal}"> : {type_}
  %e = tensor.empty() : {type_}
  %r = linalg.add ins(%a, %w : {type_}, {type_}) outs(%e : {type_}) -> {type_}
  return %r : {type_}
}}""", targets="cpu").save(tmp_path / "weights.pdx")  # fmt: skip
    script = f"""
import sys, numpy as np, pydispatch as pd
f = pd.device("local-sync").load(sys.argv[1]).f
total = f(np.zeros({count}, np.float32)).sum(dtype=np.float64)
print(total, flush=True)
sys.stdin.readline()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "weights.pdx")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert float(process.stdout.readline()) == weights.sum(dtype=np.float64)
        for process in processes:
            shared, private = pages(process.pid, "weights.pdx")
            assert shared >= 4 * count // 1024 and private <= 64, (shared, private)
    finally:
        for process in processes:
            process.communicate("\n")


def pages(pid: int, name: str) -> tuple[int, int]:
    """Kilobytes of the mappings of a file that several processes have, and that one has alone or has written."""
    shared = private = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(name)
        elif inside and line.startswith(("Shared_Clean", "Shared_Dirty")):
            shared += int(line.split()[1])
        elif inside and line.startswith("Private_"):
            private += int(line.split()[1])
    return shared, private
