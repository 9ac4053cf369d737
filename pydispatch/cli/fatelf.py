"""Joins ELF files for several machines into one .sos file, and splits such files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.files import read, refuse_overwriting, write
from pydispatch.formats.elf import fatelf

EXAMPLES = """\
  pydispatch fatelf join plugin_x86_64.so plugin_aarch64.so -o plugin.sos
  pydispatch fatelf dump plugin.sos"""
"""Examples at the end of the help of the command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch fatelf`."""
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    join = verbs.add_parser("join", help="join ELF files into one FatELF file")
    join.add_argument("files", metavar="FILE.so", nargs="+")
    join.add_argument("-o", "--output", metavar="FILE.sos", help="file to write; default: standard output")
    split = verbs.add_parser("split", help="write each ELF file to the folder of the FatELF file")
    split.add_argument("file", metavar="FILE.sos")
    split.add_argument(
        "-o", "--output", metavar="FOLDER", help="folder to write to; default: the folder of the FatELF file"
    )
    select = verbs.add_parser("select", help="write the ELF file that the loader takes")
    select.add_argument("file", metavar="FILE.sos")
    select.add_argument(
        "--arch", metavar="NAME", help="architecture: x86_64, aarch64 or riscv64; default: that of this machine"
    )
    select.add_argument("-o", "--output", metavar="FILE.so", help="file to write; default: standard output")
    dump = verbs.add_parser("dump", help="print the header and the records")
    dump.add_argument("file", metavar="FILE.sos")


def run(args: argparse.Namespace) -> int:
    """Join, split, select from or dump FatELF files, and return 0.

    Raises:
        ArtifactError: An input is broken.
        InvalidArgumentError: The inputs cannot be joined; the message names the file.
        OSError: A file cannot be read or written.
    """
    if args.verb in ("join", "select") and args.output not in (None, "-"):
        refuse_overwriting("--output", args.output, args.files if args.verb == "join" else [args.file])
    if args.verb == "join":
        data = fatelf.join([(name, read(name)) for name in args.files])
        _write(data, args.output)
        return 0
    source = Path(args.file)
    content = read(source)
    try:
        if args.verb == "dump":
            print(fatelf.dump(content))
        elif args.verb == "select":
            _write(bytes(fatelf.select(content, args.arch)), args.output)
        else:
            _split(source, content, Path(args.output) if args.output else source.parent)
    except (Error, ValueError) as error:
        if isinstance(error, OSError):  # about the output, which it names
            raise
        raise type(error)(f"{args.file}: {error}") from None  # the same class, with the name of the input
    return 0


def _split(source: Path, content: bytes, folder: Path) -> None:
    """Write each ELF file of a FatELF file (`content`) into a folder, as NAME.TARGET.so with the name of `source`."""
    records = fatelf.split(content)
    folder.mkdir(parents=True, exist_ok=True)
    for i, (target, data) in enumerate(records):
        path = folder / f"{source.stem}.{target}.so"
        print(f"Writing record[{i}] to '{path}'...")
        write("the ELF file", path, data)
    print(f"Wrote {len(records)} records to {folder}!")


def _write(data: bytes, output: str | None) -> None:
    """Write to the output file, or to standard output if `output` is None or "-"."""
    if output not in (None, "-"):
        write("the output", str(output), data)
    elif sys.stdout.isatty():
        raise InvalidArgumentError("the output is binary and goes to a terminal: name a file with -o")
    else:
        sys.stdout.buffer.write(data)
