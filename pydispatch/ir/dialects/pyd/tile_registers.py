"""`pyd.configure_tiles`, `pyd.release_tiles`: the matrix registers of a CPU (AMX), in kernel IR for CPUs."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition

MOST_ROWS, MOST_STEPS = 32, 16
"""Limit of the rows, and of the columns, of a block that the registers hold; limit of the groups of K, of four bytes
each, that one instruction multiplies."""


@op_definition
class ConfigureTilesOp(IRDLOperation):
    """Configuration of the matrix registers (AMX tiles), `pyd.configure_tiles rows, columns, steps`.

    It applies until the next `pyd.release_tiles` in the same IR block. In between, a `pyd.contract` uses these
    registers if C is a matrix of rows x columns, and A and B have groups of four bytes: 4 elements of i8 or 2 of bf16
    at adjacent indices of K. An instruction multiplies `steps` groups along K: with 16, 64 indices of K for i8.

    A register has 16 rows of 64 bytes: 16x16 sums of 32 bits, or 16 groups of each of 16 rows of A. Up to 2x2 registers
    hold C. Hence at most 32 rows, 32 columns and 16 steps are possible.

    Attributes:
        rows: Rows of C.
        columns: Columns of C.
        steps: Groups along K that one instruction multiplies.
    """

    name = "pyd.configure_tiles"
    rows = prop_def(IntegerAttr.constr(i64))
    columns = prop_def(IntegerAttr.constr(i64))
    steps = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$rows `,` $columns `,` $steps attr-dict"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (rows of C, columns of C, number of groups along K that one instruction multiplies)."""
        return self.rows.value.data, self.columns.value.data, self.steps.value.data

    def verify_(self) -> None:
        """Check that rows, columns and steps fit the tile registers."""
        rows, columns, steps = self.shape
        are_valid = 1 <= rows <= MOST_ROWS and 1 <= columns <= MOST_ROWS and 1 <= steps <= MOST_STEPS
        if not are_valid:
            raise VerifyException(f"pyd.configure_tiles takes 1 to {MOST_ROWS} rows and columns, and 1 to {MOST_STEPS} "
                                  f"steps; got {', '.join(map(str, self.shape))}")  # fmt: skip


@op_definition
class ReleaseTilesOp(IRDLOperation):
    """Release of the matrix registers, after which the operating system need not save them."""

    name = "pyd.release_tiles"
    assembly_format = "attr-dict"


def configure_tiles(rows: int, columns: int, steps: int) -> ConfigureTilesOp:
    """Create a `pyd.configure_tiles` for result blocks of rows x columns.

    An instruction multiplies `steps` groups of four bytes along K.
    """
    sizes = {"rows": rows, "columns": columns, "steps": steps}
    return ConfigureTilesOp(properties={name: IntegerAttr(size, i64) for name, size in sizes.items()})


OPERATIONS: list[type[Operation]] = [ConfigureTilesOp, ReleaseTilesOp]
