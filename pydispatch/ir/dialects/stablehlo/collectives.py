"""Operations that exchange data with other devices or with the host."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation
from xdsl.irdl import AnyAttr, IRDLOperation

from pydispatch.ir.dialects.stablehlo.syntax import RESULT, operation

_NAMES = (
    "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "collective_reduce",
    "infeed", "outfeed", "recv", "reduce_scatter", "send",
)  # fmt: skip
"""Names, without "stablehlo.", of operations that are parsed and printed in the generic form, `"name"(...)`."""
_PROPERTIES = (
    "all_gather_dim", "channel_handle", "concat_dimension", "has_dynamic_root", "infeed_config", "is_host_transfer",
    "layout", "outfeed_config", "replica_groups", "scatter_dimension", "source_target_pairs", "split_count",
    "split_dimension", "use_global_device_ids",
)  # fmt: skip
"""Properties that each of these operations may have, with any value. The operations are parsed but not compiled."""

EXCHANGES = frozenset(f"stablehlo.{name}" for name in _NAMES)
"""Names of the operations that exchange data with other devices or with the host. They are parsed but not compiled:
the error states that a program runs on one device."""

OPERATIONS: list[type[Operation]] = [
    *(operation(name, "inputs*", "result*", regions="computation*", optional=dict.fromkeys(_PROPERTIES, Attribute),
                operand_type=AnyAttr(), pure=False, base=IRDLOperation) for name in sorted(EXCHANGES)),
    operation("stablehlo.partition_id", operands="", signature=RESULT),
    operation("stablehlo.replica_id", operands="", signature=RESULT),
]  # fmt: skip
"""Exchanges, all with the same operands, results and properties; then the ids of the partition and of the replica."""
