"""Frame of a kernel function: loads of its scalar arguments, bindings of its tensors, and its grid function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IndexType, IntegerAttr, MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from pydispatch.compiler.analysis.in_place import updated_arguments
from pydispatch.compiler.kernel_ir.kernel import Binding, Layout
from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.tensor_ops.in_kernels import RULES
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.dialects.hal import dialect as hal

Grid = Callable[[Elements, Builder], Index]
"""Emitter of the number of workgroups, computed from the dynamic sizes of a dispatch function."""


@dataclass(frozen=True)
class Kernel:
    """Generated kernel, with the interface, grid, constants and tiles that its executable declares.

    Attributes:
        function: Its function in kernel IR.
        layout: Interface of the function: the number of push constants, and the bindings.
        count: Region that computes the grid, the number of workgroups, from the dynamic sizes.
        globals: Constants of the module that the function loads from.
        tiles: For each binding, the size of a tile in bytes: workgroup i accesses only tile i. 0 for a binding of which
            a workgroup may access any byte. Empty if unknown.
    """

    function: func.FuncOp
    layout: Layout
    count: Region
    globals: tuple[Operation, ...] = field(default=())
    tiles: tuple[int, ...] = ()


def sizes_of(source: func.FuncOp) -> list[BlockArgument]:
    """Return the arguments of a dispatch function that are its workload: the sizes that its grid depends on.

    They are the last arguments: as many as the attribute `sizes` states, else all index arguments at the end.
    """
    count = source.attributes.get("sizes")
    if isinstance(count, IntegerAttr):
        arguments = list(source.body.block.args)
        return arguments[len(arguments) - count.value.data :]
    sizes: list[BlockArgument] = []
    for argument in reversed(source.body.block.args):
        if not isinstance(argument.type, IndexType):
            break
        sizes.insert(0, argument)
    return sizes


class Frame:
    """A kernel under construction: its entry block, the bindings of its tensors, and its scalar arguments.

    Attributes:
        source: The dispatch function.
        backend: Properties of the target.
        block, build: The entry block, and its builder.
        elements: Emits elements of the tensors.
        returned: The results: tensors that the dispatch function returns.
        results: For each result, the buffer that the kernel writes.
        updated: For each result, the position of the argument that it updates in place; None for a new tensor.
        tensors: The tensor arguments.
        buffers: Buffers of the tensor arguments, then of the results that are not updated arguments.
        words: Push constants of 32 bits that scalar arguments take.
        bindings: Access to each of `buffers`, in their order; set by `bind`.
    """

    def __init__(self, source: func.FuncOp, backend: Backend, reassociate: bool = True) -> None:
        """Begin the kernel of `source`, with loads of its scalar arguments. Buffers are created later, by `bind`.

        Raises CompileError if the dispatch function does not end with a return. `reassociate` is whether sums of floats
        may be reassociated. For the other parameters, see the class.
        """
        self.source, self.backend = source, backend
        self.block = Block()
        self.build = Builder(self.block, source)
        self.elements = Elements(source, self.build, RULES, reassociate)
        self.results: list[SSAValue] = []  # for each result, the buffer that the kernel writes; filled by `bind`
        terminator = source.body.block.last_op
        if not isinstance(terminator, func.ReturnOp):
            raise CompileError("a dispatch function returns its results", location_of(source))
        self.returned: list[SSAValue] = list(terminator.operands)  # tensors that the dispatch function returns
        self.tensors = [a for a in source.body.block.args if isinstance(a.type, TensorType)]
        self.words = 0  # push constants of 32 bits that scalars have taken
        self._load_scalars()
        # For each result, the position of the argument that it updates in place, or None.
        self.updated = updated_arguments(source)
        self.buffers: list[SSAValue] = []  # of the tensor arguments, then of the results that are not updated arguments

    @property
    def updates_arguments(self) -> bool:
        """Whether a result updates an argument in place."""
        return any(argument is not None for argument in self.updated)

    def _load_scalars(self) -> None:
        """Emit loads of the scalar arguments from the push constants. Each takes one or more 32-bit words."""
        for argument in self.source.body.block.args:
            if isinstance(argument.type, TensorType):
                continue
            load = hal.InterfaceConstantLoadOp(
                result_types=[argument.type], properties={"ordinal": IntegerAttr(self.words, IndexType())}
            )
            value = self.build.add(load)
            if isinstance(argument.type, IndexType):
                self.build.assume_not_negative(value)
            self.elements.scalars[argument] = value
            self.words += words_of(argument.type, location_of(self.source))

    def bind(self, flat: Index | None = None) -> None:
        """Emit the buffers of all arguments and results, and register them.

        A function of x and y that updates x in place, and also returns a new z, has three bindings: x, which is
        written, y, which is read only, and z.

        `flat` is the number of elements if all tensors are bound as one dimension; None to bind them in their shapes.
        """
        self.elements.flat = flat
        arguments = self.source.body.block.args
        written_tensors = {self.tensors.index(arguments[position]) for position in self.updated if position is not None}
        # The tensor arguments have the first bindings, the results that are new tensors those after them.
        for binding, argument in enumerate(self.tensors):
            buffer = self._subspan(binding, argument, read_only=binding not in written_tensors)
            self.buffers.append(buffer)
            self.elements.materialize(argument, buffer)
        for value, position in zip(self.returned, self.updated, strict=True):
            if position is not None:  # the result updates this argument in place, and is written into its buffer
                self.results.append(self.buffers[self.tensors.index(arguments[position])])
            else:
                buffer = self._subspan(len(self.buffers), value, read_only=False)
                self.results.append(buffer)
                self.buffers.append(buffer)
        # Only the bindings of arguments that no result updates are read only.
        self.bindings = tuple(
            Binding(read_only=binding < len(self.tensors) and binding not in written_tensors)
            for binding in range(len(self.buffers))
        )

    def _subspan(self, binding: int, value: SSAValue, read_only: bool) -> SSAValue:
        """Emit the memref of binding number `binding`, with the shape and element type of the tensor `value`."""
        sizes = self.elements.dims(value)
        shape = [s if isinstance(s, int) else DYNAMIC_INDEX for s in sizes]
        type_: MemRefType[Attribute] = MemRefType(tensor_type(value).element_type, shape)
        dynamic_sizes = [s for s in sizes if isinstance(s, SSAValue)]
        byte_offset = self.build.index(0)
        return self.build.add(
            hal.InterfaceBindingSubspanOp(
                operands=[[byte_offset], dynamic_sizes],
                result_types=[type_],
                properties={
                    "binding": IntegerAttr(binding, IndexType()),
                    "flags": ArrayAttr([StringAttr("ReadOnly")] if read_only else []),
                },
            )
        )

    def workgroup(self) -> SSAValue:
        """Emit the number of the workgroup in its grid of one dimension, and return it."""
        op = hal.InterfaceWorkgroupIDOp(
            result_types=[IndexType()], properties={"dimension": IntegerAttr(0, IndexType())}
        )
        return self.build.add(op)

    def finish(self, workgroups: Grid | None, tiles: tuple[int, ...] = ()) -> Kernel:
        """Complete the function, and return its kernel.

        `workgroups` emits the number of workgroups; None for one workgroup. `tiles` has the bytes of a workgroup in
        each binding, see `Kernel.tiles`.
        """
        self.build.add(func.ReturnOp())
        no_arguments: list[Attribute] = []  # tensors and scalars are bindings and push constants
        function = func.FuncOp(self.source.sym_name.data, (no_arguments, []), Region(self.block))
        set_location(function, self.source)
        count = count_region(self.source, workgroups, self.elements)
        layout = Layout(self.words, self.bindings)
        return Kernel(function, layout, count, globals=tuple(self.elements.globals), tiles=tiles)


def count_region(source: func.FuncOp, grid: Grid | None, kernel_elements: Elements | None = None) -> Region:
    """Return the region that computes the grid: `(%device, %sizes...) -> grid, 1, 1`.

    Args:
        source: The dispatch function.
        grid: Emits the number of workgroups, called with the tensors and the builder of the region; None for one
            workgroup.
        kernel_elements: The tensors of the kernel. If the kernel accesses them as one dimension, `grid` gets tensors of
            one dimension, too. None for tensors in their own shapes.
    """
    sizes = sizes_of(source)
    block = Block(arg_types=[hal.DeviceType(), *(IndexType() for _ in sizes)])
    build = Builder(block, source)
    elements = Elements(source, build, RULES)
    for size, argument in zip(sizes, block.args[1:], strict=True):
        elements.scalars[size] = argument
        build.assume_not_negative(argument)
    is_flat = kernel_elements is not None and kernel_elements.flat is not None
    if is_flat:  # the kernel accesses all tensors as one dimension, with as many elements as the first result
        assert isinstance(source.body.block.last_op, func.ReturnOp)
        elements.flat = build.product(elements.dims(source.body.block.last_op.operands[0]))
    workgroups = build.value(1 if grid is None else grid(elements, build))
    one = build.index(1)
    build.add(hal.ReturnOp(operands=[[workgroups, one, one]]))
    return Region(block)
