"""PTX atom and red: one thread updates memory after the other. A handler returns a closure `step(regs)`, which runs the
instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an
operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
`memory_operand` returns a function `resolve(regs)` of an address operand: it returns a `MemoryAccess` for each
allocation that the threads access, with the threads and their byte offsets in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction, Operand, Vector
from pydispatch.runtime.simulators.ptx.addresses import MemoryOperand, memory_operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED, dtype_of
from pydispatch.runtime.simulators.ptx.instructions.small import bits16, from_bf16, joined, parts_of
from pydispatch.runtime.simulators.ptx.registry import handles

_WORDS = {
    "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster", "global", "shared", "shared::cta",
    "noftz",
}  # fmt: skip
"""Modifiers of memory order, scope, state space and subnormals, which are accepted in any order."""
_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip
"""Operation, a modifier of atom and red → function (old value, operand) of the new value."""
Update = Callable[[Any, list[Any]], Any]
"""Function (old values of elements, operands) → new values of the elements, one per thread. No two threads of a call
update the same element.
"""


class AtomicOperation(NamedTuple):
    """Operation of atom and red on elements of memory.

    Attributes:
        dtype: Type of an element.
        update: Function (old values of elements, list of operands) → their new values, arrays with one element per
            thread. No two threads of a call update the same element.
        associative_ufunc: The operation as a ufunc of two values, which NumPy applies repeatedly to one element; None
            if there is none.
    """

    dtype: np.dtype[Any]
    update: Update
    associative_ufunc: np.ufunc | None


def _half_add(type_: str) -> Update:
    """Return the update that adds f16 or bf16 numbers, rounded after each sum.

    An update is a function of the old values of elements, one per thread, and a list of the threads' operands. It
    returns elements of the dtype of the old ones: float16 for f16; else unsigned integers that have the bits of the
    sums, uint16 for bf16 and uint32 for the packed pairs f16x2 and bf16x2.
    For f16x2 the old bits 0x3C00_4000, the pair (2.0, 1.0) with the low half first, and the operand 0x3C00_3C00 give
    0x4000_4200, the pair (3.0, 2.0).

    type_: f16, bf16, f16x2 or bf16x2.
    """
    is_bf16, is_packed = type_.startswith("bf16"), type_.endswith("x2")

    def add_halves(old: Any, value: Any) -> Any:
        """Add f16 numbers, or bf16 numbers if `is_bf16`, in f32, and return the rounded sums in the dtype of `old`."""
        if is_bf16:
            return bits16(from_bf16(old) + from_bf16(value), "bf16")
        total = old.view(np.float16).astype(np.float32) + value.view(np.float16).astype(np.float32)
        # bits16() returns uint16. A view keeps its bits, where a conversion to float16 would keep its integer value.
        return bits16(total.astype(np.float16), "f16").view(old.dtype)

    def update(old: Any, operands: list[Any]) -> Any:
        """Return the new elements: one 16-bit sum, or, if `is_packed`, the sums of both 16-bit halves in 32 bits."""
        if not is_packed:
            return add_halves(old, operands[0])
        # "f16x2" also for bf16x2: it splits the words without a conversion, so that view() returns the original bits.
        pairs = zip(parts_of(old, "f16x2"), parts_of(operands[0], "f16x2"), strict=True)
        return joined(*(add_halves(a.view(np.uint16), c.view(np.uint16)) for a, c in pairs))

    return update


def _update(builder: FunctionBuilder, instruction: Instruction, operation: str, type_: str) -> Update:
    """Return the function that computes the new value of an atomic operation from the old value and the operands.

    The function is called as update(old, operands): the elements in memory, and the list of the values of b (and c for
    cas), each an array with an element per thread.

    operation: "add", "cas", ... type_: the PTX type of an element, such as "u32" or "f16x2".
    """
    if operation == "exch":
        return lambda old, operands: operands[0]
    if operation == "cas":
        return lambda old, operands: np.where(old == operands[0], operands[1], old)
    if operation == "inc":  # counts from 0 to the operand, then from 0 again; dec counts down
        return lambda old, operands: np.where(old >= operands[0], old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return lambda old, operands: np.where((old == 0) | (old > operands[0]), operands[0], old - old.dtype.type(1))
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        if operation != "add":
            builder.fail(instruction)
        return _half_add(type_)
    ufunc = _UFUNCS[operation]
    return lambda old, operands: ufunc(old, operands[0])


@handles("atom", "red")
def atomic(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of atom and red, such as `atom.global.add.u32 d, [a], b`.

    Threads update an element one after the other, in the order of their numbers. atom also returns the old value, which
    red does not.
    """
    name, type_, vector_length = _modifiers(builder, instruction)
    operation = _operation(builder, instruction, name, type_)
    # The operands: the result of atom, the address, one value or two, and a cache policy, which has no effect.
    operands = list(builder.operands(instruction, 2, most=5))
    result = operands.pop(0) if instruction.opcode == "atom" else None
    address = operands.pop(0)
    if vector_length > 0:
        if not isinstance(operands[0], Vector) or len(operands[0].items) != vector_length:
            builder.fail(instruction, f"has no {{…}} of {vector_length} values")
        return _vector(builder, instruction, result, address, operands[0], operation)
    value_count = 2 if name == "cas" else 1  # compare and swap: the value to compare with, and the new one
    values = operands[:value_count]
    if len(values) < value_count:
        builder.fail(instruction, "has too few operands")
    dtype, ufunc = operation.dtype, operation.associative_ufunc
    sources = [builder.source(instruction, value, dtype) for value in values]
    # `result` is None for red, and for an atom whose result is not used, `_`.
    target = builder.target(instruction, result, dtype) if result is not None else -1
    resolve = memory_operand(builder, instruction, address, dtype.itemsize, write=True, atomic=True)
    if result is None and ufunc is not None:
        return _in_any_order(resolve, dtype, ufunc, sources[0])  # operations with a ufunc have one operand
    return _in_thread_order(resolve, operation, sources, target)


