"""PTX loads, stores and fences. A handler returns a closure `step(regs)`, which runs the instruction for all threads of
a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an array with an
element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame. `memory_operand` returns a function
`resolve(regs)` of an address operand: it returns a `MemoryAccess` for each allocation that the threads access, with the
threads and their byte offsets in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Address, Instruction, Operand, PtxSymbol
from pydispatch.runtime.simulators.ptx.addresses import MemoryOperand, memory_operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Special, Step, items
from pydispatch.runtime.simulators.ptx.elements import SIGNED, UNSIGNED, is_type
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.memory import LOCAL, SHARED
from pydispatch.runtime.simulators.ptx.registry import handles, nothing

_WORDS = frozenset((
    "weak", "volatile", "relaxed", "acquire", "release", "mmio", "cta", "gpu", "sys", "cluster", "global", "const",
    "shared", "shared::cta", "local", "param", "param::entry", "param::func", "nc", "ca", "cg", "cs", "lu", "cv", "wb",
    "wt", "unified", "v2", "v4", "v8",
))  # fmt: skip
"""Modifiers other than the type and cache hints: order, scope, state space, cache operator, length of a vector."""


def _checked_type(builder: FunctionBuilder, instruction: Instruction) -> str:
    """Return the type of an instruction, its last modifier, after checking that the other modifiers are known.

    Cache hints, such as .L1::no_allocate, are accepted without effect.
    """
    if not instruction.modifiers or not is_type(instruction.modifiers[-1]):
        builder.fail(instruction, "has no type that is known")
    for word in instruction.modifiers[:-1]:
        if not word.startswith(("L1::", "L2::", "level::")):
            builder.require_modifiers(instruction, _WORDS, [word])
    return instruction.modifiers[-1]


def _elements(
    builder: FunctionBuilder, instruction: Instruction, operand: Operand | None
) -> tuple[Operand | None, ...]:
    """Return the registers of an operand: those of a vector `{a, b}`, or the only one.

    Raise ArtifactError unless they are as many as a modifier (.v2, .v4 or .v8) states, or one without it.
    """
    elements = items(operand)
    stated = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    if len(elements) != stated:
        builder.fail(instruction, f"has {len(elements)} registers, expected {stated}")
    return elements


def _dtype(type_: str) -> np.dtype[Any]:
    """Return the NumPy type as which values of a PTX type are loaded: an integer of its size, also for floats.

    It is signed for signed types only, because these are sign-extended into wider registers.
    """
    return (SIGNED if type_.startswith("s") else UNSIGNED)[SIZES[type_]]


@handles("ld", "ldu")
def load(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of ld, such as `ld.global.v2.u32 {d0, d1}, [a+8]`: load one or more consecutive elements.

    A parameter that is named, such as [n+4], is copied from its slot, its index in the list that closures receive;
    other memory is read by address. A signed element is extended by its sign to a wider register.
    """
    type_ = _checked_type(builder, instruction)
    destination, source = builder.operands(instruction, 2, most=3)[:2]  # the third is a cache policy, without effect
    dtype = _dtype(type_)
    elements = _elements(builder, instruction, destination)
    slots = [builder.target(instruction, register, dtype, widen=True) for register in elements]
    if any(m.startswith("param") for m in instruction.modifiers) and isinstance(source, Address):
        direct = _parameter(builder, instruction, source, dtype, len(slots))
        if direct is not None:
            return _copy(direct, slots)
    # Read by address: `resolve` returns an access for each allocation, with its threads and their byte offsets.
    size = dtype.itemsize
    resolve = memory_operand(builder, instruction, source, size * len(slots), write=False)
    log2_size = size.bit_length() - 1
    if len(slots) == 1:
        return _load_scalar(resolve, dtype, slots[0])

    def load_vector(regs: list[Any]) -> None:
        """Load consecutive elements of each thread's address into the registers of `slots`."""
        for access in resolve(regs):
            elements, index = access.memory.views[dtype], access.offsets >> log2_size
            for k, target in enumerate(slots):
                access.assign_threads(regs[target], elements[index + k])

    return load_vector


