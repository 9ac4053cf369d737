"""Positions of a factor's elements along one coordinate of a packed copy: in rows, in panels, or in groups of steps."""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass(frozen=True)
class Position:
    """Index of a packed element along one coordinate of a factor: which element is read, and where it is written.

    A factor is the operand A or B of the product, and has a coordinate for each axis of its tensor. An element has one
    position for each coordinate: for row 3 and step 5 of A they are `Position(3)` and `Position(5)`, and the element is
    written at 3 * row stride + 5. This class is for coordinates that are stored with a constant stride. Subclasses are
    for padding, where the factor has no element, and for coordinates that are stored in panels or groups.

    The methods take `step`, the position in a group of steps of K. A group is the adjacent indices of K that one
    instruction multiplies, such as 4 for bytes. Without groups `step` is 0.

    Attributes:
        index: The index, counted from the first index of the tile.
    """

    index: Index

    def exists(self, step: int) -> bool:
        """Return whether the factor has an element at this step of a group; if not, zero is packed."""
        return True

    def index_in_tile(self, build: Builder, step: int) -> Index:
        """Return the index of this step of a group in the factor, counted from the first index of the tile."""
        return self.index

    def offset(self, build: Builder, packed: OperandView, stride: Index, step: int) -> Index:
        """Return the part of the offset in the packed copy that is due to this coordinate, in elements.

        Args:
            build: Emits the arithmetic.
            packed: The packed copy. Only subclasses use it, and `step`.
            stride: Elements between neighbours along the coordinate.
            step: The position in a group of steps of K; 0 without groups.
        """
        return build.times(self.index, stride)


@dataclass(frozen=True)
class PaddedPosition(Position):
    """Index beyond the edge of the factor, where zero is packed: register blocks read it, but no result uses it."""

    def exists(self, step: int) -> bool:
        """Return False: no step has an element here."""
        return False


@dataclass(frozen=True)
class PanelColumn(Position):
    """A column of B in a packed copy that is stored in panels, each of which has a few adjacent columns.

    In panels of 16 columns, column 20 of the tile is column 4 of panel 1. The last panel of 40 columns may begin at
    column 24, to be full: `index` is then not `panel` * 16 + `column`.

    Attributes:
        index: The column of B, counted from the first column of the tile.
        panel: Index of the panel that the column is in.
        column: Index of the column in the panel.
        group: Number of steps of K that are adjacent in the copy, for one instruction; 1 without groups.
        is_padding: Whether the column is beyond the edge of B.
    """

    panel: Index
    column: Index
    group: int
    is_padding: bool = False

    def exists(self, step: int) -> bool:
        """Return whether the column is in B."""
        return not self.is_padding

    def offset(self, build: Builder, packed: OperandView, stride: Index, step: int) -> Index:
        """Return the offset of the column in the packed copy: its panel, then `group` elements per earlier column."""
        assert packed.panel_stride is not None
        return build.plus(build.times(self.panel, packed.panel_stride), build.times(self.column, self.group))


@dataclass(frozen=True)
class StepGroup(Position):
    """Group of steps of K that one instruction multiplies: `index` is the first step.

    Attributes:
        steps_in_k: Number of steps of the group before the end of K; zeros are packed for the remaining steps.
    """

    steps_in_k: int

    def exists(self, step: int) -> bool:
        """Return whether a step of the group is before the end of K."""
        return step < self.steps_in_k

    def index_in_tile(self, build: Builder, step: int) -> Index:
        """Return the index along K of a step of the group."""
        return build.plus(self.index, step)

    def offset(self, build: Builder, packed: OperandView, stride: Index, step: int) -> Index:
        """Return the offset of a step in the packed copy, in elements.

        A copy in rows is [row][group][step of the group], and `stride` is 1. A panel is [group][column][step of the
        group], and `stride` is its number of columns. In groups of 4 steps and panels of 16 columns, a group has 64
        elements. The group with the first step 8 is the third one, and begins at 8 * 16 = 2 * 64.
        """
        return build.plus(build.times(self.index, stride), step)  # `index` is a multiple of the length of a group
