"""The .pdx writer and reader: Python's zipfile and Info-ZIP's unzip are the oracles."""

from __future__ import annotations

import errno
import gc
import io
import os
import pickle
import stat
import struct
import subprocess
import weakref
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydispatch._core.artifact import ArtifactFile, crc32

from pydispatch.errors import ArtifactError, Error
from pydispatch.formats.artifact.artifact import Artifact, PackedExecutable, Variant
from pydispatch.formats.artifact.pack import ArchiveEntry, layout


def pack(members: list[tuple[str, bytes]]) -> bytes:
    plan = layout(ArchiveEntry(name, len(data), crc32(data)) for name, data in members)
    return b"".join(header + data for (_, header), (_, data) in zip(plan.headers, members, strict=True)) + plan.tail


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def example(**changes: object) -> Artifact:
    arguments: dict[str, object] = {
        "functions": [("mul", "(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>")],
        "program": b"PDXP" * 30,
        "executables": [
            PackedExecutable("executable", ["simple_mul", "simple_add"], [
                Variant("x86_64", "embedded-elf-x86_64", b"\x7fELF" + bytes(range(256)), requires=["avx2", "fma"]),
                Variant("spirv", "vulkan-spirv", b"\x03\x02\x23\x07", "spv", alignment=16, imports=["a", "?b"]),
            ]),
        ],
        "constants": [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5, np.int8)],
        "producers": {"llvm": "20.1"},
        "version": "1.2.3",
    }  # fmt: skip
    return Artifact.build(**{**arguments, **changes})  # type: ignore[arg-type]


# ---- what is written, other readers read


def test_zipfile_reads_what_is_written() -> None:
    artifact = example()
    with zipfile.ZipFile(io.BytesIO(artifact.to_bytes())) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == artifact.members == [
            "manifest.json", "program.bin", "executables/executable/x86_64.elf", "executables/executable/spirv.spv",
            "constants/0.npy", "constants/1.npy",
        ]  # fmt: skip
        for info in archive.infolist():
            assert archive.read(info) == bytes(artifact.read(info.filename))
            assert info.date_time == (1980, 1, 1, 0, 0, 0) and info.compress_type == zipfile.ZIP_STORED
            assert info.external_attr >> 16 == 0o100644


def test_unzip_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pdx"
    example().save(path)
    listed = subprocess.run(["unzip", "-l", path], capture_output=True, text=True, check=True).stdout
    assert "executables/executable/x86_64.elf" in listed and "6 files" in listed
    tested = subprocess.run(["unzip", "-t", path], capture_output=True, text=True, check=True)
    assert "No errors detected" in tested.stdout and not tested.stderr


def test_extra_fields_of_local_headers_are_well_formed() -> None:
    data = pack([(f"m{'x' * n}", b"d" * n) for n in range(70)])
    for info in zipfile.ZipFile(io.BytesIO(data)).infolist():
        name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
        at, end = info.header_offset + 30 + name, info.header_offset + 30 + name + extra
        assert end % 64 == 0 and extra < 70
        while at < end:
            kind, length = struct.unpack_from("<HH", data, at)
            assert kind == 0xD935 and struct.unpack_from("<H", data, at + 4) == (64,)
            at += 4 + length
        assert at == end


def test_constants_are_npy_files_with_aligned_elements(tmp_path: Path) -> None:
    arrays = [np.arange(1000.0), np.zeros((0, 3), np.int16), np.array(3 + 4j), np.asfortranarray(np.eye(3, dtype="f4"))]
    path = tmp_path / "c.pdx"
    example(constants=arrays).save(path)
    with zipfile.ZipFile(path) as archive:
        for i, array in enumerate(arrays):
            read = np.load(io.BytesIO(archive.read(f"constants/{i}.npy")))
            np.testing.assert_array_equal(read, array)
            assert read.dtype == array.dtype and read.shape == array.shape
    artifact = Artifact.from_file(path)
    view = artifact.read("constants/0.npy")
    start = np.frombuffer(view, np.uint8).ctypes.data
    header = 10 + struct.unpack_from("<H", view, 8)[0]
    assert start % 64 == 0 and header % 64 == 0


# ---- round trips


def test_same_input_same_bytes_and_every_way_back(tmp_path: Path) -> None:
    data = example().to_bytes()
    assert example().to_bytes() == data
    example().save(tmp_path / "a.pdx")
    assert (tmp_path / "a.pdx").read_bytes() == data
    pickled = pickle.loads(pickle.dumps(example()))
    for again in (Artifact.from_bytes(data), Artifact.from_file(tmp_path / "a.pdx"), pickled):
        again.verify()
        assert again.to_bytes() == data
        assert again.functions == {"mul": "(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>"}
        assert again.manifest == example().manifest


def test_an_artifact_that_is_loaded_holds_its_constants_once() -> None:
    weights = np.arange(1000.0)
    artifact, written = example(constants=[weights]), example(constants=[weights]).to_bytes()
    before, members, size = bytes(artifact.read("constants/0.npy")), artifact.members, artifact.size
    gone = weakref.ref(weights)
    file = artifact.file()
    del weights
    gc.collect()
    assert gone() is None
    assert artifact.file() is file
    assert artifact.read("constants/0.npy") == before and before.endswith(np.arange(1000.0).tobytes())
    assert (artifact.members, artifact.size, artifact.to_bytes()) == (members, size, written)


