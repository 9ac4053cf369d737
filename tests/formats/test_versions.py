"""Artifacts of every version of the formats since the first: loaded with the same bits, or refused with a remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch

VERSIONS = Path(__file__).parent / "versions"
sys.path.insert(0, str(VERSIONS))
import make  # noqa: E402

ARTIFACTS = sorted(VERSIONS.glob("*.pdx"))
REFUSED: tuple[str, ...] = ()  # versions that are not read any more


def test_todays_formats_are_committed() -> None:
    assert make.NAME in [path.stem for path in ARTIFACTS], "run versions/make.py and commit what it writes"
    assert make.NAME not in REFUSED


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.stem)
def test_artifacts_of_every_version(path: Path) -> None:
    if path.stem in REFUSED:
        with pytest.raises(pydispatch.ArtifactError, match=r"pydispatch compile FILE\.mlir -o FILE\.pdx"):
            make.results(path)
        return
    expected = np.load(path.with_suffix(".npz"))
    for name, found in make.results(path).items():
        assert found.dtype == expected[name].dtype
        assert found.tobytes() == expected[name].tobytes(), name


def test_a_program_of_another_version_is_refused(tmp_path: Path) -> None:
    artifact = pydispatch.Artifact.from_file(VERSIONS / f"{make.NAME}.pdx")
    words = np.frombuffer(artifact.read("program.bin"), np.uint32).copy()
    words[1] += 1
    members = {name: artifact.read(name) for name in artifact.members}
    changed = tmp_path / "changed.pdx"
    pydispatch.Artifact(artifact.manifest, {**members, "program.bin": memoryview(words.tobytes())}).save(changed)
    with pytest.raises(pydispatch.ArtifactError, match=r"version 4.*pydispatch compile FILE\.mlir -o FILE\.pdx"):
        make.results(changed)
