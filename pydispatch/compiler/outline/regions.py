"""Outlining of `flow.dispatch.region` and `flow.dispatch.workgroups` into executables and `flow.dispatch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, memref, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.analysis.destinations import base_of
from pydispatch.compiler.analysis.in_place import GRID
from pydispatch.compiler.outline.outlined_kernel import OutlinedKernel
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import iree_tensor_ext, stream
from pydispatch.ir.dialects.flow import dialect as flow

DISPATCHES = ("flow.dispatch.region", "flow.dispatch.workgroups")
"""Operations that hold the code of a dispatch in a region."""


def is_handwritten(op: Operation) -> bool:
    """Return whether a dispatch is composed of slices, microkernels and scalar code. computed_regions.py inlines other
    dispatches, or marks them with GRID.
    """
    return op.name in DISPATCHES and GRID not in op.attributes


def outline_regions(module: ModuleOp, functions: Sequence[tuple[str, Operation]]) -> None:
    """Outline the hand-written dispatches of `functions` (name, operation) in place; each executable is inserted before
    its function. Raises CompileError for an unsupported body.
    """
    for name, function in functions:
        for index, op in enumerate([op for op in walk(function) if is_handwritten(op)]):
            kind = RegionKernel if isinstance(op, flow.DispatchRegionOp) else WorkgroupsKernel
            executable = kind(op, f"{name}_region_{index}").outline()
            module.body.block.insert_op_before(executable, function)
        # An empty tensor that a result overwrote is no operand of the dispatch: erase it.
        for op in list(walk(function)):
            if op.name == "tensor.empty" and not list(op.results[0].uses):
                erase_op(op)


class RegionKernel(OutlinedKernel):
    """Builder that moves the body of one `flow.dispatch.region` into an executable.

    The body uses values of the host function directly; they become bindings and constants of the kernel. The
    constructor has the parameters of `OutlinedKernel`.
    """

    def __init__(self, op: Operation, name: str) -> None:
        """Begin a kernel `name` without arguments for the region `op`, and collect the blocks inside."""
        super().__init__(op, name)
        self.region = cast(flow.DispatchRegionOp, op)
        self.arguments: list[SSAValue] = []  # operands of the dispatch, for each of which the kernel has an argument
        self.argument_dims: list[SSAValue] = []  # dynamic sizes of all tensors in `arguments`, values of the host
        self.memref_of_read: dict[SSAValue, SSAValue] = {}  # tensor of the host that the body reads → its binding
        self.memref_of_result: dict[SSAValue, SSAValue] = {}  # tensor that a result overwrites → the result's binding
        # Blocks of the region.
        self.inside = {self.region.body.block} | {
            block for inner in walk(self.region.body) for r in inner.regions for block in r.blocks
        }

    def is_outer(self, value: SSAValue) -> bool:
        """Return whether a value is defined outside of the region."""
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        return block not in self.inside

    def scalar(self, value: SSAValue) -> SSAValue:
        """Return the value of the kernel for a scalar; one from outside becomes a copied constant or an argument."""
        if value not in self.mapping and self.is_outer(value):
            if isinstance(value.owner, arith.ConstantOp):
                self.mapping[value] = self.at_head(value.owner.clone())
            else:
                self.mapping[value] = self._argument(value, value.type)
        return super().scalar(value)

    def _argument(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Add an operand to the dispatch, and return its kernel argument. Arguments of results come after it."""
        self.arguments.append(value)
        argument = self.kernel.insert_arg(type_, len(self.arguments) - 1)
        argument.name_hint = value.name_hint
        return argument

    def host_dims(self, value: SSAValue) -> list[SSAValue]:
        """Return the dynamic sizes of a tensor of the host function, as values of the host function."""
        assert isinstance(value.type, TensorType)
        if isinstance(value.owner, Operation) and value.owner.name in ("tensor.empty", "flow.tensor.empty"):
            return list(value.owner.operands)
        return [self._host_dim(value, axis) for axis, n in enumerate(value.type.get_shape()) if n < 0]

    def _host_dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the size in dimension `axis` of a tensor of the host function, as a value of the host function.

        A `tensor.dim` before the region is reused; otherwise a new one is inserted there.
        """
        block = self.op.parent
        assert block is not None
        for use in value.uses:
            user = use.operation
            if isinstance(user, tensor.DimOp) and user.parent is block and user.is_before_in_block(self.op):
                constant = user.index.owner
                if isinstance(constant, arith.ConstantOp) and constant.value == IntegerAttr(axis, IndexType()):
                    return user.result
        constant = arith.ConstantOp.from_int_and_width(axis, IndexType())
        dim_op = tensor.DimOp(value, constant.result)
        for op in (constant, dim_op):
            set_location(op, self.op)
            block.insert_op_before(op, self.op)
        return dim_op.result

    def outer_dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the dynamic size in dimension `axis` of a tensor of the host, as a value of the kernel."""
        assert isinstance(value.type, TensorType)
        dynamic = [i for i, n in enumerate(value.type.get_shape()) if n < 0]
        return self.scalar(self.host_dims(value)[dynamic.index(axis)])

    def target(self, op: Operation) -> SSAValue:
        """Raise CompileError: a `flow.dispatch.region` has no loads and stores of bindings."""
        raise self.error(f"'{op.name}' belongs into flow.dispatch.workgroups")

    def binding_to_read(self, value: SSAValue) -> SSAValue:
        """Return the memref by which the kernel reads a tensor of the host function; it has its old contents.

        The first call for a tensor adds it to the operands of the dispatch, and its binding to the kernel's arguments.
        """
        if value not in self.memref_of_read:
            assert isinstance(value.type, TensorType)
            binding = self._argument(value, stream.BindingType())
            dims = self.host_dims(value)
            self.argument_dims += dims
            self.memref_of_read[value] = self.at_head(self.subspan(binding, value.type, [self.scalar(d) for d in dims]))
        return self.memref_of_read[value]

    def binding_to_write(self, value: SSAValue) -> SSAValue:
        """Return the memref whose memory holds a tensor that the body overwrites.

        It is the binding of the result that overwrites the tensor. A `tensor.empty` of the body that is not returned
        has memory of the workgroup. Raises CompileError for other tensors.
        """
        if value not in self.memref_of_result:
            if isinstance(value.owner, Operation) and value.owner.name == "tensor.empty" and not self.is_outer(value):
                return self._scratch(value)
            raise self.error(
                "a tensor is written that the dispatch does not return",
                "return it, or write into a slice of a tensor that is returned",
            )
        return self.memref_of_result[value]

    def _scratch(self, value: SSAValue) -> SSAValue:
        """Emit an alloca, memory of one workgroup, for a tensor that is no result of the dispatch; return its memref.

        Raises CompileError for a dynamic size.
        """
        assert isinstance(value.type, TensorType)
        if any(n < 0 for n in value.type.get_shape()):
            raise self.error(
                "a tensor of unknown size does not leave the dispatch",
                "kernels have no allocator: give it a fixed size",
            )
        alloca = memref.AllocaOp.get(value.type.element_type, shape=value.type.get_shape())
        self.memref_of_result[value] = self.at_head(alloca)
        return self.memref_of_result[value]

    def build(self) -> flow.DispatchOp:
        """Translate the region to the kernel, and return a dispatch of it. `outline` adds workload and entry points.

        A result is tied to the operand that it overwrites; other results get bindings after those of the arguments.

        Raises:
            CompileError: Results share a tensor, differ from the declared types, or are slices.
        """
        block = self.region.body.block
        end = block.last_op
        assert end is not None
        roots = [base_of(v) for v in end.operands]  # for each result the tensor that it overwrites, or itself
        tied = self._emit_result_memrefs(end, roots)  # for each result the operand that it overwrites, or -1
        self.translate(list(block.ops)[:-1])  # without the terminator
        for value, root in zip(end.operands, roots, strict=True):
            # A result that overwrites no tensor is an empty tensor, a tensor of the host, or a slice.
            overwrites_tensor = value is not root
            if not overwrites_tensor and not self._is_empty(root) and not self.is_outer(root):
                self.source = end  # the operation that the error names
                raise self.error("a slice cannot be returned as it is", "insert it into a tensor.empty first")
        properties = {"tied_operands": DenseArrayBase.from_list(i64, tied)} if any(t >= 0 for t in tied) else {}
        no_workload: list[SSAValue] = []
        return flow.DispatchOp(
            operands=[no_workload, self.arguments, self.argument_dims, list(self.region.result_dims)],
            result_types=[[r.type for r in self.region.results]],
            properties={"entry_points": ArrayAttr([]), **properties},
        )

    def _emit_result_memrefs(self, end: Operation, roots: Sequence[SSAValue]) -> list[int]:
        """Emit the memrefs of the results; return, for each, the index of the operand that it overwrites, or -1.

        A result overwrites an operand if it is computed by insertions into a tensor of the host, or by microkernels
        that have it in `outs`. It then has the binding of this operand. For a region that returns

            %0 = tensor.insert_slice %x into %a[...] ...   // %a: a tensor of the host
            %1 = tensor.insert_slice %y into %e[...] ...   // %e: a tensor.empty

        the result is [0, -1], with %a as operand 0. Each -1 stands for a new tensor, with a binding of its own.

        Args:
            end: Terminator of the region.
            roots: For each of its operands, the tensor that the result overwrites: %a and %e.

        Raises:
            CompileError: Results share a tensor, or differ from the declared types.
        """
        # The results that overwrite an operand.
        tied: list[int] = []
        for index, (root, value) in enumerate(zip(roots, end.operands, strict=True)):
            self.source = end
            if root in roots[:index]:
                raise self.error(f"results {roots.index(root)} and {index} are the same tensor overwritten")
            if value.type != self.region.results[index].type:
                raise self.error(f"result {index} is {value.type}, declared is {self.region.results[index].type}")
            tied.append(self._tie(root))
        # The others. All of their bindings are added before any is used, as the last arguments of the kernel: operands
        # that are found later are inserted before them.
        new_results = [i for i, operand in enumerate(tied) if operand < 0]
        for new_index in range(len(new_results)):
            self.kernel.insert_arg(stream.BindingType(), len(self.arguments) + new_index)
        dims = iter(self.region.result_dims)
        dynamic_sizes = [[next(dims) for n in _shape(r) if n < 0] for r in self.region.results]
        for new_index, index in enumerate(new_results):
            self._emit_result_memref(roots[index], new_index, dynamic_sizes[index])
        return tied

    def _is_empty(self, value: SSAValue) -> bool:
        """Return whether an operation that creates an empty tensor computes the value."""
        return isinstance(value.owner, Operation) and value.owner.name in ("tensor.empty", "flow.tensor.empty")

    def _tie(self, root: SSAValue) -> int:
        """Add the tensor `root` that a result overwrites as an operand of the dispatch, and return the operand's index.

        Return -1 if the result is a new tensor: `root` is empty, or created in the body.
        """
        if self._is_empty(root) or not self.is_outer(root):
            return -1
        assert isinstance(root.type, TensorType)
        operand_index = len(self.arguments)
        binding = self._argument(root, stream.BindingType())
        dims = self.host_dims(root)
        self.argument_dims += dims
        self.memref_of_result[root] = self.at_head(self.subspan(binding, root.type, [self.scalar(d) for d in dims]))
        return operand_index

    def _emit_result_memref(self, root: SSAValue, new_index: int, dims: Sequence[SSAValue]) -> None:
        """Emit the memref of a result that overwrites no tensor of the host, and record it in `memref_of_result`.

        Args:
            root: The tensor that the result overwrites, an empty one or one that the body creates. Its elements are
                stored in the memref.
            new_index: Index of the result among those that are new tensors.
            dims: Dynamic sizes of the result, values of the host function.
        """
        assert isinstance(root.type, TensorType)
        sizes = [self.scalar(d) for d in dims]
        binding = self.kernel.args[len(self.arguments) + new_index]
        self.memref_of_result[root] = self.at_head(self.subspan(binding, root.type, sizes))


