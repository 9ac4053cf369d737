"""The kernel of a chain: some rows of the first product, what follows row by row, and the second product of them."""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.analysis import Nest, analyse, keep
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.nests import emit_inner
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, plan_of
from pydispatch.compiler.kernels.matmul.cpu.sides import Side
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil, level_of
from pydispatch.compiler.kernels.matmul.cpu.write import Writer
from pydispatch.compiler.kernels.matmul.results import positions
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.values import shape_of

SCORES = 128 << 10
"""Bytes of the rows that a workgroup keeps: half of a small second-level cache, beside what it packs."""

FEWEST = 8
"""Workgroups that there are, where rows can be cut into so many."""


def lower_chain(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a dispatch function that is a chain, else None. machine: for whose registers it is cut."""
    chain = chain_of([op for op in source.body.block.ops if op.results])
    if chain is None:
        return None
    frame = Frame(source, backend)
    if any(argument >= 0 for argument in frame.updated):
        return None
    results = [positions(value, chain.second.op.results[0]) for value in frame.returned]
    level = level_of(machine)
    first, second = plan_of(chain.first, frame.elements, level), plan_of(chain.second, frame.elements, level)
    known = [r for r in results if r is not None]
    if first is None or second is None or len(known) != len(results):
        return None
    return _Chained(frame, chain, first, second, known, level).kernel()


class _Chained:
    """A chain being written. rows: how many a workgroup takes; stride: elements between the rows that it keeps."""

    def __init__(
        self, frame: Frame, chain: Chain, first: Plan, second: Plan, results: list[list[int]], level: Level
    ) -> None:
        self.frame, self.chain, self.first, self.second = frame, chain, first, second
        self.results = results
        shape, m = shape_of(chain.rows), chain.second.m
        self.axis = None if m is None else chain.second_loops.index(m)
        self.count = 1 if self.axis is None else shape[self.axis]
        self.columns = shape[-1]
        self.outer = [shape[d] for d in chain.outer]
        size = 8 if str(tensor_type(chain.rows).element_type) == "f64" else 4
        self.stride = self.columns + (level.vector // size if self.columns * size % 256 == 0 else 0)
        block = self.block = min(max(first.schedule.mr, second.schedule.mr), self.count)
        blocks = max(1, SCORES // (size * self.stride * block))
        while blocks > 1 and prod(self.outer) * ceil(self.count, blocks * block) < FEWEST:
            blocks -= 1
        self.rows = min(self.count, blocks * block)

    def kernel(self) -> Kernel:
        frame, tiles = self.frame, ceil(self.count, self.rows)
        frame.bind()
        build, e = frame.build, frame.elements
        number = build.bounded(frame.workgroup(), prod(self.outer) * tiles)
        *outer, tile = build.split(number, [*self.outer, tiles])
        low: Index = build.least(build.times(tile, self.rows), max(0, self.count - self.block))
        valid: Index = build.least(self.rows, build.minus(self.count, low)) if self.count % self.rows else self.rows
        buffer = e.fresh(tensor_type(self.chain.rows).element_type, self.rows * self.stride)
        self._scores(build, outer, low, valid, buffer)
        self._rows(build, outer, low, valid, buffer)
        self._product(build, outer, low, valid, buffer)
        count = prod(self.outer) * tiles
        return frame.finish(lambda elements, b: count)

    def _place(self, build: Builder, low: Index, indices: list[Index]) -> Index:
        """Return the offset of an element of the rows in the buffer."""
        row = 0 if self.axis is None else build.minus(indices[self.axis], low)
        return build.plus(build.times(row, self.stride), indices[-1])

    def _scores(self, build: Builder, outer: list[Index], low: Index, valid: Index, buffer: SSAValue) -> None:
        e = self.frame.elements

        def store(builder: Builder, element: SSAValue, places: list[Index]) -> None:
            e.store(builder, element, buffer, [self._place(builder, low, places)])

        output = Output(self.chain.scores, list(range(len(shape_of(self.chain.scores)))), store)
        writer = Writer(self.frame, build, self.first, [output])
        loops = self.chain.first_loops
        writer.run_rows(dict(zip((loops[d] for d in self.chain.outer), outer, strict=True)), low, valid)

    def _rows(self, build: Builder, outer: list[Index], low: Index, valid: Index, buffer: SSAValue) -> None:
        """Compute each row in place: it overwrites the scores in the buffer that it is computed from."""
        chain, e = self.chain, self.frame.elements
        e.materialize(chain.scores, buffer, lambda b, indices: [self._place(b, low, list(indices))])
        (nest,) = analyse(self.frame, [Nest([(chain.rows, buffer)], chain.rows)])
        keep(self.frame, nest)
        dims = e.dims(chain.rows)

        def element(builder: Builder, indices: list[Index]) -> None:
            e.store(builder, e.at(builder, chain.rows, indices), buffer, [self._place(builder, low, indices)])

        def row(builder: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            indices: list[Index] = [0] * (len(dims) - 1)
            for d, index in zip(chain.outer, outer, strict=True):
                indices[d] = index
            if self.axis is not None:
                indices[self.axis] = builder.plus(low, i)
            e.row = list(indices)
            nest.run_stages(e, builder, indices)
            emit_inner(builder, indices, dims[-1:], 0, self.columns, element)
            return []

        build.loop(0, valid, [], row, limit=self.rows)
        e.kept.clear()
        e.forget(chain.scores)
        e.materialize(chain.rows, buffer, lambda b, indices: [self._place(b, low, list(indices))])

    def _product(self, build: Builder, outer: list[Index], low: Index, valid: Index, buffer: SSAValue) -> None:
        chain, frame = self.chain, self.frame
        strides: list[Index] = [0] * len(chain.second_loops)
        strides[-1] = 1
        if self.axis is not None:
            strides[self.axis] = self.stride
        side = Side(chain.second.a, buffer, strides, False) if self._reads_in_place() else None
        writer = Writer(frame, build, self.second, outputs_of(frame, self.results), side)
        loops = chain.second_loops
        writer.run_rows(dict(zip((loops[d] for d in chain.outer), outer, strict=True)), low, valid)

    def _reads_in_place(self) -> bool:
        return self.second.single and self.second.compute == tensor_type(self.chain.rows).element_type
