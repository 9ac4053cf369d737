"""Chooser of a compilation, which selects the configurations that are fastest on this machine by measurement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from pydispatch._core.elf import host_machine
from pydispatch.compiler.driver.pipeline import Pipeline
from pydispatch.compiler.fusion.im2col import Convolution, im2col_pays
from pydispatch.compiler.match.python.apply import Candidate
from pydispatch.compiler.target.backend import require_backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.choices import Choice
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import symbol_name
from pydispatch.tuning.bench import Bench
from pydispatch.tuning.contractions import contraction_tunable
from pydispatch.tuning.convolutions import ConvolutionPrograms, convolution_tunables
from pydispatch.tuning.database import Database, Measurement
from pydispatch.tuning.dispatches import DispatchTunable, Programs
from pydispatch.tuning.fallbacks import FallbackTunable
from pydispatch.tuning.matches import MatchPrograms, match_tunables
from pydispatch.tuning.search import Search
from pydispatch.tuning.standalone import can_run_standalone, dispatches_of
from pydispatch.tuning.tunable import TrialBuilder, Tunable

Say = Callable[[str], object]
"""Function that is passed each line of the report."""


def _to_stderr(line: str) -> None:
    """Write a progress message to standard error."""
    sys.stderr.write(line + "\n")


class Tuner:
    """Chooser of one compilation (`pipeline.Chooser`), which measures alternatives within a time limit.

    Args:
        seconds: Time limit; 0: only stored measurements are used.
        bench: Timer of programs on this machine.
        say: Is passed each line of the report.

    Attributes:
        choices: The results so far.
    """

    def __init__(self, seconds: float, bench: Bench, say: Say = _to_stderr) -> None:
        """Begin without choices, with all of the time left."""
        self._left, self._bench, self._say = seconds, bench, say  # _left: seconds until the time limit
        self.choices: list[Choice] = []

    def choose_matches(self, compilation: Pipeline, candidates: Sequence[Candidate]) -> Sequence[bool]:
        """Return whether each candidate is replaced. Candidates that cannot be measured are replaced.

        The measurements take up to half of the time left, as the rest is for the dispatches of the resulting program.
        """
        programs = MatchPrograms(compilation.options)
        tunables = match_tunables(candidates, programs)
        self._search(compilation, programs, list(tunables), self._left / 2)  # sets `is_replaced` of each tunable
        dropped = {index for tunable, indices in tunables.items() if not tunable.is_replaced for index in indices}
        return [index not in dropped for index in range(len(candidates))]

    def choose_convolutions(self, compilation: Pipeline, candidates: Sequence[Convolution]) -> Sequence[bool]:
        """Return whether each convolution uses im2col columns, by measurements that take up to half of the time left,
        else by `im2col_pays`.
        """
        tunables = convolution_tunables(candidates)
        # The search sets `columns` of each tunable.
        self._search(compilation, ConvolutionPrograms(compilation.options), list(tunables), self._left / 2)
        uses_columns = list(map(im2col_pays, candidates))
        for tunable, indices in tunables.items():  # the indices of equal candidates
            for index in indices:
                uses_columns[index] = tunable.columns
        return uses_columns

    def configure_dispatches(self, compilation: Pipeline) -> None:
        """Measure the dispatches of a program for the time left, and apply the best configurations to them."""
        tunables = tunables_of(compilation, _machine(compilation))
        self._search(compilation, Programs(compilation.options), tunables, self._left)

    def _search(
        self, compilation: Pipeline, builder: TrialBuilder, tunables: Sequence[Tunable], seconds: float
    ) -> None:
        """Measure tunables within `seconds`, apply the best configurations, and add them to `choices`.

        A tunable is a computation of the program with several configurations, such as sizes of tiles.

        The time that this takes, without the measurement of the defaults, is subtracted from the time left.

        Args:
            compilation: The tuned compilation.
            builder: Builder of programs that compute one of the tunables.
            tunables: The tunables; there may be none.
            seconds: Time limit of this search; 0: only stored measurements are used.

        Raises:
            CompileError: The program is not compiled for one CPU like this one, even if there are no tunables.
        """
        machine = _machine(compilation)
        if not tunables:
            return
        # Stored measurements apply to this CPU, this number of workers, and code for these features.
        where = f"{self._bench.machine}, code for {machine.cpu} {machine.llvm_features}".rstrip()
        search = Search(builder, self._bench, Database(where, self._say), self._say)
        entries = search.run(tunables, seconds)
        self._left = max(0.0, self._left - search.spent)
        self._say(summary(entries, len(tunables)))
        self.choices += [
            Choice(
                tunable.subject, entry.chosen, entry.us, entry.default, entry.default_us, machine=self._bench.machine
            )
            for tunable, entry in entries.items()
        ]


def summary(entries: Mapping[Tunable, Measurement], count: int) -> str:
    """Return a line of text: how many choices were measured, and the time of a call before and after tuning.

    entries: measurements of the tunables that have one. count: number of all tunables.
    """
    before = sum(entry.default_us * tunable.calls for tunable, entry in entries.items())
    after = sum(entry.us * tunable.calls for tunable, entry in entries.items())
    gain = f" (-{(1 - after / before) * 100:.1f} %)" if after < before else ""
    return f"measured {len(entries)} of {count} choices: {before:.1f} -> {after:.1f} us a call{gain}"


def _machine(compilation: Pipeline) -> Machine:
    """Return the machine that the program is compiled for. Raise CompileError unless it is one CPU like this one."""
    targets = compilation.targets()
    machine = require_backend(targets[0]).cpu_machine(targets[0]) if len(targets) == 1 else None
    if machine is None or machine.arch != host_machine():
        names = ", ".join(str(target) for target in targets)
        raise CompileError(
            f"tune: measures code for one CPU of this machine, and the program is compiled for {names}",
            note="compile with targets='cpu' and one cpu=, such as 'native'",
        )
    return machine


def tunables_of(compilation: Pipeline, machine: Machine) -> list[DispatchTunable]:
    """Return the tunables of a program whose dispatches are formed, one for each export that can be measured alone.

    A tunable is an export, a kernel of the program, with several configurations of which the fastest is searched.

    All dispatches of such an export have static sizes. The export is one of these:

    - It calls external functions with fallbacks, functions of the module that replace them if they are missing
      (`FallbackTunable`).
    - It was formed from one contraction, such as a matrix product or convolution (`ContractionTunable`).

    Args:
        compilation: The tuned compilation, which has one target.
        machine: The CPU of that target.
    """
    backend = require_backend(compilation.targets()[0])
    executables = {symbol_name(op): op for op in compilation.module.body.block.ops if "sym_name" in op.properties}
    tunables: list[DispatchTunable] = []
    for (name, export), uses in dispatches_of(compilation.module).items():
        executable = executables.get(name)
        if executable is None or not all(map(can_run_standalone, uses)):
            continue
        fallbacks = FallbackTunable(executable, export, uses)
        if fallbacks.default:  # the calls of imports with fallbacks; "" if the export has none
            tunables.append(fallbacks)
        elif isinstance(executable, flow.ExecutableOp):  # those of other dialects have hand-written kernels
            tunable = contraction_tunable(executable, export, uses, backend, machine)
            tunables += [] if tunable is None else [tunable]
    return tunables
