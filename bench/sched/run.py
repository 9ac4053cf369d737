"""The task system beside OpenMP and oneTBB: `python bench/sched/run.py [--json FILE] [--only TEXT]`.

Each contender is a program of its own: rounds.c with a file of this folder. They alternate, and one begins when the one
before uses no more CPU time. Those that cannot be built are listed, with what they need.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parents[1] / "csrc")]

from report.figures import ROOT, Figures, Row, parser, table  # noqa: E402
from sources import host, sources  # noqa: E402

FLAGS = ("-O3", "-march=native", "-D_GNU_SOURCE", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include", f"-I{HERE}")
"""Arguments of every compiler."""
CALIBRATION = 10_000_000
"""Passes through the work loop by which its duration is measured."""


@dataclass(frozen=True)
class Contender:
    """A system with one of its ways to share a loop.

    Attributes:
        name: Name in the report.
        source: Its file in this folder.
        compiler, flags: The compiler's command, and its arguments besides FLAGS.
        variant: The way to share, as the system's program reads it, such as "static"; "" for the only one.
        needs: Programs and libraries that must be installed, for the message if the build fails.
    """

    name: str
    source: str
    compiler: str
    flags: Sequence[str]
    variant: str
    needs: str


@dataclass(frozen=True)
class Case:
    """A grid (a parallel loop over indices) that contenders run repeatedly.

    Attributes:
        name: Name in the report.
        pattern: Work of an index, one of those in rounds.c: "empty", "even", "ramp", "heavy", "meet" or "idle".
        size: The amount of work, or of indices, as text for the report.
        count: Number of indices.
        nanoseconds: Work of all indices together, as time on one thread.
        pause: Microseconds between grids; 0 to start them at once.
        spinning: Number of threads that compute something else meanwhile.
        twice: Whether there are twice as many workers as CPUs, instead of as many.
    """

    name: str
    pattern: str
    size: str
    count: int
    nanoseconds: float
    pause: int = 0
    spinning: int = 0
    twice: bool = False


def contenders() -> list[Contender]:
    """Return all contenders, installed or not; the first one runs the loop on one thread."""
    core = [str(path) for name in ("base", "platform", "sched") for path in sources(ROOT / "csrc" / name, host())]
    clang = next(
        (program for program in ("clang", "clang-19", "clang-16", "clang-14") if shutil.which(program)), "clang"
    )
    tbb = tuple(flag for folder in tbb_folders() for flag in
                (f"-I{folder}/include", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib"))  # fmt: skip
    gomp, omp = "gcc with libgomp", "clang with libomp: apt-get install clang libomp-dev"
    # Name, source, compiler, flags, variant, what must be installed.
    return [
        Contender("one thread", "alone.c", "gcc", (), "", "gcc"),
        Contender("pydispatch", "pydispatch.c", "gcc", tuple(core), "", "gcc"),
        Contender("libgomp static", "openmp.c", "gcc", ("-fopenmp",), "static", gomp),
        Contender("libgomp dynamic", "openmp.c", "gcc", ("-fopenmp",), "dynamic", gomp),
        Contender("libgomp guided", "openmp.c", "gcc", ("-fopenmp",), "guided", gomp),
        Contender("libomp static", "openmp.c", clang, ("-fopenmp",), "static", omp),
        Contender("libomp guided", "openmp.c", clang, ("-fopenmp",), "guided", omp),
        Contender("oneTBB", "tbb.cc", "g++", (*tbb, "-ltbb"), "", "g++ and oneTBB: pip install tbb-devel"),
        Contender("oneTBB static", "tbb.cc", "g++", (*tbb, "-ltbb"), "static", "g++ and oneTBB: pip install tbb-devel"),
    ]


def tbb_folders() -> list[str]:
    """Return the folders in which pip has installed headers and libraries of oneTBB, with and without --target."""
    return [folder for folder in (sysconfig.get_path("data"), *sys.path) if (Path(folder) / "include/oneapi").is_dir()]


def cases(workers: int) -> list[Case]:
    """Return the grids that are measured with so many workers; with one, only those that show the cost of a call."""
    us, ms = 1e3, 1e6  # in nanoseconds
    chosen = [Case("empty grid", "empty", f"{n:,}", n, 0) for n in (64, 1024, 16384, 262144)]
    if workers > 1:
        chosen += [Case("threads meet, called at once", "meet", "", workers, 0)]
        chosen += [Case("threads meet, called after 300 us", "meet", "", workers, 0, pause=300)]
    equal = "64 equal indices, called"
    works = ((2 * us, "2 us"), (8 * us, "8 us"), (32 * us, "32 us"), (128 * us, "128 us"), (1 * ms, "1 ms"))
    chosen += [Case(f"{equal} at once", "even", size, 64, time) for time, size in works]
    if workers > 1:
        chosen += [Case(f"{equal} after 300 us", "even", size, 64, time, pause=300) for time, size in works]
        uneven = ((32 * us, "32 us"), (200 * us, "200 us"), (2 * ms, "2 ms"))
        chosen += [Case("256 growing indices", "ramp", size, 256, time) for time, size in uneven]
        chosen += [Case("64 indices, a quarter of all work in one", "heavy", size, 64, time) for time, size in uneven]
        chosen += [Case("CPU time of a grid until all is idle", "idle", "128 us", 64, 128 * us)]
        busy = ((100 * us, "100 us"), (1 * ms, "1 ms"), (9 * ms, "9 ms"))
        chosen += [Case("beside a spinning thread", "even", size, 256, time, spinning=1) for time, size in busy]
        chosen += [Case("twice as many workers as CPUs", "even", size, 256, time, twice=True) for time, size in busy]
    return chosen


class Program:
    """Process of a contender that runs grids on a fixed number of workers, as lines on its standard input say."""

    def __init__(self, contender: Contender, binary: Path, workers: int) -> None:
        """Start `binary`, the contender's program, which waits for rounds on its standard input."""
        self.name = contender.name
        self.process = subprocess.Popen(
            [binary, str(workers), contender.variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def round(self, case: Case, turns: int, seconds: float) -> float:
        """Measure a grid for `seconds`, and return its median duration in seconds. turns: passes through the work loop.

        Raises:
            RuntimeError: The process has ended.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{case.pattern} {case.count} {turns} {case.pause} {case.spinning} {seconds}\n")
        stdin.flush()
        answer = stdout.readline().split()
        if len(answer) != 2:
            raise RuntimeError(f"{self.name} ended with code {self.process.wait()} in '{case.name}' of {case.size}")
        return float(answer[0]) * 1e-9

    def close(self) -> None:
        """Close the standard input of the program, which ends it, and wait for that."""
        self.process.communicate()


def build(contender: Contender, folder: Path) -> Path | None:
    """Compile a contender and return its program; None when compiler, headers or library are missing.

    Variants of a source share a program.

    Raises:
        RuntimeError: Ours does not compile.
    """
    if shutil.which(contender.compiler) is None:
        return None
    binary = folder / f"{contender.compiler}_{Path(contender.source).stem}"
    if binary.exists():
        return binary
    common = folder / "rounds.o"
    steps = [["gcc", "-std=c11", *FLAGS, "-c", str(HERE / "rounds.c"), "-o", str(common)]]
    language = () if contender.source.endswith(".cc") else ("-std=c11",)
    steps.append([contender.compiler, *language, *FLAGS, str(HERE / contender.source), str(common), *contender.flags,
                  "-pthread", "-o", str(binary)])  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode and contender.name == "pydispatch":
            raise RuntimeError(done.stderr)
        if done.returncode:  # headers or a library of another contender are missing
            return None
    return binary


def compare(case: Case, programs: Sequence[Program], workers: int, turns: int, options: Namespace) -> list[Row]:
    """Measure a grid with all programs in turns, whose order is reversed each time; return a row for each."""
    seconds: dict[str, list[float]] = {program.name: [] for program in programs}
    for repetition in range(options.rounds):
        for program in programs if repetition % 2 == 0 else reversed(programs):
            seconds[program.name].append(program.round(case, turns, options.seconds))
    ordered = {name: sorted(times) for name, times in seconds.items()}
    # The spread leaves out the best and the worst round.
    return [
        Row(case.name, name, statistics.median(times), size=case.size, workers=workers, spread=(times[1], times[-2]))
        for name, times in ordered.items()
    ]


def calibrated(contender: Contender, binary: Path) -> float:
    """Return the nanoseconds that a pass through the work loop takes, the least of five rounds on one thread."""
    program = Program(contender, binary, 1)
    case = Case("calibration", pattern="even", size="", count=1, nanoseconds=0)
    seconds = min(program.round(case, turns=CALIBRATION, seconds=0.05) for _ in range(5))
    program.close()
    return seconds * 1e9 / CALIBRATION


def measured(
    group: Sequence[Case], binaries: Mapping[Contender, Path], workers: int, per_turn: float, options: Namespace
) -> Iterator[list[Row]]:
    """Yield the rows of each case.

    Args:
        group: Cases that are measured with the same number of workers.
        binaries: The program of each contender.
        workers: Number of workers of each program.
        per_turn: Nanoseconds of a pass through the work loop.
        options: Arguments of the script.
    """
    if not group:  # start no processes
        return
    programs = [Program(contender, binary, workers) for contender, binary in binaries.items()]
    for case in group:
        # In "meet" each index waits for all others, so that one thread would wait without end.
        usable = [program for program in programs if case.pattern != "meet" or program.name != "one thread"]
        yield compare(case, usable, workers, round(case.nanoseconds / per_turn), options)
    for program in programs:
        program.close()


def main() -> int:
    """Build the contenders that can be built, and measure all cases with each number of workers."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=0.02, help="of a round (0.02)")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--workers", type=int, nargs="*", default=sorted({1, len(os.sched_getaffinity(0))}))
    arguments.add_argument("--only", default="", help="cases whose name has this text")
    options = arguments.parse_args()
    figures = Figures(
        "Loops on several threads",
        f"Medians of {options.rounds} rounds of {options.seconds:g} s; spread: all rounds without the best and the "
        "worst. Each contender is a process; they alternate, and one begins when the one before is idle. OpenMP and "
        "oneTBB have their defaults; gcc, g++ and clang -O3 -march=native. An index is a call by address.",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = {contender: build(contender, folder) for contender in contenders()}
        figures.missing = list(dict.fromkeys(c.needs for c, binary in built.items() if binary is None))
        binaries = {contender: binary for contender, binary in built.items() if binary}
        per_turn = calibrated(next(iter(binaries)), next(iter(binaries.values())))
        for workers in options.workers:
            chosen = [case for case in cases(workers) if options.only in case.name]
            one_per_cpu = [case for case in chosen if not case.twice]
            two_per_cpu = [case for case in chosen if case.twice]
            for count, group in ((workers, one_per_cpu), (2 * len(os.sched_getaffinity(0)), two_per_cpu)):
                for rows in measured(group, binaries, count, per_turn, options):
                    print(table(rows), flush=True)
                    figures.rows += rows
    for missing in figures.missing:
        print(f"missing: {missing}")
    if options.json:
        figures.save(options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
