"""Contractions and windows beside the peer and OpenBLAS: shapes and layouts that bench/tensors.py does not have.

    python bench/contract.py [--workers N] [--only TEXT] [--seconds S]

Set OPENBLAS_NUM_THREADS to the number of workers. Contenders take turns; the best times are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))


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
    from contract_works import products, windows

    import pydispatch as pd

    rt.flags.parse_flags(f"--task_topology_group_count={args.workers}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text, inputs, numpy, count) in enumerate((*products(), *windows())):
            if args.only not in name:
                continue
            start = time.perf_counter()
            artifact = pd.compile(text, targets="cpu", cpu="native")
            compiled = time.perf_counter() - start
            flags = "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2", "--iree-input-demote-f64-to-f32=false"
            vmfb = peers.peer_compile(text, Path(folder) / f"{number}.vmfb", *flags)
            peer = peers.Peer(vmfb, "local-sync" if args.workers == 1 else "local-task")
            own = pd.device(f"cpu?workers={args.workers}").load(artifact).f.prepare(*inputs)
            expected = numpy() if numpy is not None else np.asarray(peer.function("f")(*inputs))
            np.testing.assert_allclose(own(), expected, rtol=1e-3, atol=1e-2)
            contenders: dict[str, Callable[[], Any]] = {"own": own, "iree": peer.raw("f", *inputs)}
            if numpy is not None:
                contenders["numpy"] = numpy
            times = best(contenders, args.seconds)
            rate = 2 * count / times["own"] * 1e-9
            ratios = ", ".join(f"{times[p] / times['own']:.2f}x {p}" for p in contenders if p != "own")
            shown = f"{name:28s} {times['own'] * 1e6:9.1f} us {rate:7.1f} GFLOP/s"
            print(f"{shown}: {ratios}; compiled in {compiled:.2f} s", flush=True)


if __name__ == "__main__":
    main()
