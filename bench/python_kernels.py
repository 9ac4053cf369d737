"""Kernels in Python against the same loops in Numba (parallel) and in C (OpenMP), and the time that compiling takes.

    python bench/python_kernels.py [--only saxpy]

Needs Numba and a C compiler (`cc`). Sizes are those of a last-level cache and beyond; every implementation takes the
same arrays and writes the same results, which are compared first; then they take turns. Figures are least times in
microseconds, on all cores. `compile` is what a kernel that was never compiled takes, in milliseconds, when the compiler
has compiled others before.
"""

from __future__ import annotations

import argparse
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

import pydispatch as pd
from pydispatch.bench.measure import measure

SECONDS, PAUSE = 0.3, 0.06
"""For each contender; between them, since threads of some spin after a call."""
SOURCE = Path(__file__).with_name("python_kernels.c")
EXAMPLES = Path(__file__).parent.parent / "examples/python_kernels/kernels.py"


def examples() -> Any:
    """The kernels of examples/python_kernels."""
    spec = importlib.util.spec_from_file_location("example_kernels", EXAMPLES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
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
    }


def in_c(folder: Path) -> dict[str, Callable[..., None]]:
    """The kernels of python_kernels.c as functions of arrays."""
    library = folder / "kernels.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(SOURCE), "-o", str(library), "-lm"], check=True)
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


def compile_times(module: Any, name: str) -> float:
    """Milliseconds from a kernel's source to its artifact, nothing of it kept."""
    given: Any = getattr(module, name)
    found = []
    for _ in range(3):
        fresh = pd.kernel(workgroup=given.workgroup, grid=given.grid)(given.__wrapped__)
        begin = time.perf_counter()
        pd.compile(fresh, cpu="native")
        found.append(1e3 * (time.perf_counter() - begin))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=list(works()))
    only = parser.parse_args().only
    module = examples()
    print(f"{'':12} {'ours':>9} {'Numba':>9} {'C':>9}  Numba/ours  C/ours  compile")
    with tempfile.TemporaryDirectory() as folder:
        c = in_c(Path(folder))
        for name, args in works().items():
            if only not in (None, name):
                continue
            report(name, (getattr(module, name), FUNCTIONS[name], c[name]), args, compile_times(module, name))


def report(name: str, calls: tuple[Callable[..., None], ...], args: tuple[Any, ...], compiled: float) -> None:
    results = []
    for call in calls:
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        call(*copies)
        results.append(copies)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3, err_msg=name)
    called = zip(("ours", "Numba", "C"), calls, results, strict=True)
    contenders = {who: functools.partial(call, *given) for who, call, given in called}
    ours, numba, c = (1e6 * each.least for each in measure(contenders, SECONDS, pause=PAUSE))
    print(
        f"{name:12} {ours:9.1f} {numba:9.1f} {c:9.1f}  {numba / ours:10.2f}  {c / ours:6.2f}  {compiled:4.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
