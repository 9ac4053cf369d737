"""Builders of scalar bodies and loops for the conversions in this folder.

A method or function emits operations, and returns the values that they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.bodies import BodyBuilder
from pydispatch.compiler.normalize.build import Build
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp
from pydispatch.ir.dialects.util.scalars import OptimizationBarrierOp

Before = Callable[["LoopBody", Sequence[SSAValue], Sequence[SSAValue]], SSAValue]
"""Function of (code, a, b) that emits whether a precedes b in an order; an element is one value of each tensor."""


class LoopBody(BodyBuilder):
    """Builder of the scalar body of a loop or generic, with arithmetic on indices, comparisons and loads.

    Conversions of structured operations create one, and fill it. A method appends an operation, and returns its result.
    """

    def index(self, value: int) -> SSAValue:
        """Append a constant of type index, and return it."""
        return self.add(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def plus(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.AddiOp(lhs, rhs))

    def minus(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.SubiOp(lhs, rhs))

    def times(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.MuliOp(lhs, rhs))

    def minimum(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.MinSIOp(lhs, rhs))

    def maximum(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.MaxSIOp(lhs, rhs))

    def less(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Emit the signed comparison lhs < rhs, and return its i1."""
        return self.add(arith.CmpiOp(lhs, rhs, "slt"))

    def equal(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.CmpiOp(lhs, rhs, "eq"))

    def both(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(arith.AndIOp(lhs, rhs))

    def opposite(self, a: SSAValue) -> SSAValue:
        """Append the negation of an i1, and return it."""
        return self.add(arith.XOrIOp(a, self.add(arith.ConstantOp(IntegerAttr(1, 1)))))

    def select(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Append a select, which is `lhs` if the condition is true, else `rhs`, and return it."""
        return self.add(arith.SelectOp(condition, lhs, rhs))

    def extract(self, source: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """Emit the extraction of an element of a tensor, and return it; an index out of bounds gives an unspecified
        element.
        """
        assert isinstance(source.type, TensorType)
        return self.add(tensor.ExtractOp(source, list(indices), source.type.element_type))

    def as_index(self, value: SSAValue) -> SSAValue:
        """Append a cast of an integer to an index, and return it."""
        return self.cast(value, IndexType(), unsigned=False)

    def inline(self, body: Region, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """Append copies of the operations of a body, with `arguments` in place of its arguments. Return the values that
        it yields.
        """
        # Value of the body → its copy.
        copies: dict[SSAValue, SSAValue] = dict(zip(body.block.args, arguments, strict=True))
        terminator = body.block.last_op
        assert terminator is not None
        for op in body.block.ops:
            if op is not terminator:
                copy = op.clone(copies)
                self.block.add_op(copy)
                copies.update(zip(op.results, copy.results, strict=True))
        return [copies.get(v, v) for v in terminator.operands]  # a value from outside of the body has no copy

    def loop(
        self, count: SSAValue, carried: Sequence[SSAValue],
        body: Callable[[LoopBody, SSAValue, list[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:  # fmt: skip
        """Append an `scf.for` from 0 to `count` with a step of 1, and return the values after its last iteration.

        Args:
            count: Number of iterations.
            carried: The values before the first iteration.
            body: Function of (builder of the loop's body, index, carried values) that returns the values to carry on.
        """
        inner = LoopBody([IndexType(), *(v.type for v in carried)])
        index, *values = inner.block.args
        inner.block.add_op(scf.YieldOp(*body(inner, index, list(values))))
        loop = scf.ForOp(self.index(0), count, self.index(1), list(carried), Region(inner.block))
        self.block.add_op(loop)
        return list(loop.results)


def recurrence(
    build: Build, types: Sequence[TensorType[Attribute]], sizes: Sequence[SSAValue], along: int,
    begin_row: Callable[[LoopBody, list[SSAValue]], Sequence[SSAValue]],
    step: Callable[[LoopBody, list[SSAValue], list[SSAValue]], tuple[Sequence[SSAValue], Sequence[SSAValue]]],
) -> list[SSAValue]:  # fmt: skip
    """Emit a `pyd.recurrence`, and return its results: tensors whose rows are computed element by element.

    A row has the elements along one dimension; rows are independent of each other.

    Example: The running sums of each row of a matrix `x` carry the sum, and yield it as the element.

        def begin_row(code, row):  # row = [i]
            return [zero]

        def step(code, index, carried):  # index = [i, j]
            total = code.add(arith.AddfOp(carried[0], code.extract(x, index)))
            return [total], [total]

        recurrence(build, [x.type], build.dynamic_dims(x), along=1, begin_row=begin_row, step=step)

    Args:
        build: Builder of the surrounding tensor code.
        types: Types of the results, which have one shape.
        sizes: The dynamic sizes of that shape, by dimension.
        along: The dimension along which elements are computed in order.
        begin_row: Function of (builder, index of a row) that returns the carried values before the first element of the
            row. The index is a list with one number for each dimension except `along`.
        step: Function of (builder, index of an element, carried values) that returns the values to carry on, and an
            element for each result.
    """
    # The two regions: the start of a row, and the computation of an element.
    rank = types[0].get_num_dims()
    start = LoopBody([IndexType()] * (rank - 1))
    initial = begin_row(start, list(start.block.args))
    start.finish(*initial)
    body = LoopBody([*[IndexType()] * rank, *(v.type for v in initial)])
    arguments: list[SSAValue] = list(body.block.args)
    carried, elements = step(body, arguments[:rank], arguments[rank:])
    body.finish(*carried, *elements)
    recurrence_op = RecurrenceOp(
        operands=[list(sizes)], result_types=[list(types)], properties={"dimension": IntegerAttr(along, i64)},
        regions=[Region(start.block), Region(body.block)],
    )  # fmt: skip
    return list(build.add(recurrence_op).res)


def host_loop(
    build: Build, start: int, end: int | SSAValue, carried: Sequence[SSAValue],
    body: Callable[[Build, SSAValue, list[SSAValue]], Sequence[SSAValue]],
) -> list[SSAValue]:  # fmt: skip
    """Emit a loop from `start` to `end` in host code, around tensor operations; return the values after it.

    If `end` is a number, the loop is unrolled: a function without control flow runs as one plan and can be batched.
    Otherwise the loop is an `scf.for`.

    Args:
        build: Receives the loop.
        start: Index of the first iteration.
        end: Index after the last iteration: a number close to `start`, or a value of type index.
        carried: The values before the first iteration.
        body: Called with (builder of the body, index, carried values) to emit an iteration; returns the next carried
            values. An unrolled loop calls it for each iteration, an `scf.for` once.
    """
    if isinstance(end, int):
        unrolled = list(carried)
        for iteration in range(start, end):
            # Behind a barrier, the index is an argument of dispatches, so that all iterations share their kernels.
            constant = build.index(iteration)
            barrier = OptimizationBarrierOp(operands=[[constant]], result_types=[[constant.type]])
            unrolled = list(body(build, build.add(barrier).results[0], unrolled))
        return unrolled
    block = Block(arg_types=[IndexType(), *(v.type for v in carried)])
    insertion_point = scf.YieldOp()  # replaced when the results of the body are known
    block.add_op(insertion_point)
    inner = Build(insertion_point, build.reassociate, build.has_invocations)
    index, *values = block.args
    results = body(inner, index, list(values))
    erase_op(insertion_point)
    block.add_op(scf.YieldOp(*results))
    loop = scf.ForOp(build.index(start), end, build.index(1), list(carried), Region(block))
    return list(build.add(loop).results)


def require_tensors(op: Operation) -> None:
    """Raise VerifyException for an operation on memrefs: the rules of this folder are for tensors."""
    for value in (*op.operands, *op.results):
        if value.type.name == "memref":
            raise VerifyException(f"only tensors are supported, got {value.type}")


def element_of(value: SSAValue) -> Any:
    """Return the element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type
