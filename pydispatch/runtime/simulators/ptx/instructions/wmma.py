"""PTX wmma: D = A * B + C of matrices that the 32 lanes of a warp hold in fragments, a share of the elements in each
lane's registers. PTX leaves the layout of fragments open. Here lane l holds the elements l * c to l * c + c - 1 of the
matrix, row by row. Where an instruction has more registers than the elements need (f16), the elements are repeated. A
frame has the threads that run the instruction; `regs[slot]` is a register or another operand of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Address, Instruction, Operand
from pydispatch.runtime.simulators.ptx.addresses import ADDRESS_BYTES, AddressResolver, plus_offset, space_of
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step, items
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.mma import (
    MatrixTypes,
    ProductOperands,
    accumulator_types,
    accumulators,
    elements,
    packed_registers,
    product,
    warps_of,
    words_of,
)
from pydispatch.runtime.simulators.ptx.memory import MemoryAccess
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.threads import LANE_MASK, WARP_LANES

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
"""Shape of a product, such as "m16n16k16": rows of A, columns of B, and the inner dimension."""
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f64": 8, "f32": 4, "s32": 4}
"""PTX type → bytes of an element."""
_SHAPES = {
    "f16": ("m16n16k16", "m8n32k16", "m32n8k16"), "bf16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "s8": ("m16n16k16", "m8n32k16", "m32n8k16"), "u8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
}  # fmt: skip
"""Type of A and B → shapes of products that the PTX manual lists for it."""
_F16_FACTOR_REGISTERS = 8
"""Registers of a fragment of A or B in f16, in every shape. The elements of a fragment fill 2, 4 or 8 of them."""
_LAYOUTS = ("row", "col")
"""Modifiers that state the order of the elements of a matrix in memory."""
_MEMORY_WORDS = ("sync", "aligned", *_LAYOUTS, "global", "shared", "shared::cta")
"""Modifiers of load and store other than the operation, the matrix, the shape and the type."""
_PRODUCT_WORDS = ("sync", "aligned", *_LAYOUTS, "satfinite", "rn")
"""Modifiers of mma other than the operation, the shape and types."""


def _shape_and_types(
    builder: FunctionBuilder, instruction: Instruction, modifiers: Sequence[str], others: Sequence[str]
) -> tuple[tuple[int, int, int], list[str]]:
    """Return the shape (m, n, k) and the types of a wmma instruction.

    For load and store there is one type, that of the matrix. For mma there are the types of D, A, B and C or, for f16,
    of D and C only. ("row", "col", "m16n16k16", "f32", "f16") without the layouts in `others` gives ((16, 16, 16),
    ["f32", "f16"]).

    Args:
        builder: Builder of the function that contains the instruction.
        instruction: The instruction.
        modifiers: Its modifiers after the operation, and for load and store after the matrix.
        others: The modifiers that it may have besides the shape and the types.
    """
    words = [m for m in modifiers if m not in others]
    shape = _SHAPE.fullmatch(words[0]) if words else None
    if shape is None or any(type_ not in _BYTES for type_ in words[1:]) or len(words) < 2:
        builder.fail(instruction)
    return (int(shape[1]), int(shape[2]), int(shape[3])), words[1:]


def _register_count(type_: str, element_count: int, is_factor: bool) -> int:
    """Return the number of registers of a fragment, 64-bit ones for f64, else 32-bit ones.

    Args:
        type_: PTX type of the elements.
        element_count: Elements of a fragment.
        is_factor: Whether the matrix is A or B.
    """
    if is_factor and type_ == "f16":
        return _F16_FACTOR_REGISTERS
    return element_count * _BYTES[type_] // (8 if type_ == "f64" else 4)


def _size(operand: str, shape: tuple[int, int, int]) -> tuple[int, int]:
    """Return the rows and columns of matrix a, b, c or d of the product d = a * b + c with the shape (m, n, k)."""
    m, n, k = shape
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[operand]


class _MatrixInMemory:
    """Matrix in memory, of which each lane loads or stores a fragment: `count` elements.

    Args:
        builder: Builder of the function that contains the instruction.
        instruction: wmma.load or wmma.store, whose modifiers state the matrix, its layout, shape and type.
        address: Operand with the address of the first element.
        stride: Operand with the distance of two rows (of two columns of a column-major matrix) in elements; None if
            they are adjacent.
        write: Whether the instruction is a store.

    Attributes:
        is_factor: Whether the matrix is A or B.
        rows, columns: Size of the matrix in elements.
        type: PTX type of its elements.
        count: Elements of a fragment.
        dtype: Unsigned integer with the size of an element.
        register: Unsigned integer with the size of a register.
    """

    def __init__(
        self,
        builder: FunctionBuilder,
        instruction: Instruction,
        address: Operand | None,
        stride: Operand | None,
        write: bool,
    ) -> None:
        """Compile the operands of wmma.load or wmma.store. For the parameters, see the class."""
        # Read the modifiers, as of wmma.load.a.sync.aligned.row.m16n16k16.f16: "a", and those that follow it.
        matrix, modifiers = instruction.modifiers[1], instruction.modifiers[2:]
        layouts = [m for m in modifiers if m in _LAYOUTS]
        matrices = ("d",) if write else ("a", "b", "c")
        if matrix not in matrices or len(layouts) != 1:
            builder.fail(instruction)
        shape, types = _shape_and_types(builder, instruction, modifiers, _MEMORY_WORDS)
        self.is_factor = matrix in ("a", "b")
        self.rows, self.columns = _size(matrix, shape)
        self.type = types[0]
        self.count = self.rows * self.columns // WARP_LANES  # elements of a lane
        self.dtype, self.register = UNSIGNED[_BYTES[self.type]], UNSIGNED[8 if self.type == "f64" else 4]
        self._is_row_major = layouts == ["row"]
        if not isinstance(address, Address) or address.base is None:
            builder.fail(instruction, "has no [address] where one is expected")
        # Find the slots of the base address, which may have 32 bits, and of the stride.
        size = builder.register_size(address.base) or ADDRESS_BYTES
        self._base, self._offset = builder.source(instruction, address.base, f"u{8 * size}"), address.offset
        packed_stride = self.columns if self._is_row_major else self.rows
        if stride is not None:
            self._stride = builder.source(instruction, stride, "u32")
        else:
            self._stride = builder.constant(np.uint32(packed_stride))
        self._element_bytes = _BYTES[self.type]
        # strong=False: it is no atomic, volatile or ordered access.
        self._resolver = AddressResolver(instruction, space_of(instruction), self._element_bytes, write, strong=False)

    def check_register_count(self, builder: FunctionBuilder, instruction: Instruction, count: int) -> None:
        """Fail unless the instruction has as many registers as a fragment."""
        expected = _register_count(self.type, self.count, self.is_factor)
        if count != expected:
            builder.fail(instruction, f"has {count} registers, expected {expected}")

    def resolve(self, regs: list[Any], element: int) -> list[MemoryAccess]:
        """Return the accesses of all threads to element number `element` of their fragments.

        Lane l has the elements count * l to count * (l + 1) - 1 of the matrix, in row-major order. With 16 columns and
        8 elements in a fragment, element 2 of lane 3 is number 26 of the matrix: row 1, column 10.
        """
        frame: Frame = regs[FRAME_SLOT]
        lane = frame.batch.lane_numbers()[frame.threads] & LANE_MASK
        row, column = np.divmod(lane * self.count + element, self.columns)
        stride = np.broadcast_to(regs[self._stride], frame.n).astype(np.int64)
        index = row * stride + column if self._is_row_major else column * stride + row
        offset = index * self._element_bytes + self._offset
        base = np.broadcast_to(regs[self._base], frame.n)
        if self._resolver.space == "shared":
            return [
                self._resolver.resolve_window(frame, positions=None, offsets=plus_offset(base, offset), shared=True)
            ]
        # Seen as unsigned, a negative offset is subtracted, since the sum wraps at 64 bits.
        return self._resolver.resolve(frame, base.astype(np.uint64) + offset.view(np.uint64))


@handles("wmma")
def wmma(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of wmma.load, wmma.store or wmma.mma."""
    kind = instruction.modifiers[:1]
    if kind == ("load",):
        return _load(builder, instruction)
    if kind == ("store",):
        return _store(builder, instruction)
    if kind != ("mma",):
        builder.fail(instruction)
    return _mma(builder, instruction)


