"""An interpreter of kernel IR: one workgroup after the other, one operation after the other."""

import numpy as np
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Block, SSAValue

from pydispatch import ir
from pydispatch.errors import CompileError, DeviceUnavailableError
from pydispatch.ir.core.locations import location_of

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "index": np.int64, "i1": np.bool_}
BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum, "arith.divui": np.floor_divide, "arith.remui": np.remainder,
}  # fmt: skip
UNARY = {"arith.negf": np.negative, "math.exp": np.exp}


def dtype_of(type: Attribute) -> type:
    name = "index" if isinstance(type, IndexType) else str(type)
    if name not in TYPES:
        raise DeviceUnavailableError(f"the toy device has no {name}; it has {', '.join(TYPES)}")
    return TYPES[name]


class Kernel:
    """One export, read from the text of a variant."""

    def __init__(self, text: str, name: str) -> None:
        functions = [op for op in ir.parse(text, name).walk() if op.name == "func.func"]
        (self.body,) = [op.regions[0].block for op in functions if op.sym_name.data == name]

    def run(self, grid: tuple[int, int, int], bindings: list[np.ndarray], constants: np.ndarray) -> None:
        """bindings: bytes. constants: words of 32 bits."""
        for z, y, x in np.ndindex(*reversed(grid)):
            Workgroup((x, y, z), grid, bindings, constants).run(self.body)


class Workgroup:
    """The values of one workgroup."""

    def __init__(self, id, grid, bindings, constants) -> None:
        self.id, self.grid, self.bindings, self.constants = id, grid, bindings, constants
        self.values: dict[SSAValue, object] = {}

    def run(self, block: Block) -> None:
        for op in block.ops:
            results = self.compute(op, [self.values[v] for v in op.operands])
            if op.results:
                self.values[op.results[0]] = results

    def compute(self, op, operands):
        if op.name in BINARY:
            return BINARY[op.name](*operands)
        if op.name in UNARY:
            return UNARY[op.name](*operands)
        method = getattr(self, op.name.replace(".", "_"), None)
        if method is None:
            raise CompileError(f"the toy device has no operation '{op.name}'", location_of(op))
        return method(op, operands)

    def arith_constant(self, op, operands):
        return dtype_of(op.results[0].type)(op.value.value.data)

    def hal_interface_workgroup_id(self, op, operands):
        return np.int64(self.id[op.dimension.value.data])

    def hal_interface_workgroup_count(self, op, operands):
        return np.int64(self.grid[op.dimension.value.data])

    def hal_interface_constant_load(self, op, operands):
        dtype = np.dtype(dtype_of(op.result.type))
        first = op.ordinal.value.data
        return self.constants[first : first + dtype.itemsize // 4].view(dtype)[0]

    def hal_interface_binding_subspan(self, op, operands):
        offset, *sizes = (int(n) for n in operands)
        type = op.result.type
        assert isinstance(type, MemRefType)
        dtype, rest = np.dtype(dtype_of(type.element_type)), iter(sizes)
        shape = [next(rest) if n < 0 else n for n in type.get_shape()]
        whole = self.bindings[op.binding.value.data][offset:]
        return whole[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    def memref_load(self, op, operands):
        memory, *indices = operands
        return memory[tuple(indices)]

    def memref_store(self, op, operands):
        value, memory, *indices = operands
        memory[tuple(indices)] = value

    def scf_parallel(self, op, operands):
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
