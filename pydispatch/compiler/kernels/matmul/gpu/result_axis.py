"""Rows or columns of an invocation's sums, with the tests of whether they are in the result of a contraction."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass(frozen=True)
class ResultAxis:
    """Rows or columns of an invocation's sums, with the tests of whether they exist.

    The last tile may exceed the result: a sum exists if its row and its column are below the size of the result.
    The emitter of a workgroup creates one axis for rows and one for columns.

    A run is `run_length` adjacent indices, all below the size or all beyond it, so that one test serves them. With 100
    columns, tiles of 64 and runs of 4, the run of the columns 104 to 107 in tile 1 does not exist. For its columns,
    `existence_and_index` returns false and the columns 96 to 99.

    Attributes:
        build: The builder of the invocation's code.
        first: The invocation's first index.
        size: Size of the dimension, number of rows or columns of the result; an SSA value if dynamic.
        run_length: Number of indices in a run.
        is_exact: Whether tiles fill the dimension, so that all indices exist.
        tested_runs: Cache: offset of a run from `first` -> (whether it exists, its first index).
    """

    build: Builder
    first: Index
    size: Index
    run_length: int
    is_exact: bool
    tested_runs: dict[int, tuple[SSAValue | bool, Index]] = field(default_factory=dict)

    @staticmethod
    def of_tile(
        build: Builder, offset: Index, tile_index: Index, tile_extent: int, size: Index, run_length: int
    ) -> ResultAxis:
        """Return the axis of an invocation's sums in a tile.

        Args:
            build: The builder of the invocation's code.
            offset: The invocation's first row or column in the tile, a multiple of `run_length`.
            tile_index: Number of the tile along the dimension.
            tile_extent: Rows or columns of a tile.
            size: Size of the dimension.
            run_length: Number of adjacent indices with one test. If the size is dynamic or no multiple of this number,
                a run may be partly in the result, and each index has a test of its own.
        """
        return ResultAxis(
            build=build,
            first=build.plus(build.times(tile_index, tile_extent), offset),
            size=size,
            run_length=run_length if isinstance(size, int) and size % run_length == 0 else 1,
            is_exact=isinstance(size, int) and size % tile_extent == 0,
        )

    def existence_and_index(self, offset: int) -> tuple[SSAValue | bool, Index]:
        """Return whether the index `first + offset` is in the result, and an index that may be read.

        The latter is `first + offset` if it is in the result. Else it is moved into the last run (`run_length` adjacent
        indices), so that reads at it are in bounds. True as the first item is known without a test.
        """
        if self.is_exact:
            return True, self.build.plus(self.first, offset)
        start = offset // self.run_length * self.run_length  # offset of the run that has the index
        if start not in self.tested_runs:
            self.tested_runs[start] = self._test_run(self.build.plus(self.first, start))
        exists, first_of_run = self.tested_runs[start]
        return exists, self.build.plus(first_of_run, offset - start)

    def _test_run(self, first_of_run: Index) -> tuple[SSAValue | bool, Index]:
        """Return whether a run is below the size, and the first index of the run, or of the last run if it is not."""
        build, size = self.build, self.size
        # The whole run is in the result if its last index is: first + length - 1 < size.
        exists = build.less(first_of_run, build.minus(size, self.run_length - 1))
        return exists, build.least(first_of_run, build.minus(size, self.run_length))