def _load_scalar(resolve: MemoryOperand, dtype: np.dtype[Any], slot: int) -> Step:
    """Return the closure that loads one element for each thread, the most frequent access.

    resolve: returns an access for each allocation, with its threads and their byte offsets. slot: of the register,
    which may be wider than the element.
    """
    log2_size = dtype.itemsize.bit_length() - 1

    def load_scalar(regs: list[Any]) -> None:
        """Load an element of type `dtype` for each thread into the register `slot`.

        A byte offset, shifted right by `log2_size`, is the index of an element.
        """
        accesses = resolve(regs)
        if len(accesses) == 1:  # all threads access the same allocation
            _, memory, offsets = accesses[0]
            index = offsets >> log2_size if log2_size else offsets
            target = regs[slot]
            if target.dtype == dtype:
                # "wrap": bounds are already checked, and this mode skips NumPy's check.
                memory.views[dtype].take(index, out=target, mode="wrap")
            else:  # a wider register: the element is extended
                target[...] = memory.views[dtype][index]
            return
        for access in accesses:
            access.assign_threads(regs[slot], access.memory.views[dtype][access.offsets >> log2_size])

    return load_scalar


def _parameter(
    builder: FunctionBuilder, instruction: Instruction, source: Address, dtype: np.dtype[Any], count: int
) -> list[int] | None:
    """Return the slots of `count` values at an address that names a parameter: `[n+4]`, but not `[%rd1]`.

    A slot is the index of an operand in the list that closures receive.

    A parameter of the kernel has slots of special values, which a launch provides. A parameter of another function, or
    a `.param` variable for the arguments of a call, has slots that are views of its bytes.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        source: The address.
        dtype: Type of a value.
        count: Number of values, which are consecutive from the address on.

    Returns:
        The slots; None if the address is in a register.
    """
    if not isinstance(source.base, PtxSymbol):
        return None
    name, offset = source.base.name, source.base.offset + source.offset
    storage = builder.storage(name)
    if storage is not None:  # a parameter of a function, or a variable for the arguments of a call
        return _views_of_bytes(builder, instruction, storage, offset, dtype, count)
    # A parameter of the kernel, whose value is known at launch. Its symbol, named "param", has the offset of the
    # parameter in the memory of parameters; "parameter" is the special value at an offset in it.
    symbol = builder.symbols.get(name)
    if not isinstance(symbol, Special) or symbol.name != "param":
        builder.fail(instruction, f"names '{name}', no parameter of this function")
    byte_offset = symbol.offset + offset
    return [builder.special("parameter", dtype, byte_offset + k * dtype.itemsize) for k in range(count)]


def _views_of_bytes(
    builder: FunctionBuilder, instruction: Instruction, storage: int, offset: int, dtype: np.dtype[Any], count: int
) -> list[int]:
    """Return the slots of `count` consecutive values of type `dtype` in a parameter, from byte `offset` on.

    `ld.param.v2.u32` of `[args+8]` gets the views of bytes 8 to 11 and 12 to 15 of `args`.

    storage: index of the parameter or `.param` variable in `builder.storages`.
    """
    parameter = builder.storages[storage]
    # `count` is the size of a `.param` variable, whose dtype is a byte; it is 0 for a parameter that is declared as a
    # register (.reg), which has the size of its dtype.
    size = max(parameter.count, parameter.dtype.itemsize)
    if offset < 0 or offset + count * dtype.itemsize > size:
        builder.fail(instruction, f"leaves '{parameter.name}', which has {size} bytes")
    slots = [builder.view(storage, dtype, offset + k * dtype.itemsize) for k in range(count)]
    builder.reads.update(slots)
    return slots


def _copy(sources: list[int], slots: list[int]) -> Step:
    """Build the closure that copies each of some registers, given by slot, to the one of `slots` at the same index."""

    def copy_registers(regs: list[Any]) -> None:
        """Copy the source registers of all threads to the target slots, in order."""
        for source, slot in zip(sources, slots, strict=True):
            regs[slot][...] = regs[source]

    return copy_registers


