"""The executable and the dispatch that replace a dispatch region: what regions of both kinds have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.outline.export_config import size_attribute
from pydispatch.compiler.outline.kernel_body import KernelBody
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import stream
from pydispatch.ir.dialects.flow import dialect as flow

IDS = tuple(f"{dialect}.dispatch.workgroup.id" for dialect in ("flow", "stream"))
"""Operations that return the workgroup id, which only a dispatch with a grid may have."""
# Operations by which a count region leaves the choice of the grid to the compiler.
DERIVED_COUNTS = (
    "iree_tensor_ext.dispatch.workgroup_count_from_slice", "iree_tensor_ext.dispatch.workgroup_count_from_dag_root"
)  # fmt: skip


class OutlinedKernel(KernelBody):
    """Base of the builders that move the body of one dispatch region, written by the user, into an executable.

    A caller creates a builder and calls `outline` once. That calls `build`, which subclasses implement, and `count`.
    Both append operations to `block`: `build` to the body of the kernel, `count` to the region of its grid. Results
    that are tied to no operand are the last bindings of the kernel.

    Args:
        op: The region.
        name: Name of the executable, of its export and of the kernel.
    """

    def __init__(self, op: Operation, name: str) -> None:
        """Create a builder with an empty kernel, and with the workload that the region states."""
        super().__init__(Block())
        self.op = op
        self.source = op  # the operation that is being translated, for the locations of new ones
        self.name = name
        self.kernel = self.block  # body of the kernel
        # Values of the host from which the number of workgroups is computed; `count` appends to them.
        self.workload: list[SSAValue] = list(cast(flow.DispatchRegionOp, op).workload)
        self.zero: SSAValue | None = None  # the constant 0 at the head of the kernel; None until it is needed
        self.head: list[Operation] = []  # operations to insert before the body of the kernel

    @abstractmethod
    def build(self) -> flow.DispatchOp:
        """Translate the body into kernel code, and return a dispatch with its operands and results.

        It has neither a workload nor entry points, which `outline` adds.
        """

    @property
    def body(self) -> Block:
        """The block with the operations of the dispatch region."""
        return cast(flow.DispatchRegionOp, self.op).body.block  # DispatchWorkgroupsOp has a `body` of the same kind

    def outline(self) -> stream.ExecutableOp:
        """Replace the operation by a dispatch, and return the executable that it calls.

        A region in the function @f becomes `%r = flow.dispatch @f_region_0::@f_region_0[%n](%a) : ...`, where %n is the
        workload, from which the grid is computed. The executable, its export, whose region computes the grid, and the
        kernel are all named f_region_0.
        """
        # The body of the kernel. `build` appends to `self.block`, and collects in `self.head` the operations that must
        # precede the body, such as the views of its bindings. `draft` only states the operands and results of the
        # dispatch; `dispatch` below, which also has the workload, replaces it.
        draft = self.build()
        self.source = self.op  # location of the operations that are added from here on
        self.add(func.ReturnOp())
        first = self.kernel.first_op
        assert first is not None
        self.kernel.insert_ops_before(self.head, first)
        grid_region = self.count()  # appends the host values that the grid is computed from to `self.workload`
        # The dispatch, which replaces the region. Only now is the workload complete.
        dispatch = flow.DispatchOp(
            operands=[self.workload, draft.arguments, draft.argument_dims, draft.result_dims],
            result_types=[[r.type for r in draft.results]],
            properties={
                "entry_points": ArrayAttr([SymbolRefAttr(self.name, [self.name])]),
                "tied_operands": draft.tied_operands,
            },
        )
        draft.erase()
        set_location(dispatch, self.op)
        block = self.op.parent
        assert block is not None
        block.insert_op_before(dispatch, self.op)
        for old, new in zip(self.op.results, dispatch.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        executable = self._executable(grid_region)
        erase_op(self.op, safe_erase=False)
        return executable

    def _executable(self, count: Region) -> stream.ExecutableOp:
        """Return an executable with the kernel, the declarations of its microkernels, and their objects.

        count: region that computes the number of workgroups from the workload.
        """
        types = [a.type for a in self.kernel.args]
        function = func.FuncOp(self.name, (types, []), Region(self.kernel))
        export = stream.ExecutableExportOp.create(
            properties={"sym_name": StringAttr(self.name), "sym_visibility": StringAttr("public")},
            attributes=size_attribute(self.op),
            regions=[count],
        )
        inner = ModuleOp([*self.microkernels.declarations.values(), function])
        objects = self.microkernels.all_objects()
        executable = stream.ExecutableOp.create(
            properties={"sym_name": StringAttr(self.name), "sym_visibility": StringAttr("private")},
            attributes={} if objects is None else {"hal.executable.objects": objects},
            regions=[Region(Block([export, inner]))],
        )
        for op in (executable, export, inner, function):
            set_location(op, self.op)
        return executable

    def count(self) -> Region:
        """Return the region of the export that computes the number of workgroups in x, y and z from the workload.

        Values of the host that the grid uses are appended to the workload. A dispatch that states no grid has one
        workgroup. Raises CompileError if it reads its workgroup id, or if grid and workload do not fit.
        """
        grid = cast(flow.DispatchRegionOp, self.op).count
        # From here on, operations are added to the region of the grid.
        self.block = Block(arg_types=[IndexType()] * len(self.workload))
        # A region with an operation of DERIVED_COUNTS leaves the choice of the grid to the compiler.
        if not grid.blocks or any(op.name in DERIVED_COUNTS for op in grid.block.ops):
            self._return_one_workgroup()
        else:
            self._copy_grid(grid.block)
        return Region(self.block)

    def _return_one_workgroup(self) -> None:
        """Append the return of 1, 1, 1 to the grid region; raise CompileError if the kernel reads its workgroup id."""
        if any(op.name in IDS for op in walk(self.body)):
            raise CompileError(
                f"'{self.op.name}' asks for its workgroup id but has no grid", location_of(self.op),
                "give it one: count(%size: index) -> (index, index, index) { ... flow.return %x, %y, %z : ... }",
            )  # fmt: skip
        one = self.index(1)
        self.add(stream.ReturnOp(operands=[[one, one, one]]))

    def _copy_grid(self, grid: Block) -> None:
        """Append copies of the operations of `grid`, which the user has written, to the grid region of the export.

        Raises CompileError if `grid` does not have an argument for each value of the workload.
        """
        if len(grid.args) != len(self.workload):
            raise CompileError(
                f"the grid of '{self.op.name}' takes {len(grid.args)} values, its workload has {len(self.workload)}",
                location_of(self.op), "the workload stands in brackets: flow.dispatch.region[%size] -> ...",
            )  # fmt: skip
        mapping: dict[SSAValue, SSAValue] = dict(zip(grid.args, self.block.args, strict=True))
        for op in grid.ops:
            self.source = op
            for value in op.operands:
                if value not in mapping:  # a value of the host: a constant is copied, any other joins the workload
                    mapping[value] = self._host_value_in_grid(value, self.block)
            if op.next_op is None:
                self.add(stream.ReturnOp(operands=[[mapping[v] for v in op.operands]]))
            else:
                copy = op.clone(mapping)
                self.add(copy)
                mapping.update(zip(op.results, copy.results, strict=True))

    def _host_value_in_grid(self, value: SSAValue, block: Block) -> SSAValue:
        """Return a value of the host inside the grid region: a copy of a constant, else an argument for an entry of the
        workload, which is added if necessary. block: the block of the grid region.
        """
        if isinstance(value.owner, arith.ConstantOp):
            return self.add(value.owner.clone()).results[0]
        if value in self.workload:
            return block.args[self.workload.index(value)]
        self.workload.append(value)
        return block.insert_arg(value.type, len(block.args))

    def at_head(self, op: Operation) -> SSAValue:
        """Insert an operation before the body of the kernel, and return its result."""
        set_location(op, self.op)
        self.head.append(op)
        return op.results[0]

    def _zero(self) -> SSAValue:
        """Return the constant 0 of type index at the head of the kernel; it is emitted on first use."""
        if self.zero is None:
            self.zero = self.at_head(arith.ConstantOp.from_int_and_width(0, IndexType()))
        return self.zero

    def subspan(self, binding: SSAValue, type_: TensorType[Attribute], dims: Sequence[SSAValue]) -> Operation:
        """Build an operation that views a whole binding as a memref.

        Args:
            binding: The binding, an argument of the kernel.
            type_: Type of the tensor whose shape and elements the memref has.
            dims: Its dynamic sizes, values of the kernel.
        """
        return stream.BindingSubspanOp(
            operands=[binding, self._zero(), list(dims)],
            result_types=[MemRefType(type_.element_type, type_.get_shape())],
        )
