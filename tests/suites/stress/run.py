"""The stress tests of `make test`, for longer."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TSAN = [("sched/test_task", "600"), ("sched/test_stress", "1500"), ("sched/test_fork", "50"), ("api/test_stress", "40")]
"""Programs of tests/c and their number of rounds."""
DEVICES = ("cpu?workers=3", "cpu?workers=8", "local-sync")

sys.path.insert(0, str(ROOT / "tests" / "c"))
import run  # noqa: E402

FOLDERS = sorted({name.split("/")[0] for name, _ in TSAN})
commands = [[sys.executable, str(ROOT / "tests" / "c" / "run.py"), *FOLDERS]]
commands += [[str(run.BUILD / "tsan" / name), rounds] for name, rounds in TSAN]
commands += [[sys.executable, str(ROOT / "tests" / "runtime" / "stress.py"), "--device", name] for name in DEVICES]
for command in commands:
    print(*command, flush=True)
    code = subprocess.run(command, env={**run.os.environ, **run.ENVIRONMENT}).returncode
    if code:
        sys.exit(code)
