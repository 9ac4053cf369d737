"""`pydispatch fatelf` and formats/fatelf: files interchangeable with the other system's, and what is refused."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from pydispatch._core import elf as core_elf

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.elf import fatelf


def elf(machine: int, size: int = 100, osabi: int = 0, file_class: int = 2, order: int = 1, kind: int = 3) -> bytes:
    head = b"\x7fELF" + bytes([file_class, order, 1, osabi, 0]) + bytes(7)
    return (head + struct.pack("<HH" if order == 1 else ">HH", kind, machine)).ljust(size, bytes([machine & 255]))


def by_hand(records: list[tuple[int, int, bytes]]) -> bytes:
    """A file as the format's description has it, written a second time: pairs (machine, osabi, data)."""
    at = -(-(8 + 24 * len(records)) // 4096) * 4096
    table, body = struct.pack("<IHBB", 0x1F0E70FA, 1, len(records), 0), b""
    start = at
    for machine, osabi, data in records:
        body = body.ljust(at - start, b"\0") + data
        table += struct.pack("<HBBBBBBQQ", machine, osabi, 0, 2, 1, 0, 0, at, len(data))
        at += -(-len(data) // 4096) * 4096
    return table.ljust(start, b"\0") + body


X86, ARM, RISCV = elf(62, 5000), elf(183, 4096), elf(243, 300, osabi=3)


def run(*arguments: object, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pydispatch.cli.__main__", "fatelf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, input=data, check=False)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.so" for name in ("x86", "arm", "riscv")]
    for path, data in zip(paths, (X86, ARM, RISCV), strict=True):
        path.write_bytes(data)
    return paths


def test_join_writes_the_format() -> None:
    joined = fatelf.join([("a", X86), ("b", ARM), ("c", RISCV)])
    assert joined == by_hand([(62, 0, X86), (183, 0, ARM), (243, 3, RISCV)])
    assert len(joined) == 4096 + 8192 + 4096 + 300  # no padding behind the last
    assert [record.target for record in fatelf.read(joined)] == [
        "x86_64_none_lp64le", "aarch64_none_lp64le", "riscv64_linux_lp64le",
    ]  # fmt: skip


def test_join_split_select(files: list[Path], tmp_path: Path) -> None:
    done = run("join", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout == by_hand([(62, 0, X86), (183, 0, ARM), (243, 3, RISCV)])
    sos = tmp_path / "all.sos"
    assert run("join", *files, "-o", sos).returncode == 0 and sos.read_bytes() == done.stdout
    for arch, data in (("x86_64", X86), ("aarch64", ARM), ("riscv64", RISCV)):
        assert run("select", sos, "--arch", arch).stdout == data
    host = {"x86_64": X86, "aarch64": ARM, "riscv64": RISCV}[str(core_elf.host_machine())]
    assert run("select", sos).stdout == host and run("select", files[0]).stdout == X86
    done = run("split", sos)
    assert done.stdout.decode().splitlines() == [
        *(f"Writing record[{i}] to '{tmp_path}/all.{name}_lp64le.so'..."
          for i, name in enumerate(("x86_64_none", "aarch64_none", "riscv64_linux"))),
        f"Wrote 3 records to {tmp_path}!",
    ]  # fmt: skip
    assert (tmp_path / "all.riscv64_linux_lp64le.so").read_bytes() == RISCV
    rejoined = run("join", *(tmp_path / f"all.{n}_lp64le.so" for n in ("x86_64_none", "aarch64_none", "riscv64_linux")))
    assert rejoined.stdout == sos.read_bytes()
    text = run("dump", sos).stdout.decode()
    assert text.startswith("magic: 1F0E70FA\nversion: 1\nrecords: 3\nreserved: 0\nrecord[0]: x86_64_none_lp64le\n")
    assert "  machine: 243 / F3 = riscv64\n  osabi: 3 / 3 = linux\n" in text and "  offset: 16384 / 4000\n" in text


def test_equal_targets_of_another_tool_are_all_split() -> None:
    data = by_hand([(62, 0, X86), (62, 0, X86[:200])])
    assert [name for name, _ in fatelf.split(data)] == ["x86_64_none_lp64le", "x86_64_none_lp64le_2"]
    assert bytes(fatelf.select(data, "x86_64")) == X86  # the first


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "nothing to join"),
        ([("a.so", X86), ("b.so", elf(62, 64))], "b.so for x86_64_none_lp64le and a.so for x86_64_none_lp64le are"),
        ([("a.so", X86), ("b.so", elf(62, osabi=3))], "b.so for x86_64_linux_lp64le and a.so for x86_64_none_lp64le"),
        ([("a.so", elf(62, osabi=255)), ("b.so", X86)], "for the same machine; the loader would never see b.so"),
        ([("a.so", elf(62, order=2)), ("b.so", elf(62, order=2))], "a.so for x86_64_none_lp64be are for the same"),
        ([("a.c", b"int x;")], "a.c is not an ELF file"),
        ([("a.sos", by_hand([(62, 0, X86)]))], "a.sos is a FatELF file itself: split it first"),
        ([("a.so", X86[:10])], "a.so is cut off after 10 bytes"),
        ([("a.o", elf(62, kind=1))], "a.o is of ELF type 1, expected 3 (a shared object)"),
        ([("a.so", elf(62, file_class=7))], "a.so has ELF class 7"),
        ([(f"{i}.so", elf(i)) for i in range(256)], "256 files to join; a FatELF file has room for 255"),
    ],
)
def test_join_refuses(inputs: list[tuple[str, bytes]], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        fatelf.join(inputs)
    assert message in str(raised.value)
    assert len(fatelf.read(fatelf.join([(str(i), elf(i)) for i in range(255)]))) == 255


def test_other_word_sizes_and_orders_are_records_too() -> None:
    data = fatelf.join([("a", elf(62, file_class=1)), ("b", elf(62, order=2)), ("c", X86)])
    assert [r.target for r in fatelf.read(data)] == ["x86_64_none_lp32le", "x86_64_none_lp64be", "x86_64_none_lp64le"]
    assert bytes(fatelf.select(data, "x86_64")) == X86
    data = fatelf.join([("a", elf(62, osabi=9)), ("b", X86)])  # FreeBSD, which the loader passes over
    assert bytes(fatelf.select(data, "x86_64")) == X86


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:5], "cut off after 5 bytes"),
        (lambda d: d[:30], "cut off: 2 records need 56 bytes, it has 30"),
        (lambda d: d[:4] + b"\2\0" + d[6:], "has version 2; version 1 can be read"),
        (lambda d: d[:-1], "record 1 of the FatELF file covers 4096 bytes at 12288; the file has 16383"),
        (lambda d: d[:16] + bytes(8) + d[24:], "record 0 of the FatELF file covers 5000 bytes at 0"),
        (lambda d: b"\x7fELF" + d[4:], "not a FatELF file"),
    ],
)
def test_broken_files(change: object, message: str, tmp_path: Path) -> None:
    data = change(by_hand([(62, 0, X86), (183, 0, ARM)]))  # type: ignore[operator]
    with pytest.raises(ArtifactError) as raised:
        fatelf.read(data)
    assert message in str(raised.value)
    path = tmp_path / "broken.sos"
    path.write_bytes(data)
    done = run("dump", path)
    assert done.returncode == 1 and done.stderr.decode().startswith(f"pydispatch: error: {path}: ")


def test_select_names_what_is_there() -> None:
    with pytest.raises(ArtifactError, match="no record for riscv64; the FatELF file has x86_64_none_lp64le"):
        fatelf.select(by_hand([(62, 0, X86)]), "riscv64")
