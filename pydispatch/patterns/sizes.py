"""Sizes in predicates: numbers, or ranges and divisors of sizes that are dynamic."""

from __future__ import annotations

from dataclasses import dataclass


class Undecided(Exception):
    """Signal that a predicate depends on a dynamic size."""


@dataclass(frozen=True)
class Dynamic:
    """Dynamic size of a match. Comparisons that its range and divisor do not decide raise Undecided.

    Attributes:
        name: Name of the size in the pattern, for messages.
        low: Smallest value.
        high: Largest value; None without an upper bound.
        multiple: Number that divides every value.
    """

    name: str
    low: int = 0
    high: int | None = None
    multiple: int = 1

    def __mod__(self, divisor: int) -> int:
        """Return 0 if the size is known to be a multiple of the divisor. Raise Undecided otherwise."""
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
        """Return True for the size of this name. Raise Undecided for anything else, which may or may not be equal."""
        if isinstance(other, Dynamic) and other.name == self.name:
            return True
        raise Undecided(f"{self.name} is dynamic, it cannot be compared with {other}")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        """Raise Undecided: whether the size is 0 is not known."""
        raise Undecided(f"{self.name} is dynamic")

    def __index__(self) -> int:
        """Raise Undecided: the size is no number."""
        raise Undecided(f"{self.name} is dynamic")

    def _decide(self, yes: bool, no: bool, what: str) -> bool:
        """Return `yes`, whether a comparison holds for all values. Raise Undecided unless it or `no` is true.

        no: whether the comparison holds for no value. `what` describes the comparison, such as "less than 4".
        """
        if not yes and not no:
            raise Undecided(f"{self.name} is dynamic, and not known to be {what}")
        return yes
