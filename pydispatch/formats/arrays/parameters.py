"""Files of named arrays, mapped and never copied: .safetensors, .npz (stored, not compressed) and .npy."""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from pydispatch.errors import InvalidArgumentError, SystemError_
from pydispatch.files import open_mapped, path_of
from pydispatch.formats.arrays.npy_header import NpyHeader
from pydispatch.formats.storage.stored_zip import ZipFault, members_of

_MAX_HEADER_BYTES = 100 << 20
"""Size of a .safetensors header that is still parsed; bounds the memory that a broken file can take."""
_SAFE_TYPES = {
    "BOOL": ("b", 8), "U8": ("u", 8), "I8": ("i", 8), "U16": ("u", 16), "I16": ("i", 16), "U32": ("u", 32),
    "I32": ("i", 32), "U64": ("u", 64), "I64": ("i", 64), "F16": ("f", 16), "BF16": ("bf16", 16), "F32": ("f", 32),
    "F64": ("f", 64), "C64": ("c", 64), "F8_E4M3": ("f8E4M3FN", 8), "F8_E5M2": ("f8E5M2", 8),
    "F8_E8M0": ("f8E8M0FNU", 8), "F4": ("f4E2M1FN", 4),
}  # fmt: skip
"""dtype in a .safetensors header → `kind` and `bits` of a `Tensor`."""


@dataclass(frozen=True)
class Tensor:
    """Array in a file of parameters, such as safetensors.

    Attributes:
        kind: Kind of the elements: NumPy's letter (b, i, u, f, c, or V for raw bits), or the MLIR name of a type that
            NumPy lacks, such as "f8E5M2".
        bits: Size of an element, in bits. Elements of less than 8 bits are packed.
        shape: Sizes, the slowest varying first; () for a scalar.
        data: The bytes of the elements, little-endian and in row-major order, mapped from the file.
    """

    kind: str
    bits: int
    shape: tuple[int, ...]
    data: memoryview

    def __str__(self) -> str:
        """Return shape and element type for messages, such as `2x3xf32`."""
        names = {
            "b": "i1", "i": f"si{self.bits}", "u": f"ui{self.bits}", "f": f"f{self.bits}", "V": f"raw {self.bits}-bit",
        }  # fmt: skip
        name = names.get(self.kind, self.kind)  # other kinds are names of types, such as "f8E5M2"
        return "x".join([*(str(size) for size in self.shape), name])


