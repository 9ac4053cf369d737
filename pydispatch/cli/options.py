"""Options of the compiler as flags of subcommands, and their values as arguments of `pydispatch.compile`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.files import open_mapped
from pydispatch.options import OPTIONS
from pydispatch.patterns.kernels import CFunction, CustomOperation

FLAGS = tuple(name for name, option in OPTIONS.items() if option.flag is not None)
"""Names of the options that have a flag."""
MATCH = ("transform_spec", "pdl_spec", "patterns", "require_match")
"""Names of the options of match and replace."""


def add_flags(parser: argparse.ArgumentParser, names: Sequence[str] = FLAGS) -> None:
    """Add the flags of the options `names`. Parsed arguments lack the options that the command line does not give."""
    for name in names:
        option = OPTIONS[name]
        assert option.flag is not None, name
        keywords: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": option.help}
        if option.default is False:
            keywords["action"] = "store_true"
        elif option.default is True:
            keywords["action"] = argparse.BooleanOptionalAction
        else:
            keywords["action"] = "append" if option.flag.repeatable else "store"
            keywords |= {"metavar": option.flag.metavar, "type": option.flag.parse, "choices": option.flag.choices}
        parser.add_argument(*option.flag.spellings, **keywords)
        if name == "kernels":  # --results belongs to --kernels; it is no option of its own
            add_results_flag(parser)


def add_results_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag `--results`: types of the results of custom operations, for which `--kernel` names C functions."""
    parser.add_argument(
        "--results", dest="results", action="append", default=[], metavar="NAME=TYPE[;TYPE...]",
        help="types of the results of a custom operation, if the model does not state them: a type such as f32[n, 3], "
        "where n is a size of an operand, or the operand that has this type (in0, or its name); repeatable",
    )  # fmt: skip


def options_of(args: argparse.Namespace, names: Sequence[str] = FLAGS) -> dict[str, Any]:
    """Return the options that a command line has, as arguments of `pydispatch.compile`.

    The result types of `--results` become a part of the option `kernels`.

    Raises:
        InvalidArgumentError: The text of an option is malformed.
        Error: A Python file of `--patterns` raises an exception, or defines no pattern.
    """
    options = {name: getattr(args, name) for name in names if hasattr(args, name)}
    for name, convert in _CONVERSIONS.items():
        if name in options:
            options[name] = convert(options[name])
    if "kernels" in names:
        options |= _with_results(options, results_of(args))
    return options


def _with_results(options: Mapping[str, Any], stated: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the option `kernels` with the result types of `--results`; an empty mapping if none are stated.

    stated: operation → the types of its results, as text.
    """
    kernels = dict(options.get("kernels", {}))
    if unknown := next((name for name in stated if name not in kernels), None):
        raise InvalidArgumentError(f"--results={unknown}=...: there is no --kernel={unknown}=...")
    for name, results in stated.items():
        kernels[name] = CustomOperation(kernels[name], results)
    return {"kernels": kernels} if stated else {}


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


def _parse_kernels(options: Sequence[str]) -> dict[str, CFunction]:
    """Parse the values of `--kernel` into C functions by operation; raise InvalidArgumentError if one has several."""
    kernels: dict[str, CFunction] = {}
    for option in options:
        name, function = _parse_kernel(option)
        if name in kernels:
            raise InvalidArgumentError(f"--kernel={option}: the operation has a --kernel already; name each once")
        kernels[name] = function
    return kernels


def _parse_kernel(option: str) -> tuple[str, CFunction]:
    """Parse one value of `--kernel`, NAME=FILE:SYMBOL[:ARGUMENT,...], into (name, C function)."""
    name, equals, function = option.rpartition("=")
    file, *symbol_and_arguments = function.split(":")
    if not equals or not name or not 1 <= len(symbol_and_arguments) <= 2:
        raise InvalidArgumentError(
            f"--kernel={option}: expected NAME=FILE:SYMBOL or NAME=FILE:SYMBOL:ARGUMENT,..., such as "
            "mylib::swish=swish.c:swish:x,out,count"
        )
    symbol, *arguments = symbol_and_arguments
    return name, CFunction(file, symbol, *(arguments[0].split(",") if arguments else ()))


def _parse_specs(options: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of options `PHASE=FILE` and `FILE` by phase; the default phase is preprocessing."""
    files: dict[str, list[str]] = {}
    for option in options:
        phase, equals, path = option.partition("=")
        names_phase = equals and "/" not in phase and "." not in phase  # else the path itself contains "="
        files.setdefault(phase if names_phase else "preprocessing", []).append(path if names_phase else option)
    return files


def _load_patterns(paths: Sequence[str]) -> list[object]:
    """Run Python files and return the patterns that they define."""
    return [pattern for path in paths for pattern in _load_patterns_of(path)]


def _load_patterns_of(path: str) -> list[object]:
    """Run a Python file and return the patterns that it defines; raise Error with the line if it fails."""
    import runpy
    import traceback

    from pydispatch.patterns import Pattern

    open_mapped(path).close()  # raises for a pipe or device, which run_path would wait for, or read without end
    try:
        names = runpy.run_path(path)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        # lines[-1] is the innermost frame in the file itself; deeper frames are in functions that it calls.
        if isinstance(error, SyntaxError):
            line, message = error.lineno, error.msg
        else:
            line, message = lines[-1] if lines else None, f"{type(error).__name__}: {error}"
        raise Error(f"{path}{'' if line is None else f':{line}'}: {message}") from None
    # A pattern with several names is returned once.
    patterns = list(dict.fromkeys(value for value in names.values() if isinstance(value, Pattern)))
    if not patterns:
        raise Error(f"'{path}' has no @pydispatch.pattern")
    return list(patterns)


def _parse_cpus(names: Sequence[str]) -> list[str]:
    """Return the values of the option `cpu`; IREE's name for this machine's CPU, "host", becomes "native"."""
    return ["native" if name == "host" else name for name in names]


_CONVERSIONS: Mapping[str, Callable[[Any], object]] = {
    "cpu": _parse_cpus, "kernels": _parse_kernels, "patterns": _load_patterns,
    "pdl_spec": _parse_specs, "transform_spec": _parse_specs,
}  # fmt: skip
"""Options whose values on the command line are not those of `pydispatch.compile`, with the conversion of each."""
