"""Iterations and maps of structured operations, and the sizes that they require."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.table import Meaning


class Structure(NamedTuple):
    """Loops and indexing maps of a structured operation.

    Attributes:
        maps: One map per operand, inputs first: the loops -> the operand's dimensions.
        parallel: For each loop, whether it is parallel, which it is if it indexes the output; else it is a reduction.
    """

    maps: tuple[AffineMap, ...]
    parallel: tuple[bool, ...]

    @property
    def loop_count(self) -> int:
        """Number of loops, parallel ones and reductions."""
        return len(self.parallel)


def structure_of_named(definition: Meaning, strides: Sequence[int], dilations: Sequence[int]) -> Structure:
    """Return the loops and maps of a named operation, such as `linalg.conv_1d_nwc_wcf`.

    With the stride 2 and the dilation 3, the inputs and the output of this convolution have the maps

        (d0, d1, d2, d3, d4) -> (d0, d1 * 2 + d3 * 3, d4)    of n, ow+kw, c
        (d0, d1, d2, d3, d4) -> (d3, d4, d2)                 of kw, c, f
        (d0, d1, d2, d3, d4) -> (d0, d1, d2)                 of n, ow, f

    where d0 to d4 are the loops n, ow, f, kw, c, and the first three are parallel.

    Args:
        definition: Definition of the operation.
        strides: Strides of its sliding windows, in the order of the dimensions `a+b` of its first input.
        dilations: Dilations of the windows, in the same order.
    """
    dims = definition.dims
    operands = (*definition.inputs, definition.output)
    maps = tuple(_map_of_subscript(dims, subscript, strides, dilations) for subscript in operands)
    # A loop is parallel if it indexes the output, else a reduction.
    return Structure(maps, parallel=tuple(d in definition.output for d in dims))


def _map_of_subscript(
    dims: Sequence[str], subscript: Sequence[str], strides: Sequence[int], dilations: Sequence[int]
) -> AffineMap:
    """Return the map of one operand, with an expression for each word of its subscript: `a` is the loop a, and the n-th
    `a+b` is a * strides[n] + b * dilations[n]. `dims` are the names of all loops.
    """
    results: list[AffineExpr] = []
    window = 0  # number of words `a+b` before this one
    for word in subscript:
        loop, _, kernel_loop = word.partition("+")
        expression: AffineExpr = AffineExpr.dimension(dims.index(loop))
        if kernel_loop:
            offset: AffineExpr = AffineExpr.dimension(dims.index(kernel_loop))
            expression = _scaled(expression, strides[window]) + _scaled(offset, dilations[window])
            window += 1
        results.append(expression)
    return AffineMap(len(dims), 0, tuple(results))


def _scaled(expression: AffineExpr, factor: int) -> AffineExpr:
    """Return expression * factor, without a multiplication by 1."""
    return expression if factor == 1 else expression * factor


def structure_of_maps(maps: Sequence[AffineMap]) -> Structure:
    """Return the structure that indexing maps imply, of which the last is the output's: loops that do not index the
    output are reductions."""
    output_dims = {e.position for e in maps[-1].results if isinstance(e, AffineDimExpr)}
    return Structure(tuple(maps), parallel=tuple(d in output_dims for d in range(maps[-1].num_dims)))


def elementwise_structure(rank: int, operand_count: int) -> Structure:
    """Return the structure of an elementwise operation: `rank` parallel loops, and identity maps of all operands."""
    return Structure((AffineMap.identity(rank),) * operand_count, parallel=(True,) * rank)


def shape_of(type: Attribute) -> tuple[int, ...]:
    """Return the sizes of a type, with DYNAMIC for a dynamic one; () for a scalar."""
    return tuple(type.get_shape()) if isinstance(type, ShapedType) else ()


def check_sizes(types: Sequence[Attribute], maps: Sequence[AffineMap], loop_count: int, names: Sequence[str]) -> None:
    """Check that indexing maps fit their operands, and that operands agree on the sizes of the loops.

    `types`, `maps` and `names` have an entry for each operand. Raise VerifyException with the names of the operands
    that do not fit.
    """
    if len(maps) != len(types):
        raise VerifyException(f"{len(types)} operand(s) need as many indexing maps, got {len(maps)}")
    # A dimension that is indexed by a loop alone, d0, states the size of the loop. All of these must agree.
    sizes: dict[int, tuple[int, str]] = {}  # loop → its static size, and the name of the operand that states it
    seen: set[int] = set()  # loops that index a dimension of an operand by themselves
    for type, map, name in zip(types, maps, names, strict=True):
        _check_map(type, map, loop_count, name)
        for expression, size in zip(map.results, shape_of(type), strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            loop = expression.position
            seen.add(loop)
            if size == DYNAMIC:
                continue
            known_size, known_name = sizes.setdefault(loop, (size, name))
            if known_size != size:
                raise VerifyException(f"{name} has size {size} where {known_name} has {known_size}")
    missing = set(range(loop_count)) - seen
    if missing:
        raise VerifyException(f"no operand gives the size of iteration d{min(missing)}")
    # Other indices, such as d0 * 2 + d1, must be in range for these sizes.
    _check_windows(types, maps, {d: size for d, (size, _) in sizes.items()}, names)


def _check_map(type: Attribute, map: AffineMap, loop_count: int, name: str) -> None:
    """Check that a map has the loops as dimensions, and a result for each dimension of the operand type `type`.

    `name` is the name of the operand in messages.
    """
    if map.num_dims != loop_count:
        raise VerifyException(f"the map of {name} has {map.num_dims} dimension(s), expected {loop_count}: {map}")
    if map.num_symbols:
        raise VerifyException(f"the map of {name} has symbols: {map}")
    if len(map.results) != len(shape_of(type)):
        raise VerifyException(f"{name} is {type} of rank {len(shape_of(type))}, expected rank {len(map.results)}")


def _check_windows(
    types: Sequence[Attribute], maps: Sequence[AffineMap], sizes: dict[int, int], names: Sequence[str]
) -> None:
    """Check that index expressions other than plain dimensions stay within the static sizes of the operands.

    Loops d0 and d1 of 4 and 3 iterations reach d0 * 2 + d1 = 8: an operand with this index needs a size of 9 or more.

    An index is evaluated in the first and in the last iteration of all loops. These are its extremes if the factors of
    the loops have one sign. An index such as d0 - d1 may exceed the size in other iterations, which is not detected.

    Args:
        types: Type of each operand.
        maps: Indexing map of each operand.
        sizes: Static sizes of the loops; loops that are absent have dynamic sizes, and indices that use them pass.
        names: Name of each operand for messages.
    """
    if any(size == 0 for size in sizes.values()):
        return  # no iteration accesses an element
    for type, map, name in zip(types, maps, names, strict=True):
        for expression, size in zip(map.results, shape_of(type), strict=True):
            used_loops = {e.position for e in expression.dfs() if isinstance(e, AffineDimExpr)}
            is_static = size != DYNAMIC and used_loops <= sizes.keys()
            if not is_static or isinstance(expression, AffineDimExpr):
                continue
            last = [sizes.get(d, 1) - 1 for d in range(map.num_dims)]  # 0 for loops of dynamic size, which are unused
            indices = [expression.eval(point, []) for point in (last, [0] * map.num_dims)]
            if max(indices) >= size or min(indices) < 0:
                outside = max(indices) if max(indices) >= size else min(indices)
                raise VerifyException(f"{name} has size {size}, but {expression} reaches {outside}")
