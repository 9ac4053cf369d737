"""Sites: parts of a program that can be computed in several ways, from which tuning chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from pydispatch.formats.artifact.artifact import Artifact


class Site(ABC):
    """Part of a program that can be computed in several named ways.

    Attributes:
        subject: Description of the site for messages.
        key: Text that is equal for sites to which the same measurement applies, on one machine.
        calls: Minimum number of times that the program computes the site.
        default: Name of the way that is used without measurement.
    """

    subject: str
    key: str
    calls: int
    default: str

    @abstractmethod
    def near(self, name: str) -> Sequence[str]:
        """Return the ways to try where `name` is the best so far, likely ones first."""

    @abstractmethod
    def is_legal(self, name: str) -> bool:
        """Return whether a name, which may come from a file, is a way to compute this."""

    @abstractmethod
    def choose(self, name: str) -> None:
        """Make the program that is compiled compute it in this way."""


class Built(NamedTuple):
    """A function of a program that computes a site in one way, and nothing else. needs: symbols of optional imports
    that it calls."""

    artifact: Artifact
    function: str
    way: str
    needs: Sequence[str] = ()


class Builder(ABC):
    """Builder of programs that each compute one site."""

    @abstractmethod
    def build(self, wanted: Sequence[tuple[Site, str]]) -> Sequence[Built | None]:
        """Return a function for each site and way; None for one that does not compile."""
