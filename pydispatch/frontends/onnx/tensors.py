"""Conversion of the tensors of an ONNX file to NumPy arrays, from message fields or memory-mapped external files."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch import files
from pydispatch.errors import SystemError_
from pydispatch.frontends.onnx import model
from pydispatch.graph.dtypes import DTYPES, DType

_NAMES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32",
    13: "u64", 14: "c64", 15: "c128", 16: "bf16", 17: "f8E4M3FN", 18: "f8E4M3FNUZ", 19: "f8E5M2", 20: "f8E5M2FNUZ",
    21: "u4", 22: "i4", 23: "f4E2M1FN", 24: "f8E8M0FNU", 25: "u2", 26: "i2",
}  # fmt: skip
"""Names of the element types by their `TensorProto.DataType` codes. Code 8, a string, is not supported."""

_FIELDS = {"f32": "float_data", "c64": "float_data", "f64": "double_data", "c128": "double_data", "i64": "int64_data",
           "u32": "uint64_data", "u64": "uint64_data"}  # fmt: skip
"""The field that stores the elements of each type if `raw_data` is not used; all other types use int32_data."""

_EXTERNAL = 1  # value of data_location of a tensor whose elements are in an external file


class ModelFault(ValueError):
    """Error in one tensor, attribute or file of a model. The code that catches it adds the name of the tensor, node or
    file to the message."""


def dtype_of(code: int) -> DType:
    """Return the DType for a `TensorProto.DataType` code. Raise ModelFault for strings and unknown codes."""
    if code == 8:
        raise ModelFault(
            "its elements are strings, which no device computes with; look them up before the model is called"
        )
    name = _NAMES.get(code)
    if name is None:
        raise ModelFault(f"element type {code} is not known (known are {min(_NAMES)} to {max(_NAMES)})")
    return DTYPES[name]


def code_of(dtype: DType) -> int:
    """Return the `TensorProto.DataType` code of an element type."""
    return next(code for code, name in _NAMES.items() if name == dtype.name)


class Files:
    """External data files of a model; each is memory-mapped once.

    Attributes:
        folder: Folder of the model; None if the model was passed as bytes.
        mapped: Content of the files that were used so far, by resolved path.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.mapped: dict[Path, memoryview] = {}

    def part(self, entries: dict[str, str]) -> memoryview:
        """Return the bytes that the `external_data` entries of a tensor select, as a view of the mapped file.

        The entries are `location`, the path; `offset` in bytes, by default 0; and `length` in bytes, by default up to
        the end of the file. Raise ModelFault if the bytes do not exist.
        """
        location = entries.get("location", "")
        data = self._file(location)
        offset, length = _entry_number(entries, "offset", default=0), _entry_number(entries, "length", default=None)
        if offset > len(data) or (length is not None and length > len(data) - offset):
            raise ModelFault(
                f"bytes {offset} to {offset + (length or 0)} of '{location}' are asked for; it has {len(data)}"
            )
        return data[offset:] if length is None else data[offset : offset + length]

    def _file(self, location: str) -> memoryview:
        """Return the mapped file at `location`, a path relative to the model's folder. Raise ModelFault if the path
        leaves that folder, for example through a symbolic link.
        """
        if self.folder is None:
            raise ModelFault(f"its elements are in the file '{location}': give the path of the model, not its bytes")
        if not location or "\0" in location or Path(location).is_absolute():
            raise ModelFault(f"its elements are in the file '{location}', which is no path within the model's folder")
        folder = Path(os.path.realpath(self.folder))
        path = Path(os.path.realpath(folder / location))
        if not path.is_relative_to(folder):
            raise ModelFault(f"its elements are in the file '{location}', which is outside of the model's folder")
        if path not in self.mapped:
            self.mapped[path] = map_file(path)
        return self.mapped[path]


def map_file(path: Path) -> memoryview:
    """Memory-map a file and return its bytes. Raise ModelFault if it cannot be read."""
    try:
        with files.open_mapped(path) as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except (SystemError_, OSError) as error:
        raise ModelFault(str(error)) from None


