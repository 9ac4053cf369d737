"""Devices that are closed and opened again: what goes, what stays, and who finds the new one."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

OWN = ("vulkan:0?staging=1", "webgpu:0?staging=1")
"""With options that few other tests have, since closing ends a device for all who share it."""
NAMES = ("vulkan:0", "webgpu:0", "ptx-interpreter")
X = np.arange(12, dtype=np.float32)

PROGRAM = """
func.func @twice(%a: tensor<?xf32>) -> tensor<?xf32> {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
func.func @scaled(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %b = arith.mulf %a, %c : tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func @doubled(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<?xf32> {
    %b = arith.addf %a, %a : tensor<?xf32>
    scf.yield %b : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
func.func @sum(%n: index) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0) -> index {
    %b = arith.addi %a, %i : index
    scf.yield %b : index
  }
  return %r : index
}
"""


@pytest.fixture(scope="module")
def artifact() -> Any:
    return pd.compile(PROGRAM, targets=("vulkan", "webgpu"))


def is_destroyed(device: Any) -> bool:
    gc.collect()  # recordings and buffers that only cycles hold
    return bool(device._context._is_destroyed)


@pytest.mark.parametrize("name", OWN)
def test_a_closed_device_goes_with_its_last_buffer(name: str, artifact: Any) -> None:
    pd.device(name).close()  # another test may hold buffers of it
    threads = None
    programs = []
    for _ in range(3):
        device = pd.device(name)
        program = device.load(artifact)
        programs.append(program)  # which lives longer
        y, prepared = program.twice(X), program.twice.prepare(X)
        np.testing.assert_array_equal(program.scaled(X[:4]).numpy(), X[:4] * [1, 2, 3, 4])
        prepared()
        device.close()
        device.close()
        with pytest.raises(pd.DeviceUnavailableError, match="was closed"):
            program.twice(X)
        with pytest.raises(pd.DeviceUnavailableError, match="was closed"):
            prepared()
        with pytest.raises(pd.DeviceUnavailableError, match="was closed"):
            device.upload(X)
        device.trim()
        assert not is_destroyed(device)
        np.testing.assert_array_equal(y.numpy(), 2 * X)  # content stays
        del prepared, y
        assert is_destroyed(device)
        assert device.memory()["live_blocks"] == 0
        count = sum(1 for _ in Path("/proc/self/task").iterdir())
        threads = threads or count
        assert count == threads


@pytest.mark.parametrize("name", [*OWN, "ptx-interpreter"])
def test_calls_of_no_elements_on_a_closed_device(name: str) -> None:
    """They have no commands, of which the device would refuse the first."""
    pd.device(name).close()  # another test may hold buffers of it
    device = pd.device(name)
    program = device.load(pd.compile(PROGRAM, targets=("cuda", "vulkan", "webgpu")))
    x, out = X[:0], device.empty(0)
    calls = (
        lambda: program.twice(x),
        lambda: program.twice(x, out=out),
        lambda: program.twice.submit(x).result(60),
        program.twice.prepare(x),
        program.twice.prepare(x, out=device.empty(0)),
    )
    for call in calls:
        assert np.array(call()).shape == (0,)
    device.close()
    for call in calls:
        with pytest.raises(pd.DeviceUnavailableError, match="was closed"):
            call()


@pytest.mark.parametrize("name", [*OWN, "ptx-interpreter"])
def test_procedures_without_commands_on_a_closed_device(name: str) -> None:
    """A loop over tensors without elements and a loop over numbers run no kernels."""
    pd.device(name).close()  # another test may hold buffers of it
    device = pd.device(name)
    program = device.load(pd.compile(PROGRAM, targets=("cuda", "vulkan", "webgpu")))
    x, out = X[:0], device.empty(0)
    calls = (
        lambda: program.doubled(x, 3),
        lambda: program.doubled(x, 0, out=out),
        lambda: program.doubled.submit(x, 3).result(60),
        program.doubled.prepare(x, 3),
        lambda: program.sum(4),
    )
    for call in calls:
        assert np.array(call()).tolist() in ([], 6)
    device.close()
    for call in calls:
        with pytest.raises(pd.DeviceUnavailableError, match="was closed"):
            call()


def test_garbage_of_a_closed_device_is_collected_while_memory_is_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download from memory that is not mapped acquires a staging block, under the lock of the pool."""
    pd.device(OWN[0]).close()
    device = pd.device(OWN[0])
    y, cycle = device.upload(X), [device.upload(X)]
    cycle.append(cycle)  # type: ignore[arg-type]
    device.close()
    del cycle
    staging = device._context.staging
    staging.trim()  # the download allocates its block
    allocate = staging._allocate

    def collecting(size: int) -> Any:
        gc.collect()
        return allocate(size)

    monkeypatch.setattr(staging, "_allocate", collecting)
    downloads: list[Any] = []
    thread = threading.Thread(target=lambda: downloads.append(y.numpy()), daemon=True)
    thread.start()
    thread.join(60)
    np.testing.assert_array_equal(downloads, [X])


def test_a_closed_device_goes_while_threads_release_its_buffers(artifact: Any) -> None:
    for name in OWN:
        pd.device(name).close()
        device = pd.device(name)
        kept = [device.upload(X) for _ in range(64)]
        device.close()

        def drop(kept: list[Any] = kept) -> None:
            with contextlib.suppress(IndexError):
                while True:
                    kept.pop().numpy()

        threads = [threading.Thread(target=drop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert device.memory()["live_blocks"] == 0 and is_destroyed(device)


SCRIPT = """
import sys
import numpy as np
import pydispatch as pd

V, X = pd.View[pd.f32, "n"], np.arange(12, dtype=np.float32)

@pd.kernel(workgroup=64)
def doubled(x: V, y: V) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + x[i]

@pd.program
def tripled(x: V):
    return x * 3.0

for name in sys.argv[1:]:
    for _ in range(2):
        device = pd.device(name)
        x, y = device.upload(X), device.empty(12)
        doubled(x, y)
        np.testing.assert_array_equal(y.numpy(), 2 * X)
        np.testing.assert_array_equal(np.asarray(tripled(x)), 3 * X)
        device.close()
        if name != "ptx-interpreter":  # each of which is a device of its own
            for call in (lambda: doubled(x, y), lambda: tripled(x)):
                try:
                    call()
                except pd.DeviceUnavailableError as error:
                    assert "was closed" in str(error)
                else:
                    raise AssertionError(name)
print("right")
"""


def test_kernels_and_programs_find_the_new_device(tmp_path: Path) -> None:
    """In a process of its own: kernels load by the name of the device alone, which other tests use too."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, *NAMES], capture_output=True, text=True, check=False)
    assert done.stdout == "right\n", done.stderr
