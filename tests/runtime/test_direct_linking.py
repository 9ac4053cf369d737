"""Linking without reading the manifest in Python: which programs take it, and that both ways agree."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import programs
import pytest
from pydispatch._core import linking
from pydispatch._core.artifact import ArtifactFile
from test_manifest_fields import VALUES, changed, compiled, pack, places
from test_runtime_load import repack

import pydispatch as pd
from pydispatch.runtime.program import loader, manifest

ONES = {"model": {"w": np.ones(4, np.float32)}}
PACKED = """
func.func @product(%a: tensor<8x64xf32>) -> tensor<8x48xf32> {
  %w = arith.constant dense<0.5> : tensor<64x48xf32>
  %zero = arith.constant dense<0.0> : tensor<8x48xf32>
  %0 = linalg.matmul ins(%a, %w : tensor<8x64xf32>, tensor<64x48xf32>)
                     outs(%zero : tensor<8x48xf32>) -> tensor<8x48xf32>
  return %0 : tensor<8x48xf32>
}"""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose manifest was read in Python."""
    names: list[str] = []
    read = manifest.read

    def recorded(file: ArtifactFile) -> Any:
        names.append(file.name)
        return read(file)

    monkeypatch.setattr(manifest, "read", recorded)
    return names


def test_compiled_programs_are_linked_directly(reads: list[str]) -> None:
    device = pd.device("local-sync")
    for artifact, parameters in ((programs.standard(), None), (compiled("weights"), ONES), (pd.compile(PACKED), None)):
        program = device.load(artifact, parameters)
        assert list(program.functions) and not reads
    np.testing.assert_array_equal(program.product(np.ones((8, 64), np.float32)), np.full((8, 48), 32, np.float32))
    assert not reads


def test_details_are_read_on_first_use(reads: list[str]) -> None:
    program: Any = pd.device("local-sync").load(pd.compile(PACKED))
    profile = program.product.profile(np.ones((8, 64), np.float32), runs=1)
    assert max(timing.flops or 0 for timing in profile) >= 2 * 8 * 64 * 48 and len(reads) == 1
    assert program.product.inputs[0].name == "a" and len(reads) == 1


def test_messages_come_from_the_linker_in_python(reads: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pydispatch"):
        pd.device("local-sync").load(programs.standard())
    assert reads and any("loaded for " in record.getMessage() for record in caplog.records)


def test_programs_with_imports_are_not_linked_directly(reads: list[str]) -> None:
    device = pd.device("local-sync")
    device.add_import("simple_mul_workgroup", 1)
    assert device.load(compiled("examples/plugin/program.mlir")).imports and reads


def test_imports_that_the_manifest_does_not_state_are_named() -> None:
    artifact = compiled("examples/plugin/program.mlir")
    entries = json.loads(bytes(artifact.read("manifest.json")))
    for executable in entries["executables"]:
        for variant in executable["variants"]:
            variant["imports"] = []
    with pytest.raises(pd.MissingImportError, match="simple_mul_workgroup") as caught:
        pd.device("local-sync").load(pack(artifact, entries))
    assert caught.value.symbols == ("simple_mul_workgroup",)


@pytest.mark.parametrize("source", ["weights", "examples/plugin/program.mlir", "examples/cuda/functions.mlir"])
def test_the_reader_in_python_accepts_what_the_reader_in_c_does(source: str) -> None:
    artifact = compiled(source)
    entries = json.loads(bytes(artifact.read("manifest.json")))
    accepted = 0
    for path in places(entries):
        for value in VALUES:
            file = ArtifactFile(pack(artifact, changed(entries, path, value)))
            if linking.read_manifest(file) is None:
                continue
            accepted += 1
            executables, functions = manifest.read(file)
            assert type(executables) is list and type(functions) is dict
    assert accepted > 50
    assert linking.read_manifest(ArtifactFile(pack(artifact, entries))) is not None


@pytest.mark.parametrize("size", [0, 2**63 - 1, -1, 2**63, 1.0, True, "n"])
def test_both_readers_accept_the_same_sizes_of_constants(size: object) -> None:
    artifact = programs.standard()
    entries = json.loads(bytes(artifact.read("manifest.json")))
    entries["constants"] = [{"member": "constants/c", "dtype": "<f4", "shape": [size]}]
    file = ArtifactFile(pack(artifact, entries))
    if type(size) is int and size in (0, 2**63 - 1):
        assert linking.read_manifest(file) is not None and manifest.read(file)
        return
    assert linking.read_manifest(file) is None
    with pytest.raises(pd.ArtifactError, match=r"constants\[0\]\.shape\[0\]: expected a size, got "):
        manifest.read(file)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": "\xff"}', b'{"a": "\\ud800"}', b'{"a": NaN}', b'\xef\xbb\xbf{}', b'{"a": ' + b"1" * 5000 + b"}", b"",
        b"[" * 1000,
    ],
)  # fmt: skip
def test_texts_that_python_refuses_are_refused_in_c(text: bytes) -> None:
    artifact = programs.standard()
    whole = bytes(artifact.read("manifest.json"))
    other = whole.rstrip()[:-1] + b', "other": ' + text + b"}"
    for data in (text, other):
        file = ArtifactFile(repack(artifact, manifest_json=data))
        assert linking.read_manifest(file) is None


def test_a_machine_knows_all_of_its_features() -> None:
    with pytest.raises(ValueError, match="features"):
        linking.Machine("embedded-elf-x86_64", frozenset(("no such feature",)), (0,) * 8)


def test_programs_that_share_derived_constants(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    device = pd.device("local-sync")
    artifact = pd.compile(PACKED)
    first = device.load(artifact)
    with monkeypatch.context() as patched:
        patched.setattr(loader, "read_manifest", lambda file: None)
        second = device.load(artifact)
    assert reads  # by the second
    x = np.ones((8, 64), np.float32)
    np.testing.assert_array_equal(first.product(x), second.product(x))
    if first._module.derived is not None:
        assert first._module.derived is second._module.derived
