"""pydispatch.trace: what is in the timelines of calls, and that their files keep the rules of the format."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import programs
import pytest
import timelines
from pydispatch._core import trace as recorder
from pydispatch._core.trace import Kind

import pydispatch as pd
from pydispatch.errors import Error, InvalidArgumentError, KernelError
from pydispatch.runtime.program.program import Program
from pydispatch.runtime.tracing import Trace, Track

SLEEPY = programs.Export("sleepy", "for (volatile uint64_t k = 0; k < 1000000; ++k) {}" + programs.loop(
    "buffer(float, 2)[i] = buffer(float, 0)[i] + buffer(float, 1)[i];"), 3)  # fmt: skip
"""ADD after a loop of about a millisecond for each workgroup: hundreds of times what it takes without."""


MEET = programs.Export("meet", "static uint32_t here; uint32_t mine = __atomic_fetch_add(&here, 1, 5);"
    "while (__atomic_load_n(&here, 5) <= (mine | 1)) {} return 0;", 1)  # fmt: skip
"""Its two workgroups end only when two threads run them."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mixed: mul, sleepy, add one after another; functions with a dispatch each."""
    builder = programs.Builder((*programs.STANDARD, SLEEPY, MEET))
    f = builder.function("mixed", "(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>")
    a, b = programs.add_vector(f, "a"), programs.add_vector(f, "b")
    n = f.emit(programs.Opcode.DIM, a, 0)
    f.check_equal(n, f.emit(programs.Opcode.DIM, b, 0), "sizes differ: {a} and {b}")
    size = f.multiply([n, f.constant(4)])
    first, second = f.add_transient(size), f.add_transient(size)
    buffers = [f.arguments[a].buffer, f.arguments[b].buffer]
    builder.run(f, "mul", n, [*buffers, first])
    f.next_region()
    builder.run(f, "sleepy", n, [first, buffers[1], second])
    f.next_region()
    builder.run(f, "add", n, [second, buffers[0], programs.finish_vector(f, n)])
    programs.binary(builder, "plain", "mul")
    programs.filled(builder, "filled")
    for name, groups in (("fail", 4), ("meet", 2)):
        f = builder.function(name, "(tensor<?xf32>) -> tensor<?xf32>")
        programs.add_vector(f, "a")
        n = f.emit(programs.Opcode.DIM, 0, 0)
        builder.run(f, name, n, [programs.finish_vector(f, n)], f.constant(groups))
    path = tmp_path_factory.mktemp("tracing") / "traced.pdx"
    builder.artifact().save(path)
    return path


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def traced(request: pytest.FixtureRequest, path: Path) -> Iterator[Program]:
    with pd.device(request.param).load(path) as program:
        yield program


X = np.arange(256, dtype=np.float32)


def busy(trace: Trace) -> list[Track]:
    """The tracks of threads that did more than idle: threads of other tests' devices may be in the process."""
    return [track for track in trace.tracks if {event.kind for event in track.events} != {"idle"}]


