"""Calls after pauses of the caller: milliseconds in the median and at the 90th percentile, by the length of the pause.

    python bench/pauses.py [--works product mlp bert resnet] [--pauses 0 1 5 20 50 200] [--json FILE]

Each contender is a process of its own, with one and two threads: pydispatch, also with affinity; onnxruntime; for the
product NumPy with its OpenBLAS. Needs onnx and onnxruntime, and a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from report.figures import Figures, Row, parser, table

PAUSES_MS = (0, 1, 5, 20, 50, 200)
CALLS = 4
LEAST_ROUNDS = 10
WARM_UP_S = 0.3
CONTENDERS = {
    "pydispatch": ("pydispatch", "cpu?workers={workers}", (1, 2)),
    "affinity": ("pydispatch, affinity", "cpu?workers={workers}&affinity=1", (2,)),
    "onnxruntime": ("onnxruntime", "", (1, 2)),
    "openblas": ("openblas", "", (1, 2)),
}
"""Of each contender its name in tables, its device, and with how many threads it runs."""

WORKS = {
    "product": """
        product (float[512, 784] x) => (float[512, 512] y) <float[784, 512] w> { y = MatMul(x, w) }""",
    "mlp": """
        mlp (float[64, 784] x) => (float[64, 10] y) <float[784, 512] a, float[512, 512] b, float[512, 10] c> {
          p = MatMul(x, a)  q = Relu(p)  r = MatMul(q, b)  s = Relu(r)  y = MatMul(s, c) }""",
    "bert": """
        bert (float[128, 256] x) => (float[128, 256] y)
          <float[256, 256] q, float[256, 256] k, float[256, 256] v, float[256, 256] o,
           float[256, 1024] a, float[1024, 256] b> {
          xq = MatMul(x, q)  xk = MatMul(x, k)  xv = MatMul(x, v)  kt = Transpose<perm = [1, 0]>(xk)  s = MatMul(xq, kt)
          p = Softmax<axis = 1>(s)  h = MatMul(p, xv)  ho = MatMul(h, o)  r = Add(x, ho)
          m = MatMul(r, a)  n = Relu(m)  f = MatMul(n, b)  y = Add(r, f) }""",
    "resnet": """
        resnet (float[1, 64, 28, 28] x) => (float[1, 64, 28, 28] y) <float[64, 64, 3, 3] a, float[64, 64, 3, 3] b> {
          p = Conv<pads = [1, 1, 1, 1]>(x, a)  q = Relu(p)
          r = Conv<pads = [1, 1, 1, 1]>(q, b)  s = Add(x, r)  y = Relu(s) }""",
}


def model(name: str) -> Any:
    """Return the ONNX model of a work, with random weights."""
    import onnx

    graph = onnx.parser.parse_graph(WORKS[name])
    rng = np.random.default_rng(1)
    for weight in list(graph.value_info):
        shape = [d.dim_value for d in weight.type.tensor_type.shape.dim]
        values = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[:-1])))
        graph.initializer.append(onnx.numpy_helper.from_array(values, weight.name))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def call_of(work: str, contender: str, workers: int) -> Callable[[], object]:
    built = model(work)
    shape = [d.dim_value for d in built.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    device = CONTENDERS[contender][1]
    if device:
        import pydispatch as pd

        program = pd.device(device.format(workers=workers)).load(pd.compile(built, cpu="native"))
        return lambda: program.main(x)
    if contender == "openblas":
        import onnx

        w = onnx.numpy_helper.to_array(built.graph.initializer[0])
        return lambda: x @ w
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    session = onnxruntime.InferenceSession(built.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def measure(work: str, contender: str, workers: int, pauses: list[int], seconds: float) -> None:
    """Print, as JSON, for each pause the median and the 90th percentile in seconds."""
    call = call_of(work, contender, workers)
    until = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < until:
        call()
    result = []
    for pause in pauses:
        times: list[float] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(times) < LEAST_ROUNDS * CALLS:
            time.sleep(pause / 1000)
            for _ in range(CALLS):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
        result.append([float(np.median(times)), float(np.percentile(times, 90))])
    print(json.dumps(result))


def rows(work: str, pauses: list[int], seconds: float) -> Iterator[Row]:
    for contender, (name, _, numbers) in CONTENDERS.items():
        if contender == "openblas" and work != "product":
            continue
        for workers in numbers:
            command = [sys.executable, __file__, "--measure", work, contender, str(workers)]
            command += ["--seconds", str(seconds), "--pauses", *map(str, pauses)]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(workers)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            for pause, (median, late) in zip(pauses, json.loads(done.stdout), strict=True):
                yield Row(work, name, median, size=f"pause {pause} ms", workers=workers, spread=(median, late))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    arguments.add_argument("--pauses", nargs="+", type=int, default=list(PAUSES_MS), help="milliseconds")
    arguments.add_argument("--seconds", type=float, default=2, help="of rounds for each pause")
    arguments.add_argument("--measure", nargs=3, metavar=("WORK", "CONTENDER", "WORKERS"), help="in this process")
    args = arguments.parse_args()
    if args.measure:
        work, contender, workers = args.measure
        measure(work, contender, int(workers), args.pauses, args.seconds)
        return
    method = (
        f"A round is a pause of the caller and {CALLS} calls, timed one by one; the median, and the 90th percentile as "
        "the end of the range. Each contender is a process of its own. Weights are constants, sizes known."
    )
    figures = Figures("Calls after pauses", method)
    for work in args.works:
        found = list(rows(work, args.pauses, args.seconds))
        print(table(found), flush=True)
        figures.rows += found
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
