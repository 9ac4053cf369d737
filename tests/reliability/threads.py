"""Runs the C tests under TSAN again and again, in a random order: an interleaving of threads is a matter of chance.

    python tests/reliability/threads.py [--seconds 600] [--seed N]

Each test runs as often as it says before the next. The last line is one JSON object for tests/reliability/run.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import time
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def c_tests() -> ModuleType:
    """tests/c/run.py; other folders have a file of that name too."""
    spec = importlib.util.spec_from_file_location("c_tests", ROOT / "tests" / "c" / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9)
    args = parser.parse_args()
    print(f"--seed {args.seed}", flush=True)
    end, tests = time.monotonic() + args.seconds, c_tests()
    sources = [path for path in sorted((ROOT / "tests" / "c").glob("*/test_*.c")) if tests.is_wanted(path, "tsan")]
    errors = tests.compile_objects((file, "tsan") for path in sources for file in tests.linked(path, "tsan"))
    executions = findings = 0
    order = random.Random(args.seed)
    while not errors and (not executions or time.monotonic() < end):
        source = order.choice(sources)
        label, wrong, _ = tests.run_one(source, "tsan", sys.maxsize)
        executions += int(tests.notes(source)["tsan"])
        if wrong:
            findings += 1
            print(f"{label}\n{wrong}", file=sys.stderr, flush=True)
    if errors:
        findings = 1
        print(errors, file=sys.stderr)
    row = {"name": "threads", "executions": executions, "findings": findings, "coverage": f"{len(sources)} tests"}
    print(json.dumps({"rows": [row]}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
