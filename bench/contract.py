"""Contractions beside NumPy's OpenBLAS and the peer: shapes and layouts that bench/tensors.py does not have.

    python bench/contract.py [--workers N] [--only TEXT] [--seconds S]

Set OPENBLAS_NUM_THREADS to the number of workers. Contenders take turns; the best times are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

Case = tuple[str, str, list[np.ndarray[Any, Any]], Callable[[], Any], float]


def program(op: str, a: str, b: str, c: str, zero: str) -> str:
    acc = c[:-1].rpartition("x")[2]
    return f"""
func.func @f(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant {zero} : {acc}
  %e = tensor.empty() : {c}
  %z = linalg.fill ins(%zero : {acc}) outs(%e : {c}) -> {c}
  %r = {op} ins(%a, %b : {a}, {b}) outs(%z : {c}) -> {c}
  return %r : {c}
}}
"""


def cases() -> Iterator[Case]:
    """(name, text, inputs, NumPy's way, multiplications)."""
    rng = np.random.default_rng(1)
    shapes = (256, 256, 256), (512, 784, 512), (1024, 1024, 1024), (1, 1024, 1024), (7, 1000, 333), (2048, 64, 2048)
    for m, k, n in shapes:
        for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            out = np.empty((m, n), dtype)
            t = [f"tensor<{x}x{y}x{type_}>" for x, y in ((m, k), (k, n), (m, n))]
            yield (f"matmul {type_} {m}x{k}x{n}", program("linalg.matmul", *t, "0.0"), [a, b],
                   lambda a=a, b=b, out=out: np.matmul(a, b, out=out), float(m * k * n))  # fmt: skip
    for m, k, n in ((1, 1024, 1024), (32, 784, 512), (512, 784, 512)):
        a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((n, k), dtype=np.float32)
        t = [f"tensor<{x}x{y}xf32>" for x, y in ((m, k), (n, k), (m, n))]
        maps = ("indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, "
                "affine_map<(m, n, k) -> (m, n)>]")  # fmt: skip
        yield (f"transposed b {m}x{k}x{n}", program(f"linalg.matmul {maps}", *t, "0.0"), [a, b],
               lambda a=a, b=b: a @ b.T, float(m * k * n))  # fmt: skip
    a, x = rng.standard_normal((1024, 1024), dtype=np.float32), rng.standard_normal(1024, dtype=np.float32)
    matrix, vector = "tensor<1024x1024xf32>", "tensor<1024xf32>"
    yield "matvec", program("linalg.matvec", matrix, vector, vector, "0.0"), [a, x], lambda: a @ x, 1024.0**2
    yield "vecmat", program("linalg.vecmat", vector, matrix, vector, "0.0"), [x, a], lambda: x @ a, 1024.0**2
    i, j = (rng.integers(-128, 127, (512, 512), dtype=np.int8) for _ in "ab")
    t = ["tensor<512x512xi8>", "tensor<512x512xi8>", "tensor<512x512xi32>"]
    yield ("matmul i8 512", program("linalg.matmul", *t, "0"), [i, j],
           lambda: i.astype(np.float32) @ j.astype(np.float32), 512.0**3)  # fmt: skip


def best(contenders: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The least seconds per call of each."""
    calls: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        calls[name] = max(1, int(0.003 / max(1e-7, time.perf_counter() - start)))
    least = dict.fromkeys(contenders, float("inf"))
    end = time.perf_counter() + seconds * len(contenders)
    while time.perf_counter() < end:
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                call()
            least[name] = min(least[name], (time.perf_counter() - start) / calls[name])
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with this text in their names")
    parser.add_argument("--seconds", type=float, default=0.3, help="per contender")
    args = parser.parse_args()
    import iree.runtime as rt
    import peer as peers

    import pydispatch as pd

    rt.flags.parse_flags(f"--task_topology_group_count={args.workers}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text, inputs, numpy, products) in enumerate(cases()):
            if args.only not in name:
                continue
            start = time.perf_counter()
            artifact = pd.compile(text, targets="cpu", cpu="native")
            compiled = time.perf_counter() - start
            flags = "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2", "--iree-input-demote-f64-to-f32=false"
            vmfb = peers.peer_compile(text, Path(folder) / f"{number}.vmfb", *flags)
            peer = peers.Peer(vmfb, "local-sync" if args.workers == 1 else "local-task").raw("f", *inputs)
            own = pd.device(f"cpu?workers={args.workers}").load(artifact).f.prepare(*inputs)
            np.testing.assert_allclose(own(), numpy(), rtol=1e-3, atol=1e-2)
            times = best({"own": own, "iree": peer, "numpy": numpy}, args.seconds)
            rate = 2 * products / times["own"] * 1e-9
            ratios = ", ".join(f"{times[p] / times['own']:.2f}x {p}" for p in ("iree", "numpy"))
            shown = f"{name:28s} {times['own'] * 1e6:9.1f} us {rate:7.1f} GFLOP/s"
            print(f"{shown}: {ratios}; compiled in {compiled:.2f} s", flush=True)


if __name__ == "__main__":
    main()
