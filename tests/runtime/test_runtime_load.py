"""Loading: which variant, which answers, which refusals, and nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest
from pydispatch._core import sched

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.artifact.pack import ArchiveEntry, layout
from pydispatch.formats.program.program import Constant, FunctionArgument, Opcode, Result
from pydispatch.runtime.devices import cpu
from pydispatch.runtime.program.variants import DeviceProperties

A = np.arange(8, dtype=np.float32)


def repack(artifact: Artifact, **changes: bytes) -> bytes:
    """The artifact with other bytes for some members (named with _ for / and .)."""
    from pydispatch._core.artifact import crc32

    members = []
    for name in artifact.members:
        members.append((name, changes.get(name.replace("/", "_").replace(".", "_"), bytes(artifact.read(name)))))
    plan = layout(ArchiveEntry(name, len(data), crc32(data)) for name, data in members)
    return b"".join(header + data for (_, header), (_, data) in zip(plan.headers, members, strict=True)) + plan.tail


def test_sources(pdx: Path) -> None:
    device = pd.device("cpu")
    for source in (
        pdx,
        str(pdx),
        pdx.read_bytes(),
        bytearray(pdx.read_bytes()),
        Artifact.from_file(pdx),
        programs.standard(),
    ):
        np.testing.assert_array_equal(device.load(source).mul(A, A), A * A)
    with pytest.raises(pd.InvalidArgumentError, match=r"expected a path, .*Artifact or bytes, got int"):
        device.load(3)
    with pytest.raises(OSError, match=r"none\.pdx"):
        device.load("none.pdx")
    with pytest.raises(pd.ArtifactError):
        device.load(b"not a zip at all")


class BytesPath:
    """A path in bytes, as entries of `os.scandir(b"...")` are."""

    def __init__(self, path: Path) -> None:
        self.path = os.fsencode(path)

    def __fspath__(self) -> bytes:
        return self.path


def test_paths_in_bytes(pdx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = pd.device("cpu")
    monkeypatch.chdir(pdx.parent)
    for source in (BytesPath(pdx), BytesPath(Path(pdx.name))):
        program = pickle.loads(pickle.dumps(device.load(source)))
        np.testing.assert_array_equal(program.mul(A, A), A * A)
    with pytest.raises(pd.InvalidArgumentError, match=r"load: 'model\.onnx' is the source of a program"):
        device.load(BytesPath(Path("model.onnx")))
    from_bytes: Any = Artifact.from_bytes
    with pytest.raises(pd.InvalidArgumentError, match=r"got the path 'program\.pdx'; use from_file"):
        from_bytes(BytesPath(Path("program.pdx")))


@pytest.mark.parametrize("name", ["cpu", "ptx-interpreter"])
@pytest.mark.parametrize("source", ["program.mlir", Path("model.onnx"), "folder/model.pt2"])
def test_sources_that_are_not_compiled(name: str, source: str | Path) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=f"'{source}' is the source of a program; compile it first: "):
        pd.device(name).load(source)


@pytest.mark.parametrize("text", ["func.func @f() {\n}", "module { }", "a" * 5000 + "\n"])
def test_the_text_of_a_program_is_not_loaded(text: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="load: got the text of a program; compile it first"):
        pd.device("cpu").load(text)


def test_an_artifact_is_loaded_from_a_path_with_a_brace(tmp_path: Path) -> None:
    folder = tmp_path / "{a}\n"
    folder.mkdir()
    pd.compile("func.func @f() {\n  return\n}").save(folder / "f.pdx")
    assert "f" in pd.device("cpu").load(str(folder / "f.pdx")).functions


def mappings() -> int:
    """Mappings of code and of artifacts; malloc moves the others as it likes."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("x" in line.split()[1] or line.endswith(".pdx") for line in lines)


