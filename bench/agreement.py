"""Whether `pydispatch bench` measures what others measure: pytest-benchmark, and iree-benchmark-module for IREE.

    python bench/agreement.py [--rounds 5] [--json FILE]

Each program is called with one thread. pydispatch's own function is measured by `pydispatch bench` and by the fixture
for pytest-benchmark; the peer `iree` by `pydispatch bench` and by iree-benchmark-module, which calls the same .vmfb
from C++. They take turns, in processes of their own; compared are medians of the rounds' medians. The exit code is 1
where two differ by more than 10 %. Needs pytest-benchmark, iree-base-compiler and iree-base-runtime.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

MOST = 0.1
"""Largest relative difference of two medians that counts as agreement."""

SECONDS = "0.3"
"""Duration of each measurement, as an argument of commands."""

PRODUCT = """
func.func @main(%a: tensor<SxSxf32>, %b: tensor<SxSxf32>) -> tensor<SxSxf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<SxSxf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<SxSxf32>) -> tensor<SxSxf32>
  %r = linalg.matmul ins(%a, %b : tensor<SxSxf32>, tensor<SxSxf32>) outs(%f : tensor<SxSxf32>) -> tensor<SxSxf32>
  return %r : tensor<SxSxf32>
}
"""
"""MLIR of a product of two matrices; S stands for their size."""
SUM = """
func.func @main(%a: tensor<SxSxf32>, %b: tensor<SxSxf32>) -> tensor<SxSxf32> {
  %r = arith.addf %a, %b : tensor<SxSxf32>
  %s = math.exp %r : tensor<SxSxf32>
  return %s : tensor<SxSxf32>
}
"""
"""MLIR of the exponential of a sum of two matrices."""
PROGRAMS = {
    f"{name} {size}x{size}": (text.replace("S", str(size)), f"{size}x{size}xf32=0.5")
    for name, text, size in (("product", PRODUCT, 256), ("product", PRODUCT, 512), ("exp of a sum", SUM, 512))
}
"""Name -> (MLIR of @main, each of its two arguments in the syntax of iree-benchmark-module's --input)."""

SUITE = """
pytest_plugins = ["pydispatch.bench.pytest_plugin"]

def test_main(dispatch_benchmark):
    import numpy as np
    import pydispatch
    device = pydispatch.device("cpu?workers=1")
    value = np.full([int(n) for n in "{shape}".split("x")], 0.5, np.float32)
    dispatch_benchmark(device.load("program.pdx").main, value, value.copy(), device=device)
"""
"""Benchmark of the compiled program for pytest-benchmark; `{shape}` is replaced by the shape of its arguments."""


def run(folder: Path, *words: object) -> str:
    """Run a command in `folder` and return its standard output; end the process with its output if it fails."""
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name: str) -> Path:
    """Return the path of a program that is installed beside this interpreter."""
    return Path(sys.executable).with_name(name)


def prepare(folder: Path, text: str, value: str) -> None:
    """Write the program for both systems (program.pdx, program.vmfb) and the pytest file that measures the former.

    text: MLIR of the program. value: value of both arguments, such as "256x256xf32=0.5".
    """
    import pydispatch

    (folder / "program.mlir").write_text(text)
    pydispatch.compile(text, cpu="native").save(folder / "program.pdx")
    shape = value.rpartition("x")[0]  # of "256x256xf32=0.5" the part "256x256"
    (folder / "test_program.py").write_text(SUITE.format(shape=shape))
    run(
        folder, tool("iree-compile"), "program.mlir", "-o", "program.vmfb", "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O2",
    )  # fmt: skip


def own_bench(folder: Path, value: str) -> dict[str, float]:
    """Run `pydispatch bench` and return the median seconds of a call by contender: "program.pdx" and "iree"."""
    run(folder, sys.executable, "-m", "pydispatch", "bench", "program.pdx", "--device=cpu?workers=1",
        f"--input={value}", f"--input={value}", "--peer=iree=program.vmfb", f"--seconds={SECONDS}",
        "--json=bench.json")  # fmt: skip
    data = json.loads((folder / "bench.json").read_text())
    return {row["name"]: row["median_s"] for row in data["contenders"]}


def pytest_benchmark(folder: Path, _: str) -> float:
    """Return the median seconds of a call of program.pdx that pytest-benchmark measures.

    The second argument is unused: test_program.py has the values already.
    """
    run(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_program.py",
        "--benchmark-json=suite.json", f"--benchmark-max-time={SECONDS}")  # fmt: skip
    seconds: float = json.loads((folder / "suite.json").read_text())["benchmarks"][0]["stats"]["median"]
    return seconds


def iree_benchmark_module(folder: Path, value: str) -> float:
    """Return the seconds of a call of program.vmfb that iree-benchmark-module measures."""
    text = run(folder, tool("iree-benchmark-module"), "--module=program.vmfb", "--function=main", "--device=local-sync",
               f"--input={value}", f"--input={value}", f"--benchmark_min_time={SECONDS}s",
               "--benchmark_format=json")  # fmt: skip
    row: dict[str, Any] = json.loads(text)["benchmarks"][0]
    return float(row["real_time"]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[row["time_unit"]]


OTHERS: dict[str, tuple[str, Callable[[Path, str], float]]] = {
    "pytest-benchmark": ("program.pdx", pytest_benchmark),
    "iree-benchmark-module": ("iree", iree_benchmark_module),
}
"""Other benchmark tool -> (contender of `pydispatch bench` that it measures too, function that returns its seconds)."""


def compare(text: str, value: str, rounds: int) -> list[dict[str, Any]]:
    """Return for each of OTHERS a dict with the seconds of a call as `pydispatch bench` and as it measured them.

    text: MLIR of the program. value: value of both arguments, such as "256x256xf32=0.5". Both take turns; seconds are
    medians over the rounds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, text, value)
        ours: list[dict[str, float]] = []
        theirs: dict[str, list[float]] = {other: [] for other in OTHERS}
        for _ in range(rounds):
            ours.append(own_bench(folder, value))  # has both contenders
            for other, (_, measured) in OTHERS.items():
                theirs[other].append(measured(folder, value))
    rows = []
    for other, (contender, _) in OTHERS.items():
        own, other_median = median(row[contender] for row in ours), median(theirs[other])
        rows.append(
            {"of": contender, "other": other, "bench_s": own, "other_s": other_median, "ratio": own / other_median}
        )
    return rows


def main() -> int:
    """Compare all programs, and return the exit code: 1 if two measurements differ by more than MOST."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    ratios = {name: compare(text, value, args.rounds) for name, (text, value) in PROGRAMS.items()}
    for name, rows in ratios.items():
        for row in rows:
            print(f"{name:22} {row['other']:22} {row['other_s'] * 1e6:10.1f} us  pydispatch bench "
                  f"{row['bench_s'] * 1e6:10.1f} us  {row['ratio']:.3f}")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(ratios, indent=1))
    return int(any(abs(row["ratio"] - 1) > MOST for rows in ratios.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
