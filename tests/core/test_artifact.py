"""The reader of .pdx files on broken, foreign and hostile bytes: an ArtifactError with the fault, never a crash."""

from __future__ import annotations

import gc
import io
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydispatch._core.artifact import ArtifactFile, crc32

from pydispatch.errors import ArtifactError, InvalidArgumentError, SystemError_
from pydispatch.formats.artifact.pack import ArchiveEntry, layout

MEMBERS = {"manifest.json": b"{}\n", "program.bin": b"PDXP" * 5, "executables/e/v.elf": b"\x7fELF" + bytes(range(70))}


def pack(members: dict[str, bytes]) -> bytes:
    plan = layout(ArchiveEntry(name, len(data), crc32(data)) for name, data in members.items())
    return b"".join(h + d for (_, h), d in zip(plan.headers, members.values(), strict=True)) + plan.tail


GOOD = pack(MEMBERS)
DIRECTORY = GOOD.index(b"PK\x01\x02")
END = GOOD.index(b"PK\x05\x06")


def entry(index: int) -> int:
    """Offset of the n-th directory entry."""
    at = DIRECTORY
    for _ in range(index):
        at += 46 + sum(struct.unpack_from("<HHH", GOOD, at + 28))
    return at


def local(index: int) -> int:
    return struct.unpack_from("<I", GOOD, entry(index) + 42)[0]


def patched(*changes: tuple[int, str, int], data: bytes = GOOD) -> bytes:
    out = bytearray(data)
    for offset, kind, value in changes:
        struct.pack_into("<" + kind, out, offset, value)
    return bytes(out)


def both(index: int, local_field: int, entry_field: int, kind: str, value: int) -> bytes:
    """The same field changed in the local header and in the directory."""
    return patched((local(index) + local_field, kind, value), (entry(index) + entry_field, kind, value))


# ---- sums and views


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=700), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_crc32_is_that_of_zlib(data: bytes, seed: int, skip: int) -> None:
    view = memoryview(data)[skip:]
    assert crc32(view, seed) == zlib.crc32(view, seed)


def test_crc32_of_every_length_and_alignment() -> None:
    data = np.random.default_rng(0).bytes(400)
    for start in range(17):
        for length in range(360):
            view = data[start : start + length]
            assert crc32(view) == zlib.crc32(view), (start, length)
    assert crc32(data[200:], crc32(data[:200])) == zlib.crc32(data)


def test_views_outlive_the_file_object(tmp_path: Path) -> None:
    path = tmp_path / "a.pdx"
    for size in (100, 200_000):  # copied and mapped
        content = bytes(i % 251 for i in range(size))
        path.write_bytes(pack({"m": content}))
        for source in (path, str(path), os.fsencode(path).decode(), path.read_bytes(), bytearray(path.read_bytes())):
            view = ArtifactFile(source).find("m")
            gc.collect()
            assert view == content and view.readonly and view.nbytes == size
            with pytest.raises(TypeError):
                view[0] = 1


def test_bytes_are_copied() -> None:
    source = bytearray(GOOD)
    file = ArtifactFile(source)
    source[:] = bytes(len(source))
    file.verify()


def test_equal_files(tmp_path: Path) -> None:
    (tmp_path / "a.pdx").write_bytes(GOOD)
    file = ArtifactFile(GOOD)
    assert file.is_equal(ArtifactFile(tmp_path / "a.pdx")) and file.is_equal(ArtifactFile([GOOD[:9], GOOD[9:]]))
    assert not file.is_equal(ArtifactFile(patched((GOOD.index(b"PDXP"), "B", 0))))
    unread = ArtifactFile.__new__(ArtifactFile)  # which has seen the bytes of its first part, but has no content
    with pytest.raises(InvalidArgumentError, match="got memoryview"):
        unread.__init__([GOOD, memoryview(GOOD)[::2]])  # type: ignore[misc]
    assert not file.is_equal(unread) and not unread.is_equal(file) and unread.size == 0


