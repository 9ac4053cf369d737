"""Builds and runs every C unit test: plain, under ASAN+UBSAN, and under TSAN where a test asks for it.

A test is tests/c/<subject>/test_*.c with a main that returns 0. Comment lines at its top say what it needs:

    // links: base platform elf        folders of csrc
    // tsan: 20                        also under TSAN, this many times with --repeat, a few times without
    // with: helper.c                  further files of its folder
    // flags: -Wl,--wrap=malloc        for its linker
    // shared: plugin.c                a shared library whose path it is given, with -DSYSTEM
    // skip-generic: why               not on the files for unknown systems
    // extended: what                  only in the build that counts work and has a command REVERSE

    python tests/c/run.py [SUBJECT...] [--plain | --generic | --tsan] [--changed [FILE...]] [--repeat]

--changed runs only the tests that are built from one of the files, by default of those that git says are changed.

Objects stay in build/ctest, and are compiled again when a file that they were compiled from is newer. A mode that only
defines macros shares the objects of files that use none of them. The mode without either has the objects of csrc that
the package is made of, where setup.py has compiled them.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "csrc"))
from sources import INCLUDES, host, sources, with_headers  # noqa: E402

TESTS = ROOT / "tests" / "c"
BUILD = ROOT / "build" / "ctest"
PACKAGE = ROOT / "build" / "objects" / "plain"
"""The objects of setup.py, with the same warnings as errors and more optimization."""
CC = os.environ.get("CC", "gcc")
BASE = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g1", f"-I{ROOT}/csrc/include", f"-I{ROOT}/csrc",
        f"-I{TESTS}"]  # fmt: skip
MODES = {
    "plain": ["-O2"],
    "asan": [
        "-O0",  # less than half the time of -O1 to compile, which is most of the time of these tests
        "-fsanitize=address,undefined,float-cast-overflow",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
    ],
    "tsan": ["-O1", "-fsanitize=thread"],
}
MACROS = {
    "generic": ("plain", ["-DPYD_PLATFORM_GENERIC"]),
    "extended": ("asan", ["-DPYD_COUNTS_WORK", "-DPYD_MORE_COMMANDS(X)=X(REVERSE, 84)"]),
}
"""Modes that are another mode with more macros."""
MODES |= {mode: [*MODES[base], *macros] for mode, (base, macros) in MACROS.items()}
# What touches the system. These also run on the files for unknown systems, whose C library is all they need.
GENERIC = ("artifact", "elf", "executable", "plugin", "program", "sched")
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1",
    "TSAN_OPTIONS": "halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
FEW = 2
"""Runs under TSAN without --repeat, at most. `make reliability` repeats them for longer."""


@functools.cache
def notes(source: Path) -> dict[str, str]:
    """The `// key: value` lines of a test's first 20 lines."""
    head = source.read_text().splitlines()[:20]
    pattern = re.compile(r"// (links|tsan|with|flags|shared|skip-generic|extended): ?(.*)")
    return {m[1]: m[2].strip() for line in head if (m := pattern.match(line))}


def library(folders: list[str], system: str = "") -> list[str]:
    """The sources of folders of csrc for a system, this one by default."""
    return [str(p) for f in folders for p in sources(ROOT / "csrc" / f, system or host())]


def linked(source: Path, mode: str) -> list[Path]:
    """The files that a test is built from: its own, and those of csrc."""
    note, system = notes(source), "generic" if mode == "generic" else host()
    own = [source, *(source.parent / name for name in note.get("with", "").split())]
    if mode == "generic":
        own.append(TESTS / "executable_heap.c")
    return [*map(Path.resolve, own), *map(Path, library(note.get("links", "base").split(), system))]


def is_wanted(source: Path, mode: str) -> bool:
    """Whether a test runs in a mode."""
    note = notes(source)
    if "extended" in (mode, *note):
        return mode == "extended" and "extended" in note
    if mode == "generic":
        return source.parent.name in GENERIC and "skip-generic" not in note
    return mode != "tsan" or "tsan" in note


def read_for(source: Path) -> frozenset[Path]:
    """Return a file and those of this project that it includes, directly or not."""
    return with_headers(source, (*INCLUDES, TESTS))


@functools.cache
def shared_mode(source: Path, mode: str) -> str:
    """The mode whose object a mode uses: another one where no file that is read has a macro of this one."""
    if mode not in MACROS:
        return mode
    base, flags = MACROS[mode]
    macros = re.compile("|".join(re.findall(r"(?<=-D)\w+", " ".join(flags))))
    return mode if any(macros.search(path.read_text()) for path in read_for(source)) else base


@functools.cache
def object_of(source: Path, mode: str) -> Path:
    """Return where the object of a file for a mode is, or is to be."""
    mode, name = shared_mode(source, mode), source.relative_to(ROOT).with_suffix(".o")
    if mode == "plain" and "CC" not in os.environ:
        inputs = (*read_for(source), ROOT / "setup.py")
        if not is_older(PACKAGE / name, inputs):
            return PACKAGE / name
    return BUILD / mode / "obj" / name


def is_older(target: Path, inputs: Iterable[Path]) -> bool:
    """Return whether a file is missing, or an input is newer."""
    return not target.exists() or target.stat().st_mtime < max(p.stat().st_mtime for p in inputs)


