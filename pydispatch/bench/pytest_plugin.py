"""A fixture for pytest-benchmark: `dispatch_benchmark(program.f, *arguments)`.

Its figures can be compared over time as all of pytest-benchmark's: `--benchmark-autosave`, `--benchmark-compare`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def dispatch_benchmark(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Measures a function of a program and returns the results of a call, as arrays.

    function, arguments, named: what is called; shapes are fixed before. device: what the program was loaded on, to wait
    for where calls return before they are complete. items: what one call computes. `extra_info` of the benchmark
    gets items and bytes per second, and the machine.
    """
    if not request.config.pluginmanager.hasplugin("benchmark"):
        pytest.fail("dispatch_benchmark needs pytest-benchmark: pip install pytest-benchmark", pytrace=False)
    benchmark = request.getfixturevalue("benchmark")

    def run(function: Any, *arguments: Any, device: Any = None, items: float = 1, **named: Any) -> Any:
        from pydispatch.bench.program import machine, work_of

        work = work_of(device, function, arguments, named)
        benchmark(work.call)
        if benchmark.stats is not None:  # not with --benchmark-disable
            median = benchmark.stats.stats.median
            benchmark.extra_info.update(items_per_s=items / median, bytes_per_s=work.nbytes / median)
        if device is not None:
            benchmark.extra_info["machine"] = machine(device)
        return work.results[0] if len(work.results) == 1 else tuple(work.results)

    return run
