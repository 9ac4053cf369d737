"""An artifact in workers of Ray: each process loads it once and gives what NumPy gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "mixed.pdx"
    pd.compile(ROOT / "examples" / "mixed" / "program.mlir").save(path)
    return path


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * b * (a * b + b)


@ray.remote
class Worker:
    def __init__(self, path: str) -> None:
        import pydispatch as pd

        self.program = pd.device("cpu?workers=2").load(path)

    def call(self, a: np.ndarray, b: np.ndarray) -> tuple[int, np.ndarray]:
        return os.getpid(), self.program.mixed_invocation(a, b)  # arrays of the object store are read-only

    def wrong(self) -> None:
        self.program.mixed_invocation(np.zeros(3, np.float64), np.zeros(3, np.float32))


@ray.remote
def task(path: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    import pydispatch as pd

    return pd.device("cpu?workers=1").load(path).mixed_invocation(a, b)


def test_actors(cluster: None, pdx: Path) -> None:
    workers = [Worker.remote(str(pdx)) for _ in range(2)]
    rng = np.random.default_rng(1)
    given = [tuple(rng.random((2, n), np.float32)) for n in (1, 8, 1000, 100_000, 7, 300)]
    waiting = [workers[i % 2].call.remote(a, b) for i, (a, b) in enumerate(given)]
    found = ray.get(waiting)
    assert len({pid for pid, _ in found} | {os.getpid()}) == 3
    for (a, b), (_, result) in zip(given, found, strict=True):
        np.testing.assert_allclose(result, expected(a, b), rtol=1e-6)


def test_tasks(cluster: None, pdx: Path) -> None:
    a, b = np.random.default_rng(2).random((2, 5000), np.float32)
    kept = ray.put(a), ray.put(b)
    for result in ray.get([task.remote(str(pdx), *kept) for _ in range(4)]):
        np.testing.assert_allclose(result, expected(a, b), rtol=1e-6)


def test_errors_come_back_with_their_message(cluster: None, pdx: Path) -> None:
    worker = Worker.remote(str(pdx))
    with pytest.raises(ray.exceptions.RayTaskError, match="mixed_invocation") as caught:
        ray.get(worker.wrong.remote())
    assert "InvalidArgumentError" in str(caught.value)


def test_here_and_in_a_worker_the_bits_are_the_same(cluster: None, pdx: Path) -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 999)).astype(np.float32)
    here = pd.device("cpu").load(pdx).mixed_invocation(a, b)
    assert ray.get(task.remote(str(pdx), a, b)).tobytes() == here.tobytes()
