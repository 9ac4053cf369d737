"""Runs the functions of programs that take no arguments, as tests.

A test passes when it runs to its end and every check.expect_… in it holds. FILE is a .pdx, or an .mlir that is
compiled first; a file that does not compile is one failed test. Lines `// -----` cut an .mlir into programs of their
own. With several devices each test runs on each of them. The last line is `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydispatch.errors import CompileError, Error, InvalidArgumentError
from pydispatch.files import read_text, refuse_overwriting, write
from pydispatch.packages import importing

_MOST_SECONDS = 10_000_000
"""Largest --timeout: functions of the operating system that wait refuse longer times."""


@dataclass(frozen=True)
class Outcome:
    """Result of one test on one device.

    Attributes:
        file: Path of the file: as the command line has it, or the path of a folder there and the path in that folder.
        function: Name of the test; "" for a file that does not compile, load or finish.
        device: Name of the device, as the command line has it.
        failure: Reason of the failure; "" if the test passed.
        seconds: Duration.
    """

    file: str
    function: str
    device: str
    failure: str
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch check`."""
    from pydispatch.cli.run import add_loading_arguments

    parser.add_argument("files", nargs="+", metavar="FILE", help="a .pdx or .mlir file, or a folder of them")
    add_loading_arguments(parser, several_devices=True)
    parser.add_argument("--filter", default="", metavar="TEXT", help="run only functions with TEXT in their names")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="time limit of a file, which fails after it; default: 600",
    )
    parser.add_argument("--junit", metavar="FILE", help="also write the results as JUnit XML")
    parser.add_argument(
        "--summary", metavar="FILE",
        help="also write one line for each test, in alphabetical order and without times, so that runs can be compared",
    )  # fmt: skip
    parser.add_argument(
        "--jobs",
        "-j",
        type=int,
        default=0,
        metavar="N",
        help="number of files to run at a time, each in a process; default: one per CPU",
    )


def run(args: argparse.Namespace) -> int:
    """Run the tests in files, on each device, and report them; return 1 if a test failed or there are none, else 0.

    A test is a public function without arguments. Each file runs on each device in a process of its own.
    """
    if args.jobs < 0:  # 0, the default, stands for the number of CPUs
        raise InvalidArgumentError(f"--jobs={args.jobs}: expected 0 (all CPUs) or more")
    if not 0 < args.timeout <= _MOST_SECONDS:
        raise InvalidArgumentError(f"--timeout={args.timeout:g}: expected more than 0 seconds, at most {_MOST_SECONDS}")
    devices = args.devices or ["cpu"]
    if len(set(devices)) < len(devices):
        raise InvalidArgumentError(f"--device: expected each device once, got {', '.join(devices)}")
    files = list(_files(args.files))
    for option in ("junit", "summary"):
        if output := getattr(args, option):
            refuse_overwriting(f"--{option}", output, files)
    # Run the tests, and report the outcomes of a file when its process ends.
    outcomes: list[Outcome] = []
    runs = [(file, device) for file in files for device in devices]
    for finished, results in enumerate(_run_all(runs, args), 1):
        outcomes += results
        for outcome in results:
            _report(outcome, names_device=len(devices) > 1)
        if sys.stderr.isatty() and finished < len(runs):
            print(f"{finished} of {len(runs)} files", end="\r", file=sys.stderr, flush=True)
    _report_all(outcomes, devices, args)
    return 1 if not outcomes or any(outcome.failure for outcome in outcomes) else 0


def _report_all(outcomes: Sequence[Outcome], devices: Sequence[str], args: argparse.Namespace) -> None:
    """Write the files of --junit and --summary, and print the numbers of tests, of each device and of all."""
    if args.junit:
        _write_junit(Path(args.junit), outcomes, names_device=len(devices) > 1)
    if args.summary:
        write("--summary", Path(args.summary), "".join(sorted(map(_summary_line, outcomes))).encode())
    if not outcomes:
        named = f" with '{args.filter}' in its name (--filter)" if args.filter else ""
        print(f"there is no public function without arguments{named} in {', '.join(args.files)}", file=sys.stderr)
    if len(devices) > 1:
        for device in devices:
            print(f"{device}: {_counts([outcome for outcome in outcomes if outcome.device == device])}")
    print(_counts(outcomes))


