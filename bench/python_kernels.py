"""Kernels in Python against the same loops in Numba (parallel) and in C (OpenMP), and the time that compiling takes.

    python bench/python_kernels.py [--only saxpy] [--seconds S] [--json FILE]

Needs Numba and gcc; clang is compared where it is installed, without OpenMP, so with one worker. Sizes are those of a
last-level cache and beyond. Every implementation takes the same arrays and writes the same results, which are compared
first; then they take turns, with one worker and with two. Compiling is what a kernel that was never compiled takes,
when the compiler has compiled others before.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from python_kernels_numba import FUNCTIONS
from report.figures import OURS, Figures, Row, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import measure

PAUSE = 0.06
"""Seconds between contenders, since threads of some spin after a call."""
SOURCE = Path(__file__).with_name("python_kernels.c")
EXAMPLES = Path(__file__).parent.parent / "examples/python_kernels"
FILES = {"heat": "stencil", "accelerations": "n_body"}
"""The files of kernels that are named otherwise; those without a file of their own are in kernels.py."""


def kernel_of(name: str) -> Any:
    """A kernel of examples/python_kernels."""
    path = EXAMPLES / f"{FILES.get(name, name)}.py"
    return getattr(module_of(path if path.exists() else EXAMPLES / "kernels.py"), name)


@functools.cache
def module_of(path: Path) -> Any:
    """A file of examples/python_kernels."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(EXAMPLES) not in sys.path:  # which has what its files share
        sys.path.append(str(EXAMPLES))
    spec.loader.exec_module(module)
    return module


def works() -> dict[str, tuple[Any, ...]]:
    """The arguments of each kernel."""
    random = np.random.default_rng(1)

    def floats(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    n = 1 << 22
    image = floats(2048, 2048)
    return {
        "saxpy": (np.float32(1.0001), floats(n), floats(n)),
        "swish": (floats(n), np.empty(n, np.float32), np.float32(1.5)),
        "softmax": (floats(2048, 1000), np.empty((2048, 1000), np.float32)),
        "matmul": (floats(512, 512), floats(512, 512), np.empty((512, 512), np.float32)),
        "histogram": (random.integers(0, 256, n).astype(np.int32), np.zeros(256, np.int32)),
        "blur": (image, np.empty_like(image)),
        "prefix_sums": (floats(n), np.empty(n, np.float32)),
        "heat": (image, np.empty_like(image), np.float32(0.2)),
        "mandelbrot": (np.empty((1024, 1536), np.int32), np.float32(1 / 512)),
        "accelerations": (random.random((4096, 4), np.float32), np.empty((4096, 3), np.float32)),
        "nearest_centre": (
            floats(1 << 19, 3),
            floats(16, 3),
            np.empty(1 << 19, np.int32),
            np.empty(1 << 19, np.float32),
        ),
        "int4_product": (
            random.integers(0, 256, (4096, 2048), np.uint8),
            floats(4096, 128),
            floats(4096),
            np.empty(4096, np.float32),
        ),
        "cross_entropy": (
            floats(2048, 1000),
            random.integers(0, 1000, 2048).astype(np.int32),
            np.empty(2048, np.float32),
            np.empty((2048, 1000), np.float32),
        ),
    }


def in_c(folder: Path, compiler: str, *flags: str) -> dict[str, Callable[..., None]]:
    """The kernels of python_kernels.c as functions of arrays."""
    library = folder / f"{compiler}.so"
    options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", *flags]
    subprocess.run([compiler, *options, str(SOURCE), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))

    def function(name: str) -> Callable[..., None]:
        called = getattr(loaded, name)

        def call(*args: Any) -> None:
            operands: list[Any] = []
            for arg in args:
                if isinstance(arg, np.ndarray):
                    operands += [ctypes.c_void_p(arg.ctypes.data), *map(ctypes.c_int64, arg.shape)]
                else:
                    operands.append(ctypes.c_float(arg))
            called(*operands)

        return call

    return {name: function(name) for name in works()}


def with_workers(name: str, workers: int) -> Callable[..., None]:
    """A kernel of examples/python_kernels on so many workers."""
    kernel = kernel_of(name)
    function = pd.device(f"cpu?workers={workers}").load(pd.compile(kernel, cpu="native"))[name]

    def call(*args: Any) -> None:
        views = [args[index] for index in kernel.written]
        function(*args, out=views[0] if len(views) == 1 else tuple(views))

    return call


def set_workers(workers: int) -> None:
    """Set the threads of Numba and of gcc's OpenMP."""
    numba.set_num_threads(workers)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(workers)


def compile_times(name: str) -> float:
    """Seconds from a kernel's source to its artifact, nothing of it kept."""
    kernel: Any = kernel_of(name)
    seconds = []
    for _ in range(3):
        fresh = pd.kernel(workgroup=kernel.workgroup, grid=kernel.grid)(kernel.__wrapped__)
        begin = time.perf_counter()
        pd.compile(fresh, cpu="native")
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", choices=list(works()))
    options.add_argument("--seconds", type=float, default=0.3, help="for each contender (0.3)")
    chosen = options.parse_args()
    figures = Figures(
        "Kernels in Python",
        "Least times of contenders in turns, one worker and two. Numba: parallel, fastmath; C: -O3 -march=native "
        "-ffast-math, OpenMP with gcc. Products, histograms and prefix sums are written as each language has them: "
        "with tiles in workgroup memory and steps of log n here, as plain loops there.",
    )
    clang = next(filter(shutil.which, ("clang", *(f"clang-{version}" for version in range(21, 12, -1)))), None)
    with tempfile.TemporaryDirectory() as folder:
        gcc = in_c(Path(folder), "gcc", "-fopenmp")
        alone = in_c(Path(folder), clang) if clang else {}
        for name, args in works().items():
            if chosen.only not in (None, name):
                continue
            rows = []
            for workers in (1, 2):
                set_workers(workers)
                calls = {OURS: with_workers(name, workers), "Numba": FUNCTIONS[name], "C": gcc[name]}
                if workers == 1 and name in alone:
                    calls["C, clang"] = alone[name]
                rows += compared(name, workers, calls, args, chosen.seconds)
            rows.append(Row("compile", OURS, compile_times(name), size=name, against=""))
            print(table(rows), flush=True)
            figures.rows += rows
    if chosen.json:
        figures.save(chosen.json)


def compare(name: str, mine: Any, theirs: Any) -> None:
    """Compare results. Of integers that depend on comparisons of rounded floats, one in a thousand may differ."""
    if isinstance(mine, np.ndarray) and mine.dtype.kind in "iu":
        assert np.mean(mine != theirs) <= 1e-3, name
    else:
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3, err_msg=name)


def compared(
    name: str, workers: int, calls: dict[str, Callable[..., None]], args: tuple[Any, ...], seconds: float
) -> list[Row]:
    """Compare the results of contenders, then their times."""
    contenders = {}
    first: list[Any] = []
    for who, call in calls.items():
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        call(*copies)
        first = first or copies
        for mine, theirs in zip(first, copies, strict=True):
            compare(name, mine, theirs)
        contenders[who] = functools.partial(call, *copies)
    return rows_of("a call", measure(contenders, seconds, pause=PAUSE), name, workers=workers, least=True)


if __name__ == "__main__":
    main()