def _shape(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a tensor; () for a scalar."""
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()


class WorkgroupsKernel(OutlinedKernel):
    """Builder that moves the body of one `flow.dispatch.workgroups` into an executable.

    The body has arguments of its own, which are of type `!iree_tensor_ext.dispatch.tensor` for tensors: one for each
    operand, then one for each result that overwrites no operand. It reads and writes them by loads and stores. The
    kernel has the same arguments, with a binding for each of these tensors. The kernel of

        %r = flow.dispatch.workgroups(%a, %n) : (tensor<8xf32>, index) -> tensor<8xf32> =
            (%in: !iree_tensor_ext.dispatch.tensor<readonly:tensor<8xf32>>, %size: index,
             %out: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<8xf32>>) { ... }

    is `func.func @f_region_0(%in: !stream.binding, %size: index, %out: !stream.binding)`.
    """

    def is_outer(self, value: SSAValue) -> bool:
        """Return False: the body reads values of the host through its arguments only."""
        return False

    def build(self) -> flow.DispatchOp:
        """Translate the body into the kernel, and return a dispatch of it. `outline` adds workload and entry points.

        Each argument of the body becomes one of the kernel: a tensor becomes a binding, and a scalar stays. Raises
        CompileError unless the body has an argument for each operand, and for each result that is tied to no operand.
        """
        op = cast(flow.DispatchWorkgroupsOp, self.op)
        for argument in op.body.block.args:
            is_tensor = isinstance(argument.type, iree_tensor_ext.DispatchTensorType)
            kernel_type = stream.BindingType() if is_tensor else argument.type
            kernel_argument = self.kernel.insert_arg(kernel_type, len(self.kernel.args))
            kernel_argument.name_hint = argument.name_hint
            self.mapping[argument] = kernel_argument
        # Tied results have no argument of their own.
        tied_count = 0 if op.tied_operands is None else sum(1 for n in op.tied_operands.get_values() if int(n) >= 0)
        expected = len(op.arguments) + len(op.results) - tied_count
        if len(self.kernel.args) != expected:
            raise self.error(
                f"the kernel takes {len(self.kernel.args)} arguments, the dispatch has {expected} operands and results",
                "operands come first, then one !iree_tensor_ext.dispatch.tensor for each result that is not tied",
            )
        self.translate(list(op.body.block.ops)[:-1])  # without the terminator
        no_workload: list[SSAValue] = []
        return flow.DispatchOp(
            operands=[no_workload, list(op.arguments), list(op.argument_dims), list(op.result_dims)],
            result_types=[[r.type for r in op.results]],
            properties={"entry_points": ArrayAttr([]), "tied_operands": op.tied_operands},
        )

    def target(self, op: Operation) -> SSAValue:
        """Emit the subspan of the dispatch tensor that a load or store accesses, and return it."""
        if isinstance(op, iree_tensor_ext.DispatchTensorLoadOp):
            accessed, dims = op.operands[0], op.source_dims
        else:
            accessed, dims = op.operands[1], cast(iree_tensor_ext.DispatchTensorStoreOp, op).target_dims
        argument = base_of(accessed)  # the argument of the body that `accessed` is an alias of, or itself
        type_ = argument.type
        assert isinstance(type_, iree_tensor_ext.DispatchTensorType) and isinstance(type_.bound_type, TensorType)
        binding = self.mapping[argument]
        return self.add(self.subspan(binding, type_.bound_type, [self.scalar(d) for d in dims])).results[0]

    def binding_to_read(self, value: SSAValue) -> SSAValue:
        """Raise CompileError: the body gets tensors as bindings, which only dispatch.tensor.load reads."""
        raise self.error("a tensor is read that is no result of dispatch.tensor.load")

    def binding_to_write(self, value: SSAValue) -> SSAValue:
        """Raise CompileError: only dispatch.tensor.store writes."""
        raise self.error("a tensor is written that is not stored", "store the result with dispatch.tensor.store")

    def outer_dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Raise CompileError: the body uses no tensors of the host (`is_outer`)."""
        raise self.error("the size of this tensor is not known inside the dispatch")
