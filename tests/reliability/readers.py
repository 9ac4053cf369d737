"""Every reader of bytes that is written in Python, on bytes that nobody wrote: only pydispatch.Error may come of them.

Each reader runs in a process of its own, guided by coverage: by atheris where that is installed, else by the lines that
`sys.settrace` sees. An input that raises anything else, takes more than STEPS lines (own engine), 20 seconds of the
processor or 4 GiB of memory is a finding; it is written to build/fuzz/python/<reader>/.

    python tests/reliability/readers.py [--seconds 600] [--engine own|atheris] [READER...]
    python tests/reliability/readers.py READER --input FILE      one input again

The last line is one JSON object, as run.py reads it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from untrusted.formats import FORMATS
from untrusted.models import MODELS
from untrusted.mutations import MAX_BYTES, mutate
from untrusted.reader import ROOT, Reader, error

READERS: dict[str, Reader] = {**FORMATS, **MODELS}
BUILD = ROOT / "build" / "fuzz" / "python"
STEPS = 3_000_000
LEAST = 50
"""Inputs that every reader gets, however short the time is."""
PACKAGE = str(ROOT / "pydispatch") + os.sep


class TooLong(BaseException):
    """The input took more lines, or more time, than any of its size should."""


# ---- running one input


def guard() -> None:
    """No input may take more than this."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    def late(number: int, frame: FrameType | None) -> None:
        raise TooLong("more than 20 seconds of the processor")

    signal.signal(signal.SIGVTALRM, late)


def attempt(reader: Reader, data: bytes) -> str:
    """Empty, or what went wrong."""
    import traceback

    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    try:
        reader.call(data)
    except error():
        return ""
    except (Exception, TooLong):
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


@contextlib.contextmanager
def tracing(seen: set[tuple[str, int, int]]) -> Iterator[None]:
    """Adds pairs of lines of pydispatch that ran one after the other; ends what takes more than STEPS of them."""
    left = STEPS

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        name, previous = frame.f_code.co_filename, 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal previous, left
            if event == "line":
                seen.add((name, previous, frame.f_lineno))
                previous = frame.f_lineno
                left -= 1
                if left < 0:
                    raise TooLong(f"more than {STEPS} lines")
            return line

        return line

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def keep(name: str, data: bytes, why: str) -> str:
    """Writes a finding down; returns its place. One for each place in the code and text without names and numbers."""
    places = re.findall(r'File "[^"]*?(\w+)\.pyx?", line (\d+)', why)
    said = re.search(r"^\w+: (.*)", why, re.M)
    text = re.sub(r"\W+", "-", re.sub(r"'[^']*'|tensor<.*?>|\d+", "", said[1] if said else ""))[:60].strip("-")
    place = f"{'-'.join(places[-1]) if places else 'unknown'}-{text}"
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"finding-{place}"
    if not path.exists():
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(why)
        print(f"FINDING {name}: {path}\n{chr(10).join(why.splitlines()[-9:])}", file=sys.stderr, flush=True)
    return place


