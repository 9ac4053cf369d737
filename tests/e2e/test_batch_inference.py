"""examples/batch_inference on one machine: what it computes, and a run that was killed goes on where it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "batch_inference"
GROUPS, ROWS = 12, 50


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    sys.path.insert(0, str(EXAMPLE))
    import shapes
    import train

    yield shapes, train
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def images(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "images.parquet"
    example[0].write(path, GROUPS * ROWS, ROWS, 5)
    assert pq.ParquetFile(path).num_row_groups == GROUPS
    return path


def started(images: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLE / "infer.py"), str(images), str(out), "--batch", "16"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.parquet")}


def test_every_image_is_classified_and_a_killed_run_goes_on(example: Any, images: Path, tmp_path: Path) -> None:
    shapes, train = example
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    lines = started(images, whole).communicate(timeout=60)[0].splitlines()
    assert lines[0] == f"{GROUPS} row groups to do" and lines[-1].endswith(f"{GROUPS} of {GROUPS}")
    pixels, shape = shapes.images(GROUPS * ROWS, 5)
    tables = [pq.read_table(path) for path in sorted(whole.glob("*.parquet"))]
    ids = [i for table in tables for i in table["id"].to_pylist()]
    named = [name for table in tables for name in table["shape"].to_pylist()]
    scores = [score for table in tables for score in table["score"].to_pylist()]
    expected = train.scores(dict(np.load(EXAMPLE / "weights.npz")), pixels)
    assert ids == list(range(GROUPS * ROWS))
    assert named == [shapes.SHAPES[i] for i in expected.argmax(1)]
    np.testing.assert_allclose(scores, expected.max(1), rtol=1e-4, atol=1e-4)
    assert np.mean([shapes.SHAPES[i] == name for i, name in zip(shape, named, strict=True)]) > 0.9

    job = started(images, parts)
    assert job.stdout is not None
    for _ in range(4):
        job.stdout.readline()
    job.kill()
    job.communicate()
    (parts / "part-00011.parquet").unlink(missing_ok=True)  # if it was quicker than its end
    (parts / "part-00011.1.tmp").write_bytes(b"half a file")
    kept = {path: path.stat().st_mtime_ns for path in parts.glob("*.parquet")}
    lines = started(images, parts).communicate(timeout=60)[0].splitlines()
    assert lines[0] == f"{GROUPS - len(kept)} row groups to do" and len(kept) >= 3
    assert contents(parts) == contents(whole) and not list(parts.glob("*.tmp"))
    assert all(path.stat().st_mtime_ns == changed for path, changed in kept.items()), "what was done is not done again"


def test_results_of_another_job_are_not_mixed_in(example: Any, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "job.json").write_text("{}")
    command = [sys.executable, str(EXAMPLE / "infer.py"), str(images), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "other images or of another model" in done.stderr


def test_the_kernel_takes_the_place_of_the_activation(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from infer import compiled

    monkeypatch.delenv("PYDISPATCH_CPU")  # the default is two variants
    artifact = compiled()
    assert all(len(executable.variants) == 1 for executable in artifact.executables), "machines would differ in bits"
    weights = dict(np.load(EXAMPLE / "weights.npz"))
    program = pd.device("cpu").load(artifact, parameters={"model": weights})
    x = np.random.default_rng(0).random((9, 256), np.float32)
    assert any("hard_swish" in line for line in program.main.plan_of(x))
    with program.main.batched(32) as batched:
        assert batched(x).tobytes() == program.main(x).tobytes()


def test_the_training_learns(example: Any) -> None:
    _, train = example
    assert train.accuracy(train.train(steps=5), 1000) < 0.5 < train.accuracy(train.train(steps=150), 1000)
    assert train.accuracy(dict(np.load(EXAMPLE / "weights.npz"))) > 0.9
