"""Shows matches and near misses of specs and patterns in a program, without compiling it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pydispatch.cli.compile import source_of
from pydispatch.cli.options import MATCH, add_flags, options_of
from pydispatch.errors import CompileError, Error
from pydispatch.files import read_text
from pydispatch.packages import importing, running

if TYPE_CHECKING:
    from types import ModuleType


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch match`."""
    parser.add_argument("source", metavar="FILE", help="an .mlir program or a model; - reads MLIR from standard input")
    parser.add_argument(
        "--spec", dest="spec", action="append", default=[], metavar="FILE",
        help="a transform spec, a PDL spec or a Python file of patterns, recognized by its content; repeatable",
    )  # fmt: skip
    add_flags(parser, MATCH)
    parser.add_argument("--no-diff", action="store_true", help="leave out what would change in the program")


def run(args: argparse.Namespace) -> int:
    """Print matches, near misses and the diff; return 1 if a required match is missing, else 0."""
    with importing("matching", "compiler", CompileError):
        from pydispatch.compiler.driver import dry_run
    with running("matching", "compiler", CompileError):
        return _run(args, dry_run)


def _run(args: argparse.Namespace, dry_run: ModuleType) -> int:
    """Match patterns without compiling; print the matches, the near misses and the diff of the program.

    Args:
        args: The command line.
        dry_run: The module `compiler.driver.dry_run`, which `run` imports late, because it loads the compiler.

    Returns:
        1 if a pattern matches nothing and --require-match is given, else 0.
    """
    # --spec=p.py means --patterns=p.py, and so on: suffix and content tell which of three options a file is for.
    for spec in args.spec:
        option = _option_of(spec)
        setattr(args, option, [*getattr(args, option, []), spec])
    source, options = source_of(args.source), options_of(args, MATCH)
    is_required = options.pop("require_match", False)  # no option of dry_run(): a missing match is reported below
    if not options:
        raise Error("nothing to look for: give --spec=FILE or --patterns=FILE.py")
    report, diff = dry_run.dry_run(source, **options)
    sys.stdout.write(report.text())
    if diff and not args.no_diff:
        sys.stdout.write("\n" + diff)
    unmatched = report.unmatched
    for pattern in unmatched:
        sys.stderr.write(f"{'error' if is_required else 'warning'}: {pattern} matched nothing\n")
    return 1 if unmatched and is_required else 0


def _option_of(path: str) -> str:
    """Return which option of `compile` takes a file of `--spec`: "patterns", "pdl_spec" or "transform_spec".

    The suffix .py decides first, then the content.
    """
    if path.endswith(".py"):
        return "patterns"
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise CompileError(f"'{path}' is not text: {error}", note="a spec is MLIR text or a Python file") from None
    return "pdl_spec" if "pdl.pattern" in text else "transform_spec"
