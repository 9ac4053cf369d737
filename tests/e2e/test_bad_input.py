"""Artifacts that are broken or lie, grids and sizes that do not fit: the class of the error, what it says, and that
nothing is left behind. Through Python and through the command line."""

from __future__ import annotations

import contextlib
import json
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.formats.artifact.artifact import crc32
from pydispatch.formats.artifact.pack import ArchiveEntry, layout

SUFFIX = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm_64", "arm64": "arm_64", "riscv64": "riscv_64"}
FORMAT = f"embedded-elf-{SUFFIX[platform.machine()]}"
FOREIGN = next(name for name in ("x86_64", "aarch64") if SUFFIX[name] != SUFFIX[platform.machine()])

# @grid runs x * y * z workgroups that do nothing; @double is generated.
TEXT = """
#target = #hal.executable.target<"llvm-cpu", "FORMAT">
#layout = #hal.pipeline.layout<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#hal.device.target<"local", [#target]> : !hal.device]} {
  hal.executable.source private @exe {
    hal.executable.export public @idle ordinal(0) layout(#layout)
        count(%device: !hal.device, %x: index, %y: index, %z: index) -> (index, index, index) {
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @idle() { return }
    }
  }
  func.func @grid(%x: index, %y: index, %z: index) -> tensor<1xi32> {
    %r = flow.dispatch @exe::@idle[%x, %y, %z]() : () -> tensor<1xi32>
    return %r : tensor<1xi32>
  }
  func.func @double(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %0 = arith.addf %a, %b : tensor<?x?xf32>
    return %0 : tensor<?x?xf32>
  }
}
""".replace("FORMAT", FORMAT)


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(TEXT)


@pytest.fixture(scope="module")
def program(artifact: pd.Artifact) -> pd.Program:
    return pd.device("cpu?workers=2").load(artifact)


def members(artifact: pd.Artifact) -> dict[str, bytes]:
    return {name: bytes(artifact.read(name)) for name in artifact.members}


def pack(content: dict[str, bytes], damaged: str | None = None) -> bytes:
    """A well-formed file of these members; the checksum of `damaged` is wrong."""
    plan = layout(ArchiveEntry(name, len(data), crc32(data) ^ (name == damaged)) for name, data in content.items())
    parts = [part for (_, header), data in zip(plan.headers, content.values(), strict=True) for part in (header, data)]
    return b"".join([*parts, plan.tail])


