"""What one call costs: fresh result, `out=`, prepared, and file to first result; against NumPy and the peer.

    python bench/bench_call.py [--json FILE] [--seconds S]

The program runs three dispatches of one workgroup over 8 elements; its kernels are C, its host program is encoded by
hand, so no compiler takes part. The peer compiles the same arithmetic from tensors, which it may fuse into one
dispatch. Every figure is the median of rounds that take turns, so that a change of clock or load meets all of them; the
least of each is shown too. The peer is IREE's runtime (the extra "bench"), called through its Python API; it is left
out when not installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "runtime"))

import programs  # noqa: E402

import pydispatch as pd  # noqa: E402

MLIR = """
func.func @chain(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = arith.mulf %0, %b : tensor<?xf32>
  %2 = arith.addf %1, %a : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""


def ours(path: Path) -> dict[str, Callable[[], Any]]:
    a, b, out = (np.full(8, k, np.float32) for k in (4, 3, 0))
    items = [(a, b)] * 1000
    rows: dict[str, Callable[[], Any]] = {}
    for name in ("local-sync", "cpu"):
        device = pd.device(name)
        f = device.load(path).chain
        call = f.prepare(a, b)
        rows[f"{name}: call, fresh result"] = lambda f=f: f(a, b)
        rows[f"{name}: call, out="] = lambda f=f: f(a, b, out=out)
        rows[f"{name}: prepared"] = call
        rows[f"{name}: submitted, and its result"] = lambda f=f: f.submit(a, b).result()
        rows[f"{name}: 1000 submitted, and their results"] = lambda f=f: f.submit_many(items).result()
        rows[f"{name}: prepared, rebound"] = lambda call=call: call(b, a)

        def load(device: Any = device) -> Any:
            with device.load(path) as program:
                return program.chain(a, b)

        rows[f"{name}: load, file to first result"] = load
    rows["numpy: (a * b) * b + a"] = lambda: (a * b) * b + a
    rows["numpy: empty(8)"] = lambda: np.empty(8, np.float32)
    return rows


def peer() -> dict[str, Callable[[], Any]]:
    try:
        import iree.compiler
        import iree.runtime
    except ImportError:
        return {}
    module = iree.compiler.compile_str(
        MLIR, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"]
    )
    a, b = (np.full(8, k, np.float32) for k in (4, 3))
    rows: dict[str, Callable[[], Any]] = {}
    for driver in ("local-sync", "local-task"):
        config = iree.runtime.Config(driver)
        context = iree.runtime.SystemContext(config=config)
        context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, module))
        f = context.modules.module.chain
        device = config.device
        x, y = iree.runtime.asdevicearray(device, a), iree.runtime.asdevicearray(device, b)
        np.testing.assert_array_equal(f(a, b).to_host(), (a * b) * b + a)
        rows[f"peer {driver}: call from NumPy"] = lambda f=f: f(a, b).to_host()
        rows[f"peer {driver}: call from device arrays"] = lambda f=f, x=x, y=y: f(x, y)
    return rows


def measure(rows: dict[str, Callable[[], Any]], seconds: float) -> dict[str, dict[str, float]]:
    """Nanoseconds per call: rounds of about 2 ms each that take turns."""
    counts = {}
    for name, f in rows.items():
        f()
        once = timeit.timeit(f, number=20) / 20
        counts[name] = max(1, int(2e-3 / once))
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(max(5, int(seconds / (2e-3 * len(rows))))):
        for name, f in rows.items():
            times[name].append(timeit.timeit(f, number=counts[name]) / counts[name] * 1e9)
    return {name: {"median_ns": statistics.median(t), "least_ns": min(t)} for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure, default 5")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.pdx"
        programs.standard().save(path)
        figures = measure({**ours(path), **peer()}, args.seconds)
    print(f"{'':45} {'median':>10} {'least':>10}   ns per call")
    for name, row in figures.items():
        print(f"{name:45} {row['median_ns']:10.0f} {row['least_ns']:10.0f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
