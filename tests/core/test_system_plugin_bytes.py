"""Libraries for the system's loader, byte by byte: what it would follow out of the file is refused before it is asked.

Each library is opened in a child process, since what is wrong with the check ends that process.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from elf_build import run
from pydispatch._core import elf

from pydispatch.errors import ArtifactError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system has no ELF libraries")

SOURCE = Path(__file__).parents[1] / "c" / "plugin" / "peer_plugin.c"
LOAD, DYNAMIC, RELRO = 1, 2, 0x6474E552
NULL, NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, INIT, RELA, RELASZ = 0, 1, 4, 5, 6, 10, 11, 12, 7, 8
GNU_HASH = 0x6FFFFEF5
CHILD = """
import sys
from pathlib import Path
from pydispatch._core import plugin
for path in sys.argv[1:]:
    try:
        plugin.Plugin(path, kind="system")
        print("ok", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("library") / "plugin.so"
    run("gcc", "-shared", "-fPIC", "-DSYSTEM", SOURCE, "-o", path)
    return path.read_bytes()


def headers(data: bytes) -> list[tuple[int, int]]:
    """(where it lies, type) of each program header."""
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    return [(at, struct.unpack_from("<I", data, at)[0]) for at in range(start, start + 56 * count, 56)]


def header(data: bytes, kind: int, which: int = 0) -> int:
    return [at for at, type_ in headers(data) if type_ == kind][which]


def entry(data: bytes, tag: int) -> int:
    """Where an entry of the dynamic section lies."""
    start, size = (struct.unpack_from("<Q", data, header(data, DYNAMIC) + at)[0] for at in (8, 32))
    return next(at for at in range(start, start + size, 16) if struct.unpack_from("<Q", data, at)[0] == tag)


def put(data: bytes, form: str, at: int, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


FAR, SECTION_HEADERS = 1 << 40, 40
BROKEN = {
    "headers outside": (lambda d: put(d, "<Q", 32, FAR), "program headers at 0x10000000000 lie outside the file"),
    "headers wrap": (lambda d: put(d, "<Q", 32, (1 << 64) - 8), "lie outside the file"),
    "sections outside": (lambda d: put(d, "<Q", SECTION_HEADERS, FAR), "section headers at 0x10000000000 lie outside"),
    "no headers": (lambda d: put(d, "<H", 56, 0), "no program headers"),
    "size of a header": (lambda d: put(d, "<H", 54, 32), "program headers of 32 bytes, expected 56"),
    "version": (lambda d: put(d, "<I", 20, 7), "object file version 7, expected 1"),
    "offset": (lambda d: put(d, "<Q", header(d, LOAD) + 8, FAR), "is it cut off"),
    "size in the file": (lambda d: put(d, "<Q", header(d, LOAD) + 32, FAR), "bytes in the file but only"),
    "sizes": (lambda d: put(put(d, "<Q", header(d, LOAD) + 32, FAR), "<Q", header(d, LOAD) + 40, FAR), "is it cut off"),
    "alignment": (lambda d: put(d, "<Q", header(d, LOAD) + 48, 4097), "alignment 0x1001 is not a power of two"),
    "overlap": (lambda d: put(d, "<Q", header(d, LOAD, 1) + 16, 0), "before the previous one ends"),
    "address": (lambda d: put(d, "<Q", header(d, LOAD, 1) + 16, (1 << 64) - 4096), "wraps around"),
    "far apart": (lambda d: put(d, "<Q", header(d, LOAD, -1) + 16, FAR), "bytes of memory, limit"),
    "no dynamic section": (lambda d: put(d, "<I", header(d, DYNAMIC), 0), "no dynamic section"),
    "dynamic outside": (lambda d: put(d, "<Q", header(d, DYNAMIC) + 16, FAR), "lies in no loaded segment"),
    "dynamic in code": (
        lambda d: put(put(d, "<I", header(d, RELRO), 0), "<I", header(d, LOAD, -1) + 4, 4),
        "is to be written, its segment must not be",
    ),
    "strings": (lambda d: put(d, "<Q", entry(d, STRTAB) + 8, FAR), "DT_STRTAB"),
    "size of strings": (lambda d: put(d, "<Q", entry(d, STRSZ) + 8, FAR), "DT_STRTAB"),
    "no strings": (lambda d: put(d, "<Q", entry(d, STRTAB), 0x70000001), "DT_STRTAB, DT_STRSZ or DT_SYMTAB is missing"),
    "no symbols": (lambda d: put(d, "<Q", entry(d, SYMTAB), 0x70000001), "DT_SYMTAB is missing"),
    "symbols": (lambda d: put(d, "<Q", entry(d, SYMTAB) + 8, FAR), "lie in no loaded segment"),
    "size of a symbol": (lambda d: put(d, "<Q", entry(d, SYMENT) + 8, 23), "symbols of 23 bytes"),
    "hash": (lambda d: put(d, "<Q", entry(d, GNU_HASH) + 8, FAR), "DT_GNU_HASH lies in no loaded"),
    "no hash": (lambda d: put(d, "<Q", entry(d, GNU_HASH), 0x70000001), "no symbol hash table"),
    "needed": (lambda d: put(d, "<Q", entry(d, NEEDED) + 8, FAR), "has its name at byte"),
    "init": (lambda d: put(d, "<Q", entry(d, INIT) + 8, FAR), "DT_INIT 0x10000000000 lies in no executable"),
    "relocations": (lambda d: put(d, "<Q", entry(d, RELA) + 8, FAR), "DT_RELA"),
    "size of relocations": (lambda d: put(d, "<Q", entry(d, RELASZ) + 8, 25), "DT_RELA has 25 bytes"),
    "no end": (lambda d: endless(d), "has no end"),
}


def endless(data: bytes) -> bytes:
    """The dynamic section ends where its last entry does, without the one that says so."""
    at, end = header(data, DYNAMIC), entry(data, NULL)
    size = end - struct.unpack_from("<Q", data, at + 8)[0]
    return put(put(data, "<Q", at + 32, size), "<Q", at + 40, size)


def opened(folder: Path, *libraries: bytes) -> list[str]:
    """What a child process says to each; it must live."""
    paths = []
    for i, data in enumerate(libraries):
        paths.append(folder / f"{i}.so")
        paths[-1].write_bytes(data)
    done = subprocess.run([sys.executable, "-c", CHILD, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout.splitlines(), done.stderr)
    return done.stdout.splitlines()


def test_what_the_system_would_follow_is_refused(library: bytes, tmp_path: Path) -> None:
    said = opened(tmp_path, *(change(library) for change, _ in BROKEN.values()), library)
    assert said[-1] == "ok"
    for i, (name, (_, text)) in enumerate(BROKEN.items()):
        assert said[i].startswith(f"ArtifactError: plugin '{tmp_path / f'{i}.so'}': ELF: "), (name, said[i])
        assert text in said[i], (name, said[i])


def test_a_library_that_is_cut_off_is_refused(library: bytes, tmp_path: Path) -> None:
    needed = max(
        sum(struct.unpack_from("<QxxxxxxxxxxxxxxxxQ", library, at + 8)) for at, kind in headers(library) if kind == LOAD
    )
    cuts = [*random.Random(5).sample(range(len(library)), 150), needed - 1, needed, len(library) - 1]
    for said in opened(tmp_path, *(library[:cut] for cut in cuts)):
        assert said.startswith("ArtifactError: plugin "), said
    # A stripped library ends where its last segment does, and states no section headers.
    assert opened(tmp_path, put(library, "<Q", SECTION_HEADERS, 0)[:needed]) == ["ok"]


def test_other_bytes_in_the_headers(library: bytes) -> None:
    """The check itself, which reads nothing outside its input, whatever is in it."""
    rng, ends = random.Random(7), [64 + 56 * len(headers(library)), len(library)]
    places = [*range(entry(library, NEEDED), entry(library, NULL) + 16)]
    verdicts = set()
    for _ in range(2000):
        data = bytearray(library)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.choice((rng.randrange(ends[0]), rng.choice(places)))
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            elf.check_system(bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]))
            verdicts.add(True)
        except ArtifactError as error:
            assert str(error).startswith("ELF: ")
            verdicts.add(False)
    assert verdicts == {True, False}


def test_libraries_of_this_machine_are_taken() -> None:
    folders = [Path(sysconfig.get_config_var("DESTSHARED") or "."), Path(elf.__file__).parent]
    libraries = [path for folder in folders for path in sorted(folder.glob("*.so"))]
    assert libraries
    for path in libraries:
        elf.check_system(path.read_bytes())


EXECUTABLES = """
import sys
import pydispatch as pd
for path in sys.argv[1:]:
    try:
        pd.device("cpu").add_executable("kernels", path)
        print("ok", flush=True)
    except pd.ArtifactError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


def test_executables_that_are_cut_off(library: bytes, tmp_path: Path) -> None:
    """What plugins are refused for, executables are refused for."""
    paths = []
    for number in range(1, 10):
        paths.append(tmp_path / f"cut{number}.so")
        paths[-1].write_bytes(library[: len(library) * number // 10])
    done = subprocess.run([sys.executable, "-c", EXECUTABLES, *paths], capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert done.returncode == 0 and len(said) == len(paths), done
    refused = [line for line in said if "is it cut off?" in line]
    assert refused and all(line.startswith("ArtifactError: add_executable 'kernels'") for line in said)
