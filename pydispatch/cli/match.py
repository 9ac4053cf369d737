"""Shows matches and near misses of specs and patterns in a program, without compiling it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pydispatch.cli.compile import add_match_arguments, match_options, source_of
from pydispatch.errors import CompileError, Error
from pydispatch.files import read_text
from pydispatch.packages import importing, running

if TYPE_CHECKING:
    from types import ModuleType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="an .mlir program or a model; - reads MLIR from standard input")
    parser.add_argument(
        "--spec", dest="spec", action="append", default=[], metavar="FILE",
        help="a transform spec, a pdl spec or a Python file of patterns, by what it holds; repeatable",
    )  # fmt: skip
    add_match_arguments(parser)
    parser.add_argument("--no-diff", action="store_true", help="leave out what would change in the program")


def run(args: argparse.Namespace) -> int:
    """Print matches, near misses and the diff; return 1 if a required match is missing, else 0."""
    with importing("matching", "compiler", CompileError):
        from pydispatch.compiler.driver import dry_run
    with running("matching", "compiler", CompileError):
        return _run(args, dry_run)


def _run(args: argparse.Namespace, dry_run: ModuleType) -> int:
    """Match without compiling, and print the report; return the exit status."""
    for spec in args.spec:
        kind = _kind(spec)
        getattr(args, kind).append(spec)
    if not (args.transform_spec or args.pdl_spec or args.patterns):
        raise Error("nothing to look for: give --spec=FILE or --patterns=FILE.py")
    source = source_of(args.source)
    options = match_options(args)
    options.pop("require_match")
    report, diff = dry_run.dry_run(source, **options)
    sys.stdout.write(report.text())
    if diff and not args.no_diff:
        sys.stdout.write("\n" + diff)
    unmatched = report.unmatched
    for pattern in unmatched:
        sys.stderr.write(f"{'error' if args.require_match else 'warning'}: {pattern} matched nothing\n")
    return 1 if unmatched and args.require_match else 0


def _kind(path: str) -> str:
    """Return the option for a file by its suffix and content: patterns, pdl_spec or transform_spec."""
    if path.endswith(".py"):
        return "patterns"
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise CompileError(f"'{path}' is not text: {error}", note="a spec is MLIR text or a Python file") from None
    return "pdl_spec" if "pdl.pattern" in text else "transform_spec"
