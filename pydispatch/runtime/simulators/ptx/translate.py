"""Translation of a PTX function to basic blocks of closures. A closure runs one instruction for all threads of a frame.
Its operands are in slots of a list: registers, which are arrays over the threads, constants and special values. A store
is the array that one or more registers share. A handler is the function that builds the closure of an instruction; the
builder records which slots the closure accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import Instruction, Not, PtxFunction, PtxLabel, PtxSymbol, Register, Variable
from pydispatch.runtime.simulators.ptx import instruction_set
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, RegisterView, Special, Step, Unused
from pydispatch.runtime.simulators.ptx.code import CodeBlock, FunctionCode, LaneSync, RegisterPool, SlotAccess
from pydispatch.runtime.simulators.ptx.elements import BOOL, aligned, dtype_of
from pydispatch.runtime.simulators.ptx.register_stores import RegisterStores
from pydispatch.runtime.simulators.ptx.registry import HANDLERS, Handler
from pydispatch.runtime.simulators.ptx.terminators import TERMINATORS, BuildEnd, branch_if, is_terminator

assert instruction_set.LOADED


class Translator:
    """Translator of one function body into basic blocks of closures, which `run` returns. Used once.

    Args:
        function: The function.
        builder: Builder of the operands of its closures.
    """

    def __init__(self, function: PtxFunction, builder: FunctionBuilder) -> None:
        """Begin with an empty block of code. For the parameters, see the class."""
        self._function, self._builder = function, builder
        self._blocks: list[CodeBlock] = [CodeBlock(0)]
        self._labels: dict[str, int] = {}  # label → index of the block that it begins
        self._pending_ends: list[tuple[CodeBlock, BuildEnd]] = []  # called when all labels are known
        self._next_needs_new_block = False  # whether the next instruction must not be added to the last block

    def run(self, local_size: int) -> FunctionCode:
        """Translate the function, and return its code.

        Args:
            local_size: Bytes of local memory that the function's variables take for each thread.

        Raises:
            ArtifactError: An instruction, or one of its operands, is not supported. The message names line and
                instruction.
        """
        self._declare_params()
        for item in self._function.body or ():
            if isinstance(item, PtxLabel):
                self._open_block()
                self._labels[item.name] = self._blocks[-1].index
            else:
                try:
                    self._translate_instruction(item)
                except (KeyError, IndexError, TypeError):  # tables lack the type, or operands are missing
                    self._builder.fail(item)
        self._append_return()
        for block, build_end in self._pending_ends:  # all labels are known now
            block.end = build_end(self._label, block.index + 1)
        return self._finish(local_size)

    def _declare_params(self) -> None:
        """Declare parameters, results and the `.param` variables for arguments of calls, which are arrays of bytes."""
        function, declare = self._function, self._builder.declare
        # The parameters of a kernel are in the memory of the launch: the builder has their addresses among its symbols.
        params = () if function.is_entry else (*function.params, *function.returns)
        for param in params:
            if param.space == "reg":
                declare(param.name, dtype_of(param.type))
            else:
                declare(param.name, np.dtype("u1"), param.size)
        for variable in function.variables:
            if variable.space == "param":
                declare(variable.name, np.dtype("u1"), variable.size)

    def _label(self, name: str) -> int:
        """Return the index of the block at a label. Raise ArtifactError for an undefined one."""
        if name not in self._labels:
            where = f"{self._builder.module}:{self._function.line}"
            raise ArtifactError(f"{where}: '{self._function.name}' jumps to '{name}', no label of it")
        return self._labels[name]

    def _open_block(self) -> CodeBlock:
        """Return the last block if nothing has been added to it, else append a new one and return it."""
        last = self._blocks[-1]
        has_content = bool(last.steps or last.end or last.sync)
        if has_content or self._next_needs_new_block:
            self._blocks.append(CodeBlock(len(self._blocks)))
            self._next_needs_new_block = False
        return self._blocks[-1]

    def _append_return(self) -> None:
        """End the function with a return, because its text may end without one."""
        self._open_block()
        self._terminate(Instruction("ret", (), operands=(), line=self._function.line))

    def _record_accesses(self, block: CodeBlock, instruction: Instruction, guarded: bool) -> None:
        """Count an instruction that was added to a block, and record the slots that the builder says it accesses.

        Args:
            block: The block.
            instruction: The instruction.
            guarded: Whether a predicate decides, for each thread, whether the instruction runs.
        """
        builder = self._builder
        block.accesses.append(SlotAccess(builder.reads, builder.writes, is_guarded=guarded))
        block.count += 1
        block.line = block.line or instruction.line
        builder.reads, builder.writes = set(), set()

    def _translate_instruction(self, instruction: Instruction) -> None:
        """Translate an instruction: append its closure to a block of code, or end the block.

        A block of code is a straight sequence of closures, which run one after the other for a group of threads.

        - A terminator, such as bra, ret or bar.sync, ends the block.
        - An instruction that waits for other lanes (threads of its warp), such as shfl.sync, begins a block. The
          scheduler runs that block when these lanes have arrived.
        - Any other instruction is appended to the last block, or to a new one if that has ended. With a guard (`@p`),
          its closure runs for the threads where the guard holds.
        """
        if is_terminator(instruction):
            self._terminate(instruction)
            return
        handler = HANDLERS.get(instruction.opcode)
        if handler is None:
            self._builder.fail(instruction)
        builder = self._builder
        mask = instruction_set.waits_for(instruction)  # index of an operand or -1; None: it does not wait
        if mask is not None:
            self._add_waiting(instruction, handler, mask)
            return
        # The handler returns the closure; `take` puts the steps that compute its operands, such as !p, before it.
        step = builder.take(handler(builder, instruction))
        block = self._blocks[-1] if not self._next_needs_new_block else self._open_block()
        if instruction.guard is not None:
            step = guarded(builder, instruction, step)
        block.steps.append(step)
        self._record_accesses(block, instruction, guarded=instruction.guard is not None)

    def _add_waiting(self, instruction: Instruction, handler: Handler, mask: int) -> None:
        """Add an instruction that waits for other lanes, such as shfl.sync. The scheduler waits before its block.

        mask: index of the operand with the mask of these lanes; -1: all lanes of the warp.
        """
        builder = self._builder
        if instruction.guard is not None:
            self._skip_unless(instruction)
        block = self._open_block()
        mask_slot = builder.source(instruction, instruction.operands[mask], "b32") if mask >= 0 else None
        block.sync = LaneSync(mask_slot, instruction)
        block.steps.append(builder.take(handler(builder, instruction)))
        self._record_accesses(block, instruction, guarded=False)
        self._next_needs_new_block = instruction.guard is not None  # the branch around it skips exactly this block

    def _skip_unless(self, instruction: Instruction) -> None:
        """End the current block by a branch around a guarded instruction, which ends a block or waits for other lanes.

        For `@p bar.sync 0;`, block k ends with the branch, block k + 1 = `after` has bar.sync alone, and threads
        without p continue at block k + 2. The caller then adds the instruction to block k + 1, without its guard.
        """
        assert instruction.guard is not None
        block = self._blocks[-1] if not self._next_needs_new_block else self._open_block()
        slot, runs_if = guard_of(self._builder, instruction)
        self._record_accesses(block, instruction, guarded=False)
        # The branch is taken by the threads for which the instruction does not run.
        self._pending_ends.append(
            (block, lambda _, after: branch_if(slot, wanted=not runs_if, target=after + 1, after=after))
        )
        self._next_needs_new_block = True
        self._open_block()

    def _terminate(self, instruction: Instruction) -> None:
        """Translate an instruction that ends a block.

        With a guard, it gets a block of its own, which the branch of `_skip_unless` skips; bra tests its guard itself.
        """
        if instruction.guard is not None and instruction.opcode != "bra":
            self._skip_unless(instruction)
        block = self._blocks[-1] if not self._next_needs_new_block else self._open_block()
        build_end = TERMINATORS[instruction.opcode](self._builder, instruction, self._function)
        if self._builder.has_prelude:  # operands such as !p are computed by the last step of the block
            block.steps.append(self._builder.take_prelude())
        # Not guarded: all threads that reach this block run the terminator.
        self._record_accesses(block, instruction, guarded=False)
        self._pending_ends.append((block, build_end))
        self._next_needs_new_block = True

    def _finish(self, local_size: int) -> FunctionCode:
        """Assign the registers to stores, and return the code. local_size: bytes of the function's local memory.

        A store is an array over the threads that holds one register, or several whose values do not overlap in time.
        A slot is an operand of closures, `regs[slot]`: a view of a store, a constant or a special value.
        """
        builder = self._builder
        stores = RegisterStores(self._blocks, builder)
        for block in self._blocks:
            stores.summarize_accesses(block)
        slots = list(builder.slots)
        # Slots of constants have their values in the template of frames, all others None.
        template = [None if isinstance(operand, RegisterView | Special | Unused) else operand for operand in slots]
        return FunctionCode(
            name=self._function.name,
            function=self._function,
            builder=builder,
            blocks=self._blocks,
            slots=slots,
            template=template,
            bound_slots=_bound_slots(slots, stores.store_of),
            store_of=stores.store_of,
            store_kinds=stores.kinds,
            # Unshared stores are the first ones. They may be read before they are written, so they begin as zeros.
            pool=RegisterPool(stores.kinds, zeroed=list(range(stores.unshared_count))),
            local_size=local_size,
        )


def _bound_slots(slots: list[Any], store_of: Sequence[int]) -> list[int]:
    """Return the slots that a frame binds to arrays: unused results, special values, and registers with a store.

    store_of: by register, the index of its store; -1 for a register that no instruction accesses.
    """
    bound_slots = [slot for slot, operand in enumerate(slots) if isinstance(operand, Unused | Special)]
    bound_slots += [
        slot
        for slot, operand in enumerate(slots)
        if isinstance(operand, RegisterView) and store_of[operand.storage] >= 0
    ]
    return bound_slots


def guard_of(builder: FunctionBuilder, instruction: Instruction) -> tuple[int, bool]:
    """Return the slot of the predicate that guards an instruction, and the value for which it runs: False for `@!p`."""
    runs_if = not isinstance(instruction.guard, Not)
    register = instruction.guard.operand if isinstance(instruction.guard, Not) else instruction.guard
    assert isinstance(register, Register)
    return builder.source(instruction, register, BOOL), runs_if


def guarded(builder: FunctionBuilder, instruction: Instruction, step: Step) -> Step:
    """Return a closure that runs `step` only for the threads where the guard of `instruction` holds.

    Example: for `@p add.s32 %r1, %r1, 1;` with p = [1, 0, 1], `step` gets copies of elements 0 and 2 of %r1, and its
    results are written back to them. If the guard holds for all threads, `step` gets the registers themselves.

    Args:
        builder: Builder of the function, whose `reads` and `writes` are the slots that `step` accesses.
        instruction: The instruction, with a guard `@p` or `@!p`.
        step: Closure of the instruction without its guard.
    """
    # Before guard_of(), which adds the slot of the guard to `reads`: `step` does not access that.
    accessed, written = sorted(builder.reads | builder.writes), sorted(builder.writes)
    slot, wanted = guard_of(builder, instruction)

    def run(regs: list[Any]) -> None:
        """Run `step` for the threads whose guard has the value `wanted`: all, none, or copies of their registers.

        regs: operands of all threads by slot; their frame is in FRAME_SLOT. `accessed` and `written` are the slots that
        `step` accesses, and of these the ones it writes.
        """
        guard, frame = regs[slot], regs[FRAME_SLOT]
        count = np.count_nonzero(guard)
        n = frame.n
        if not wanted:
            count = n - count
        if count == n:
            step(regs)
        elif count:
            positions = np.flatnonzero(guard if wanted else ~guard)
            copies = regs.copy()
            copies[FRAME_SLOT] = frame.subset(positions)
            for accessed_slot in accessed:
                value = regs[accessed_slot]
                if isinstance(value, np.ndarray) and value.ndim:  # a scalar holds for all threads
                    copies[accessed_slot] = value[positions]
            step(copies)
            for accessed_slot in written:
                regs[accessed_slot][positions] = copies[accessed_slot]

    return run


def symbols_of(variables: tuple[Variable, ...]) -> dict[str, int | Special]:
    """Return the symbols of a function's local variables, each with its byte offset in the function's local memory."""
    symbols: dict[str, int | Special] = {}
    end = 0
    for variable in variables:
        if variable.space == "local":
            start = aligned(end, variable.align)
            symbols[variable.name] = Special("local", np.dtype("u8"), start)
            end = start + variable.size
    return symbols


__all__ = ["CodeBlock", "FunctionCode", "PtxSymbol", "Translator", "symbols_of"]