def _counts(outcomes: Sequence[Outcome]) -> str:
    """Return `N passed, M failed`."""
    failed = sum(1 for outcome in outcomes if outcome.failure)
    return f"{len(outcomes) - failed} passed, {failed} failed"


def _files(paths: Sequence[str]) -> Iterator[Path]:
    """Yield the files at `paths`; for a folder the .mlir and .pdx files in it and its subfolders, sorted.

    Raise InvalidArgumentError for a folder without such files.
    """
    for text in paths:
        path = Path(text)
        if path.is_dir():
            programs = sorted(p for p in path.rglob("*") if p.suffix in (".mlir", ".pdx"))
            if not programs:
                raise InvalidArgumentError(f"{path}: no .mlir or .pdx file in this folder")
            yield from programs
        else:
            yield path


def _run_all(work: Sequence[tuple[Path, str]], args: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Run the tests of each (file, device) pair, and yield their outcomes in the order of the pairs.

    Each pair runs in a forked process of its own, so that a kernel that crashes ends the tests of one pair only. A
    system without fork, such as Windows, runs all pairs in this process, one after the other.

    If there are .mlir files, the compiler is loaded before the first fork, and the children share its memory. They call
    LLVM themselves, without the further processes that isolate a crash of LLVM elsewhere: a child is such a process.
    """
    import multiprocessing

    if "fork" not in multiprocessing.get_all_start_methods():
        for file, device in work:
            yield _run_file(file, device, args)
        return
    if all(file.suffix != ".mlir" for file, _ in work):  # nothing is compiled
        yield from _run_in_children(work, args)
        return
    with _llvm_in_process():
        if len(work) > 1:  # a single child loads the compiler as fast itself
            _warm_up()
        yield from _run_in_children(work, args)


@contextlib.contextmanager
def _llvm_in_process() -> Iterator[None]:
    """Let this process and its children run LLVM themselves within the context, unless the environment decides.

    A crash of LLVM ends only the process of one file, and a process for LLVM takes longer to start than most files
    take to compile.
    """
    from pydispatch.compiler.worker.process import PROCESSES_VARIABLE

    if PROCESSES_VARIABLE in os.environ:
        yield
        return
    os.environ[PROCESSES_VARIABLE] = "0"  # no process for LLVM: it runs in this one
    try:
        yield
    finally:
        del os.environ[PROCESSES_VARIABLE]


def _run_in_children(work: Sequence[tuple[Path, str]], args: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Run each (file, device) pair in a forked process, `--jobs` at a time; yield the outcomes in the order of `work`.

    A later child may finish first; its outcomes wait for those of the earlier ones. Without `--jobs` each CPU runs one.
    """
    jobs = args.jobs or os.cpu_count() or 1
    waiting = list(reversed(work))  # the next pair is at the end
    children: list[_Child] = []  # those whose outcomes have not been yielded, in order, running or done
    while waiting or children:
        while waiting and sum(not child.done for child in children) < jobs:
            children.append(_Child(*waiting.pop(), args))
        _wait_for_children(children, args.timeout)
        while children and children[0].done:
            yield children.pop(0).result()


def _wait_for_children(children: Sequence[_Child], timeout: float) -> None:
    """Wait until a child sends its outcomes, exits or times out; kill those that have timed out.

    timeout: seconds from the start of each child. At least one of the children is not done.
    """
    from multiprocessing.connection import wait

    running = [child for child in children if not child.done]
    seconds_left = min(child.start_time + timeout for child in running) - time.monotonic()
    ready = wait([child.pipe for child in running], max(0.0, seconds_left))
    for child in running:
        if child.pipe in ready:
            child.receive()
        elif time.monotonic() - child.start_time >= timeout:
            child.stop(timeout)


def _warm_up() -> None:
    """Load the compiler before forking, so that children share it. If it is missing, each file reports that."""
    import pydispatch

    with contextlib.suppress(ImportError, Error):
        pydispatch.compile("func.func @f(%a: tensor<1xf32>) -> tensor<1xf32> {\n"
                           "  %b = arith.addf %a, %a : tensor<1xf32>\n  return %b : tensor<1xf32>\n}")  # fmt: skip


class _Child:
    """Process that runs the tests of one file on one device; the constructor starts it.

    `receive` is called when the pipe has data, `stop` after the time limit. Once `done`, `result` returns the outcomes.

    Attributes:
        start_time: When it was started, in seconds of the monotonic clock.
        pipe: End of the pipe that receives the outcomes; it is closed at the other end when the child exits.
        errors: File with what the child writes to stderr.
        done: Whether it has sent its result, exited or been killed.
        outcomes: Outcomes of the tests that the child sent; None if it sent nothing.
        timeout_message: Message about a timeout; "" if there was none.
    """

    def __init__(self, file: Path, device: str, args: argparse.Namespace) -> None:
        """Start the process that runs the tests of `file` on `device`; `args` are the options of the command."""
        import multiprocessing
        import tempfile

        context = multiprocessing.get_context("fork")
        self.file, self.device, self.start_time, self.done = file, device, time.monotonic(), False
        self.outcomes: list[Outcome] | None = None
        self.timeout_message = ""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  (result() closes it)
        self.pipe, child = context.Pipe(duplex=False)
        self.process = context.Process(target=self._main, args=(child, args))
        sys.stdout.flush()  # else the child would write buffered text once more
        sys.stderr.flush()
        self.process.start()
        child.close()  # so that `pipe` ends when the child exits

    def _main(self, pipe, args: argparse.Namespace) -> None:  # type: ignore[no-untyped-def]
        """Run the tests in the child process, with its error output in a file, and send the outcomes."""
        os.dup2(self.errors.fileno(), 2)
        pipe.send(_run_file(self.file, self.device, args))

    def receive(self) -> None:
        """Receive what the child sends, and wait for its end; `outcomes` is unchanged if it does not send all of it."""
        with contextlib.suppress(EOFError, OSError):  # OSError: the child ended in the middle of a message
            self.outcomes = self.pipe.recv()
        self.process.join()
        self.done = True

    def stop(self, timeout: float) -> None:
        """Kill a child that has exceeded the timeout, in seconds."""
        self.process.kill()
        self.process.join()
        self.timeout_message, self.done = f"it was ended after {timeout:g} s (--timeout)", True

    def result(self) -> list[Outcome]:
        """Close the streams of a child that is done, and return the outcomes that it sent.

        A child that sent none has crashed, or was ended at the time limit: return one failure with the last 8 lines of
        its error output. The error output of other children is printed.
        """
        self.pipe.close()
        self.errors.seek(0)
        error_output = self.errors.read().decode(errors="replace").strip()
        self.errors.close()
        if self.outcomes is not None:
            if error_output:
                print(error_output, file=sys.stderr)
            return self.outcomes
        code = self.process.exitcode or 0
        exit_text = f"its process was ended by signal {-code}" if code < 0 else f"its process exited with {code}"
        last_lines = "\n".join(error_output.splitlines()[-8:])
        reason = (self.timeout_message or exit_text) + (f":\n{last_lines}" if last_lines else "")
        return [
            Outcome(
                str(self.file),
                function="",
                device=self.device,
                failure=reason,
                seconds=time.monotonic() - self.start_time,
            )
        ]


def _run_file(file: Path, device: str, args: argparse.Namespace) -> list[Outcome]:
    """Run the tests of a file on a device; an .mlir is split at `// -----`."""
    args = argparse.Namespace(**vars(args), device=device)
    try:
        programs = _split_programs(file) if file.suffix == ".mlir" else []
    except (OSError, UnicodeDecodeError):
        programs = []  # the compiler says what is wrong
    if len(programs) < 2:  # without a separator the file is read as a whole
        return _run_program(file, text=None, args=args)
    return [outcome for text in programs for outcome in _run_program(file, text, args)]


def _split_programs(file: Path) -> list[str]:
    """Return the programs between lines `// -----`, each preceded by empty lines so that its line numbers are those
    of the file."""
    lines = read_text(file).split("\n")  # splitlines() would also divide a comment at a form feed or U+2028
    # Indices of the separating lines, with one before the first line and one after the last.
    separators = [-1, *(n for n, line in enumerate(lines) if re.match(r"\s*//\s*-----", line)), len(lines)]
    return ["\n" * (begin + 1) + "\n".join(lines[begin + 1 : end]) for begin, end in itertools.pairwise(separators)]


def _run_program(file: Path, text: str | None, args: argparse.Namespace) -> list[Outcome]:
    """Compile and load one program, run its tests, and return their outcomes.

    A program that cannot be compiled or loaded has one outcome, whose `function` is "".

    Args:
        file: The .mlir or .pdx file.
        text: One of several programs in an .mlir file, the text between two lines `// -----`; None if the program is
            the whole file.
        args: Options of the command, with `device`, the one device to run on.
    """
    from pydispatch.cli.run import load_program

    start_time = time.monotonic()
    try:
        module = None
        if text is not None:
            if not any(line.strip() and not line.lstrip().startswith("//") for line in text.split("\n")):
                return []  # comments alone, such as those before the first separator
            module = _parsed(text, file)
        program = load_program(file, args, module)
    except (Error, OSError) as error:
        return [
            Outcome(
                str(file), function="", device=args.device, failure=str(error), seconds=time.monotonic() - start_time
            )
        ]
    outcomes = []
    for name, function in program.functions.items():
        if function.arguments or args.filter not in name:
            continue  # a function with arguments is no test
        start_time, failure = time.monotonic(), ""
        try:
            function()
        except (Error, OSError, MemoryError) as error:
            # The report names the function itself.
            failure = str(error).removeprefix(f"@{name}: ") or type(error).__name__
        outcomes.append(Outcome(str(file), name, args.device, failure, time.monotonic() - start_time))
    return outcomes


def _parsed(text: str, file: Path) -> object:
    """Return the program in `text` as a module, with the locations of `file`."""
    with importing("compiling", "compiler", CompileError):
        from pydispatch import ir
    return ir.parse(text, str(file))


def _report(outcome: Outcome, *, names_device: bool) -> None:
    """Print the outcome of one test, with the lines of its failure. names_device: whether to print its device."""
    name = f"{outcome.file} @{outcome.function}" if outcome.function else outcome.file
    print(f"{'FAIL' if outcome.failure else 'ok  '} {name}{f' on {outcome.device}' if names_device else ''}")
    for line in outcome.failure.splitlines():
        print(f"     {line}")


def _summary_line(outcome: Outcome) -> str:
    """Return `file function device ok`, or `file function device FAIL reason` with the first line of the failure.

    The function is "-" for a file that does not compile, load or finish.
    """
    reason = outcome.failure.strip().partition("\n")[0]
    state = f"FAIL {reason}" if outcome.failure else "ok"
    return f"{outcome.file} {outcome.function or '-'} {outcome.device} {state}\n"


def _write_junit(path: Path, outcomes: Sequence[Outcome], *, names_device: bool) -> None:
    """Write the outcomes as JUnit XML; characters that XML does not allow become `?`.

    names_device: whether the name of a test includes its device, because there are several.
    """
    from xml.etree import ElementTree

    failed = sum(1 for outcome in outcomes if outcome.failure)
    seconds = sum(outcome.seconds for outcome in outcomes)
    suite = ElementTree.Element(
        "testsuite", name="pydispatch check", tests=str(len(outcomes)), failures=str(failed), errors="0",
        time=f"{seconds:.3f}",
    )  # fmt: skip
    for outcome in outcomes:
        name = f"{outcome.function or 'compile'}{f' on {outcome.device}' if names_device else ''}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=outcome.file, name=name, time=f"{outcome.seconds:.3f}"
        )
        properties = ElementTree.SubElement(case, "properties")
        ElementTree.SubElement(properties, "property", name="device", value=outcome.device)
        if outcome.failure:
            # All characters but those of XML 1.0: tab, line breaks, and Unicode without surrogates and U+FFFE, U+FFFF.
            text = re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", outcome.failure)
            ElementTree.SubElement(case, "failure", message=text.partition("\n")[0]).text = text
    write("--junit", path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
