"""Table of the functions that kernels on tiles may call, with one handler each."""

from __future__ import annotations

import ast
import math
from inspect import isfunction
from typing import Any, cast

from pydispatch.kernels import atomics, calls, functions, handlers
from pydispatch.kernels.arithmetic import binary
from pydispatch.kernels.arithmetic import cast as converted
from pydispatch.kernels.calls import TABLE, CallContext, Handler
from pydispatch.kernels.collectives import COLLECTIVES
from pydispatch.kernels.entities import Entity, Known, Literal, Scalar, Tile, TupleValue, described
from pydispatch.kernels.statements import Statements
from pydispatch.kernels.tiles import functions as tile_functions
from pydispatch.kernels.tiles.reductions import SYMBOLS
from pydispatch.kernels.tiles.slices import Slices
from pydispatch.kernels.tiles.values import MAX_DIMENSIONS, Shape
from pydispatch.patterns import argmax
from pydispatch.patterns.types import DType


def _arguments(
    context: Slices, node: ast.Call, arguments: list[Entity], names: tuple[str, ...], min_count: int
) -> dict[str, Any]:
    """Return the arguments of a call by parameter, name → (node, evaluated value), without omitted ones.

    Arguments are passed by position or by keyword. Raise CompileError for an unknown keyword, for too many arguments,
    and if one of the first `min_count` parameters has no argument.

    Args:
        context: Code generator of the kernel.
        node: The call.
        arguments: Values of the positional arguments.
        names: All parameters of the function, in order.
        min_count: Number of the parameters that have no default.
    """
    # Positional arguments belong to the first parameters; too many are reported at the end.
    named = dict(zip(names, zip(node.args, arguments, strict=True), strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in named:
            called = ast.unparse(node.func)
            raise context.error(
                keyword.value, f"{called} has no argument '{keyword.arg}' here", f"it takes {', '.join(names)}"
            )
        named[keyword.arg] = keyword.value, context.evaluate(keyword.value)
    missing = [name for name in names[:min_count] if name not in named]
    if len(arguments) > len(names) or missing:
        raise context.error(
            node,
            f"{ast.unparse(node.func)} takes {', '.join(names)}, got {len(arguments) + len(node.keywords)} arguments",
            f"write {ast.unparse(node.func)}({', '.join(names)})",
        )
    return named


def _shape(context: Slices, node: ast.expr, entity: Entity) -> Shape:
    """Return the shape that an argument states.

    Raise CompileError unless it is known at compile time and has one to three axes.
    """
    items = entity.items if isinstance(entity, TupleValue) else (entity,)
    sizes = []
    for size in items:
        if not isinstance(size, Literal) or not isinstance(size.value, int) or size.value < 1:
            raise context.error(
                node,
                f"the shape of a tile is known when the kernel is compiled, got {described(size)}",
                "use numbers or pydispatch.static parameters",
            )
        sizes.append(size.value)
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        raise context.error(node, f"a tile of {len(sizes)} dimensions", "tiles have one to three")
    return tuple(sizes)


def _dtype(context: Slices, node: ast.expr, entity: Entity) -> str:
    """Return the element type that an argument states, such as "f32". Raise CompileError if it is none."""
    if not isinstance(entity, Known) or not isinstance(entity.value, DType):
        raise context.error(node, f"{described(entity)} is no type of elements", "write pydispatch.f32")
    return entity.value.name


def _full(context: Slices, node: ast.Call, arguments: list[Entity], names: tuple[str, ...]) -> Entity:
    """Return the tile of `zeros` or `full`. names: the parameters of the function; `zeros` has no "value"."""
    named = _arguments(context, node, arguments, names, min_count=len(names))  # parameter → (node, value)
    shape, dtype = _shape(context, *named["shape"]), _dtype(context, *named["dtype"])
    value_node, value = named.get("value", (node, Literal(0)))
    return context.filled(shape, context.converted(value_node, value, dtype, "an element of the tile"))


def _arange(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Lower `arange(n)`: the tile 0, 1, ..., n - 1 of i32."""
    size_node, size_entity = _arguments(context, node, arguments, ("size",), min_count=1)["size"]
    shape = _shape(context, size_node, size_entity)
    if len(shape) > 1:
        raise context.error(
            size_node,
            f"arange takes one size, got {described(size_entity)}",
            f"write pydispatch.reshape(pydispatch.arange({math.prod(shape)}), {shape})",
        )

    def element(indices: Any) -> Scalar:
        """Return the value of an element, its only index, as an i32."""
        return converted(context.writer, indices[0], "i32")

    return context.lazy(node, shape, "i32", operands=[], element=element)


def _load(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Lower `load(part, other)`, such as `load(x[i:i + n], 1.0)`, to a tile with `other` for elements outside of `x`.

    The argument `part` is evaluated to a tile, whose attribute `part` has the slice of a view; None for other tiles.
    """
    named = _arguments(context, node, arguments, ("part", "other"), min_count=1)
    tile_node, tile = named["part"]
    if not isinstance(tile, Tile) or tile.part is None or tile.is_transposed:
        raise context.error(
            tile_node, f"load takes a slice of a view, got {described(tile)}", "write load(x[i:i + 16], 1.0)"
        )
    if "other" not in named:
        return context.loaded(node, tile.part)
    other_node, other = named["other"]
    outside = context.converted(other_node, other, tile.dtype, "the value outside of the view")
    return context.loaded(node, tile.part, outside)


def _reshape(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Lower `reshape(x, shape)`: return a tile of that shape with the elements of the tile x, in row-major order.

    One size may be -1, for the size that the other ones leave over: 16 elements in the shape (4, -1) are (4, 4). Raise
    CompileError if x is no tile, or the shape is not known at compile time or has another number of elements.
    """
    named = _arguments(context, node, arguments, ("x", "shape"), min_count=2)
    tile_node, tile = named["x"]
    if not isinstance(tile, Tile):
        raise context.error(tile_node, f"reshape takes a tile, got {described(tile)}", "slices are tiles: x[i:i + 16]")
    shape_node, stated = named["shape"]
    items = list(stated.items) if isinstance(stated, TupleValue) else [stated]
    count = math.prod(tile.shape)
    # Replace a size of -1. With more than one, `_shape` raises the error for a size below 1.
    open_axes = [axis for axis, size in enumerate(items) if isinstance(size, Literal) and size.value == -1]
    if len(open_axes) == 1:
        others = [size.value for size in items if isinstance(size, Literal) and size.value != -1]
        items[open_axes[0]] = Literal(count // max(math.prod(others), 1))  # a size 0 is an error in `_shape`
    shape = _shape(context, shape_node, TupleValue(tuple(items)))
    if math.prod(shape) != count:
        raise context.error(
            shape_node,
            f"a shape of {math.prod(shape)} elements for {described(tile)}",
            f"the tile has {count} elements; one size may be -1",
        )
    return context.reshaped(node, context.as_indexable(node, tile), shape)


def _reduction(context: Slices, node: ast.Call, arguments: list[Entity], name: str) -> Entity:
    """Return the result of `sum`, `max` or `min` of a tile. `name` is a key of `SYMBOLS`."""
    called = ast.unparse(node.func)
    named = _arguments(context, node, arguments, ("x", "axis", "keepdims"), min_count=1)
    tile_node, tile = named["x"]
    if not isinstance(tile, Tile):
        # `max` and `min` exist for numbers too, as functions of two.
        remedy = "slices are tiles: x[i:i + 16]" if name == "sum" else f"write {name}(a, b) for numbers"
        raise context.error(tile_node, f"{called} takes a tile, got {described(tile)}", remedy)
    if tile.dtype == "i1":
        raise context.error(tile_node, f"{called} of conditions", "convert them: pydispatch.i32(...)")
    axis = _axis(context, node, named, tile)
    return context.reduced(node, context.as_indexable(node, tile), SYMBOLS[name], axis, _keepdims(context, named))


def _axis(context: Slices, node: ast.Call, named: dict[str, Any], tile: Tile) -> int | None:
    """Return the argument `axis` of a call, with a negative axis counted from the end; None if it is omitted or None.

    named: the result of `_arguments`.
    """
    _, axis = named.get("axis", (None, Known(None)))
    if isinstance(axis, Known) and axis.value is None:
        return None
    rank = len(tile.shape)
    # Python's True and False are equal to 1 and 0, but are no axes.
    if not isinstance(axis, Literal) or isinstance(axis.value, bool) or axis.value not in range(-rank, rank):
        stated = axis.value if isinstance(axis, Literal) else described(axis)
        valid = f"its axes are 0 to {rank - 1}" if rank > 1 else "its axis is 0"
        raise context.error(named["axis"][0], f"axis {stated} of {described(tile)}", valid)
    return int(axis.value) % rank


def _keepdims(context: Slices, named: dict[str, Any]) -> bool:
    """Return the argument `keepdims` of a call, False by default. named: the result of `_arguments`."""
    node, keepdims = named.get("keepdims", (None, Literal(value=False)))
    if not isinstance(keepdims, Literal) or not isinstance(keepdims.value, bool):
        raise context.error(node, "keepdims is True or False", "write keepdims=True")
    return keepdims.value


def _along(context: Slices, node: ast.Call, named: dict[str, Any]) -> tuple[Tile, int]:
    """Return the tile and the axis of a call that works along an axis: of cumsum, scan, argmin or argmax.

    The elements of the tile can be computed one by one. A tile of one axis needs no `axis`. named: the result of
    `_arguments`.
    """
    called = ast.unparse(node.func)
    tile_node, tile = named["x"]
    if not isinstance(tile, Tile):
        raise context.error(tile_node, f"{called} takes a tile, got {described(tile)}", "slices are tiles: x[i:i + 16]")
    if tile.dtype == "i1":
        raise context.error(tile_node, f"{called} of conditions", "convert them: pydispatch.i32(...)")
    axis = _axis(context, node, named, tile)
    if axis is None and len(tile.shape) > 1:
        raise context.error(node, f"{called} of {described(tile)} without an axis", "give one: axis=1")
    return context.as_indexable(node, tile), axis or 0


def _cumsum(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Lower `cumsum(x, axis)`: the sums of all elements up to each one."""
    tile, axis = _along(context, node, _arguments(context, node, arguments, ("x", "axis"), min_count=1))

    def add(lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return the sum of two elements."""
        total = binary(context.writer, "+", lhs, rhs)
        assert isinstance(total, Scalar)
        return total

    return context.scanned(node, tile, add, axis)


def _scan(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Lower `scan(x, combine, axis)`: combine each element of a tile with all before it along an axis, in order.

    `combine(result so far, element)` is a function of the user, which is inlined into the loop. With a function that
    returns the greater of two numbers, [1, 3, 2] becomes [1, 3, 3].
    """
    named = _arguments(context, node, arguments, ("x", "combine", "axis"), min_count=2)
    tile, axis = _along(context, node, named)
    combine_node, combine = named["combine"]
    if not isinstance(combine, Known) or not isfunction(combine.value):
        raise context.error(
            combine_node, f"scan combines elements by a function, got {described(combine)}",
            "write a function of two numbers with def, outside the kernel",
        )  # fmt: skip
    function = combine.value
    # The user's code has no call of the function. This one, with placeholders for two arguments, locates messages.
    call = ast.copy_location(ast.Call(combine_node, [combine_node, combine_node], []), combine_node)

    def combined(lhs: Scalar, rhs: Scalar) -> Scalar:
        """Combine two elements by the inlined function."""
        # `inlined` of the class for kernels on tiles would first store tiles, which a loop over elements cannot do.
        result = Statements.inlined(context, call, function, [lhs, rhs])
        return context.converted(combine_node, result, tile.dtype, f"what '{function.__name__}' returns")

    return context.scanned(node, tile, combined, axis)


def _extreme(context: Slices, node: ast.Call, arguments: list[Entity], symbol: str) -> Entity:
    """Emit `argmax` (symbol ">") or `argmin` ("<"): return the extreme elements along an axis, and their indices."""
    named = _arguments(context, node, arguments, ("x", "axis", "keepdims"), min_count=1)
    tile, axis = _along(context, node, named)
    return context.extreme_and_index(node, tile, symbol, axis, _keepdims(context, named))


def _length(context: Slices, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Return the first size of a tile, or the length of another value."""
    if len(arguments) == 1 and isinstance(arguments[0], Tile):
        return Literal(arguments[0].shape[0])
    return TABLE[len](context, node, arguments)


def _refuse_invocation_function(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Raise CompileError for a function that is for kernels in the per-invocation style."""
    name = ast.unparse(node.func)
    remedy = "leave it out: tiles need none"
    if ".group_" in f".{name}":
        remedy = f"write pydispatch.{name.partition('group_')[2]}(tile)"
    raise context.error(node, f"{name} in a kernel with tiles, which its workgroup runs as a whole", remedy)


def _tile_handler(handler: Any, *more: Any) -> Handler:
    """Return a `Handler` that calls handler(context, node, arguments, *more)."""
    return lambda context, node, arguments: handler(cast(Slices, context), node, arguments, *more)


TILE_HANDLERS: dict[Any, Handler] = {
    tile_functions.zeros: _tile_handler(_full, ("shape", "dtype")),
    tile_functions.full: _tile_handler(_full, ("shape", "value", "dtype")),
    tile_functions.arange: _tile_handler(_arange),
    tile_functions.load: _tile_handler(_load),
    tile_functions.reshape: _tile_handler(_reshape),
    tile_functions.cumsum: _tile_handler(_cumsum),
    tile_functions.scan: _tile_handler(_scan),
    tile_functions.argmin: _tile_handler(_extreme, "<"),
    argmax: _tile_handler(_extreme, ">"),
    len: _tile_handler(_length),
    **{getattr(tile_functions, name): _tile_handler(_reduction, name) for name in SYMBOLS},
    **dict.fromkeys((*COLLECTIVES, functions.private), _refuse_invocation_function),
}
"""Functions that take tiles as a whole → their handlers. Other functions are applied to each element of tiles. The
handler of collectives and `private`, which are for single invocations, raises CompileError."""

FUNCTIONS = frozenset(function for function in TILE_HANDLERS if function.__module__ == tile_functions.__name__)
"""Functions of tiles only: a kernel that calls one of them is in the tile style."""

HANDLERS: dict[Any, Handler] = {**handlers.HANDLERS, **TILE_HANDLERS}
"""Function that kernels with tiles may call → handler that emits the call."""
REMEDIES = {**calls.REMEDIES, sum: "write pydispatch.sum(tile)"}
"""Functions that kernels lack → what to write instead."""
TAKES_TILES = frozenset(TILE_HANDLERS.values())
"""Handlers that take tiles as a whole; others are applied to each element."""
MIN_MAX = frozenset(TABLE[function] for function in (max, min))
"""Handlers of Python's max and min, which combine numbers, or the elements of two or more tiles. For a single tile
the error names `pydispatch.max` or `pydispatch.min`, which reduce it."""
ATOMICS = frozenset(atomics.TABLE.values())
"""Handlers of atomic operations, which with tiles are called once for each element."""
