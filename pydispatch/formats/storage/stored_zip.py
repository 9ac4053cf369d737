"""Zip files with uncompressed members: each member is a view of the file, nothing is copied."""

from __future__ import annotations

import io
import struct
import zipfile

_LOCAL_HEADER = struct.Struct("<26xHH")
"""Header before a member's bytes, with the lengths of the name and the extra field that follow it."""


class ZipFault(ValueError):
    """Error in the structure of a zip file.

    `compressed` is the name of the member that is compressed instead of stored, or ''.
    """

    def __init__(self, message: str, compressed: str = "") -> None:
        """Create an error with the text `message`. `compressed` names the compressed member at fault."""
        super().__init__(message)
        self.compressed = compressed


class _Bytes(io.RawIOBase):
    """Seekable stream over a memoryview, without a copy. `at` is the offset of the next byte to read."""

    def __init__(self, data: memoryview) -> None:
        """Create a stream at the first byte of `data`."""
        self.data = data
        self.at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position, as `io.RawIOBase.seek`."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: len(self.data)}[whence]
        at = base + offset
        if at < 0:
            raise ValueError(f"position {at} is in front of the file")
        self.at = at
        return at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Copy the bytes at the position into a buffer, and return their number."""
        part = self.data[self.at : self.at + len(buffer)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)


def members_of(data: memoryview) -> dict[str, memoryview]:
    """Return the bytes of each member of a zip file by name, in directory order; raise ZipFault if the file is
    broken."""
    try:
        with zipfile.ZipFile(_Bytes(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error, OverflowError) as error:
        raise ZipFault(f"it is no zip file: {error}") from None
    members: dict[str, memoryview] = {}
    for entry in entries:
        name = f"{entry.filename!r:.200}"  # for messages
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ZipFault(f"{name} is compressed and cannot be mapped", compressed=entry.filename)
        if entry.flag_bits & 1:  # the flag of encrypted members
            raise ZipFault(f"{name} is encrypted")
        if entry.filename in members:
            raise ZipFault(f"{name} is there twice")
        members[entry.filename] = _stored(name, entry.header_offset, entry.file_size, data)
    return members


def _stored(name: str, at: int, size: int, data: memoryview) -> memoryview:
    """Return the bytes of a member, which follow its local header; raise ZipFault if they are not inside the file.

    Args:
        name: Name of the member, for messages.
        at: Offset of its local header in the file.
        size: Number of its bytes.
        data: The file.
    """
    if not 0 <= at <= len(data) - _LOCAL_HEADER.size or bytes(data[at : at + 4]) != b"PK\x03\x04":
        raise ZipFault(f"{name}: there is no local header at {at}")
    name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(data, at)
    begin = at + _LOCAL_HEADER.size + name_bytes + extra_bytes
    if begin > len(data) or size > len(data) - begin:
        raise ZipFault(f"{name}: {size} bytes at {begin} are outside the {len(data)} bytes of the file")
    return data[begin : begin + size]
