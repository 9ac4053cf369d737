"""Attributes of structured operations and reshapes, from numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir.affine import AffineMap


def affine_maps(maps: Iterable[AffineMap]) -> ArrayAttr[AffineMapAttr]:
    """Return the `indexing_maps` of a linalg.generic."""
    return ArrayAttr([AffineMapAttr(m) for m in maps])


def iterator_types(names: Iterable[str]) -> ArrayAttr[IteratorTypeAttr]:
    """Return the `iterator_types` of a linalg.generic."""
    return ArrayAttr([IteratorTypeAttr(IteratorType(n)) for n in names])


def reassociation(groups: Iterable[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Return the `reassociation` of a tensor.expand_shape or tensor.collapse_shape with these groups of dimensions."""
    return _reassociation(tuple(tuple(group) for group in groups))


@lru_cache(maxsize=1024)  # most reshapes of a model are alike, and making the attribute is most of making the operation
def _reassociation(groups: tuple[tuple[int, ...], ...]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr([ArrayAttr([IntegerAttr(d, 64) for d in group]) for group in groups])
