"""Manifests and PTX that lie: whatever an artifact says, loading and calling end in a result or an error of ours."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydispatch._core.artifact import crc32

import pydispatch as pd
from pydispatch.formats.artifact.pack import ArchiveEntry, layout

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cuda"
ODD: tuple[Any, ...] = (0, -1, 1, 3, 2**40, 2**70, "x", "", None, [], {}, 1.5, [1, 2], True, 64, 1024, [[0, 5, "ptx"]])


def repacked(artifact: pd.Artifact, name: str, data: bytes) -> bytes:
    """The artifact with other bytes for a member."""
    members = [(each, data if each == name else bytes(artifact.read(each))) for each in artifact.members]
    plan = layout(ArchiveEntry(each, len(bytes_), crc32(bytes_)) for each, bytes_ in members)
    return b"".join(header + bytes_ for (_, header), (_, bytes_) in zip(plan.headers, members, strict=True)) + plan.tail


def changed(manifest: Any, draw: random.Random) -> Any:
    """A manifest with one entry of one variant gone, or something else."""
    made = json.loads(json.dumps(manifest))
    node = draw.choice(made["executables"])["variants"][0]
    while True:
        key = draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if isinstance(node[key], (dict, list)) and node[key] and draw.random() < 0.7:
            node = node[key]
        elif draw.random() < 0.2:
            del node[key]
            return made
        else:
            node[key] = draw.choice(ODD)
            return made


@pytest.fixture(scope="module")
def device() -> Any:
    opened = pd.device("ptx-interpreter")
    opened.add_plugin(EXAMPLE / "plugin.ptx")
    return opened


def outcome(device: Any, data: bytes) -> str:
    x = np.ones(100, np.float32)
    try:
        y = device.load(data).mixed_invocation(x, x)
    except pd.InternalError:
        raise
    except pd.Error as error:
        return type(error).__name__
    return "right" if (np.asarray(y) == 2).all() else "wrong"


def test_entries_of_manifests(device: Any) -> None:
    artifact = pd.compile(EXAMPLE / "functions.mlir")
    manifest, draw = json.loads(bytes(artifact.read("manifest.json"))), random.Random(7)
    seen = Counter(
        outcome(device, repacked(artifact, "manifest.json", json.dumps(changed(manifest, draw)).encode()))
        for _ in range(150)
    )
    assert seen["ArtifactError"] > 75 and seen["right"] > 10, seen


def test_bytes_of_kernels(device: Any) -> None:
    """Loading reads the whole text: what it does not know it refuses."""
    artifact = pd.compile(EXAMPLE / "functions.mlir")
    member = next(name for name in artifact.members if name.startswith("executables/kernels/"))
    text, draw = bytes(artifact.read(member)), random.Random(8)
    seen: Counter[str] = Counter()
    for _ in range(200):
        data = bytearray(text)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(data) - 3)
            new = draw.choice((b"9", b"%r1", b"\xff", b";", b"}", b"{", b"u64", b"b16", b"[", b"-", b"."))
            data[at : at + len(new)] = new
        try:
            device.load(repacked(artifact, member, bytes(data)))  # what it would do may never end
            seen["loaded"] += 1
        except pd.InternalError:
            raise
        except pd.Error as error:
            seen[type(error).__name__] += 1
    assert seen["ArtifactError"] > 75 and seen["loaded"], seen
