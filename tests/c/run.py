"""Builds and runs every C unit test: plain, under ASAN+UBSAN, and under TSAN where a test asks for it.

A test is tests/c/<subject>/test_*.c with a main that returns 0. Comment lines at its top say what it needs:

    // links: base platform elf        folders of csrc
    // tsan: 20                        also under TSAN, this many times
    // with: helper.c                  further files of its folder
    // flags: -Wl,--wrap=malloc        for its linker
    // shared: plugin.c                a shared library whose path it is given, with -DSYSTEM
    // skip-generic: why               not on the files for unknown systems
    // counting: what                  only in a build that counts this
    // command: what                   only in a build that has a kind of command of its own, REVERSE

    python tests/c/run.py [SUBJECT...] [--plain | --generic]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "csrc"))
from sources import host, sources  # noqa: E402

BUILD = ROOT / "build" / "ctest"
CC = os.environ.get("CC", "gcc")
BASE = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", f"-I{ROOT}/csrc/include", f"-I{ROOT}/csrc",
        f"-I{ROOT}/tests/c"]  # fmt: skip
MODES = {
    "plain": ["-O2"],
    "asan": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
    "tsan": ["-O1", "-fsanitize=thread"],
    "generic": ["-O2", "-DPYD_PLATFORM_GENERIC"],
    "counting": ["-O1", "-DPYD_COUNTS_WORK"],
    "command": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                "-DPYD_MORE_COMMANDS(X)=X(REVERSE, 84)"],
}  # fmt: skip
# What runs only the tests that ask for it, and is all that these run in.
SPECIAL = ("counting", "command")
# What touches the system. These also run on the files for unknown systems, whose C library is all they need.
GENERIC = ("artifact", "elf", "executable", "plugin", "program", "sched")
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1",
    "TSAN_OPTIONS": "halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def notes(source: Path) -> dict[str, str]:
    """The `// key: value` lines of a test's first 20 lines."""
    head = source.read_text().splitlines()[:20]
    pattern = re.compile(r"// (links|tsan|with|flags|shared|skip-generic|counting|command): ?(.*)")
    return {m[1]: m[2].strip() for line in head if (m := pattern.match(line))}


def library(folders: list[str], system: str = "") -> list[str]:
    """The sources of folders of csrc for a system, this one by default."""
    return [str(p) for f in folders for p in sources(ROOT / "csrc" / f, system or host())]


def linked(source: Path, mode: str) -> list[Path]:
    """The files of csrc that a test is linked with."""
    system = "generic" if mode == "generic" else host()
    return [Path(p) for p in library(notes(source).get("links", "base").split(), system)]


def is_wanted(source: Path, mode: str) -> bool:
    """Whether a test runs in a mode."""
    note = notes(source)
    if mode in SPECIAL or any(special in note for special in SPECIAL):
        return mode in note
    if mode == "generic":
        return source.parent.name in GENERIC and "skip-generic" not in note
    return mode != "tsan" or "tsan" in note


def newest_header() -> float:
    """When any header changed last: objects older than that are stale."""
    return max(p.stat().st_mtime for folder in ("csrc", "tests/c") for p in (ROOT / folder).rglob("*.h"))


def compile_object(source: Path, mode: str, headers: float) -> str:
    """The error text of compiling one file of csrc for a mode; nothing is done when its object is up to date."""
    target = object_of(source, mode)
    if target.exists() and target.stat().st_mtime > max(source.stat().st_mtime, headers):
        return ""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [CC, *BASE, *MODES[mode], "-c", str(source), "-o", str(target)]
    return subprocess.run(command, capture_output=True, text=True).stderr


def object_of(source: Path, mode: str) -> Path:
    return BUILD / mode / "obj" / source.relative_to(ROOT).with_suffix(".o")


def run_one(source: Path, mode: str) -> tuple[str, bool, str, float]:
    """Builds and runs one test in one mode: (label, passed, output, seconds)."""
    start = time.monotonic()
    note = notes(source)
    label = f"{source.parent.name}/{source.stem} [{mode}]"
    binary = BUILD / mode / source.parent.name / source.stem
    binary.parent.mkdir(parents=True, exist_ok=True)
    extra = [str(source.parent / name) for name in note.get("with", "").split()]
    if mode == "generic":
        extra.append(str(ROOT / "tests" / "c" / "executable_heap.c"))
    objects = [str(object_of(p, mode)) for p in linked(source, mode)]
    arguments = []
    command = [CC, *BASE, *MODES[mode], str(source), *extra, *objects, "-o", str(binary), "-pthread", "-ldl", "-lm",
               *note.get("flags", "").split()]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True)
    if "shared" in note and not built.returncode:
        arguments = [str(binary.with_suffix(".so"))]
        command = [CC, "-shared", "-fPIC", "-O1", "-DSYSTEM", str(source.parent / note["shared"]), "-o", *arguments]
        built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        return label, False, built.stderr, time.monotonic() - start
    for _ in range(int(note.get("tsan", "1")) if mode == "tsan" else 1):
        try:
            ran = subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=300,
                                 cwd=source.parent, env={**os.environ, **ENVIRONMENT})  # fmt: skip
        except subprocess.TimeoutExpired:
            return label, False, "no end after 300 s", time.monotonic() - start
        if ran.returncode:
            return label, False, f"exit {ran.returncode}\n{ran.stdout}{ran.stderr}", time.monotonic() - start
    return label, True, "", time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    parser.add_argument("--generic", action="store_true", help="only with the files for unknown systems")
    args = parser.parse_args()
    tests = sorted((ROOT / "tests" / "c").glob("*/test_*.c"))
    modes = ["plain"] if args.plain else ["generic"] if args.generic else list(MODES)
    jobs = [
        (source, mode)
        for source in tests
        if not args.subjects or source.parent.name in args.subjects
        for mode in modes
        if is_wanted(source, mode)
    ]
    if not jobs:
        print("no C test found", file=sys.stderr)
        return 1
    failed = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as workers:
        headers = newest_header()
        needed = {(path, mode) for source, mode in jobs for path in linked(source, mode)}
        for errors in workers.map(lambda item: compile_object(*item, headers), sorted(needed)):
            if errors:
                print(errors, file=sys.stderr)
        for label, passed, output, seconds in workers.map(lambda job: run_one(*job), jobs):
            failed += not passed
            print(f"{'ok  ' if passed else 'FAIL'} {label}  {seconds:.1f} s", flush=True)
            if output:
                print(output, file=sys.stderr, flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
