"""Kernels in Python against the same work in Numba (parallel) and in C (OpenMP), and the time that compiling takes.

    python bench/python_kernels/run.py [--only saxpy top_k] [--seconds S] [--json FILE]

Needs Numba and gcc; clang is compared where it is installed, without OpenMP, so with one worker. Every implementation
takes the same arrays and writes the same results, which are compared first; then they take turns, with one worker and
with two.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import numba  # noqa: E402
import numpy as np  # noqa: E402
from report.figures import OURS, Figures, Row, parser, rows_of, table  # noqa: E402
from works import WORKS, Work  # noqa: E402

import pydispatch as pd  # noqa: E402
from pydispatch.bench.measure import measure  # noqa: E402

PAUSE = 0.06
"""Seconds between contenders, since threads of some spin after a call."""
EXAMPLES = HERE.parents[1] / "examples/python_kernels"
LOOPS = tuple(path.stem for path in sorted(HERE.glob("loops/*.py")))
"""The modules with the kernels for Numba; each imports only what its kernels need."""
Call = Callable[..., None]  # a kernel, which is passed the arguments of a `Work` and writes its results to some of them


@functools.cache
def example(file: str) -> Any:
    """Return a file of examples/python_kernels as a module."""
    if str(EXAMPLES) not in sys.path:  # for running.py, which the files share
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{file}", EXAMPLES / f"{file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def in_numba(name: str) -> Call:
    """Return the kernel of this name in loops/; 8-bit floats, which Numba lacks, are passed as bytes."""
    function = next(
        module.__dict__[name] for module in map(importlib.import_module, (f"loops.{stem}" for stem in LOOPS))
        if name in module.__dict__
    )  # fmt: skip
    return lambda *args: function(*map(as_bytes, args))


def as_bytes(argument: Any) -> Any:
    """Return an array of 8-bit floats as one of bytes, anything else as it is."""
    is_small_float = isinstance(argument, np.ndarray) and argument.dtype.kind == "V"  # as ml_dtypes registers them
    return argument.view(np.uint8) if is_small_float else argument


def in_c(folder: Path, compiler: str, *flags: str) -> ctypes.CDLL:
    """Compile all kernels of c/ to one library in `folder`, and load it. flags: added to those of all compilers."""
    library = folder / f"{compiler}.so"
    options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *flags]
    sources = map(str, sorted(HERE.glob("c/*.c")))
    subprocess.run([compiler, *options, *sources, "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def function_of(library: ctypes.CDLL, name: str) -> Call:
    """Return a C function as a Python function of arrays, passed as address and 64-bit sizes, and NumPy scalars."""
    function = library[name]

    def call(*args: Any) -> None:
        """Convert the arguments, and call the C function."""
        operands: list[Any] = []
        for arg in args:
            if isinstance(arg, np.ndarray):
                operands += [ctypes.c_void_p(arg.ctypes.data), *map(ctypes.c_int64, arg.shape)]
            else:
                operands.append(np.ctypeslib.as_ctypes_type(arg.dtype)(arg.item()))
        function(*operands)

    return call


def with_workers(kernel: Any, work: Work, workers: int) -> Call:
    """Compile a kernel for this CPU, and return a function of the work's arguments that runs it on `workers` threads.

    The function writes to the arrays that the kernel writes, as loops in C and Numba do.
    """
    program = pd.device(f"cpu?workers={workers}").load(pd.compile(kernel, cpu="native"))
    function = program[kernel.name]

    def call(*args: Any) -> None:
        """Zero our kernel's scratch arrays, then run it with the arrays that it writes as results."""
        for position in work.scratch:
            args[position].fill(0)
        results = [args[index] for index in kernel.written]
        function(*args, out=results[0] if len(results) == 1 else tuple(results))

    return call


def set_workers(workers: int) -> None:
    """Set the threads of Numba and of gcc's OpenMP."""
    numba.set_num_threads(workers)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(workers)