@handles("st")
def store_(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of st, such as `st.global.v2.u32 [a+8], {b, c}`.

    A `.param` variable (an argument or result of a call) has no address here: its bytes are in slots like a register,
    to which the values are copied. All other memory is written by address.
    """
    type_ = _checked_type(builder, instruction)
    target, value = builder.operands(instruction, 2, most=3)[:2]  # the third is a cache policy, without effect
    dtype = UNSIGNED[SIZES[type_]]
    registers = _elements(builder, instruction, value)
    sources = [builder.source(instruction, register, dtype) for register in registers]
    if any(m in ("param", "param::func") for m in instruction.modifiers) and isinstance(target, Address):
        return _copy(sources, _parameter_targets(builder, instruction, target, dtype, len(sources)))
    # Fails if the target is no Address.
    resolve = memory_operand(builder, instruction, target, dtype.itemsize * len(sources), write=True)
    log2_size = dtype.itemsize.bit_length() - 1

    def store_elements(regs: list[Any]) -> None:
        """Store the values of each thread, in the slots `sources`, in consecutive elements of type `dtype`.

        A byte offset, shifted right by `log2_size`, is the index of an element.
        """
        for access in resolve(regs):  # one for each allocation, with the threads that access it
            elements, index = access.memory.views[dtype], access.offsets >> log2_size
            for k, source in enumerate(sources):
                value = regs[source]  # has no dimension if it holds for all threads, such as a constant
                # Element k is k after the one at the address. For k = 0 the addition of arrays is omitted.
                elements[index + k if k else index] = access.select_threads(value) if value.ndim else value

    return store_elements


def _parameter_targets(
    builder: FunctionBuilder, instruction: Instruction, target: Address, dtype: np.dtype[Any], count: int
) -> list[int]:
    """Return the slots of `count` consecutive elements of the `.param` variable at an address, which are written."""
    storage = builder.storage(target.base.name) if isinstance(target.base, PtxSymbol) else None
    if storage is None or not isinstance(target.base, PtxSymbol):
        builder.fail(instruction, "names no .param variable of this function")
    size, offset = builder.storages[storage].count, target.base.offset + target.offset
    if offset < 0 or offset + count * dtype.itemsize > size:
        builder.fail(instruction, f"leaves '{target.base.name}', which has {size} bytes")
    slots = [builder.view(storage, dtype, offset + k * dtype.itemsize) for k in range(count)]
    builder.writes.update(slots)
    builder.reads.update(slots)  # only a part is written, so that the variable's earlier bytes stay live
    return slots


@handles("createpolicy")
def policy(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure that creates a cache policy, a number that only cache hints use: it is 0."""
    destination, *_ = builder.operands(instruction, 1, most=4)
    target = builder.target(instruction, destination, "b64")

    def store_policy(regs: list[Any]) -> None:
        """Store 0 as the cache policy of each thread: any number will do, since cache hints have no effect here."""
        regs[target][...] = 0

    return store_policy


@handles(
    "prefetch", "prefetchu", "membar", "fence", "applypriority", "discard", "nanosleep", "pmevent", "griddepcontrol",
    "setmaxnreg",
)  # fmt: skip
def hint(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of a fence or a hint. It does nothing, because every access here takes effect at once.

    Only the race detector needs to know of fences: of those that order accesses of different blocks (.gl, .gpu and
    .sys, but not .cta).
    """
    is_wider_than_block = any(m in ("gl", "sys", "gpu") for m in instruction.modifiers)
    if instruction.opcode not in ("membar", "fence") or not is_wider_than_block:
        return nothing

    def report_fence(regs: list[Any]) -> None:
        """Report the fence to the race detector, if there is one."""
        races = regs[FRAME_SLOT].batch.races
        if races is not None:
            races.fence(regs[FRAME_SLOT])

    return report_fence


def read_bytes(frame: Frame, position: int, address: int, size: int) -> bytes | None:
    """Return the bytes that a thread of a frame reads at a generic address; None if not all are in one allocation.

    position: of the thread in the frame, whose shared and local memory is read.
    """
    batch = frame.batch
    if LOCAL <= address <= LOCAL + batch.local_stride - size:
        start = int(frame.threads[position]) * batch.local_stride + address - LOCAL
        return batch.local.data[start : start + size].tobytes()
    if SHARED <= address <= SHARED + batch.launch.shared_bytes - size:
        start = int(frame.shared_bases()[position]) + address - SHARED
        return batch.shared.data[start : start + size].tobytes()
    allocation = batch.memory.find(address)
    if allocation is None or address + size > allocation.end:
        return None
    return allocation.data[address - allocation.start : address - allocation.start + size].tobytes()