def explore(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """The engine of our own."""
    reader, rng = READERS[name], random.Random(seed)
    corpus, seen, found, count = list(reader.seeds()), set[tuple[str, int, int]](), set[str](), 0
    guard()
    rng.shuffle(corpus)
    begin = time.monotonic()
    for data in corpus:
        if time.monotonic() - begin > seconds:
            break  # the others are changed all the same
        with tracing(seen):
            why = attempt(reader, data)
        if why:
            found.add(keep(name, data, why))
    at_start, begin = len(seen), time.monotonic()
    while count < LEAST or time.monotonic() - begin < seconds:
        data = mutate(rng, rng.choice(corpus[-40:] if rng.random() < 0.4 else corpus), corpus, reader.mutations)
        before = len(seen)
        # Most inputs run without the trace, which costs ten times the reader.
        if rng.random() < 0.3:
            with tracing(seen):
                why = attempt(reader, data)
        else:
            why = attempt(reader, data)
        count += 1
        if why:
            found.add(keep(name, data, why))
        elif len(seen) > before and len(corpus) < 5000:
            corpus.append(data)
    return {"name": f"python {name}", "executions": count, "findings": len(found), "new": len(seen) - at_start,
            "coverage": f"{len(seen)} line pairs"}  # fmt: skip


def explore_with_atheris(name: str, seconds: float) -> None:
    """Ends the process."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

    folder = BUILD / name / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["pydispatch"]):
        for seed in READERS[name].seeds():
            (folder / f"seed-{hash(seed) & 0xFFFFFFFF:08x}").write_bytes(seed)
            with contextlib.suppress(error()):
                READERS[name].call(seed)
    guard()

    def once(data: bytes) -> None:
        why = attempt(READERS[name], data)
        if why:
            keep(name, data, why)

    rng = random.Random(1)
    others = [p.read_bytes() for p in folder.iterdir()]

    def mutator(data: bytes, size: int, seed: int) -> bytes:
        rng.seed(seed)
        own = mutate(rng, data, others, READERS[name].mutations) if seed % 2 else atheris.Mutate(data, size)
        return bytes(own)[:size]

    atheris.Setup(
        [sys.argv[0], f"-max_total_time={int(seconds)}", f"-max_len={MAX_BYTES}", "-print_final_stats=1", str(folder)],
        once, custom_mutator=mutator,
    )  # fmt: skip
    atheris.Fuzz()


# ---- all readers


def run_child(name: str, engine: str, seconds: float, seed: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), name, "--child", "--engine", engine, "--seconds", str(seconds)]
    command += ["--seed", str(seed)]
    known = set((BUILD / name).glob("finding-*.txt"))
    ran = subprocess.run(command, capture_output=True, text=True)
    sys.stderr.write("".join(re.findall(r"^FINDING (?:.*\n)+", ran.stderr, re.M)))
    last = ran.stdout.splitlines()[-1] if ran.stdout.strip() else ""
    if last.startswith("{"):
        row: dict[str, Any] = json.loads(last)
    else:
        stats = dict(re.findall(r"stat::(\w+):\s*(\d+)", ran.stderr))
        edges = [int(n) for n in re.findall(r" cov: (\d+)", ran.stderr)]
        count = int(stats.get("number_of_executed_units", 0))
        new = set((BUILD / name).glob("finding-*.txt")) - known
        row = {
            "name": f"python {name}", "executions": count, "findings": len(new),
            "new": edges[-1] - edges[0] if edges else 0, "coverage": f"{edges[-1]} edges" if edges else "",
        }  # fmt: skip
    if ran.returncode:
        row["findings"] = max(1, int(row["findings"]))
        print(f"{name}: exit {ran.returncode}\n{ran.stderr[-3000:]}", file=sys.stderr)
    print(f"{'FAIL' if row['findings'] else 'ok  '} {row['name']}: {row['executions']} inputs", flush=True)
    return row


def main() -> int:
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", choices=[[], *READERS], metavar="READER", help=", ".join(READERS))
    parser.add_argument("--seconds", type=float, default=600, help="for all readers together, about")
    parser.add_argument("--engine", choices=("own", "atheris"), default="atheris" if has_atheris else "own")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the changes that are made to inputs")
    parser.add_argument("--input", type=Path, help="runs one input")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.input:
        guard()
        why = attempt(READERS[args.readers[0]], args.input.read_bytes())
        print(why or "ok")
        return bool(why)
    if args.child:
        if args.engine == "atheris":
            explore_with_atheris(args.readers[0], args.seconds)
        print(json.dumps(explore(args.readers[0], args.seconds, args.seed)))
        return 0
    names, processors = args.readers or list(READERS), os.cpu_count() or 2
    # What comes before the inputs (imports, the first inputs) takes about as long again.
    seconds = args.seconds * min(processors, len(names)) / len(names) / 2
    with ThreadPoolExecutor(max_workers=processors) as workers:
        rows = list(workers.map(lambda n: run_child(n, args.engine, seconds, args.seed), names))
    print(json.dumps({"engine": args.engine, "rows": rows}))
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
