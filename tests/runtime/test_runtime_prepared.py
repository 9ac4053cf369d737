"""Prepared calls."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from pydispatch._core.prepared import Prepared
from pydispatch._core.prepared_procedure import PreparedProcedure

import pydispatch as pd
from pydispatch.runtime.program.program import Program

A = np.arange(8, dtype=np.float32)
B = np.full(8, 3, np.float32)


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b) * b + a


def test_runs_again_on_the_bound_buffers(program: Program) -> None:
    a, b = A.copy(), B.copy()
    call = program.chain.prepare(a, b)
    first = call()
    np.testing.assert_array_equal(first, chain(a, b))
    a += 1
    assert call() is first  # its own result, written again
    np.testing.assert_array_equal(first, chain(a, b))
    call(b, a)
    np.testing.assert_array_equal(first, chain(b, a))
    call()  # what was bound stays bound
    np.testing.assert_array_equal(first, chain(b, a))
    assert len(call.commands) == 3 and "dispatch @lib::@mul" in call.commands[0]


def test_buffers_are_held(program: Program) -> None:
    call = program.chain.prepare(A.copy(), B.copy())
    kept = [np.zeros(8, np.float32) for _ in range(100)]  # would reuse freed memory
    np.testing.assert_array_equal(call(), chain(A, B))
    assert all(not x.any() for x in kept)


def test_given_outputs(program: Program, strict: Program) -> None:
    for p in (program, strict):
        out = np.zeros(9, np.float32)[1:]
        call = p.chain.prepare(A, B, out=out)
        assert call() is out
        np.testing.assert_array_equal(out, chain(A, B))
        memory = A.copy()
        call = p.chain.prepare(memory, B, out=memory)  # each run feeds the next
        want = A
        for _ in range(3):
            call()
            want = chain(want, B)
            np.testing.assert_array_equal(memory, want)


def test_rebinding_its_own_result(program: Program) -> None:
    call = program.chain.prepare(A, B)
    want = chain(chain(A, B), B)
    result = call()
    np.testing.assert_array_equal(call(result, B), want)
    np.testing.assert_array_equal(call(A, B), chain(A, B))


def test_scalars(program: Program) -> None:
    call = program.filled.prepare(4, 1.5)
    np.testing.assert_array_equal(call()[0], [1.5] * 4)
    filled, following = call(4, 2.5)  # this number decides no size
    np.testing.assert_array_equal(filled, [2.5] * 4)
    assert following == 5
    with pytest.raises(pd.InvalidArgumentError, match="another value of a scalar that decides a size"):
        call(5, 2.5)
    np.testing.assert_array_equal(call()[0], [2.5] * 4)


def test_refused(program: Program) -> None:
    call = program.chain.prepare(A, B)
    with pytest.raises(pd.InvalidArgumentError, match=r"prepared for arguments of shapes \(8,\), \(8,\), got \(7,\)"):
        call(A[:7].copy(), B[:7].copy())
    with pytest.raises(pd.InvalidArgumentError, match="expected 2 arguments, got 1"):
        call(A)
    with pytest.raises(pd.InvalidArgumentError, match="'out' is given to a call or to prepare"):
        call(out=A)
    with pytest.raises(pd.InvalidArgumentError, match="expected 2 arguments, got 0"):
        program.chain.prepare()
    np.testing.assert_array_equal(call(), chain(A, B))
    failing = program.fail.prepare(A)
    for _ in range(2):
        with pytest.raises(pd.KernelError):
            failing()


def test_a_rebind_without_memory_changes_nothing(pdx: Path) -> None:
    script = """
import mmap, resource, sys
import numpy as np
import pydispatch as pd

n = 1 << 24
fixed = pd.device("local-sync").load(sys.argv[1])
a, b, out = (np.full(n, value, np.float32) for value in (2, 3, 0))
call = fixed.mul.prepare(a, b, out=out)
assert call() is out and (out == 6).all()
used = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + (n << 1), resource.RLIM_INFINITY))
try:
    call(out, b)  # overlaps its result, which must be computed elsewhere