def test_lookup() -> None:
    file = ArtifactFile(GOOD)
    assert file.members() == list(MEMBERS)
    assert "program.bin" in file and "program" not in file and "program.bin\0" not in file and "\udc80" not in file
    assert repr(file) == f"<ArtifactFile '<bytes>': 3 members, {len(GOOD)} bytes>"
    with pytest.raises(ArtifactError, match=r"^<bytes> has no member 'program'$"):
        file.find("program")
    assert ArtifactFile(pack({})).members() == []


def test_verify_names_both_sums(tmp_path: Path) -> None:
    at = GOOD.index(b"PDXP")
    path = tmp_path / "damaged.pdx"
    path.write_bytes(patched((at, "B", 0)))
    file = ArtifactFile(path)
    file.verify("manifest.json")
    bad, good = zlib.crc32(b"\0DXP" + b"PDXP" * 4), zlib.crc32(b"PDXP" * 5)
    text = f"{path}: member 'program.bin' is damaged: its checksum is {bad:08X}, the directory states {good:08X}"
    for call in (file.verify, lambda: file.verify("program.bin"), lambda: file.find("program.bin", verify=True)):
        with pytest.raises(ArtifactError, match="^" + re.escape(text) + "$"):
            call()
    assert file.find("program.bin").nbytes == 20


# ---- files that cannot be read


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SystemError_, match=r"cannot open '.*missing\.pdx': No such file or directory"):
        ArtifactFile(tmp_path / "missing.pdx")
    with pytest.raises(OSError, match="it is a folder, not a file"):
        ArtifactFile(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or device, not a file"):
        ArtifactFile(tmp_path / "pipe")
    (tmp_path / "empty.pdx").touch()
    with pytest.raises(ArtifactError, match=r"empty\.pdx' is empty"):
        ArtifactFile(tmp_path / "empty.pdx")
    with pytest.raises(ValueError, match="NUL"):
        ArtifactFile("a\0b")
    with pytest.raises(TypeError):
        ArtifactFile(3)


# ---- every cut, every flipped bit


def _reads_the_same_or_fails(data: bytes) -> bool:
    """True when it was accepted: then the content is what was written."""
    try:
        file = ArtifactFile(data)
        file.verify()
    except ArtifactError as error:
        assert str(error)
        return False
    assert {name: bytes(file.find(name)) for name in file.members()} == MEMBERS
    return True


def test_truncated_at_every_byte() -> None:
    assert _reads_the_same_or_fails(GOOD)
    for length in range(len(GOOD)):
        assert not _reads_the_same_or_fails(GOOD[:length])
        assert not _reads_the_same_or_fails(GOOD[length + 1 :])


def test_every_flipped_bit() -> None:
    """Only bits that carry no content may flip unnoticed: times, versions, attributes, the filling of the padding."""
    kept = 0
    for bit in range(len(GOOD) * 8):
        data = bytearray(GOOD)
        data[bit // 8] ^= 1 << bit % 8
        kept += _reads_the_same_or_fails(bytes(data))
    assert kept < len(GOOD) * 8 // 2


def test_every_byte_taken_out_or_put_in() -> None:
    for at in range(len(GOOD)):
        assert not _reads_the_same_or_fails(GOOD[:at] + GOOD[at + 1 :])
        assert not _reads_the_same_or_fails(GOOD[:at] + b"\0" + GOOD[at:])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])), max_size=6))