def refused(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What loading the bytes and running the file say; both must refuse it."""
    path = tmp_path / "bad.pdx"
    path.write_bytes(data)
    with pytest.raises((pd.ArtifactError, pd.DeviceUnavailableError)) as caught:
        pd.device("local-sync").load(path)
    assert main(["run", str(path), "--function=double", "--input=1x1xf32=1", "--input=1x1xf32=1"]) == 1
    shown = capsys.readouterr().err
    assert shown == f"pydispatch: error: {caught.value}\n"
    assert str(path) in shown
    return str(caught.value)


def variant(manifest: Any) -> Any:
    return manifest["executables"][0]["variants"][0]


LIES: dict[str, tuple[Callable[[Any], object], str]] = {
    "requires numbers": (lambda m: variant(m).update(requires=[1]), "requires[0]: expected a non-empty string, got 1"),
    "requires lists": (lambda m: variant(m).update(requires=[[]]), "requires[0]: expected a non-empty string, got []"),
    "requires text": (lambda m: variant(m).update(requires="avx"), 'requires: expected a list, got "avx"'),
    "requires what nobody has": (lambda m: variant(m).update(requires=["warp"]), "needs warp, which the machine lacks"),
    "alignment 0": (lambda m: variant(m).update(alignment=0), "alignment: expected an integer from 1 to 64, got 0"),
    "alignment -8": (
        lambda m: variant(m).update(alignment=-8),
        "expected an integer from 1 to 64, got -8",
    ),
    "alignment 128": (lambda m: variant(m).update(alignment=128), "expected an integer from 1 to 64, got 128"),
    "alignment 12": (lambda m: variant(m).update(alignment=12), "alignment: expected a power of two, got 12"),
    "alignment true": (lambda m: variant(m).update(alignment=True), "alignment: expected an integer"),
    "another name": (lambda m: m["executables"][0].update(name="x"), "executable 0 is 'x' with 1 variants"),
    "no variants": (lambda m: m["executables"][0].update(variants=[]), "with 0 variants in manifest.json"),
    "executables twice": (lambda m: m["executables"].extend(m["executables"]), "program.bin"),
    "executables null": (lambda m: m.update(executables=None), "executables: expected a list, got null"),
    "member gone": (lambda m: variant(m).update(member="gone"), "no member 'gone'"),
    "member is no ELF": (lambda m: variant(m).update(member="manifest.json"), "does not start with the ELF magic"),
    "format number": (lambda m: variant(m).update(format=1), "format: expected a non-empty string, got 1"),
    "format foreign": (lambda m: variant(m).update(format="ptx"), "has the format ptx"),
    "newer": (lambda m: m["pydispatch"].update(format=2, version="9.1"), "update pydispatch to 9.1 or newer"),
    "older": (lambda m: m["pydispatch"].update(format=0), "pydispatch.format: expected an integer from 1"),
    "no header": (lambda m: m.pop("pydispatch"), "pydispatch: missing; expected an object"),
}


@pytest.mark.parametrize("name", LIES)
def test_manifests_that_lie(
    name: str, artifact: pd.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = LIES[name]
    content = members(artifact)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    content["manifest.json"] = json.dumps(manifest).encode()
    assert message in refused(pack(content), tmp_path, capsys)


@pytest.mark.parametrize("text", [b"", b"hello", b"\xff\xfe", b"[" * 100_000, b"null", b"1" * 10_000, b'{"a": 1}'])
def test_manifests_that_are_none(
    text: bytes, artifact: pd.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "manifest.json" in refused(pack({**members(artifact), "manifest.json": text}), tmp_path, capsys)


def test_members_damaged_missing_cut(artifact: pd.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = members(artifact)
    for name, data in content.items():
        assert f"member '{name}' is damaged" in refused(pack(content, damaged=name), tmp_path, capsys)
        left = {other: content[other] for other in content if other != name}
        assert f"no member '{name}'" in refused(pack(left), tmp_path, capsys)
        if name != "manifest.json":
            for size in (0, 3, len(data) // 4):  # not the last bytes: an ELF does not need its sections
                refused(pack({**content, name: data[:size]}), tmp_path, capsys)


def test_a_program_for_other_code(artifact: pd.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program refers to exports and machines that the ELF under its name does not have."""
    content = members(artifact)
    elf = next(name for name in content if name.startswith("executables/"))
    other = pd.compile(TEXT.replace("@idle", "@other"))
    (code,) = (bytes(other.read(name)) for name in other.members if name.startswith("executables/exe/"))
    assert "has no export 'idle'" in refused(pack({**content, elf: code}), tmp_path, capsys)
    foreign = pd.compile(TEXT.replace(FORMAT, f"embedded-elf-{SUFFIX[FOREIGN]}"))
    (code,) = (bytes(foreign.read(name)) for name in foreign.members if name.startswith("executables/exe/"))
    assert f"ELF: is for {FOREIGN}, this machine is" in refused(pack({**content, elf: code}), tmp_path, capsys)


def test_flipped_bits_never_crash(artifact: pd.Artifact) -> None:
    """Any error but one of ours fails here. Checksums are made right again, so that the readers behind them are met."""
    content = members(artifact)
    device, random_ = pd.device("local-sync"), random.Random(1)
    accepted = 0
    for name in ("manifest.json", "program.bin"):  # code is trusted: a flipped ELF may load and must not be run
        for _ in range(400):
            data = bytearray(content[name])
            for _ in range(random_.randint(1, 3)):
                data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
            try:
                device.load(pack({**content, name: bytes(data)})).close()
                accepted += 1
            except pd.Error:
                pass
    assert accepted < 800
    whole = pack(content)
    for _ in range(400):
        data = bytearray(whole)
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        with contextlib.suppress(pd.Error):
            device.load(bytes(data)).close()
    for size in range(0, len(whole), 97):
        with pytest.raises(pd.ArtifactError):
            device.load(whole[:size])


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.pdx"
    empty.touch()
    cases = [
        (tmp_path, OSError, "is a folder, not a file"),
        (tmp_path / "none.pdx", OSError, "No such file"),
        (empty, pd.ArtifactError, "is empty"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            pd.device("cpu").load(path)
        assert isinstance(caught.value, pd.Error)
        assert main(["run", str(path)]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(pd.InvalidArgumentError, match="NUL"):
        pd.device("cpu").load("a\0b")
    with pytest.raises(pd.InvalidArgumentError, match="contiguous"):
        pd.device("cpu").load(memoryview(bytes(100))[::2])
    with pytest.raises(pd.InvalidArgumentError, match=r"compile it first"):
        pd.device("cpu").load("program.mlir")
    with pytest.raises(pd.InvalidArgumentError, match="use from_file"):
        pd.Artifact.from_bytes("program.pdx")


@pytest.mark.parametrize(
    "grid", [(1 << 32, 1, 1), (1, 1 << 32, 1), (1, 1, 1 << 16), (1 << 63, 1, 1), (-1, 1, 1), (-1, -1, 0)]
)
def test_grids_beyond_the_limits(program: pd.Program, grid: tuple[int, int, int]) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"@exe::@idle: a grid of .* at most 4294967295 x .* x 65535"):
        program.grid(*grid)


def test_grids_whose_product_does_not_fit(program: pd.Program) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"more than 2\^64"):
        program.grid((1 << 32) - 1, (1 << 32) - 1, 65535)
    for grid in ((0, 1, 1), (1, 0, 1), (1 << 32, 1, 0), (0, 1 << 40, 1 << 40), (3, 5, 65535)):
        assert program.grid(*grid).shape == (1,)


def test_sizes_of_nothing(program: pd.Program) -> None:
    for shape in ((0, 5), (5, 0), (0, 0), (1 << 40, 0)):
        empty = np.ndarray(shape, np.float32)
        assert program.double(empty, empty).shape == shape
    with pytest.raises(pd.InvalidArgumentError, match=r"argument 0 .*argument 1 |argument 1 .*argument 0 "):
        program.double(np.ndarray((0, 5), np.float32), np.ndarray((0, 6), np.float32))


def test_the_command_line_without_memory(
    artifact: pd.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "good.pdx"
    artifact.save(path)
    size = f"--input={1 << 20}x{1 << 20}xf32=1"
    assert main(["run", str(path), "--function=double", size, size]) == 1
    assert f"pydispatch: error: input '{size.removeprefix('--input=')}': Unable to allocate" in capsys.readouterr().err
    assert main(["run", str(path), "--function=dubble"]) == 1
    assert "did you mean 'double'? It has: grid, double" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what is mapped")
def test_nothing_is_left_of_loads(artifact: pd.Artifact, tmp_path: Path) -> None:
    path, bad = tmp_path / "good.pdx", tmp_path / "bad.pdx"
    artifact.save(path)
    content = members(artifact)
    elf = next(name for name in content if name.startswith("executables/"))
    # Refused late: everything is read and mapped until the last member turns out to be damaged.
    bad.write_bytes(pack(content, damaged=[name for name in content if name.startswith("executables/")][-1]))
    cut = pack({**content, elf: content[elf][: len(content[elf]) // 4]})
    script = """
import gc, os, sys
from pathlib import Path
import numpy as np, pydispatch as pd
good, bad, cut = sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_bytes()
device, a = pd.device("cpu?workers=2"), np.ones((2, 3), np.float32)
def cycle(times):
    refused = 0
    for _ in range(times):
        program = device.load(good)
        program.double(a, a), program.double.prepare(a, a)(), program.grid(2, 2, 2)
        for broken in (bad, cut):
            try:
                device.load(broken)
            except pd.ArtifactError:
                refused += 1
        try:
            program.grid(1 << 40, 1, 1)
        except pd.InvalidArgumentError:
            refused += 1
    assert refused == 3 * times
def held():
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [len(maps), len(os.listdir("/proc/self/fd")), device.memory()["live_blocks"]]
cycle(50)
before = held()
cycle(1000)
print([before, held()])
"""
    (tmp_path / "cut.pdx").write_bytes(cut)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(bad), str(tmp_path / "cut.pdx")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (maps, *before), (maps_after, *after) = json.loads(done.stdout)
    assert before == after
    assert maps_after <= maps + 8  # the allocator splits and grows its own; 4,000 loads that leak would show
