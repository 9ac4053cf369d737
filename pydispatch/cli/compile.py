"""Compiles a program or a model into a .pdx artifact."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydispatch import bytecode
from pydispatch.cli.progress import shown
from pydispatch.errors import CompileError, Error, InvalidArgumentError
from pydispatch.files import LIMIT, open_mapped, path_of, write
from pydispatch.garbage import rarely_collected
from pydispatch.packages import importing, running
from pydispatch.patterns.kernels import CFunction, CustomOperation

if TYPE_CHECKING:
    from pydispatch.runtime.interface import Device


_SHOWN_BYTES = 1024
"""The bytes of a constant up to which a terminal shows it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="MLIR text or a model; - reads MLIR from standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="what is written; default: the source's name with .pdx")
    parser.add_argument(
        "--target", "--iree-hal-target-backends", "--iree-hal-target-device", "--iree-hal-local-target-device-backends",
        dest="targets", action="append", metavar="NAME",
        help="cpu (this machine), x86_64, aarch64, riscv64, vulkan, cuda, sm_80, ...; repeatable; default: what the "
        "program states",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", "--iree-llvmcpu-target-cpu", dest="cpu", action="append", metavar="CPU",
        help="generic, native, x86-64-v3, ...; repeatable, each becomes a variant; default: generic and native",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-features", "--iree-llvmcpu-target-cpu-features", dest="cpu_features", default="", metavar="+A,+B",
        help="LLVM features of every CPU target",
    )  # fmt: skip
    parser.add_argument(
        "--cuda-target", "--iree-cuda-target", dest="cuda_targets", action="append", metavar="sm_80",
        help="architecture of the target cuda; repeatable, each becomes a variant",
    )  # fmt: skip
    parser.add_argument("--iree-cuda-target-features", dest="cuda_features", metavar="+ptx76", help=argparse.SUPPRESS)
    parser.add_argument(
        "-L", "--object-search-path", "--iree-hal-executable-object-search-path", dest="search_path", action="append",
        default=[], metavar="FOLDER", help="where object files are looked for; repeatable",
    )  # fmt: skip
    add_match_arguments(parser)
    add_model_arguments(parser)
    parser.add_argument(
        "--no-reassociate", dest="reassociate", action="store_false",
        help="sums of floats in the written order, one by one",
    )  # fmt: skip
    parser.add_argument(
        "--tune", type=float, metavar="SECONDS",
        help="measure on this machine, for so long at most, which kernels are the fastest; 0: take what was measured "
        "before",
    )  # fmt: skip
    parser.add_argument(
        "--tune-plugin", dest="tune_plugins", action="append", default=[], metavar="FILE",
        help="a plugin for imports of programs that are measured; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--explain", action="store_true", help="say on stderr what went into which dispatch and why neighbours did not"
    )
    parser.add_argument(
        "--compile-to", metavar="PHASE", help="write the program after a phase instead: to -o, else to standard output"
    )
    parser.add_argument(
        "--elide-constants", type=int, metavar="BYTES",
        help=f"leave constants of more bytes out of the text of --compile-to; default: {_SHOWN_BYTES} on a terminal, "
        "none elsewhere",
    )  # fmt: skip
    parser.add_argument(
        "--dump", "--iree-hal-dump-executable-files-to", dest="dump", metavar="FOLDER",
        help="write every intermediate: IR, LLVM IR, assembly, ELF",
    )  # fmt: skip


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for models, for every subcommand that compiles a model."""
    parser.add_argument(
        "--kernel", dest="kernels", action="append", default=[], metavar="NAME=FILE:SYMBOL[:ARGUMENT,...]",
        help="the C function of a custom operation, with what it is passed: inputs, attributes, out, sizes, count; "
        "repeatable",
    )  # fmt: skip
    add_results_argument(parser)
    parser.add_argument(
        "--weights", choices=["embed", "external"], default="embed",
        help="external: the artifact has no weights; run it with --parameters model=FILE",
    )  # fmt: skip


def add_results_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that declares result types of custom operations, for every subcommand that reads models."""
    parser.add_argument(
        "--results", dest="results", action="append", default=[], metavar="NAME=TYPE[;TYPE...]",
        help="the type of each result of a custom operation, where the model does not state it: an operand (in0, or "
        "its name), or such as f32[n, 3], with sizes of the operands; repeatable",
    )  # fmt: skip


def model_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the options of models as arguments of `pydispatch.compile`."""
    kernels, stated = dict(_kernel(option) for option in args.kernels), results_of(args)
    if unknown := next((name for name in stated if name not in kernels), None):
        raise InvalidArgumentError(f"--results={unknown}=...: there is no --kernel={unknown}=...")
    for name, results in stated.items():
        kernels[name] = CustomOperation(kernels[name], results)
    return {"kernels": kernels, "weights": args.weights}


def results_of(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the result types in `--results` by operation; raise InvalidArgumentError for a malformed option."""
    results = {}
    for option in args.results:
        name, equals, types = option.partition("=")
        listed = [type_.strip() for type_ in types.split(";")]
        if not equals or not name or not all(listed) or name in results:
            problem = (
                "the operation has --results already" if name in results else "expected NAME=TYPE or NAME=TYPE;TYPE"
            )
            sample = "mylib::swish=in0 or mylib::boxes=f32[n, 4]"
            raise InvalidArgumentError(f"--results={option}: {problem}, such as {sample}")
        results[name] = listed
    return results