def all_mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_thousand_loads_leave_nothing(pdx: Path) -> None:
    device = pd.device("local-sync")
    bad = bytearray(pdx.read_bytes())
    bad[len(bad) // 2] ^= 1  # inside a member: its checksum differs

    def once() -> None:
        with device.load(pdx) as program:
            program.mul(A, A)
        with pytest.raises(pd.Error):
            device.load(bad)

    for _ in range(20):
        once()
    gc.collect()
    before, most = (mappings(), descriptors(), device.memory()["live_blocks"]), all_mappings() + 50
    for _ in range(1000):
        once()
    assert (mappings(), descriptors(), device.memory()["live_blocks"]) == before
    assert all_mappings() < most


def variant_index(requires: list[list[str]], conditions: list[int | None] = ()) -> object:
    """A program that returns the index of the variant that was chosen."""
    builder = programs.Builder(variants=len(requires))
    f = builder.function("which")
    f.results.append(Result(programs.I64, None, register=f.emit(Opcode.VARIANT, 0)))
    for i, answer in enumerate(conditions):
        if answer is not None:
            condition = builder.program.add_function(f"condition{i}", public=False)
            condition.results.append(Result(0x13000008, None, register=condition.constant(answer)))
            builder.program.executables[0].variant_conditions[i] = builder.program.function_index(condition)
    return builder.artifact(requires=requires)


def test_variant_by_requirement() -> None:
    has = sched.cpu_features()
    if len(has) < 2:
        pytest.fail("this machine has too few features to choose by")
    one, two = list(has[:1]), list(has[:2])
    load = pd.device("local-sync").load
    assert load(variant_index([[], one, two])).which() == 2
    assert load(variant_index([two, one, []])).which() == 0
    assert load(variant_index([[], one, one])).which() == 1
    assert load(variant_index([[], ["no-such-feature"], [*two, "no-such-feature"]])).which() == 0
    assert load(variant_index([one, two], [1, 0])).which() == 0
    assert load(variant_index([one, two], [0, -1])).which() == 1


def test_no_variant_fits() -> None:
    load = pd.device("local-sync").load
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        load(variant_index([["no-such-feature", "neither"], []], [None, 0]))
    text = str(caught.value)
    assert "no variant of executable 'lib' runs on this device (embedded-elf-" in text
    assert "variant 'v0' needs no-such-feature, neither, which the machine lacks" in text
    assert (
        "variant 'v1' its condition does not hold" in text and f"the machine has: {min(sched.cpu_features())}" in text
    )
    builder = programs.Builder()
    programs.binary(builder, "mul", "mul")
    with pytest.raises(pd.DeviceUnavailableError, match="variant 'v0' has the format embedded-elf-vax"):
        load(builder.artifact(format="embedded-elf-vax"))


def test_queries() -> None:
    builder = programs.Builder()
    features = sched.cpu_features()
    absent = next((f for f in sched.known_cpu_features() if f not in features), None)
    questions = {
        ("hal.executable.format", "embedded-elf-x86_64"): 1,
        ("hal.executable.format", "cuda-nvptx-fb"): 0,
        ("hal.cpu", features[0]): 1,
        ("hal.cpu", absent or "nothing"): 0 if absent else 42,
        ("hal.cpu", "no-such-feature"): 42,
        ("hal.device.id", "local*"): 1,
        ("hal.device.id", "cuda"): 0,
        ("hal.device", "concurrency"): 1,
        ("hal.dispatch", "concurrency"): 3,
        ("else", "where"): 42,
    }
    f = builder.function("ask")
    for category, key in questions:
        query = builder.program.add_query(category, key, 42)
        f.results.append(Result(programs.I64, None, register=f.emit(Opcode.QUERY, query)))
    program = pd.device("cpu?workers=3").load(builder.artifact())
    assert dict(zip(questions, program.ask(), strict=True)) == questions


def test_constants() -> None:
    """A constant is used where it lies in the artifact."""
    builder = programs.Builder()
    builder.program.constants.append(Constant("constants/0.npy", offset=128, length=32))
    f = builder.function("scale")
    programs.add_vector(f, "a")
    n = f.emit(Opcode.DIM, 0, 0)
    constant = f.add_constant_buffer(0)
    builder.run(f, "mul", n, [f.arguments[0].buffer, constant, programs.finish_vector(f, n)])
    plain = builder.artifact()
    values = np.arange(10, 18, dtype=np.float32)
    from pydispatch.formats.artifact.artifact import PackedExecutable, Variant

    variant = Variant("v0", "embedded-elf-x86_64", programs.elf(builder.exports), alignment=4)
    artifact = Artifact.build(
        plain.functions.items(), builder.program.encode(), [PackedExecutable("lib", builder.names, [variant])], [values]
    )
    np.testing.assert_array_equal(pd.device("local-sync").load(artifact).scale(A), A * values)
    builder.program.constants[0] = Constant("constants/0.npy", offset=128, length=33)
    artifact = Artifact.build(
        plain.functions.items(), builder.program.encode(), [PackedExecutable("lib", builder.names, [variant])], [values]
    )
    with pytest.raises(pd.ArtifactError, match=r"33 bytes at 128 of 'constants/0.npy', which has 160"):
        pd.device("local-sync").load(artifact)


def test_executable_constants() -> None:
    body = "((float*)dispatch->binding_ptrs[0])[0] = environment->constants[1]; return 0;"
    builder = programs.Builder([programs.Export("get", body, 1)])
    constants = builder.program.add_function("constants", public=False)
    constants.add_argument(FunctionArgument(programs.I32, None, "variant"))
    for value in (5, 77):
        constants.results.append(Result(programs.I32, None, register=constants.constant(value)))
    builder.program.executables[0].constants_function = builder.program.function_index(constants)
    f = builder.function("get")
    one = f.constant(1)
    builder.run(f, "get", one, [programs.finish_vector(f, one)], one)
    assert pd.device("local-sync").load(builder.artifact()).get()[0] == 77


def test_refused_manifests() -> None:
    artifact = programs.standard()
    load = pd.device("local-sync").load
    manifest = json.loads(bytes(artifact.read("manifest.json")))

    def changed(change: object) -> bytes:
        copy = json.loads(json.dumps(manifest))
        change(copy)
        return repack(artifact, manifest_json=json.dumps(copy).encode())

    assert load(changed(lambda m: None)).functions
    cases = [
        (lambda m: m["pydispatch"].update(format=2, version="9.9"), "written by pydispatch 9.9 in format 2"),
        (lambda m: m.pop("executables"), "executables: missing"),
        (lambda m: m["executables"][0]["variants"][0].update(alignment=3), "expected a power of two, got 3"),
        (lambda m: m["executables"][0].update(name="other"), "'other' with 1 variants in manifest.json, 'lib' with 1"),
        (
            lambda m: m["functions"][0].update(name="mull"),
            r"lists the functions \['mull', .*, program.bin \['mul', 'add', ",
        ),
        (lambda m: m["functions"].pop(), r"'slow'\], program.bin \[.*'slow', 'fail'\]"),
        (lambda m: m.pop("functions"), "functions: missing"),
        (lambda m: m["executables"][0]["exports"].append("more"), r"exports of executable 'lib', '.*v0\.elf' has"),
        (lambda m: m["executables"][0].update(exports="mul"), "exports: expected"),
        (lambda m: m["executables"].clear(), "lists 0 executables, program.bin 1"),
        (lambda m: m["executables"][0]["variants"][0].update(member="gone.elf"), "no member 'gone.elf'"),
    ]
    for change, message in cases:
        with pytest.raises(pd.ArtifactError, match=message):
            load(changed(change))
    with pytest.raises(pd.ArtifactError, match=r"manifest\.json"):
        load(repack(artifact, manifest_json=b"{"))
    with pytest.raises(pd.ArtifactError):
        load(repack(artifact, program_bin=b"\0" * 64))
    with pytest.raises(pd.ArtifactError, match=r"ELF|elf"):
        load(repack(artifact, executables_lib_v0_elf=b"\x7fELF" + bytes(200)))


def test_code_is_announced_to_profilers(pdx: Path) -> None:
    script = (
        "import os, sys, pydispatch as pd; p = pd.device('local-sync').load(sys.argv[1]); "
        "name = f'/tmp/perf-{os.getpid()}.map'; print(open(name).read()); os.unlink(name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(pdx)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYDISPATCH_PERF_MAP": "1"},
    )  # fmt: skip
    assert {line.split()[2] for line in done.stdout.splitlines() if line} >= {"mul", "add", "slow", "fail"}


