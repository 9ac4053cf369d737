"""`pydispatch inspect`: the table, the JSON, the checks."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pydispatch.cli import inspect
from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.artifact.artifact import Artifact, PackedExecutable, Variant
from pydispatch.formats.elf import elf
from pydispatch.runtime.devices import cpu
from pydispatch.runtime.program.variants import DeviceProperties


def artifact(**changes: object) -> Artifact:
    arguments: dict[str, object] = {
        "functions": [("mul", "(tensor<8xf32>) -> tensor<8xf32>"), ("a_longer_name", "() -> i32")],
        "program": b"PDXP" * 30,
        "executables": [
            PackedExecutable("first", ["simple_mul", "simple_add"], [
                Variant("generic", "embedded-elf-x86_64", bytes(2048)),
                Variant("v3", "embedded-elf-x86_64", bytes(5000), requires=["avx2", "fma"], alignment=16,
                        imports=["f", "?g"]),
            ]),
            PackedExecutable("second", [], [Variant("spirv", "vulkan-spirv", b"\x03\x02\x23\x07", "spv")]),
        ],
        "constants": [np.zeros((2, 3), np.float32), np.array(1, np.int8)],
        "producers": {"llvm": "20.1", "lld": "21"},
        "version": "1.2.3",
    }  # fmt: skip
    return Artifact.build(**{**arguments, **changes})  # type: ignore[arg-type]


def call(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    inspect.add_arguments(parser)
    return inspect.run(parser.parse_args([str(a) for a in arguments]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "x.pdx"
    artifact().save(made)
    return made


def machine(monkeypatch: pytest.MonkeyPatch, format: str, *features: str) -> None:
    """Let this machine's CPU run code of a format and have features."""
    known = frozenset({"avx2", "fma", "avx512f"})
    monkeypatch.setattr(
        cpu, "host", lambda workers: DeviceProperties((), format, frozenset(features), known, (), workers)
    )


@pytest.mark.parametrize(("format", "features", "name"), [
    ("embedded-elf-x86_64", ("avx2", "fma", "avx512f"), "v3"), ("embedded-elf-x86_64", ("avx2",), "generic"),
    ("embedded-elf-arm_64", (), None),
])  # fmt: skip
def test_the_variant_that_this_machine_takes(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format: str,
    features: tuple[str, ...], name: str | None,
) -> None:  # fmt: skip
    machine(monkeypatch, format, *features)
    call(path)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "this CPU" in line] == [f"    this CPU takes {name or 'none of them'}"]
    call(path, "--json")
    assert [e["chosen_here"] for e in json.loads(capsys.readouterr().out)["executables"]] == [name, None]


