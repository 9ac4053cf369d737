"""Runs a function of an artifact and prints its results.

FILE is a .pdx, or an .mlir or a model that is compiled first. Values are written as for IREE's runner: 8xf32=2,
2x2xi32=1 2 3 4, @file.npy, 3.5.
"""

from __future__ import annotations

import argparse
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydispatch import extensions
from pydispatch.cli.options import add_flags, options_of
from pydispatch.errors import InvalidArgumentError
from pydispatch.files import path_of, writing

if TYPE_CHECKING:
    from pydispatch._core.function import Function
    from pydispatch._core.procedure import Procedure
    from pydispatch.cli import values
    from pydispatch.cli.values import Value
    from pydispatch.runtime.interface import Device
    from pydispatch.runtime.program.program import Program

_COMPILED_WITH = ("object_search_path", "kernels", "weights")
"""Names of the compiler's options that are flags of the subcommands that compile and run a source, such as `run`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch run`."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a .pdx or .mlir file, or a model (.onnx, .pt2)")
    parser.add_argument("--module", metavar="FILE", help="the file, as a flag in place of FILE")
    add_loading_arguments(parser)
    add_trace_argument(parser)
    parser.add_argument("--function", metavar="NAME", help="function to call; default: the only one, or 'main'")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]VALUE",
        help="value of an argument; one flag for each, in order or by name",
    )
    parser.add_argument(
        "--output", action="append", default=[], metavar="WHERE",
        help="destination of a result, one flag for each: - prints it, empty drops it, @f.npy or @f.bin writes a file, "
        "+f.npy or +f.bin appends",
    )  # fmt: skip
    parser.add_argument(
        "--expected_output", "--expected-output", action="append", default=[], metavar="VALUE",
        help="value that a result is compared with, instead of being printed; one flag for each; (ignored) matches "
        "anything",
    )  # fmt: skip
    parser.add_argument(
        "--equality_mode", choices=["approximate", "exact"], default="approximate",
        help="whether floats are compared with a tolerance or must be equal; default: approximate",
    )  # fmt: skip
    parser.add_argument(
        "--output_max_element_count", "--output-max-element-count", type=int, default=1024, metavar="N",
        help="maximum number of elements that are printed of a result; default: 1024",
    )  # fmt: skip


def add_loading_arguments(parser: argparse.ArgumentParser, *, several_devices: bool = False) -> None:
    """Add the options of every subcommand that loads programs.

    With `several_devices` the option `--device` is repeatable, and its values are the list `devices`.
    """
    names = "cpu, cpu?workers=8, vulkan:0, cuda:0, ptx-interpreter"
    if several_devices:
        parser.add_argument(
            "--device", dest="devices", action="append", metavar="NAME",
            help=f"{names}; repeatable, each test runs on each device; default: cpu",
        )  # fmt: skip
    else:
        parser.add_argument("--device", default="cpu", metavar="NAME", help=names)
    parser.add_argument(
        "--plugin", "--executable_plugin", dest="plugins", action="append", default=[], metavar="FILE[?KEY=VALUE&...]",
        help="a plugin that provides imports: .so, embedded ELF or .sos; repeatable, the last is searched first",
    )  # fmt: skip
    parser.add_argument(
        "--parameters", action="append", default=[], metavar="[SCOPE=]FILE",
        help="parameters of a scope: .safetensors, .npz or .npy; repeatable, the first file with a key has it",
    )  # fmt: skip
    add_flags(parser, _COMPILED_WITH)


def add_trace_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option `--trace`, whose value traced() uses."""
    parser.add_argument(
        "--trace", metavar="FILE.json", help="write a timeline of the calls, the latest ones, for ui.perfetto.dev"
    )


