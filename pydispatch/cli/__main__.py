"""The command `pydispatch`. Each subcommand is a module with `add_arguments` and `run`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from pydispatch import extensions, logs
from pydispatch.errors import CompileWarning, Error
from pydispatch.faults import faults_as_internal_errors
from pydispatch.garbage import QuickExit
from pydispatch.suggestions import did_you_mean


def commands(only: str | None = None) -> dict[str, ModuleType]:
    """Import the modules of the subcommands, and return them by name.

    only: name of the subcommand whose module is imported alone; None, or a name that is no subcommand, for all of them.
    """
    named = extensions.part("subcommand", only) if only is not None else None
    subcommands = [named] if named else sorted(extensions.parts("subcommand"), key=_name)
    return {subcommand.name: subcommand.load() for subcommand in subcommands}


def _name(part: extensions.Part) -> str:
    """Return the name of a subcommand, to sort by."""
    return part.name


class _HelpFormatter(argparse.HelpFormatter):
    """Formatter of help that fills each paragraph by itself, and keeps indented ones, such as examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return a description or an epilog in lines of at most `width` characters."""
        fill = super()._fill_text
        paragraphs = text.split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else fill(part, width, indent) for part in paragraphs)


def _parser(only: str | None) -> argparse.ArgumentParser:
    """Create the argument parser.

    only: name of the one subcommand to add, which saves the import of the others; None for all. The docstring of a
    subcommand's module is its help text.
    """
    parser = argparse.ArgumentParser(
        prog="pydispatch", description="Compiles custom dispatch programs and runs them.", allow_abbrev=False
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in commands(only).items():
        text = (module.__doc__ or "").strip()
        sub = subparsers.add_parser(
            name, help=text.partition("\n")[0].rstrip("."), description=text, allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )  # fmt: skip
        module.add_arguments(sub)
        sub.add_argument(
            "-v", "--verbose", action="count", default=0, help="say on stderr what is done; -vv also what is decided"
        )
        sub.set_defaults(run=module.run)
    return parser


def _quoting_hint(words: Sequence[str], unknown: Sequence[str]) -> str:
    """Return a hint about quotes if the shell seems to have split a value, else "".

    That is so if extra words follow an option: of --input=3xf32=1 2 the 2 is an unknown word.

    words: all of the command line. unknown: the words that no option or argument takes.
    """
    if unknown[0].startswith("-"):  # an unknown option; of -vx it is -x, which is no word of the command line
        return ""
    unknown_index = words.index(unknown[0])
    option_index = next((i for i in reversed(range(unknown_index)) if words[i].startswith("-")), None)
    if option_index is None or "=" not in words[option_index]:
        return ""
    name, _, value = words[option_index].partition("=")
    return f' (a value with blanks needs quotes: {name}="{value} {words[option_index + 1]} ...")'


def _show_warning(message: Warning | str, category: type[Warning], file: str, line: int, *_: object) -> None:
    """Print a warning without the line of Python code that raised it.

    A CompileWarning is about the user's program, so that the Python file, line and category are left out, too.
    """
    origin = "" if issubclass(category, CompileWarning) else f"{file}:{line}: {category.__name__}: "
    print(f"pydispatch: {_colored('warning: ')}{origin}{message}", file=sys.stderr)


def _colored(text: str, word: str = "warning: ", color: int = 35) -> str:
    """Color the leading `word` of a text if stderr is a terminal and NO_COLOR is not set. `color` is an ANSI code."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        return text
    return text.replace(word, f"\x1b[1;{color}m{word.rstrip()}\x1b[0m ", 1)


def _drop_output() -> None:
    """Redirect standard output to the null device, so that flushing at exit does not fail again after a broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _flush() -> None:
    """Write buffered output. Raise Error if that fails for another reason than a closed pipe."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise Error(f"cannot write standard output: {error.strerror or error}") from None


def _message_of(error: BaseException) -> str:
    """Return the message of an error; of an OSError its text and its file name, without the number of the error."""
    if not isinstance(error, OSError) or not error.errno:
        return str(error) or type(error).__name__
    return f"{error.strerror}: '{error.filename}'" if error.filename else str(error.strerror)


@faults_as_internal_errors(passing=(OSError, UnicodeError))
def _run(words: Sequence[str]) -> int:
    """Parse the command line and run its subcommand; return the exit status.

    Without a subcommand the help is printed, and the status is 2. The decorator raises an unexpected exception of
    pydispatch's own code as InternalError; it leaves OSError and UnicodeError to `main`.

    Args:
        words: Arguments after the name of the program, such as ["run", "f.pdx", "--input=3"].
    """
    # Only the module of the named subcommand is imported. An unknown name is refused here, with a suggestion. Installed
    # packages may register subcommands, too: each is a part of the kind "subcommand".
    command = words[0] if words and not words[0].startswith("-") else None
    parser = _parser(command)
    names = [part.name for part in extensions.parts("subcommand")] if command is not None else []
    if command is not None and extensions.part("subcommand", command) is None:
        parser.error(f"there is no command '{command}'; {did_you_mean(command, names)}commands: {', '.join(names)}")
    args, unknown = parser.parse_known_args(words)
    if unknown:  # refused here instead of by argparse, to add the hint
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_quoting_hint(words, unknown)}")
    if args.version:
        import pydispatch

        print(f"pydispatch {pydispatch.__version__}")
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    if args.verbose and not os.environ.get("PYDISPATCH_LOG"):  # the variable takes precedence over -v
        logs.set_up("info" if args.verbose == 1 else "debug")
    with warnings.catch_warnings():  # restores showwarning
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        code = int(args.run(args))
    _flush()  # an error while writing the rest of the output is reported like others, not at exit
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        Exit status: 0; 1 after an error, which is reported on stderr; 2 for wrong usage; 130 after Ctrl-C.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:
        _drop_output()  # the reader of our output has closed the pipe
        return 1
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "pydispatch":
            raise  # no optional package is missing, but a module of pydispatch: the traceback is needed
        _report(f"error: this needs {error.name}: pip install 'pydispatch[compiler]'")
        return 1
    except (Error, OSError, MemoryError, UnicodeError) as error:
        # A full disk behind standard output, to which a long text is written before the final _flush(). For other files
        # the module `files` raises a class of Error instead.
        is_output_full = isinstance(error, OSError) and error.errno == errno.ENOSPC and not isinstance(error, Error)
        if is_output_full:
            _drop_output()
            error = Error(f"cannot write standard output: {os.strerror(errno.ENOSPC)}")
        if os.environ.get("PYDISPATCH_DEBUG", "0") not in ("", "0"):
            raise  # with the traceback
        text = _message_of(error)
        # A CompileError begins with its location, file:line:column, as compilers do, or with "error" when it has none.
        has_kind = ": error: " in text or text.startswith("error: ")
        _report(text if has_kind else f"error: {text}")
        return 1


def _report(text: str) -> None:
    """Print the text of an error to stderr; on a terminal, its leading `error: ` is red."""
    red = 31  # the code of ANSI
    print(f"pydispatch: {_colored(text, word='error: ', color=red)}", file=sys.stderr)


def process() -> int:
    """Run main() as the only task of this process, and return its exit status.

    No subcommand calls NumPy's BLAS, whose threads would spin for a tenth of the time of a short command.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    quick_exit = QuickExit()
    status = main()
    # With a status, the process ends without the exit handlers of C. Where devices may have loaded libraries of users,
    # it ends as usual: the libraries may have destructors, or text that printf buffers.
    if "pydispatch.runtime.devices" not in sys.modules:
        quick_exit.status = status
    return status


if __name__ == "__main__":
    sys.exit(process())
