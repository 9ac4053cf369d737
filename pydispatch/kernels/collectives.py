"""Functions that all invocations of a workgroup call together, as statements of their own."""

from __future__ import annotations

from typing import Any

from pydispatch.kernels import functions

SUBGROUP_REDUCTIONS = {functions.subgroup_sum: "+", functions.subgroup_max: "max", functions.subgroup_min: "min"}
"""Reductions of the values of a subgroup, and the operation of each."""
GROUP_REDUCTIONS = {functions.group_sum: "+", functions.group_max: "max", functions.group_min: "min"}
"""Reductions of the values of a workgroup, and the operation of each."""
COLLECTIVES: dict[Any, str] = {
    functions.barrier: "barrier",
    functions.shared: "shared",
    **dict.fromkeys(GROUP_REDUCTIONS, "reduction"),
    **dict.fromkeys((*SUBGROUP_REDUCTIONS, functions.subgroup_shuffle, functions.subgroup_ballot), "exchange"),
}
"""Function that all invocations of a workgroup call together → kind of the statement that calls it, as in
`variables.Stretch`."""
