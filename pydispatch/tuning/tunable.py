"""Tunables: parts of a program with several configurations, from which tuning chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from pydispatch.formats.artifact.artifact import Artifact


class Tunable(ABC):
    """Part of a program with several named configurations, of which tuning chooses the fastest.

    Example: the kernel of a matrix product. Its configurations are schedules, such as `14x32, tile 112x256, K 512` and
    `14x32, tile 112x256, K 512, packs B`. Other tunables, such as a convolution, have just two configurations.

    `Search` measures the default, then the neighbours of the best configuration so far, until none of them is faster.
    At the end it calls `apply`, unless the default is best. What it measures are trials: programs of a `TrialBuilder`
    that compute the tunable alone, in one configuration.

    Attributes:
        subject: Description of the tunable for messages.
        key: Text that is equal for tunables to which the same measurement applies, on one machine.
        calls: Number of equal dispatches, convolutions or matches in the program, for which the tunable stands. The
            search multiplies times by it. Repetitions in loops do not count.
        default: Name of the configuration that is used without measurement.
    """

    subject: str
    key: str
    calls: int
    default: str

    @abstractmethod
    def neighbours(self, config: str) -> Sequence[str]:
        """Return the configurations to try when `config` is the best so far, likely improvements first."""

    @abstractmethod
    def is_legal(self, config: str) -> bool:
        """Return whether a name, which may be read from a file, is a configuration of this tunable."""

    @abstractmethod
    def apply(self, config: str) -> None:
        """Apply a configuration to the program that is being compiled."""


class Trial(NamedTuple):
    """A function that computes one tunable in one configuration.

    Attributes:
        artifact: Program that contains the function.
        function: Name of the function.
        config: Name of the configuration.
        needed_imports: Symbols of optional imports that the function calls. Where one of them is missing, the function
            would run its fallback instead, so the trial is not measured.
    """

    artifact: Artifact
    function: str
    config: str
    needed_imports: Sequence[str] = ()


class TrialBuilder(ABC):
    """Builder of programs that each compute one tunable."""

    @abstractmethod
    def build(self, wanted: Sequence[tuple[Tunable, str]]) -> Sequence[Trial | None]:
        """Return a trial for each (tunable, name of its configuration), in this order; None if it does not compile."""
