"""Prints the bytes of each member of an artifact."""  # the help of `pydispatch sizes`

import argparse

import pydispatch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.pdx")


def run(args: argparse.Namespace) -> int:
    """Print one line for each member, and return the exit status."""
    artifact = pydispatch.Artifact.from_file(args.file)
    for name in artifact.members:
        print(f"{len(artifact.read(name)):>10}  {name}")
    return 0
