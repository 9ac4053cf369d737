"""Measures calls and kernels on an NVIDIA GPU: against raw calls of the driver, its copies, PyTorch, and the peer.

    python bench/cuda_calls.py [--device cuda:0] [--rounds N] [--quick]

Every figure is of the card that is named first. PyTorch and the peer have figures where they are installed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "cuda")]

DATA = HERE.parent / "tests" / "cuda" / "data"
"""Folder with the PTX of the kernels that `Bench.launches` calls."""
T = "tensor<?xf32>"
ADD = f"""module {{ func.func @add(%a: {T}, %b: {T}) -> {T} {{
  %0 = arith.addf %a, %b : {T}
  return %0 : {T}
}} }}"""
"""MLIR of @add: the sum of two vectors."""


def product(m: int, k: int, n: int, type: str) -> str:
    """Return MLIR of @matmul: [m, k] times [k, n] of element type `type`, with an f32 result."""
    a, b, c = f"tensor<{m}x{k}x{type}>", f"tensor<{k}x{n}x{type}>", f"tensor<{m}x{n}xf32>"
    return f"""module {{ func.func @matmul(%a: {a}, %b: {b}) -> {c} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {c}
  %f = linalg.fill ins(%z : f32) outs(%e : {c}) -> {c}
  %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%f : {c}) -> {c}
  return %r : {c}
}} }}"""


class Bench:
    """Measurements on one device.

    device: a pydispatch device of kind cuda. rounds: how often contenders take turns; medians count. is_quick: small
    sizes and counts, to see that the benchmark runs.
    """

    def __init__(self, device: Any, rounds: int, is_quick: bool) -> None:
        """Take the device's CUDA context and the functions of its driver."""
        self.device, self.context, self.driver = device, device._context, device._context.driver
        self.rounds, self.is_quick = rounds, is_quick

    def on_the_host(self, call: Callable[[], Any], count: int) -> float:
        """Return the wall seconds per call of `count` calls, until the device is done with the last one."""
        self.device.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        self.device.synchronize()
        return (time.perf_counter() - start) / count

    def on_the_device(self, call: Callable[[], Any], count: int) -> float:
        """Return the seconds per call of `count` calls in a row, between two events that the device records."""
        from pydispatch.runtime.devices.cuda.timing import Stopwatch

        self.device.synchronize()
        with self.context.current:
            watch = Stopwatch(self.context, 2)
            watch.mark()
            for _ in range(count):
                call()
            watch.mark()
            self.device.synchronize()
            (seconds,) = watch.seconds()
            watch.close()
        return seconds / count

    def compare(self, title: str, calls: dict[str, Callable[[], Any]], count: int, clock: Any) -> dict[str, float]:
        """Print the title, and return the median seconds per call of each contender; they take turns in every round.

        count: calls in a measurement. clock: `on_the_host`, `on_the_device`, or another function (call, count) ->
        seconds per call.
        """
        print(title)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():  # warm up
            clock(call, max(2, count // 10))
        for _ in range(self.rounds):
            for name, call in calls.items():
                seconds[name].append(clock(call, count))
        return {name: statistics.median(values) for name, values in seconds.items()}

    def launches(self) -> None:
        """Print the times of a prepared call, of launching the same CUDA graph in a loop, and of other ways to call."""
        from cuda_programs import MIXED, TWO, source, target

        import pydispatch as pd

        text = source({target(): [DATA / "kernels_sm_75.ptx"]}, TWO, MIXED)
        f = self.device.load(pd.compile(text, targets="cuda")).mixed_invocation
        for n in (64, 4096):
            self.launches_of(f, n)

    def launches_of(self, f: Any, n: int) -> None:
        """Print the times of ways to call `f`: b * (a * b) of n elements, in two dispatches and a copy."""
        a, b = np.full((2, n), 1.25, np.float32)
        x, y = self.device.upload(a), self.device.upload(b)
        prepared = f.prepare(x, y)
        np.testing.assert_array_equal(prepared(), b * (a * b))
        graph = prepared._run.fixed_run.graph  # the CUDA graph that the prepared call launches
        launch, handle, stream = self.driver.cuGraphLaunch, graph.executable, self.context.stream
        calls: dict[str, Callable[[], Any]] = {
            "raw cuGraphLaunch": lambda: launch(handle, stream),
            "prepared call": prepared,
            "function of buffers": lambda: f(x, y),
        }
        count = 50 if self.is_quick else 2000
        rows = self.compare(f"two dispatches and a copy, {n} elements", calls, count, self.on_the_host)
        for name, seconds in rows.items():
            print(f"  {name:30} {seconds * 1e6:9.2f} us  {seconds / rows['raw cuGraphLaunch']:6.2f}x raw")

    def results(self) -> None:
        """Print the times of a call until its result is in host memory, here and with IREE for the same program."""
        import pydispatch as pd

        n = 4096
        a, b = np.full((2, n), 1.25, np.float32)
        f = self.device.load(pd.compile(ADD, targets=self.target())).add
        prepared, into = f.prepare(a, b), np.empty(n, np.float32)
        calls: dict[str, Callable[[], Any]] = {
            "prepared call, from NumPy to NumPy": lambda: prepared().download(into),
            "function, from NumPy to NumPy": lambda: f(a, b).numpy(),
        }
        peer, why = self.peer(ADD, "add", a, b)
        if peer is not None:
            calls["the peer's cheapest call"] = peer
        count = 20 if self.is_quick else 300
        for name, seconds in self.compare(f"a + b, {n} elements", calls, count, self.on_the_host).items():
            print(f"  {name:34} {seconds * 1e6:9.2f} us")
        if why:
            print(f"  the peer has no figure: {why}")

    def bandwidth(self) -> None:
        """Print the memory bandwidth of an addition of large arrays, and of a copy by the driver."""
        import pydispatch as pd

        n = 1 << (12 if self.is_quick else 26)
        a = np.arange(n, dtype=np.float32)
        x, y, out = self.device.upload(a), self.device.upload(a), self.device.empty(n)
        f = self.device.load(pd.compile(ADD, targets=self.target())).add
        call = f.prepare(x, y)
        np.testing.assert_array_equal(call(), a + a)
        source, to = x.memory.block.address, out.memory.block.address
        copy, stream = self.driver.cuMemcpyDtoDAsync, self.context.stream
        calls = {"copy by the driver": lambda: copy(to, source, 4 * n, stream), "a + b, generated": call}
        rows = self.compare(f"{4 * n >> 20} MiB arrays", calls, count=20, clock=self.on_the_device)
        base = 8 * n / rows["copy by the driver"]
        # A copy reads and writes n elements of 4 bytes; an addition reads 2 n and writes n.
        for (name, seconds), moved in zip(rows.items(), (8 * n, 12 * n), strict=True):
            print(f"  {name:30} {moved / seconds / 1e9:9.1f} GB/s  {moved / seconds / base:6.2f}x copy")

    def products(self) -> None:
        """Print the rates of matrix products, here and in PyTorch, which calls cuBLAS."""
        import pydispatch as pd

        torch = self.torch()
        for m in (128,) if self.is_quick else (1024, 4096):
            for type, dtype in (("f32", np.float32), ("f16", np.float16)):
                a, b = np.random.default_rng(1).standard_normal((2, m, m), dtype=np.float32).astype(dtype)
                f = self.device.load(pd.compile(product(m, m, m, type), targets=self.target())).matmul
                x, y = self.device.upload(a), self.device.upload(b)
                call = f.prepare(x, y)
                # Check the first 64 rows.
                exact = a[:64].astype(np.float64) @ b.astype(np.float64)
                assert abs(call().numpy()[:64] - exact).max() <= 1e-3 * abs(exact).max()
                calls: dict[str, Callable[[], Any]] = {"generated": call}
                if torch is not None:
                    u, v = torch.from_dlpack(x), torch.from_dlpack(y)
                    calls["PyTorch"] = lambda u=u, v=v, torch=torch: torch.matmul(u, v)
                clock = self.on_the_device if torch is None else self.in_order_with_torch(torch)
                rows = self.compare(f"product {m} x {m} x {m}, {type}", calls, count=20, clock=clock)
                for name, seconds in rows.items():
                    share = f"{rows['PyTorch'] / seconds:6.2f}x PyTorch" if torch is not None else ""
                    print(f"  {name:30} {2 * m**3 / seconds / 1e12:9.2f} TFLOP/s  {share}")

    def in_order_with_torch(self, torch: Any) -> Any:
        """Return a clock for `compare`: CUDA events of PyTorch on its default stream.

        That stream runs in order with the device's own, so that the events enclose calls of both contenders.
        """

        def clock(call: Callable[[], Any], count: int) -> float:
            """Return the seconds per call of `count` calls, between two events of PyTorch."""
            first, then = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            first.record()
            for _ in range(count):
                call()
            then.record()
            torch.cuda.synchronize()
            return float(first.elapsed_time(then)) * 1e-3 / count

        return clock

    def target(self) -> str:
        """Return the highest architecture, such as "sm_90", that the compiler supports and the device runs."""
        major, minor = self.context.capability
        return f"sm_{max(n for n in (75, 80, 86, 89, 90, 100, 120) if n <= 10 * major + minor)}"

    def torch(self) -> Any:
        """Return the module torch, or None if it is not installed or has no GPU."""
        try:
            import torch
        except ImportError:
            print("PyTorch is not installed: products have no figures of cuBLAS")
            return None
        return torch if torch.cuda.is_available() else None

    def peer(self, text: str, function: str, a: Any, b: Any) -> tuple[Callable[[], Any] | None, str]:
        """Return (call through IREE's CUDA driver, "") or (None, why there is none).

        text: MLIR. function: its name. a, b: its arguments.
        """
        tool = Path(sys.executable).with_name("iree-compile")
        if not tool.exists():
            return None, "iree-compile is not installed"

        from pydispatch.bench.peers import iree

        with tempfile.TemporaryDirectory() as folder:
            source, module = Path(folder, "p.mlir"), Path(folder, "p.vmfb")
            source.write_text(text)
            flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]  # it knows no newer ones
            done = subprocess.run([tool, source, *flags, "-o", module], capture_output=True, text=True)
            if done.returncode:
                return None, (done.stderr.strip().splitlines() or ["iree-compile failed"])[0]
            try:
                return iree.Module(module, "cuda").raw(function, a, b), ""
            except Exception as error:
                return None, str(error).splitlines()[0]


def main() -> None:
    """Print all measurements of one device.

    --prelude FILE runs a Python file first: tests replace the driver by a stand-in with it.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--prelude", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.prelude:
        import runpy

        runpy.run_path(args.prelude)
    import pydispatch as pd

    device: Any = pd.device(args.device)
    facts = device.describe()
    print(f"{facts['model']}, compute capability {facts['capability']}, driver {facts['driver']}")
    bench = Bench(device, 2 if args.quick else args.rounds, args.quick)
    for measure in (bench.launches, bench.results, bench.bandwidth, bench.products):
        measure()


if __name__ == "__main__":
    main()