def _operation(builder: FunctionBuilder, instruction: Instruction, name: str, type_: str) -> AtomicOperation:
    """Return the operation with a name, such as "cas", on elements of a PTX type."""
    dtype = dtype_of(type_)
    if name in ("exch", "cas"):  # these move and compare bits
        dtype = UNSIGNED[dtype.itemsize]
    # f16 and bf16 numbers are added by a function of their bits: no ufunc does that.
    ufunc = _UFUNCS.get(name) if not type_.startswith(("f16", "bf16")) else None
    return AtomicOperation(dtype, _update(builder, instruction, name, type_), ufunc)


def _modifiers(builder: FunctionBuilder, instruction: Instruction) -> tuple[str, str, int]:
    """Return the operation, the type, and the elements that a thread updates (0 if the operand is no vector).

    atom.global.add.u32 gives ("add", "u32", 0), red.global.add.v4.f32 gives ("add", "f32", 4). Raise ArtifactError for
    other modifiers.
    """
    operation = next((m for m in instruction.modifiers if m in _UFUNCS or m in ("exch", "cas", "inc", "dec")), "")
    words, type_ = instruction.modifiers[:-1], instruction.modifiers[-1]
    known = {*_WORDS, operation}
    # Cache hints, such as L2::cache_hint, have no effect here.
    qualifiers = [m for m in words if m not in known and not m.startswith(("L1::", "L2::"))]
    vectors = [m for m in qualifiers if m in ("v2", "v4", "v8")]
    unknown = [m for m in qualifiers if m not in vectors]
    is_simulated_type = type_ in SIZES and SIZES[type_] <= 8  # .b128 is not simulated
    if not operation or unknown or not is_simulated_type:
        builder.fail(instruction)
    return operation, type_, int(vectors[0].removeprefix("v")) if vectors else 0


def _in_any_order(resolve: MemoryOperand, dtype: np.dtype[Any], ufunc: np.ufunc, source: int) -> Step:
    """Return the closure of red, which updates an element per thread, in any order, as its old value is not needed.

    Args:
        resolve: Resolves the address of each thread. It returns an access for each allocation, with its threads and
            their byte offsets.
        dtype: Type of an element.
        ufunc: The operation, which is associative.
        source: Slot of the operand.
    """
    log2_size = dtype.itemsize.bit_length() - 1  # by which byte offsets are shifted to indices of elements

    def update_elements(regs: list[Any]) -> None:
        """Update an element for each thread by its value in the slot `source`.

        Several threads may have the same element: `ufunc.at` then applies the update of each one.
        """
        values = np.broadcast_to(regs[source], regs[FRAME_SLOT].n)
        for access in resolve(regs):
            elements, index = access.memory.views[dtype], access.offsets >> log2_size
            ufunc.at(elements, index, access.select_threads(values))

    return update_elements