def test_the_slow_kernel_is_the_longest(traced: Program, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.trace(file) as trace:
        for _ in range(3):
            np.testing.assert_array_equal(traced.mixed(X, X), X * X + X + X)
    data = timelines.read(file)
    runs = timelines.spans(data, "run")
    assert {event["name"] for event in runs} == {"mul", "sleepy", "add"}
    times = {name: median(e["dur"] for e in runs if e["name"] == name) for name in ("mul", "sleepy", "add")}
    assert max(times, key=times.__getitem__) == "sleepy" and times["sleepy"] > 20 * times["mul"], times
    for name in ("mul", "sleepy", "add"):  # 4 workgroups each, whoever ran them
        assert sum(event["args"]["workgroups"] for event in runs if event["name"] == name) == 12
    assert [event["name"] for event in timelines.spans(data, "call")] == ["call @mixed"] * 3
    assert [event["name"] for event in timelines.spans(data, "schedule")] == ["schedule @mixed"]
    assert trace.lost == 0 and data["otherData"]["lost"] == {}
    slow = [event for event in trace.events if event.name == "sleepy"]
    assert {event.label for event in slow} == {"sleepy"} and all(event.seconds > 0 for event in slow)


def test_plans_are_looked_up_or_made(path: Path) -> None:
    with pd.device("local-sync").load(path) as program, pd.trace(None) as trace:
        for n in (64, 64, 128, 64):
            program.plain(X[:n], X[:n])
    assert sum(event.kind == "schedule" for event in trace.events) == 3  # the second call has the plan of the first


def test_pool_threads_run_and_idle(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.device("cpu?workers=2").load(path) as program, pd.trace(file) as trace:
        program.meet(X)  # of unknown cost: as many workgroups as workers are shared; of known cost they may not be
    timelines.read(file)
    tracks = {track.name: {event.kind for event in track.events} for track in busy(trace)}
    assert tracks["worker 1"] >= {"idle", "run"}
    assert tracks["MainThread"] >= {"call", "run", "schedule"}


def test_submitted_calls(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.device("cpu?workers=2").load(path) as program, pd.trace(file) as trace:
        futures = [program.mixed.submit(X, X) for _ in range(4)]
        futures.append(program.plain.submit(futures[0], X))
        for future in futures:
            future.result()
        program.plain.submit_many([(X, X)] * 5).result()
    timelines.read(file)
    labels = [event.label for event in trace.events]
    assert labels.count("submit @mixed") == 4 and labels.count("submit @plain") == 2
    assert labels.count("call @mixed") >= 4 and labels.count("call @plain") >= 6  # one for each thread that goes on
    runs = [event for event in trace.events if event.name == "sleepy"]
    assert sum(event.args["workgroups"] for event in runs) == 16


def test_calls_of_several_threads(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.device("cpu?workers=2").load(path) as program, pd.trace(file) as trace:
        barrier = threading.Barrier(4)  # all are there at once, so that no track is used twice

        def call() -> None:
            for _ in range(50):
                program.plain(X, X)
            barrier.wait()

        threads = [threading.Thread(target=call, name=f"caller {i}") for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    timelines.read(file)
    calls = [sum(event.kind == "call" for event in track.events) for track in trace.tracks]
    assert [count for count in calls if count] == [50] * 4 and trace.lost == 0


def test_errors(traced: Program, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.trace(file), pytest.raises(KernelError):
        traced.fail(X)
    data = timelines.read(file)
    (call,) = timelines.spans(data, "call")
    assert call["args"] == {"failed": True}
    assert [event["name"] for event in timelines.spans(data, "run") if event["args"].get("failed")] == ["fail"]


def test_an_error_of_the_block_is_raised(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pytest.raises(ZeroDivisionError), pd.trace(file):
        raise ZeroDivisionError
    timelines.read(file)
    with pytest.raises(ZeroDivisionError), pd.trace(tmp_path / "none" / "out.json"):
        raise ZeroDivisionError
    with pytest.raises(Error, match=r"out\.json"), pd.trace(tmp_path / "none" / "out.json"):
        pass


def test_losses_are_said(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    with pd.device("local-sync").load(path) as program, pd.trace(file, events=16) as trace:
        for _ in range(100):
            program.plain(X, X)
    data = timelines.read(file)
    (track,) = busy(trace)  # 100 calls of one run each, and the plan
    assert len(track.events) == 16 and track.lost == trace.lost >= 201 - 16
    assert data["otherData"]["lost"] == {"MainThread": trace.lost}
    (mark,) = [event for event in data["traceEvents"] if event["ph"] == "i"]
    assert mark["name"] == f"{trace.lost} earlier events are lost" and mark["cat"] == "lost"


def test_losses_of_threads_of_one_name_are_added(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    called, traced = threading.Barrier(3), threading.Event()

    def call() -> None:
        for _ in range(100):
            program.plain(X, X)
        called.wait()
        traced.wait()  # a trace has the names of threads that are alive when it ends

    threads = [threading.Thread(target=call, name="caller") for _ in range(2)]
    with pd.device("local-sync").load(path) as program:
        with pd.trace(file, events=16) as trace:
            for thread in threads:
                thread.start()
            called.wait()
        traced.set()
        for thread in threads:
            thread.join()
    assert len([track for track in trace.tracks if track.lost and track.name == "caller"]) == 2
    assert timelines.read(file)["otherData"]["lost"] == {"caller": trace.lost}


@pytest.mark.parametrize("is_labelled_first", [True, False])
def test_two_tracks_of_a_pool_thread_are_joined(is_labelled_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that records an event while the trace ends may have two tracks, one of which has its worker number."""

    def recorded_tracks(events: int) -> tuple[list[object], int]:
        later = 1 << 62
        ran, idled = (
            [(Kind.RUN, "add", later, later + 5, 0, 1, False)],
            [(Kind.IDLE, "", later + 9, later + 9, 0, 0, False)],
        )
        both = [(7, 3, 2, ran), (7, None, 1, idled)]
        return [(8, None, 1, idled), *(both if is_labelled_first else both[::-1])], 0

    monkeypatch.setattr(recorder, "tracks", recorded_tracks)
    with pd.trace(None) as trace:
        pass
    joined, other = trace.tracks
    assert (joined.name, joined.lost, {event.kind for event in joined.events}) == ("worker 3", 1, {"run", "idle"})
    assert other.name == "thread 0x8"


def test_fills_have_no_workgroups_of_kernels(path: Path) -> None:
    with pd.device("local-sync").load(path) as program, pd.trace(None) as trace:
        program.filled(64, 2.0)
    assert [event.name for event in trace.events if event.kind == "run"] == ["fill"]


def test_start_and_stop(tmp_path: Path) -> None:
    trace = pd.trace(tmp_path / "out.json")
    with pytest.raises(InvalidArgumentError, match="it has not begun"):
        trace.stop()
    for _ in range(2):
        trace.start()
        with pytest.raises(InvalidArgumentError, match="begun already"):
            trace.start()
        with pytest.raises(InvalidArgumentError, match="one is being recorded; stop it first"):
            pd.trace(None).start()
        trace.stop()
    for events in (0, -1, 1 << 25, 2.5, True):
        with pytest.raises(InvalidArgumentError, match="events: expected a number"):
            Trace(None, events)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"\.json file"):
        pd.trace(7)  # type: ignore[arg-type]


def test_a_device_that_closes_before_the_trace_ends(path: Path) -> None:
    with pd.trace(None) as trace:
        device = pd.device("cpu?workers=2")
        device.load(path).meet(X)
        device.close()
    assert [track.name for track in busy(trace)] == ["worker 1", "MainThread"]
    assert [sum(event.kind == "run" for event in track.events) for track in busy(trace)] == [1, 1]


def test_a_forked_process_writes_no_file(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    code = (
        "import os, sys, numpy as np, pydispatch as pd\n"
        "program, x = pd.device('cpu?workers=2').load(sys.argv[1]), np.ones(64, np.float32)\n"
        "with pd.trace(sys.argv[2]) as trace:\n"
        "    program.plain(x, x)\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        with pd.trace(None) as own: program.plain(x, x)\n"
        "if not child: os._exit(0 if not trace.tracks and [e.kind for e in own.events].count('call') == 1 else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0 and len([e for e in trace.events if e.kind == 'call']) == 1\n"
    )
    subprocess.run([sys.executable, "-c", code, path, file], check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    timelines.read(file)
