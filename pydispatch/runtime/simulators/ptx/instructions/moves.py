"""PTX mov, cvta, isspacep, activemask and clocks. A handler returns a closure `step(regs)`, which runs the instruction
for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an
array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction, Operand, Register, Vector
from pydispatch.runtime.simulators.ptx.addresses import ALL_ADDRESS_BITS
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of, is_type
from pydispatch.runtime.simulators.ptx.memory import LOCAL, PARAM, SHARED, WINDOW
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.specials import CLOCKS, clock, is_special
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, WARP_LANES


@handles("mov")
def mov(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Simulate `mov`: copy a register or immediate, read a special register such as %tid.x, or pack and unpack a
    vector (`mov.b64 %rd, {%r1, %r2}` and the reverse).
    """
    if len(instruction.modifiers) != 1 or not is_type(instruction.modifiers[0]):
        builder.fail(instruction)
    d, x = builder.operands(instruction, 2)
    dtype = BOOL if instruction.modifiers[0] == "pred" else UNSIGNED[SIZES[instruction.modifiers[0]]]
    if isinstance(d, Vector) or isinstance(x, Vector):
        return _pack(builder, instruction, d, x, dtype)
    if isinstance(x, Register) and builder.storage(x.name) is None:  # not declared, as special registers are
        return _special(builder, instruction, d, x.name)
    target, source = builder.bind(instruction, dtype, dtype)

    def copy_source(regs: list[Any]) -> None:
        """Copy the source to the register, for each thread."""
        regs[target][...] = regs[source]

    return copy_source


def _special(builder: FunctionBuilder, instruction: Instruction, operand: Operand | None, name: str) -> Step:
    """Build the closure of a move from a special register, such as %tid.x or %clock.

    A clock is read each time that the instruction runs; other values are constant for a frame, the threads that run
    together, and have a slot in `regs` that is computed once.
    """
    if not is_special(name):
        builder.fail(instruction, f"reads {name}, which is not declared")
    size = builder.register_size(operand) or 4  # 4: for the operand `_`, which drops the value
    target = builder.target(instruction, operand, UNSIGNED[size])
    if name in CLOCKS:

        def tick(regs: list[Any]) -> None:
            """Store the current count of the clock `name`, the same for all threads."""
            regs[target][...] = clock(name)

        return tick
    source = builder.special(name, UNSIGNED[size])

    def copy_special(regs: list[Any]) -> None:
        """Copy the value of the special register, for each thread."""
        regs[target][...] = regs[source]

    return copy_special