def test_table(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, "embedded-elf-x86_64", "avx2", "fma")
    assert call(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: pydispatch artifact, {inspect.size_text(path.stat().st_size)}, 7 members"
    assert lines[1] == "  written by pydispatch 1.2.3 with lld 21, llvm 20.1"
    text = "\n".join(lines)
    assert (
        """
functions
  name            signature
  @mul            (tensor<8xf32>) -> tensor<8xf32>
  @a_longer_name  () -> i32

executables
  first
    exports: simple_mul, simple_add
    variant  format                  size  alignment  requires   imports
    generic  embedded-elf-x86_64  2.0 KiB         64  -          -
    v3       embedded-elf-x86_64  4.9 KiB         16  avx2, fma  f, ?g
    this CPU takes v3
  second
    exports: none
    variant  format        size  alignment  requires  imports
    spirv    vulkan-spirv   4 B         64  -         -

constants
  member           dtype  shape    size
  constants/0.npy  <f4    2x3     152 B
  constants/1.npy  |i1    scalar  129 B

members
"""
        in text
    )
    assert text.endswith("constants/1.npy                  129 B")


def test_empty_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact(functions=[], executables=[], constants=[], producers={}).save(tmp_path / "e.pdx")
    call(tmp_path / "e.pdx")
    out = capsys.readouterr().out
    assert "functions\n  none\n\nexecutables\n  none\n\nmembers\n" in out and "constants" not in out


def test_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(path, "--json", "--verify") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pydispatch"] == {"format": 1, "version": "1.2.3", "producers": {"llvm": "20.1", "lld": "21"}}
    assert report["verified"] is True and report["size"] == path.stat().st_size
    assert [v["size"] for e in report["executables"] for v in e["variants"]] == [2048, 5000, 4]
    assert report["constants"][0] == {"member": "constants/0.npy", "dtype": "<f4", "shape": [2, 3], "size": 152}
    assert [m["name"] for m in report["members"]] == artifact().members


def test_verify(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(path, "--verify") == 0
    assert capsys.readouterr().out.endswith("all 7 checksums agree\n")
    data = bytearray(path.read_bytes())
    data[data.index(b"\x03\x02\x23\x07")] ^= 1
    path.write_bytes(data)
    assert call(path) == 0
    with pytest.raises(ArtifactError, match=r"x\.pdx: member 'executables/second/spirv\.spv' is damaged: its"):
        call(path, "--verify")


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact(functions=[("\x1b[31mred\r", "\x9b2J")]).save(tmp_path / "e.pdx")
    call(tmp_path / "e.pdx")
    out = capsys.readouterr().out
    assert "@\\x1b[31mred\\x0d" in out and "\\x9b2J" in out and "\x1b" not in out and "\r" not in out


def test_a_terminal_that_lacks_a_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact(functions=[("größe", "() -> ()")]).save(tmp_path / "e.pdx")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    call(tmp_path / "e.pdx")
    sys.stdout.flush()
    assert b"@gr\\xf6\\xdfe" in raw.getvalue()


def test_program_is_checked_before_it_is_printed(path: Path) -> None:
    with pytest.raises(ArtifactError):  # these bytes are no program
        call(path, "--program")
    data = bytearray(path.read_bytes())
    data[data.index(b"PDXPPDXP") + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"member 'program\.bin' is damaged"):
        call(path, "--program")


def test_files_that_are_neither(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("some text, longer than a zip end record")
    with pytest.raises(ArtifactError, match=r"not an artifact: no zip end record"):
        call(tmp_path / "t")
    (tmp_path / "short").write_bytes(b"")
    with pytest.raises(ArtifactError, match="is empty"):
        call(tmp_path / "short")
    with pytest.raises(OSError, match=r"cannot read .*missing': No such file"):
        call(tmp_path / "missing")
    (tmp_path / "f.mlir").write_text("func.func @f() {\n  return\n}")
    with pytest.raises(InvalidArgumentError, match=r"f\.mlir' is the source of a program; compile it first"):
        call(tmp_path / "f.mlir")


# ---- ELF, against readelf

CORE = Path(sys.modules["pydispatch._core.artifact"].__file__)


def _readelf_symbols(path: Path) -> tuple[list[str], list[str]]:
    listed = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    exports, imports = [], []
    for line in listed.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0][:-1].isdigit() or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        name = fields[7].split("@")[0]
        if fields[6] == "UND":
            imports.append(("?" if fields[4] == "WEAK" else "") + name)
        else:
            exports.append(name)
    return sorted(exports), sorted(imports)


def test_elf_facts_are_those_of_readelf() -> None:
    facts = elf.read(CORE.read_bytes())
    exports, imports = _readelf_symbols(CORE)
    assert facts.exports == exports and facts.imports == imports
    assert "PyInit_artifact" in exports
    headers = subprocess.run(["readelf", "-W", "-l", CORE], capture_output=True, text=True, check=True).stdout
    loads = [line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
    read = [s for s in facts.segments if s.kind == "load"]
    assert [(s.address, s.file_size, s.memory_size) for s in read] == [
        (int(f[2], 16), int(f[4], 16), int(f[5], 16)) for f in loads
    ]
    assert [s.access.replace("-", "") for s in read] == ["".join(f[6:-1]).replace("E", "x").lower() for f in loads]


def test_elf_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(CORE) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{CORE}: ELF shared object for {elf.read(CORE.read_bytes()).machine}, ")
    assert "\nexports\n  PyInit_" in out and "\n  PyInit_artifact\n" in out
    assert "\nneeded libraries\n" in out and "\n  libc.so.6\n" in out
    assert call(CORE, "--json") == 0
    assert "PyInit_artifact" in json.loads(capsys.readouterr().out)["exports"]
    with pytest.raises(ArtifactError, match=r"--verify needs a \.pdx artifact; this is an ELF file"):
        call(CORE, "--verify")


def test_relocatable_object(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int f(int); __attribute__((weak)) int g(int); int h(int x) { return f(x) + g(x); }")
    subprocess.run(["gcc", "-c", source, "-o", tmp_path / "a.o"], check=True)
    facts = elf.read((tmp_path / "a.o").read_bytes())
    assert (facts.type, facts.exports) == ("relocatable object", ["h"])
    assert [name for name in facts.imports if name[0] != "_"] == ["?g", "f"]


def test_broken_elf_files_never_crash(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int x; int f(void) { return x; }")
    for style in ("gnu", "sysv"):
        made = tmp_path / f"{style}.so"
        flags = ["-shared", "-fPIC", "-nostdlib", f"-Wl,--hash-style={style}"]
        subprocess.run(["gcc", *flags, source, "-o", made], check=True)
        data = made.read_bytes()
        assert "f" in elf.read(data).exports
        rng = np.random.default_rng(1)
        headers = len(data) // 3
        for trial in range(3000):
            broken = bytearray(data)
            for at in rng.integers(0, headers if trial % 2 else len(data), rng.integers(1, 4)):
                broken[at] = rng.integers(0, 256)
            cut = bytes(broken[: rng.integers(0, len(data))] if trial % 3 == 0 else broken)
            try:
                elf.read(cut)
            except ArtifactError as error:
                assert "ELF" in str(error)
    with pytest.raises(ArtifactError, match="class 1 and byte order 1; only 64-bit"):
        elf.read(b"\x7fELF\x01\x01" + bytes(60))
    with pytest.raises(ArtifactError, match="its header at offset 16 is outside its 6 bytes"):
        elf.read(b"\x7fELF\x02\x01")


@pytest.mark.parametrize(
    ("size", "text"),
    [(1023, "1023 B"), (1024, "1.0 KiB"), (1048524, "1023.9 KiB"), (1048525, "1.0 MiB"), (1 << 51, "2048.0 TiB")],
)
def test_sizes_have_fewer_than_1024_of_their_unit(size: int, text: str) -> None:
    assert inspect.size_text(size) == text
