"""DLPack capsules of CPU arrays with element types that NumPy does not export: bfloat16 and floats of 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydispatch._core.dlpack import make_capsule
from pydispatch._core.extended_types import EXTENDED_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXTENDED = {row.name: row.dlpack for row in EXTENDED_TYPES if row.dlpack is not None}
"""Name of a type of the package ml_dtypes → its DLDataTypeCode, for types that NumPy does not export."""
SMALL_FLOATS = {row.numerical: row.dlpack for row in EXTENDED_TYPES if row.dlpack is not None}
"""`numerical` of an `ElementType` → the DLDataTypeCode of the same types."""
CPU = 1  # DLDeviceType


class Exported:
    """Producer of DLPack capsules over a CPU array, which it keeps alive; for `from_dlpack` of other packages."""

    __slots__ = ("array",)

    def __init__(self, array: NDArray[Any]) -> None:
        """Take the array, which is not copied."""
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)  # device type and device id; there is one CPU

    def __dlpack__(self, **options: Any) -> Any:
        """Return a capsule of the array. options: the keyword arguments of the protocol."""
        return capsule_of_array(self.array, EXTENDED.get(self.array.dtype.name), options)


def dlpack(array: NDArray[Any]) -> Exported:
    """Return a DLPack producer over an array, without a copy: `torch.from_dlpack(pydispatch.dlpack(array))`.

    NumPy's own export refuses bfloat16 and floats of 8 bits, which results of programs have.

    Args:
        array: A C-contiguous array on the CPU, of a type of NumPy or of ml_dtypes.
    """
    return Exported(array)


def capsule_of_array(array: NDArray[Any], code: int | None, options: dict[str, Any]) -> Any:
    """Return a DLPack capsule over an array.

    Args:
        array: The array.
        code: DLDataTypeCode of its elements; None for a type that NumPy exports itself.
        options: Keyword arguments of `__dlpack__`, such as max_version, dl_device and copy.

    Raises:
        BufferError: A device other than the CPU is requested, or the memory is read-only or not contiguous.
    """
    if code is None:
        return array.__dlpack__(**options)
    wanted = options.get("dl_device")
    if wanted is not None and int(wanted[0]) != CPU:
        raise BufferError(f"the array is on the CPU; copy it to DLPack device {tuple(wanted)} yourself")
    if options.get("copy"):
        array = array.copy()
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise BufferError("DLPack takes this array only when it is contiguous and may be written; give a copy of it")
    # A consumer that states no version knows only the capsule of DLPack before 1.0.
    version = options.get("max_version")
    bits = array.dtype.itemsize * 8
    is_versioned = version is not None and version[0] >= 1
    return make_capsule(
        array, array.ctypes.data, array.shape, code, bits, device_type=CPU, device_id=0, versioned=is_versioned
    )
