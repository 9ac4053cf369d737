"""What every Python has to do with an installed pydispatch: python use.py ARTIFACT compile|no-compile.

ARTIFACT: mixed.pdx of the README. Prints a line for each part that works.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable

import numpy as np

import pydispatch as pd

FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
EXPONENTIAL = """
func.func @f(%x: tensor<?xf32>, %s: f32) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = math.exp %a : f32
    %q = arith.mulf %p, %s : f32
    linalg.yield %q : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def calls(program: pd.Program) -> None:
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    assert program.mixed_invocation(a, b).tolist() == [96.0] * 8
    out = np.zeros(8, np.float32)
    assert program.mixed_invocation(a, b, out=out) is out and out.tolist() == [96.0] * 8
    call = program.mixed_invocation.prepare(a, b)
    assert call().tolist() == [96.0] * 8
    assert program.mixed_invocation.submit(a, b).result().tolist() == [96.0] * 8
    assert [r.tolist() for r in program.mixed_invocation.submit_many([(a, b)] * 3).result()] == [[96.0] * 8] * 3
    try:
        program.mixed_invocation(a.astype(np.float64), b)
    except pd.InvalidArgumentError as error:
        assert "float32" in str(error), error
    else:
        raise AssertionError("a wrong type was taken")


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    """Runs work(0) to work(count - 1) at the same time. Raises what the first of them raised."""
    failed: list[BaseException] = []
    start = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            start.wait()
            work(index)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def threads(program: pd.Program) -> None:
    """Calls of one function from threads with sizes of their own, so that plans come and go."""

    def work(index: int) -> None:
        for turn in range(300):
            size = 1 + (index * 37 + turn * 11) % 97
            a, b = np.full(size, index, np.float32), np.full(size, turn, np.float32)
            expected = program.mixed_invocation(a, b)
            for _ in range(3):
                assert program.mixed_invocation(a, b).tolist() == expected.tolist()

    in_threads(work)


def stress(program: pd.Program) -> None:
    """Everything that threads may do with one function at once, while one of them makes it forget its plans."""
    function = program.mixed_invocation
    shared = function.prepare(np.full(8, 2, np.float32), np.full(8, 4, np.float32))

    def work(index: int) -> None:
        for turn in range(200):
            size = 8 + (index + turn) % 5
            a, b = np.full(size, 2, np.float32), np.full(size, 4, np.float32)
            expected = [96.0] * size
            assert function(a, b).tolist() == expected
            first = function.submit(a, b)
            assert first.result().tolist() == function.submit(a, b).result().tolist() == expected
            assert [r.tolist() for r in function.submit_many([(a, b)] * 2).result()] == [expected] * 2
            if index == 0:
                function.close()
            if index == 1:
                assert "mixed_invocation" in function.text() and function.plan_of(a, b)
            if index > 4:
                try:
                    assert shared().tolist() == [96.0] * 8
                except pd.Error as error:
                    assert "running already" in str(error), error

    in_threads(work)


SUBINTERPRETER = """
try:
    import pydispatch
except ImportError as error:
    assert "another process" in str(error), error
else:
    raise AssertionError("it was imported twice")
"""


def subinterpreters() -> None:
    """Another interpreter of this process is refused, with what to do instead."""
    try:
        import _interpreters as module  # type: ignore[import-not-found]
    except ImportError:
        import _xxsubinterpreters as module  # type: ignore[import-not-found]
    identity = module.create()
    failed = module.run_string(identity, SUBINTERPRETER)  # before 3.13 it raises by itself
    assert failed is None, failed
    module.destroy(identity)


def compiles() -> None:
    sys.modules["ziglang"] = None  # type: ignore[assignment]
    function = pd.device("cpu").load(pd.compile(EXPONENTIAL)).f
    x = np.linspace(-2, 2, 777, dtype=np.float32)
    np.testing.assert_allclose(function(x, 3.0), np.exp(x) * 3, rtol=1e-5)


def main(artifact: str, compiler: str) -> None:
    words = [f"Python {sys.version.split()[0]}", f"NumPy {np.__version__}"]
    if FREE:
        assert not sys._is_gil_enabled(), "the import of pydispatch has turned the GIL on"
        words.append("without a GIL")
    print(", ".join(words))
    with pd.device("cpu?workers=2") as device:
        program = device.load(artifact)
        calls(program)
        print("calls")
        threads(program)
        stress(program)
        print("threads")
    subinterpreters()
    print("a subinterpreter is refused")
    if compiler == "compile":
        compiles()
        print("compile, without zig")
    if FREE:
        assert not sys._is_gil_enabled(), "the GIL was turned on"


if __name__ == "__main__":
    main(*sys.argv[1:])
