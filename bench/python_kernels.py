"""Kernels in Python against the same loops in Numba (parallel) and in C (OpenMP), and the time that compiling takes.

    python bench/python_kernels.py [--only saxpy] [--seconds S] [--json FILE]

Needs Numba and gcc. Sizes are those of a last-level cache and beyond; every implementation takes the same arrays and
writes the same results, which are compared first; then they take turns, on all cores. Compiling is what a kernel that
was never compiled takes, when the compiler has compiled others before.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def in_c(folder: Path) -> dict[str, Callable[..., None]]:
    """The kernels of python_kernels.c as functions of arrays."""
    library = folder / "kernels.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(SOURCE), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))

    def function(name: str) -> Callable[..., None]:
        called = getattr(loaded, name)

        def call(*args: Any) -> None:
            given: list[Any] = []
            for each in args:
                if isinstance(each, np.ndarray):
                    given += [ctypes.c_void_p(each.ctypes.data), *map(ctypes.c_int64, each.shape)]
                else:
                    given.append(ctypes.c_float(each))
            called(*given)

        return call

    return {name: function(name) for name in works()}


def compile_times(name: str) -> float:
    """Seconds from a kernel's source to its artifact, nothing of it kept."""
    given: Any = kernel_of(name)
    found = []
    for _ in range(3):
        fresh = pd.kernel(workgroup=given.workgroup, grid=given.grid)(given.__wrapped__)
        begin = time.perf_counter()
        pd.compile(fresh, cpu="native")
        found.append(time.perf_counter() - begin)
    return min(found)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", choices=list(works()))
    options.add_argument("--seconds", type=float, default=0.3, help="for each contender (0.3)")
    chosen = options.parse_args()
    figures = Figures(
        "Kernels in Python",
        "Least times of contenders in turns, two threads. Numba: parallel; C: gcc -O3 -march=native -ffast-math, "
        "OpenMP. Products, histograms and prefix sums are written as each language has them: with tiles in workgroup "
        "memory and steps of log n here, as plain loops there.",
    )
    with tempfile.TemporaryDirectory() as folder:
        c = in_c(Path(folder))
        for name, args in works().items():
            if chosen.only not in (None, name):
                continue
            rows = compared(name, (kernel_of(name), FUNCTIONS[name], c[name]), args, chosen.seconds)
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


def compared(name: str, calls: tuple[Callable[..., None], ...], args: tuple[Any, ...], seconds: float) -> list[Row]:
    results = []
    for call in calls:
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        call(*copies)
        results.append(copies)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            compare(name, mine, theirs)
    called = zip((OURS, "Numba", "C"), calls, results, strict=True)
    contenders = {who: functools.partial(call, *given) for who, call, given in called}
    return rows_of("a call", measure(contenders, seconds, pause=PAUSE), name, workers=2, least=True)


if __name__ == "__main__":
    main()
