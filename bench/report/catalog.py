"""The benchmarks of `make bench`."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass

FRAMEWORKS = ("module jax", "module onnx", "module onnxruntime", "module iree.runtime", "tool gcc")
"""Needs of benchmarks that compare models of JAX, as `Benchmark.needs` states them."""


@dataclass(frozen=True)
class Benchmark:
    """A script that measures.

    Attributes:
        name: Name of its file of figures.
        command: Path of the script in bench/, and its arguments.
        minutes: Approximate duration on two cores.
        quick: Additional arguments for a run that only shows that it works.
        needs: Python modules and programs without which it is left out: "module NAME" or "tool NAME".
    """

    name: str
    command: tuple[str, ...]
    minutes: float
    quick: tuple[str, ...] = ("--seconds", "0.01")
    needs: tuple[str, ...] = ("module iree.runtime",)


CATALOG = (
    Benchmark("calls", ("run.py", "calls"), minutes=0.3),
    Benchmark("workgroups", ("run.py", "workgroups"), minutes=0.2),
    Benchmark("load", ("run.py", "load"), minutes=0.2),
    Benchmark("stream", ("run.py", "stream"), minutes=0.3, needs=("module iree.runtime", "tool gcc")),
    Benchmark("memory", ("run.py", "memory"), minutes=0.1),
    Benchmark("modes", ("run.py", "modes"), minutes=0.2, needs=("module iree.runtime", "tool gcc")),
    Benchmark("dispatch-modes", ("modes.py",), minutes=1, needs=()),
    Benchmark("host-commands", ("host_commands.py",), minutes=0.2, needs=("tool gcc",)),
    Benchmark("core", ("core/run.py",), minutes=0.6, needs=("tool gcc",), quick=("program", "plugin")),
    Benchmark("embedding", ("embedding/run.py",), minutes=0.3, needs=("tool gcc",), quick=("--rounds", "1")),
    Benchmark("sched", ("sched/run.py",), minutes=4, needs=("tool gcc",),
              quick=("--seconds", "0.002", "--rounds", "3")),
    Benchmark("tensors", ("tensors.py",), minutes=2, needs=("module iree.runtime", "module onnxruntime")),
    Benchmark("contract", ("contract.py",), minutes=1),
    Benchmark("quantized", ("quantized.py",), minutes=2, needs=("module onnx", "module onnxruntime")),
    Benchmark("constants", ("constants.py",), minutes=0.5, needs=()),
    Benchmark(
        "pauses",
        ("pauses/run.py",),
        minutes=20,
        needs=("module onnx", "module onnxruntime"),
        quick=("--seconds", "0.1", "--works", "mlp", "--pauses", "0", "5"),
    ),
    Benchmark("throughput", ("throughput.py",), minutes=3, needs=FRAMEWORKS,
              quick=("--seconds", "0.1", "--batches", "1")),
    Benchmark("batched", ("batched.py",), minutes=1.5, needs=(), quick=("--requests", "200")),
    Benchmark("generate", ("generate.py",), minutes=0.3, needs=(), quick=("--steps", "20")),
    Benchmark("llm", ("llm/run.py",), minutes=14, needs=("module ml_dtypes",),
              quick=("--seconds", "0.01", "--layers", "1", "--only", "Q8_0")),
    Benchmark("llm-billion", ("llm/run.py", "--billion", "--only", "bf16", "Q4_0"), minutes=18,
              needs=("module ml_dtypes",), quick=("--seconds", "0.01", "--layers", "1", "--only", "Q4_0")),
    Benchmark("python-kernels", ("python_kernels/run.py",), minutes=3,
              needs=("module numba", "module ml_dtypes", "tool gcc")),
    Benchmark("kernels", ("kernels/run.py",), minutes=8, needs=FRAMEWORKS,
              quick=("--seconds", "0.01", "--only", "softmax")),
    Benchmark("drawn-kernels", ("kernels/run.py", "--random", "50", "--seed", "20", "--workers", "1"), minutes=2,
              needs=FRAMEWORKS, quick=("--seconds", "0.01", "--random", "3")),
    Benchmark("models", ("models/run.py",), minutes=8, needs=FRAMEWORKS,
              quick=("--seconds", "0.01", "--small", "--only", "mlp_batch1", "lstm")),
    Benchmark("networks", ("networks.py",), minutes=1, needs=("module onnx", "module onnxruntime"),
              quick=("--seconds", "0.05", "--only", "MobileNetV2")),
    Benchmark("compile-example", ("run.py", "compile-example"), minutes=0.3),
    Benchmark("compile", ("compile.py",), minutes=4, quick=("--only", "4 products", "--rounds", "1")),
    Benchmark("ptx-interpreter", ("ptx_interpreter.py",), minutes=0.5, needs=()),
)  # fmt: skip
"""All benchmarks, in the order in which they run."""


def lacking(benchmark: Benchmark) -> str:
    """Return messages about the modules and programs that a benchmark needs and this machine lacks, "" for none."""
    return "; ".join(why for need in benchmark.needs if (why := _lacking(*need.split(" ", 1))))


def _lacking(kind: str, name: str) -> str:
    """Return a message if a "tool" or "module" is not installed, "" if it is."""
    if kind == "tool":
        return "" if shutil.which(name) else f"the program {name} is not installed"
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # of a package that contains the module
        spec = None
    return "" if spec else f"the Python module {name} is not installed"