names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1, max_size=40
).filter(lambda name: name not in (".", ".."))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.binary(max_size=300), max_size=12))
def test_any_members_come_back(members: dict[str, bytes]) -> None:
    data = pack(list(members.items()))
    file = ArtifactFile(data)
    assert file.members() == list(members)
    file.verify()
    for name, content in members.items():
        view = file.find(name)
        assert view == content and view.readonly
        assert not content or np.frombuffer(view, np.uint8).ctypes.data % 64 == 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == list(members) and archive.testzip() is None


@pytest.mark.parametrize("name", ["a/b", "..", "x y", "é", "%", 'quo"te', "a\\b", "\n"])
def test_any_symbol_can_name_an_executable(name: str) -> None:
    artifact = example(executables=[PackedExecutable(name, ["f"], [Variant(name, "f", b"data")])])
    again = Artifact.from_bytes(artifact.to_bytes())
    assert again.executables[0].name == name
    member = again.executables[0].variants[0].member
    assert again.read(member) == b"data" and member.count("/") == 2 and member.isascii()


def test_a_thousand_members() -> None:
    members = [(f"m/{i}", bytes([i % 256]) * (i % 97)) for i in range(1000)]
    file = ArtifactFile(pack(members))
    assert all(file.find(name, verify=True) == data for name, data in members)


# ---- zip64


def test_more_members_than_16_bits_count() -> None:
    members = [(f"{i}", b"") for i in range(70_000)]
    data = pack(members)
    assert ArtifactFile(data).members() == [name for name, _ in members]
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) == 70_000


def test_member_larger_than_4_gib(tmp_path: Path) -> None:
    """Written as a sparse file: only the headers and the small members take space."""
    large = (1 << 32) + 12_345
    small = b"after the large one"
    entries = [
        ArchiveEntry("first", 3, crc32(b"abc")),
        ArchiveEntry("large", large, 0),
        ArchiveEntry("last", len(small), crc32(small)),
    ]
    plan = layout(entries)
    path = tmp_path / "large.pdx"
    with path.open("wb") as stream:
        for (offset, header), data in zip(plan.headers, [b"abc", b"", small], strict=True):
            stream.seek(offset)
            stream.write(header + data)
        stream.seek(plan.tail_offset)
        stream.write(plan.tail)
    assert path.stat().st_size > 1 << 32
    file = ArtifactFile(path)
    assert file.find("last", verify=True) == small and file.find("first", verify=True) == b"abc"
    assert file.find("large").nbytes == large and file.find("large")[large - 1] == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("large").file_size == large and archive.read("last") == small
        assert archive.getinfo("last").header_offset > 1 << 32
    listed = subprocess.run(["unzip", "-l", path], capture_output=True, text=True, check=True).stdout
    assert str(large) in listed and "last" in listed


def test_zip64_forms_that_zipfile_writes_are_read() -> None:
    buffer = io.BytesIO()
    name = "n" * (128 - 30 - 20)  # with the zip64 extra field of 20 bytes, the data is aligned
    with zipfile.ZipFile(buffer, "w") as archive, archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
        member.write(b"content")
    assert ArtifactFile(buffer.getvalue()).find(name, verify=True) == b"content"


# ---- files


def test_save_replaces_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.pdx"
    path.write_bytes(b"old")
    opened = path.open("rb")
    example().save(path)
    assert opened.read() == b"old" and listing(tmp_path) == ["a.pdx"]
    opened.close()
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        example().save(tmp_path / "folder")
    assert listing(tmp_path) == ["a.pdx", "folder"]
    with pytest.raises(OSError, match="cannot write the artifact: No such file") as error:
        example().save(tmp_path / "missing" / "a.pdx")
    assert isinstance(error.value, Error) and error.value.errno == errno.ENOENT


def test_a_file_can_be_saved_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.pdx"
    artifact = example(constants=[np.arange(50_000.0)])  # large enough to be mapped
    artifact.save(path)
    Artifact.from_file(path).save(path)
    assert path.read_bytes() == artifact.to_bytes()


def test_build_refuses_what_a_reader_would() -> None:
    variant = Variant("v", "f", b"")
    with pytest.raises(ArtifactError, match=r"two members are named 'executables/e/v.elf'"):
        example(executables=[PackedExecutable("e", [], [variant]), PackedExecutable("e", [], [variant])])
    with pytest.raises(ArtifactError, match=r"functions: the name 'f' is given twice"):
        example(functions=[("f", "() -> ()"), ("f", "() -> ()")])
    with pytest.raises(ArtifactError, match=r"variants\[0\].alignment: expected a power of two, got 48"):
        example(executables=[PackedExecutable("e", [], [Variant("v", "f", b"", alignment=48)])])
    for name, reason in (("/a", "relative path"), ("a/../b", "relative path"), ("a\nb", "character"), ("", "relative")):
        with pytest.raises(ArtifactError, match=reason):
            pack([(name, b"")])
    with pytest.raises(ArtifactError, match="two members are named 'a'"):
        pack([("a", b""), ("a", b"")])


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    artifact = example()
    with ThreadPoolExecutor(1) as reader:
        content = reader.submit(path.read_bytes)
        artifact.save(path)
        assert content.result(timeout=300) == artifact.to_bytes()
    assert stat.S_ISFIFO(path.stat().st_mode)
