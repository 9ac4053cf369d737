"""Writes a .pdx artifact as files for a page in a browser with WebGPU."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydispatch.errors import InvalidArgumentError

EXAMPLES = """\
  pydispatch compile digits.mlir --target webgpu
  pydispatch export --web digits.pdx -o site/"""
"""Examples at the end of the help of the command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch export`. `--web` states what to write; nothing else can be chosen so far."""
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE.pdx")
    parser.add_argument("--web", action="store_true", required=True, help="shaders, data and an ES module for WebGPU")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="folder to write to; created if it does not exist"
    )


def run(args: argparse.Namespace) -> int:
    """Write the files of a web page for an artifact, and return 0.

    Raises:
        ArtifactError: The artifact is broken.
        InvalidArgumentError: A page cannot run the artifact.
        OSError: A file cannot be read or written.
    """
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.formats.web.site import save

    if not args.output:
        raise InvalidArgumentError("-o: expected a folder, got an empty path")
    written = save(Artifact.from_file(args.file), Path(args.output), args.file)
    print(f"{args.output}: {len(written)} files; pages import load from {Path(args.output) / 'pydispatch.js'}")
    return 0
