"""Dense constants of host code: their elements as arrays, each stored once in the artifact."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from pydispatch.formats.program import Program, element_bytes

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Constants:
    """The dense constants of a program, each stored once. arrays: member name → array."""

    program: Program
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    _known: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def add(self, array: np.ndarray[Any, Any]) -> int:
        """The number of a constant in the program's table."""
        key = (array.dtype.str, array.tobytes())
        if key not in self._known:
            member = f"constants/{len(self.program.constants)}.npy"
            self._known[key] = len(self.program.constants)
            self.arrays[member] = array
            self.program.constants.append((member, npy_offset(array), array.nbytes))
        return self._known[key]


def npy_offset(array: np.ndarray[Any, Any]) -> int:
    """Where the elements start in the .npy file of an array."""
    import numpy as np

    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return len(buffer.getvalue())


def dense_array(value: DenseIntOrFPElementsAttr, dtype: int) -> np.ndarray[Any, Any]:
    """The elements of a dense constant as they lie in memory (bfloat as raw 16-bit words)."""
    import numpy as np

    type = value.get_type()
    shape = tuple(int(d) for d in cast(Any, type).get_shape())
    bits = element_bytes(dtype) * 8
    raw = np.frombuffer(value.data.data, dtype=np.uint8)
    element = np.dtype(f"u{bits // 8}")
    array = raw.view(element) if raw.nbytes % element.itemsize == 0 else raw
    count = int(np.prod(shape, dtype=np.int64))
    if array.size == 1 and count != 1:
        array = np.full(count, array[0], dtype=element)
    return np.ascontiguousarray(array).reshape(shape)
