"""Rows per second of batch inference on all processors, here, with onnxruntime and with IREE, side by side.

    python bench/throughput.py [--batches 1 16 250] [--seconds S] [--json FILE]

Needs an interpreter with JAX, onnx, onnxruntime and IREE's compiler and runtime. Weights are constants and sizes are
known on all sides. Each contender has the processors in two ways: all of them for one call after the other, and one for
each of as many threads that call; the better one counts. Contenders alternate; the best round of each is given.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE / "models")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from catalog import Model  # noqa: E402
from exported import Session, onnx_model  # noqa: E402
from programs import PAUSE  # noqa: E402
from report.figures import Figures, Row, parser, table  # noqa: E402

import pydispatch  # noqa: E402
from pydispatch.bench.peers import iree  # noqa: E402

CPUS = len(os.sched_getaffinity(0))
"""Number of CPUs that this process may use."""
Call = Callable[[], Any]  # computes one batch


def weights(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return random weights, scaled so that values keep their magnitude from layer to layer."""
    rng = np.random.default_rng(1)
    return [(rng.standard_normal(s) / np.sqrt(np.prod(s[:-1]))).astype(np.float32) for s in shapes]


def mlp(batch: int, channels_first: bool) -> Model:
    """Build a perceptron of 784, 512, 512 and 10 features; channels_first makes no difference."""
    w = weights((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))

    def run(unused: Any, x: Any) -> Any:
        """Compute the scores of the classes; weights are constants, so that the first parameter is empty."""
        x = jax.nn.relu(x @ w[0] + w[1])
        return jax.nn.relu(x @ w[2] + w[3]) @ w[4] + w[5]

    return Model("mlp", run, {}, (images(batch, 784),))


def cnn(batch: int, channels_first: bool) -> Model:
    """Build a network of three convolutions and a dense layer: 4.4 million multiply-adds for an image.

    Images have 32x32 pixels, results of convolutions 32, 32 and 64 channels. channels_first: whether channels precede
    pixels, as in ONNX, or follow them.
    """
    kernels = weights((3, 3, 3, 32), (3, 3, 32, 32), (3, 3, 32, 64))
    biases = weights((32,), (32,), (64,), (10,))
    (head,) = weights((64, 10))
    layout = ("NCHW", "OIHW", "NCHW") if channels_first else ("NHWC", "HWIO", "NHWC")
    x = images(batch, 32, 32, 3)

    def run(unused: Any, x: Any) -> Any:
        """Compute the scores of the classes; the convolutions have strides of 1, 2 and 2."""
        for kernel, bias, stride in zip(kernels, biases, (1, 2, 2), strict=False):  # the last bias is that of the head
            k = kernel.transpose(3, 2, 0, 1) if channels_first else kernel
            b = bias.reshape(1, -1, 1, 1) if channels_first else bias
            x = jax.lax.conv_general_dilated(x, jnp.asarray(k), (stride, stride), "SAME", dimension_numbers=layout)
            x = jax.nn.relu(x + b)
        return x.mean((2, 3) if channels_first else (1, 2)) @ head + biases[3]

    return Model("cnn", run, {}, (np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if channels_first else x,))


