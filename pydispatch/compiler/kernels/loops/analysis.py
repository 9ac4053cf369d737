"""Analysis of the loop nests of a kernel by a trial: their code is emitted once and discarded.

Rows: reductions that depend on the outer dimensions only are loops before the inner ones, and a workgroup takes whole
rows. Expensive values of a row that several of its loops need are stored by the first of these loops. They are stored
in workgroup memory if the row is known to fit, else in the row of a result of the same type that is written last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.ir import Attribute, Block, OpResult, SSAValue

from pydispatch.compiler.kernels.loops.columns import Stage, find_stages
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.tiled_transpose import transposed_dim
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.elements import Elements, IndexMap, Kept
from pydispatch.compiler.kernels.ops.tensors import covers, tensor_type
from pydispatch.compiler.tensor_ops.in_kernels import RULES
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp
from pydispatch.ir.structured import is_reduction

Store = tuple[SSAValue, SSAValue]
"""(value, buffer)"""


@dataclass
class LoopNest:
    """Results that are stored in one loop nest.

    split: dimensions before it are outer ones. rows: a workgroup takes the inner dimensions whole.
    row_stores: results that have one element per row.
    stages: the reductions before a row's inner loops, in an order in which each finds what it needs, with their
    indices: the number of a dimension, or -1 for index 0.
    kept: values that a row stores for its later loops -> the result whose row they are stored in, None for workgroup
    memory. columns: the reductions, when a workgroup takes columns. along: the dimension that is read along, where it
    is not the last one.
    """

    stores: list[Store]
    space: SSAValue | UpdateStep | RecurrenceOp
    split: int = 0
    rows: bool = False
    row_stores: list[Store] = field(default_factory=list)
    stages: list[tuple[SSAValue, list[int]]] = field(default_factory=list)
    kept: dict[SSAValue, SSAValue | None] = field(default_factory=dict)
    columns: list[Stage] = field(default_factory=list)
    along: int = -1

    def run_stages(self, elements: Elements, build: Builder, indices: list[Index]) -> None:
        """Write the stages and the row results at the level of a row."""
        for value, positions in self.stages:
            elements.at(build, value, [0 if p < 0 else indices[p] for p in positions])

    def dims(self, elements: Elements) -> list[Index]:
        if isinstance(self.space, UpdateStep):
            return self.space.dims(elements)
        return elements.dims(self.space.res[0] if isinstance(self.space, RecurrenceOp) else self.space)

    def all_stores(self) -> list[Store]:
        return [*self.row_stores, *self.stores]


@dataclass
class _Trial:
    """The code of a nest, written for analysis and dropped. levels: the builders of its loops, outermost first."""

    e: Elements
    dims: list[Index]
    levels: list[Builder]
    indices: list[Index]


def analyse(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Find the rows, kept values and columns of nests, and return the nests; those of row results are joined with the
    rows they belong to.
    """
    recurrences = [nest for nest in nests if isinstance(nest.space, RecurrenceOp)]  # all is known of these
    nests = [nest for nest in nests if not isinstance(nest.space, RecurrenceOp)]
    for nest in nests:
        trial = _try(frame, nest, None)
        depths = [builder.depth for _, builder in trial.e.reduced if builder.depth < len(trial.dims)]
        nest.rows = bool(depths)
        nest.split = max(depths) if depths else max(0, len(trial.dims) - 1)
    joined = _join(frame, nests)
    for nest in joined:
        if nest.rows and _find_stages(frame, nest):
            nest.kept = _kept(frame, nest)
        if not nest.rows and not isinstance(nest.space, UpdateStep):
            trial = _try(frame, nest, None)
            nest.columns = find_stages(trial.e, trial.e.finished, trial.indices) if trial.indices else []
            if not trial.e.reduced:
                nest.along = transposed_dim(trial.e.loads, trial.indices)
    return [*joined, *recurrences]


def _find_stages(frame: Frame, nest: LoopNest) -> bool:
    """Set the stages. False when one of them is not indexed by the row itself: nothing is kept then."""
    trial = _try(frame, nest, nest.split)
    outer = trial.indices[: nest.split]
    for value, builder, indices in trial.e.finished:
        if builder.depth > nest.split:
            continue
        if any(i not in outer and i != 0 for i in indices):
            nest.stages.clear()
            return False
        nest.stages.append((value, [outer.index(i) if i in outer else -1 for i in indices]))
    return True


def _try(frame: Frame, nest: LoopNest, split: int | None) -> _Trial:
    """split: the row results are computed at this depth first."""
    e = probe(frame)
    dims = nest.dims(e)
    levels, indices = [e.entry], list[Index]()
    for size in dims:
        block = Block(arg_types=[IndexType()])
        levels.append(levels[-1].nested(block))
        indices.append(levels[-1].counts(block.args[0], size))
    if split is not None:
        nest.run_stages(e, levels[split], indices[:split])
        for value, _ in nest.row_stores:
            e.at(levels[split], value, indices[:split])
    build = levels[-1]
    for value, _ in nest.stores:
        where = indices if not isinstance(nest.space, UpdateStep) else nest.space.position(e, build, indices)
        if isinstance(nest.space, UpdateStep) and nest.space.only:
            nest.space.element(e, build, indices)
        else:
            e.at(build, value, where)
    return _Trial(e, dims, levels, indices)


