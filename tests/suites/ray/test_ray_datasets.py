"""`integrations.ray.predict` and examples/batch_inference on several nodes, with workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
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
    with pytest.raises(Exception, match="there is no 'x' among the columns id"):
        predict(ray.data.range(10), artifact, constants={"w": W}).take_all()
    with pytest.raises(Exception, match="expected an array of float32 with 10 rows, got float64"):
        wide = {"inputs": lambda batch: {"x": np.zeros((10, 8))}}
        predict(ray.data.range(10, override_num_blocks=1), artifact, constants={"w": W}, **wide).take_all()
    with pytest.raises(pd.InvalidArgumentError, match="workers"):
        predict(ray.data.range(10), artifact, workers=(2, 1))


def test_the_example_survives_a_worker_and_a_node(cluster: Cluster, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        command = [sys.executable, *words]
        return subprocess.Popen(command, cwd=EXAMPLE, env=environment, stdout=subprocess.PIPE, text=True)

    images = tmp_path / "images.parquet"
    assert run("shapes.py", str(images), "--images", "9950", "--rows", "200").wait(60) == 0
    assert run("infer.py", str(images), str(tmp_path / "here")).wait(60) == 0
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    job = run("infer.py", str(images), str(tmp_path / "cluster"), "--ray", "--batch", "40")
    ended = threading.Timer(240, job.kill)
    ended.start()
    assert job.stdout is not None
    reports = [line.split() for line in job.stdout if line.startswith("row group") and not disturb(line, cluster, node)]
    ended.cancel()
    assert job.wait() == 0
    assert reports[-1][-3:] == ["50", "of", "50"]
    parts = sorted((tmp_path / "here").glob("*.parquet"))
    assert len(parts) == 50
    for part in parts:
        assert part.read_bytes() == (tmp_path / "cluster" / part.name).read_bytes()
    assert not list((tmp_path / "cluster").glob("*.tmp"))


def disturb(line: str, cluster: Cluster, node: Any) -> None:
    """Kills the process that did the tenth row group, and a node after the twentieth."""
    words = line.split()
    done = int(words[-3])
    if done == 10:
        os.kill(int(words[5].rstrip(":")), signal.SIGKILL)
    if done == 20:
        cluster.remove_node(node, allow_graceful=False)
