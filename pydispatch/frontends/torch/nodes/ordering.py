"""Elements in order, and running results along an axis."""

from __future__ import annotations

from pydispatch.frontends.graph.dtypes import I32, I64, DType
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import ordering, reductions, scans, shapes
from pydispatch.frontends.ops.normalization import wide
from pydispatch.frontends.torch.promotion import Operand, as_tensor, category
from pydispatch.frontends.torch.trace import Conversion, Tracer


def sort(t: Tracer, self: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    if not self.rank:
        return self, t.b.constant(0, I64)
    return ordering.sort_with_places(t.b, self, shapes.axis_of(t.b, dim, self.rank), descending=descending)


def sort_stable(
    t: Tracer, self: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(t, self, dim, descending)


def argsort(t: Tracer, self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(t, self, dim, descending)[1]


def argsort_stable(t: Tracer, self: Tensor, *, stable: bool = True, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(t, self, dim, descending)[1]


def topk(
    t: Tracer, self: Tensor, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    if not self.rank:
        return self, t.b.constant(0, I64)
    return ordering.top_k(t.b, self, k, shapes.axis_of(t.b, dim, self.rank), largest=largest)


def kthvalue(t: Tracer, self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axis = shapes.axis_of(t.b, dim, self.rank)
    last = [shapes.slice_axis(t.b, x, axis, k - 1, k) for x in ordering.sort_with_places(t.b, self, axis)]
    return (
        (last[0], last[1]) if keepdim else (shapes.squeeze(t.b, last[0], [axis]), shapes.squeeze(t.b, last[1], [axis]))
    )


def _running(name: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
        dtype = dtype or (self.dtype if category(self.dtype) >= 2 else I64)
        x = ew.convert(t.b, self, wide(dtype))
        made = scans.cumulative(t.b, name, x, shapes.axis_of(t.b, dim, x.rank)) if x.rank else x
        return ew.convert(t.b, made, dtype)

    return convert


def bucketize(t: Tracer, self: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """How many boundaries are below each element; of equal ones, too, with `right`."""
    x = as_tensor(t, self)
    below = ew.compare(t.b, "le" if right else "lt", boundaries, shapes.expand_dims(t.b, x, [x.rank]))
    dtype = I32 if out_int32 else I64
    return reductions.reduce(t.b, "add", ew.convert(t.b, below, dtype), [x.rank])


ORDERING: dict[str, Conversion] = {
    "aten.sort": sort,
    "aten.sort.stable": sort_stable,
    "aten.argsort": argsort,
    "aten.argsort.stable": argsort_stable,
    "aten.topk": topk,
    "aten.kthvalue": kthvalue,
    "aten.cumsum": _running("add"),
    "aten.cumprod": _running("mul"),
    "aten.bucketize": bucketize,
}