def array_of(tensor: model.TensorProto, external: Files) -> tuple[DType, np.ndarray[Any, Any]]:
    """Return the element type of a tensor and its elements in the representation `DType.numpy`.

    The array is a view of the file where the layout permits. Raise ModelFault if the elements are invalid or absent.
    """
    dtype = dtype_of(tensor.data_type)
    shape = tuple(int(n) for n in tensor.dims)
    if len(shape) > 32 or any(n < 0 for n in shape):  # 32: NumPy's limit before version 2
        raise ModelFault(f"its shape is {list(shape)}")
    count = math.prod(shape)
    if tensor.data_location == _EXTERNAL:
        data = external.part({entry.key: entry.value for entry in tensor.external_data})
        has_length = any(entry.key == "length" for entry in tensor.external_data)
        array = _array_from_bytes(dtype, data, count, may_be_longer=not has_length)
    elif len(tensor.raw_data):
        array = _array_from_bytes(dtype, tensor.raw_data, count)
    else:
        array = _array_from_field(dtype, tensor, count)
    return dtype, array.reshape(shape)


def _array_from_bytes(dtype: DType, data: memoryview, count: int, may_be_longer: bool = False) -> np.ndarray[Any, Any]:
    """Return `count` little-endian elements as a flat array, a view of `data` where the type permits.

    The size of `data` must match exactly. With `may_be_longer`, bytes after the last element are ignored.
    """
    size = _packed_size(dtype, count)
    if len(data) != size and not (may_be_longer and len(data) > size):
        raise ModelFault(f"{count} elements of type {dtype} take {size} bytes; {len(data)} are there")
    if dtype.bits < 8 and not dtype.is_bool:
        return _unpack_sub_bytes(dtype, np.frombuffer(data, np.uint8, size), count)
    if dtype.is_bool:
        return np.frombuffer(data, np.uint8, count) != 0
    return np.frombuffer(data, dtype.numpy.newbyteorder("<"), count)


def _array_from_field(dtype: DType, tensor: model.TensorProto, count: int) -> np.ndarray[Any, Any]:
    """Return `count` elements from the typed data field of a tensor (float_data, int32_data, ...) as a flat array.

    Types without a field of their own are in int32_data: floats as their bits, types of fewer than 8 bits packed in
    bytes. Complex numbers are pairs. Raise ModelFault if the field does not have as many numbers as `count` elements
    take.
    """
    name = _FIELDS.get(dtype.name, "int32_data")
    numbers: np.ndarray[Any, Any] = getattr(tensor, name)
    small = dtype.bits < 8 and not dtype.is_bool
    expected = _packed_size(dtype, count) if small else 2 * count if dtype.is_complex else count
    if len(numbers) != expected:
        raise ModelFault(f"{count} elements of type {dtype} are {expected} numbers in {name}; {len(numbers)} are there")
    if small:
        return _unpack_sub_bytes(dtype, numbers.astype(np.uint8), count)
    if dtype.is_complex:
        return np.ascontiguousarray(numbers).view(dtype.numpy)
    if dtype.is_bool:
        return numbers != 0
    if dtype.name == "f16":
        return numbers.astype(np.uint16).view(np.float16)
    # Other floats without a field, such as bf16, are arrays of their bits: NumPy has no such type.
    return numbers.astype(dtype.numpy, copy=False)


def _packed_size(dtype: DType, count: int) -> int:
    """Return how many bytes `count` elements take in a file. Types of less than 8 bits are packed without gaps."""
    bits = 8 if dtype.is_bool else dtype.bits * (2 if dtype.is_complex else 1)
    return -(-count * bits // 8)


def _unpack_sub_bytes(dtype: DType, data: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Unpack `count` elements of less than 8 bits to one byte each: signed integers extended by their sign, other types
    as their bits. The first element is in the lowest bits of its byte.
    """
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    values = ((data[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.numpy.kind != "i":
        return values.astype(dtype.numpy)
    sign = 1 << (dtype.bits - 1)
    # Flipping and then subtracting the sign bit extends the sign: for 4 bits, 15 becomes (15 ^ 8) - 8 = -1.
    return (values ^ sign).astype(np.int8) - np.int8(sign)


def _entry_number(entries: dict[str, str], key: str, default: Any) -> Any:
    """Return the number of bytes under `key` in `external_data` entries, or `default` if it is absent.

    At most 18 digits are accepted, so that the number fits 64 bits. Raise ModelFault for any other text.
    """
    text = entries.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelFault(f"its {key} in the file beside the model is {text!r:.40}")
    return int(text)
