"""Host commands on the CPU: what they are given, in which order they run, and what happens to those that are wrong."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pytest
from pydispatch._core.host_command import Native

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
flow.func private @scale(%x: tensor<?xf32>, %n: i32, %s: f32) -> %x
flow.func private @sum(tensor<?xf32>) -> tensor<f32>
flow.func private @note(tensor<?xf32>)
func.func @f(%x: tensor<?xf32>, %n: i32, %s: f32) -> (tensor<?xf32>, tensor<f32>) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %y = arith.mulf %x, %x : tensor<?xf32>
  %z = flow.call @scale(%y, %n, %s) : (tensor<?xf32>{%d}, i32, f32) -> %y{%d}
  %t = flow.call @sum(%z) : (tensor<?xf32>{%d}) -> tensor<f32>
  %w = arith.addf %z, %x : tensor<?xf32>
  flow.call @note(%w) : (tensor<?xf32>{%d}) -> ()
  return %w, %t : tensor<?xf32>, tensor<f32>
}
"""
ONE = """
util.func private @command(%x: tensor<?xf32>) -> %x
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = util.call @command(%x) : (tensor<?xf32>) -> %x
  return %y : tensor<?xf32>
}
func.func @untouched(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def scale(context: Any, x: Any, n: int, s: float) -> None:
    x *= n
    x += s


def total(context: Any, x: Any, out: Any) -> None:
    out[...] = x.sum()


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM)


@pytest.fixture(scope="module")
def one() -> pd.Artifact:
    return pd.compile(ONE)


@pytest.fixture(params=["cpu?workers=3", "local-sync"])
def device(request: pytest.FixtureRequest) -> Any:
    return pd.device(request.param)


def loaded(device: Any, artifact: pd.Artifact, **commands: Any) -> Any:
    for name, function in commands.items():
        device.add_command(name, function)
    return device.load(artifact)


def test_operands(device: Any, artifact: pd.Artifact) -> None:
    seen: list[Any] = []

    def note(context: Any, x: Any) -> None:
        assert (context.kind, context.name, context.stream, context.command_buffer) == ("cpu", "note", None, None)
        assert not x.flags.writeable and x.flags.aligned and x.dtype == np.float32
        seen.append(x.copy())

    program = loaded(device, artifact, scale=scale, sum=total, note=note)
    for n in (5, 0, 3000):
        x = np.arange(n, dtype=np.float32)
        w, t = program.f(x, -3, 0.5)
        np.testing.assert_allclose(w, x * x * -3 + 0.5 + x, rtol=1e-6)
        np.testing.assert_allclose(t, (x * x * -3 + np.float32(0.5)).sum(dtype=np.float64), rtol=1e-3)
        np.testing.assert_array_equal(seen.pop(), w)
    call = program.f.prepare(x, 2, 1.0)
    np.testing.assert_allclose(call()[0], x * x * 2 + 1 + x, rtol=1e-6)
    np.testing.assert_allclose(call(x, 4, 2.0)[0], x * x * 4 + 2 + x, rtol=1e-6)


TYPES = """
flow.func private @types(tensor<3xi1>, tensor<2x3xi8>, tensor<4xf16>, tensor<5xi4>, tensor<2xcomplex<f64>>, i1, i8,
                         si32, ui64, f16, f64, index) -> (tensor<5xi4>, tensor<2x2xf64>)
