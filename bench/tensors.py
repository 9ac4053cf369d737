"""Whole tensor programs beside the peers: iree (host CPU), NumPy with OpenBLAS, onnxruntime. Needs the `bench` extra.

    python bench/tensors.py [--workers 1 2] [--only TEXT] [--json FILE]

One process per number of workers; in it the contenders of a program alternate, and medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from report.figures import Figures, Row, parser, rows_of, table

METHOD = (
    "Medians; contenders alternate, with pauses, since threads of some spin after a call. float32, for this CPU on "
    "both sides."
)
"""How the figures were measured, for the report."""


def onnx_session(work: Any, workers: int) -> Any:
    """Load the ONNX model of a work in onnxruntime with `workers` threads. The work must have nodes, `work.onnx`."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, a.shape) for i, a in enumerate(work.inputs)]
    graph = helper.make_graph(
        [helper.make_node(op, operands, results, **attributes) for op, operands, results, attributes in work.onnx],
        "f", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, work.result_shape)],
        [numpy_helper.from_array(array, name) for name, array in work.constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    options.inter_op_num_threads = 1
    # Threads that spin after a call would take CPU time from the next contender.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def onnxruntime_call(work: Any, workers: int) -> Callable[[], Any]:
    """Return a call of the work in onnxruntime, whose inputs and result are bound to memory in advance."""
    session = onnx_session(work, workers)
    binding = session.io_binding()
    for i, array in enumerate(work.inputs):
        binding.bind_cpu_input(f"x{i}", array)
    binding.bind_output("y", "cpu")
    return lambda: session.run_with_iobinding(binding)


def contenders_of(work: Any, workers: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls of a work by contender, after a comparison of our result and IREE's with NumPy's.

    folder: for the program that IREE compiles.
    """
    import numpy as np
    import programs

    import pydispatch as pd
    from pydispatch.bench.peers import iree

    expected = work.numpy(*work.inputs)
    artifact = pd.compile(work.text, targets="cpu", cpu="native")
    prepared = pd.device(f"cpu?workers={workers}").load(artifact).f.prepare(*work.inputs)
    np.testing.assert_allclose(prepared(), expected, rtol=1e-3, atol=1e-3)
    vmfb = programs.peer_compile(work.text, folder / "f.vmfb", *iree.THIS_CPU)
    peer = iree.Module(vmfb, "local-sync" if workers == 1 else "local-task")
    np.testing.assert_allclose(np.asarray(peer.function("f")(*work.inputs)), expected, rtol=1e-3, atol=1e-3)
    contenders: dict[str, Callable[[], Any]] = {"pydispatch": prepared, "iree": peer.raw("f", *work.inputs)}
    out = np.empty_like(expected)
    if work.name.startswith("chain"):
        # A copy has as much memory traffic as the program when its operations are fused.
        contenders["copy"] = lambda: np.copyto(out, work.inputs[0])
    if work.name.startswith("matmul"):
        contenders["numpy"] = lambda: np.matmul(*work.inputs, out=out)
    else:
        contenders["numpy"] = lambda: work.numpy(*work.inputs)
    if work.onnx:
        contenders["onnxruntime"] = onnxruntime_call(work, workers)
    return contenders


def measure(workers: int, only: str, budget: float) -> list[Row]:
    """Measure calls of all programs.

    Args:
        workers: Number of threads of each contender.
        only: Programs without this text in their names are skipped.
        budget: Seconds of calls of each contender.
    """
    import programs
    from tensor_works import works

    from pydispatch.bench.measure import measure as measured
    from pydispatch.bench.peers import iree

    iree.set_workers(workers)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for work in works():
            if only not in work.name:
                continue
            contenders = contenders_of(work, workers, Path(folder))
            measured_rows = rows_of("a call", measured(contenders, budget, pause=programs.PAUSE), work.name, workers)
            print(table(measured_rows), file=sys.stderr, flush=True)
            rows += measured_rows
    return rows


def main() -> None:
    """Measure in a process for each number of workers; with --child, be one and print its rows as JSON."""
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    arguments.add_argument("--only", default="", help="works with this text in their names")
    arguments.add_argument("--seconds", type=float, default=0.5, help="per contender")
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.child:
        print(json.dumps([asdict(row) for row in measure(args.workers[0], args.only, args.seconds)]))
        return
    figures = Figures("Whole tensor programs", METHOD)
    for workers in args.workers:
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(workers), OMP_NUM_THREADS=str(workers))
        done = subprocess.run(
            [sys.executable, __file__, "--child", "--workers", str(workers), "--only", args.only,
             "--seconds", str(args.seconds)],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        figures.rows += [Row(**row) for row in json.loads(done.stdout)]
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