def traced(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return a context manager that traces calls to the file of `--trace`; without the option it does nothing."""
    if args.trace is None:
        return nullcontext()
    from pydispatch.runtime.tracing import trace

    return trace(path_of("--trace", args.trace, "the path of a .json file"))


def load_program(path: Path, args: argparse.Namespace, module: Any = None, **options: Any) -> Program:
    """Load the program in a file on the device that `args` name; a source is compiled first.

    Args:
        path: A .pdx, .mlir or model.
        args: The options of add_loading_arguments().
        module: Parsed part of the file, which is compiled instead of the whole file.
        options: Arguments of `pydispatch.compile`, for a source.

    Raises:
        Error: The file is broken, or does not run on the device.
        OSError: The file cannot be read.
    """
    from pydispatch.runtime.device import device

    target = device(args.device)
    for spec in args.plugins:
        _add_plugin(target, spec)
    artifact = _artifact(path, args, options, module)
    return target.load(artifact, parameters=_parameters(args.parameters) or None)


def run(args: argparse.Namespace) -> int:
    """Run a function and print its results like IREE's runner.

    Return 1 if a result differs from the expected one (--expected-output), else 0.
    """
    from pydispatch.cli import values
    from pydispatch.cli.results import format_result

    program = load_program(_path(args), args)
    function = function_of(program, args.function)
    reader = values.Reader()
    try:
        inputs, named = inputs_of(function, args.input, reader)
        if args.output and len(args.output) != len(function.results):
            raise InvalidArgumentError(
                f"--output: @{function.name} has {len(function.results)} results, got {len(args.output)}"
            )
        print(f"EXEC @{function.name}")  # before the call, since kernels may print
        with traced(args):
            results = function(*inputs, **named)
        returned = [results] if len(function.results) == 1 else list(results or ())
        returned = [value.numpy() if hasattr(value, "numpy") else value for value in returned]  # buffers of a device
        if args.expected_output:
            return _compare(function, returned, args, reader)
    finally:
        reader.close()
    if args.output:
        _write(function, returned, args)
        return 0
    for i, (value, (kind, _)) in enumerate(zip(returned, function.results, strict=True)):
        print(f"result[{i}]: {format_result(value, kind, args.output_max_element_count)}")
    return 0


def _path(args: argparse.Namespace) -> Path:
    """Return the path of the program; raise Error if the arguments name none or several."""
    if (args.file is None) == (args.module is None):
        both = f", got '{args.file}' and --module={args.module}; a value with blanks needs quotes" if args.file else ""
        raise InvalidArgumentError(f"run: expected one file, as FILE or as --module=FILE{both}")
    path = args.module if args.file is None else args.file
    return Path(path_of("run", path, "the path of a .pdx or .mlir file"))


def _artifact(path: Path, args: argparse.Namespace, options: dict[str, Any], module: Any) -> Any:
    """Return the path of a .pdx itself, and for a source the artifact that it is compiled to.

    Args:
        path: The file.
        args: The command line, whose device determines the target.
        options: Arguments of `pydispatch.compile`.
        module: Part of the file to compile instead of the whole file, or None.
    """
    if module is None and not _is_source(path):
        return path
    import pydispatch

    # The module that registers the kind of device (such as "vulkan") names the target to compile for in TARGET. Without
    # it the target is the compiler's default.
    registration = extensions.part("device", _device_kind(args.device))
    target = None if registration is None else getattr(registration.load(), "TARGET", None)
    options = {**options, **options_of(args, _COMPILED_WITH)}
    if module is not None:  # given a path, the compiler searches its folder
        options["object_search_path"] = [str(path.parent), *options.get("object_search_path", [])]
    return pydispatch.compile(path if module is None else module, targets=target, **options)


def _device_kind(name: str) -> str:
    """Return the kind in a device name: `cuda` for `cuda:0`, `cpu` for `cpu?workers=8`."""
    return name.partition(":")[0].partition("?")[0]


def _is_source(path: Path) -> bool:
    """Return whether a file must be compiled: MLIR by its suffix, a model if a frontend reads it."""
    if path.suffix in (".mlir", ".pdx"):
        return path.suffix == ".mlir"
    try:
        from pydispatch.compiler.driver.sources import reader_of
    except ImportError:  # a machine that only runs artifacts
        return False
    return reader_of(path) is not None


def _parameters(specs: list[str]) -> dict[str, list[str]]:
    """Return the files of options `scope=file`, or `file` for the scope "", by scope."""
    files: dict[str, list[str]] = {}
    for spec in specs:
        scope, equals, path = spec.partition("=")
        if not equals:
            scope, path = "", scope
        files.setdefault(scope, []).append(path)
    return files


def _add_plugin(target: Device, spec: str) -> None:
    """Add the plugin of an option `path?key=value&key=value`.

    The path may start with `embedded:` or `system:`. The key `priority` is an argument of the device, the others of the
    plugin.
    """
    path, _, query = spec.partition("?")
    pairs = (part.partition("=") for part in query.split("&") if part)
    params: dict[str, Any] = {key: value for key, _, value in pairs}
    priority = params.pop("priority", "0")
    if not re.fullmatch(r"-?\d{1,9}", priority, re.ASCII):
        raise InvalidArgumentError(f"--plugin={spec}: priority: expected a whole number, got '{priority}'")
    target.add_plugin(path, priority=int(priority), **params)


def function_of(program: Program, name: str | None) -> Function | Procedure:
    """Return the function `name`; if it is None, the function `main`, or else the only function.

    Raises InvalidArgumentError if `name` is None and there are several functions, or none.
    """
    functions = program.functions
    if name is not None:
        return program[name]
    if "main" in functions:
        return functions["main"]
    if len(functions) != 1:
        raise InvalidArgumentError(
            f"--function=NAME is needed, the program has {len(functions)}: {', '.join(functions) or 'none'}"
        )
    return next(iter(functions.values()))


def inputs_of(
    function: Function | Procedure, texts: list[str], reader: values.Reader
) -> tuple[list[Value], dict[str, Value]]:
    """Parse the arguments of a call from texts `value` or `name=value`; return the positional ones and those by name.

    For @f(%x: tensor<2xf32>, %factor: f32), the texts ["2xf32=1 2", "factor=3"] become ([[1, 2]], {"factor": 3.0}).

    An argument that is named `out` has no keyword, because a call's keyword `out` is for its result arrays.

    Args:
        function: Function to call.
        texts: Values of --input, in the grammar of `values`.
        reader: Reader of the values, which keeps files open between them.

    Raises:
        InvalidArgumentError: A text is malformed, or an argument has several values by name.
    """
    # The element type of numbers and of tensors of rank 0; None for other tensors, whose texts state their types.
    kinds = [None if dims else kind for _, kind, dims in function.arguments]
    names = {name: kind for (name, _, _), kind in zip(function.arguments, kinds, strict=True) if name != "out"}
    in_order: list[str] = []
    named: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in names:  # `2xf32=1 2` has a "=", but 2xf32 is no argument
            in_order.append(text)
            continue
        parsed = reader.read_all([value], [names[name]])
        if len(parsed) != 1 or name in named:  # `name=*file` may read any number of arrays
            raise InvalidArgumentError(f"--input={text}: expected one value for '{name}'")
        named[name] = parsed[0]
    return reader.read_all(in_order, kinds), named


def _compare(function: Function | Procedure, returned: list[Value], args: argparse.Namespace, reader: Any) -> int:
    """Compare results with the values of --expected_output, print the report, and return 1 if one differs, else 0.

    There must be one expected value for each result; `(ignored)` and `(null)` match anything. The printed lines are
    those of IREE's runner.

    Args:
        function: The function that was called.
        returned: Its results, tensors as NumPy arrays.
        args: The command line, with --expected_output and --equality_mode.
        reader: Reader of the inputs, which parses the expected values, too: `+file` continues in a file of --input.
    """
    from pydispatch.cli.results import format_result, mismatch

    if len(args.expected_output) != len(returned):
        print(f"[FAILED] expected {len(args.expected_output)} results but {len(returned)} were returned")
        return 1
    failed = 0
    for i, (text, value, (kind, rank)) in enumerate(
        zip(args.expected_output, returned, function.results, strict=True)
    ):  # fmt: skip
        if text in ("(ignored)", "(null)"):
            continue
        # A number, whose rank is None, is parsed as its type. The text of a tensor states the type itself.
        expected = reader.read_all([text], [kind if rank is None else None])[0]
        problem = mismatch(value, expected, kind, exact=args.equality_mode == "exact")
        if problem is None:
            continue
        failed = 1
        print(f"[FAILED] result[{i}]: {problem}")
        print(f"  expected:\n{text}\n  actual:")
        print(format_result(value, kind, args.output_max_element_count).removeprefix("hal.buffer_view\n"))
    if not failed:
        print("[SUCCESS] all function outputs matched their expected values.")
    return failed


def _write(function: Function | Procedure, returned: list[Value], args: argparse.Namespace) -> None:
    """Print or write each result as its value of `--output` says; one value per result.

    `-` prints it, an empty value drops it, `@FILE` replaces a file, `+FILE` appends to one; the suffix is .npy or .bin.
    """
    from pydispatch.cli.results import format_result

    for output, value, (kind, _) in zip(args.output, returned, function.results, strict=True):
        if output == "-":
            print(format_result(value, kind, args.output_max_element_count))
        elif output:
            mark, file = output[0], output[1:]
            if mark not in "@+" or not file.endswith((".npy", ".bin")):
                expected = "'', -, @FILE or +FILE with .npy or .bin"
                raise InvalidArgumentError(f"--output: expected {expected}, got '{output}'")
            path = path_of("--output", file, "the path of a file")
            with writing("--output", path), Path(path).open("wb" if mark == "@" else "ab") as stream:
                _write_value(stream, value, kind.dtype, is_npy=file.endswith(".npy"))


def _write_value(stream: IO[bytes], value: Value, dtype: Any, is_npy: bool) -> None:
    """Write one result, as .npy or as raw bytes; a number becomes an array of rank 0 and type `dtype`."""
    import numpy as np

    array = np.asarray(value, dtype)
    if is_npy:
        np.lib.format.write_array(stream, array, allow_pickle=False)
    else:
        stream.write(array.tobytes())
