"""Measures calls of a function, compared with other artifacts and systems; or ways to dispatch one operation.

FILE is a .pdx, or an .mlir or a model that is compiled for this CPU first. Values are written as for `pydispatch run`.
Contenders are called in turns; ratios are medians of the ratios of single rounds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch.cli.run import (
    add_loading_arguments,
    add_trace_argument,
    function_of,
    inputs_of,
    load_program,
    traced,
)
from pydispatch.errors import InvalidArgumentError
from pydispatch.files import path_of, refuse_overwriting, write

if TYPE_CHECKING:
    from pydispatch._core.function import Function
    from pydispatch._core.procedure import Procedure
    from pydispatch.bench.measure import Samples
    from pydispatch.bench.program import Work
    from pydispatch.cli.values import Value

MOST_SECONDS = 86_400
"""Maximum of --seconds and --warm-up: one day."""

MOST_OFF = 1e-2
"""Largest relative difference between results of two systems that compute the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch bench`."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a .pdx or .mlir file, or a model (.onnx, .pt2)")
    parser.add_argument(
        "--modes", nargs="?", const="", metavar="SIZE,...",
        help="instead of FILE: measure one elementwise operation, dispatched in each possible way (generated code, C, "
        "plugins, whole kernels, a host command, each device), for these numbers of elements",
    )  # fmt: skip
    parser.add_argument(
        "--plot", metavar="FILE.svg", help="plot of the times of --modes over sizes: of a call, and of an element"
    )
    add_loading_arguments(parser)
    add_trace_argument(parser)
    parser.add_argument("--function", metavar="NAME", help="function to call; default: the only one, or 'main'")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]VALUE",
        help="value of an argument; one flag for each, in order or by name",
    )
    parser.add_argument(
        "--compare", nargs="+", default=[], metavar="FILE", help="other artifacts with the same function"
    )
    parser.add_argument(
        "--peer", default="", metavar="NAME[=FILE],...",
        help="other systems to measure: iree, onnxruntime, openvino; FILE is their program, if they cannot read the "
        "first FILE",
    )  # fmt: skip
    parser.add_argument(
        "--profile", action="store_true", help="print also how long each dispatch takes; always on with --compare"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, metavar="S", help="seconds to measure each contender; default: 1"
    )
    parser.add_argument(
        "--warm-up", type=float, default=0.2, metavar="S", help="seconds of calls before measuring; default: 0.2"
    )
    parser.add_argument(
        "--items", type=float, default=1, metavar="N", help="number of items that a call computes, to print items/s"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file, too")


def run(args: argparse.Namespace) -> int:
    """Measure the contenders that `args` name and print the report.

    Returns:
        1 if the results of a contender differ, else 0.

    Raises:
        Error: A contender cannot be loaded or measured.
        OSError: A file cannot be read.
    """
    if args.modes is not None:
        _check(args)
        return _modes(args)
    if args.file is None or args.plot:
        raise InvalidArgumentError("bench: expected a FILE, or --modes; --plot is for --modes")
    _check(args)
    return _compare(args)


def _compare(args: argparse.Namespace) -> int:
    """Measure FILE and the contenders that it is compared with, and print the report.

    A contender is FILE itself, a file of --compare or a system of --peer. FILE is the first one, and the reference for
    results and ratios.

    Returns:
        1 if the results of a contender differ from those of FILE by more than MOST_OFF, else 0.
    """
    from pydispatch.bench import report
    from pydispatch.bench.measure import measure
    from pydispatch.bench.program import difference, machine

    if args.json:
        refuse_overwriting("--json", args.json, [args.file, *args.compare])
    # Load the contenders, compare their results with those of the first one, and measure them.
    with tempfile.TemporaryDirectory() as folder:
        device, name, works = _calls_to_measure(args, Path(folder))
        first = next(iter(works.values()))
        # Title → largest difference of its results from those of the first contender, relative to the largest element.
        off = {title: difference(work.results, first.results) for title, work in works.items()}
        profiles = {title: work.profile() for title, work in works.items()
                    if work.profile is not None and (args.profile or args.compare)}  # fmt: skip
        pause = 0.02 if args.peer else 0.0  # worker threads of peers spin for a while after a call
        with traced(args):
            samples = measure({title: work.call for title, work in works.items()}, args.seconds, args.warm_up, pause)
    # Report the figures: one row of the table for each contender.
    table = report.rows(samples, first.nbytes, args.items)
    for row in table:
        row["off_by"] = off[row["name"]]
        if profile := profiles.get(row["name"]):
            row.update(profile.as_dict())
    about = machine(device)
    _print(name, about, samples, table, args.items)
    _print_profiles(profiles)
    if args.json:
        _write_json(args, {"function": name, "inputs": args.input, "machine": about, "seconds": args.seconds,
                           "items": args.items, "contenders": table})  # fmt: skip
    return 1 if _print_failures(off, samples[0].name) else 0


def _check(args: argparse.Namespace) -> None:
    """Raise InvalidArgumentError if --items, --seconds or --warm-up is out of range."""
    if not 0 < args.items < float("inf"):
        raise InvalidArgumentError(f"--items={args.items:g}: expected more than 0")
    if not 0 < args.seconds <= MOST_SECONDS:
        raise InvalidArgumentError(f"--seconds={args.seconds:g}: expected more than 0, at most {MOST_SECONDS}")
    if not 0 <= args.warm_up <= MOST_SECONDS:
        raise InvalidArgumentError(f"--warm-up={args.warm_up:g}: expected 0 or more, at most {MOST_SECONDS}")


def _modes(args: argparse.Namespace) -> int:
    """Measure all ways to dispatch one operation at the sizes of `--modes`; return 0. See bench/modes."""
    from pydispatch.bench.modes import compare

    if args.file is not None or args.peer or args.compare or args.input:
        raise InvalidArgumentError("--modes: it has programs of its own; leave out FILE, --input, --compare and --peer")
    texts = args.modes.split(",") if args.modes else []
    if not all(text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31 for text in texts):
        raise InvalidArgumentError(f"--modes={args.modes}: expected numbers of elements, such as 64,1024")
    seconds_per_mode = args.seconds / 5  # there are many modes and sizes, so that each takes less than a contender
    data = compare.figures([int(text) for text in texts] or compare.SIZES, seconds_per_mode)
    print(compare.text(data))
    if args.plot:
        write("--plot", path_of("--plot", args.plot, "the path of an .svg file"), compare.picture(data).encode())
    if args.json:
        _write_json(args, data)
    return 0


def _calls_to_measure(args: argparse.Namespace, folder: Path) -> tuple[Any, str, dict[str, Work]]:
    """Load all contenders, and return the calls to measure.

    There is a call for FILE, for each file of --compare, and for each peer: another system of --peer, such as
    onnxruntime, that is measured with the same inputs.

    Args:
        args: The command line.
        folder: Empty folder for files that peers write.

    Returns:
        The device, the name of the function, and the calls by title in the order above. A title is the path of a
            program, or the name of a peer: `{"a.pdx": Work, "b.pdx": Work, "onnxruntime": Work}`.
    """
    from pydispatch.bench import peer
    from pydispatch.bench.program import work_of
    from pydispatch.runtime.device import device

    target = device(args.device)
    works: dict[str, Work] = {}
    requested_peers = peer.parse(args.peer) if args.peer else []
    for text in [args.file, *args.compare]:
        path = Path(path_of("bench", text, "the path of a .pdx or .mlir file"))
        program = load_program(path, args, cpu="native")
        function = function_of(program, args.function)
        inputs, named = _inputs(function, args.input)
        if text in works:  # titles must differ
            raise InvalidArgumentError(f"--compare: '{text}' is there twice")
        works[text] = work_of(target, function, inputs, named)
    for name, file in requested_peers:  # a peer gets inputs of the types that the last program takes
        inputs, named = _inputs(function, args.input)
        if named:
            raise InvalidArgumentError("--peer: give values in order, without names")
        program_file, workers = Path(file or args.file), int(getattr(target, "workers", 1))
        works[name] = peer.contender(name, peer.Question(program_file, function.name, inputs, workers, folder))
    return target, function.name, works


def _inputs(function: Function | Procedure, texts: list[str]) -> tuple[list[Value], dict[str, Value]]:
    """Return the positional and the named arguments that the values `texts` of `--input` give to `function`.

    The arrays are new, so that no contender changes those of another. Each contender has its own reader, since `+file`
    and `*file` continue where the reader stopped: so all contenders read the same arrays.
    """
    from pydispatch.cli import values

    reader = values.Reader()
    try:
        return inputs_of(function, texts, reader)
    finally:
        reader.close()


def _print(name: str, about: dict[str, Any], samples: list[Samples], table: list[Any], items: float) -> None:
    """Print the report of one measurement.

    Args:
        name: Name of the function.
        about: Properties of the device and the machine.
        samples: Measured times of each contender.
        table: Rows of the report, as `report.rows` returns them.
        items: Number of items that one call computes; with 1 the table has calls per second, else items per second.
    """
    from pydispatch.bench import report

    system = ", ".join(str(value) for value in (about.get("model"), about["system"]) if value)
    workers = about.get("workers")
    device = f"{about['device']} with {workers} workers" if workers else about["device"]
    print(f"@{name} on {device} ({system}), {len(samples[0].seconds)} rounds in turns")
    print(report.text(table, "calls" if items == 1 else "items"))


def _print_profiles(profiles: dict[str, Any]) -> None:
    """Print how long the dispatches of contenders take, side by side if there are several profiles."""
    from pydispatch.bench import report

    if len(profiles) > 1:
        print("\n" + report.profiles(profiles))
    elif profiles:
        print(f"\n{next(iter(profiles.values()))}")


def _print_failures(off: dict[str, float], reference: str) -> bool:
    """Print the contenders whose results differ by more than MOST_OFF, and return whether there are any.

    `off` has the relative difference of each contender's results from those of the contender `reference`.
    """
    wrong = [title for title, value in off.items() if value > MOST_OFF]
    for title in wrong:
        print(f"[FAILED] {title}: results differ from those of {reference} by {off[title]:.2g} of the largest element")
    return bool(wrong)


def _write_json(args: argparse.Namespace, data: dict[str, Any]) -> None:
    """Write figures to the file of `--json`."""
    write("--json", path_of("--json", args.json, "the path of a file"), json.dumps(data, indent=1).encode())
