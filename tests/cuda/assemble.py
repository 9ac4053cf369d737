"""Compiles all check files for CUDA, and ptxas assembles what comes out: `make test-ptx`.

python tests/cuda/assemble.py [--targets sm_75,sm_80,...] [--jobs N] [FILE.mlir ...]

Every PTX text of every file, for each architecture; without files, matrix products of many kinds too, in which nothing
may spill. What does not compile or is refused is listed, and the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pydispatch as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))
import check_files

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def texts(source: Path | str, targets: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(name of the member, PTX) of all texts of a program."""
    with tempfile.TemporaryDirectory() as folder:
        pd.compile(source, targets=targets).save(Path(folder, "program.pdx"))
        with zipfile.ZipFile(Path(folder, "program.pdx")) as members:
            for name in members.namelist():
                if name.endswith(".ptx"):
                    yield name, members.read(name)


def refused(text: bytes, may_spill: bool) -> str:
    """What ptxas has against a text for its own architecture, or the oldest that ptxas 13 knows; ''."""
    named = re.search(rb"^\.target\s+(sm_(\d+)\w*)", text, re.MULTILINE)
    assert named is not None
    arch = named[1].decode() if int(named[2]) >= 75 else "sm_75"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "k.ptx").write_bytes(text)
        command = ["ptxas", "-v", f"-arch={arch}", "k.ptx", "-o", "k.cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    spills = re.search(r"[1-9]\d* bytes spill", done.stderr)
    return done.stdout + done.stderr if done.returncode or (spills and not may_spill) else ""


def check(files: list[Path], products: dict[str, str], targets: tuple[str, ...], jobs: int) -> int:
    """Prints what is wrong, and how much was looked at. The exit code."""
    start, waiting, wrong = time.perf_counter(), [], []
    with ThreadPoolExecutor(jobs) as pool:
        for label, source in [*((str(file), file) for file in files), *products.items()]:
            try:
                for name, text in texts(source, targets):
                    waiting.append((label, name, pool.submit(refused, text, label not in products)))
            except pd.Error as error:
                wrong.append(f"{label}: {type(error).__name__}: {error}")
        wrong += [f"{label}: {name}: {said}" for label, name, future in waiting if (said := future.result())]
    for each in wrong:
        print(each)
    print(
        f"{len(waiting)} texts of {len(files)} files and {len(products)} products for {', '.join(targets)}: "
        f"{len(wrong)} wrong; {time.perf_counter() - start:.0f} s"
    )
    return int(bool(wrong) or not waiting)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if shutil.which("ptxas") is None:
        print("ptxas is not on PATH: it comes with the CUDA toolkit")
        return 1
    targets = tuple(options.targets.split(","))
    if options.files:
        return check(options.files, {}, targets, options.jobs)
    from test_cuda_contract_kernels import PROGRAMS

    return check(check_files.files(), PROGRAMS, targets, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
