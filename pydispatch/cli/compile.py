"""Compiles a program or a model into a .pdx artifact."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch import bytecode
from pydispatch.cli.options import add_flags, options_of
from pydispatch.cli.progress import shown
from pydispatch.errors import CompileError, Error, InvalidArgumentError
from pydispatch.files import LIMIT, path_of, refuse_overwriting, write
from pydispatch.garbage import rarely_collected
from pydispatch.packages import importing, running

if TYPE_CHECKING:
    from pydispatch.runtime.interface import Device


_SHOWN_BYTES = 1024
"""Largest constant, in bytes, whose elements are printed on a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch compile`."""
    parser.add_argument("source", metavar="FILE", help="MLIR text or a model; - reads MLIR from standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write; default: the source's name with .pdx")
    add_flags(parser)
    parser.add_argument(
        "--cuda-target", "--iree-cuda-target", dest="cuda_targets", action="append", metavar="sm_80",
        help="architecture of the target cuda; repeatable, each becomes a variant",
    )  # fmt: skip
    parser.add_argument("--iree-cuda-target-features", dest="cuda_features", metavar="+ptx76", help=argparse.SUPPRESS)
    parser.add_argument(
        "--tune-plugin", dest="tune_plugins", action="append", default=[], metavar="FILE",
        help="a plugin with the functions that the program imports, for when tuning runs it; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--compile-to", metavar="PHASE", help="write the program after a phase instead: to -o, else to standard output"
    )
    parser.add_argument(
        "--elide-constants", type=int, metavar="BYTES",
        help=f"leave constants of more bytes out of the text of --compile-to; default: {_SHOWN_BYTES} on a terminal, "
        "none elsewhere",
    )  # fmt: skip


def _targets(targets: list[str] | None, architectures: list[str] | None) -> list[str] | None:
    """Return the targets to compile for: `targets`, with `cuda` replaced by the CUDA architectures.

    Args:
        targets: Values of `--target`; None if the option is missing.
        architectures: Values of `--cuda-target`, such as sm_80; without `--target` they are the only targets.

    Returns:
        The targets; None if neither option is stated.
    """
    if not architectures:
        return targets
    if targets is None:
        return architectures
    if "cuda" not in targets:
        raise Error(f"--iree-cuda-target={architectures[0]} needs the target cuda: --target=cuda")
    return [name for target in targets for name in (architectures if target == "cuda" else [target])]


def run(args: argparse.Namespace) -> int:
    """Compile, and write the artifact, or the program after a phase; return 0, or raise CompileError."""
    with rarely_collected(), bytecode.cached(), running("compiling", "compiler", CompileError):
        return _run(args)


def source_of(path: str) -> str | Path:
    """Return the program that a command line names: the text of standard input for "-", else the path."""
    if path != "-":
        return Path(path)
    data = sys.stdin.buffer.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise CompileError(f"standard input has more than {LIMIT >> 30} GiB, the most that is read")
    try:
        return data.decode("utf-8") + "\n"  # a text with a line break is a program, never a path
    except UnicodeDecodeError as error:
        raise CompileError(f"standard input is not text: {error}", note="give MLIR text") from None


def _measured_on(args: argparse.Namespace) -> Device | None:
    """Return a device with the plugins of --tune-plugin, on which --tune measures; None for no plugins."""
    if not args.tune_plugins:
        return None
    from pydispatch.runtime.device import device

    target = device()
    for plugin in args.tune_plugins:
        target.add_plugin(plugin)
    return target


def _run(args: argparse.Namespace) -> int:
    """Compile the source, and write the artifact, or with --compile-to the program after a phase; return 0.

    The artifact is written to --output, where - is standard output. Without the option it is written to the source's
    name with .pdx, or to standard output if the source is standard input.

    `run` calls it inside of contexts that make garbage collection rare, cache bytecode, and raise CompileError for
    missing packages.
    """
    from pydispatch.tuning.compile import compile as compile_

    source, options = source_of(args.source), options_of(args)
    options["targets"] = _targets(options.get("targets"), args.cuda_targets)
    writes_phase = args.compile_to and args.compile_to != "end"  # after the last phase, "end", it is the artifact
    output = args.output or ("-" if writes_phase else _default_output(args.source))
    if output != "-":
        refuse_overwriting("--output", output, _inputs(args, options))
    if writes_phase:
        _write_phase(args, source, options)
        return 0
    with shown(sys.stderr) as show:  # `show` prints the progress
        artifact = compile_(source, **options, tune_on=_measured_on(args), progress=show)
    if output == "-":
        sys.stdout.buffer.write(artifact.to_bytes())
    else:
        artifact.save(output)
    return 0


def _default_output(source: str) -> str:
    """Return the path of the artifact without --output: the source's name with .pdx; "-" for standard input."""
    path = Path(source)
    return "-" if source == "-" else str(path.parent / f"{path.stem}.pdx")


def _inputs(args: argparse.Namespace, options: dict[str, Any]) -> list[str]:
    """Return the files that a command line names for reading: the source, specs, files with patterns, and plugins."""
    specs = [options.get(name, {}) for name in ("transform_spec", "pdl_spec")]  # phase → files
    files = [path for spec in specs for paths in spec.values() for path in paths]
    return [args.source, *files, *getattr(args, "patterns", ()), *args.tune_plugins]


def _write_phase(args: argparse.Namespace, source: str | Path, options: dict[str, Any]) -> None:
    """Write the program after the phase of `--compile-to`. options: arguments of `pydispatch.compile`."""
    if args.elide_constants is not None and args.elide_constants < 0:
        raise InvalidArgumentError(f"--elide-constants={args.elide_constants}: expected 0 or more bytes")
    if "tune" in options:
        raise InvalidArgumentError("--tune: makes an artifact; leave --compile-to out")
    with importing("compiling", "compiler", CompileError):
        from pydispatch.compiler.worker import llvm_process

        llvm_process.start()  # it loads LLVM while this process imports the compiler
        from pydispatch.compiler.driver import pipeline
    is_printed = args.output is None or args.output == "-"
    if args.elide_constants is not None:
        limit = args.elide_constants
    else:  # None: all constants are written
        limit = _SHOWN_BYTES if is_printed and sys.stdout.isatty() else None
    text = pipeline.compile_to(args.compile_to, source, elide_bytes=limit, **options)
    if is_printed:
        sys.stdout.write(text)
    else:
        write("--output", Path(path_of("--output", args.output, "the path of a file")), text.encode())