def _kernel(option: str) -> tuple[str, object]:
    """Parse a `--kernel` option into the name of the operation and its C function."""
    name, equals, rest = option.rpartition("=")
    file, *more = rest.split(":")
    if not equals or not name or not 1 <= len(more) <= 2:
        raise InvalidArgumentError(
            f"--kernel={option}: expected NAME=FILE:SYMBOL or NAME=FILE:SYMBOL:ARGUMENT,..., such as "
            "mylib::swish=swish.c:swish:x,out,count"
        )
    return name, CFunction(file, more[0], *(more[1].split(",") if more[1:] else ()))


def add_match_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for matching and replacement, which `compile` and `match` have in common."""
    parser.add_argument(
        "--transform-spec", "--iree-preprocessing-transform-spec-filename", dest="transform_spec", action="append",
        default=[], metavar="[PHASE=]FILE", help="a transform spec that matches and replaces; repeatable; attached to "
        "preprocessing, or to input, global-optimization",
    )  # fmt: skip
    parser.add_argument(
        "--pdl-spec", "--iree-preprocessing-pdl-spec-filename", dest="pdl_spec", action="append", default=[],
        metavar="[PHASE=]FILE", help="patterns in the pdl dialect; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--patterns", dest="patterns", action="append", default=[], metavar="FILE.py",
        help="a Python file; all its @pydispatch.pattern are applied; repeatable",
    )  # fmt: skip
    parser.add_argument("--require-match", action="store_true", help="a pattern that matches nothing is an error")


def match_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the options for matching and replacement as arguments of `pydispatch.compile`."""
    return {
        "transform_spec": _group_by_phase(args.transform_spec), "pdl_spec": _group_by_phase(args.pdl_spec),
        "patterns": [p for path in args.patterns for p in _patterns_of(path)], "require_match": args.require_match,
    }  # fmt: skip


def _group_by_phase(options: list[str]) -> dict[str, list[str]] | None:
    """Group options `PHASE=FILE` or `FILE` by phase; the default phase is preprocessing. Return None for no options."""
    files: dict[str, list[str]] = {}
    for option in options:
        phase, equals, path = option.partition("=")
        known = equals and "/" not in phase and "." not in phase
        files.setdefault(phase if known else "preprocessing", []).append(path if known else option)
    return files or None


def _patterns_of(path: str) -> list[object]:
    """Run a Python file and return the patterns that it defines; raise Error with the line if it fails."""
    import runpy
    import traceback

    from pydispatch.patterns import Pattern

    open_mapped(path).close()  # a pipe or device would be waited for, or read without end
    try:
        names = runpy.run_path(path)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        what = error.msg if isinstance(error, SyntaxError) else f"{type(error).__name__}: {error}"
        raise Error(f"{path}{'' if line is None else f':{line}'}: {what}") from None
    patterns = list(dict.fromkeys(value for value in names.values() if isinstance(value, Pattern)))
    if not patterns:
        raise Error(f"'{path}' has no @pydispatch.pattern")
    return list(patterns)


def _targets(targets: list[str] | None, architectures: list[str] | None) -> list[str] | None:
    """Return the targets, with `cuda` replaced by the given architectures."""
    if not architectures:
        return targets
    if targets is None:
        return architectures
    if "cuda" not in targets:
        raise Error(f"--iree-cuda-target={architectures[0]} needs the target cuda: --target=cuda")
    return [name for target in targets for name in (architectures if target == "cuda" else [target])]


def run(args: argparse.Namespace) -> int:
    """Compile, and write the artifact, or the program after a phase; raise CompileError."""
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
        return data.decode("utf-8") + "\n"
    except UnicodeDecodeError as error:
        raise CompileError(f"standard input is not text: {error}", note="give MLIR text") from None


def _measured_on(args: argparse.Namespace) -> Device | None:
    """Return a device with the plugins that --tune needs; None if it needs none."""
    if not args.tune_plugins:
        return None
    from pydispatch.runtime.device import device

    target = device()
    for plugin in args.tune_plugins:
        target.add_plugin(plugin)
    return target


def _run(args: argparse.Namespace) -> int:
    """Compile without the settings of the process that run() makes."""
    from pydispatch.tuning.compile import compile as compile_

    source = source_of(args.source)
    options = {
        "targets": _targets(args.targets, args.cuda_targets),
        "cpu": ["native" if c == "host" else c for c in args.cpu] if args.cpu else None,
        "cpu_features": args.cpu_features,
        "object_search_path": args.search_path,
        "dump": args.dump,
        **match_options(args),
        **model_options(args),
    }
    if args.compile_to and args.compile_to != "end":
        if args.elide_constants is not None and args.elide_constants < 0:
            raise InvalidArgumentError(f"--elide-constants={args.elide_constants}: expected 0 or more bytes")
        if args.tune is not None:
            raise InvalidArgumentError("--tune: makes an artifact; leave --compile-to out")
        with importing("compiling", "compiler", CompileError):
            from pydispatch.compiler.worker import llvm_process

            llvm_process.start()
            from pydispatch.compiler.driver import pipeline
        is_printed = args.output is None or args.output == "-"
        limit = _SHOWN_BYTES if is_printed and sys.stdout.isatty() else None
        if args.elide_constants is not None:
            limit = args.elide_constants
        text = pipeline.compile_to(args.compile_to, source, elide_bytes=limit, **options)
        if is_printed:
            sys.stdout.write(text)
        else:
            write("--output", Path(path_of("--output", args.output, "the path of a file")), text.encode())
        return 0
    with shown(sys.stderr) as show:
        artifact = compile_(
            source,
            tune=args.tune,
            tune_on=_measured_on(args),
            reassociate=args.reassociate,
            explain=args.explain,
            progress=show,
            **options,
        )
    if args.output == "-" or (args.output is None and args.source == "-"):
        sys.stdout.buffer.write(artifact.to_bytes())
        return 0
    artifact.save(args.output or Path(args.source).with_suffix(".pdx"))
    return 0
