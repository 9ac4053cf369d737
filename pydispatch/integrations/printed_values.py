"""Function of the host that checked kernels call to print: it receives one number at a time."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch.kernels.arithmetic import is_float
from pydispatch.kernels.prints import PrintedLine

_FLOATS = {"f16": np.float16, "f32": np.float32}
"""Types whose numbers are printed with the digits of their own precision; others have those of f64."""


class _Parameters(ctypes.Structure):
    """Structure by which compiled code calls the import `pydispatch_print`: its result, which is unused, and arguments.

    line: index of the call of `print` among those of the kernel. position: index of the number among those of the line.
    value: the number, an integer or the bits of an f64.
    """

    _fields_ = [
        ("result", ctypes.c_int32), ("line", ctypes.c_int32), ("position", ctypes.c_int32), ("value", ctypes.c_int64),
    ]  # fmt: skip


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Parameters), ctypes.c_void_p, ctypes.c_void_p)
"""Type of an import in C: function(parameters, context, reserved) -> status."""


def printer(lines: Sequence[PrintedLine]) -> Any:
    """Return a function for `Device.add_import` that prints a line after it has received the last of its numbers.

    `lines` are the calls of `print` in one kernel, in the order of their indices. The caller must keep a reference to
    the function as long as programs may call it.
    """
    thread = threading.local()

    def receive(parameters: Any, context: Any, reserved: Any) -> int:
        """Collect one number of a printed line, and print the line after its last number.

        The kernel calls it once for each number; for a line without numbers once, with a 0 at position 0. `context` and
        `reserved`, which every import has, are unused. Return 0, which means success.
        """
        passed = parameters.contents
        line = lines[passed.line]
        if passed.position == 0:
            thread.values = []  # the numbers of the line that this thread has received
        thread.values.append(passed.value)
        received_count = max(1, len(line.numbers))
        if passed.position == received_count - 1:  # this was the last number
            print(*_shown(line, thread.values))
        return 0

    return _FUNCTION(receive)


def _shown(line: PrintedLine, values: Sequence[int]) -> list[str]:
    """Return the parts of a printed line as text. `values` are the numbers of the line, in order, as they are passed.

    `line.parts` has, in place of each number, its type. For a line without numbers, `values` is one 0, which is unused.
    """
    shown = list(line.parts)
    for position, value in zip(line.numbers, values, strict=False):
        type = line.parts[position]
        if is_float(type):
            (decoded,) = struct.unpack("d", struct.pack("q", value))  # its bits
            shown[position] = str(_FLOATS.get(type, float)(decoded))
        elif type == "i1":
            shown[position] = str(bool(value))
        else:
            shown[position] = str(value % 2**64 if type == "u64" else value)
    return shown