except pd.OutOfMemoryError:
    pass
else:
    raise AssertionError("there was memory enough")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
out[:] = 0
assert call() is out and (out == 6).all(), out
call(out, b)
assert (out == 18).all(), out
"""
    done = subprocess.run([sys.executable, "-c", script, str(pdx)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_one_run_at_a_time(program: Program) -> None:
    call = program.slow.prepare(A)
    started = threading.Event()
    thread = threading.Thread(target=lambda: (started.set(), call()))
    thread.start()
    started.wait()
    refused = 0
    while thread.is_alive():
        try:
            call()
        except pd.Error as error:
            assert "is running already" in str(error)
            refused += 1
            break
    thread.join()
    assert refused == 1
    call()


def test_after_close(pdx: object) -> None:
    device = pd.device("local-sync")
    program = device.load(pdx)
    call = program.chain.prepare(A, B)
    result = call()
    program.close()
    for f, args in ((call, ()), (program.chain, (A, B)), (program.chain.prepare, (A, B))):
        with pytest.raises(pd.Error, match="its program was closed"):
            f(*args)
    del call
    np.testing.assert_array_equal(result, chain(A, B))  # results outlive everything
    live = device.memory()["live_blocks"]
    del result, f, device, program
    assert pd.device("local-sync").memory()["live_blocks"] == live - 1


TWO = """
func.func @two(%a: tensor<3xf32>, %k: i32) -> (tensor<3xf32>, i32, tensor<3xf32>) {
  %r = math.exp %a : tensor<3xf32>
  %s = arith.negf %a : tensor<3xf32>
  return %r, %k, %s : tensor<3xf32>, i32, tensor<3xf32>
}
"""


@pytest.mark.parametrize("name", ["local-sync", "vulkan", "webgpu", "ptx-interpreter"])
def test_fresh_results(name: str) -> None:
    targets = {"local-sync": "cpu", "ptx-interpreter": "cuda"}.get(name, name)
    two = pd.device(name).load(pd.compile(TWO, targets=targets)).two
    a = np.zeros(3, np.float32)
    call, same = two.prepare(a, 7, fresh=True), two.prepare(a, 7)
    first, second = call(), call(a + 1, 8)
    assert first[1] == 7 and second[1] == 8
    assert np.asarray(first[0]).tolist() == [1, 1, 1] and np.asarray(second[2]).tolist() == [-1, -1, -1]
    assert same()[0] is same()[0] and call()[0] is not call()[0]
    with pytest.raises(pd.InvalidArgumentError, match="fresh=True makes new results in each run; leave out= out"):
        two.prepare(a, 7, fresh=True, out=first)
    with pytest.raises(pd.InvalidArgumentError, match="fresh: expected True or False, got 2"):
        two.prepare(a, 7, fresh=2)


STATEFUL = """
util.global private mutable @last = dense<0.0> : tensor<8xf32>
func.func @f(%x: tensor<8xf32>) {
  util.global.store %x, @last : tensor<8xf32>
  return
}
"""


def test_objects_that_were_never_made() -> None:
    prepared, of_procedure = Prepared.__new__(Prepared), PreparedProcedure.__new__(PreparedProcedure)
    for use in (prepared, lambda: repr(prepared), lambda: prepared.commands):
        with pytest.raises(pd.Error, match="this Prepared was never made; use"):
            use()
    procedure = pd.device("local-sync").load(pd.compile(STATEFUL)).f
    with pytest.raises(pd.InvalidArgumentError, match="argument 0"):
        of_procedure.__init__(procedure, (A.astype(np.int8),), None, None)  # type: ignore[misc]
    for use in (of_procedure, lambda: repr(of_procedure)):
        with pytest.raises(pd.Error, match="this PreparedProcedure was never made; use"):
            use()
