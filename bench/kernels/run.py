"""Measures single kernels here, with IREE, onnxruntime, JAX and NumPy in turns, beside what the machine can do at most.

    python bench/kernels/run.py [--only TEXT] [--workers 1 2] [--random N --seed S] [--json FILE]

Needs an interpreter with JAX, onnx, onnxruntime and IREE's compiler and runtime, and a C compiler. `table.py` makes the
tables of docs/kernel-benchmarks.md of FILE. Weights are arguments here, for IREE, JAX and NumPy; initializers for
onnxruntime, which lays them out once. One process for each number of workers calls all kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(BENCH), str(BENCH / "models")]

PEERS = ("iree", "onnxruntime", "jax", "numpy")


def measure(work: Any, workers: int, folder: Path, seconds: float, peers: frozenset[str]) -> dict[str, Any]:
    """Figures of a kernel: microseconds of each contender, differences from JAX, and why one is missing."""
    import jax
    from calling import difference, least_seconds
    from counts import PEER_FLAGS, peer_tool
    from exported import onnx_session
    from peer import Peer

    import pydispatch

    model, missing = work.model, dict[str, str]()
    arguments, expected = model.arguments(), model.expected()
    text = model.text() if work.text is None else work.text
    artifact = pydispatch.compile(text, targets="cpu", cpu="native")
    prepared = pydispatch.device(f"cpu?workers={workers}").load(artifact).main.prepare(*arguments)
    figures: dict[str, Any] = {"difference": difference(prepared(), expected), "tolerance": model.tolerance}
    figures["operations"], figures["bytes"] = work.operations, work.bytes
    contenders: dict[str, Callable[[], Any]] = {"pydispatch": prepared}
    if "jax" in peers:
        jitted = jax.jit(model.function, keep_unused=True)
        on_device = jax.tree.map(jax.device_put, model.call(lambda *args: args))
        contenders["jax"] = lambda: jax.block_until_ready(jitted(*on_device))
    if "numpy" in peers and work.numpy is not None:
        contenders["numpy"] = lambda: work.numpy(*arguments)
    if "onnxruntime" in peers:
        session = onnx_session(model, workers)
        if session is not None:
            figures["onnxruntime difference"] = difference(session.results(), expected)
            contenders["onnxruntime"] = session.call
    if "iree" in peers:
        source, module = folder / f"w{workers}.mlir", folder / f"w{workers}.vmfb"
        source.write_text(text)
        try:
            subprocess.run([peer_tool(), source, *PEER_FLAGS, "-o", module], check=True, capture_output=True)
            peer = Peer(module, "local-sync" if workers == 1 else "local-task")
            figures["iree difference"] = difference(peer.function("main")(*arguments), expected)
            contenders["iree"] = peer.raw("main", *arguments)
        except subprocess.CalledProcessError as error:
            missing["iree"] = error.stderr.decode()[-300:]
    clock = time.process_time if workers == 1 else time.perf_counter
    figures["us"] = {k: v * 1e6 for k, v in least_seconds(contenders, seconds, clock).items()}
    figures["missing"] = missing
    return figures


def child(args: argparse.Namespace) -> None:
    """Writes a line of JSON for each kernel."""
    workers = args.workers[0]
    if workers == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import iree.runtime as rt

    rt.flags.parse_flags(f"--task_topology_group_count={workers}")
    for number, make in enumerate(_makers(args)):
        if number < args.start:
            continue
        work = make()
        found = None
        if args.only in work.name:
            found = measure(work, workers, args.folder, args.seconds, frozenset(args.peers))
        print(json.dumps([number, work.name, found]), flush=True)


def _makers(args: argparse.Namespace) -> Any:
    from drawn import drawn
    from shapes import kernels

    return drawn(args.random, args.seed) if args.random else kernels()


def measured(args: argparse.Namespace, workers: int, folder: Path) -> dict[str, Any]:
    """The figures of all kernels with so many workers; a kernel at which the process dies is left out, loudly."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(workers))
    everything: dict[str, Any] = {}
    start, done = 0, False
    while not done:
        command = [sys.executable, __file__, "--child", "--workers", str(workers), "--start", str(start), "--folder",
                   str(folder), "--only", args.only, "--seconds", str(args.seconds), "--random", str(args.random),
                   "--seed", str(args.seed), "--peers", *args.peers]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | threads) as process:
            assert process.stdout is not None
            for text in process.stdout:
                number, name, found = json.loads(text)
                start = number + 1
                if found is not None:
                    everything[name] = found
                    print(line(name, found, workers, args.roofs[workers]), flush=True)
        done = process.returncode == 0
        if not done:
            print(f"kernel number {start} ended its process with {process.returncode}", file=sys.stderr, flush=True)
            start += 1
    return everything


def line(name: str, found: dict[str, Any], workers: int, roof: Any) -> str:
    """The figures for people who wait for the others."""
    us = found["us"]
    own = us["pydispatch"]
    peers = ", ".join(f"{p} {us[p] / own:.2f}" for p in PEERS if p in us)
    share = roof.seconds(found["operations"], found["bytes"]) * 1e6 / own
    wrong = "" if found["difference"] <= found["tolerance"] else f"; WRONG by {found['difference']:.1e}"
    return f"{workers}w {name:48} {own:9.1f} us, {100 * share:3.0f} % of the roof: {peers}{wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="kernels with this text in their names")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.15, help="of calls for each contender")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N kernels that the seed draws")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--machine", default=platform.processor() or platform.machine(), help="its name in tables")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return 0
    from roof import roof
    from table import losses

    everything: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {"machine": args.machine, "kernels": everything}
    with tempfile.TemporaryDirectory() as folder:
        args.roofs = {w: roof(w, Path(folder)) for w in args.workers}
        for workers in args.workers:
            everything[str(workers)] = measured(args, workers, Path(folder))
            if args.json:
                figures["roofs"] = {str(w): asdict(r) for w, r in args.roofs.items()}
                args.json.write_text(json.dumps(figures, indent=1))
    print("\nThe worst:", *(f"{r:.2f} {p:12} {w}w {name}" for r, p, w, name in losses(figures)[:12]), sep="\n")
    found = [f for kernels in everything.values() for f in kernels.values()]
    return 1 if any(not f["difference"] <= f["tolerance"] for f in found) else 0


if __name__ == "__main__":
    sys.exit(main())
