"""The mean of the rows of a table that each bag names; an empty bag is 0."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd


@pd.kernel(workgroup=64)
def embedding_bag(
    table: Annotated[pd.View, pd.f32["rows", "n"]],
    numbers: Annotated[pd.View, pd.i64["count"]],
    starts: Annotated[pd.View, pd.i64["bags"]],
    y: Annotated[pd.View, pd.f32["bags", "n"]],
) -> None:
    """Compute bag b from the rows numbers[starts[b] : starts[b + 1]] of the table, the last one up to the end."""
    j, bag = pd.global_id(0), pd.global_id(1)
    if bag < y.shape[0] and j < y.shape[1]:
        begin = starts[bag]
        end = starts[bag + 1] if bag + 1 < starts.shape[0] else numbers.shape[0]
        total = 0.0
        for at in range(begin, end):
            total += table[numbers[at], j]
        y[bag, j] = total / pd.f32(max(end - begin, 1))


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of five bags, one of them empty."""
    table = random.standard_normal((30, 40), np.float32)
    numbers, starts = random.integers(0, 30, 25), np.array([0, 4, 4, 11, 24])
    bags = [table[part].mean(0) if part.size else np.zeros(40) for part in np.split(numbers, starts[1:])]
    return [Case(embedding_bag, (table, numbers, starts, np.zeros((5, 40), np.float32)), (np.stack(bags),), 1e-5)]


if __name__ == "__main__":
    run(cases)