def _element_type(
    builder: FunctionBuilder, instruction: Instruction, dtype: np.dtype[Any], count: int
) -> np.dtype[Any]:
    """Return the unsigned type of each of the `count` elements that a register of type `dtype` is split into.

    Raise ArtifactError if the register has no elements of such a size.
    """
    element_dtype = UNSIGNED.get(dtype.itemsize // count) if count else None
    if element_dtype is None or dtype.itemsize % count:
        builder.fail(instruction)
    return element_dtype


def _pack(
    builder: FunctionBuilder, instruction: Instruction, d: Operand | None, x: Operand | None, dtype: np.dtype[Any]
) -> Step:
    """Build the closure of a move that packs a vector into a register, or unpacks a register into a vector.

    d, x: target and source, of which exactly one must be a vector. dtype: type of the register.
    """
    if isinstance(x, Vector) and not isinstance(d, Vector):
        return _pack_vector(builder, instruction, d, x, dtype)
    if not isinstance(d, Vector) or isinstance(x, Vector):
        builder.fail(instruction)
    return _unpack_register(builder, instruction, d, x, dtype)


def _pack_vector(
    builder: FunctionBuilder, instruction: Instruction, d: Operand | None, x: Vector, dtype: np.dtype[Any]
) -> Step:
    """Build the closure of `mov d, {x0, x1, ...}`, which joins the values into the register d of type `dtype`."""
    count = len(x.items)
    part_dtype = _element_type(builder, instruction, dtype, count)
    sources = [builder.source(instruction, element, part_dtype) for element in x.items]
    target = builder.target(instruction, d, dtype)

    def pack(regs: list[Any]) -> None:
        """Join `count` values, in the slots `sources`, into the register `target`; the first is the lowest part."""
        elements = np.empty((regs[FRAME_SLOT].n, count), part_dtype)
        for k, source in enumerate(sources):
            elements[:, k] = regs[source]
        regs[target][...] = elements.view(dtype)[:, 0]

    return pack


def _unpack_register(
    builder: FunctionBuilder, instruction: Instruction, d: Vector, x: Operand | None, dtype: np.dtype[Any]
) -> Step:
    """Build the closure of `mov {d0, d1, ...}, x`, which divides the register x of type `dtype`, lowest part first."""
    count = len(d.items)
    element_dtype = _element_type(builder, instruction, dtype, count)
    source = builder.source(instruction, x, dtype)
    targets = [
        (k, builder.target(instruction, element, element_dtype))
        for k, element in enumerate(d.items)
        if element is not None  # None: `_` in the text, which drops the element
    ]

    def unpack(regs: list[Any]) -> None:
        """Split a register into `count` elements. Store those that `targets` lists: (index of the element, slot)."""
        # A copy: the source may be a register that is written here.
        elements = np.broadcast_to(regs[source], regs[FRAME_SLOT].n).copy().view(element_dtype).reshape(-1, count)
        for k, target in targets:
            regs[target][...] = elements[:, k]

    return unpack


_BASES = {"shared": SHARED, "shared::cta": SHARED, "local": LOCAL}
"""State space → the generic address of its byte 0. Addresses of all other spaces are generic themselves."""


@handles("cvta")
def cvta(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build a conversion between addresses of a state space and generic addresses.

    Shared and local addresses are offsets; their generic addresses are in a window that begins at a base: cvta.shared
    of 8 is SHARED + 8. Addresses of the global, const and param spaces are already generic.
    """
    words = [m for m in instruction.modifiers[:-1] if m != "to"]
    if len(words) != 1 or words[0] not in (*_BASES, "global", "const", "param", "param::entry"):
        builder.fail(instruction)
    dtype = dtype_of(instruction.modifiers[-1])
    p, a = builder.bind(instruction, dtype, dtype)
    base = _BASES.get(words[0], 0)
    if dtype.itemsize != 8 and base:
        builder.fail(instruction, "has a generic address of 32 bits")
    # cvta.to subtracts the base: it adds the two's complement.
    distance = np.uint64((-base if "to" in instruction.modifiers else base) & ALL_ADDRESS_BITS)

    def convert_address(regs: list[Any]) -> None:
        """Convert the address of each thread to the other state space: add the distance of both, modulo 2^64."""
        np.add(regs[a], distance, out=regs[p])

    def copy(regs: list[Any]) -> None:
        """Copy the addresses, which are the same in both spaces."""
        regs[p][...] = regs[a]

    return convert_address if base else copy


@handles("isspacep")
def isspacep(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of isspacep, which tests whether a generic address is in a state space."""
    result_slot, address_slot = builder.bind(instruction, BOOL, "u64")
    space = instruction.modifiers[0] if len(instruction.modifiers) == 1 else ""
    windows = {"shared": SHARED, "shared::cta": SHARED, "local": LOCAL, "param": PARAM, "param::entry": PARAM}
    if space not in (*windows, "global", "const"):
        builder.fail(instruction)

    def test_space(regs: list[Any]) -> None:
        """Store whether each thread's address is in the state space `space`.

        Shared and local memory and parameters have a window of generic addresses, from windows[space] on.
        """
        if space in windows:
            # Each of these spaces is a range of generic addresses.
            base, addresses = windows[space], regs[address_slot]
            regs[result_slot][...] = (addresses >= np.uint64(base)) & (addresses < np.uint64(base + WINDOW))
            return
        # Global and constant memory consist of allocations; each distinct address is looked up once.
        frame = regs[FRAME_SLOT]
        addresses = np.broadcast_to(regs[address_slot], frame.n)
        is_in_space = {}
        for address in np.unique(addresses):
            allocation = frame.batch.memory.find(int(address))
            is_in_space[int(address)] = allocation is not None and allocation.kind == space
        regs[result_slot][...] = [is_in_space[int(address)] for address in addresses]

    return test_space


@handles("activemask")
def activemask(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of activemask, which returns a mask of the lanes of the warp that execute it together."""
    if instruction.modifiers != ("b32",):
        builder.fail(instruction)
    target = builder.target(instruction, builder.operands(instruction, 1)[0], "u32")

    def store_active_mask(regs: list[Any]) -> None:
        """Store the mask of the lanes of each thread's warp that execute the instruction."""
        frame = regs[FRAME_SLOT]
        lanes = frame.batch.lane_numbers()[frame.threads]
        is_executing = np.zeros(frame.batch.warps * WARP_LANES, bool)
        is_executing[lanes] = True
        # 32 bools of a warp become one word, the lowest bit first.
        mask_of_warp = np.packbits(is_executing, bitorder="little").view("<u4")
        regs[target][...] = mask_of_warp[lanes >> LANE_BITS]

    return store_active_mask
