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
        maps: One map per operand, inputs first.
        parallel: For each loop, whether it is parallel (indexes the output).
    """

    maps: tuple[AffineMap, ...]
    parallel: tuple[bool, ...]

    @property
    def loop_count(self) -> int:
        return len(self.parallel)


def of_meaning(meaning: Meaning, strides: Sequence[int], dilations: Sequence[int]) -> Structure:
    """Return the structure of a named operation with these strides and dilations of its windows."""
    dims = meaning.dims

    def window(subscript: Sequence[str]) -> AffineMap:
        """Return the map of one operand; each `a+b` takes the next stride and dilation."""
        results: list[AffineExpr] = []
        index = 0
        for word in subscript:
            first, _, second = word.partition("+")
            expression: AffineExpr = AffineExpr.dimension(dims.index(first))
            if second:
                offset: AffineExpr = AffineExpr.dimension(dims.index(second))
                stride, dilation = strides[index], dilations[index]
                expression = (expression * stride if stride != 1 else expression) + (
                    offset * dilation if dilation != 1 else offset
                )
                index += 1
            results.append(expression)
        return AffineMap(len(dims), 0, tuple(results))

    maps = tuple(window(subscript) for subscript in (*meaning.inputs, meaning.output))
    return Structure(maps, tuple(d in meaning.output for d in dims))


def of_maps(maps: Sequence[AffineMap]) -> Structure:
    """Return the structure that indexing maps imply: loops that do not index the output are reductions."""
    used = {e.position for e in maps[-1].results if isinstance(e, AffineDimExpr)}
    return Structure(tuple(maps), tuple(d in used for d in range(maps[-1].num_dims)))


def identity(rank: int, operands: int) -> Structure:
    """Return the structure of an elementwise operation, whose operands all have the identity map."""
    return Structure((AffineMap.identity(rank),) * operands, parallel=(True,) * rank)


def shape_of(type: Attribute) -> tuple[int, ...]:
    """Return the shape of a type; () for a scalar."""
    return tuple(type.get_shape()) if isinstance(type, ShapedType) else ()


def check_sizes(types: Sequence[Attribute], maps: Sequence[AffineMap], count: int, names: Sequence[str]) -> None:
    """Check that indexing maps fit their operands, and that operands agree on the sizes of the `count` loops.

    Raises VerifyException with the names of the operands that do not fit.
    """
    if len(maps) != len(types):
        raise VerifyException(f"{len(types)} operand(s) need as many indexing maps, got {len(maps)}")
    sizes: dict[int, tuple[int, str]] = {}
    seen: set[int] = set()
    for type, map, name in zip(types, maps, names, strict=True):
        rank = len(shape_of(type))
        if map.num_dims != count:
            raise VerifyException(f"the map of {name} has {map.num_dims} dimension(s), expected {count}: {map}")
        if map.num_symbols:
            raise VerifyException(f"the map of {name} has symbols: {map}")
        if len(map.results) != rank:
            raise VerifyException(f"{name} is {type} of rank {rank}, expected rank {len(map.results)}")
        for expression, size in zip(map.results, shape_of(type), strict=True):
            if isinstance(expression, AffineDimExpr):
                seen.add(expression.position)
                if size != DYNAMIC:
                    known_size, known_name = sizes.setdefault(expression.position, (size, name))
                    if known_size != size:
                        raise VerifyException(f"{name} has size {size} where {known_name} has {known_size}")
    missing = set(range(count)) - seen
    if missing:
        raise VerifyException(f"no operand gives the size of iteration d{min(missing)}")
    _check_windows(types, maps, {d: size for d, (size, _) in sizes.items()}, names)


def _check_windows(
    types: Sequence[Attribute], maps: Sequence[AffineMap], sizes: dict[int, int], names: Sequence[str]
) -> None:
    """Check that index expressions other than plain dimensions stay within the static sizes of the operands."""
    if any(size == 0 for size in sizes.values()):
        return
    for type, map, name in zip(types, maps, names, strict=True):
        for expression, size in zip(map.results, shape_of(type), strict=True):
            used = {e.position for e in expression.dfs() if isinstance(e, AffineDimExpr)}
            if size == DYNAMIC or isinstance(expression, AffineDimExpr) or not used <= sizes.keys():
                continue
            last = [sizes.get(d, 1) - 1 for d in range(map.num_dims)]
            reach = [expression.eval(point, []) for point in (last, [0] * map.num_dims)]
            if max(reach) >= size or min(reach) < 0:
                outside = max(reach) if max(reach) >= size else min(reach)
                raise VerifyException(f"{name} has size {size}, but {expression} reaches {outside}")
