"""`cpu?memory=`: what results and transients of a device may take."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %r = math.exp %a : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM, targets="cpu")


@pytest.mark.parametrize("text", ["1048576", "1024KiB", "1MiB"])
def test_a_call_that_needs_more_is_refused(artifact: pd.Artifact, text: str) -> None:
    device = pd.device(f"cpu?memory={text}&workers=1")
    assert device.name == "cpu?workers=1&memory=1048576"
    f = device.load(artifact).f
    with pytest.raises(pd.OutOfMemoryError, match=r"4194304 bytes: 0 of the device's limit of 1048576 are in use"):
        f(np.zeros(1 << 20, np.float32))
    assert f(np.zeros(1000, np.float32)).sum() == 1000
    held = [f(np.zeros(100_000, np.float32)) for _ in range(2)]
    with pytest.raises(pd.OutOfMemoryError, match="limit of 1048576"):
        f(np.zeros(100_000, np.float32))
    assert 800_000 <= device.memory()["live_bytes"] <= 1 << 20 >= device.memory()["peak_bytes"]
    held.clear()
    assert f(np.zeros(200_000, np.float32)).sum() == 200_000


def test_devices_of_equal_threads_and_other_limits(artifact: pd.Artifact) -> None:
    """They share their threads, and no memory."""
    limited, free = pd.device("cpu?workers=1&memory=1MiB"), pd.device("cpu?workers=1")
    kept = free.load(artifact).f(np.zeros(1 << 20, np.float32))
    assert limited.memory()["live_bytes"] == 0 and free.memory()["live_bytes"] >= kept.nbytes


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1GB", "1.5GiB", "MiB", "9" * 16, "9" * 15 + "GiB", "8589934592GiB", "٣"]
)
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="memory: expected bytes, as in 1073741824 or 1GiB"):
        pd.device(f"cpu?memory={text}")