def test_absurd_fields(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    _reads_the_same_or_fails(bytes(data))


# ---- each rule, with its message


def foreign(write: Callable[[zipfile.ZipFile], object]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        write(archive)
    return buffer.getvalue()


def duplicate() -> bytes:
    return pack({"a": b"1", "b": b"2"}).replace(b"b\x35\xd9", b"a\x35\xd9").replace(b"b" + b"PK\5\6", b"a" + b"PK\5\6")


SECOND = local(1)
CASES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"PK", "not an artifact: 2 bytes are too few for a zip file"),
    "text": (b"hello world, this is no zip file", "not an artifact: no zip end record in 32 bytes"),
    "cut": (GOOD[:-30], f"the zip file has no end record: it was cut off after {len(GOOD) - 30} bytes"),
    "garbage behind": (GOOD + b"abc", "the zip comment has 0 bytes, but 3 follow the end record"),
    "garbage in front": (b"abc" + GOOD, "does not end at its end record"),
    "split": (patched((END + 4, "H", 1)), "split over several volumes"),
    "entry on another volume": (patched((entry(1) + 34, "H", 2)), "entry 1 of the zip directory lies on volume 2"),
    "too many": (patched((END + 8, "H", 900), (END + 10, "H", 900)), "too few for 900 members"),
    "one too many": (
        pack({"a" * 60: b"", "b": b""})[:-22] + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 3, 3, 153, 192, 0),
        "entry 2 of the zip directory is broken: none at its byte 153 of 153"),
    "one too few": (patched((END + 8, "H", 2), (END + 10, "H", 2)), "behind its 2 entries"),
    "directory outside": (patched((END + 16, "I", 1 << 30)), "does not end at its end record"),
    "entry signature": (patched((entry(1), "B", 0)), "entry 1 of the zip directory is broken: none at its byte"),
    "long name": (patched((entry(2) + 28, "H", 60_000)), "bytes past its end"),
    "extra in directory": (
        patched((entry(0) + 28, "H", 12), (entry(0) + 30, "H", 1)), "entry 0 of the zip directory is broken"),
    "encrypted": (both(1, 6, 8, "H", 1), f"member 'program.bin' at offset {SECOND} is encrypted"),
    "compressed": (both(1, 8, 10, "H", 8), "is compressed (zip method 8); members are stored: pack it again without"),
    "descriptor": (both(1, 6, 8, "H", 8), "has its sizes behind its data (zip flags 0x0008)"),
    "flags": (both(1, 6, 8, "H", 0x2000), "has unknown zip flags 0x2000"),
    "two sizes": (both(1, 18, 20, "I", 19), "is stored, but has 19 bytes in the file and 20 outside it"),
    "overlap": (patched((entry(1) + 42, "I", 0)), "overlaps another member or is out of order"),
    "gap": (patched((entry(1) + 42, "I", SECOND + 1)), "follows bytes that belong to no member"),
    "no local header": (patched((SECOND, "B", 0)), "is broken: its local header has no signature"),
    "local name": (patched((SECOND + 30, "B", 0x71)), "local header and the directory disagree on its name"),
    "local checksum": (patched((SECOND + 14, "I", 1)), "local header and the directory disagree on its checksum"),
    "local size": (patched((SECOND + 22, "I", 1)), "local header and the directory disagree on its size"),
    "local method": (patched((SECOND + 8, "H", 8)), "local header and the directory disagree on its method"),
    "local extra": (patched((SECOND + 28, "H", 65_000)), "its local header runs past the end of the file"),
    "torn extra": (patched((SECOND + 30 + 11 + 2, "H", 500)), "its local header has extra fields that do not fit"),
    "too long": (
        patched((local(2) + 18, "I", 5000), (local(2) + 22, "I", 5000), (entry(2) + 20, "I", 5000),
                (entry(2) + 24, "I", 5000)), "its 5000 bytes run past the start of the directory"),
    "duplicate": (duplicate(), "two members are named 'a'"),
    "unaligned": (
        foreign(lambda z: z.writestr("a", "x")), "offset 31, which is no multiple of 64: write it with pydispatch"),
    "deflated": (foreign(lambda z: z.writestr("a", "x" * 99, zipfile.ZIP_DEFLATED)), "is compressed (zip method 8)"),
    "control character": (GOOD.replace(b"program.bin", b"program\nbin"), "member 'program?bin' at offset"),
    "not UTF-8": (GOOD.replace(b"program.bin", b"program\xffbin"), "not ASCII from its byte 7 on"),
    "absolute": (GOOD.replace(b"program.bin", b"/rogram.bin"), "has an absolute path for a name"),
    "leaves": (GOOD.replace(b"program.bin", b"../gram.bin"), "leaves its folder by '..'"),
    "backslash": (GOOD.replace(b"program.bin", b"prog\\am.bin"), "has the character 0x5C in its name"),
    "zip64 nowhere": (
        GOOD[:END] + b"PK\6\7" + struct.pack("<IQI", 0, 1 << 60, 1) + GOOD[END:], "zip64 locator leads nowhere"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_message(case: str) -> None:
    data, message = CASES[case]
    with pytest.raises(ArtifactError, match=re.escape(message)) as caught:
        ArtifactFile(data)
    assert str(caught.value).startswith("<bytes>: ")


def test_a_comment_is_allowed_and_must_fit() -> None:
    for comment in (b"x", b"hello" * 10, bytes(65_535), b"PK\5\6 and more in the comment"):
        data = GOOD[:-2] + struct.pack("<H", len(comment)) + comment
        if b"PK\5\6" in comment:  # two ends: which one counts depends on the reader, so neither does
            with pytest.raises(ArtifactError, match="the zip comment has"):
                ArtifactFile(data)
        else:
            assert _reads_the_same_or_fails(data)
            assert not _reads_the_same_or_fails(data[:-1])


def test_zip64_end_records_must_agree() -> None:
    size, offset, count = END - DIRECTORY, DIRECTORY, 3

    def end64(size: int, offset: int, count: int, narrow: int = 0xFFFF, length: int = 44) -> bytes:
        record = b"PK\6\6" + struct.pack("<QHHIIQQQQ", length, 45, 45, 0, 0, count, count, size, offset)
        locator = b"PK\6\7" + struct.pack("<IQI", 0, END, 1)
        tail = struct.pack("<HHHHIIH", 0, 0, narrow, narrow, 2**32 - 1, 2**32 - 1, 0)
        return GOOD[:END] + record + locator + b"PK\5\6" + tail

    assert _reads_the_same_or_fails(end64(size, offset, count))
    assert _reads_the_same_or_fails(end64(size, offset, count, narrow=3))
    for data, message in (
        (end64(size, offset, count, narrow=4), "two end records of the zip file disagree"),
        (end64(size - 1, offset, count), "does not end where its zip64 end record starts"),
        (end64(2**64 - 1, 2**64 - 1, count), "does not end where its zip64 end record starts"),
        (end64(size, offset, 2**63), "too few for 9223372036854775808 members"),
        (end64(size, offset, count, length=45), "wrong length of the zip64 end record"),
        (end64(size, offset, count, length=2**64 - 1), "wrong length of the zip64 end record"),
    ):
        with pytest.raises(ArtifactError, match=re.escape(message)):
            ArtifactFile(data)


def test_names_that_all_look_alike_stay_fast() -> None:
    """No pattern of names makes opening slow: 50,000 that differ in the last characters only."""
    data = pack({f"{'a' * 60}{i}": b"" for i in range(50_000)})
    assert len(ArtifactFile(data).members()) == 50_000


def test_nothing_stays_mapped_or_open(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pdx", tmp_path / "bad.pdx"
    data = pack({"m": bytes(200_000)})
    good.write_bytes(data)
    bad.write_bytes(data[:-1])
    script = f"""
import os, gc
from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.status import ArtifactError
def state():
    gc.collect()
    maps = sum("pdx" in line for line in open("/proc/self/maps"))
    return maps, len(os.listdir("/proc/self/fd"))
before = state()
for _ in range(1000):
    ArtifactFile({str(good)!r}).find("m")
    try:
        ArtifactFile({str(bad)!r})
    except ArtifactError:
        pass
assert state() == before == (0, before[1]), (state(), before)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
