"""Measures single kernels here and with IREE, onnxruntime, JAX and NumPy, beside what the machine can do at most.

    python bench/kernels/run.py [--only TEXT] [--workers 1 2] [--random N --seed S] [--json FILE]

Needs an interpreter with JAX, onnx, onnxruntime and IREE's compiler and runtime, and a C compiler. Weights are
arguments here, for IREE, JAX and NumPy; initializers for onnxruntime, which is compared with ours with constants. One
process for each number of workers calls all kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(BENCH), str(BENCH / "models")]

from report.figures import CONSTANT, OURS, ROOF, Figures, Row, parser, table  # noqa: E402

METHOD = (
    "Least times; contenders alternate, with pauses, since threads of some spin after a call. With one worker the "
    "process keeps to one core and its CPU time counts. Weights are arguments; initializers for onnxruntime, which is "
    "compared with ours with constant weights: both lay them out once. The roof is what multiply-adds in registers and "
    "a triad over as many bytes take."
)
"""How the figures were measured, for the report."""
PEERS = ("iree", "onnxruntime", "jax", "numpy")
"""Contenders that --peers chooses from."""


def _iree_module(text: str, workers: int, folder: Path) -> Any:
    """Compile MLIR with IREE for this CPU, and load it for calls on `workers` threads. folder: for its files.

    Raises:
        subprocess.CalledProcessError: IREE cannot compile the program.
    """
    from pydispatch.bench.peers import iree

    source, module = folder / f"w{workers}.mlir", folder / f"w{workers}.vmfb"
    source.write_text(text)
    subprocess.run([iree.compiler(), source, *iree.THIS_CPU, "-o", module], check=True, capture_output=True)
    return iree.Module(module, "local-sync" if workers == 1 else "local-task")


def measure(work: Any, workers: int, folder: Path, seconds: float, peers: frozenset[str]) -> dict[str, Any]:
    """Return the figures of a kernel (`work.Work`): a dict that can be written as JSON.

    "seconds": least seconds of a call by contender. "difference" (of pydispatch) and "PEER difference": largest
    difference from JAX, relative to the largest element. "tolerance": largest "difference" that is accepted.
    "operations", "bytes": of a call. "missing": peer -> why it could not compile the kernel.

    Args:
        work: The kernel.
        workers: Threads of each contender; with one, CPU time counts instead of wall time.
        folder: For temporary files.
        seconds: Duration of the calls of each contender.
        peers: Names of `PEERS` to measure.
    """
    import jax
    from calling import differs
    from exported import onnx_session
    from programs import PAUSE

    import pydispatch
    from pydispatch.bench.measure import measure as measured

    model, missing = work.model, dict[str, str]()
    arguments, expected = model.arguments(), model.expected()
    text = model.text() if work.text is None else work.text
    artifact = pydispatch.compile(text, targets="cpu", cpu="native")
    prepared = pydispatch.device(f"cpu?workers={workers}").load(artifact).main.prepare(*arguments)
    figures: dict[str, Any] = {"difference": differs(prepared(), expected), "tolerance": model.tolerance}
    figures["operations"], figures["bytes"] = work.operations, work.bytes
    contenders: dict[str, Callable[[], Any]] = {"pydispatch": prepared}
    # Ours with constant weights, if there are weights; `work.text` is MLIR whose weights are arguments.
    if jax.tree.leaves(model.weights) and work.text is None:
        constants = model.call(lambda weights, *inputs: pydispatch.from_jax(
            model.function, *inputs, params=weights, targets="cpu", cpu="native"
        ))  # fmt: skip
        contenders[CONSTANT] = pydispatch.device(f"cpu?workers={workers}").load(constants).main.prepare(*model.inputs)
        figures["difference"] = max(figures["difference"], differs(contenders[CONSTANT](), expected))
    if "jax" in peers:
        jitted = jax.jit(model.function, keep_unused=True)
        on_device = jax.tree.map(jax.device_put, model.call(lambda *args: args))
        contenders["jax"] = lambda: jax.block_until_ready(jitted(*on_device))
    if "numpy" in peers and work.numpy is not None:
        contenders["numpy"] = lambda: work.numpy(*arguments)
    if "onnxruntime" in peers:
        session = onnx_session(model, workers)
        if session is not None:
            figures["onnxruntime difference"] = differs(session.results(), expected)
            contenders["onnxruntime"] = session.call
    if "iree" in peers:
        try:
            peer = _iree_module(text, workers, folder)
            figures["iree difference"] = differs(peer.function("main")(*arguments), expected)
            contenders["iree"] = peer.raw("main", *arguments)
        except subprocess.CalledProcessError as error:
            missing["iree"] = error.stderr.decode()[-300:]
    # CPU time of one worker is not disturbed by other processes; of several it would be their sum.
    clock = time.process_time if workers == 1 else time.perf_counter
    figures["seconds"] = {
        samples.name: samples.least for samples in measured(contenders, seconds, pause=PAUSE, clock=clock)
    }
    figures["missing"] = missing
    return figures


def child(args: argparse.Namespace) -> None:
    """Measure the kernels from number `args.start` on, with `args.workers[0]` workers.

    Print a line of JSON for each: [number, name, figures]; figures are null if `args.only` is not in the name.
    """
    workers = args.workers[0]
    if workers == 1:  # CPU time then shows all work: none runs on another core beside it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from pydispatch.bench.peers import iree

    iree.set_workers(workers)
    for index, make in enumerate(_makers(args)):
        if index < args.start:
            continue
        work = make()
        figures = None
        if args.only in work.name:
            figures = measure(work, workers, args.folder, args.seconds, frozenset(args.peers))
        print(json.dumps([index, work.name, figures]), flush=True)


def _makers(args: argparse.Namespace) -> Any:
    """Return an iterator over functions that create the kernels: random ones, or those of shapes.py."""
    from drawn import drawn
    from shapes import kernels

    return drawn(args.random, args.seed) if args.random else kernels()


def measured(args: argparse.Namespace, workers: int, folder: Path) -> dict[str, Any]:
    """Return {kernel: figures of `measure`} for so many workers, measured in a process that runs `child`.

    A kernel at which the process dies is reported and left out; another process goes on after it.
    """
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
                index, name, figures = json.loads(text)
                start = index + 1
                if figures is not None:
                    everything[name] = figures
                    print(table(rows(name, figures, workers, args.roofs[workers])), flush=True)
        done = process.returncode == 0
        if not done:
            print(f"kernel number {start} ended its process with {process.returncode}", file=sys.stderr, flush=True)
            start += 1  # after the kernel at which the process ended
    return everything


def rows(name: str, figures: dict[str, Any], workers: int, roof: Any) -> list[Row]:
    """Return the rows of a kernel: one for each contender, and the least time that the machine allows.

    figures: of `measure`. roof: a roof.Roof.
    """
    # onnxruntime has its weights as initializers, so it is compared with ours with constant weights, if there are any.
    with_constants = CONSTANT if CONSTANT in figures["seconds"] else OURS
    kernel_rows = [
        Row("a call", who, value, size=name, workers=workers, against=with_constants if who == "onnxruntime" else OURS)
        for who, value in figures["seconds"].items()
    ]
    least = roof.seconds(figures["operations"], figures["bytes"])
    return [*kernel_rows, Row("a call", ROOF, least, size=name, workers=workers)]


def faults(name: str, figures: dict[str, Any]) -> list[str]:
    """Return messages about a kernel: peers that could not compile it, and a difference beyond the tolerance."""
    messages = [f"{name}: {who} cannot compile it: {why}" for who, why in figures["missing"].items()]
    return (
        messages
        if figures["difference"] <= figures["tolerance"]
        else [*messages, f"{name}: off by {figures['difference']:.1e}"]
    )


def main() -> int:
    """Measure the kernels with each number of workers, and print the losses. Return 1 if a result is off."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", default="", help="kernels with this text in their names")
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--seconds", type=float, default=0.15, help="of calls for each contender")
    arguments.add_argument("--random", type=int, default=0, metavar="N", help="N kernels that the seed draws")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    arguments.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.child:
        child(args)
        return 0
    from report.tables import losses
    from roof import roof

    figures = Figures(f"{args.random} kernels that a seed draws" if args.random else "Single kernels", METHOD)
    wrong = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        args.roofs = {w: roof(w, Path(folder)) for w in args.workers}
        for workers in args.workers:
            for name, kernel in measured(args, workers, Path(folder)).items():
                figures.rows += rows(name, kernel, workers, args.roofs[workers])
                wrong += faults(name, kernel)
            if args.json:
                figures.save(args.json)
    print(f"\nThe worst:\n{losses({'': figures}).markdown()}", *wrong, sep="\n")
    return 1 if any(": off by " in message for message in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
