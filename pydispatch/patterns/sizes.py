"""Sizes for predicates: numbers, or the known range and divisor of a size that is known at run time."""

from __future__ import annotations

from dataclasses import dataclass


class Undecided(Exception):
    """A predicate depends on a size that is only known at run time."""


@dataclass(frozen=True)
class Dynamic:
    """A size between `low` and `high` that is a multiple of `multiple`. Undecided comparisons raise Undecided."""

    name: str
    low: int = 0
    high: int | None = None
    multiple: int = 1

    def __mod__(self, divisor: int) -> int:
        if self.multiple % divisor == 0:
            return 0
        raise Undecided(f"{self.name} is dynamic, and not known to be a multiple of {divisor}")

    def __lt__(self, other: int) -> bool:
        return self._decide(self.high is not None and self.high < other, self.low >= other, f"less than {other}")

    def __le__(self, other: int) -> bool:
        return self._decide(self.high is not None and self.high <= other, self.low > other, f"at most {other}")

    def __gt__(self, other: int) -> bool:
        return not self <= other

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dynamic) and other.name == self.name:
            return True
        raise Undecided(f"{self.name} is dynamic, it cannot be compared with {other}")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        raise Undecided(f"{self.name} is dynamic")

    def __index__(self) -> int:
        raise Undecided(f"{self.name} is dynamic")

    def _decide(self, yes: bool, no: bool, what: str) -> bool:
        if not yes and not no:
            raise Undecided(f"{self.name} is dynamic, and not known to be {what}")
        return yes
