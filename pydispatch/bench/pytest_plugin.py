"""A fixture for pytest-benchmark: `dispatch_benchmark(program.f, *arguments)`.

Its figures can be compared over time as all of pytest-benchmark's: `--benchmark-autosave`, `--benchmark-compare`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

import pydispatch

ROUND_S = 100e-6
"""Minimum duration of a round: in shorter ones, the time to read the clock distorts calls below a microsecond."""
_TRIES = 3
"""Number of timings of each candidate for the number of calls in a round; the fastest one counts."""


def calibrated(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> tuple[int, float]:
    """Return the number of calls per round, and the duration of a call in seconds.

    The number grows until a round takes ROUND_S. Each candidate is timed several times and the minimum counts, so that
    interruptions and slow first calls have no effect.
    """
    iterations = 1
    while True:
        times = []
        for _ in range(_TRIES):
            begin = clock()
            for _ in range(iterations):
                call()
            times.append(clock() - begin)
        least = max(min(times), 1e-9)
        if least >= ROUND_S:
            return iterations, least / iterations
        # At least twice as many calls, at most ten times: a first estimate may be far off.
        iterations = max(2 * iterations, min(10 * iterations, math.ceil(ROUND_S / least * iterations)))


@pytest.fixture
def dispatch_benchmark(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that measures a call and returns its results as arrays.

    The function takes:

    - the function to measure and its arguments: a program's function gets fixed shapes in advance, any other callable
      is called with the arguments
    - `device`: device of the program, or its name; it is synchronized if calls return before they are complete
    - `items`: number of items that one call computes

    `extra_info` of the benchmark contains items and bytes per second and the machine. A round has as many calls as take
    100 µs; warm-up calls are not counted. The options `min_rounds` and `max_time` of pytest-benchmark decide the number
    of rounds.

    Example:
        def test_scale(dispatch_benchmark):
            y = dispatch_benchmark(program.scale, x, 2.0, device="cpu", items=x.size)
            np.testing.assert_array_equal(y, 2 * x)
    """
    if not request.config.pluginmanager.hasplugin("benchmark"):
        pytest.fail("dispatch_benchmark needs pytest-benchmark: pip install pytest-benchmark", pytrace=False)
    benchmark = request.getfixturevalue("benchmark")

    marker = request.node.get_closest_marker("benchmark")

    def option(name: str) -> Any:
        """Return an option of pytest-benchmark: of the mark `@pytest.mark.benchmark` of the test, else of the command
        line."""
        marked = {} if marker is None else marker.kwargs
        return marked.get(name, request.config.getoption(f"benchmark_{name}"))

    def run(function: Any, *arguments: Any, device: Any = None, items: float = 1, **named: Any) -> Any:
        """Measure a call and return its results as arrays: the array itself if there is one, else a tuple.

        Args:
            function: The function to measure; a program's function gets fixed shapes in advance.
            *arguments: Its positional arguments.
            device: Device of the program, or its name; it is synchronized if calls return before they are complete.
            items: Number of items that one call computes, for the rate in `extra_info`.
            **named: Its arguments by name.
        """
        from pydispatch.bench.program import machine, work_of

        if isinstance(device, str):
            device = pydispatch.device(device)
        work = work_of(device, function, arguments, named)
        if benchmark.enabled:
            iterations, seconds = calibrated(work.call)  # calls of a round, and seconds of a call
            # As many rounds as take max_time seconds, but at least min_rounds.
            rounds = max(int(option("min_rounds")), math.ceil(float(option("max_time")) / (iterations * seconds)))
            benchmark.pedantic(work.call, rounds=rounds, iterations=iterations, warmup_rounds=1)
        else:  # --benchmark-disable: one call
            benchmark(work.call)
        if benchmark.stats is not None:  # None with --benchmark-disable
            median = benchmark.stats.stats.median
            benchmark.extra_info.update(items_per_s=items / median, bytes_per_s=work.nbytes / median)
        if device is not None:
            benchmark.extra_info["machine"] = machine(device)
        return work.results[0] if len(work.results) == 1 else tuple(work.results)

    return run
