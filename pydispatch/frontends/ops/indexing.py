"""Elements at computed places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Shape
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.elementwise import FOLDED, broadcast_map
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars, scalars_of


class Places(Scalars):
    """Computes places: values of type index, in the body of an operation. `places[d]`: the place along axis d."""

    def __init__(self, block: Block, given: Sequence[Scalar]) -> None:
        super().__init__(block)
        self.given = given

    def index(self, axis: int) -> SSAValue:
        """The number of the element of the result along an axis."""
        return self.add_op(linalg.IndexOp(axis))

    def number(self, value: int) -> SSAValue:
        """A constant place."""
        return self.add_op(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Their sum."""
        return self.add_op(arith.AddiOp(a, b))

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Their difference."""
        return self.add_op(arith.SubiOp(a, b))

    def times(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Their product."""
        return self.add_op(arith.MuliOp(a, b))

    def clamped(self, a: SSAValue, last: SSAValue) -> SSAValue:
        """The nearest place of 0 to `last`."""
        return self.add_op(arith.MinSIOp(self.add_op(arith.MaxSIOp(a, self.number(0))), last))


def elements_at(
    b: Builder, x: Tensor, shape: Shape, places: Callable[[Places], Sequence[SSAValue]], *given: Tensor
) -> Tensor:
    """The tensor of `shape` whose element is x at `places(p)`, which must be in bounds.

    given: tensors that broadcast to `shape`; `p.given` has their elements.
    """
    identity = AffineMap.identity(len(shape))
    inputs = [(part, broadcast_map(t.shape, len(shape))) for t in given for part in b.parts(t)]
    sources = b.parts(x)
    outputs = [(b.empty(x.dtype.element, shape), identity) for _ in sources]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        p = Places(block, scalars_of([t.dtype for t in given], args))
        at = list(places(p))
        return [p.add_op(tensor.ExtractOp(source, at, x.dtype.element)) for source in sources]

    return b.wrap(x.dtype, shape, *b.generic(inputs, outputs, [True] * len(shape), body))


def reverse(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The order of elements along axes reversed."""
    if x.known is not None and x.known.size <= FOLDED:
        import numpy as np

        return Tensor(x.dtype, x.shape, known=np.flip(x.known, tuple(axes)))
    last = {d: b.index(x.shape[d] - 1) for d in axes}

    def places(p: Places) -> list[SSAValue]:
        return [p.minus(last[d], p.index(d)) if d in last else p.index(d) for d in range(x.rank)]

    return elements_at(b, x, x.shape, places)
