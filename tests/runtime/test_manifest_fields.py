"""Every field of a manifest, changed to every kind of JSON value: an ArtifactError, or what it was before."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydispatch._core.artifact import crc32

import pydispatch as pd
from pydispatch.cli import inspect
from pydispatch.formats.artifact.manifest import Manifest
from pydispatch.formats.artifact.pack import ArchiveEntry, layout

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
func.func @add(%a: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @w : tensor<4xf32>
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = arith.addf %a, %w : tensor<4xf32>
  %1 = arith.mulf %0, %c : tensor<4xf32>
  return %1 : tensor<4xf32>
}"""
VALUES: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "x", [], [None], [[]], {}, {"x": None}]
FORMATS = {"cpu": "embedded-elf-x86_64", "vulkan:0": "vulkan-spirv-fb", "ptx-interpreter": "cuda-nvptx-fb"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a JSON value, itself left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def may_be(path: tuple[Any, ...], value: Any) -> bool:
    """Whether a value of another kind is right in its place: a block that nobody states, an export without contract, a
    size instead of its name."""
    if path[0] == "functions" and path[-2:-1] == ("shape",):
        return value in (0, "x")
    return value is None and path[-2:-1] in (("blocks",), ("contracts",))


def changed(manifest: Any, path: tuple[Any, ...], value: Any) -> Any:
    result = copy.deepcopy(manifest)
    at = result
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return result


def pack(artifact: pd.Artifact, manifest: Any) -> bytes:
    content = {name: bytes(artifact.read(name)) for name in artifact.members}
    content["manifest.json"] = json.dumps(manifest).encode()
    plan = layout(ArchiveEntry(name, len(data), crc32(data)) for name, data in content.items())
    return b"".join(h + d for (_, h), d in zip(plan.headers, content.values(), strict=True)) + plan.tail


def with_parameters(device: Any, data: bytes) -> Any:
    import numpy as np

    return device.load(data, parameters={"model": {"w": np.ones(4, np.float32)}})


def with_function(device: Any, data: bytes) -> Any:
    device.add_import("simple_mul_workgroup", 1)
    return device.load(data)


def with_library(device: Any, data: bytes) -> Any:
    device.add_plugin(ROOT / "examples/cuda/plugin.ptx")
    return device.load(data)


@functools.cache
def compiled(name: str) -> pd.Artifact:
    if name == "weights":
        return pd.compile(WEIGHTS, targets=("cpu", "vulkan"), cpu="generic")
    return pd.compile(ROOT / name)


CASES: dict[str, tuple[str, str, Callable[[Any, bytes], Any]]] = {
    "parameters": ("weights", "cpu", with_parameters),
    "imports": ("examples/plugin/program.mlir", "cpu", with_function),
    "vulkan": ("weights", "vulkan:0", with_parameters),
    "ptx": ("examples/cuda/functions.mlir", "ptx-interpreter", with_library),
}
FREE = ("producers", "dispatches", "parameters", "c", "machine_model", "choices", "flops")
"""Keys that people or profiles alone read: loading does not look at them."""
NOTES = ("calls", "ptx", "spirv")
"""Keys of a variant whose content only the device that chooses the variant reads."""


@pytest.mark.parametrize("case", CASES)
def test_a_field_of_another_kind_is_an_artifact_error(case: str) -> None:  # noqa: C901
    source, name, load = CASES[case]
    artifact = compiled(source)
    manifest = json.loads(bytes(artifact.read("manifest.json")))
    load(pd.device(name), pack(artifact, manifest))  # the twin that is right
    wrong, tried = [], 0
    for path in places(manifest):
        at: Any = manifest
        chosen = True
        for key in path:
            chosen = chosen and not (key in NOTES and at["format"] != FORMATS[name])
            at = at[key]
        is_note = any(key in NOTES for key in path)
        if name != "cpu" and not is_note:
            continue  # the same code reads it
        for value in VALUES:
            if type(value) is type(at) and value == at:
                continue
            tried += 1
            is_other = type(value) is not type(at) and not (type(at) is list and isinstance(value, list))
            try:
                load(pd.device(name), pack(artifact, changed(manifest, path, value)))
            except pd.ArtifactError as error:
                if "manifest.json" not in str(error) and is_other and not is_note:
                    wrong.append(f"{path} = {value!r}: does not name the manifest: {error}")
            except pd.Error as error:
                if is_other:  # text for text may name a device or function that is not there
                    wrong.append(f"{path} = {value!r}: {type(error).__name__}: {error}")
            except Exception as error:
                wrong.append(f"{path} = {value!r}: {type(error).__name__}: {error}")
            else:
                is_read = chosen or path[-1] in NOTES
                if is_other and is_read and not any(part in FREE for part in path) and not may_be(path, value):
                    wrong.append(f"{path} = {value!r}: loads")
    assert not wrong, f"{len(wrong)} of {tried}:\n" + "\n".join(wrong[:40])
    assert tried > 200


@pytest.mark.parametrize("source", ["weights", "examples/cuda/functions.mlir"])
def test_what_people_read_of_a_manifest_never_fails(source: str) -> None:
    artifact = compiled(source)
    manifest = json.loads(bytes(artifact.read("manifest.json")))
    wrong = []
    for path in places(manifest):
        for value in VALUES:
            mutant = changed(manifest, path, value)
            try:
                opened = pd.Artifact.from_bytes(pack(artifact, mutant))
                shown = (opened.functions, opened.executables, opened.parameters, opened.warnings, repr(opened))
                assert shown
                inspect.describe(opened)
                inspect.render("x.pdx", opened)
                list(inspect._listing(opened))
            except pd.ArtifactError:
                pass
            except Exception as error:
                wrong.append(f"{path} = {value!r}: {type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:40])


def test_the_strict_reader_agrees_with_json() -> None:
    for data in (b'{"pydispatch": NaN}', b'{"pydispatch": {"format": 1e400}}', b'"\\ud800"', b'{"a": 1, "a": 2}'):
        with pytest.raises(pd.ArtifactError, match=r"manifest\.json"):
            Manifest.from_bytes(data)
