"""Writes the types of an artifact's functions as a module of Python."""

from __future__ import annotations

import argparse
import sys

from pydispatch import files
from pydispatch.errors import InvalidArgumentError

EXAMPLES = """\
  pydispatch stubgen mixed.pdx -o mixed_types.py
  # then: import mixed_types
  #       program = mixed_types.load("mixed.pdx"); program.mixed_invocation(a, b)"""
"""Examples at the end of the help of the command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch stubgen`."""
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE.pdx")
    parser.add_argument("-o", "--output", metavar="FILE.py", help="file to write; default: standard output")
    parser.add_argument(
        "--buffers", action="store_true", help="type results as device buffers, as on devices other than CPUs"
    )


def run(args: argparse.Namespace) -> int:
    """Write the type stub of an artifact to a file or standard output, and return 0.

    Raises:
        ArtifactError: The artifact is broken or does not describe the types of its functions.
        OSError: A file cannot be read or written.
    """
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.formats.artifact.stub import module_of

    if args.output == "":
        raise InvalidArgumentError("-o: expected a file, got an empty path")
    if args.output is not None:
        files.refuse_overwriting("--output", args.output, [args.file])
    text = module_of(Artifact.from_file(args.file), args.file, args.buffers)
    if args.output is None:
        sys.stdout.write(text)
    else:
        files.write("the types", args.output, text.encode())
        print(f"{args.output}: the types of {args.file}")
    return 0
