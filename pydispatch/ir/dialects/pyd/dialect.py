"""The `pyd` dialect: operations and attributes of pydispatch that no dialect of IREE's programs has."""

from __future__ import annotations

from xdsl.dialects.builtin import SymbolRefAttr, i1
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, prop_def, result_def, traits_def
from xdsl.traits import Pure

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.pyd import (
    array,
    async_copies,
    atomics,
    contract,
    custom,
    derived,
    mma,
    prefetch,
    prefix_scan,
    recurrence,
    save_rows,
    splice,
    subgroups,
    tile_registers,
    tiles,
    top_k,
    transpose,
    unpack,
)


@op_definition
class ImportAvailableOp(IRDLOperation):
    """Query whether an import was resolved when the program was loaded, `%has = pyd.import.available @my_mul : i1`.

    The symbol is declared in the module of the calling function. The result is always true for imports that are not
    optional.
    """

    name = "pyd.import.available"
    callee = prop_def(SymbolRefAttr)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$callee attr-dict `:` type($result)"


OPERATIONS: list[type[Operation]] = [
    ImportAvailableOp,
    *async_copies.OPERATIONS,
    *atomics.OPERATIONS,
    *contract.OPERATIONS,
    *custom.OPERATIONS,
    *mma.OPERATIONS,
    *prefetch.OPERATIONS,
    *prefix_scan.OPERATIONS,
    *recurrence.OPERATIONS,
    *save_rows.OPERATIONS,
    *splice.OPERATIONS,
    *subgroups.OPERATIONS,
    *tile_registers.OPERATIONS,
    *tiles.OPERATIONS,
    *top_k.OPERATIONS,
    *transpose.OPERATIONS,
    *unpack.OPERATIONS,
]
Pyd = Dialect("pyd", OPERATIONS, [*array.ATTRIBUTES, *derived.ATTRIBUTES])
