"""All check files and tests/ops, compiled for each level of x86-64 that this CPU runs: [LEVEL...]

Exits with 3 on a machine that is no x86-64.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import check_files  # noqa: E402
import machine_levels  # noqa: E402

PYDISPATCH = [sys.executable, "-m", "pydispatch.cli"]


def compiled(file: Path, level: str) -> tuple[Path, str]:
    """The artifact of a check file, and what the compiler says against it."""
    out = ROOT / "build" / "levels" / level / f"{file.stem}.pdx"
    out.parent.mkdir(parents=True, exist_ok=True)
    words = [*PYDISPATCH, "compile", str(file), f"--cpu={level}", "-o", str(out)]
    done = subprocess.run(words, capture_output=True, text=True)
    return out, done.stderr if done.returncode else ""


def run_level(level: str) -> bool:
    """Whether everything passes."""
    files = check_files.files()
    print(f"{level}: compiling {len(files)} check files", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda file: compiled(file, level), files))
    wrong = [f"{path}: {said}" for path, said in made if said]
    print("\n".join(wrong), end="\n" if wrong else "")
    words = [*PYDISPATCH, "check", *(str(path) for path, said in made if not said)]
    checked = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    print(*(line for line in checked.stdout.splitlines() if not line.startswith("ok ")), sep="\n", flush=True)
    ops = [sys.executable, "-m", "pytest", "-n", str(os.cpu_count()), "tests/ops", "tests/test_levels.py"]
    code = subprocess.run(ops, cwd=ROOT, env={**os.environ, "PYDISPATCH_TEST_CPU": level}).returncode
    return not wrong and checked.returncode == 0 and code == 0


def main() -> int:
    asked = sys.argv[1:] or machine_levels.X86_64
    runnable = machine_levels.of_this_machine(*asked)
    if not runnable:
        print(f"this machine runs none of {', '.join(asked)}")
        return 3
    results = {level: run_level(level) for level in runnable}
    for level in asked:
        verdict = "passed" if results.get(level) else "FAILED" if level in results else "left out: not on this CPU"
        print(f"{level}: {verdict}")
    return int(not all(results.values()))


if __name__ == "__main__":
    sys.exit(main())
