"""Procedures from Python: loops, state, checks, `out=`, prepared calls, threads, signals and forks."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator

import numpy as np
import programs
import pytest
from programs import F32, I64

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import (
    NONE,
    CheckKind,
    FunctionArgument,
    Numerical,
    Opcode,
    Procedure,
    Program,
    Result,
    disassemble,
    dtype_word,
)
from pydispatch.runtime.program.program import Program as Loaded

I1 = dtype_word(Numerical.BOOLEAN, 8)


def counter(program: Program) -> None:
    """(i, n) -> (i + 1, i + 1 < n)"""
    f = program.add_function("next", public=False)
    f.add_argument(FunctionArgument(I64, None, "i"))
    f.add_argument(FunctionArgument(I64, None, "n"))
    i = f.binary(Opcode.ADD, f.emit(Opcode.SCALAR, 0), f.constant(1))
    f.results.append(Result(I64, None, register=i))
    f.results.append(Result(I1, None, register=f.emit(Opcode.CMP, i, f.emit(Opcode.SCALAR, 1), modifier=64 | 2 << 8)))


def identity(program: Program, name: str) -> Procedure:
    p = program.add_procedure(name, "(tensor<?xf32>) -> tensor<?xf32>")
    x = p.add_argument(F32, (-1,), "x")
    p.add_result(F32, (-1,))
    p.ret([x])
    return p


def build() -> Artifact:
    builder = programs.Builder()
    m = builder.program
    add = programs.binary(builder, "add", "add")
    fail = builder.function("fail_at_two")
    programs.add_vector(fail, "a")
    n = fail.emit(Opcode.DIM, 0, 0)
    out = programs.finish_vector(fail, n)
    builder.run(fail, "fail", n, [out], fail.constant(4))
    counter(m)
    following = m.functions[-1]
    count, last = m.add_global("count", I64, None, value=5), m.add_global("last", F32, (-1,))
    p = m.add_procedure("repeat", "(tensor<?xf32>, i64) -> (tensor<?xf32>, i64)")
    x, n = p.add_argument(F32, (-1,), "x"), p.add_argument(I64, None, "n")
    p.add_result(F32, (-1,))
    p.add_result(I64, None)
    i, total, more = p.slot(I64, None), p.slot(F32, 1), p.slot(I1, None)
    p.scalar(i, 0)
    p.move([(total, x)])
    top, end = p.label(), p.label()
    p.bind(top)
    p.run(add, [total, x], [total], last_uses=[total])
    p.run(following, [i, n], [i, more])
    p.branch(more, top, end)
    p.bind(end)
    p.load(i, count)
    p.run(following, [i, n], [i, NONE])
    p.store(count, i)
    p.store(last, total)
    p.ret([total, i])
    p = m.add_procedure("last", "() -> tensor<?xf32>")
    t = p.slot(F32, 1)
    p.add_result(F32, (-1,))
    p.load(t, last)
    p.ret([t])
    p = m.add_procedure("broken", "(tensor<?xf32>)")
    x = p.add_argument(F32, (-1,), "x")
    p.store(last, x)
    p.run(m.functions[1], [x], [NONE])
    p.ret([])
    p = m.add_procedure("spin", "()")
    top = p.bind(p.label())
    p.jump(top)
    p = m.add_procedure("same", "(tensor<?xf32>, tensor<?xf32>)")
    a, b = p.add_argument(F32, (-1,), "a"), p.add_argument(F32, (-1,), "b")
    p.observe(m.add_check(CheckKind.EXPECT_ALMOST_EQ, "m.mlir:3:4", atol=0.5), [a, b])
    p.observe(m.add_check(CheckKind.EXPECT_EQ, "m.mlir:5:6"), [b, b])
    p.ret([])
    identity(m, "identity")
    data = programs.elf(builder.exports)
    functions = [(f.name, f.signature or "()") for f in [*m.procedures, *m.functions] if f.public]
    variant = programs.Variant("v0", "embedded-elf-x86_64", data, alignment=4)
    return Artifact.build(functions, m.encode(), [programs.PackedExecutable("lib", builder.names, [variant])])


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return build()


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def program(request: pytest.FixtureRequest, artifact: Artifact) -> Iterator[Loaded]:
    device = pd.device(request.param)
    gc.collect()  # of other tests, whose devices share this memory
    before = device.memory()["live_blocks"]
    program = device.load(artifact)
    yield program
    del program
    request.node.funcargs.clear()
    assert device.memory()["live_blocks"] >= before


X = np.arange(5, dtype=np.float32)


def test_state_belongs_to_a_loaded_program(program: Loaded, artifact: Artifact) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="'last', step 0: global '@last' is loaded before anything"):
        program.last()
    for n in range(1, 4):
        total, count = program.repeat(X, 10 * n)
        assert np.array_equal(total, X * (10 * n + 1)) and count == 5 + n
        kept = program.last()
        assert np.array_equal(kept, total)
        kept[:] = -1  # the caller's own
        total[:] = -1
        assert np.array_equal(program.last(), X * (10 * n + 1))
    assert pd.device("local-sync").load(artifact).repeat(X, 1)[1] == 6


def test_a_failure_changes_nothing(program: Loaded) -> None:
    program.repeat(X, 1)
    with pytest.raises(pd.KernelError, match=r"@lib::@fail: workgroup \(2, 0, 0\) returned 77") as caught:
        program.broken(X)
    error = caught.value
    assert (error.executable, error.export, error.workgroup, error.code) == ("lib", "fail", (2, 0, 0), 77)
    assert np.array_equal(program.last(), X * 2)


def test_arguments_are_checked_as_those_of_functions(program: Loaded) -> None:
    for arguments, message in (
        ((X,), r"@repeat: expected 2 arguments, got 1: repeat\(x: \?xf32, n: i64\)"),
        ((X.astype(np.float64), 1), r"argument 0 'x': expected \?xf32 .*got a float64 array"),
        ((X[None], 1), "got rank 2"),
        ((X, 1.5), "argument 1 'n': expected i64"),
        ((X, 2**64), "argument 1 'n'"),
    ):
        with pytest.raises(pd.InvalidArgumentError, match=message):
            program.repeat(*arguments)
    assert program.repeat.arguments[0][2] == (-1,) and program.repeat.results[1][1] is None
    assert repr(program["repeat"]).startswith("<function @repeat(x: float32[d0], n: int64)")


def test_results_never_share_memory(program: Loaded) -> None:
    y = program.identity(X)
    assert np.array_equal(y, X) and not np.shares_memory(y, X) and y.flags.writeable and y.flags.aligned
    assert program.identity(X[:0]).shape == (0,)
    assert np.array_equal(program.identity(np.arange(9, dtype=np.float32)[1:]), np.arange(1, 9))


def test_out(program: Loaded) -> None:
    out = np.full(5, 9, np.float32)
    assert program.identity(X, out=out) is out and np.array_equal(out, X)
    assert program.identity(out, out=out) is out and np.array_equal(out, X)
    assert program.repeat(X, 1, out=(out, None))[0] is out and np.array_equal(out, X * 2)
    for bad, message in (
        (np.empty(4, np.float32), "out 0: expected 5xf32"),
        (np.empty(5, np.float64), "out 0: expected 5xf32"),
        (np.empty((5, 1), np.float32), "rank 1, got 2"),
        ((out, out), "expected 1 arrays, got 2"),
        ([1.0] * 5, "out 0"),
    ):
        with pytest.raises(pd.InvalidArgumentError, match=message):
            program.identity(X, out=bad)


def test_prepared(program: Loaded) -> None:
    call = program.repeat.prepare(X, 3)
    first, second = call()[0], call()[0]
    assert np.array_equal(first, X * 4) and np.array_equal(second, X * 4)
    assert np.array_equal(call(X[:2].copy(), 1)[0], X[:2] * 2)
    with pytest.raises(pd.InvalidArgumentError, match="expected 2 arguments, got 1"):
        call(X)
    assert np.array_equal(call()[0], X[:2] * 2)
    program.close()
    with pytest.raises(pd.Error, match="its program was closed"):
        call()
    with pytest.raises(pd.Error, match="its program was closed"):
        program.identity(X)


def test_checks(program: Loaded) -> None:
    program.same(X, X + 0.25)
    with pytest.raises(pd.CheckError, match=r"@same: m\.mlir:3:4: check\.expect_almost_eq: element"):
        program.same(X, X + 1)


def test_threads(artifact: Artifact) -> None:
    program = pd.device("cpu?workers=2").load(artifact)
    wrong: list[object] = []

    def work(k: int) -> None:
        x = np.full(100 + k, k, np.float32)
        for n in range(1, 60):
            if not np.array_equal(program.repeat(x, n)[0], x * (n + 1)):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and program.repeat(X, 1)[1] == 5 + 4 * 59 + 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_a_loop_can_be_interrupted(program: Loaded) -> None:
    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            program.spin()
    finally:
        signal.signal(signal.SIGALRM, old)
    assert np.array_equal(program.identity(X), X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_goes_on_while_the_parent_is_inside(artifact: Artifact) -> None:
    program = pd.device("local-sync").load(artifact)
    program.repeat(X, 1)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            program.repeat(X, 2000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                fine = np.array_equal(program.repeat(X, 3)[0], X * 4)
                os._exit(0 if fine else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_text(artifact: Artifact) -> None:
    text = disassemble(artifact.read("program.bin"))
    assert "procedure public @repeat (tensor<?xf32>, i64) -> (tensor<?xf32>, i64)" in text
    assert "global 0 mutable @count: scalar i64 = 5" in text and "s2 = run @add" not in text
    assert "s3 = run @add(s3 (last), s0)" in text and "return s3 (last), s2 (last)" in text
