"""Operators that give elements another place without a look at them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, shapes
from pydispatch.frontends.ops.formulas import Element, formula

# -- reshape


def _reshape(c: Call, x: Tensor, shape: Tensor) -> Tensor:
    """-1 stands for what is left, 0 for the size that x has there."""
    allow_zero = c.flag("allowzero")
    if c.maybe_sizes(shape) is None:
        return shapes.reshape(c.b, x, _read_shape(c, x, shape, allow_zero))
    sizes = c.sizes(shape, "shape")
    if not allow_zero:
        if any(n == 0 for n in sizes[x.rank :]):
            raise c.fail(f"shape {sizes} has a 0 for an axis that {x} lacks")
        sizes = [x.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    return shapes.reshape(c.b, x, sizes)


def _read_shape(c: Call, x: Tensor, shape: Tensor, allow_zero: bool) -> list[Size]:
    """Return the sizes of a shape that is computed, as `_reshape` understands them."""
    b = c.b
    values: list[SSAValue] = []
    for d, value in enumerate(c.tracer.read_indices(shape)):
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
    found = []
    for value in values:
        is_open = b.add(arith.CmpiOp(value, b.index(0), "slt")).result
        found.append(b.size_of(b.add(arith.SelectOp(is_open, left, value)).result))
    return found


def _flatten(c: Call, x: Tensor) -> Tensor:
    axis = c.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise c.fail(f"axis {axis} is not within the {x.rank} axes of its operand")
    axis += x.rank if axis < 0 else 0
    return shapes.reshape(c.b, x, [product(x.shape[:axis]), product(x.shape[axis:])])


def axes_operand(c: Call, axes: Tensor | None, since: int) -> list[int] | None:
    """Return the axes of an operator, which are an operand since version `since`, and an attribute before. None when
    they are left out.
    """
    if c.version < since:
        return c.maybe_integers("axes")
    return None if axes is None else [int(n) for n in c.numbers(axes, "axes").reshape(-1)]


def _squeeze(c: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = axes_operand(c, axes, 13)
    return shapes.squeeze(c.b, x, None if given is None else c.axes(given, x.rank))


def _unsqueeze(c: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = axes_operand(c, axes, 13)
    if given is None:
        raise c.fail("its axes are missing")
    return shapes.expand_dims(c.b, x, c.axes(given, x.rank + len(given)))


def _transpose(c: Call, x: Tensor) -> Tensor:
    return shapes.transpose(c.b, x, c.maybe_integers("perm"))


# -- join and take apart


def _concat(c: Call, *tensors: Tensor) -> Tensor:
    if not tensors:
        raise c.fail("it has no operands")
    return shapes.concat(c.b, tensors, c.axis(c.integer("axis"), tensors[0].rank))


def _split(c: Call, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = c.axis(c.integer("axis", 0), x.rank)
    given = c.maybe_integers("split") if c.version < 13 else None if sizes is None else c.sizes(sizes, "split")
    total = x.shape[axis]
    if given is None:
        parts = c.integer("num_outputs", c.results)
        if not 0 < parts <= 1 << 16:
            raise c.fail(f"it has {parts} outputs")
        each = ceil_div(total, parts)
        given = [each] * (parts - 1)
        given.append(total - each * (parts - 1))
    if total == 0:
        given = [0] * len(given)
    if not isinstance(total, Expr) and all(not isinstance(n, Expr) for n in given) and sum(given) != total:
        raise c.fail(f"parts of {given} are no {total} elements")
    return shapes.split(c.b, x, axis, given)


def _tile(c: Call, x: Tensor, repeats: Tensor) -> Tensor:
    counts = c.sizes(repeats, "repeats")
    if len(counts) != x.rank:
        raise c.fail(f"{len(counts)} repeats are given for the {x.rank} axes of {x}")
    return shapes.tile(c.b, x, counts)


def _expand(c: Call, x: Tensor, shape: Tensor) -> Tensor:
    sizes = c.sizes(shape, "shape")
    return shapes.broadcast_to(c.b, x, elementwise.broadcast_shape(c.b, x.shape, tuple(sizes)))


# -- blocks


def _depth_to_space(c: Call, x: Tensor) -> Tensor:
    block = _block(c)
    columns_first = c.text("mode", "DCR", ("DCR", "CRD")) == "DCR"
    n, depth, height, width = _image(c, x)
    if columns_first:
        parts, order = [n, block, block, depth // (block * block), height, width], [0, 3, 4, 1, 5, 2]
    else:
        parts, order = [n, depth // (block * block), block, block, height, width], [0, 1, 4, 2, 5, 3]
    made = shapes.transpose(c.b, shapes.reshape(c.b, x, parts), order)
    return shapes.reshape(c.b, made, [n, depth // (block * block), height * block, width * block])


def _space_to_depth(c: Call, x: Tensor) -> Tensor:
    block = _block(c)
    n, depth, height, width = _image(c, x)
    parts = shapes.reshape(c.b, x, [n, depth, height // block, block, width // block, block])
    made = shapes.transpose(c.b, parts, [0, 3, 5, 1, 2, 4])
    return shapes.reshape(c.b, made, [n, depth * block * block, height // block, width // block])


def _block(c: Call) -> int:
    block = c.integer("blocksize")
    if block < 1:
        raise c.fail(f"its block size is {block}")
    return block


def _image(c: Call, x: Tensor) -> Sequence[Size]:
    if x.rank != 4:
        raise c.fail(f"its operand is {x}; expected 4 axes")
    return x.shape


def _trilu(c: Call, x: Tensor, k: Tensor | None = None) -> Tensor:
    """Return the triangle above or below a diagonal; elsewhere 0."""
    upper = c.flag("upper", True)
    if x.rank < 2:
        raise c.fail(f"its operand is {x}; expected 2 axes or more")
    row, column = x.rank - 2, x.rank - 1
    distance = k if k is not None else c.b.constant(np.int64(0))

    def kept(v: Element, at: Element) -> Element:
        beside = v.position(column, I64) - v.position(row, I64)
        return ((beside >= at) if upper else (beside <= at)).choose(v, v.const(0))

    return formula(c.b, kept, x, shapes.reshape(c.b, distance, []))


# -- optional values: a tensor is one that is there


def _has_element(c: Call, x: Tensor | None = None) -> Tensor:
    return c.b.constant(np.bool_(x is not None))


def _get_element(c: Call, x: Tensor) -> Tensor:
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
