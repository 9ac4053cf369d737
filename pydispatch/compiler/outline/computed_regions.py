"""`flow.dispatch.region` and `flow.dispatch.workgroups` whose bodies compute on tensors.

A body that does not read its workgroup id computes the same in each workgroup. It is inlined into host code, which is
then formed into dispatches. A body that reads its workgroup id keeps its grid and becomes a dispatch of its own: each
workgroup runs all its operations, and writes the slices that it inserts into the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.analysis.destinations import ALIASES, LAZY, LOADS, STORES, Slice, base_of, slice_of
from pydispatch.compiler.analysis.in_place import GRID, destination_operand
from pydispatch.compiler.outline.export_config import replace_size_queries
from pydispatch.compiler.outline.regions import DISPATCHES, RegionKernel
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import iree_tensor_ext
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.util import scalars

# Query of the workgroup id or count in a program -> the operation for it in kernels.
WORKGROUP_QUERIES = {
    f"{dialect}.dispatch.workgroup.{quantity}": op
    for dialect in ("flow", "stream")
    for quantity, op in (("id", hal.InterfaceWorkgroupIDOp), ("count", hal.InterfaceWorkgroupCountOp))
}
# Operations that read, write or view slices of tensors. regions.py translates a body whose only tensor operations are
# these, see `is_computed`.
_VIEWS = (*LAZY, *ALIASES, *STORES, "tensor.insert_slice", "tensor.dim", "tensor.extract")


def is_computed(op: Operation) -> bool:
    """Return whether the body of a dispatch has operations on tensors other than slices, and no microkernel.

    Dispatches for which this is false (slices, microkernels and scalar code) are translated by regions.py.
    """
    body_ops = list(walk(op.regions[0]))
    if any(inner.name == "iree_codegen.ukernel.generic" for inner in body_ops):  # a call of a microkernel
        return False
    return any(
        isinstance(value.type, TensorType)
        for inner in body_ops
        if inner.name not in _VIEWS and inner.name != "flow.return"  # _VIEWS: names of operations on slices
        for value in (*inner.operands, *inner.results)
    )


def open_regions(function: Operation) -> None:
    """Replace dispatches of a host function that compute on tensors (`is_computed`) by the operations of their bodies.

    Dispatch formation then divides these operations into dispatches. A dispatch that reads its workgroup id or count
    becomes a region with the attribute GRID instead.
    """
    for op in list(walk(function)):
        if op.name not in DISPATCHES:
            continue
        replace_size_queries(op)
        if not is_computed(op):
            continue
        region = op if isinstance(op, flow.DispatchRegionOp) else _as_region(cast(flow.DispatchWorkgroupsOp, op))
        if any(inner.name in WORKGROUP_QUERIES for inner in walk(region.body)):
            region.attributes[GRID] = UnitAttr()
        else:
            _inline_region(region)


@dataclass
class Grid:
    """Dispatch with a hand-written grid.

    Attributes:
        group: Its operations, inlined into the block of the host.
        count: Region that computes the numbers of workgroups along x, y and z from the workload.
        workload: Host values that are passed to that region.
    """

    group: list[Operation]
    count: Region
    workload: list[SSAValue]


def open_grid(region: flow.DispatchRegionOp) -> Grid:
    """Inline the body of a region with the attribute GRID (its body reads the workgroup id) into the host's block.

    Return a `Grid`: the inlined operations, the region that computes the number of workgroups along x, y and z, and the
    host values that this region takes. So

        %r = flow.dispatch.region -> (tensor<8xf32>) {
          %i = flow.dispatch.workgroup.id[0]
          %s = tensor.extract_slice %x[%i] [1] [1]
          %e = math.exp %s
          %u = tensor.insert_slice %e into %t[%i] [1] [1]
          flow.return %u
        } count() -> (index, index, index) { ... flow.return %c8, %c1, %c1 }

    becomes the four operations of the body in the block of the host, the first one as `hal.interface.workgroup.id`. The
    caller outlines them again as one dispatch with this grid.

    Raises CompileError if the region has no `count` but reads its workgroup id, or if a result overwrites a tensor that
    the body computes.
    """
    # The grid, and the queries of it in the body.
    kernel = RegionKernel(region, name="")  # only for its grid, which needs no name
    count = kernel.count()  # may add values to `kernel.workload`
    for op in list(walk(region.body)):
        if op.name in WORKGROUP_QUERIES:
            new = WORKGROUP_QUERIES[op.name](
                result_types=[op.results[0].type], properties={"dimension": op.properties["dimension"]}
            )
            _replace(op, new)
    # The body. A result is updated in place, so its destination must not be read as well.
    block = region.parent
    assert block is not None
    end = region.body.block.last_op
    assert end is not None
    returned = list(end.operands)  # read first: inlining erases the terminator
    group = _inline_region(region)
    members = set(group)
    for value in dict.fromkeys(returned):
        _give_own_destination(value, members, block, first=group[0])
    return Grid(group, count, kernel.workload)


def _give_own_destination(value: SSAValue, members: set[Operation], block: Block, first: Operation) -> None:
    """Insert a barrier between a tensor and the insertions that compute a result from it, if the body also reads it.

    An insertion updates its destination in place only if nothing else reads the destination. A barrier is another
    value with the same elements. So in

        %s = tensor.extract_slice %t[%i] [4] [1]
        %e = math.exp %s
        %r = tensor.insert_slice %e into %t[%i] [4] [1]

    `%b = util.optimization_barrier %t` is inserted at the beginning, and is the destination instead of %t. A
    tensor.empty in the dispatch needs no barrier: it has no elements to read. Raises CompileError if another operation
    of the dispatch computes the tensor.

    Args:
        value: Result of the dispatch.
        members: Operations of the dispatch.
        block: Block that contains them.
        first: The operation before which the barrier is inserted.
    """
    insertion = _first_insertion(value, members)
    if insertion is None:  # the result is computed without insertions: no tensor is updated
        return
    operand = destination_operand(insertion)
    assert operand is not None
    updated = insertion.operands[operand]  # the tensor that the first insertion updates: %t in the example
    if isinstance(updated.owner, Operation) and updated.owner in members:
        if updated.owner.name != "tensor.empty":
            raise CompileError(
                f"a result of this dispatch is inserted into what '{updated.owner.name}' makes in every workgroup",
                location_of(insertion),
                "insert into a tensor.empty, or into a tensor from outside of the dispatch",
            )
        return
    is_also_read = sum(1 for use in updated.uses if use.operation in members) > 1  # one use is the insertion
    if is_also_read:
        barrier = scalars.OptimizationBarrierOp(operands=[[updated]], result_types=[[updated.type]])
        set_location(barrier, insertion)
        block.insert_op_before(barrier, first)
        insertion.operands[operand] = barrier.results[0]


def _first_insertion(value: SSAValue, members: set[Operation]) -> Operation | None:
    """Return the first of the insertions in `members` that compute `value`, each from the result of the one before.

    Return None if no insertion computes it.
    """
    insertion: Operation | None = None
    while isinstance(value.owner, Operation) and value.owner in members:
        operand = destination_operand(value.owner)
        if operand is None:
            break
        insertion, value = value.owner, value.owner.operands[operand]
    return insertion


def _inline_region(region: Operation) -> list[Operation]:
    """Move the operations of a region, without its terminator, before it, erase the region, and return them."""
    block = region.parent
    assert block is not None
    moved = list(region.regions[0].block.ops)
    end = moved.pop()
    for old, new in zip(region.results, end.operands, strict=True):
        old.replace_all_uses_with(new)
    for op in moved:
        op.detach()
        block.insert_op_before(op, region)
    erase_op(region, safe_erase=False)
    return moved


def _replace(old: Operation, new: Operation) -> None:
    """Insert `new`, which is in no block yet, at the position of `old`, replace the results of `old`, and erase it."""
    block = old.parent
    assert block is not None
    set_location(new, old)
    block.insert_op_before(new, old)
    for before, after in zip(old.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    erase_op(old)


def _as_region(op: flow.DispatchWorkgroupsOp) -> flow.DispatchRegionOp:
    """Convert a dispatch of workgroups to a region: loads become slices of the operands, stores insertions into the
    results.
    """
    return _RegionBuilder(op).region()


class _RegionBuilder:
    """Converter of one `flow.dispatch.workgroups` to a `flow.dispatch.region`, whose body has the same operations.

    A load from an argument becomes a slice of the tensor, a store to an argument an insertion into it. `_as_region`
    creates a converter and calls `region` once.

    op: the `flow.dispatch.workgroups`.
    """

    def __init__(self, op: flow.DispatchWorkgroupsOp) -> None:
        """Map the arguments of the body to operands and results; an untied result begins as an empty tensor.

        The body has an argument for each operand, then one for each result that is tied to no operand. For operands
        (%a, %b), results (tied to %b, untied) and the arguments (%0, %1, %2):

            operand_of = {%0: %a, %1: %b}
            current_result = {%1: %b, %2: an empty tensor}
            result_arguments = [%1, %2]
        """
        self.op, self.body = op, op.body.block
        operands = list(op.arguments)
        # Argument of the body → operand of the dispatch; arguments of results follow those of operands.
        self.operand_of: dict[SSAValue, SSAValue] = dict(zip(self.body.args, operands, strict=False))
        self.current_result: dict[SSAValue, SSAValue] = {}  # argument that is a result → tensor after the stores so far
        self.result_arguments: list[SSAValue] = []  # the arguments that are results, in the order of the results
        tied = [-1] * len(op.results)
        if op.tied_operands is not None:
            tied = [int(n) for n in op.tied_operands.get_values()]
        untied_arguments = iter(list(self.body.args)[len(operands) :])  # of the results that are tied to no operand
        dims = iter(op.result_dims)
        for result, tied_operand in zip(op.results, tied, strict=True):
            assert isinstance(result.type, TensorType)
            sizes = [next(dims) for n in result.type.get_shape() if n < 0]  # the dynamic sizes
            if tied_operand >= 0:
                argument, tensor_before = self.body.args[tied_operand], operands[tied_operand]
            else:
                argument, tensor_before = next(untied_arguments), self._empty(result.type, sizes)
            self.current_result[argument] = tensor_before
            self.result_arguments.append(argument)

    def _empty(self, type_: TensorType[Attribute], sizes: list[SSAValue]) -> SSAValue:
        """Insert an empty tensor at the beginning of the body, and return it. sizes: its dynamic sizes."""
        empty = tensor.EmptyOp(sizes, type_)
        set_location(empty, self.op)
        first = self.body.first_op
        assert first is not None
        self.body.insert_op_before(empty, first)
        return empty.tensor

    def region(self) -> flow.DispatchRegionOp:
        """Convert the dispatch, and return the region that replaces it.

        `flow.dispatch.workgroups(%a) -> tensor<4xf32> = (%0, %1) { %x = load %0; %y = exp %x; store %y, %1; return }`
        becomes `flow.dispatch.region -> tensor<4xf32> { %y = exp %a; flow.return %y }`.
        """
        # The operations of the body on tensors instead of bindings.
        op, body = self.op, self.body
        views = [inner for inner in body.ops if inner.name in (*ALIASES, *LOADS, *STORES)]
        for inner in views:
            self._lower_access(inner)
        end = body.last_op
        assert end is not None
        # The stores have become insertions. `current_result` has the tensor after the last insertion into each result.
        _replace(end, flow.ReturnOp(operands=[[self.current_result[a] for a in self.result_arguments]]))
        # The arguments: those of scalars are replaced by their operands. No operation uses the others any more.
        # `strict=False`: the body has further arguments, for results.
        for argument, operand in zip(list(body.args), op.arguments, strict=False):
            if not isinstance(argument.type, iree_tensor_ext.DispatchTensorType):
                argument.replace_all_uses_with(operand)
        for inner in reversed(views):
            erase_op(inner, safe_erase=False)
        for argument in reversed(list(body.args)):
            body.erase_arg(argument, safe_erase=False)
        # The region, with the body and the grid of the dispatch.
        regions = [op.body, op.count]
        for detached in regions:
            op.detach_region(detached)
        region = flow.DispatchRegionOp(
            operands=[list(op.workload), list(op.result_dims)], result_types=[[r.type for r in op.results]],
            regions=regions,
        )  # fmt: skip
        _replace(op, region)
        return region

    def _lower_access(self, inner: Operation) -> None:
        """Replace a load or store of a binding by an operation on tensors, or an alias of a scalar by the scalar.

        - `%x = load %0[2] [4] [1]` becomes a slice of the tensor that is passed for argument %0.
        - `store %y, %1[2] [4] [1]` becomes an insertion into the current tensor of result %1.
        - The uses of a size of the workload, such as the result of `flow.dispatch.workload.ordinal`, are replaced by
          its operand.

        The caller erases `inner`. Raises CompileError for a store to an argument that is no result.
        """
        # The accessed argument may have an alias, such as %2 = flow.dispatch.tie_shape %1: `base_of` returns %1.
        if inner.name in STORES:
            target = base_of(inner.operands[1])
            if target not in self.current_result:
                raise CompileError("a tensor is stored that is no result of the dispatch", location_of(inner))
            self.current_result[target] = _store(inner, self.current_result[target])
        elif inner.name in LOADS:
            source = base_of(inner.operands[0])
            is_result = source in self.current_result  # a result may be read, too: its elements after the stores so far
            _load(inner, self.current_result[source] if is_result else self.operand_of[source])
        elif not isinstance(inner.results[0].type, iree_tensor_ext.DispatchTensorType):  # a scalar, no binding
            inner.results[0].replace_all_uses_with(inner.operands[0])


def _load(op: Operation, source: SSAValue) -> None:
    """Replace the uses of a load by the slice of the tensor `source` that it reads, or by all of `source`.

    The load itself is left without uses.
    """
    block = op.parent
    assert block is not None
    slice_ = slice_of(op)
    if _is_whole(slice_, source, list(cast(iree_tensor_ext.DispatchTensorLoadOp, op).source_dims)):
        op.results[0].replace_all_uses_with(source)
        return
    new = tensor.ExtractSliceOp.build(
        operands=[source, *_dynamic(slice_)], result_types=[op.results[0].type], properties=_static(slice_)
    )
    set_location(new, op)
    block.insert_op_before(new, op)
    op.results[0].replace_all_uses_with(new.results[0])


def _store(op: Operation, target: SSAValue) -> SSAValue:
    """Return the contents of `target` after a store: the stored value if it covers `target`, else an insertion."""
    block = op.parent
    assert block is not None
    slice_, value = slice_of(op), op.operands[0]
    is_whole = _is_whole(slice_, target, list(cast(iree_tensor_ext.DispatchTensorStoreOp, op).target_dims))
    if is_whole and value.type == target.type:
        return value
    new = tensor.InsertSliceOp.build(
        operands=[value, target, *_dynamic(slice_)], result_types=[target.type], properties=_static(slice_)
    )
    set_location(new, op)
    block.insert_op_before(new, op)
    return new.results[0]


def _is_whole(slice_: Slice, value: SSAValue, dims: list[SSAValue]) -> bool:
    """Return whether a slice covers all of the tensor `value`, whose dynamic sizes are `dims`."""
    assert isinstance(value.type, TensorType)
    dynamic_sizes = iter(dims)
    sizes = [n if n >= 0 else next(dynamic_sizes, None) for n in value.type.get_shape()]
    begins_at_zero = all(offset == 0 for offset in slice_.offsets)
    is_contiguous = all(stride == 1 for stride in slice_.strides)
    return begins_at_zero and is_contiguous and sizes == list(slice_.sizes)


def _dynamic(slice_: Slice) -> list[list[SSAValue]]:
    """Return the dynamic offsets, sizes and strides of a slice, as the operand lists of an operation."""
    return [[v for v in row if isinstance(v, SSAValue)] for row in slice_.components]


def _static(slice_: Slice) -> dict[str, DenseArrayBase]:
    """Return the properties static_offsets, static_sizes and static_strides, which mark values as dynamic."""
    names = ("static_offsets", "static_sizes", "static_strides")
    return {
        name: DenseArrayBase.from_list(i64, [DYNAMIC_INDEX if isinstance(v, SSAValue) else v for v in row])
        for name, row in zip(names, slice_.components, strict=True)
    }