def images(*shape: int) -> np.ndarray:
    """Return random f32, the same in each call."""
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def contenders(make: Callable[..., Model], batch: int, folder: Path) -> dict[str, dict[str, list[Call]]]:
    """Return, by contender and way to use the CPUs, a call for each thread that calls.

    Args:
        make: `mlp` or `cnn`; onnxruntime's model has channels first.
        batch: Number of rows (images) of a call.
        folder: For files of the compilers.
    """
    model = make(batch, channels_first=False)
    expected = np.asarray(jax.jit(model.function)({}, *model.inputs))
    text, module = folder / "model.mlir", folder / "model.vmfb"
    text.write_text(model.text())
    artifact = pydispatch.compile(text, cpu="native")
    subprocess.run([iree.compiler(), text, *iree.THIS_CPU, "-o", module], check=True, capture_output=True)
    exported, (rows,) = make(batch, channels_first=True), model.inputs  # ONNX has channels first

    def with_pydispatch(workers: int) -> Call:
        """Load the artifact with `workers` threads, check its result, and return a call into one array."""
        function = pydispatch.device(f"cpu?workers={workers}").load(artifact).main
        out = np.empty_like(expected)
        check("pydispatch", function(rows, out=out), expected)
        return lambda: function(rows, out=out)

    def with_onnxruntime(workers: int) -> Call:
        """Create a session of onnxruntime with `workers` threads, check its result, and return its call."""
        session = Session(onnx_model(exported), exported.inputs, workers)
        check("onnxruntime", session.results()[0], expected)
        return session.call

    iree.set_workers(CPUS)

    def with_iree(workers: int) -> Call:
        """Load the module with CPUS threads or, for one worker, on the caller's; check it, and return its call."""
        peer = iree.Module(module, "local-sync" if workers == 1 else "local-task")
        check("iree", np.asarray(peer.function("main")(rows)), expected)
        return peer.raw("main", rows)

    makers = {"pydispatch": with_pydispatch, "onnxruntime": with_onnxruntime, "iree": with_iree}
    return {
        name: {"one caller": [call_of(CPUS)], "a caller for each CPU": [call_of(1) for _ in range(CPUS)]}
        for name, call_of in makers.items()
    }


def check(name: str, actual: np.ndarray, expected: np.ndarray) -> None:
    """End the script when results of contender `name` are off by 1e-4 of the largest expected element, or are NaN."""
    off = np.abs(actual - expected).max() / np.abs(expected).max()
    if not off < 1e-4:
        raise SystemExit(f"{name} is off by {off:.1e}")


def rate(calls: Sequence[Call], rows: int, seconds: float) -> float:
    """Return the rows per second of threads, one for each of `calls`, that call for `seconds`.

    rows: Number of rows of a call.
    """
    done = [0] * len(calls)
    barrier = threading.Barrier(len(calls))

    def work(k: int) -> None:
        """Call as thread number k, and count its calls in done[k]."""
        call = calls[k]
        call()  # warms caches up, and is not counted
        barrier.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            call()
            done[k] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, len(calls))]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    work(0)  # this thread is the first caller
    for thread in threads:
        thread.join()
    return sum(done) * rows / (time.perf_counter() - start)


def measure(make: Callable[..., Model], batch: int, seconds: float) -> dict[str, tuple[float, str]]:
    """Return, by contender, the rows per second of its best round, and the way to use the CPUs in that round.

    Rounds take 0.2 seconds; each contender and way has `seconds`, but at least three rounds.
    """
    with tempfile.TemporaryDirectory() as folder:
        contenders_here = contenders(make, batch, Path(folder))
        best = {name: (0.0, "") for name in contenders_here}
        for _ in range(max(3, int(seconds / 0.2))):
            for name, ways in contenders_here.items():
                for way, calls in ways.items():
                    time.sleep(PAUSE)
                    best[name] = max(best[name], (rate(calls, batch, 0.2), way))
    return best


def main() -> None:
    """Measure both models with each batch, and print the rows per second."""
    arguments = parser(__doc__)
    arguments.add_argument("--batches", type=int, nargs="+", default=[1, 16, 250])
    arguments.add_argument("--seconds", type=float, default=2, help="of calls for each contender and way")
    args = arguments.parse_args()
    method = (
        "Rows per second of the best round; contenders alternate. Each has all processors for one call after another, "
        "or one for each of as many threads that call: the better way counts. Weights are constants, sizes known. MLP: "
        "784, 512, 512, 10 features. CNN: 32x32 pixels, convolutions 3x3 to 32, 32 and 64 channels, mean, dense layer."
    )
    figures = Figures("Batch inference", method)
    for make in (mlp, cnn):
        for batch in args.batches:
            best = measure(make, batch, args.seconds)
            size = f"{make.__name__.upper()}, batch {batch}"
            rows = [Row("rows", who, value, "/s", size=size, workers=CPUS) for who, (value, _) in best.items()]
            print(f"{table(rows)}\n  {', '.join(f'{who}: {way}' for who, (_, way) in best.items())}", flush=True)
            figures.rows += rows
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