def _load(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `wmma.load.a {d0, d1, ...}, [address], stride`: each lane loads its elements of a matrix.

    These are its fragment, `count` elements that are neighbours in row-major order: of the 256 elements of a 16x16
    matrix, lane l loads the elements 8 l to 8 l + 7, half a row. They fill the registers in order, lowest bits first.
    """
    operands = builder.operands(instruction, 2, most=3)
    matrix = _MatrixInMemory(builder, instruction, operands[1], operands[2] if len(operands) > 2 else None, write=False)
    slots = [builder.target(instruction, operand, matrix.register) for operand in items(operands[0])]
    matrix.check_register_count(builder, instruction, len(slots))
    dtype, log2_size = matrix.dtype, matrix.dtype.itemsize.bit_length() - 1  # of an element

    def load_fragments(regs: list[Any]) -> None:
        """Load the fragments of all lanes, one element of each after the other, then copy them to the slots `slots`."""
        warps_of(instruction, regs[FRAME_SLOT])  # a fault unless whole warps load
        fragments = np.empty((regs[FRAME_SLOT].n, matrix.count), dtype)
        for element in range(matrix.count):
            for access in matrix.resolve(regs, element):  # one for each allocation that threads access
                values = access.memory.views[dtype][access.offsets >> log2_size]
                access.assign_threads(fragments[:, element], values)
        words = fragments.view(matrix.register)
        for k, slot in enumerate(slots):  # slots after those that the elements fill repeat them
            regs[slot][...] = words[:, k % words.shape[1]]

    return load_fragments


def _store(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `wmma.store.d [address], {a0, a1, ...}, stride`: each lane stores its elements of a matrix.

    These are its fragment, `count` elements that are neighbours in row-major order: of the 256 elements of a 16x16
    matrix, lane l stores the elements 8 l to 8 l + 7. They fill the registers in order, lowest bits first.
    """
    operands = builder.operands(instruction, 2, most=3)
    matrix = _MatrixInMemory(builder, instruction, operands[0], operands[2] if len(operands) > 2 else None, write=True)
    slots = [builder.source(instruction, operand, matrix.register) for operand in items(operands[1])]
    matrix.check_register_count(builder, instruction, len(slots))
    dtype, log2_size = matrix.dtype, matrix.dtype.itemsize.bit_length() - 1  # of an element

    def store_fragments(regs: list[Any]) -> None:
        """Store the fragments of all lanes, whose words are in `slots`: one element of each after the other."""
        warps_of(instruction, regs[FRAME_SLOT])  # a fault unless whole warps store
        n = regs[FRAME_SLOT].n
        fragments = np.stack([np.broadcast_to(regs[slot], n) for slot in slots], axis=1).view(dtype)
        for element in range(matrix.count):
            for access in matrix.resolve(regs, element):  # one for each allocation that threads access
                index = access.offsets >> log2_size
                access.memory.views[dtype][index] = access.select_threads(fragments[:, element])

    return store_fragments


@dataclass(frozen=True)
class _FragmentProduct:
    """A wmma.mma instruction: D = A * B + C of matrices in fragments.

    Lane l of a warp holds `count` neighbouring elements of each matrix in row-major order, from element l * count on.
    So the elements of its 32 lanes, one lane after the other, are the matrix: a reshape assembles or divides it.

    `_mma` creates it; its `step` is the closure of the instruction.

    Attributes:
        instruction: The instruction, for faults.
        m, n, k: Size of the product: A is [m, k], B [k, n], C and D are [m, n].
        operands: Registers of the fragments.
    """

    instruction: Instruction
    m: int
    n: int
    k: int
    operands: ProductOperands

    def step(self, regs: list[Any]) -> None:
        """Multiply the matrices of each warp, and add the accumulators."""
        operands, types = self.operands, self.operands.types
        positions = warps_of(self.instruction, regs[FRAME_SLOT])  # in the frame, of the threads by [warps, 32 lanes]
        # Assemble the matrices, [warps, rows, columns], from the elements of the lanes.
        a = elements(words_of(regs, operands.a, positions), types.a).reshape(-1, self.m, self.k)
        b = elements(words_of(regs, operands.b, positions), types.b).reshape(-1, self.k, self.n)
        c = accumulators(words_of(regs, operands.c, positions), types.c).reshape(-1, self.m, self.n)
        sums = operands.clamped(product(a, b, c, types.a))
        # Divide the elements of D among the lanes, and pack them into registers.
        fragments = np.ascontiguousarray(sums).reshape(positions.shape[0], WARP_LANES, -1)
        packed = packed_registers(fragments, types.d)
        for element, slot in enumerate(operands.d):
            regs[slot][positions] = packed[:, :, element]


def _product_shape_and_types(
    builder: FunctionBuilder, instruction: Instruction
) -> tuple[tuple[int, int, int], MatrixTypes]:
    """Return the shape (m, n, k) and the types of wmma.mma; fail for a product that the PTX manual does not list."""
    (m, n, k), words = _shape_and_types(builder, instruction, instruction.modifiers[1:], _PRODUCT_WORDS)
    if len(words) not in (2, 4):
        builder.fail(instruction)
    # Two types are those of D and C, and A and B are f16.
    types = MatrixTypes(*words) if len(words) == 4 else MatrixTypes(words[0], "f16", "f16", words[-1])
    if f"m{m}n{n}k{k}" not in _SHAPES.get(types.a, ()) or _BYTES[types.a] != _BYTES[types.b]:
        builder.fail(instruction)
    if (types.d, types.c) not in accumulator_types(types.a):
        builder.fail(instruction, f"has no accumulators of {types.d} and {types.c} for {types.a}")
    return (m, n, k), types


def _mma(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of wmma.mma: D = A * B + C of matrices in fragments, such as wmma.load has loaded.

    Examples are wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32, whose types are those of D and C, with A and B in f16,
    and wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32, which names the types of D, A, B and C. The layouts of A
    and B (row, col) have no effect here: fragments are in row-major order, whatever layout they were loaded from.
    """
    (m, n, k), types = _product_shape_and_types(builder, instruction)
    # The registers: each lane has an equal share of the elements of each matrix.
    register = UNSIGNED[8 if types.a == "f64" else 4]
    registers = [items(operand) for operand in builder.operands(instruction, 4)]
    d_elements = c_elements = m * n // WARP_LANES  # of one lane
    a_elements, b_elements = m * k // WARP_LANES, k * n // WARP_LANES
    expected_counts = (
        _register_count(types.d, d_elements, is_factor=False),
        _register_count(types.a, a_elements, is_factor=True),
        _register_count(types.b, b_elements, is_factor=True),
        _register_count(types.c, c_elements, is_factor=False),
    )
    counts = tuple(map(len, registers))
    if counts != expected_counts:
        builder.fail(instruction, f"has {counts} registers, expected {expected_counts}")
    d_registers, *source_registers = registers
    per_register = register.itemsize // _BYTES[types.a]
    # The slots of A, B and C, which are read, and of D, which is written.
    a, b, c = (builder.sources(instruction, register, registers) for registers in source_registers)
    # Fragments in f16 may have more registers than their elements need: those after the first copy repeat it.
    a, b = a[: a_elements // per_register], b[: b_elements // per_register]
    d = [builder.target(instruction, operand, register) for operand in d_registers]
    saturates = "satfinite" in instruction.modifiers
    if saturates and types.d != "s32":  # for floats it would replace infinities and NaN
        builder.fail(instruction, "has '.satfinite', which is simulated for integers only")
    return _FragmentProduct(instruction, m, n, k, ProductOperands(types, d, a, b, c, saturates)).step
