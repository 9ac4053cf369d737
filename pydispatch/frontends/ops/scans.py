"""Running sums and products."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, i32, i64
from xdsl.ir import Block, Region

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops.indexing import reverse
from pydispatch.frontends.ops.scalars import Scalars, scalars_of
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.ordering import ScanOp


def cumulative(b: Builder, name: str, x: Tensor, axis: int, exclusive: bool = False, backwards: bool = False) -> Tensor:
    """Each element combined by a function of two with those before it along an axis, or with those after it.

    name: add, mul, max or min. exclusive: without the element itself; then the first result is 0, or 1 for mul.
    """
    if x.dtype.is_complex:
        raise b.fail(f"running results of complex numbers are not supported: {x}")
    x = reverse(b, x, [axis]) if backwards else x
    block = Block(arg_types=[x.dtype.element, x.dtype.element])
    running, element = scalars_of([x.dtype, x.dtype], block.args)
    block.add_op(YieldOp.create(operands=[Scalars(block).binary(name, running, element).value]))
    rest = tuple(n for d, n in enumerate(x.shape) if d != axis)
    carried = b.splat(b.number(1 if name == "mul" else 0, x.dtype), rest)
    results = [tensor_type(x.dtype.element, x.shape), tensor_type(x.dtype.element, rest)]
    op = ScanOp.create(
        operands=[b.value(x), b.empty(x.dtype.element, x.shape), carried],
        result_types=results,
        properties={
            "dimension": IntegerAttr(axis, i64),
            "inclusive": BoolAttr.from_bool(not exclusive),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 2]),
        },
        regions=[Region(block)],
    )
    made = b.wrap(x.dtype, x.shape, b.add(op).results[0])
    return reverse(b, made, [axis]) if backwards else made
