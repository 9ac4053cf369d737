"""Runs JAX's harnesses of its primitives as `pydispatch check` runs files of StableHLO's `testdata`.

    python tests/suites/harnesses/run.py [--only TEXT] [--part 0/4] [--dynamic] [--device cpu] [--keep FOLDER]

A harness is a function of JAX with arguments (`jax._src.internal_test_util.test_harnesses`); most files of `testdata`
are exports of them. All take about 40 minutes of a CPU.

A program whose floats are not within 3 units in the last place of each element, which `testdata` allows, but within 64
of the largest element (8 for floats of 16 bits), counts as rounded otherwise: sums of another order differ by as much.
Prints the reason of every failure and counts by primitive; the exit status is 1 when the share that passed, as it is
or rounded otherwise, is below --least. Left out are harnesses that JAX itself does not run on the CPU, or cannot export
with dynamic sizes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax.numpy as jnp
import numpy as np
from jax._src.internal_test_util import test_harnesses

sys.path.insert(0, str(Path(__file__).resolve().parent))
from export import Program, dynamic_program, static_program

OUTCOMES = PASSED, ROUNDED, FAILED = "passed", "rounded", "FAILED"


def _in_order(values: Any, columns: Any) -> Any:
    """Return columns in the order of the sorted values."""
    return jnp.take_along_axis(columns, jnp.argsort(values)[..., None, :], -1)


UNIQUE: dict[str, Callable[..., Any]] = {
    "eig": lambda values, *vectors: (jnp.sort(values), *(_in_order(values, jnp.abs(v)) for v in vectors)),
    "eigh": lambda vectors, values: (values, vectors * values[..., None, :] @ vectors.swapaxes(-1, -2).conj()),
    "svd": lambda s, u=None, vt=None: (
        (s,) if u is None else (s, u[..., : s.shape[-1]] * s[..., None, :] @ vt[..., : s.shape[-1], :])
    ),
}
"""Functions of results whose vectors have any phase and whose eigenvalues have any order, by primitive: programs
compute what does not depend on them."""

FILES_PER_RUN = 200
"""Programs that one `pydispatch check` runs: more are fewer starts of the compiler and a larger folder."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="harnesses with this text in their name")
    parser.add_argument("--part", default="0/1", help="K/N: of each primitive, every N-th harness from the K-th on")
    parser.add_argument("--dynamic", action="store_true", help="with dynamic sizes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=99.0, help="the share that has to pass, per cent")
    parser.add_argument("--keep", help="a folder in which the programs stay")
    options = parser.parse_args()
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    left_out: Counter[str] = Counter()
    harnesses = list(_chosen(options.only, *(int(n) for n in options.part.split("/"))))
    with tempfile.TemporaryDirectory() as temporary:
        for begin in range(0, len(harnesses), FILES_PER_RUN):
            folder = Path(options.keep or temporary) / str(begin)
            programs: dict[str, Program] = {}
            groups: dict[str, str] = {}
            for harness in harnesses[begin : begin + FILES_PER_RUN]:
                file, program = _file_name(harness), _exported(harness, options.dynamic, left_out)
                if program is not None:
                    programs[file], groups[file] = program, harness.group_name
            for file, outcome, failure in _run(programs, folder, options):
                outcomes[groups[file]][outcome] += 1
                if failure:
                    print(f"{outcome} {file}: {failure}", flush=True)
    for reason, count in left_out.most_common():
        print(f"left out: {count}, as {reason}")
    print(f"\nprimitive: {', '.join(OUTCOMES)}")
    for group, counts in sorted(outcomes.items()):
        print(f"  {group}: {', '.join(str(counts[outcome]) for outcome in OUTCOMES)}")
    passed, rounded, failed = (sum(counts[outcome] for counts in outcomes.values()) for outcome in OUTCOMES)
    total = passed + rounded + failed
    share = 100 * (passed + rounded) / max(total, 1)
    print(f"\n{passed} of {total} passed, {rounded} rounded otherwise, {failed} failed ({share:.1f} % right)")
    return 0 if total and share >= options.least else 1


def _chosen(only: str, first: int, every: int) -> Iterator[Any]:
    """Yield harnesses with `only` in their name that JAX runs on the CPU: of each group one in `every`, or one."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for harness in test_harnesses.all_harnesses:
        if harness.filter("cpu") and only in harness.fullname:
            groups[harness.group_name].append(harness)
    for group in groups.values():
        yield from group[first % min(every, len(group)) :: every]


def _file_name(harness: Any) -> str:
    """Return the name of a harness, shortened to what file systems take."""
    name = harness.fullname
    return f"{name[:200]}_{zlib.crc32(name.encode()):08x}.mlir" if len(name) > 200 else f"{name}.mlir"


def _unique(harness: Any) -> Callable[..., Any]:
    """Return the function of a harness, followed by that of `UNIQUE` if there is one."""
    after = UNIQUE.get(harness.group_name)
    return harness.dyn_fun if after is None else lambda *arguments: after(*harness.dyn_fun(*arguments))


def _exported(harness: Any, is_dynamic: bool, left_out: Counter[str]) -> Program | None:
    """Return the program of a harness; None, with the reason counted, if JAX does not run or export it."""
    generator = np.random.RandomState(zlib.crc32(harness.fullname.encode()))
    export = dynamic_program if is_dynamic else static_program
    try:
        program = export(_unique(harness), harness.dyn_args_maker(generator))
    except Exception as error:  # JAX raises errors of many classes for what it does not support
        left_out[f"JAX raises {type(error).__name__}"] += 1
        return None
    if program is None:
        left_out["no argument has a size above 1"] += 1
    return program


def _run(programs: dict[str, Program], folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield the file name, the outcome and the failure ("" if it passed) of each program.

    Programs that fail a check are run a second time with loose checks.
    """
    failures = _checked({name: program.text for name, program in programs.items()}, folder / "strict", options)
    differing = {name: programs[name].loose for name, failure in failures.items() if "check.expect_close" in failure}
    loose_failures = _checked(differing, folder / "loose", options)
    for name in programs:
        failure = failures.get(name, "`pydispatch check` has no result for this file")
        outcome = PASSED if not failure else FAILED if loose_failures.get(name, failure) else ROUNDED
        yield name, outcome, loose_failures.get(name) or failure


def _checked(texts: dict[str, str], folder: Path, options: argparse.Namespace) -> dict[str, str]:
    """Run the files of a new folder with `pydispatch check`; return the failure of each, "" if it passed."""
    if not texts:
        return {}
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    summary = folder.parent / f"{folder.name}.txt"
    words = ["check", str(folder), "--device", options.device, "--jobs", str(options.jobs), "--summary", str(summary)]
    subprocess.run([sys.executable, "-m", "pydispatch", *words], stdout=subprocess.DEVNULL, check=False)
    failures = {}
    for line in summary.read_text().splitlines():
        path, _, _, state, *reason = line.split(" ", 4)
        failures[Path(path).name] = "" if state == "ok" else " ".join(reason).replace(f"{path}:", "")
    return failures


if __name__ == "__main__":
    sys.exit(main())
