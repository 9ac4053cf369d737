"""The Python face of the task system: options, fork, threads that come and go, and facts about the CPU."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pydispatch._core import sched
from pydispatch._core.status import InvalidArgumentError


def threads() -> set[str]:
    """Return the threads of the process. Those of earlier tests may end at any time."""
    return {path.name for path in Path("/proc/self/task").iterdir()}


def test_workers_default_to_the_cores() -> None:
    assert sched.available_cpus() == min(len(os.sched_getaffinity(0)), sched.available_cpus()) >= 1
    assert sched.Scheduler().workers == sched.default_workers() <= sched.available_cpus()


def test_affinity_limits_the_workers() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "from pydispatch._core.sched import Scheduler, available_cpus;"
        "print(available_cpus(), Scheduler().workers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems refuse it")
def test_threads_stay_on_a_cpu() -> None:
    before = threads()
    with sched.Scheduler(4, affinity=True):
        workers = threads() - before
        for _ in range(1000):  # a thread pins itself when it starts
            masks = [len(os.sched_getaffinity(int(worker))) for worker in workers]
            if masks == [1, 1, 1]:
                break
            time.sleep(0.01)
        assert masks == [1, 1, 1]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_end_with_the_scheduler(workers: int) -> None:
    gc.collect()
    before = threads()
    pool = sched.Scheduler(workers=workers)
    assert len(threads() - before) == workers - 1
    assert pool.workers == workers
    pool.close()
    assert not threads() - before
    pool.close()
    del pool
    with sched.Scheduler(workers) as again:
        assert len(threads() - before) == workers - 1
    assert not threads() - before
    del again
    del_me = sched.Scheduler(workers, spin_us=0)
    del del_me
    assert not threads() - before


@pytest.mark.parametrize(
    ("workers", "spin_us", "text"),
    [
        (-1, -1, r"workers: .*-1"),
        (1025, -1, r"1025.*1024"),
        (1 << 40, -1, r"workers: .*1099511627776"),
        (2, -2, r"spin_us: .*-2"),
        (2, 1_000_001, r"1000001.*1000000"),
    ],
)
def test_options_out_of_range(workers: int, spin_us: int, text: str) -> None:
    before = threads()
    with pytest.raises(InvalidArgumentError, match=text):
        sched.Scheduler(workers=workers, spin_us=spin_us)
    assert not threads() - before


def test_wrong_type() -> None:
    with pytest.raises(TypeError):
        sched.Scheduler(workers="two")


def test_fork_and_exit() -> None:
    """A child of fork has a scheduler without threads, and both ends exit cleanly with it alive."""
    code = """
import os, sys
from pathlib import Path
from pydispatch._core.sched import Scheduler
pool = Scheduler(4)
child = os.fork()
if child == 0:
    count = len(list(Path("/proc/self/task").iterdir()))
    pool.close()
    del pool
    sys.exit(count)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), pool.workers, len(list(Path("/proc/self/task").iterdir())))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "4", "4"]


def test_fork_while_schedulers_come_and_go() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            sched.Scheduler(3).close()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(sched.Scheduler(2).workers)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 2
    finally:
        stop.set()
        thread.join()


def test_features() -> None:
    features = sched.cpu_features()
    known = sched.known_cpu_features()
    data = sched.processor_data()
    assert set(features) <= set(known)
    assert len(features) == len(set(features))
    bits = [known[name] for name in features if known[name] >= 0]
    assert data[0] == sum(1 << bit for bit in bits)
    assert data[1:] == (0,) * 7
    with_bits = [bit for bit in known.values() if bit >= 0]
    assert len(with_bits) == len(set(with_bits))


def test_features_as_llvm_sees_them() -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    host = {name for name, on in llvm.get_host_cpu_features().items() if on}
    known = set(sched.known_cpu_features())
    # LLVM knows under the same names whatever it knows at all of ours.
    named = set(llvm.get_host_cpu_features()) & known
    assert len(named) > len(known) // 2
    assert {name for name in sched.cpu_features() if name in named} == host & named


def test_cache_sizes() -> None:
    l1, l2 = sched.cache_sizes()
    sizes = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (folder / "type").read_text().strip() != "Instruction":
            number, unit = re.fullmatch(r"(\d+)([KM]?)", (folder / "size").read_text().strip()).groups()
            level = (folder / "level").read_text().strip()
            sizes[level] = int(number) * {"": 1, "K": 1 << 10, "M": 1 << 20}[unit]
    if sizes:
        assert (l1, l2) == (sizes.get("1", l1), sizes.get("2", l2))
    assert l1 <= l2 or l2 == 0
