"""PTX `call`: an activation of a function begins for the threads that call it, with registers of its own. So recursion
needs no further mechanism. `builder.storages` lists the registers and `.param` variables of a function; a store is the
array with the values of one of them for all threads of a frame. A slot is the index of an operand in `frame.regs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Arguments, Instruction, Operand, PtxFunction, PtxSymbol, Register
from pydispatch.runtime.simulators.ptx.batch import Batch
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder
from pydispatch.runtime.simulators.ptx.code import End, FunctionCode
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.functions import HOST
from pydispatch.runtime.simulators.ptx.groups import ThreadGroup

_LOCAL_ALIGNMENT = 16
"""Alignment of the local memory of every call, in bytes."""
Items = tuple[Operand | None, ...]
"""Operands in parentheses, of a call; None is the `_` of a result that is not used."""
Label = Callable[[str], int]
"""Returns the index of the block of code at a label."""


def is_call(instruction: Instruction) -> bool:
    """Return whether a call runs PTX, and not a function that the simulator implements itself, such as vprintf."""
    _, callee, _, _ = parts(instruction)
    return not (isinstance(callee, PtxSymbol) and callee.name in HOST)


def parts(instruction: Instruction) -> tuple[Items, Operand | None, Items, Operand | None]:
    """Return (results, callee, arguments, prototype) of `call (r), f, (a, b), proto;`.

    Only the callee is required in the text: results and arguments are () if they are left out, and the prototype, which
    only a call through a function pointer has, is None.
    """
    operands = list(instruction.operands)
    results: Items = ()
    if operands and isinstance(first := operands[0], Arguments):
        results = first.items
        operands.pop(0)
    callee = operands.pop(0) if operands else None
    arguments: Items = ()
    if operands and isinstance(second := operands[0], Arguments):
        arguments = second.items
        operands.pop(0)
    return results, callee, arguments, operands[0] if operands else None


def call(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> Callable[[Label, int], End]:
    """Compile a call, which ends its block of code: the group waits until the callee's threads return.

    The result is called with the labels of the function, which a call does not need, and with the index of the block
    after the call. It returns the closure that runs the call.
    """
    builder.require_modifiers(instruction, ("uni",))
    compiled = _Call(builder, instruction)
    return lambda label, after: lambda batch, group, frame: compiled.run(batch, group, frame, after)


class _Call:
    """Data of one `call` instruction of PTX: the function, and where the caller's arguments and results are.

    `run`, the closure of the instruction, starts an activation of the function for the calling threads. The batch calls
    `_copy_results` when these return.

    Attributes:
        result_registers: Index in `builder.storages` of the register or `.param` variable that receives each result;
            None for `_`, a result that is not used.
        argument_slots: (index in `builder.storages` of a `.param` variable, else None; slot of the value) of each
            argument.
        address: Slot of the function pointer of an indirect call; -1 if `name` is the function.
        name: Name of the function; "" if it is called through a pointer.
    """

    def __init__(self, builder: FunctionBuilder, instruction: Instruction) -> None:
        """Find the function that is called, and where the caller's arguments and results are stored.

        A slot is the index of an operand in the list that closures receive. Raise ArtifactError for a function that is
        not declared or not callable.
        """
        self._instruction = instruction
        results, callee, arguments, _ = parts(instruction)  # the prototype of an indirect call is not needed
        # For each result the register that receives it, None for `_`. The call writes all bytes of these registers.
        self.result_registers = [
            None if operand is None else _register(builder, instruction, operand) for operand in results
        ]
        for storage in self.result_registers:
            if storage is not None:
                builder.writes.add(_whole_slot(builder, storage))
        self.argument_slots = [_argument(builder, instruction, operand) for operand in arguments]
        # A direct call has the name of the function, an indirect one the slot of its address.
        self.address, self.name = -1, ""
        if isinstance(callee, PtxSymbol):
            self.name = callee.name
            if self.name not in builder.symbols:
                builder.fail(instruction, f"calls '{self.name}', which is not declared")
            if problem := _why_not_callable(builder.functions.get(self.name)):
                builder.fail(instruction, f"calls '{self.name}', {problem}")
        else:
            self.address = builder.source(instruction, callee, "u64")

    def run(self, batch: Batch, group: ThreadGroup, frame: Frame, after: int) -> int:
        """Start the calls of a group's threads, and return -1: the group has no next block until they return.

        An activation is a call of one function by some threads. A call through a function pointer starts one activation
        for each function that some threads call.

        after: index of the caller's block of code where the threads continue.
        """
        image = batch.launch.kernel.loaded
        if self.name:
            code = image.code(self.name)
            assert code is not None, "checked when the module was loaded"
            self._begin(batch, group, frame, code, positions_in_frame=None, after=after)
        else:
            pointers = np.broadcast_to(frame.regs[self.address], frame.n)
            for pointer in np.unique(pointers):
                code = image.code_at(int(pointer))
                calls_it = pointers == pointer
                if code is None or code.function.is_entry:
                    frame.fault(
                        self._instruction, int(np.argmax(calls_it)), f"calls {int(pointer):#x}, no function's address"
                    )
                self._begin(batch, group, frame, code, np.flatnonzero(calls_it), after)
        group.release_frame()  # the arguments are copied; a partial frame is created again when its threads continue
        return -1

    def _begin(
        self, batch: Batch, group: ThreadGroup, frame: Frame, code: FunctionCode, positions_in_frame: Any, after: int
    ) -> None:
        """Start a call of one function by some threads of a group.

        It begins an activation, which gives the function registers and local memory of its own, copies the arguments
        into it, and makes its threads ready to run. The batch later calls `_copy_results` for the threads that return.

        Two kinds of positions occur. The frame of a group holds only the threads of the group; the activation's frame
        holds all threads of the caller. If the group has the positions [3, 4, 7] in the activation's frame, and
        `positions_in_frame` is [0, 2], the threads at positions 3 and 7 call the function.

        Args:
            batch: The batch of threads.
            group: The group of threads that is at the call.
            frame: The group's frame.
            code: The function.
            positions_in_frame: Positions in `frame` of the threads that call it, int64; None for all.
            after: Index of the caller's block of code where the threads continue.
        """
        # Checked at each call, because the function that a pointer leads to is known only now.
        params, returns = code.function.params, code.function.returns
        if len(params) != len(self.argument_slots) or len(returns) != len(self.result_registers):
            counts = f"{len(self.argument_slots)} arguments and takes {len(self.result_registers)} results"
            frame.fault(self._instruction, 0, f"passes {counts}; '{code.name}' has {len(params)} and {len(returns)}")
        # The calling threads, by their positions in the frame of the caller's activation.
        positions = group.positions() if positions_in_frame is None else group.positions()[positions_in_frame]
        # The function's local memory begins after that of its caller.
        end_of_local = frame.local_offset + frame.code.local_size
        local_offset = -(-end_of_local // _LOCAL_ALIGNMENT) * _LOCAL_ALIGNMENT
        batch.reserve_local(local_offset + code.local_size, lambda why: frame.fault(self._instruction, 0, why))
        activation = batch.activate(code, group.activation, positions, after, self._copy_results, local_offset)
        self._copy_arguments(frame, positions_in_frame, activation.frame)
        batch.make_ready(type(group)(activation, block=0, index=None))  # all threads, from the first block of code

    def _copy_arguments(self, caller: Frame, positions: Any, callee: Frame) -> None:
        """Copy the arguments of threads from the caller's frame to the parameters in the frame of the function.

        positions: of these threads in the caller's frame, int64; None for all.
        """
        for (storage, slot), param in zip(self.argument_slots, callee.code.function.params, strict=True):
            store = _store_of_parameter(callee.code, param.name)
            if store < 0:  # the function does not read it
                continue
            if storage is None:  # a register, a constant or a special value
                value = np.broadcast_to(caller.regs[slot], caller.n)
            else:  # a `.param` variable
                value = caller.stores[caller.code.store_of[storage]]
            all_threads = slice(None)  # the callee's frame has exactly the calling threads
            _copy(callee.stores[store], all_threads, value if positions is None else value[positions])

    def _copy_results(self, callee: Frame, positions: Any, caller: Frame, caller_positions: Any) -> None:
        """Copy results of the callee's threads at `positions` to the caller's threads at `caller_positions`.

        Each is the position of a thread in the respective frame, in the same order.
        """
        for storage, param in zip(self.result_registers, callee.code.function.returns, strict=True):
            if storage is None:
                continue
            source_store = _store_of_parameter(callee.code, param.name)
            target_store = caller.code.store_of[storage]
            if source_store >= 0 and target_store >= 0:  # -1: never read, so that it has no store
                _copy(caller.stores[target_store], caller_positions, callee.stores[source_store][positions])


def _why_not_callable(function: PtxFunction | None) -> str | None:
    """Return the reason why a function of a module (None: no such function) cannot be called, or None if it can."""
    if function is None:
        return "which is no function"
    if function.is_entry:
        return "which is an entry, and only functions (.func) are called"
    if function.body is None:
        return "which is defined nowhere (a GPU's driver may have it)"
    return None


def _store_of_parameter(code: FunctionCode, name: str) -> int:
    """Return the index of the store of a parameter or result of a function: the array with its values for all threads.

    It is -1 if the function never accesses it.
    """
    index = code.builder.storage(name)
    assert index is not None
    return code.store_of[index]


def _whole_slot(builder: FunctionBuilder, storage: int) -> int:
    """Return a slot that marks a whole register or .param variable as accessed. storage: its index.

    A register is viewed as its own type; a .param variable, which has `count` bytes, as u1: its first byte.
    """
    return builder.view(storage, np.dtype("u1") if builder.storages[storage].count else builder.storages[storage].dtype)


def _copy(target: Any, index: Any, value: Any) -> None:
    """Copy an argument or a result of some threads into an array of the other function.

    Either side may be a register, [threads], which is stored as an unsigned integer, or a `.param` variable,
    [threads, bytes]. If their sizes differ, the low bytes that both have are copied, and the other bytes of a register
    become zeros. The value 0x01020304 of a u32 register becomes the bytes 4, 3, 2, 1 of a `.param .b8 p[4]`.

    Args:
        target: Array of the register or variable that receives the values.
        index: Positions of the threads in `target`, int64, or a slice.
        value: The values of these threads, in the order of `index`.
    """
    if target.ndim == 2 and value.ndim == 2:  # from variable to variable
        size = min(target.shape[1], value.shape[1])
        target[index, :size] = value[:, :size]
    elif target.ndim == value.ndim:  # from register to register: NumPy drops high bytes, or adds zeros
        target[index] = value
    elif target.ndim == 2:  # from register to variable
        raw = np.ascontiguousarray(value).view(np.uint8).reshape(value.size, value.itemsize)
        size = min(target.shape[1], value.itemsize)
        target[index, :size] = raw[:, :size]
    else:  # from variable to register
        raw = np.zeros((value.shape[0], target.itemsize), np.uint8)
        size = min(value.shape[1], target.itemsize)
        raw[:, :size] = value[:, :size]
        target[index] = raw.view(target.dtype)[:, 0]


def _register(builder: FunctionBuilder, instruction: Instruction, operand: Operand) -> int:
    """Return the index in `builder.storages` of the register or .param variable that receives a result."""
    name = operand.name if isinstance(operand, Register | PtxSymbol) else ""
    storage = builder.storage(name)
    if storage is None:
        builder.fail(instruction, f"has {operand} as result, expected a register or .param variable")
    return storage


def _argument(builder: FunctionBuilder, instruction: Instruction, operand: Operand | None) -> tuple[int | None, int]:
    """Return (storage, slot) of an argument.

    The storage is its index in `builder.storages` if it is a `.param` variable, else None. The slot has its value: the
    first byte of a `.param` variable, and any other operand as a whole.
    """
    if operand is None:
        builder.fail(instruction, "has '_' as argument, which only results may be")
    if isinstance(operand, PtxSymbol) and (storage := builder.storage(operand.name)) is not None:
        slot = _whole_slot(builder, storage)
        builder.reads.add(slot)
        return storage, slot
    if isinstance(operand, Register) and (size := builder.register_size(operand)):
        return None, builder.source(instruction, operand, f"b{8 * size}")
    # An immediate, a special register or an address has no size of its own; the parameter takes its low bytes.
    return None, builder.source(instruction, operand, "b64")