func.func @f(%a: tensor<3xi1>, %b: tensor<2x3xi8>, %c: tensor<4xf16>, %d: tensor<5xi4>, %e: tensor<2xcomplex<f64>>,
             %f: i1, %g: i8, %h: si32, %i: ui64, %j: f16, %k: f64, %l: index) -> (tensor<5xi4>, tensor<2x2xf64>) {
  %r:2 = flow.call @types(%a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l) : (tensor<3xi1>, tensor<2x3xi8>,
      tensor<4xf16>, tensor<5xi4>, tensor<2xcomplex<f64>>, i1, i8, si32, ui64, f16, f64, index)
      -> (tensor<5xi4>, tensor<2x2xf64>)
  return %r#0, %r#1 : tensor<5xi4>, tensor<2x2xf64>
}
"""


def test_types(device: Any) -> None:
    a, b, c = np.array([True, False, True]), np.arange(6, dtype=np.int8).reshape(2, 3), np.arange(4, dtype=np.float16)
    e = np.array([1 + 2j, 3])
    d: Any = np.array([1, -2, 3, -4, 7], np.int8)

    def types(context: Any, *given: Any) -> None:
        *inputs, small, out = given
        for have, want in zip(inputs[:5], (a, b, c, d, e), strict=True):
            np.testing.assert_array_equal(have.astype(want.dtype), want)
            assert not have.flags.writeable
        assert inputs[5:] == [True, -7, -2, 2**63 + 1, 1.5, 0.1, 12]
        small[...] = inputs[3][::-1]
        out[...] = [[1, 2], [3, 4]]

    program = loaded(device, pd.compile(TYPES), types=types)
    (_, i4, _), *_ = [x for x in program.f.arguments if x[1].name == "i4"]
    small, out = program.f(a, b, c, d.astype(i4.dtype), e, True, -7, -2, 2**63 + 1, 1.5, 0.1, 12)
    np.testing.assert_array_equal(small.astype(np.int8), d[::-1])
    np.testing.assert_array_equal(out, [[1, 2], [3, 4]])


def test_an_argument_stays_what_it_is(device: Any, one: pd.Artifact) -> None:
    def command(context: Any, x: Any) -> None:
        x += 1

    program, x = loaded(device, one, command=command), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(program.f(x), x + 1)
    np.testing.assert_array_equal(x, np.arange(4))
    odd = np.zeros(17, np.uint8)[1:].view(np.float32)  # less aligned than an element
    np.testing.assert_array_equal(program.f(odd), np.ones(4))


def test_commands_keep_their_order(device: Any) -> None:
    names = [f"c{i}" for i in range(8)]
    text = "".join(f"flow.func private @{name}(tensor<4xf32>)\n" for name in names)
    text += "func.func @f(%x: tensor<4xf32>) {\n"
    text += "".join(f"flow.call @{name}(%x) : (tensor<4xf32>) -> ()\n" for name in names) + "return\n}"
    seen: list[str] = []
    program = loaded(device, pd.compile(text), **{n: lambda c, x: seen.append(c.name) for n in names})
    for _ in range(20):
        assert program.f(np.zeros(4, np.float32)) is None
    assert seen == names * 20


def test_parallel_for(device: Any, one: pd.Artifact) -> None:
    def command(context: Any, x: Any) -> None:
        def body(begin: int, end: int) -> None:
            x[begin:end] += 1

        context.parallel_for(len(x), body)
        context.parallel_for(0, body)

    program = loaded(device, one, command=command)
    x = np.arange(10000, dtype=np.float32)
    np.testing.assert_array_equal(program.f(x), x + 1)

    def fails(context: Any, x: Any) -> None:
        context.parallel_for(len(x), lambda begin, end: 1 // 0)

    with pytest.raises(pd.CommandError, match="ZeroDivisionError"):
        loaded(device, one, command=fails).f(x)


@pytest.mark.parametrize("count", [-1, 2**70, None, 1.5, "3"])
def test_counts_of_parallel_loops_that_are_wrong(device: Any, one: pd.Artifact, count: Any) -> None:
    def command(context: Any, x: Any) -> None:
        context.parallel_for(count, print)

    program = loaded(device, one, command=command)
    with pytest.raises(pd.CommandError, match=r"parallel_for: count: expected an integer from 0 to .*, got") as caught:
        program.f(np.ones(4, np.float32))
    assert isinstance(caught.value.__cause__, pd.InvalidArgumentError)


PROCEDURE = """
util.global private mutable @state = dense<0.0> : tensor<4xf32>
util.func private @command(%x: tensor<4xf32>, %i: index) -> %x
func.func @f(%n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %begin = util.global.load @state : tensor<4xf32>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%x = %begin) -> tensor<4xf32> {
    %y = util.call @command(%x, %i) : (tensor<4xf32>, index) -> %x
    scf.yield %y : tensor<4xf32>
  }
  util.global.store %end, @state : tensor<4xf32>
  return %end : tensor<4xf32>
}
"""


def test_in_procedures(device: Any) -> None:
    def command(context: Any, x: Any, i: int) -> None:
        if i == 50:
            raise ValueError("fifty")
        x += i

    program = loaded(device, pd.compile(PROCEDURE), command=command)
    assert program.f(4).tolist() == [6] * 4
    assert program.f(5).tolist() == [16] * 4
    with pytest.raises(pd.CommandError, match="fifty"):
        program.f(60)
    assert program.f(0).tolist() == [16] * 4  # a failed call changes nothing


# -- what is wrong


def test_missing(artifact: pd.Artifact) -> None:
    device = pd.device("local-sync")
    device.add_command("scale", scale)
    device.add_command("summ", total)
    with pytest.raises(pd.MissingImportError) as caught:
        device.load(artifact)
    assert caught.value.symbols == ("sum", "note")
    text = str(caught.value)
    assert "'sum', with the operands (?xf32, f32 written); did you mean 'summ'?" in text
    assert "device.add_command('sum', function)" in text and "searched: summ, scale" in text


@pytest.mark.parametrize("function", [lambda: None, lambda c: None, lambda c, x, y: None, lambda c, x, *, k: None])
def test_another_signature(function: Any, one: pd.Artifact) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"host command 'command'.*\(\?xf32 updated\)"):
        loaded(pd.device("local-sync"), one, command=function)


@pytest.mark.parametrize(("arguments", "text"), [
    (("", print), "the name of a host command"), ((3, print), "the name of a host command"),
    (("a\0b", print), "the name"), (("x", 0), "address of the function is 0"),
    (("x", "text"), "a function of Python or"), (("x", print, 7), "context: functions of Python have none"),
])  # fmt: skip
def test_registrations_that_are_wrong(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=text):
        pd.device("local-sync").add_command(*arguments)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Callable[..., None]:
    def command(context: Any, x: Any) -> None:
        raise error

    return command


@pytest.mark.parametrize("error", [ValueError("no"), pd.KernelError("k"), Mute(), MemoryError(), KeyError("\udc80")])
def test_a_command_that_raises(device: Any, one: pd.Artifact, error: Exception) -> None:
    program, x = loaded(device, one, command=raising(error)), np.ones(4, np.float32)
    for _ in range(40):
        with pytest.raises(pd.CommandError, match=f"host command 'command': {type(error).__name__}") as caught:
            program.f(x)
    assert caught.value.command == "command" and caught.value.__cause__ is error
    assert "function 'f', command 1" in str(caught.value)
    np.testing.assert_array_equal(program.untouched(x), x + x)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_ends_of_the_process_pass(device: Any, one: pd.Artifact, error: BaseException) -> None:
    program = loaded(device, one, command=raising(error))
    with pytest.raises(type(error)) as caught:
        program.f(np.ones(4, np.float32))
    assert caught.value is error


def test_writing_what_is_only_read(device: Any, artifact: pd.Artifact) -> None:
    def note(context: Any, x: Any) -> None:
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True
        x[0] = 1

    program = loaded(device, artifact, scale=scale, sum=total, note=note)
    with pytest.raises(pd.CommandError, match="host command 'note': ValueError: assignment destination is read-only"):
        program.f(np.ones(4, np.float32), 1, 1.0)


async def asynchronous(context: Any, x: Any) -> None:
    x += 1


@pytest.mark.parametrize(("command", "kind"), [
    (lambda context, x: x * 2, "ndarray"), (lambda context, x: x[1:], "ndarray"), (lambda context, x: 0, "int"),
    (asynchronous, "coroutine"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:coroutine 'asynchronous' was never awaited")
def test_values_that_are_returned(device: Any, one: pd.Artifact, command: Any, kind: str) -> None:
    program, x = loaded(device, one, command=command), np.ones(4, np.float32)
    with pytest.raises(
        pd.CommandError, match=rf"has returned an object of class {kind}.*write into the operands \(y\["
    ):
        program.f(x)
    np.testing.assert_array_equal(program.untouched(x), x + x)


def test_an_operand_may_be_returned(device: Any, one: pd.Artifact) -> None:
    program = loaded(device, one, command=lambda context, x: np.multiply(x, 3, out=x))
    np.testing.assert_array_equal(program.f(np.ones(4, np.float32)), np.full(4, 3, np.float32))


def test_arrays_that_are_kept(device: Any, one: pd.Artifact) -> None:
    kept: list[Any] = []
    program = loaded(device, one, command=lambda context, x: kept.append(x[1:]))
    with pytest.raises(pd.CommandError, match="keeps operand 0"):
        program.f(np.ones(4, np.float32))


def chained(kind: str) -> Callable[..., None]:
    """A command that fails with an exception that others, with arrays in their frames, led to."""

    def inner(x: Any) -> None:
        tail = x[1:]
        raise ValueError(float(tail[0]))

    def command(context: Any, x: Any) -> None:
        try:
            inner(x)
        except ValueError as error:
            if kind == "cause":
                raise RuntimeError("outer") from error
            if kind == "context":
                raise RuntimeError("outer")  # noqa: B904
            raise ExceptionGroup("outer", [KeyError(1), error]) from None  # type: ignore[name-defined] # noqa: F821

    return command


def frames_of(error: BaseException | None, seen: set[int]) -> list[Any]:
    """The frames of an exception and of all that led to it."""
    if error is None or id(error) in seen:
        return []
    seen.add(id(error))
    others = [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames + [frame for other in others for frame in frames_of(other, seen)]


@pytest.mark.parametrize("kind", ["cause", "context", "group"])
def test_frames_of_chained_exceptions_hold_no_operands(device: Any, one: pd.Artifact, kind: str) -> None:
    if kind == "group" and sys.version_info < (3, 11):
        return
    program = loaded(device, one, command=chained(kind))
    mine = np.arange(3.0)
    try:
        raise KeyError("being handled")
    except KeyError:
        with pytest.raises(pd.CommandError) as caught:
            program.f(np.ones(4, np.float32))
    cause = caught.value.__cause__
    names = [frame.f_code.co_name for frame in frames_of(cause, set())]
    assert "inner" in names and "command" in names
    for frame in frames_of(cause, set()):
        if frame.f_code.co_name in ("inner", "command"):
            assert not [name for name, value in frame.f_locals.items() if isinstance(value, np.ndarray)]
    assert mine[1] == 1 and sys._getframe().f_locals["mine"] is mine


def test_an_exception_with_an_operand_gets_a_copy(device: Any, one: pd.Artifact) -> None:
    def command(context: Any, x: Any) -> None:
        if x[0] == 1:
            raise ValueError(x)

    program = loaded(device, one, command=command)
    with pytest.raises(pd.CommandError) as caught:
        program.f(np.ones(4, np.float32))
    (kept,) = caught.value.__cause__.args  # type: ignore[union-attr]
    program.f(np.full(4, 7, np.float32))
    device.trim()
    np.testing.assert_array_equal(kept, np.ones(4))


def test_each_of_many_failures_has_its_cause(device: Any, one: pd.Artifact) -> None:
    class Noted(ValueError):
        """One that weak references may refer to."""

    def command(context: Any, x: Any) -> None:
        raise Noted(float(x[0]))

    program = loaded(device, one, command=command)
    futures = [program.f.submit(np.full(4, k, np.float32)) for k in range(40)]
    errors = [future.exception(60) for future in futures]
    assert [error.__cause__.args for error in errors] == [(float(k),) for k in range(40)]
    freed = weakref.ref(errors[0].__cause__)
    del futures, errors
    gc.collect()
    assert freed() is None


def test_failures_of_submitted_calls_do_not_keep_the_frames_of_callers(device: Any, one: pd.Artifact) -> None:
    def command(context: Any, x: Any) -> None:
        raise ValueError

    def call() -> weakref.ref[Any]:
        x = np.ones(4, np.float32)
        with pytest.raises(pd.CommandError):
            program.f.submit(x).result()  # often runs the command itself, whose frames then refer to this one
        return weakref.ref(x)

    program = loaded(device, one, command=command)
    arrays = [call() for _ in range(50)]
    gc.collect()
    assert not any(array() is not None for array in arrays)


def test_a_context_that_is_kept(device: Any, one: pd.Artifact) -> None:
    kept: list[Any] = []
    loaded(device, one, command=lambda context, x: kept.append(context)).f(np.ones(4, np.float32))
    with pytest.raises(pd.InvalidArgumentError, match="host command 'command' has returned"):
        kept[0].parallel_for(3, print)


def test_calling_back(device: Any, one: pd.Artifact) -> None:
    programs: list[Any] = []
    other = pd.device("local-sync").load(pd.compile(ONE[ONE.index("func.func @untouched") :]))

    def command(context: Any, x: Any) -> None:
        x[...] = other.untouched(x.copy())  # another program
        if x[0] > 1e6:
            programs[0].untouched(x.copy())

    programs.append(loaded(device, one, command=command))
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(programs[0].f(x), x + x)
    with pytest.raises(pd.CommandError, match="was called by a host command of its own program") as caught:
        programs[0].f(x * 1e6)
    assert isinstance(caught.value.__cause__, pd.InvalidArgumentError)
    np.testing.assert_array_equal(programs[0].f(x), x + x)


def test_a_command_that_blocks_is_interrupted(one: pd.Artifact, tmp_path: Path) -> None:
    one.save(tmp_path / "one.pdx")
    code = f"""