def _join(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Results of one element per row go with the rows of a larger result, when they reduce what its rows hold, and when
    elements of neither share bytes: such nests go from byte to byte."""
    e = frame.elements
    by_rank = sorted(nests, key=lambda n: -len(n.dims(e)))
    kept: list[LoopNest] = []
    for nest in by_rank:
        dims = nest.dims(e)
        reduces = any(isinstance(v, OpResult) and _reduces(v) for v, _ in nest.stores)
        home = None
        for other in kept:
            wide = other.dims(e)
            fits = len(wide) > len(dims) > 0 and wide[: len(dims)] == dims
            updates = isinstance(other.space, UpdateStep) or isinstance(nest.space, UpdateStep)
            apart = all(bits_of(_element(v)) >= 8 for v, _ in (*nest.stores, *other.stores))
            if fits and apart and (other.split == len(dims) or not other.rows) and reduces and not updates:
                home = other
        if home is None:
            kept.append(nest)
        else:
            home.rows, home.split = True, len(dims)
            home.row_stores += nest.stores
    order = {id(n): i for i, n in enumerate(nests)}
    return sorted(kept, key=lambda n: order[id(n)])


def _reduces(value: OpResult) -> bool:
    """Return whether a value is computed from a reduction, or by one."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        v = pending.pop()
        if v in seen:
            continue
        seen.add(v)
        if is_reduction(v.op):
            return True
        pending += [o for o in v.op.operands if isinstance(o, OpResult) and isinstance(o.type, TensorType)]
    return False


def _kept(frame: Frame, nest: LoopNest) -> dict[SSAValue, SSAValue | None]:
    """Return which values of the rows are stored, and where; see `LoopNest.kept`."""
    trial = _try(frame, nest, nest.split)
    e, dims = trial.e, trial.dims
    own = {value: buffer for value, buffer in nest.stores}
    loops: dict[SSAValue, list[Builder]] = {}
    for value, builder, indices in e.computed:
        if not isinstance(value, OpResult) or len(indices) != len(dims) or builder.depth <= nest.split:
            continue
        if covers(builder, trial.indices[: nest.split], indices, dims):
            loops.setdefault(value, []).append(builder)
    storage: dict[SSAValue, SSAValue | None] = {}
    free = [v for v, _ in nest.stores]
    row = 1
    for size in dims[nest.split :]:
        row = row * size if isinstance(size, int) and row >= 0 else -1
    for value, builders in loops.items():
        first_is_reduction = builders[0] is not trial.levels[-1]
        if not first_is_reduction or tensor_type(value).element_type != _element(value):
            continue
        if value in own:
            storage[value] = value
            free = [v for v in free if v is not value]
        elif len(builders) > 1 and is_costly(value):
            size = row * max(1, bits_of(_element(value)) // 8)
            if 0 <= size <= frame.backend.row_bytes and bits_of(_element(value)) >= 8:
                storage[value] = None
                continue
            fitting = [v for v in free if _element(v) == _element(value) and bits_of(_element(v)) >= 8]
            if fitting:
                storage[value] = fitting[0]
                free.remove(fitting[0])
    return storage


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def keep(frame: Frame, nest: LoopNest) -> None:
    """Tell the elements of the kernel where the rows of a nest store values."""
    e = frame.elements
    dims = nest.dims(e)
    buffers = dict(nest.stores)
    e.kept.clear()
    for value, result in nest.kept.items():
        if result is not None:
            e.kept[value] = Kept(buffers[result], None, dims)
            continue
        inner = dims[nest.split :]
        size = 1
        for n in inner:
            assert isinstance(n, int)
            size *= n
        e.kept[value] = Kept(e.fresh(_element(value), size), _in_row(nest.split, inner), dims)


def _in_row(split: int, inner: list[Index]) -> IndexMap:
    return lambda build, indices: [build.join(indices[split:], inner)]


def probe(frame: Frame) -> Elements:
    """Return elements that emit their code into a block that no function has."""
    block = Block()
    build = Builder(block, frame.source)
    e = Elements(frame.source, build, RULES)
    e.flat = frame.elements.flat
    if isinstance(e.flat, SSAValue):
        size = block.insert_arg(IndexType(), len(block.args))
        e.flat = build.bounded(size, size)
    for argument in frame.source.body.block.args:
        if isinstance(argument.type, TensorType):
            buffer = frame.buffers[frame.tensors.index(argument)]
            e.materialize(argument, block.insert_arg(buffer.type, len(block.args)))
        else:
            size = block.insert_arg(argument.type, len(block.args))
            e.scalars[argument] = build.bounded(size, size)
    for value in frame.elements.stored_values():
        type_ = MemRefType(tensor_type(value).element_type, tensor_type(value).get_shape())
        e.materialize(value, block.insert_arg(type_, len(block.args)))
    return e
