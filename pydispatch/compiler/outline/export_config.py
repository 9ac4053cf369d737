"""`export_config = #iree_codegen.export_config<workgroup_size = […]>` of dispatches that are written by hand."""

from __future__ import annotations

import re

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr
from xdsl.ir import Operation

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk

_SIZE_QUERIES = ("flow.dispatch.workgroup.size", "stream.dispatch.workgroup.size")
"""Operations that return the workgroup size along one axis."""
_SIZE = re.compile(r"workgroup_size\s*=\s*\[([^\]]*)\]")
"""Workgroup size in the text of an export_config, such as `workgroup_size = [64, 1, 1]`."""


def stated_size(dispatch: Operation) -> tuple[int, int, int] | None:
    """Return the workgroup size (x, y, z) that a dispatch states; None if it states none.

    Axes that are left out have size 1. Raises CompileError unless it is one to three positive integers.
    """
    config = dispatch.attributes.get("export_config")
    match = None if config is None else _SIZE.search(str(config))
    if match is None:
        return None
    # An entry may have a type, `4 : index`.
    words = [word.split(":")[0].strip() for word in match[1].split(",") if word.strip()]
    if not 1 <= len(words) <= 3 or not all(_is_size(word) for word in words):
        raise CompileError(
            f"'{dispatch.name}': the workgroup_size of an export_config is one to three positive integers, got "
            f"[{match[1].strip()}]", location_of(dispatch),
        )  # fmt: skip
    x, y, z = (*map(int, words), 1, 1)[:3]
    return x, y, z


def _is_size(word: str) -> bool:
    """Return whether a word is a positive integer of at most 19 digits: one of about 64 bits."""
    return word.isascii() and word.isdecimal() and len(word) < 20 and int(word) > 0


def size_attribute(dispatch: Operation) -> dict[str, ArrayAttr[IntegerAttr[IndexType]]]:
    """Return the property `workgroup_size` for the export of a dispatch, by name; empty if the dispatch states none."""
    size = stated_size(dispatch)
    return {} if size is None else {"workgroup_size": ArrayAttr([IntegerAttr(n, IndexType()) for n in size])}


def replace_size_queries(dispatch: Operation) -> None:
    """Replace queries of the workgroup size in a dispatch by constants: the stated size, or 1 along each axis."""
    size = stated_size(dispatch) or (1, 1, 1)
    for op in list(walk(dispatch.regions[0])):
        if op.name not in _SIZE_QUERIES:
            continue
        axis = op.properties["dimension"].value.data  # type: ignore[attr-defined]
        constant = arith.ConstantOp(IntegerAttr(size[axis], IndexType()))
        set_location(constant, op)
        block = op.parent
        assert block is not None
        block.insert_op_before(constant, op)
        op.results[0].replace_all_uses_with(constant.result)
        erase_op(op)
