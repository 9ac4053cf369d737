"""`integrations.ray.predict` and examples/batch_inference on several nodes, with workers that are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster

import pydispatch as pd
from pydispatch.integrations.ray import predict

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "batch_inference"
STORE = 100 << 20
HANG_SECONDS = 1200
"""Wall time limit of one job of the example; a smaller one reports a busy machine."""
GROUPS = 300
TEXT = """
func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x3xf32>) outs(%z : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
func.func @fixed(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %y = arith.addf %x, %x : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}
"""
W = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)


def rows_of(ids: np.ndarray) -> np.ndarray:
    return np.sin(ids[:, None] + np.arange(8)).astype(np.float32)


def with_rows(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"id": batch["id"], "x": rows_of(batch["id"])}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(TEXT)


def given(count: int, blocks: int) -> Any:
    return ray.data.range(count, override_num_blocks=blocks).map_batches(with_rows)


def check(rows: Any, count: int, program: Any) -> None:
    ids = np.array([row["id"] for row in rows])
    order = np.argsort(ids)
    np.testing.assert_array_equal(ids[order], np.arange(count), "none is missing, none is there twice")
    y = np.stack([row["y"] for row in rows])[order]
    assert y.tobytes() == program.main(rows_of(np.arange(count)), W).tobytes()


def test_every_row_has_its_result(cluster: Cluster, artifact: pd.Artifact, tmp_path: Path) -> None:
    program = pd.device("cpu").load(artifact)
    artifact.save(tmp_path / "dense.pdx")
    for source in (tmp_path / "dense.pdx", artifact.to_bytes()):
        made = predict(given(1000, 7), source, outputs=["y"], keep=["id"], constants={"w": W}, batch_size=64)
        check(made.take_all(), 1000, program)


def test_a_killed_worker_loses_nothing(cluster: Cluster, artifact: pd.Artifact, tmp_path: Path) -> None:
    def slow(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(0.05)
        return {"x": batch["x"]}

    made = predict(
        given(6000, 40), artifact, inputs=slow, outputs=["y"], keep=["id"], constants={"w": W}, batch_size=50,
        workers=2,
    )  # fmt: skip
    killed: list[int] = []
    rows = []
    for row in made.iter_rows():
        rows.append(row)
        if len(rows) == 1000:
            killed.append(int(next(tmp_path.iterdir()).name))
            os.kill(killed[0], signal.SIGKILL)
    check(rows, 6000, pd.device("cpu").load(artifact))
    assert killed and len(list(tmp_path.iterdir())) > 2, "another worker took its place"


def test_fixed_batch_sizes(cluster: Cluster, artifact: pd.Artifact) -> None:
    made = predict(given(100, 3), artifact, "fixed", outputs=["y"], keep=["x"], batch_size=37, workers=1, threads=2)
    rows = made.take_all()
    assert len(rows) == 100
    for row in rows:
        np.testing.assert_array_equal(row["y"], 2 * row["x"])


def test_errors_say_what_is_wrong(cluster: Cluster, artifact: pd.Artifact) -> None:
    with pytest.raises(Exception, match="inputs: there is no column 'x'; there are: id"):
        predict(ray.data.range(10), artifact, constants={"w": W}).take_all()
    with pytest.raises(Exception, match="expected an array of float32 with 10 rows, got float64"):
        wide = {"inputs": lambda batch: {"x": np.zeros((10, 8))}}
        predict(ray.data.range(10, override_num_blocks=1), artifact, constants={"w": W}, **wide).take_all()
    with pytest.raises(pd.InvalidArgumentError, match="workers"):
        predict(ray.data.range(10), artifact, workers=(2, 1))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in GROUPS row groups, and beside them `here`, what one machine makes of them."""
    folder = tmp_path_factory.mktemp("images")
    images = folder / "images.parquet"
    assert example("shapes.py", images, "--images", 200 * GROUPS - 50, "--rows", 200).wait(120) == 0
    assert example("infer.py", images, folder / "here").wait(120) == 0
    return images


def example(script: str, *words: object, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, script, *map(str, words)]
    return subprocess.Popen(command, cwd=EXAMPLE, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def wait_for_parts(job: subprocess.Popen[str], out: Path, count: int) -> None:
    """Until this many row groups are done, and not all."""
    end = time.monotonic() + HANG_SECONDS
    while len(parts := list(out.glob("*.parquet"))) < count:
        assert job.poll() is None and time.monotonic() < end, f"{len(parts)} row groups are done"
        time.sleep(0.01)
    assert len(parts) < GROUPS and job.poll() is None


def kill_a_worker() -> None:
    """A process of Ray that is at work."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (process / "cmdline").read_bytes()
            if name.startswith(b"ray::Map"):
                os.kill(int(process.name), signal.SIGKILL)
                return
    raise AssertionError("no worker is at work")


def check_parts(images: Path, out: Path) -> None:
    expected = sorted((images.parent / "here").glob("*.parquet"))
    assert len(expected) == GROUPS
    for part in expected:
        assert part.read_bytes() == (out / part.name).read_bytes()
    assert not list(out.glob("*.tmp"))


def test_the_example_survives_a_worker_and_a_node(cluster: Cluster, images: Path, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    job = example("infer.py", images, tmp_path, "--ray", "--batch", 40, RAY_ADDRESS=cluster.address)
    try:
        wait_for_parts(job, tmp_path, 5)
        kill_a_worker()
        wait_for_parts(job, tmp_path, 10)
        cluster.remove_node(node, allow_graceful=False)
        said = job.communicate(timeout=HANG_SECONDS)[0]
    finally:
        job.kill()
    assert job.returncode == 0
    assert f"{GROUPS} of {GROUPS}\n" in said
    check_parts(images, tmp_path)


def test_the_example_goes_on_after_a_kill(cluster: Cluster, images: Path, tmp_path: Path) -> None:
    job = example("infer.py", images, tmp_path, "--ray", "--batch", 40, RAY_ADDRESS=cluster.address)
    try:
        wait_for_parts(job, tmp_path, 5)
    finally:
        job.kill()
    job.wait(60)
    again = example("infer.py", images, tmp_path, "--ray", "--batch", 40, RAY_ADDRESS=cluster.address)
    try:
        said = again.communicate(timeout=HANG_SECONDS)[0]
    finally:
        again.kill()
    assert again.returncode == 0
    left = int(next(line for line in said.splitlines() if line.endswith("row groups to do")).split()[0])
    assert 0 < left <= GROUPS - 5 and f"{left} of {left}\n" in said
    check_parts(images, tmp_path)
