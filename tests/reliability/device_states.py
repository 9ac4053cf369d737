"""Random sequences of what users do with a device: open, close, load, call, prepare, submit, signals, forks.

A model says what each call returns or that it is refused. `python tests/reliability/device_states.py --count 200
[--seed S]`: exit status 0 or 1, a line with its seed before each PER_SEED sequences, and a last line of counts.
tests/runtime/test_device_states.py runs a few sequences.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
import traceback
from functools import cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import pydispatch as pd

DEVICES = {"cpu?workers=2": "cpu", "ptx-interpreter": "cuda", "vulkan:0?staging=1": "vulkan",
           "webgpu:0?staging=1": "webgpu"}  # fmt: skip
"""With options that few others have: closing ends a device for all who share it."""
FORKED = ("cpu", "cuda")  # targets of the devices that the child of a fork can go on with
RAISED = (TimeoutError, KeyboardInterrupt, SystemExit, MemoryError, LookupError)
PROGRAM = """
util.func private @note(%x: tensor<8xf32>) -> %x
util.global private mutable @total = dense<0.0> : tensor<4xf32>
func.func @twice(%a: tensor<?xf32>) -> tensor<?xf32> {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
func.func @noted(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = arith.addf %a, %a : tensor<8xf32>
  %c = util.call @note(%b) : (tensor<8xf32>) -> %b
  return %c : tensor<8xf32>
}
func.func @added(%a: tensor<4xf32>) -> tensor<4xf32> {
  %old = util.global.load @total : tensor<4xf32>
  %new = arith.addf %old, %a : tensor<4xf32>
  util.global.store %new, @total : tensor<4xf32>
  return %new : tensor<4xf32>
}
"""
PER_SEED = 20
"""Sequences that one seed chooses; the first of them is always the simplest one."""
SIZES = st.one_of(st.integers(0, 5), st.integers(6, 400))


@cache
def artifact(target: str) -> Any:
    return pd.compile(PROGRAM, targets=target)


def numbers(count: int) -> Any:
    return np.arange(count, dtype=np.float32) + 1


class DeviceStates(RuleBasedStateMachine):
    """One device, the programs, buffers, prepared calls and futures of it."""

    @initialize(name=st.sampled_from(sorted(DEVICES)))
    def start(self, name: str) -> None:
        self.name, self.target = name, DEVICES[name]
        self.raised: type[BaseException] | None = None
        self.device: Any = None
        self.program: Any = None
        self.total = np.zeros(4, np.float32)
        self.buffers: list[tuple[Any, Any]] = []
        self.prepared: list[tuple[Any, Any]] = []
        self.futures: list[tuple[Any, Any]] = []
        self.handlers = {n: signal.signal(n, self.handle) for n in (signal.SIGALRM, signal.SIGINT)}
        self.open()

    def handle(self, number: int, frame: object) -> None:
        """A signal's handler that raises what is to be raised."""
        if self.raised is not None:
            raise self.raised("from the handler")

    def note(self, context: Any, *operands: Any) -> None:
        """The host command of the program: it fails, or a signal comes in it, when something is to be raised."""
        if self.raised is not None and self.by_signal:
            signal.raise_signal(signal.SIGALRM)
        elif self.raised is not None:
            raise self.raised("from the command")

    def open(self) -> None:
        self.device = pd.device(self.name)
        options: dict[str, Any] = {} if self.target == "cpu" else {"synchronous": True}
        provider = self.device.add_command("note", self.note, **options)
        try:
            self.program = self.device.load(artifact(self.target))
        finally:
            self.device.remove_plugin(provider)
        self.total = np.zeros(4, np.float32)

    @rule(count=SIZES)
    def upload(self, count: int) -> None:
        self.buffers = [*self.buffers[-7:], (self.device.upload(numbers(count)), numbers(count))]

    @rule(number=st.integers(0, 7))
    def read(self, number: int) -> None:
        for buffer, expected in self.buffers[number : number + 1]:
            np.testing.assert_array_equal(np.array(buffer), expected)

    @rule(count=SIZES, way=st.sampled_from(("array", "buffer", "out array", "out buffer")))
    def call(self, count: int, way: str) -> None:
        x = numbers(count)
        given = self.device.upload(x) if "buffer" in way else x
        out = {"out array": np.empty(count, np.float32), "out buffer": self.device.empty(count)}.get(way)
        y = self.program.twice(given, out=out)
        assert out is None or y is out
        np.testing.assert_array_equal(np.array(y), 2 * x)
        if isinstance(y, pd.Buffer):
            self.buffers = [*self.buffers[-7:], (y, 2 * x)]

    @rule()
    def in_place(self) -> None:
        if self.buffers and self.target != "cpu":
            buffer, expected = self.buffers.pop()
            assert self.program.twice(buffer, out=buffer) is buffer
            self.buffers = [(b, 2 * e if b is buffer else e) for b, e in (*self.buffers, (buffer, expected))]

    @rule(sizes=st.lists(SIZES, min_size=70, max_size=90, unique=True))
    def many_shapes(self, sizes: list[int]) -> None:
        for count in sizes:
            self.program.twice.plan_of(numbers(count))

    @rule(count=SIZES)
    def prepare(self, count: int) -> None:
        x = numbers(count)
        self.prepared = [*self.prepared[-7:], (self.program.twice.prepare(x), x)]

    @rule(number=st.integers(0, 7), fresh=st.booleans())
    def run_prepared(self, number: int, fresh: bool) -> None:
        for call, x in self.prepared[number : number + 1]:
            np.testing.assert_array_equal(np.array(call(x + 0) if fresh else call()), 2 * x)

    @rule(count=SIZES)
    def submit(self, count: int) -> None:
        x = numbers(count)
        self.futures.append((self.program.twice.submit(x), 2 * x))

    @rule()
    def results(self) -> None:
        for future, expected in self.futures:
            np.testing.assert_array_equal(np.array(future.result(120)), expected)
        self.futures.clear()

    @rule(change=st.integers(0, 9))
    def state(self, change: int) -> None:
        x = np.full(4, change, np.float32)
        self.total = self.total + x
        np.testing.assert_array_equal(np.array(self.program.added(x)), self.total)

    @rule(kind=st.sampled_from(RAISED), by_signal=st.booleans(), submits=st.booleans())
    def fail(self, kind: type[BaseException], by_signal: bool, submits: bool) -> None:
        """A host command raises, or the handler of a signal in it."""
        self.raised, self.by_signal = kind, by_signal and not submits
        try:
            noted, x = self.program.noted, numbers(8)
            value = noted.submit(x).result(120) if submits else noted(x)
        except pd.CommandError as error:
            assert issubclass(kind, Exception) and type(error.__cause__) is kind
        except BaseException as error:
            assert type(error) is kind and not issubclass(kind, Exception), repr(error)
        else:
            raise AssertionError(f"{value} was returned")
        finally:
            self.raised = None
        np.testing.assert_array_equal(np.array(self.program.noted(x)), 2 * x)

    @rule(kind=st.sampled_from(RAISED), number=st.sampled_from((signal.SIGALRM, signal.SIGINT)))
    def interrupt(self, kind: type[BaseException], number: int) -> None:
        """A signal between two calls."""
        self.raised = kind
        try:
            signal.raise_signal(number)
        except kind:
            pass
        else:
            raise AssertionError("no handler was called")
        finally:
            self.raised = None

    @rule()
    def reopen(self) -> None:
        """Calls of a closed device are refused, except on CPUs, and buffers keep their content."""
        self.results()
        self.device.close()
        refused = 0
        for call in (lambda: self.program.twice(numbers(3)), *(call for call, _ in self.prepared)):
            try:
                call()
            except pd.Error as error:
                assert "closed" in str(error)
                refused += 1
        assert refused == (0 if self.target == "cpu" else 1 + len(self.prepared))
        for number in range(len(self.buffers)):
            self.read(number)
        self.buffers, self.prepared = [], []
        self.open()

    @rule()
    def trim(self) -> None:
        self.device.trim()

    @precondition(lambda self: hasattr(os, "fork"))
    @rule()
    def fork(self) -> None:
        """A child goes on with CPUs and the interpreter; a GPU is refused there. An alarm ends a child that hangs."""
        self.results()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(120)
            code = 1
            try:
                x = numbers(9)
                for run in (self.program.twice, lambda x: self.program.twice.submit(x).result(60)):
                    np.testing.assert_array_equal(np.array(run(x)), 2 * x)
                code = 0 if self.target in FORKED else 2
            except pd.DeviceUnavailableError as error:
                code = 0 if self.target not in FORKED and "forked" in str(error) else 3
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0

    def teardown(self) -> None:
        if not hasattr(self, "handlers"):
            return
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.results()
        live = self.device.memory()["live_blocks"]
        self.buffers, self.prepared, self.program = [], [], None
        gc.collect()
        assert self.device.memory()["live_blocks"] <= live
        self.device.close()


def run(count: int, steps: int, number: int, machine: type[RuleBasedStateMachine] = DeviceStates) -> None:
    """Run sequences chosen by a seed; raise what a rule raised, with the sequence that leads to it."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    chosen = settings(
        max_examples=count, stateful_step_count=steps, deadline=None, database=None, suppress_health_check=checks
    )
    run_state_machine_as_test(seed(number)(type(machine.__name__, (machine,), {})), settings=chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="sequences")
    parser.add_argument("--steps", type=int, default=40, help="of each sequence, at most")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="of the first sequences")
    given = parser.parse_args()
    findings, last = 0, given.seed - 1
    for done in range(0, given.count, PER_SEED):
        last += 1
        count = min(PER_SEED, given.count - done)
        print(f"--seed {last} --count {count} --steps {given.steps}", flush=True)  # what a dead process had begun
        try:
            run(count, given.steps, last)
        except Exception:
            findings += 1
            where = f"FINDING device states, --seed {last} --count {count} --steps {given.steps}"
            print(f"{where}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    about = f"seeds {given.seed} to {last}, {PER_SEED} sequences of {given.steps} steps each"
    row = {"name": "device states", "executions": given.count, "findings": findings, "coverage": about}
    print(json.dumps({"rows": [row]}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
