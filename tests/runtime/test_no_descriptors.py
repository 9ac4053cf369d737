"""A process that may open no more files hears that, and nothing about devices that it lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource
import pydispatch as pd
if {imported}:
    import pydispatch.runtime.devices
resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
try:
    while True:
        held.append(os.open("/", os.O_RDONLY))
except OSError:
    pass
for ask in (lambda: pd.device("cpu"), pd.devices):
    try:
        ask()
    except pd.DeviceUnavailableError as error:
        assert "Too many open files" in str(error) and "this machine has" not in str(error), error
        assert isinstance(error.__cause__, OSError)
    else:
        raise AssertionError("a device without its module")
for descriptor in held:
    os.close(descriptor)
assert pd.device("cpu").name == "cpu" and "cpu" in pd.devices()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the system has no limit of descriptors")
@pytest.mark.parametrize("imported", [False, True])
def test_no_descriptor_is_left(imported: bool) -> None:
    words = [sys.executable, "-c", SCRIPT.format(imported=imported)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
