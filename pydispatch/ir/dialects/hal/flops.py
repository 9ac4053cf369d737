"""`pydispatch.flops` on an export: the number of arithmetic operations of a dispatch of the export.

Users state the number of one workgroup: `pydispatch.flops = 64.0 : f32`, whose type is that of the arithmetic, or an
integer if the type is not known. The compiler states a list that covers the whole dispatch, described in
docs/artifact.md: `pydispatch.flops = ["f32", [2, 0, 2]]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

FLOPS = "pydispatch.flops"  # attribute of an export

WORKGROUPS = -1
"""Size in a term `[factor, size, ...]` of `Stated` that denotes the number of workgroups.

Any other size is the index of a constant word of the dispatch, which has the number.
"""

Stated = list[Any]
"""Operation count of a dispatch: the element type, then terms `[factor, size, ...]`, as in `["f32", [2, 0, 2]]`.

The type is "" for several types or an unknown one. A term is the product of its factor and sizes, and the count is the
sum of the terms. A size n >= 0 is the index of the first of two constant words of the dispatch that have the number in
64 bits; -1 is the number of workgroups. The example is 2 times the number in words 0 and 1 times that in 2 and 3.
"""


def attribute_of(type_: str, terms: Sequence[Sequence[int]]) -> ArrayAttr[Attribute]:
    """Return the attribute that states a number of floating-point operations in the compiler's form.

    Args:
        type_: Element type that all the operations have, such as "f32"; "" if they have several.
        terms: Terms `[factor, size, ...]`, as in `Stated`.
    """
    arrays = [ArrayAttr([IntegerAttr(integer, i64) for integer in term]) for term in terms]
    return ArrayAttr([StringAttr(type_), *arrays])


def flops_of(export: Operation) -> Stated | None:
    """Return the number of operations of a dispatch that the attribute of an export states; None without one.

    The result is a type and a sum of products, as `Stated` describes:

        64.0 : f32            ["f32", [64, WORKGROUPS]]   64 operations of f32 per workgroup
        64 : i64              ["", [64, WORKGROUPS]]      64 operations of an unknown type per workgroup
        ["f32", [2, 0, 2]]    ["f32", [2, 0, 2]]          2 * (constant in words 0 and 1) * (constant in words 2 and 3)

    Raise VerifyException for a malformed attribute.
    """
    stated = export.attributes.get(FLOPS)
    if stated is None:
        return None
    if isinstance(stated, IntegerAttr | FloatAttr):
        count = int(stated.value.data)
        element_type = str(stated.type) if isinstance(stated, FloatAttr) else ""
        if count == stated.value.data and 0 <= count < 1 << 53:  # larger integers are not exact as f64
            return [element_type, [count, WORKGROUPS]]
    elif isinstance(stated, ArrayAttr) and stated.data and isinstance(stated.data[0], StringAttr):
        terms = [_integers(term) for term in stated.data[1:]]
        if all(map(_is_term, terms)):
            return [stated.data[0].data, *terms]  # the element type, then the terms
    raise VerifyException(f"{FLOPS} is the number of operations of a workgroup, such as 64.0 : f32, got {stated}")


def _is_term(term: list[int]) -> bool:
    """Return whether integers are a term: a factor, and sizes by which it is multiplied.

    A size is WORKGROUPS, which is -1, or the index of a constant word of the dispatch, which is less than 65536.
    """
    if not term:
        return False
    factor, *sizes = term
    return factor >= 0 and all(WORKGROUPS <= size < 1 << 16 for size in sizes)


def _integers(term: Attribute) -> list[int]:
    """Return the values of an array of integers; [], which is no valid term, for any other attribute."""
    if not isinstance(term, ArrayAttr) or not all(isinstance(integer, IntegerAttr) for integer in term.data):
        return []
    return [integer.value.data for integer in term.data]
