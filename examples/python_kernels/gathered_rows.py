"""Rows of a table by a tile of numbers, and the gradient of the table, with and without atomic additions."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, COLUMNS = 8, 32
"""Rows and columns of a tile, which a workgroup adds."""
COPIED = 256
"""Columns of a tile that a workgroup copies: runs of 1 KiB, which caches prefetch."""
OWNED = 64
"""Columns of the table that belong to one workgroup of `scattered_rows`."""
Table = Annotated[pd.View, pd.f32["rows", "n"]]
Numbers = Annotated[pd.View, pd.i32["count"]]  # indices of rows of the table
Gathered = Annotated[pd.View, pd.f32["count", "n"]]  # copies of the rows with these indices


@pd.kernel(workgroup=64)
def gathered_rows(table: Table, numbers: Numbers, y: Gathered) -> None:
    """Compute y[i] = table[numbers[i]]; a number outside of the table gives a row of zeros."""
    i, j = pd.group_id(1) * ROWS, pd.group_id(0) * COPIED
    y[i : i + ROWS, j : j + COPIED] = table[numbers[i : i + ROWS], j : j + COPIED]


@pd.kernel(workgroup=64, grid=lambda dy, *_: pd.cdiv(dy.shape[1], OWNED))
def scattered_rows(dy: Gathered, numbers: Numbers, dtable: Table) -> None:
    """Compute dtable[numbers[i]] += dy[i], where numbers may be equal; those outside of the table are left out.

    Each workgroup adds to columns of its own, row after row, so that no addition is atomic and sums are reproducible.
    """
    j = pd.group_id(0) * OWNED
    for i in range(dy.shape[0]):
        if 0 <= numbers[i] < dtable.shape[0]:
            dtable[numbers[i], j : j + OWNED] += dy[i, j : j + OWNED]


@pd.kernel(workgroup=64, grid=lambda dy, *_: (pd.cdiv(dy.shape[1], COLUMNS), pd.cdiv(dy.shape[0], ROWS)))
def scattered_tiles(dy: Gathered, numbers: Numbers, dtable: Table) -> None:
    """Compute `scattered_rows` by atomic additions of tiles, for devices that run many workgroups at a time."""
    i, j = pd.group_id(1) * ROWS, pd.group_id(0) * COLUMNS
    rows = pd.load(numbers[i : i + ROWS], -1)  # -1 after the end, where nothing is added
    columns = j + pd.arange(COLUMNS)
    pd.atomic_add(dtable, (rows[:, None], columns), dy[i : i + ROWS, j : j + COLUMNS])


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of each kernel; one of the numbers is outside of the table."""
    table, numbers = random.standard_normal((11, 45), np.float32), random.integers(0, 11, 20).astype(np.int32)
    dy = random.standard_normal((20, 45), np.float32)
    numbers[3] = 11
    is_inside = numbers < 11
    y, dtable = np.zeros_like(dy), np.zeros_like(table)
    y[is_inside] = table[numbers[is_inside]]
    np.add.at(dtable, numbers[is_inside], dy[is_inside])
    return [
        Case(gathered_rows, (table, numbers, np.zeros_like(dy)), (y,)),
        Case(scattered_rows, (dy, numbers, np.zeros_like(table)), (dtable,), 1e-5),
        Case(scattered_tiles, (dy, numbers, np.zeros_like(table)), (dtable,), 1e-5),
    ]


if __name__ == "__main__":
    run(cases)
