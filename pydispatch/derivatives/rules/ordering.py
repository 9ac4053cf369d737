"""Derivatives of sorting: cotangents return to where their elements came from."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.dtypes import I64
from pydispatch.ir.dialects.iree_linalg_ext.ordering import SortOp
from pydispatch.operations import assignment, shapes


def _sort(cotangents: Cotangents, op: Operation) -> None:
    """Add to the cotangent of each sorted tensor that of its result, moved back to the positions before the sort.

    The sort does not state these positions. So the tensors are sorted once more together with a tensor of the positions
    along the axis, which the comparison ignores. For x = [5, 3, 4], it becomes [1, 2, 0]: result 0 was at position 1.
    With the cotangent [a, b, c] of the sorted tensor, x has [c, a, b].
    """
    assert isinstance(op, SortOp)
    trace, axis = cotangents.trace, op.dimension.value.data
    # Sort again, with the positions as a further tensor.
    shape = cotangents.program_tensor(op.results[0]).shape
    numbered = trace.value(shapes.iota(trace, shape, axis, I64))
    body = op.body.clone()
    for _ in range(2):  # the comparison has two arguments for each sorted tensor
        body.block.insert_arg(I64.element, len(body.block.args))
    sources = list(op.operands)
    operands = [*sources, numbered]
    second_sort = SortOp.create(  # a sort has no inputs besides the tensors that are sorted in place: segments 0, n
        operands=operands, result_types=[operand.type for operand in operands], regions=[body],
        properties={**op.properties, "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, len(operands)])},
    )  # fmt: skip
    positions = trace.wrap(I64, shape, trace.add(second_sort).results[-1])
    # Move the cotangents to the positions before the sort.
    for source, result in zip(sources, op.results, strict=True):
        cotangent = cotangents.of(result)
        if cotangent is not None:  # None: the program's result does not depend on this one
            moved = assignment.put_along(trace, cotangents.zeros(source), positions, cotangent, axis)
            cotangents.add(source, moved)


ORDERING_RULES: dict[str, Rule] = {"iree_linalg_ext.sort": _sort}
"""Name of an operation → its derivative."""
