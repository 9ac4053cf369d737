"""A module like `cuda.bindings.driver`, whose device is the PTX interpreter.

Only what the device of pydispatch calls is there, with the same names, parameters and results: a status, then values.
`test_cuda_device_driver.py` compares it with the real module. Errors can be asked for, and calls are counted.
"""

from __future__ import annotations

from fake_launch import Launch
from fake_types import ENUMS, STRUCTURES, CUresult

__all__ = ["ENUMS", "FUNCTIONS", "STRUCTURES", "CUresult", "FakeDriver"]


class FakeDriver(Launch):
    """See `fake_frame.Frame` for what tests can ask of it."""


FUNCTIONS = FakeDriver.functions()
