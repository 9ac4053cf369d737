"""Knowledge of the index values of a kernel, by which the index arithmetic of builders folds."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from typing import TypeVar

from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.build import Index

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class KnownIndices:
    """Known properties of the index values of one kernel, by which its builders leave out divisions and comparisons.

    The builder of a loop body and the builder around the loop share one set of tables. The builder of a branch has
    tables of its own on top of the shared ones: its properties may follow from the condition of the branch.

    Attributes:
        linear_parts: Value that was computed as high * size + low, with 0 <= low < size and 0 <= high ->
            (high, size, low).
        dividends: (n / size, n mod size) -> (n, size), for pairs of an index n.
    """

    def __init__(self, parent: KnownIndices | None, is_branch: bool = False) -> None:
        """Share the tables of the enclosing builder `parent`; the outermost builder begins with empty ones.

        `is_branch` is whether the code of this builder runs under a condition. Properties that this builder records are
        then not added to the tables of `parent`, because the condition may be what makes them true.
        """

        def table(inherited: MutableMapping[_Key, _Value] | None) -> MutableMapping[_Key, _Value]:
            """Return the table of this builder that corresponds to the table `inherited` of the parent."""
            if inherited is None:  # there is no parent
                return {}
            return ChainMap({}, inherited) if is_branch else inherited

        # Value of high * size + low -> (high, size, low).
        self.linear_parts: MutableMapping[SSAValue, tuple[Index, Index, Index]] = table(
            parent.linear_parts if parent else None
        )
        # (n / size, n mod size) -> (n, size).
        self.dividends: MutableMapping[tuple[Index, Index], tuple[Index, Index]] = table(
            parent.dividends if parent else None
        )
        # Value -> bound that it is below.
        self._bounds: MutableMapping[SSAValue, Index] = table(parent._bounds if parent else None)
        # Values that are known not to be negative, as keys of a dictionary without values: ChainMap needs mappings.
        self._not_negative: MutableMapping[SSAValue, None] = table(parent._not_negative if parent else None)
        # Value that counts from 0 in steps of one, as a loop's index does -> its end.
        self._counters: MutableMapping[SSAValue, Index] = table(parent._counters if parent else None)

    def assume_below(self, value: SSAValue, limit: Index) -> SSAValue:
        """Record that 0 <= value < limit, so that divisions and comparisons fold; return `value`."""
        self._bounds[value] = limit
        return value

    def assume_not_negative(self, value: SSAValue) -> SSAValue:
        """Record that 0 <= value, so that comparisons with 0 fold; return `value`."""
        self._not_negative[value] = None
        return value

    def assume_counts_to(self, value: SSAValue, limit: Index) -> SSAValue:
        """Record that `value` counts from 0 to limit - 1 in steps of one, and return `value`."""
        self._counters[value] = limit
        return self.assume_below(value, limit)

    def is_not_negative(self, value: Index) -> bool:
        """Return whether 0 <= value is known."""
        if isinstance(value, int):
            return value >= 0
        # `assume_below` also states 0 <= value, and `linear_parts` has linear indices, whose parts are not negative.
        return value in self._not_negative or value in self._bounds or value in self.linear_parts

    def is_below(self, value: Index, limit: Index) -> bool:
        """Return whether 0 <= value < limit is known."""
        if isinstance(value, int):
            return isinstance(limit, int) and 0 <= value < limit
        bound = self._bounds.get(value)
        if bound is None and value in self.linear_parts and isinstance(limit, int):
            # high * size + low, with low < size, is below a multiple of `size` if `high` is below limit / size:
            # high * 4 + low is below 24 if high is below 6.
            high, size, _low = self.linear_parts[value]
            return isinstance(size, int) and limit % size == 0 and self.is_below(high, limit // size)
        return bound is limit or (isinstance(bound, int) and isinstance(limit, int) and bound <= limit)

    def is_counter(self, value: Index, limit: Index) -> bool:
        """Return whether an enclosing loop counts `value` from 0 to just below `limit`."""
        if isinstance(value, int):  # the counter of a folded loop of one iteration
            return value == 0 and limit == 1
        end = self._counters.get(value)
        return end is limit or (isinstance(end, int) and end == limit)
