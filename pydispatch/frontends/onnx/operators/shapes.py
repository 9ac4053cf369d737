"""Operators that give elements another position without a look at them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, shapes
from pydispatch.frontends.ops.formulas import Element, formula

# -- reshape


def _reshape(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    """-1 stands for what is left, 0 for the size that x has there."""
    allow_zero = call.flag("allowzero")
    if call.maybe_sizes(shape) is None:
        return shapes.reshape(call.b, x, _read_shape(call, x, shape, allow_zero))
    sizes = call.sizes(shape, "shape")
    if not allow_zero:
        if any(n == 0 for n in sizes[x.rank :]):
            raise call.fail(f"shape {sizes} has a 0 for an axis that {x} lacks")
        sizes = [x.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    return shapes.reshape(call.b, x, sizes)


def _read_shape(call: NodeCall, x: Tensor, shape: Tensor, allow_zero: bool) -> list[Size]:
    """Return the sizes of a shape that is computed, as `_reshape` understands them."""
    b = call.b
    values: list[SSAValue] = []
    for d, value in enumerate(call.tracer.read_indices(shape)):
        if not allow_zero and d < x.rank:
            is_zero = b.add(arith.CmpiOp(value, b.index(0), "eq")).result
            value = b.add(arith.SelectOp(is_zero, b.index(x.shape[d]), value)).result
        values.append(value)
    everything = b.index(1)
    for value in values:
        everything = b.add(arith.MuliOp(everything, value)).result
    # With one -1 the product is minus that of the others.
    others = b.add(arith.SubiOp(b.index(0), everything)).result
    left = b.add(arith.DivSIOp(b.index(product(x.shape)), b.add(arith.MaxSIOp(others, b.index(1))).result)).result
    sizes = []
    for value in values:
        is_open = b.add(arith.CmpiOp(value, b.index(0), "slt")).result
        sizes.append(b.size_of(b.add(arith.SelectOp(is_open, left, value)).result))
    return sizes


def _flatten(call: NodeCall, x: Tensor) -> Tensor:
    axis = call.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise call.fail(f"axis {axis} is not within the {x.rank} axes of its operand")
    axis += x.rank if axis < 0 else 0
    return shapes.reshape(call.b, x, [product(x.shape[:axis]), product(x.shape[axis:])])


def axes_operand(call: NodeCall, axes: Tensor | None, since: int) -> list[int] | None:
    """Return the axes of an operator, which are an operand since version `since`, and an attribute before. None when
    they are left out.
    """
    if call.version < since:
        return call.maybe_integers("axes")
    return None if axes is None else [int(n) for n in call.numbers(axes, "axes").reshape(-1)]


def _squeeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    stated = axes_operand(call, axes, 13)
    return shapes.squeeze(call.b, x, None if stated is None else call.axes(stated, x.rank))


def _unsqueeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    stated = axes_operand(call, axes, 13)
    if stated is None:
        raise call.fail("its axes are missing")
    return shapes.expand_dims(call.b, x, call.axes(stated, x.rank + len(stated)))


def _transpose(call: NodeCall, x: Tensor) -> Tensor:
    return shapes.transpose(call.b, x, call.maybe_integers("perm"))


# -- join and take apart


def _concat(call: NodeCall, *tensors: Tensor) -> Tensor:
    if not tensors:
        raise call.fail("it has no operands")
    return shapes.concat(call.b, tensors, call.axis(call.integer("axis"), tensors[0].rank))


def _split(call: NodeCall, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = call.axis(call.integer("axis", 0), x.rank)
    part_sizes = (
        call.maybe_integers("split") if call.version < 13 else None if sizes is None else call.sizes(sizes, "split")
    )
    total = x.shape[axis]
    if part_sizes is None:
        parts = call.integer("num_outputs", call.results)
        if not 0 < parts <= 1 << 16:
            raise call.fail(f"it has {parts} outputs")
        part_size = ceil_div(total, parts)
        part_sizes = [part_size] * (parts - 1)
        part_sizes.append(total - part_size * (parts - 1))
    if total == 0:
        part_sizes = [0] * len(part_sizes)
    if not isinstance(total, Expr) and all(not isinstance(n, Expr) for n in part_sizes) and sum(part_sizes) != total:
        raise call.fail(f"parts of {part_sizes} are no {total} elements")
    return shapes.split(call.b, x, axis, part_sizes)


def _tile(call: NodeCall, x: Tensor, repeats: Tensor) -> Tensor:
    counts = call.sizes(repeats, "repeats")
    if len(counts) != x.rank:
        raise call.fail(f"{len(counts)} repeats are given for the {x.rank} axes of {x}")
    return shapes.tile(call.b, x, counts)


def _expand(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    sizes = call.sizes(shape, "shape")
    return shapes.broadcast_to(call.b, x, elementwise.broadcast_shape(call.b, x.shape, tuple(sizes)))


# -- blocks


def _depth_to_space(call: NodeCall, x: Tensor) -> Tensor:
    block = _block(call)
    columns_first = call.text("mode", "DCR", ("DCR", "CRD")) == "DCR"
    n, depth, height, width = _image(call, x)
    if columns_first:
        parts, order = [n, block, block, depth // (block * block), height, width], [0, 3, 4, 1, 5, 2]
    else:
        parts, order = [n, depth // (block * block), block, block, height, width], [0, 1, 4, 2, 5, 3]
    transposed = shapes.transpose(call.b, shapes.reshape(call.b, x, parts), order)
    return shapes.reshape(call.b, transposed, [n, depth // (block * block), height * block, width * block])


def _space_to_depth(call: NodeCall, x: Tensor) -> Tensor:
    block = _block(call)
    n, depth, height, width = _image(call, x)
    parts = shapes.reshape(call.b, x, [n, depth, height // block, block, width // block, block])
    transposed = shapes.transpose(call.b, parts, [0, 3, 5, 1, 2, 4])
    return shapes.reshape(call.b, transposed, [n, depth * block * block, height // block, width // block])


def _block(call: NodeCall) -> int:
    block = call.integer("blocksize")
    if block < 1:
        raise call.fail(f"its block size is {block}")
    return block


def _image(call: NodeCall, x: Tensor) -> Sequence[Size]:
    if x.rank != 4:
        raise call.fail(f"its operand is {x}; expected 4 axes")
    return x.shape


def _trilu(call: NodeCall, x: Tensor, k: Tensor | None = None) -> Tensor:
    """Return the triangle above or below a diagonal; elsewhere 0."""
    upper = call.flag("upper", True)
    if x.rank < 2:
        raise call.fail(f"its operand is {x}; expected 2 axes or more")
    row, column = x.rank - 2, x.rank - 1
    distance = k if k is not None else call.b.constant(np.int64(0))

    def kept(value: Element, at: Element) -> Element:
        offset = value.position(column, I64) - value.position(row, I64)
        return ((offset >= at) if upper else (offset <= at)).where(value, value.const(0))

    return formula(call.b, kept, x, shapes.reshape(call.b, distance, []))


# -- optional values: a tensor is one that is there


def _has_element(call: NodeCall, x: Tensor | None = None) -> Tensor:
    return call.b.constant(np.bool_(x is not None))


def _get_element(call: NodeCall, x: Tensor) -> Tensor:
    return x


TABLE: dict[str, Conversion] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Tile": _tile,
    "Expand": _expand,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _get_element,
}
