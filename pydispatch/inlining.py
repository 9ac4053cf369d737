"""Limit of function calls that are inlined in one program or kernel."""

from __future__ import annotations

from collections import Counter

MOST_INLINED_CALLS = 1 << 13
"""Largest number of inlined calls of one program or kernel. More of them compile for minutes; a smaller limit would
refuse models whose layers are functions that call further functions."""


class InlinedCalls:
    """Counter of the inlined calls of one program or kernel."""

    def __init__(self) -> None:
        """Create a counter in which no function has been inlined."""
        self._counts: Counter[str] = Counter()

    def count_or_fault(self, name: str) -> tuple[str, str] | None:
        """Count a call of the function `name`. Return (message, remedy) of an error if it exceeds the limit, else
        None.
        """
        self._counts[name] += 1
        if self._counts.total() <= MOST_INLINED_CALLS:
            return None
        most, count = self._counts.most_common(1)[0]  # the function with most calls, and how many these are
        return (
            f"more than {MOST_INLINED_CALLS:,} calls of functions, each of which is replaced by a copy of the function",
            f"'{most}' is called {count:,} times: call it in a loop of the program, or pass on the result of one call",
        )
