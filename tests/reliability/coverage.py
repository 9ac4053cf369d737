"""Branch coverage of the readers and checkers in csrc: by the C tests and the kept and grown corpora of the fuzzers.

Everything is built with clang's source-based coverage: a branch is one condition being true or false, macros excluded.
`--python` adds the tests of tests/core, on an extension that is built for it in a copy of the tree (minutes).

    python tests/reliability/coverage.py [--uncovered] [--python] [BEGINNING OF A FILE'S PATH IN csrc...]

The last line is one JSON object: per file the branches that were taken and all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "c"), str(ROOT / "tests" / "fuzz")]

import run as c_tests  # noqa: E402

BUILD = ROOT / "build" / "coverage"
FLAGS = ["-O1", "-fprofile-instr-generate", "-fcoverage-mapping", "-mllvm", "-runtime-counter-relocation=true", "-w"]
"""With counters that can be mapped into the profile file, so that they include processes that end by _exit, as children
of forks do."""
LIBRARIES = ["-pthread", "-ldl", "-lm"]
FILES = ("elf/", "artifact/", "fatelf/", "plugin/", "sched/", "program/decode/", "program/plan/contract",
         "program/bytes", "program/opcodes")  # fmt: skip
Branch = tuple[str, int, int, int, int]
"""File, line and column of the condition, line and column of its end."""


def fuzz_runner() -> object:
    """tests/fuzz/run.py, which has the same module name as tests/c/run.py."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("fuzz_run", ROOT / "tests" / "fuzz" / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["run"] = c_tests
    spec.loader.exec_module(module)
    return module


FUZZ = fuzz_runner()
CLANG = FUZZ.compiler()  # type: ignore[attr-defined]
SUFFIX = CLANG.removeprefix("clang")


def tool(name: str) -> str:
    """llvm-cov or llvm-profdata of the compiler's own version."""
    found = shutil.which(f"{name}{SUFFIX}") or shutil.which(name)
    if not found:
        sys.exit(f"{name}{SUFFIX} is missing: apt-get install llvm{SUFFIX}")
    return found


def build_object(source: Path, flags: tuple[str, ...] = ()) -> Path:
    folder = BUILD / "obj" / (f"flags{abs(hash(flags))}" if flags else "plain")
    target = folder / source.relative_to(ROOT).with_suffix(".o")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([CLANG, *c_tests.BASE, *FLAGS, *flags, "-c", str(source), "-o", str(target)], check=True)
    return target


