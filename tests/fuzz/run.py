"""Builds every libFuzzer target (tests/fuzz/fuzz_*.c) with ASAN and UBSAN and runs it on its kept corpus.

Comment lines of a target say what it needs:

    // links: base artifact            folders of csrc
    // flags: -Wl,--wrap=open          options of its own
    // corpus: elf                     the kept corpus of another target, too

New inputs go to build/fuzz/, never into the kept corpus; a crash is written to build/fuzz/<target>/ and fails the run.

    python tests/fuzz/run.py [--seconds 60] [TARGET...]

The last line is one JSON object, as tests/reliability/run.py reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "c"))

import run as c_tests  # noqa: E402


def compiler() -> str:
    """A clang whose libFuzzer runtime is installed."""
    for name in (os.environ.get("FUZZ_CC"), "clang", *(f"clang-{n}" for n in range(22, 13, -1))):
        if name and shutil.which(name):
            return name
    sys.exit("make fuzz needs clang and its runtime: apt-get install clang-14 libclang-rt-14-dev")


def notes(source: Path) -> tuple[list[str], list[str], list[Path]]:
    """The folders that a target links, its options, and the kept corpora that it begins with."""
    found = dict(re.findall(r"// (links|flags|corpus): (.*)", source.read_text()))
    names = {source.stem.removeprefix("fuzz_"), *found.get("corpus", "").split()}
    corpora = [source.parent / "corpus" / name for name in sorted(names)]
    return found.get("links", "base").split(), found.get("flags", "").split(), [c for c in corpora if c.exists()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="of the changes of inputs; 0: another each time")
    args = parser.parse_args()
    clang = compiler()
    running: list[tuple[str, subprocess.Popen[str]]] = []
    failed: list[str] = []
    for source in sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c")):
        name = source.stem.removeprefix("fuzz_")
        if args.targets and name not in args.targets:
            continue
        folder = ROOT / "build" / "fuzz" / name
        (folder / "corpus").mkdir(parents=True, exist_ok=True)
        links, flags, corpora = notes(source)
        binary = folder / "target"
        subprocess.run(
            [clang, *c_tests.BASE, "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
             *flags, str(source), *c_tests.library(links), "-o", str(binary), "-pthread", "-ldl"],
            check=True,
        )  # fmt: skip
        running.append((name, subprocess.Popen(
            [str(binary), f"-max_total_time={args.seconds}", f"-seed={args.seed}", "-max_len=65536", "-timeout=10",
             "-rss_limit_mb=2048",
             "-print_final_stats=1", f"-artifact_prefix={folder}/", str(folder / "corpus"),
             *map(str, corpora)],
            stderr=subprocess.PIPE, text=True,
        )))  # fmt: skip
    if not running:
        sys.exit("no fuzz target found")
    rows: list[dict[str, object]] = []
    for name, process in running:
        _, log = process.communicate()
        stats = dict(re.findall(r"stat::(\w+):\s*(\d+)", log))
        edges = [int(n) for n in re.findall(r" cov: (\d+)", log)]
        inputs = int(stats.get("number_of_executed_units", 0))
        rows.append({
            "name": f"fuzz {name}", "executions": inputs, "findings": int(process.returncode != 0),
            "coverage": f"{edges[-1]} edges" if edges else "", "new": edges[-1] - edges[0] if edges else 0,
        })  # fmt: skip
        print(f"{'ok  ' if process.returncode == 0 else 'FAIL'} fuzz_{name}: {inputs} inputs", flush=True)
        if process.returncode:
            failed.append(name)
            print("\n".join(log.splitlines()[-60:]), file=sys.stderr)
    print(f"{len(running) - len(failed)} passed, {len(failed)} failed")
    print(json.dumps({"rows": rows}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