def _in_thread_order(resolve: MemoryOperand, operation: AtomicOperation, sources: Sequence[int], target: int) -> Step:
    """Return the closure in which each thread updates one element, one thread after the other in their order.

    A slot is the index of an operand in `regs`, the list that the closure receives: arrays with an element per thread.

    Args:
        resolve: Resolves the address of each thread. It returns an access for each allocation, with its threads and
            their byte offsets.
        operation: The operation.
        sources: Slots of the operands: one, or two for cas.
        target: Slot of the result: the value of the element before the thread's own update; -1 if it is not stored.
    """
    dtype = operation.dtype
    log2_size = dtype.itemsize.bit_length() - 1  # by which byte offsets are shifted to indices of elements

    def update_in_order(regs: list[Any]) -> None:
        """Update an element for each thread by its operands, and store its old value in `target` unless that is -1.

        `sources` are the slots of the operands. A byte offset, shifted right by `log2_size`, is an element's index.
        """
        n = regs[FRAME_SLOT].n
        operands = [np.broadcast_to(regs[source], n) for source in sources]
        for access in resolve(regs):
            own_operands = [access.select_threads(values) for values in operands]
            elements, index = access.memory.views[dtype], access.offsets >> log2_size
            old = in_order(elements, index, own_operands, operation)
            if target >= 0:
                access.assign_threads(regs[target], old)

    return update_in_order


def _vector(
    builder: FunctionBuilder, instruction: Instruction, result: Operand | None, address: Operand | None,
    values: Vector, operation: AtomicOperation,
) -> Step:  # fmt: skip
    """Build the closure of an atomic operation on vectors, as red.global.add.v4.f32 [a], {…}, element by element.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        result: Registers of the old values; None if they are not stored.
        address: Address of the first element.
        values: Registers of the operands.
        operation: The operation on one element.
    """
    dtype = operation.dtype
    sources = [builder.source(instruction, register, dtype) for register in values.items]
    result_registers = result.items if isinstance(result, Vector) else ()
    targets = [builder.target(instruction, register, dtype) for register in result_registers]
    resolve = memory_operand(builder, instruction, address, dtype.itemsize * len(sources), write=True, atomic=True)
    log2_size = dtype.itemsize.bit_length() - 1  # by which byte offsets are shifted to indices of elements

    def update_vectors(regs: list[Any]) -> None:
        """Update consecutive elements of each thread, one for each slot of `sources`, in the order of threads.

        `resolve` returns an access for each allocation, with its threads and their byte offsets, which are shifted by
        `log2_size` to indices of elements. The old value of element k is stored in the slot targets[k], unless
        `targets` is empty.
        """
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):
            elements, first_index = access.memory.views[dtype], access.offsets >> log2_size
            # Element k of all threads, before element k + 1 of any.
            for k, source in enumerate(sources):
                own_values = access.select_threads(np.broadcast_to(regs[source], n))
                old = in_order(elements, first_index + k, operands=[own_values], operation=operation)
                if targets:
                    access.assign_threads(regs[targets[k]], old)

    return update_vectors


def _running_totals(ufunc: np.ufunc, initial: Any, values: Any) -> tuple[Any, Any]:
    """Combine a value with each of `values` in turn. Return its value before each step, and the final value.

    np.add with the initial value 5 and the values [1, 2] returns ([5, 6], 8).
    """
    running = np.empty(values.size + 1, initial.dtype)
    running[0], running[1:] = initial, values
    totals = ufunc.accumulate(running)
    return totals[:-1], totals[-1]


def in_order(elements: Any, index: Any, operands: list[Any], operation: AtomicOperation) -> Any:
    """Update elements one thread after the other, and return the old value that each thread sees.

    Threads are grouped by their element. The first thread of each group updates, then the second of each, and so on, so
    that no element occurs twice in a vectorized step. An addition of 1 at the elements [7, 3, 7] of zeros is two steps,
    of the threads 0 and 1 and then of thread 2, and returns [0, 0, 1].

    Args:
        elements: A memory as an array of elements, which is updated in place.
        index: Index in `elements` of the element that each thread updates, int64 [threads].
        operands: For each operand, its values, [threads].
        operation: The operation; its ufunc, if it has one, is faster where many threads update an element.
    """
    _, update, associative_ufunc = operation
    old = np.empty(index.size, elements.dtype)
    threads_by_element = np.argsort(index, kind="stable")
    sorted_index = index[threads_by_element]
    is_first_of_element = np.concatenate(([True], sorted_index[1:] != sorted_index[:-1]))
    starts = np.flatnonzero(is_first_of_element)
    counts = np.diff(np.append(starts, sorted_index.size))  # of threads per element
    most_updates = int(counts.max())
    if associative_ufunc is not None and most_updates > 1 and starts.size < most_updates:
        # Few elements, each with many threads: a loop over the elements has fewer steps.
        for start, count in zip(starts, counts, strict=True):
            threads = threads_by_element[start : start + count]
            element = sorted_index[start]
            old[threads], elements[element] = _running_totals(
                associative_ufunc, elements[element], operands[0][threads]
            )
        return old
    for rank in range(most_updates):  # the threads that are number `rank` of those that update their element
        threads = threads_by_element[starts[counts > rank] + rank]
        own_index = index[threads]
        current = elements[own_index]
        old[threads] = current
        elements[own_index] = update(current, [values[threads] for values in operands])
    return old
