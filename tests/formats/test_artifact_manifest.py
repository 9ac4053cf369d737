"""The manifest: strict about types, tolerant of keys from later versions, and precise about the place of a fault."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.artifact.manifest import Manifest
from pydispatch.formats.artifact.pack import ArchiveEntry, layout

GOOD: dict[str, Any] = {
    "pydispatch": {"format": 1, "version": "0.1.0", "producers": {"llvm": "20"}},
    "functions": [{"name": "f", "signature": "() -> ()"}],
    "executables": [
        {
            "name": "e", "exports": ["a", "b"],
            "variants": [{"name": "v", "member": "executables/e/v.elf", "format": "embedded-elf-x86_64",
                          "requires": ["avx2"], "alignment": 64, "imports": ["?x"]}],
        }
    ],
    "constants": [{"member": "constants/0.npy", "dtype": "<f4", "shape": [2, 0]}],
}  # fmt: skip


def changed(path: str, value: object = ...) -> dict[str, Any]:
    """GOOD with one value replaced, or taken out."""
    result = copy.deepcopy(GOOD)
    at: Any = result
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for part in parents:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return result


def test_round_trip() -> None:
    manifest = Manifest.from_json(GOOD)
    assert manifest.to_json() == GOOD
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    text = manifest.to_bytes().decode()
    assert text == json.dumps(GOOD, sort_keys=True, indent=1) + "\n"
    assert manifest.executables[0].variants[0].alignment == 64


def test_unknown_keys_are_kept() -> None:
    value = changed("later", {"x": 1})
    value["pydispatch"]["built"] = "here"
    value["executables"][0]["variants"][0]["subgroup"] = 32
    value["functions"][0]["doc"] = None
    manifest = Manifest.from_json(value)
    assert manifest.to_json() == value
    assert manifest.executables[0].variants[0].extra == {"subgroup": 32}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("pydispatch", ..., "pydispatch: missing; expected an object"),
        ("pydispatch.version", 3, "pydispatch.version: expected a non-empty string, got 3"),
        ("pydispatch.format", "1", 'pydispatch.format: expected an integer from 1 to 2147483648, got "1"'),
        ("pydispatch.format", True, "pydispatch.format: expected an integer from 1 to 2147483648, got true"),
        ("pydispatch.producers", {"llvm": 20}, 'pydispatch.producers: expected an object of strings, got {"llvm": 20}'),
        ("functions", {}, "functions: expected a list, got {}"),
        ("functions.0", "f", 'functions[0]: expected an object, got "f"'),
        ("functions.0.signature", ..., "functions[0].signature: missing; expected a non-empty string"),
        ("executables.0.exports.1", None, "executables[0].exports[1]: expected a non-empty string, got null"),
        ("executables.0.exports.1", "a", "exports of executable 'e': the name 'a' is given twice"),
        ("executables.0.variants.0.member", "", 'variants[0].member: expected a non-empty string, got ""'),
        ("executables.0.variants.0.alignment", 128, "alignment: expected an integer from 1 to 64, got 128"),
        ("executables.0.variants.0.alignment", 48, "variants[0].alignment: expected a power of two, got 48"),
        ("executables.0.variants.0.requires", "avx2", 'variants[0].requires: expected a list, got "avx2"'),
        ("constants.0.shape.1", -1, "constants[0].shape[1]: expected a size, got -1"),
        ("constants.0.shape.0", 2.0, "constants[0].shape[0]: expected a size, got 2.0"),
    ],
)  # fmt: skip
def test_faults_name_their_place(path: str, value: object, message: str) -> None:
    with pytest.raises(ArtifactError, match=r"^manifest\.json: .*" + re.escape(message) + "$"):
        Manifest.from_json(changed(path, value))


def test_newer_format_says_who_wrote_it_and_what_to_do() -> None:
    value = changed("pydispatch.format", 2)
    value["pydispatch"]["version"] = "7.5"
    value["functions"] = "laid out in another way"
    with pytest.raises(ArtifactError, match=r"written by pydispatch 7\.5 in format 2; .* up to 1: update pydispatch"):
        Manifest.from_json(value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"null", b'"x"', b"{}"])
def test_what_is_no_manifest(text: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        Manifest.from_bytes(text)


def _archive(*members: str, manifest: dict[str, Any] = GOOD) -> bytes:
    from pydispatch._core.artifact import crc32

    content = {name: b"" for name in members}
    if "manifest.json" in content:
        content["manifest.json"] = json.dumps(manifest).encode()
    plan = layout(ArchiveEntry(name, len(data), crc32(data)) for name, data in content.items())
    return b"".join(h + d for (_, h), d in zip(plan.headers, content.values(), strict=True)) + plan.tail


def test_manifest_and_members_must_agree() -> None:
    names = ["manifest.json", "program.bin", "executables/e/v.elf", "constants/0.npy"]
    assert Artifact.from_bytes(_archive(*names)).members == names
    with pytest.raises(ArtifactError, match=r"<bytes> has no member 'manifest\.json'"):
        Artifact.from_bytes(_archive(*names[1:]))
    with pytest.raises(ArtifactError, match=r"lacks the member 'program\.bin'$"):
        Artifact.from_bytes(_archive(names[0], *names[2:]))
    with pytest.raises(ArtifactError, match=r"lacks the member 'executables/e/v\.elf' and 1 more"):
        Artifact.from_bytes(_archive(*names[:2]))


def test_read_names_what_there_is() -> None:
    artifact = Artifact.build([], b"PDXP")
    with pytest.raises(ArtifactError, match=r"no member 'x'; it has: manifest\.json, program\.bin"):
        artifact.read("x")
    with pytest.raises(ArtifactError, match=r"<bytes> has no member 'x'"):
        Artifact.from_bytes(artifact.to_bytes()).read("x")
