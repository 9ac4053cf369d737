"""Lays out a plain zip whose members can be used in place: stored, 64-byte aligned, and deterministic (the time of
every member is 1980-01-01, the first that zip can represent).

Layout: PKWARE APPNOTE 4.3 (records) and 4.5 (zip64). The padding before a member's data is an extra field with the
id 0xD935, which is registered for this purpose: two bytes of alignment, then zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from pydispatch.errors import ArtifactError

ALIGNMENT = 64
"""The data of each member begins at a multiple of this many bytes."""
_LOCAL_HEADER_BYTES = 30  # without name and extra fields
_PLAIN_VERSION, _ZIP64_VERSION = 10, 45  # ZIP versions 1.0 and 4.5, as "version needed to extract"
_FULL16 = 0xFFFF  # in a 16-bit field: the value is too large for it, and is in a ZIP64 record
_FULL32 = 0xFFFFFFFF  # in a 32-bit field: the value is too large for it, and is in a ZIP64 record
_DATE = 1 << 5 | 1  # 1980-01-01: year - 1980, month, day
_UTF8 = 0x0800  # flag: the name is UTF-8
_UNIX = 3 << 8  # high byte of "version made by": file attributes are those of Unix
_REGULAR_FILE = 0o100644 << 16  # external attributes: the mode is in the high half
_ZIP64_EXTRA = 0x0001  # id of the extra field with 64-bit sizes and offset
_ALIGNMENT_EXTRA = 0xD935  # id of the extra field that aligns data, which Android's tools introduced


@dataclass(frozen=True)
class ArchiveEntry:
    """Name, size in bytes and CRC-32 of an archive member whose offset is not yet assigned."""

    name: str
    size: int
    crc: int


@dataclass(frozen=True)
class ArchiveLayout:
    """Layout of the zip archive of an artifact, computed before it is written.

    Attributes:
        headers: For each entry, the offset of its local header and the header; the member's data follows it.
        tail_offset: Offset of `tail`: the end of the last member's data.
        tail: Central directory and end records.
    """

    headers: list[tuple[int, bytes]]
    tail_offset: int
    tail: bytes


def check_name(name: str) -> bytes:
    """Return a member name in UTF-8; raise ArtifactError for a name that the reader would reject."""
    reason = None  # why the name is invalid
    forbidden = next((c for c in name if c < " " or c in "\\\x7f"), None)  # control characters and backslashes
    if not name or name.startswith("/") or ".." in name.split("/"):
        reason = "it must be a relative path inside the file"
    elif forbidden is not None:
        reason = f"it holds the character {forbidden!r}"
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        encoded, reason = b"", "it is not valid Unicode"
    if len(encoded) > _FULL16:  # a ZIP record has 16 bits for the length of a name
        reason = f"it has {len(encoded)} bytes, the limit is {_FULL16}"
    if reason:
        raise ArtifactError(f"{name[:80]!r} cannot name a member: {reason}")
    return encoded


def _padding(data_offset: int) -> bytes:
    """Return an extra field that moves data from `data_offset` to the next multiple of ALIGNMENT; b"" if it is one."""
    padding = -data_offset % ALIGNMENT
    if padding == 0:
        return b""
    # The field has an id, the length of the rest, and the alignment, in two bytes each; then zeros.
    if padding < 6:
        padding += ALIGNMENT
    return struct.pack("<HHH", _ALIGNMENT_EXTRA, padding - 4, ALIGNMENT) + bytes(padding - 6)


def _fixed_fields(entry: ArchiveEntry, name: bytes, version: int) -> bytes:
    """Return the fields that a local header and a directory entry have in common: version to uncompressed size."""
    flags = 0 if name.isascii() else _UTF8
    size = min(entry.size, _FULL32)
    is_compressed, time = 0, 0  # stored; midnight
    return struct.pack("<HHHHHIII", version, flags, is_compressed, time, _DATE, entry.crc, size, size)


def _local_header(offset: int, entry: ArchiveEntry, name: bytes) -> bytes:
    """Return the ZIP header before the data of a member, padded so that the data is aligned.

    Args:
        offset: Position of the header in the archive.
        entry: The member.
        name: Its name, encoded.
    """
    extra, version = b"", _PLAIN_VERSION
    if entry.size >= _FULL32:  # too large for the field of 32 bits
        # Id, length of the rest in bytes, uncompressed and compressed size.
        extra, version = struct.pack("<HHQQ", _ZIP64_EXTRA, 16, entry.size, entry.size), _ZIP64_VERSION
    extra += _padding(offset + _LOCAL_HEADER_BYTES + len(name) + len(extra))
    fields = _fixed_fields(entry, name, version)
    return b"PK\x03\x04" + fields + struct.pack("<HH", len(name), len(extra)) + name + extra


def _directory_entry(offset: int, entry: ArchiveEntry, name: bytes) -> bytes:
    """Return the ZIP central directory entry of a member at `offset`."""
    # Values that do not fit in 32 bits, in the order of the ZIP64 field: uncompressed size, compressed size, offset.
    wide = [entry.size, entry.size] if entry.size >= _FULL32 else []
    if offset >= _FULL32:
        wide.append(offset)
    extra = struct.pack(f"<HH{len(wide)}Q", _ZIP64_EXTRA, 8 * len(wide), *wide) if wide else b""
    version = _ZIP64_VERSION if wide else _PLAIN_VERSION
    comment_bytes, disk, is_text = 0, 0, 0
    entry_fields = struct.pack(
        "<HHHHHII", len(name), len(extra), comment_bytes, disk, is_text, _REGULAR_FILE, min(offset, _FULL32)
    )
    made_by = struct.pack("<H", _UNIX | version)
    return b"PK\x01\x02" + made_by + _fixed_fields(entry, name, version) + entry_fields + name + extra


def _end(count: int, offset: int, size: int) -> bytes:
    """Return the end record of a ZIP archive, after ZIP64 records if a number does not fit in its field.

    The end record has fields of 16 and 32 bits. A field with all bits set refers readers to the ZIP64 end record, which
    has the numbers in 64 bits. Readers find that by its locator, just before the end record.

    Args:
        count: Number of members.
        offset: Offset of the central directory in the archive.
        size: Size of the central directory in bytes.
    """
    records = b""  # the ZIP64 end record, and its locator
    disk, disk_count = 0, 1  # the archive is one file
    if count >= _FULL16 or offset >= _FULL32 or size >= _FULL32:
        # The ZIP64 end record, which begins at `offset + size`, after the central directory; and its locator.
        record_bytes = 44  # of the ZIP64 end record, without its signature and this field
        version = _UNIX | _ZIP64_VERSION
        records += b"PK\x06\x06" + struct.pack(
            "<QHHIIQQQQ", record_bytes, version, _ZIP64_VERSION, disk, disk, count, count, size, offset
        )
        records += b"PK\x06\x07" + struct.pack("<IQI", disk, offset + size, disk_count)
    # The end record.
    count_field, comment_bytes = min(count, _FULL16), 0
    fields = struct.pack(
        "<HHHHIIH", disk, disk, count_field, count_field, min(size, _FULL32), min(offset, _FULL32), comment_bytes
    )
    return records + b"PK\x05\x06" + fields


def layout(entries: Iterable[ArchiveEntry]) -> ArchiveLayout:
    """Assign offsets to the entries in the given order, each header directly after the previous member's data.

    Return the offset and the bytes of each header, the offset of the end of the last member, and the bytes after it:
    the central directory and the end record.

    Raises ArtifactError for an invalid or duplicate name.
    """
    headers: list[tuple[int, bytes]] = []
    directory = bytearray()
    seen: set[str] = set()
    offset = 0
    for entry in entries:
        if entry.name in seen:
            raise ArtifactError(f"two members are named '{entry.name}'")
        seen.add(entry.name)
        name = check_name(entry.name)
        header = _local_header(offset, entry, name)
        headers.append((offset, header))
        directory += _directory_entry(offset, entry, name)
        offset += len(header) + entry.size
    return ArchiveLayout(headers, offset, bytes(directory) + _end(len(headers), offset, len(directory)))
