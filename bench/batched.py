"""What a request costs in a coroutine, in batches and by itself: python bench/batched.py [--requests N]

10,000 coroutines each await the result of one row of an MLP, whose weights are arguments. By itself, a request is a
call of the function in a pool of threads. Both contenders take turns; the best run of each is given.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from report.figures import OURS, Figures, Row, parser, table

import pydispatch as pd

MODELS = (784, 512, 512, 10), (1024, 2048, 2048, 1000)
"""MLPs by the number of features before and after each layer: 2.7 MB of weights, and 33 MB."""

ROUNDS = 5
"""How often each way of calling is measured, in turns; the least time counts."""


def program(sizes: Sequence[int]) -> str:
    """Return MLIR of an MLP: @main(x, w0, b0, w1, b1, ...), with ReLU between layers.

    sizes: features before and after each layer, see MODELS. x has one row per request.
    """
    arguments, body, last = [f"%x: tensor<?x{sizes[0]}xf32>"], [], "%x"
    body += ["%c0 = arith.constant 0 : index", f"%n = tensor.dim %x, %c0 : tensor<?x{sizes[0]}xf32>"]
    body += ["%zero = arith.constant 0.0 : f32"]
    for k, (a, b) in enumerate(pairwise(sizes)):
        arguments += [f"%w{k}: tensor<{a}x{b}xf32>", f"%b{k}: tensor<{b}xf32>"]
        wide = f"tensor<?x{b}xf32>"
        body += [
            f"%e{k} = tensor.empty(%n) : {wide}",
            f"%i{k} = linalg.broadcast ins(%b{k} : tensor<{b}xf32>) outs(%e{k} : {wide}) dimensions = [0]",
            f"%h{k} = linalg.matmul ins({last}, %w{k} : tensor<?x{a}xf32>, tensor<{a}x{b}xf32>)"
            f" outs(%i{k} : {wide}) -> {wide}",
        ]
        last = f"%h{k}"
        if k < len(sizes) - 2:  # no ReLU after the last layer
            body += [f"%z{k} = tensor.splat %zero[%n] : {wide}", f"%r{k} = arith.maximumf %h{k}, %z{k} : {wide}"]
            last = f"%r{k}"
    wide = f"tensor<?x{sizes[-1]}xf32>"
    return "\n".join([f"func.func @main({', '.join(arguments)}) -> {wide} {{", *body, f"return {last} : {wide}", "}"])


def seconds(request: Callable[[np.ndarray], Awaitable[Any]], rows: list[np.ndarray]) -> float:
    """Return the wall time of coroutines, one per row, that all run at once and each await `request(row)`."""

    async def one(row: np.ndarray) -> Any:
        """Await the result of one row, in a coroutine of its own."""
        return await request(row)

    async def all_of_them() -> float:
        """Return the time from the first request to the last result."""
        start = time.perf_counter()
        await asyncio.gather(*map(one, rows))
        return time.perf_counter() - start

    gc.collect()
    return asyncio.run(all_of_them())


def measure(sizes: Sequence[int], count: int) -> dict[str, float]:
    """Return {way of calling: least wall seconds per request}, when all requests are made at once.

    sizes: an MLP of MODELS. count: number of requests, each with one row.
    """
    rng = np.random.default_rng(1)
    weights = {}
    for k, (a, b) in enumerate(pairwise(sizes)):
        weights[f"w{k}"] = (rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32)
        weights[f"b{k}"] = rng.standard_normal(b).astype(np.float32)
    data = rng.standard_normal((count, sizes[0])).astype(np.float32)
    rows = [data[k : k + 1] for k in range(count)]
    artifact = pd.compile(program(sizes), cpu="native")
    gc.freeze()  # the compiler's objects are no part of a server
    cpus = len(os.sched_getaffinity(0))
    function = pd.device(f"cpu?workers={cpus}").load(artifact).main
    # A call by itself runs on one thread of the pool, as all cores are busy with calls.
    alone = pd.device("cpu?workers=1").load(artifact).main
    constants = tuple(weights.values())  # in the order of the arguments after x
    pool = ThreadPoolExecutor(cpus)

    def by_itself(row: np.ndarray) -> Awaitable[Any]:
        """Call the function in a thread of the pool, on one row."""
        return asyncio.get_running_loop().run_in_executor(pool, alone, row, *constants)

    contenders: dict[str, Callable[[np.ndarray], Awaitable[Any]]] = {"by itself": by_itself}
    for most in (16, 64, 256):
        contenders[f"batches of {most}"] = function.batched(most, constants=weights).submit
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, request in contenders.items():
            best[name] = min(best[name], seconds(request, rows) / count)
    return best


def main() -> None:
    """Measure requests of both MLPs with each way of calling, and print the least seconds of a request."""
    arguments = parser(__doc__)
    arguments.add_argument("--requests", type=int, default=10_000)
    args = arguments.parse_args()
    method = f"The least of {ROUNDS} runs that alternate; {args.requests:,} coroutines each await one row of an MLP."
    figures = Figures("Requests in batches", method)
    for sizes in MODELS:
        best = measure(sizes, args.requests)
        size, cpus = "-".join(map(str, sizes)), len(os.sched_getaffinity(0))
        rows = [
            Row("a request", f"{OURS}, {name}", value, size=size, workers=cpus) for name, value in best.items()
        ]  # fmt: skip
        print(table(rows), flush=True)
        figures.rows += rows
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
