"""Former names of operations and types, from older releases, and their replacements."""

from __future__ import annotations

FORMER_NAMES = {
    f"flow.dispatch.{name}": f"iree_tensor_ext.dispatch.{name}"
    for name in ("tensor", "tensor.load", "tensor.store", "workload.ordinal", "workgroup_count_from_slice",
                 "workgroup_count_from_dag_root")
}  # fmt: skip
"""Name of an operation or type in older releases -> its current name."""

FORMER_ATTRIBUTES = {"hal.executable.objects": "objects"}
"""Attributes that older releases write in the dictionary of an operation -> the properties that they are now."""