def test_device_names() -> None:
    assert pd.devices()[0] == "cpu"
    assert pd.device("local-sync").workers == 1 and pd.device("cpu?workers=3").workers == 3
    assert pd.device("cpu").workers == pd.device("local-task").workers == sched.default_workers()
    with pd.device("cpu?workers=2&affinity=1") as pinned:
        assert pinned.name == "cpu?workers=2&affinity=1" and pd.device("cpu?affinity=1").name == "cpu?affinity=1"
        assert pd.device("cpu?workers=2&affinity=0").name == "cpu?workers=2"
        a = np.arange(100_000, dtype=np.float32)
        np.testing.assert_array_equal(pinned.load(programs.standard()).chain(a, a), (a * a) * a + a)
    with pytest.raises(pd.InvalidArgumentError, match="affinity: expected 0 or 1, got 'on'"):
        pd.device("cpu?affinity=on")
    held = pd.device("cpu?workers=5")
    other = pd.device("cpu?workers=5")
    assert other is not held and other.memory() == held.memory()
    program = other.load(programs.standard())
    a = np.ones(1 << 16, np.float32)
    kept = program.mul(a, a)
    assert held.memory() == other.memory() and held.memory()["live_bytes"] >= kept.nbytes  # one pool for both
    with pytest.raises(pd.DeviceUnavailableError, match="no device 'abacus'; this machine has: cpu"):
        pd.device("abacus")
    with pytest.raises(pd.DeviceUnavailableError, match="no device 'cpu:7'"):
        pd.device("cpu:7")
    for name, message in [
        ("cpu?workers=x", "workers: expected 1 to 1024, got 'x'"),
        ("cpu?wrokers=2", "no option 'wrokers'; it has: workers"),
        ("cpu?workers", "key=value, got 'workers'"),
    ]:
        with pytest.raises(pd.InvalidArgumentError, match=message):
            pd.device(name)


