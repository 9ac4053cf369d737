"""Whole tensor programs beside the peers: iree (host CPU), NumPy with OpenBLAS, onnxruntime. Needs the `bench` extra.

    python bench/tensors.py [--workers 1 2] [--only TEXT] [--json FILE]

One process per number of workers; in it the contenders of a program take turns, and medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


PAUSE = 0.06
"""Seconds between contenders: threads of OpenBLAS and onnxruntime spin for a while behind their last call, on a core
that the next one needs."""


def alternate(contenders: dict[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """Median seconds per call; every round runs each contender for some milliseconds, once for warmth before."""
    calls: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        calls[name] = max(1, int(0.02 / max(1e-7, time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + budget * len(contenders)
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, call in contenders.items():
            time.sleep(PAUSE)
            call()
            start = time.perf_counter()
            for _ in range(calls[name]):
                call()
            times[name].append((time.perf_counter() - start) / calls[name])
    return {name: statistics.median(values) for name, values in times.items()}


def onnx_session(work: Any, workers: int) -> Any:
    """The model of a work as an onnxruntime session."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, a.shape) for i, a in enumerate(work.inputs)]
    graph = helper.make_graph(
        [helper.make_node(op, takes, gives, **attributes) for op, takes, gives, attributes in work.onnx],
        "f", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, work.result_shape)],
        [numpy_helper.from_array(array, name) for name, array in work.constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def measure(workers: int, only: str, budget: float) -> dict[str, dict[str, float]]:
    """Seconds per work and contender, and the seconds to compile."""
    import iree.runtime as rt
    import numpy as np
    import peer as peers
    from tensor_works import works

    import pydispatch as pd

    rt.flags.parse_flags(f"--task_topology_group_count={workers}")
    table: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for work in works():
            if only not in work.name:
                continue
            start = time.perf_counter()
            artifact = pd.compile(work.text, targets="cpu", cpu="native")
            compiled = time.perf_counter() - start
            start = time.perf_counter()
            flags = "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2"
            vmfb = peers.peer_compile(work.text, Path(folder) / "f.vmfb", *flags)
            peer_compiled = time.perf_counter() - start
            function = pd.device(f"cpu?workers={workers}").load(artifact).f
            expected = work.numpy(*work.inputs)
            prepared = function.prepare(*work.inputs)
            np.testing.assert_allclose(prepared(), expected, rtol=1e-3, atol=1e-3)
            peer = peers.Peer(vmfb, "local-sync" if workers == 1 else "local-task")
            np.testing.assert_allclose(np.asarray(peer.function("f")(*work.inputs)), expected, rtol=1e-3, atol=1e-3)
            out = np.empty_like(expected)
            contenders: dict[str, Callable[[], Any]] = {"pydispatch": prepared, "iree": peer.raw("f", *work.inputs)}
            if work.name.startswith("matmul"):
                contenders["numpy"] = lambda work=work, out=out: np.matmul(*work.inputs, out=out)
            elif work.bytes and work.name.startswith("chain"):
                contenders["copy"] = lambda work=work, out=out: np.copyto(out, work.inputs[0])
                contenders["numpy"] = lambda work=work: work.numpy(*work.inputs)
            else:
                contenders["numpy"] = lambda work=work: work.numpy(*work.inputs)
            if work.onnx:
                session = onnx_session(work, workers)
                binding = session.io_binding()
                for i, array in enumerate(work.inputs):
                    binding.bind_cpu_input(f"x{i}", array)
                binding.bind_output("y", "cpu")
                contenders["onnxruntime"] = lambda session=session, binding=binding: session.run_with_iobinding(binding)
            row = alternate(contenders, budget)
            row["compile"], row["iree compile"] = compiled, peer_compiled
            row["process compile"] = process_seconds(work.text, Path(folder))
            row["flops"], row["bytes"] = work.flops, work.bytes
            table[work.name] = row
            print(report(work.name, workers, row), file=sys.stderr, flush=True)
    return table


def process_seconds(text: str, folder: Path) -> float:
    """Seconds to compile in a process of its own, as `pydispatch compile` does; the best of three."""
    source, least = folder / "f.mlir", float("inf")
    source.write_text(text)
    command = [
        sys.executable,
        "-m",
        "pydispatch.cli",
        "compile",
        str(source),
        "--cpu=native",
        "-o",
        str(folder / "f.pdx"),
    ]
    from peer import with_bytecode

    environment = with_bytecode()
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        least = min(least, time.perf_counter() - start)
    return least


def report(name: str, workers: int, row: dict[str, float]) -> str:
    """One line: our time, the ratios of the peers' times to it, and how much that is."""
    own = row["pydispatch"]
    ratios = [f"{peer} {row[peer] / own:.2f}x" for peer in ("iree", "numpy", "onnxruntime", "copy") if peer in row]
    rate = f", {row['flops'] / own * 1e-9:.1f} GFLOP/s" if row["flops"] else f", {row['bytes'] / own * 1e-9:.1f} GB/s"
    compiled = (
        f"compile {row['compile']:.2f} s, process {row['process compile']:.2f} s (iree {row['iree compile']:.2f} s)"
    )
    return f"{name:28s} {workers} workers {own * 1e6:9.1f} us: {', '.join(ratios)}{rate}; {compiled}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", default="", help="works with this text in their names")
    parser.add_argument("--seconds", type=float, default=0.5, help="per contender")
    parser.add_argument("--json", help="also write every figure to this file")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.workers[0], args.only, args.seconds)))
        return
    everything = {}
    for workers in args.workers:
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(workers), OMP_NUM_THREADS=str(workers))
        done = subprocess.run(
            [sys.executable, __file__, "--child", "--workers", str(workers), "--only", args.only,
             "--seconds", str(args.seconds)],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        everything[workers] = json.loads(done.stdout)
    if args.json:
        Path(args.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
