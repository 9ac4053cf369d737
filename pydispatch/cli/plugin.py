"""Builds plugins: C functions that programs call and that are found when the program is loaded."""

from __future__ import annotations

import argparse
import errno
import os
import platform
from pathlib import Path
from typing import Any

EXAMPLES = """\
  pydispatch plugin build my.c -o my.sos --arch=x86_64,aarch64,riscv64
  pydispatch plugin build my.c -o my.sos --export=my_mul       functions without a PYD_PLUGIN(...) table
  pydispatch plugin build my.c -o my.so --system --flag=-lm    with the C library, for this machine"""
"""Examples at the end of the help of the command."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch plugin build`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    build = verbs.add_parser(
        "build", help="compile, link and check a plugin", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    build.add_argument("sources", metavar="FILE.c", nargs="+", help="C sources, objects (.o) or archives (.a)")
    build.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="file to write: FatELF if it ends in .sos, ELF if it ends in .so",
    )
    build.add_argument(
        "--arch",
        metavar="A,B",
        help="architectures, of x86_64, aarch64, riscv64; default: all three for .sos, this machine's for .so",
    )
    build.add_argument(
        "--system", action="store_true", help="build a shared library that uses the C library, by the host's cc"
    )
    build.add_argument(
        "--export", metavar="NAME", action="append", default=[], dest="exports",
        help="make the query function for int NAME(void*, void*, void*); repeatable",
    )  # fmt: skip
    build.add_argument(
        "--name", help="name of the plugin in its query function (--export); default: that of the output"
    )
    build.add_argument("--description", default="", help="description of the plugin in its query function (--export)")
    build.add_argument("--cpu", default="generic", help="LLVM name of the CPU to compile for; default: generic")
    build.add_argument("--cpu-features", default="", metavar="+A,+B", help="LLVM features to compile for")
    build.add_argument("-I", dest="include_dirs", action="append", default=[], metavar="FOLDER")
    build.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]")
    build.add_argument(
        "--flag",
        dest="flags",
        action="append",
        default=[],
        metavar="FLAG",
        help="for the compiler of --system; repeatable",
    )
    build.add_argument("-O", dest="opt", default="3", metavar="LEVEL", help="optimization level; default: 3")


def run(args: argparse.Namespace) -> int:
    """Build a plugin, write it and return 0; raise CompileError for sources that do not compile, and for tools that are
    missing or fail.
    """
    import pydispatch
    from pydispatch.compiler.driver import plugin
    from pydispatch.compiler.toolchain.tools import ToolchainError
    from pydispatch.errors import CompileError, InvalidArgumentError
    from pydispatch.files import refuse_overwriting, write

    # The sources, and what both builders are passed.
    output = Path(args.output)
    # A name that begins like an option is given to the compiler as a whole path.
    sources = [Path(source).absolute() if source[:1] in ("@", "-") else Path(source) for source in args.sources]
    refuse_overwriting("--output", output, sources)
    if args.flags and not args.system:
        raise InvalidArgumentError("--flag: only a --system plugin takes the compiler's own flags")
    common = {
        "exports": args.exports,
        "name": args.name or output.stem,
        "description": args.description,
        "include_dirs": [*args.include_dirs, pydispatch.get_include()],
        "defines": args.defines,
        "opt": f"-O{args.opt}",
    }
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    try:
        if args.system:
            if args.arch:
                raise InvalidArgumentError("--arch: a --system plugin is built for this machine")
            data = plugin.build_system(sources, extra_args=args.flags, **common)
            machines = [platform.machine()]
        else:
            binaries = _build_standalone(args, sources, common)
            data = plugin.package(binaries, output)
            machines = list(binaries)
    except ToolchainError as error:
        raise CompileError(str(error)) from None
    write("the plugin", output, data)
    print(f"{output}: {'system' if args.system else 'standalone'} plugin for {', '.join(machines)}, {len(data)} bytes")
    return 0


def _build_standalone(args: argparse.Namespace, sources: list[Path], common: dict[str, Any]) -> dict[str, bytes]:
    """Return a plugin that needs no C library, as a shared object for each architecture.

    Args:
        args: The command line.
        sources: Paths of the sources.
        common: Arguments that are the same for a plugin of the system.
    """
    from pydispatch.compiler.driver import plugin

    default = "x86_64,aarch64,riscv64" if Path(args.output).suffix == ".sos" else platform.machine()
    features = [feature for feature in args.cpu_features.split(",") if feature]
    arches = (args.arch or default).split(",")
    return plugin.build_standalone(sources, arches=arches, cpu=args.cpu, features=features, **common)