def compile_times(kernel: Any) -> list[Row]:
    """Return the times of a compilation without a cache, and of one whose artifact is cached.

    Both are the least of three, in a process that has compiled other kernels.
    """
    # Kernel objects keep what they have compiled: each compilation without a cache needs a new one of the function.
    fresh = [pd.kernel(workgroup=kernel.workgroup, grid=kernel.grid)(kernel.__wrapped__) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, PYDISPATCH_CACHE_DIR=folder):
        os.environ["PYDISPATCH_CACHE_SIZE"] = "0"  # no cache
        cold = min(map(compile_time, fresh))
        os.environ["PYDISPATCH_CACHE_SIZE"] = "64"
        compile_time(kernel)  # fills the cache
        warm = min(compile_time(kernel) for _ in range(3))
    return [
        Row("compile", OURS, cold, size=kernel.name, against=""),
        Row("compile again", OURS, warm, size=kernel.name, against=""),
    ]


def compile_time(kernel: Any) -> float:
    """Return the seconds that compiling a kernel for this CPU takes."""
    begin = time.perf_counter()
    pd.compile(kernel, cpu="native")
    return time.perf_counter() - begin


def compare(name: str, mine: Any, theirs: Any) -> None:
    """Assert that an array of two contenders agrees. name: for the message.

    Of integers, which may depend on comparisons of rounded floats, one in a thousand may differ.
    """
    if isinstance(mine, np.ndarray) and mine.dtype.kind in "iu":
        assert np.mean(mine != theirs) <= 1e-3, name
    else:
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3, err_msg=name)


def compared(kernel: Any, workers: int, calls: dict[str, Call], work: Work, seconds: float) -> list[Row]:
    """Assert that all contenders have the results of the first, then measure them in turns.

    Args:
        kernel: Our kernel, for its name and the positions of the arguments that it writes.
        workers: Number of threads, for the rows.
        calls: By contender, a function of the work's arguments.
        work: The arguments; each contender has copies of its own.
        seconds: Measuring time of each contender.
    """
    name = kernel.name
    positions = [position for position in kernel.written if position not in work.scratch]
    contenders = {}
    expected: Sequence[Any] = ()
    for who, call in calls.items():
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in work.arguments]
        restored = restoring(call, work)
        restored(*copies)
        written = [work.result(copies[position]) for position in positions]
        expected = expected or written  # those of the first contender
        for expected_result, result in zip(expected, written, strict=True):
            compare(f"{name}: {who}", expected_result, result)
        contenders[who] = functools.partial(restored, *copies)
    return rows_of("a call", measure(contenders, seconds, pause=PAUSE), name, workers=workers, least=True)


def restoring(call: Call, work: Work) -> Call:
    """Return a call that first restores the arrays of `work.restored`, which each call changes."""
    if not work.restored:
        return call

    def restored(*args: Any) -> None:
        """Copy the original values back, then call."""
        for position in work.restored:
            args[position][...] = work.arguments[position]
        call(*args)

    return restored


def main() -> None:
    """Measure the chosen kernels with one and with two workers, and how long ours take to compile."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS), metavar="KERNEL")
    options.add_argument("--seconds", type=float, default=0.3, help="for each contender (0.3)")
    chosen = options.parse_args()
    figures = Figures(
        "Kernels in Python",
        "Least times of contenders in turns, one worker and two. Numba: parallel, fastmath; C: -O3 -march=native "
        "-ffast-math, OpenMP with gcc. Each language has the algorithm that its users would write: tiles in workgroup "
        "memory, atomic operations and steps of log n here; plain loops and sums of each thread there.",
    )
    # Debian installs clang under a name with its version; the newest is taken.
    clang = next(filter(shutil.which, ("clang", *(f"clang-{version}" for version in range(21, 12, -1)))), None)
    with tempfile.TemporaryDirectory() as folder:
        gcc = in_c(Path(folder), "gcc", "-fopenmp")
        without_openmp = in_c(Path(folder), clang) if clang else None
        for name in chosen.only:
            work = WORKS[name]()
            kernel = getattr(example(work.file), name)
            rows = []
            for workers in (1, 2):
                set_workers(workers)
                calls = {
                    OURS: with_workers(kernel, work, workers),
                    "Numba": in_numba(name),
                    "C": function_of(gcc, name),
                }
                if workers == 1 and without_openmp is not None:
                    calls["C, clang"] = function_of(without_openmp, name)
                rows += compared(kernel, workers, calls, work, chosen.seconds)
            rows += compile_times(kernel)
            print(table(rows), flush=True)
            figures.rows += rows
    if chosen.json:
        figures.save(chosen.json)


if __name__ == "__main__":
    main()