class ParameterFile(Mapping[str, Tensor]):
    """Mapping from names to the arrays of a .safetensors, .npz or .npy file, which is mapped into memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map a file, and read where its arrays are. The suffix of its name decides the format.

        Raises InvalidArgumentError for another suffix and, with file, array and cause, for a broken file; SystemError
        for a file that cannot be read.
        """
        self.path = Path(path_of("parameters", path, "the path of a file"))
        try:
            self.data = _map(self.path)
        except SystemError_ as error:
            raise SystemError_(f"parameters: {error}") from None
        readers = {".safetensors": _read_safetensors, ".npz": _read_npz, ".npy": _read_npy}
        reader = readers.get(self.path.suffix.lower())
        if reader is None:
            raise InvalidArgumentError(
                f"parameters: '{self.path}': expected a .safetensors, .npz or .npy file; "
                "safetensors.numpy.save_file and numpy.savez write such"
            )
        try:
            self._tensors = reader(self.path, self.data)
        except _FileFault as fault:
            raise InvalidArgumentError(f"parameters: '{self.path}': {fault}") from None

    def __getitem__(self, key: str) -> Tensor:
        return self._tensors[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class _FileFault(Exception):
    """Error in the content of a parameter file."""


def _map(path: Path) -> memoryview:
    """Map a file for reading; an empty file, which cannot be mapped, gives an empty view."""
    with open_mapped(path) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _bytes_of(shape: tuple[int, ...], bits: int) -> int:
    """Return the bytes of an array of packed elements of `bits` each, rounded up to whole bytes."""
    return -(-math.prod(shape) * bits // 8)


def _read_safetensors(path: Path, data: memoryview) -> dict[str, Tensor]:
    """Read a .safetensors file: an 8-byte header length, the JSON header, the elements. Raises _FileFault."""
    header, body = _split_safetensors(data)
    ranges: list[tuple[int, int, str]] = []  # (begin, end, name) of each array that is not empty
    # "__metadata__" holds texts about the file, no array.
    tensors = {key: _safe_tensor(key, entry, body, ranges) for key, entry in header.items() if key != "__metadata__"}
    ranges.sort()  # if any two ranges overlap, two neighbors do
    for (_, end, key), (begin, _, other) in itertools.pairwise(ranges):
        if begin < end:
            raise _FileFault(f"the bytes of {_shown(other)} begin at {begin}, inside those of {_shown(key)}")
    return tensors


def _split_safetensors(data: memoryview) -> tuple[dict[str, object], memoryview]:
    """Return the header of a .safetensors file, an object without repeated names, and the elements after it."""
    if len(data) < 8:
        raise _FileFault(f"{len(data)} bytes are no .safetensors file")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(_MAX_HEADER_BYTES, len(data) - 8):
        raise _FileFault(f"a header of {length} bytes does not fit into a file of {len(data)}")
    try:
        header = json.loads(bytes(data[8 : 8 + length]).decode("utf-8"), object_pairs_hook=_unique_members)
    except (ValueError, RecursionError) as error:
        raise _FileFault(f"its header is no JSON: {str(error)[:100]}") from None
    if not isinstance(header, dict):
        raise _FileFault("its header is no JSON object")
    return header, data[8 + length :]


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the members of a JSON object as a dict; raise _FileFault for duplicate keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _FileFault(f"its header has {_shown(twice)} twice")
    return members


def _shown(key: str) -> str:
    """Return a name from a file for messages, with unprintable characters escaped and at most 200 characters."""
    return f"{key!r:.200}"


def _safe_tensor(key: str, entry: object, body: memoryview, ranges: list[tuple[int, int, str]]) -> Tensor:
    """Return the array that an entry of a .safetensors header describes. Raises _FileFault.

    Args:
        key: Name of the array.
        entry: Its value in the JSON header.
        body: Bytes of the file after the header, to which the offsets of entries refer.
        ranges: List to which (begin, end, name) of the array is appended, for a check of overlaps.
    """
    if not isinstance(entry, dict):
        raise _FileFault(f"{_shown(key)}: expected an object with dtype, shape and data_offsets")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _SAFE_TYPES:
        raise _FileFault(f"{_shown(key)}: unknown dtype {dtype!r:.40}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _FileFault(
            f"{_shown(key)}: expected sizes and two offsets, got shape {shape!r:.60}, data_offsets {offsets!r:.60}"
        )
    kind, bits = _SAFE_TYPES[dtype]
    begin, end = offsets
    size = _bytes_of(tuple(shape), bits)
    if not begin <= end <= len(body) or end - begin != size:
        # Python refuses to print integers of thousands of digits: a hostile shape may have such a size.
        takes = f"{size} bytes" if size < 1 << 63 else "more than 2^63 bytes"
        raise _FileFault(
            f"{_shown(key)}: {dtype} of shape {shape!r:.100} takes {takes}; its offsets are {begin} to {end} of "
            f"{len(body)}"
        )
    if size:  # an empty array overlaps nothing
        ranges.append((begin, end, key))
    return Tensor(kind, bits, tuple(shape), body[begin:end])


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    """Return whether a JSON value is a list of at most 64 integers from 0 to 2^63 - 1."""
    return isinstance(value, list) and len(value) <= 64 and all(type(v) is int and 0 <= v < 2**63 for v in value)


def _npy_tensor(key: str, data: memoryview) -> Tensor:
    """Return the array of a .npy file, whose bytes are `data`; `key` names it in messages. Raises _FileFault."""
    try:
        header = NpyHeader.read(data)
    except ValueError as error:
        raise _FileFault(f"{_shown(key)}: {error}") from None
    size = _bytes_of(header.shape, header.bits)
    if size > len(data) - header.length:
        raise _FileFault(
            f"{_shown(key)}: {header.shape} elements take {size} bytes, {len(data) - header.length} are there"
        )
    return Tensor(header.kind, header.bits, header.shape, data[header.length : header.length + size])


def _read_npy(path: Path, data: memoryview) -> dict[str, Tensor]:
    """Return the array of a .npy file, under the stem of the file name."""
    return {path.stem: _npy_tensor(path.stem, data)}


def _read_npz(path: Path, data: memoryview) -> dict[str, Tensor]:
    """Return the arrays of a .npz file by name. Raises _FileFault, also for compressed members, which cannot be mapped.

    `path` is unused: all readers have the same parameters.
    """
    try:
        members = members_of(data)
    except ZipFault as fault:
        remedy = "; write the file with numpy.savez" if fault.compressed else ""
        raise _FileFault(f"{fault}{remedy}") from None
    tensors: dict[str, Tensor] = {}
    for name, content in members.items():
        key = name.removesuffix(".npy")
        if key in tensors:
            raise _FileFault(f"{_shown(key)} is there twice")
        tensors[key] = _npy_tensor(key, content)
    return tensors
