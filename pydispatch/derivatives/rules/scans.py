"""Derivatives of running sums."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.ir.dialects.iree_linalg_ext.ordering import ScanOp
from pydispatch.operations import scans


def _scan(cotangents: Cotangents, op: Operation) -> None:
    """Add to the cotangent of each element the sum of the cotangents of the sums that it is a term of."""
    assert isinstance(op, ScanOp)
    combiner = next(iter(op.body.block.ops))
    sums, total = (cotangents.of(result) for result in op.results)
    if combiner.name != "arith.addf" or total is not None:
        raise cotangents.refuse("a running result other than a sum")
    assert sums is not None
    axis, is_exclusive = op.dimension.value.data, not op.inclusive.value.data
    cotangents.add(
        op.operands[0], scans.cumulative(cotangents.trace, "add", sums, axis, exclusive=is_exclusive, backwards=True)
    )


SCAN_RULES: dict[str, Rule] = {"iree_linalg_ext.scan": _scan}
