"""The C core without Python: calls by many threads, programs and plans, loading plugins.

    python bench/core/run.py [callers] [plugin] [program] [--milliseconds N] [--json FILE]

Each is a C program of this folder, built with gcc from csrc.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parents[1] / "csrc")]

from report.figures import ROOT, Figures, Row, parser, table  # noqa: E402
from sources import host, sources  # noqa: E402

PARTS = {
    "callers": ("base", "platform", "sched"),
    "plugin": ("base", "platform", "elf", "fatelf", "plugin"),
    "program": ("base", "platform", "sched", "memory", "program"),
}
"""Name of a C program of this folder -> the folders of csrc that are compiled into it."""
FLAGS = ("-std=c11", "-O3", "-D_GNU_SOURCE", f"-I{HERE.parent}", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include",
         f"-I{ROOT}/tests/c")  # fmt: skip
"""Arguments of gcc for every program."""
PLUGIN = ROOT / "examples/plugin/simple_mul.c"
"""Source of both plugins that "plugin" loads."""


def build(part: str, folder: Path) -> Path:
    """Compile a C program of PARTS into `folder`, and return the path of the executable."""
    binary = folder / part
    own = [path for name in PARTS[part] for path in sources(ROOT / "csrc" / name, host())]
    # double.c stands in for csrc/executable: the kernels are a library in program.c.
    more = [ROOT / "tests/c/program/double.c"] if part == "program" else []
    command = ["gcc", *FLAGS, HERE / f"{part}.c", *own, *more, "-o", binary, "-pthread", "-ldl", "-lm"]
    subprocess.run(command, check=True)
    return binary


def arguments(part: str, folder: Path, milliseconds: int) -> list[str]:
    """Return the command line arguments of a program of PARTS; for "plugin", build two plugins in `folder`."""
    if part == "callers":
        return [str(milliseconds)]
    if part != "plugin":
        return []
    paths = [str(folder / name) for name in ("embedded.so", "system.so")]
    for path, more in zip(paths, ((), ("--system",)), strict=True):
        command = [sys.executable, "-m", "pydispatch", "plugin", "build", str(PLUGIN), *more, "-o", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return paths


def rows(part: str, folder: Path, milliseconds: int) -> Iterator[Row]:
    """Build and run a program of PARTS, and yield the values that it prints, see rows.h.

    milliseconds: for each figure of "callers".
    """
    command = [str(build(part, folder)), *arguments(part, folder, milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, size, workers, value, least, most, unit = line.rstrip("\n").split("\t")
            spread = (float(least), float(most))
            yield Row(name, contender="pydispatch", value=float(value), unit=unit, size=size, workers=int(workers),
                      spread=spread, against="")  # fmt: skip
    if process.returncode:
        raise RuntimeError(f"{part} ended with code {process.returncode}")


def main() -> None:
    """Build and run the chosen C programs, and print the rows of each."""
    options = parser(__doc__)
    options.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all without one")
    options.add_argument("--milliseconds", type=int, default=1000, help="for each figure of callers (1000)")
    chosen = options.parse_args()
    figures = Figures(
        "The C core without Python",
        "Medians. Callers: threads that call as often as they can, each call a job of 64 workgroups; spread: the "
        "shortest and the longest call. Programs and plans: of 11 runs of 20 ms. Plugins: of 2,001 rounds.",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for part in chosen.parts or PARTS:
            measured = list(rows(part, Path(folder), chosen.milliseconds))
            print(table(measured), flush=True)
            figures.rows += measured
    if chosen.json:
        figures.save(chosen.json)


if __name__ == "__main__":
    main()