def is_stale(target: Path, inputs: Iterable[Path]) -> bool:
    """Whether a file has to be built: it is missing, or an input or the flags in this file are newer."""
    return is_older(target, (*inputs, Path(__file__)))


def has_tested_code(source: Path) -> bool:
    """Return whether a file is a source of csrc or includes one, whose races show in optimized code only."""
    return any(path.suffix == ".c" and TESTS not in path.parents for path in read_for(source))


def compile_object(source: Path, mode: str) -> str:
    """The error text of compiling one file for a mode; nothing is done when its object is up to date."""
    target = object_of(source, mode)
    if PACKAGE in target.parents or not is_stale(target, read_for(source)):
        return ""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}.o")  # a test of Python may build the same object
    level = [] if has_tested_code(source) else ["-O0"]  # a third of the time to compile
    command = [CC, *BASE, *MODES[shared_mode(source, mode)], *level, "-c", str(source), "-o", str(fresh)]
    built = subprocess.run(command, capture_output=True, text=True)
    if not built.returncode:
        fresh.replace(target)
    return built.stderr


def compile_objects(files: Iterable[tuple[Path, str]]) -> str:
    """The error text of compiling files for modes, several at a time."""
    needed = {object_of(source, mode): (source, mode) for source, mode in files}
    with ThreadPoolExecutor(processors()) as workers:
        return "".join(workers.map(lambda item: compile_object(*item), needed.values()))


def link(source: Path, mode: str) -> tuple[list[str], str]:
    """The command that runs a test, whose objects there are, and the error text of linking it."""
    note, binary = notes(source), BUILD / mode / source.parent.name / source.stem
    binary.parent.mkdir(parents=True, exist_ok=True)
    objects = [object_of(path, mode) for path in linked(source, mode)]
    errors = ""
    if is_stale(binary, objects):
        flags = ["-pthread", "-ldl", "-lm", *note.get("flags", "").split()]
        command = [CC, *MODES[mode], *map(str, objects), "-o", str(binary), *flags]
        errors = subprocess.run(command, capture_output=True, text=True).stderr
    if "shared" not in note:
        return [str(binary)], errors
    shared, plugin = binary.with_suffix(".so"), source.parent / note["shared"]
    if is_stale(shared, read_for(plugin)):
        command = [CC, "-shared", "-fPIC", "-O1", "-DSYSTEM", str(plugin), "-o", str(shared)]
        errors += subprocess.run(command, capture_output=True, text=True).stderr
    return [str(binary), str(shared)], errors


def run_one(source: Path, mode: str, repeat: int = FEW) -> tuple[str, str, float]:
    """Links and runs one test in one mode, under TSAN several times: (label, what failed, seconds)."""
    start = time.monotonic()
    label = f"{source.parent.name}/{source.stem} [{mode}]"
    command, errors = link(source, mode)
    times = min(repeat, int(notes(source)["tsan"])) if mode == "tsan" else 1
    for _ in range(0 if errors else times):
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=source.parent,
                                 env={**os.environ, **ENVIRONMENT})  # fmt: skip
        except subprocess.TimeoutExpired:
            errors = "no end after 300 s"
            break
        if ran.returncode:
            errors = f"exit {ran.returncode}\n{ran.stdout}{ran.stderr}"
            break
    return label, errors, time.monotonic() - start


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def changed_files() -> list[Path]:
    """Those that git says are changed or new."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / line[3:].rpartition(" -> ")[2] for line in lines]


def is_affected(source: Path, mode: str, changed: set[Path]) -> bool:
    """Whether a test is built from one of the files."""
    return any(read_for(path) & changed for path in linked(source, mode))


def jobs_of(args: argparse.Namespace) -> list[tuple[Path, str]]:
    """The tests and their modes that the command line chooses."""
    chosen = [mode for mode in ("plain", "generic", "tsan") if getattr(args, mode)]
    jobs = [
        (source, mode)
        for source in sorted(TESTS.glob("*/test_*.c"))
        if not args.subjects or source.parent.name in args.subjects
        for mode in chosen or MODES
        if is_wanted(source, mode)
    ]
    if args.changed is not None:
        changed = {Path(name).resolve() for name in args.changed or changed_files()}
        jobs = [(source, mode) for source, mode in jobs if is_affected(source, mode, changed)]
    return jobs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    parser.add_argument("--generic", action="store_true", help="only with the files for unknown systems")
    parser.add_argument("--tsan", action="store_true", help="only under TSAN")
    parser.add_argument("--repeat", action="store_true", help="as often under TSAN as each test says")
    parser.add_argument("--changed", nargs="*", metavar="FILE", help="tests built from these, or from changed files")
    args = parser.parse_args()
    jobs = jobs_of(args)
    if not jobs:
        print("no C test found", file=sys.stderr)
        return 0 if args.changed is not None else 1
    errors = compile_objects((path, mode) for source, mode in jobs for path in linked(source, mode))
    if errors:
        print(errors, file=sys.stderr)
        return 1
    failed, repeat = 0, sys.maxsize if args.repeat else FEW
    with ThreadPoolExecutor(processors()) as workers:
        for label, wrong, seconds in workers.map(lambda job: run_one(*job, repeat), jobs):
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'ok  '} {label}  {seconds:.1f} s", flush=True)
            if wrong:
                print(wrong, file=sys.stderr, flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
