"""Runs the node tests of the package onnx (its folder backend/test/data/node): every operator, with expected results.

    python tests/suites/onnx/run.py [--data .../onnx/backend/test/data/node] [--device cpu] [--only TEXT] [--workers 2]

Left out are tests whose inputs or results are no tensors of numbers (strings, sequences, optional values), training,
the decoding of images, numbers drawn at random, and those of `EXCEPTED`. Prints the reason of every failure, operators
that have some, and the share that passed; the exit status is 1 when it is below --least.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
LEFT_OUT = (
    "ImageDecoder", "Gradient", "Adagrad", "Adam", "Momentum", "Bernoulli", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Multinomial",
)  # fmt: skip
EXCEPTED = {
    "test_ai_onnx_ml_": "operators of the domain ai.onnx.ml",
    "test_dft_inverse": "the stored results are 2e-7 where 0 is right",
    "test_l2normalization_axis_0": "the stored result of 0 / 0 is NaN; onnxruntime gives 0",
    "test_qlinearmatmul_2D_int8": "the stored results wrap around; operators and onnxruntime saturate",
    "test_qlinearmatmul_3D_int8": "the same",
    "test_training_dropout": "random",
}
"""What names of tests begin with -> why they are left out."""

KEPT = ("test_training_dropout_zero_ratio",)  # nothing is random there


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the folder of the tests; without it that of the installed package onnx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="tests with this text in their name")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="the time limit of a test")
    parser.add_argument("--least", type=float, default=97.0, help="the share of tests that has to pass, per cent")
    parser.add_argument("--json", help="a file for the result of each test")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return _work(options.device)
    folder = Path(options.data) if options.data else _installed()
    tests = sorted(p for p in folder.iterdir() if (p / "model.onnx").is_file() and options.only in p.name)
    tests = [p for p in tests if not p.name.startswith(tuple(EXCEPTED)) or p.name.startswith(KEPT)]
    results = _run(tests, options)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return _report(results, options.least)


def _installed() -> Path:
    import onnx

    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"


# -- workers


def _run(tests: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    """The result of each test. Workers are processes; one that is silent for too long is ended, and a new one
    begins."""
    waiting: queue.Queue[Path] = queue.Queue()
    for test in tests:
        waiting.put(test)
    results: dict[str, Any] = {}
    threads = [threading.Thread(target=_drive, args=(waiting, results, options)) for _ in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(sorted(results.items()))


def _drive(waiting: queue.Queue[Path], results: dict[str, Any], options: argparse.Namespace) -> None:
    command = [sys.executable, __file__, "--worker", "--device", options.device]
    worker: subprocess.Popen[str] | None = None
    while True:
        try:
            test = waiting.get_nowait()
        except queue.Empty:
            break
        if worker is None or worker.poll() is not None:
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdin is not None and worker.stdout is not None
        limit = threading.Timer(options.seconds, worker.kill)
        limit.start()
        start = time.monotonic()
        try:
            worker.stdin.write(f"{test}\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            line = ""
        limit.cancel()
        if not line:
            worker.wait()
            late = time.monotonic() - start >= options.seconds
            line = json.dumps(
                {"status": "fail", "why": "out of time" if late else f"the process ended: {worker.returncode}"}
            )
        results[test.name] = {"operators": [], **json.loads(line)}
    if worker is not None and worker.stdin is not None:
        worker.stdin.close()
        worker.wait()


def _work(device: str) -> int:
    from case import run_case

    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        out.write(json.dumps(run_case(Path(line.strip()), device, LEFT_OUT)) + "\n")
        out.flush()
    return 0


# -- results


def _report(results: dict[str, Any], least: float) -> int:
    reasons: Counter[str] = Counter()
    by_operator: dict[str, Counter[str]] = {}
    for name, result in results.items():
        for operator in result["operators"]:
            by_operator.setdefault(operator, Counter())[result["status"]] += 1
        if result["status"] == "fail":
            print(f"FAIL {name}: {result['why']}")
            reasons[result["why"].split("\n")[0][:100]] += 1
    print("\noperator: passed of run, for those with failures")
    for operator, counts in sorted(by_operator.items()):
        if counts["fail"]:
            print(f"  {operator}: {counts['pass']} of {counts['pass'] + counts['fail']}")
    counts = Counter(result["status"] for result in results.values())
    run = counts["pass"] + counts["fail"]
    share = 100 * counts["pass"] / run if run else 0.0
    specialised = sum(bool(result.get("constants")) for result in results.values())
    print(f"\n{counts['pass']} of {run} pass ({share:.1f} %), {specialised} of them with inputs given as constants; "
          f"{counts['left out']} left out")  # fmt: skip
    return 0 if run and share >= least else 1


if __name__ == "__main__":
    sys.exit(main())
