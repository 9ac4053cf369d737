"""What is chosen between: places of a program that may be computed in several ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from pydispatch.formats.artifact.artifact import Artifact


class Site(ABC):
    """Something that may be computed in several ways, which go by names.

    subject: what people call it. key: text that is equal where the same measurement holds, apart from the machine.
    calls: how often the program computes it, at least. default: the way that is taken without measurement.
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
    """Makes programs of sites."""

    @abstractmethod
    def build(self, wanted: Sequence[tuple[Site, str]]) -> Sequence[Built | None]:
        """Return a function for each site and way; None for one that does not compile."""
