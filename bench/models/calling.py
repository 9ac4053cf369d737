"""What a call of a compiled model costs, here, with IREE, JAX and onnxruntime, side by side in one process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PAUSE = 0.06
"""Seconds between contenders: threads of some of them spin for a while after their last call, on a core that the next
one needs."""

ROUND, FEWEST_ROUNDS = 0.02, 4


def measure(name: str, small: bool, workers: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Figures of a model that `folder` has compiled: milliseconds per call of each contender, and the differences.

    With one worker the process keeps to one core and its CPU time counts, so that nobody's threads help unseen. The
    least of all rounds is given: others work on the machine, too.
    """
    if workers == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.path.append(str(Path(__file__).parents[1]))
    import iree.runtime as rt
    import jax
    from exported import onnx_session
    from peer import Peer
    from works import models

    import pydispatch

    rt.flags.parse_flags(f"--task_topology_group_count={workers}")
    (model,) = models(small, {name})
    arguments, expected = model.arguments(), model.expected()
    start = time.perf_counter()
    jitted = jax.jit(model.function, keep_unused=True)
    model.call(lambda *args: jitted.lower(*args).compile())
    figures: dict[str, Any] = {"jax compile": time.perf_counter() - start}

    device = pydispatch.device(f"cpu?workers={workers}")
    prepared = device.load(folder / f"{name}.pdx").main.prepare(*arguments)
    figures["difference"] = difference(prepared(), expected)
    figures["tolerance"] = model.tolerance
    constant = device.load(model.call(lambda weights, *inputs: pydispatch.from_jax(
        model.function, *inputs, params=weights, targets="cpu", cpu="native"
    ))).main.prepare(*model.inputs)  # fmt: skip
    figures["constants difference"] = difference(constant(), expected)
    on_device = jax.tree.map(jax.device_put, model.call(lambda *args: args))
    contenders: dict[str, Callable[[], Any]] = {
        "pydispatch": prepared,
        "constants": constant,
        "jax": lambda: jax.block_until_ready(jitted(*on_device)),
    }
    module = folder / f"{name}.vmfb"
    if module.exists():  # there are models that the peer cannot compile
        peer = Peer(module, "local-sync" if workers == 1 else "local-task")
        figures["iree difference"] = difference(peer.function("main")(*arguments), expected)
        contenders["iree"] = peer.raw("main", *arguments)
    session = onnx_session(model, workers)
    if session is not None:
        figures["onnxruntime difference"] = difference(session.results(), expected)
        contenders["onnxruntime"] = session.call
    clock = time.process_time if workers == 1 else time.perf_counter
    figures["ms"] = {k: v * 1e3 for k, v in least_seconds(contenders, seconds, clock).items()}
    return figures


def least_seconds(
    contenders: dict[str, Callable[[], Any]], budget: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds per call by contender; these take turns. budget: seconds for each."""
    calls: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        calls[name] = max(1, int(ROUND / max(1e-7, time.perf_counter() - start)))
    least = dict.fromkeys(contenders, float("inf"))
    end = time.perf_counter() + budget * len(contenders)
    rounds = 0
    while rounds < FEWEST_ROUNDS or time.perf_counter() < end:
        rounds += 1
        for name, call in contenders.items():
            time.sleep(PAUSE)
            call()
            start = clock()
            for _ in range(calls[name]):
                call()
            least[name] = min(least[name], (clock() - start) / calls[name])
    return least


def difference(found: Any, expected: Sequence[Any]) -> float:
    """The largest difference of an element, relative to the largest element of its result."""
    import numpy as np

    results = list(found) if isinstance(found, tuple | list) else [found]
    worst = 0.0
    for result, wanted in zip(results, expected, strict=True):
        wide = np.asarray(wanted, np.float64)
        size = max(np.abs(wide).max(initial=0.0), 1e-30)
        off = np.abs(np.asarray(result).astype(np.float64) - wide).max(initial=0.0) / size
        worst = max(worst, float("inf") if np.isnan(off) else float(off))
    return worst