import numpy as np, pydispatch as pd, threading, os, signal
device = pd.device("cpu?workers=2")
lock = threading.Lock(); lock.acquire()
def command(context, x):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    lock.acquire()
device.add_command("command", command)
program = device.load({str(tmp_path / "one.pdx")!r})
try:
    program.f(np.ones(4, np.float32))
except KeyboardInterrupt:
    print("interrupted", program.untouched(np.ones(1, np.float32)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted [2.]\n", done.stderr


def test_nothing_leaks(one: pd.Artifact) -> None:
    class Holder:
        def __call__(self, context: Any, x: Any) -> None:
            x += 1

    device = pd.device("cpu?workers=2")
    gc.collect()
    live_before = device.memory()["live_blocks"]  # devices of one URI share a pool, which earlier tests may still use
    holder = Holder()
    gone = weakref.ref(holder)
    provider = device.add_command("command", holder)
    program = device.load(one)
    device.remove_plugin(provider)
    del holder
    gc.collect()
    assert program.f(np.zeros(2, np.float32)).tolist() == [1, 1]  # a loaded program keeps what it has
    with pytest.raises(pd.MissingImportError):
        device.load(one)
    del program
    gc.collect()
    assert gone() is None
    assert device.memory()["live_blocks"] <= live_before


def test_many_threads(one: pd.Artifact) -> None:
    def command(context: Any, x: Any) -> None:
        if x[0] % 7 == 3:
            raise ValueError(str(x[0]))
        context.parallel_for(len(x), lambda begin, end: x[begin:end].__iadd__(1))

    program = loaded(pd.device("cpu?workers=3"), one, command=command)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(60):
                x = np.full(500, seed + i, np.float32)
                if x[0] % 7 == 3:
                    with pytest.raises(pd.CommandError, match=str(x[0])):
                        program.f(x)
                else:
                    np.testing.assert_array_equal(program.f(x), x + 1)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(100 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


# -- programs that are wrong


HEAD = "func.func @f(%x: tensor<4xf32>)"
MANY = ", ".join(["i32"] * 33)


@pytest.mark.parametrize(("declaration", "function", "expected"), [
    ("", HEAD + "{ flow.call @g(%x) : (tensor<4xf32>) -> () return }", "no declaration of '@g'"),
    ("flow.func private @g(tensor<5xf32>)", HEAD + "{ flow.call @g(%x) : (tensor<4xf32>) -> () return }",
     "those of '@g' (tensor<5xf32>)"),
    ("flow.func private @g(%x: tensor<4xf32>) -> %x", HEAD + "-> tensor<4xf32> {"
     "%y = flow.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32> return %y : tensor<4xf32> }", "are tied to operands in"),
    ("func.func private @g(tensor<4xf32>) -> tensor<?xf32>", HEAD + "-> tensor<?xf32> {"
     "%y = func.call @g(%x) : (tensor<4xf32>) -> tensor<?xf32> return %y : tensor<?xf32> }",
     "the sizes of result 0 of '@g'"),
    ("flow.func private @g(tensor<4xf32>) -> i32", HEAD + "-> i32 {"
     "%y = flow.call @g(%x) : (tensor<4xf32>) -> i32 return %y : i32 }", "'@g' cannot return i32"),
    ("func.func private @g(%x: tensor<4xf32>) { return }", HEAD + "{ flow.call @g(%x) : (tensor<4xf32>) -> () return }",
     "'@g' has a body"),
    (f"flow.func private @g({MANY})",
     f"func.func @f(%x: i32) {{ flow.call @g({MANY.replace('i32', '%x')}) : ({MANY}) -> () return }}",
     "takes 33 scalars, a host command at most 32"),
    ("flow.func private @g() { util.return }", "", "flow.func only declares"),
])  # fmt: skip
def test_programs_that_are_wrong(declaration: str, function: str, expected: str) -> None:
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(f"{declaration}\n{function}")
    assert expected in str(caught.value)


def test_inspect_lists_them(artifact: pd.Artifact, tmp_path: Path) -> None:
    path = tmp_path / "f.pdx"
    artifact.save(path)
    command = ["-m", "pydispatch.cli", "inspect", path]
    listed = fork_server.run(command).stdout
    assert "host commands" in listed
    assert "scale" in listed and "(?xf32 updated, i32, f32)" in listed
    program = fork_server.run([*command, "--program"]).stdout
    assert "host command 1 sum(?xf32, f32 written)" in program


@pytest.mark.parametrize("is_batch", [False, True])
def test_the_pool_is_free_while_submitted_commands_sleep(is_batch: bool) -> None:
    device = pd.device("cpu?workers=2")
    asleep, may_end = threading.Barrier(5), threading.Event()

    def command(context: Any, x: np.ndarray) -> None:
        asleep.wait(60)
        assert may_end.wait(60)

    device.add_command("command", command)
    program = device.load(pd.compile(ONE))
    items = [np.ones(4, np.float32)] * 4  # twice as many as workers
    calls = [program.f.submit_many(items)] if is_batch else [program.f.submit(item) for item in items]
    asleep.wait(60)
    computes, done = device.load(pd.compile("func.func @g(%x: f32) -> f32 { return %x : f32 }")), threading.Event()
    future = computes.g.submit(np.float32(3))
    future.add_done_callback(lambda _: done.set())  # no thread waits in `result`, which would run the call by itself
    assert done.wait(60), "the call waits for the commands"
    may_end.set()
    for call in calls:
        np.testing.assert_array_equal(call.result(60), items if is_batch else items[0])


def test_a_packed_operand_that_is_resized(device: Any) -> None:
    """The array of a packed operand has memory of its own, which is packed into the operand's after the call."""
    text = """
flow.func private @command(%x: tensor<6xi4>) -> %x
func.func @f(%x: tensor<6xi4>) -> tensor<6xi4> {
  %b = arith.addi %x, %x : tensor<6xi4>
  %y = flow.call @command(%b) : (tensor<6xi4>) -> %b
  return %y : tensor<6xi4>
}
"""
    sizes = [6, 8, 4, 1 << 20]

    def command(context: Any, x: Any) -> None:
        x.resize(sizes.pop(0), refcheck=False)
        x[...] = 3

    program = loaded(device, pd.compile(text), command=command)
    (_, i4, _), *_ = program.f.arguments
    x = np.zeros(6, i4.dtype)
    assert program.f(x).astype(int).tolist() == [3] * 6
    for nbytes in (4, 2, 1 << 19):
        with pytest.raises(pd.CommandError, match=f"it has resized operand 0 to {nbytes} bytes, which has 3 in the"):
            program.f(x)


class NativeHostCommand(ctypes.Structure):
    """The members of pyd_host_command_t up to `fail`."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("operand_size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("device", ctypes.c_uint32), ("operand_count", ctypes.c_uint32), ("operands", ctypes.c_void_p),
                ("fail", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p))]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "shown"), [([None], "it failed"), ([None, b"b"], "it failed"), ([b"a", None], "a"), ([], "returned 5")]
)
def test_texts_of_failures_on_devices(texts: list[bytes | None], shown: str) -> None:
    """As on the CPU: the first text counts, and NULL says that it failed."""

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    def command(params: int, context: Any, reserved: Any) -> int:
        for text in texts:
            NativeHostCommand.from_address(params).fail(params, text)
        return 5

    with pytest.raises(pd.CommandError, match=f"{shown}$"):
        Native("cuda", "command").call(ctypes.cast(command, ctypes.c_void_p).value, 0)
