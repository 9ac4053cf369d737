"""An interpreter of kernel IR: one workgroup after the other, one operation after the other."""

import numpy as np
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, SSAValue

from pydispatch import ir
from pydispatch.errors import CompileError, DeviceUnavailableError
from pydispatch.ir.core.locations import location_of

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "index": np.int64, "i1": np.bool_}
"""Scalar type of the IR -> type of NumPy."""
BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum, "arith.divui": np.floor_divide, "arith.remui": np.remainder,
}  # fmt: skip
"""Operation with two operands -> function of NumPy."""
UNARY = {"arith.negf": np.negative, "math.exp": np.exp}
"""Operation with one operand -> function of NumPy."""


def dtype_of(type: Attribute) -> type:
    """Return the NumPy type of a scalar type of the IR."""
    name = "index" if isinstance(type, IndexType) else str(type)
    if name not in TYPES:
        raise DeviceUnavailableError(f"the toy device has no {name}; it has {', '.join(TYPES)}")
    return TYPES[name]


class Kernel:
    """One export: the function of that name in the text of a variant."""

    def __init__(self, text: str, name: str) -> None:
        """Parse a module of kernel IR, and find the function `name` in it."""
        functions = [op for op in ir.parse(text, name).walk() if op.name == "func.func"]
        (self.body,) = [op.regions[0].block for op in functions if op.sym_name.data == name]

    def run(self, grid: tuple[int, int, int], bindings: list[np.ndarray], constants: np.ndarray) -> None:
        """Run all workgroups, x fastest.

        Args:
            grid: number of workgroups along x, y and z.
            bindings: the memory of each binding, as u8 arrays.
            constants: push constants, as u32 words.
        """
        for z, y, x in np.ndindex(*reversed(grid)):  # the last index is the fastest
            Workgroup((x, y, z), grid, bindings, constants).run(self.body)


class Workgroup:
    """Run of one workgroup. `id` is (x, y, z); `values` has the SSA values that are computed so far.

    A method named after an operation, with "_" for ".", computes it from the values of its operands.
    """

    def __init__(self, id, grid, bindings, constants) -> None:
        """Begin without values. Arguments are those of `Kernel.run`."""
        self.id, self.grid, self.bindings, self.constants = id, grid, bindings, constants
        self.values: dict[SSAValue, object] = {}

    def run(self, block: Block) -> None:
        """Compute the operations of a block in order, and store their results in `values`."""
        for op in block.ops:
            results = self.compute(op, [self.values[v] for v in op.operands])
            if op.results:
                self.values[op.results[0]] = results

    def compute(self, op, operands):
        """Return the result of an operation, of which it has at most one. CompileError for an unknown operation."""
        if op.name in BINARY:
            return BINARY[op.name](*operands)
        if op.name in UNARY:
            return UNARY[op.name](*operands)
        method = getattr(self, op.name.replace(".", "_"), None)
        if method is None:
            raise CompileError(f"the toy device has no operation '{op.name}'", location_of(op))
        return method(op, operands)

    def arith_constant(self, op, operands):
        """Return the value of `arith.constant` as a NumPy scalar of its type."""
        return dtype_of(op.results[0].type)(op.value.value.data)

    def hal_interface_workgroup_id(self, op, operands):
        """Return the index of this workgroup in the dimension that the operation names."""
        return np.int64(self.id[op.dimension.value.data])

    def hal_interface_workgroup_count(self, op, operands):
        """Return the number of workgroups in the dimension that the operation names."""
        return np.int64(self.grid[op.dimension.value.data])

    def hal_interface_constant_load(self, op, operands):
        """Return a push constant; its ordinal is the index of its first word."""
        dtype = np.dtype(dtype_of(op.result.type))
        first = op.ordinal.value.data  # a type of 64 bits takes two words
        return self.constants[first : first + dtype.itemsize // 4].view(dtype)[0]

    def hal_interface_binding_subspan(self, op, operands):
        """Return the memory of a binding from a byte offset on, as an array of the shape of the result."""
        offset, *sizes = (int(n) for n in operands)  # sizes: of the dynamic axes
        type = op.result.type
        assert isinstance(type, MemRefType)
        dtype, dynamic_sizes = np.dtype(dtype_of(type.element_type)), iter(sizes)
        shape = [next(dynamic_sizes) if n < 0 else n for n in type.get_shape()]
        data = self.bindings[op.binding.value.data][offset:]
        return data[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    def memref_load(self, op, operands):
        """Return the element at the indices, which follow the memory among the operands."""
        memory, *indices = operands
        return memory[tuple(indices)]

    def memref_store(self, op, operands):
        """Write a value, the first operand, to an element of memory."""
        value, memory, *indices = operands
        memory[tuple(indices)] = value

    def scf_parallel(self, op, operands):
        """Run the body for all points, one after another. Operands: all lower bounds, upper bounds, then steps."""
        rank = len(op.lowerBound)
        bounds = zip(operands[:rank], operands[rank : 2 * rank], operands[2 * rank : 3 * rank], strict=True)
        ranges = [range(low, high, step) for low, high, step in bounds]
        for point in np.ndindex(*(len(r) for r in ranges)):
            for argument, r, n in zip(op.body.block.args, ranges, point, strict=True):
                self.values[argument] = np.int64(r[n])
            self.run(op.body.block)

    def scf_reduce(self, op, operands):
        """The end of a parallel loop without reductions."""

    def func_return(self, op, operands):
        """The end of a kernel."""
