"""Elements of a tensor at places that other tensors hold."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.elementwise import FOLDED
from pydispatch.frontends.ops.indexing import Places, elements_at
from pydispatch.frontends.ops.reals import Scalar


def _from_the_front(p: Places, place: Scalar, n: SSAValue) -> SSAValue:
    """A place within an axis of n elements; one that is not in it becomes the nearest that is."""
    at = p.index_of(place)
    if not place.dtype.is_unsigned:
        negative = p.add_op(arith.CmpiOp(at, p.number(0), "slt"))
        at = p.add_op(arith.SelectOp(negative, p.plus(at, n), at))
    return p.clamped(at, p.minus(n, p.number(1)))


def index(b: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """NumPy's x[indices] with tensors of integers, which broadcast together, and None for a whole axis.

    The axes of the indices come where the first of them is, or first when whole axes are between them.
    """
    given = [i for i in indices if i is not None]
    axes = [d for d, i in enumerate(indices) if i is not None]
    shape = ew.broadcast_shape(b, *(i.shape for i in given))
    kept = [d for d in range(x.rank) if d not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if together else 0
    result: Shape = (*(x.shape[d] for d in kept if d < first or (not together and first)), *shape,
                     *(x.shape[d] for d in kept if not (d < first)))  # fmt: skip
    if (folded := _folded(b, x, indices)) is not None:
        return folded
    before = [d for d in kept if d < first]
    place_of = {d: n if d in before else n + len(shape) for n, d in enumerate(kept)}
    last = {d: b.index(x.shape[d]) for d in axes}
    spread = [_spread(b, i, len(before), len(shape), len(result)) for i in given]

    def places(p: Places) -> list[SSAValue]:
        at = dict(zip(axes, p.given, strict=True))
        return [_from_the_front(p, at[d], last[d]) if d in at else p.index(place_of[d]) for d in range(x.rank)]

    return elements_at(b, x, result, places, *spread)


def _spread(b: Builder, i: Tensor, before: int, width: int, rank: int) -> Tensor:
    """An index as a tensor of a rank whose axes stand behind `before` others."""
    from pydispatch.frontends.ops.shapes import reshape

    lead: list[Size] = [1] * (width - i.rank)
    return reshape(b, i, [*[1] * before, *lead, *i.shape, *[1] * (rank - before - width)])


def _folded(b: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    import numpy as np

    if x.known is None or x.known.size > FOLDED or any(i is not None and i.numbers is None for i in indices):
        return None
    places = tuple(slice(None) if i is None else i.numbers for i in indices)
    made = x.known[places]
    return b.constant(np.asarray(made), x.dtype)