@pytest.mark.parametrize(
    ("machine", "format"),
    [("x86_64", "embedded-elf-x86_64"), ("aarch64", "embedded-elf-arm_64"), ("riscv64", "embedded-elf-riscv_64")],
)
def test_formats_are_spelled_as_the_compiler_does(machine: str, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.elf, "host_machine", lambda: machine)
    device = cpu.CpuDevice("cpu", cpu.SharedScheduler(cpu.Scheduler(1)))
    assert device.describe()["format"] == format
    if machine != "x86_64":
        with pytest.raises(pd.DeviceUnavailableError, match="has the format embedded-elf-x86_64"):
            device.load(programs.standard())


def test_get_include() -> None:
    assert (Path(pd.get_include()) / "pydispatch" / "library.h").exists()


def test_levels() -> None:
    assert cpu.level(frozenset()) == "generic"
    facts = pd.device("cpu").describe()
    assert facts["workers"] == sched.default_workers() and facts["format"].startswith("embedded-elf-")


def test_host_answers_nothing_it_does_not_know() -> None:
    host = DeviceProperties(("cpu",), "embedded-elf-x86_64", frozenset({"a"}), frozenset({"a", "b"}), (0,) * 8, 4)
    assert [host.answer("hal.cpu", key) for key in "abc"] == [1, 0, None]
    assert host.answer("cuda.device", "concurrency") is None
