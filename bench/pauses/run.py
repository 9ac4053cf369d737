"""Calls after pauses of the caller: milliseconds in the median and at the 99th percentile, by the length of the pause.

    python bench/pauses/run.py [--works product mlp bert resnet elementwise] [--pauses 0 1 5 20 50 200] [--json FILE]

Each contender is a process of its own, with one and two threads, with one caller, with four, and beside a process that
keeps one CPU busy. Needs onnx and onnxruntime, and a machine that does nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the modules of bench/

from pauses.contenders import CONTENDERS, WORKS, Call, model
from report.figures import Figures, Row, parser, table

PAUSES_MS = (0, 1, 5, 20, 50, 200)
"""Lengths of pauses that are measured by default."""
CALLS = 4
"""Calls after each pause: the first shows what waking up costs, all of them what a burst costs."""
LEAST_ROUNDS = 10
"""Rounds (a pause and its calls) even where they take longer than --seconds: the 99th percentile needs some."""
WARM_UP_S = 0.3
"""Seconds of calls before the first measured one, of all callers together."""


@dataclass(frozen=True)
class Setting:
    """Conditions in which calls are measured.

    Attributes:
        size: Text that tables append to the size of a row, "" for a single caller without a neighbour.
        callers: Number of threads that call at the same time.
        has_neighbour: Whether another process keeps a CPU busy.
        pauses: The pauses that are measured, in milliseconds.
    """

    size: str = ""
    callers: int = 1
    has_neighbour: bool = False
    pauses: tuple[int, ...] = PAUSES_MS


SETTINGS = {
    "alone": Setting(),
    "callers": Setting(", 4 callers", callers=4, pauses=(0, 50)),
    "neighbour": Setting(", busy neighbour", has_neighbour=True, pauses=(0, 50)),
}
"""Name on the command line -> setting."""


def time_rounds(call: Call, pause_ms: int, seconds: float, times: list[float]) -> None:
    """Call for `seconds`, CALLS times after each pause, and append the seconds of each call to `times`."""
    until, least = time.perf_counter() + seconds, LEAST_ROUNDS * CALLS
    while time.perf_counter() < until or len(times) < least:
        time.sleep(pause_ms / 1000)
        for _ in range(CALLS):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)


def measure(work: str, contender: str, workers: int, callers: int, pauses: list[int], seconds: float) -> None:
    """Print a JSON list with an entry for each pause.

    Each entry has the calls per second of all callers, then four times in seconds: the median and the 99th percentile
    of all calls, and the same two of first calls after a pause.
    """
    call_of_a_caller = CONTENDERS[contender].start(model(work), workers)
    calls = [call_of_a_caller() for _ in range(callers)]
    for call in calls:
        until = time.perf_counter() + WARM_UP_S / callers
        while time.perf_counter() < until:
            call()
    result = []
    for pause in pauses:
        times: list[list[float]] = [[] for _ in calls]  # of each caller, the seconds of its calls
        threads = [
            threading.Thread(target=time_rounds, args=(call, pause, seconds, own))
            for call, own in zip(calls[1:], times[1:], strict=True)
        ]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        time_rounds(calls[0], pause, seconds, times[0])
        for thread in threads:
            thread.join()
        rate = sum(map(len, times)) / (time.perf_counter() - begin)
        all_calls = np.concatenate([np.array(own) for own in times])
        first_calls = np.concatenate([np.array(own[::CALLS]) for own in times])  # CALLS follow each pause
        percentiles = [float(np.percentile(seconds_of, q)) for seconds_of in (all_calls, first_calls) for q in (50, 99)]
        result.append([rate, *percentiles])
    print(json.dumps(result))


@contextmanager
def neighbour(is_wanted: bool) -> Iterator[None]:
    """Run, if wanted, a process that computes without an end, on whichever CPU the system chooses."""
    if not is_wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def rows(work: str, setting: Setting, pauses: list[int], seconds: float) -> Iterator[Row]:
    """Measure each installed contender that has the work, in a process of its own. pauses: in milliseconds."""
    for key, contender in CONTENDERS.items():
        if work not in contender.works or importlib.util.find_spec(contender.module) is None:
            continue
        for workers in contender.workers:
            command = [sys.executable, __file__, "--measure", work, key, str(workers), str(setting.callers)]
            command += ["--seconds", str(seconds), "--pauses", *map(str, pauses)]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(workers)}
            with neighbour(setting.has_neighbour):
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            # Of all calls, then of first calls after a pause: the median and the 99th percentile, in seconds.
            for pause, (rate, median, late, first_median, first_late) in zip(
                pauses, json.loads(done.stdout), strict=True
            ):
                size = f"pause {pause} ms{setting.size}"
                if not pause and setting.callers > 1:  # callers compete: few slow calls can hide behind a low median
                    yield Row(work, contender.name, rate, unit="calls/s", size=size, workers=workers)
                    continue
                yield Row(work, contender.name, median, size=size, workers=workers, spread=(median, late))
                is_alone = not setting.size
                if pause and is_alone:
                    size, spread = f"first call after {pause} ms", (first_median, first_late)
                    yield Row(work, contender.name, first_median, size=size, workers=workers, spread=spread)


def main() -> None:
    """Measure each work in each setting, and print its rows; with --measure, run `measure` in this process."""
    arguments = parser(__doc__)
    arguments.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    arguments.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    arguments.add_argument("--pauses", nargs="+", type=int, default=list(PAUSES_MS), help="milliseconds")
    arguments.add_argument("--seconds", type=float, default=2, help="of rounds for each pause")
    arguments.add_argument(
        "--measure", nargs=4, metavar=("WORK", "CONTENDER", "WORKERS", "CALLERS"), help="in this process"
    )
    args = arguments.parse_args()
    if args.measure:
        work, contender, workers, callers = args.measure
        measure(work, contender, int(workers), int(callers), args.pauses, args.seconds)
        return
    method = (
        f"A round is a pause of the caller and {CALLS} calls, timed one by one; the median, and the 99th percentile as "
        "the end of the range; of four callers without pauses their calls per second. Each contender is a process of "
        "its own, with its default options but the number of threads. Weights are constants, sizes known. A busy "
        "neighbour is a process that computes without an end."
    )
    figures = Figures("Calls after pauses", method)
    figures.missing = [
        f"{contender.name}: the Python module {contender.module} is not installed"
        for contender in CONTENDERS.values()
        if importlib.util.find_spec(contender.module) is None
    ]
    for work in args.works:
        for setting in (SETTINGS[name] for name in args.settings):
            pauses = [pause for pause in args.pauses if pause in setting.pauses]
            if not pauses:  # this setting has none of the pauses that --pauses names
                continue
            measured_rows = list(rows(work, setting, pauses, args.seconds))
            if measured_rows:
                print(table(measured_rows), flush=True)
            figures.rows += measured_rows
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
