"""`pydispatch.flops` on an export: how many operations of arithmetic a dispatch of it does.

Users state those of a workgroup, `pydispatch.flops = 64.0 : f32`, with the type whose arithmetic they are, or as an
integer, which says nothing of that. The compiler states a list, of which docs/artifact.md has the meaning:
`pydispatch.flops = ["f32", [2, 0, 2]]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

FLOPS = "pydispatch.flops"

WORKGROUPS = -1
"""A size that denotes the number of workgroups."""

Stated = list[Any]
"""The type of the operations, "" for several or any, then terms: [factor, size, ...]."""


def attribute_of(type_: str, terms: Sequence[Sequence[int]]) -> ArrayAttr[Attribute]:
    """Return the attribute that states these floating-point operations, in the compiler's form."""
    rows = [ArrayAttr([IntegerAttr(integer, i64) for integer in term]) for term in terms]
    return ArrayAttr([StringAttr(type_), *rows])


def flops_of(export: Operation) -> Stated | None:
    """Return the floating-point operations that an export states; None if it states none.

    Raises VerifyException for a malformed attribute.
    """
    stated = export.attributes.get(FLOPS)
    if stated is None:
        return None
    if isinstance(stated, IntegerAttr | FloatAttr):
        count = int(stated.value.data)
        if count == stated.value.data and 0 <= count < 1 << 53:
            # An integer states no type: "". Rows are a count and the sizes that multiply it: here WORKGROUPS.
            return [str(stated.type) if isinstance(stated, FloatAttr) else "", [count, WORKGROUPS]]
    elif isinstance(stated, ArrayAttr) and stated.data and isinstance(stated.data[0], StringAttr):
        rows = [_numbers(row) for row in stated.data[1:]]
        # A size is WORKGROUPS, which is -1, or the number of a constant of the dispatch.
        if all(row and row[0] >= 0 and all(WORKGROUPS <= size < 1 << 16 for size in row[1:]) for row in rows):
            return [stated.data[0].data, *rows]
    raise VerifyException(f"{FLOPS} is the number of operations of a workgroup, such as 64.0 : f32, got {stated}")


def _numbers(row: Attribute) -> list[int]:
    """Return the integers of an array attribute; an empty list for any other attribute."""
    if not isinstance(row, ArrayAttr) or not all(isinstance(integer, IntegerAttr) for integer in row.data):
        return []
    return [integer.value.data for integer in row.data]