def run_binary(binary: Path, arguments: list[str], folder: Path) -> None:
    """Run one binary, whose counters are mapped into a file beside it (%c). A failure is only reported."""
    environment = {**os.environ, "LLVM_PROFILE_FILE": f"{binary}-%p%c.profraw"}
    ran = subprocess.run(
        [str(binary), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    if ran.returncode:
        print(f"exit {ran.returncode}: {binary.name}\n{ran.stderr[-600:]}", file=sys.stderr)


def c_test(source: Path) -> Path:
    """Builds and runs one C test."""
    note = c_tests.notes(source)
    binary = BUILD / "bin" / f"{source.parent.name}-{source.stem}"
    objects = [
        str(BUILD / "obj" / "plain" / p.relative_to(ROOT).with_suffix(".o")) for p in c_tests.linked(source, "plain")
    ]
    flags = [*FLAGS, *note.get("flags", "").split()]
    subprocess.run([CLANG, *flags, *objects, "-o", str(binary), *LIBRARIES], check=True)
    arguments = []
    if "shared" in note:
        arguments = [f"{binary}.so"]
        plugin = str(source.parent / note["shared"])
        subprocess.run([CLANG, "-shared", "-fPIC", "-DSYSTEM", "-w", plugin, "-o", *arguments], check=True)
    run_binary(binary, arguments, source.parent)
    return binary


def fuzz_target(source: Path) -> Path:
    """Builds one fuzz target and runs it over all corpora, without mutating anything."""
    name = source.stem.removeprefix("fuzz_")
    links, flags, corpora = FUZZ.notes(source)  # type: ignore[attr-defined]
    binary = BUILD / "bin" / source.stem
    sources = [str(source), *c_tests.library(links)]
    subprocess.run([CLANG, *c_tests.BASE, *FLAGS, "-fsanitize=fuzzer", *flags, *sources, "-o", str(binary), *LIBRARIES],
                   check=True)  # fmt: skip
    grown = ROOT / "build" / "fuzz" / name / "corpus"
    run_binary(binary, ["-runs=0", "-max_len=65536", *(str(c) for c in [*corpora, grown] if c.exists())], BUILD)
    return binary


def python_tests() -> list[Path]:
    """Builds the extension in a copy of the tree and runs tests/core with it."""
    tree = BUILD / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", ".venv", "*.so", "__pycache__", "corpus")
    )
    flags = " ".join(FLAGS[1:])
    environment = {
        **os.environ,
        "CC": CLANG, "CFLAGS": flags, "LDFLAGS": "-fprofile-instr-generate", "LDSHARED": f"{CLANG} -shared",
        "PYTHONPATH": str(tree), "LLVM_PROFILE_FILE": f"{BUILD}/bin/python-%p.profraw",
    }  # fmt: skip
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    with (BUILD / "extension.log").open("w") as log:
        subprocess.run(build, cwd=tree, env=environment, check=True, stdout=log, stderr=log)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core", "tests/e2e"]
    subprocess.run(tests, cwd=tree, env=environment)
    return sorted((tree / "_core").glob("*.so"))


def export(binaries: list[Path]) -> dict[Branch, tuple[int, int]]:
    """How often each condition of csrc was true and false, over all binaries."""
    merged = BUILD / "merged.profdata"
    raw = [str(p) for p in (BUILD / "bin").glob("*.profraw")]
    (BUILD / "raw.txt").write_text("\n".join(raw))
    subprocess.run(
        [tool("llvm-profdata"), "merge", "-sparse", f"-input-files={BUILD}/raw.txt", "-o", str(merged)], check=True
    )
    counts: dict[Branch, tuple[int, int]] = {}
    for binary in binaries:
        out = subprocess.run([tool("llvm-cov"), "export", "-format=text", f"-instr-profile={merged}", str(binary)],
                             capture_output=True, text=True)  # fmt: skip
        if out.returncode:
            print(f"{binary.name}: {out.stderr[-300:]}", file=sys.stderr)
            continue
        for file in json.loads(out.stdout)["data"][0]["files"]:
            _, _, inner = file["filename"].rpartition("/csrc/")
            if not inner or "/csrc/" not in file["filename"]:
                continue
            for line, column, end, end_column, yes, no, *_ in file["branches"]:
                key = (inner, line, column, end, end_column)
                before = counts.get(key, (0, 0))
                counts[key] = (before[0] + yes, before[1] + no)
    return counts


def report(counts: dict[Branch, tuple[int, int]], chosen: list[str], lists: bool) -> dict[str, list[int]]:
    """Prints the table, and with `lists` each branch that was not taken; per file the branches taken and all."""
    files: dict[str, list[int]] = {}
    for key, (yes, no) in counts.items():
        if (
            key[0].startswith(tuple(chosen))
            and key[0].endswith(".c")
            and not key[0].endswith(("_windows.c", "_macos.c"))
        ):
            taken = files.setdefault(key[0], [0, 0])
            taken[0] += bool(yes) + bool(no)
            taken[1] += 2
    totals: dict[str, list[int]] = {}
    for name, (taken, count) in sorted(files.items()):
        total = totals.setdefault(name.split("/")[0], [0, 0])
        total[0], total[1] = total[0] + taken, total[1] + count
        print(f"{name:32} {taken:5} of {count:5}  {100 * taken / count:6.2f} %")
    print()
    for name, (taken, count) in [*totals.items(), ("all", [sum(t[i] for t in totals.values()) for i in (0, 1)])]:
        print(f"{name:32} {taken:5} of {count:5}  {100 * taken / max(count, 1):6.2f} %")
    if lists:
        print()
        for (name, line, column, end, end_column), (yes, no) in sorted(counts.items()):
            if name in files and not (yes and no):
                text = (ROOT / "csrc" / name).read_text().splitlines()
                condition = text[line - 1][column - 1 : end_column - 1 if end == line else None].strip()
                never = "true or false" if not yes and not no else "true" if not yes else "false"
                print(f"csrc/{name}:{line}: never {never}: {condition}")
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--uncovered", action="store_true", help="list the branches that were not taken")
    parser.add_argument("--python", action="store_true", help="also by the Python tests of the core")
    args = parser.parse_args()
    shutil.rmtree(BUILD / "bin", ignore_errors=True)
    (BUILD / "bin").mkdir(parents=True)
    tests = [p for p in sorted((ROOT / "tests" / "c").glob("*/test_*.c")) if c_tests.is_wanted(p, "plain")]
    targets = sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c"))
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as workers:
        list(workers.map(build_object, sorted({p for t in tests for p in c_tests.linked(t, "plain")})))
        binaries = [*workers.map(c_test, tests), *workers.map(fuzz_target, targets)]
    if args.python:
        binaries += python_tests()
    files = report(export(binaries), args.files, args.uncovered)
    print(json.dumps({"branches": files}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
