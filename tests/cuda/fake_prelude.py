"""Puts the fake GPU in the place of a real one, for tests of tests/gpu/run.py and bench/cuda_calls.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_driver import FakeDriver

from pydispatch.runtime.devices.cuda import driver

sys.modules[driver.MODULE] = FakeDriver()
