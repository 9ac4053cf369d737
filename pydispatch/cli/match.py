"""Shows what specs and patterns find in a program, and what comes near, without compiling it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydispatch.cli.compile import add_match_arguments, match_options
from pydispatch.errors import Error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE.mlir", help="the program; - reads standard input")
    parser.add_argument(
        "--spec", dest="spec", action="append", default=[], metavar="FILE",
        help="a transform spec, a pdl spec or a Python file of patterns, by what it holds; repeatable",
    )  # fmt: skip
    add_match_arguments(parser)
    parser.add_argument("--no-diff", action="store_true", help="leave out what would change in the program")


def run(args: argparse.Namespace) -> int:
    """Prints matches, near misses and the diff; 1 when a match is required and there is a pattern without one."""
    try:
        from pydispatch.compiler import dry_run
    except ModuleNotFoundError as error:
        raise Error(f"matching needs {error.name}: pip install 'pydispatch[compiler]'") from None
    for spec in args.spec:
        kind = _kind(spec)
        getattr(args, kind).append(spec)
    if not (args.transform_spec or args.pdl_spec or args.patterns):
        raise Error("nothing to look for: give --spec=FILE or --patterns=FILE.py")
    source = sys.stdin.read() + "\n" if args.source == "-" else args.source
    options = match_options(args)
    options.pop("require_match")
    report, diff = dry_run.dry_run(source, **options)  # type: ignore[arg-type]
    sys.stdout.write(report.text())
    if diff and not args.no_diff:
        sys.stdout.write("\n" + diff)
    unmatched = report.unmatched
    for pattern in unmatched:
        sys.stderr.write(f"{'error' if args.require_match else 'warning'}: {pattern} matched nothing\n")
    return 1 if unmatched and args.require_match else 0


def _kind(path: str) -> str:
    """Which of the options a file belongs to."""
    if path.endswith(".py"):
        return "patterns"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"cannot read '{path}': {error.strerror}") from None
    return "pdl_spec" if "pdl.pattern" in text else "transform_spec"
