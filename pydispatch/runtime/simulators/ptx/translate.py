"""Translates a function of a module: basic blocks of closures, their terminators, and the register allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import Instruction, Not, Param, PtxFunction, PtxLabel, PtxSymbol, Register, Variable
from pydispatch.runtime.simulators.ptx import instruction_set
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, RegisterView, Special, Step, Unused
from pydispatch.runtime.simulators.ptx.code import CodeBlock, End, FunctionCode, RegisterPool
from pydispatch.runtime.simulators.ptx.elements import BOOL, dtype_of
from pydispatch.runtime.simulators.ptx.registry import HANDLERS
from pydispatch.runtime.simulators.ptx.terminators import TERMINATORS, branch_if, is_terminator

assert instruction_set.LOADED


class Translator:
    """Translator of a function body into basic blocks of closures. Used once."""

    def __init__(self, function: PtxFunction, builder: FunctionBuilder) -> None:
        self.function, self.b = function, builder
        self.blocks: list[CodeBlock] = [CodeBlock(0)]
        self.labels: dict[str, int] = {}  # label → number of its block of code
        # (block of code, what makes its end once all labels are known).
        self._jumps: list[tuple[CodeBlock, Callable[[Callable[[str], int], int], End]]] = []
        self._closed = False

    def run(self, local_size: int) -> FunctionCode:
        """Translate the function. local_size: bytes of its local memory."""
        b = self.b
        for param in (*self.function.params, *self.function.returns):
            if not self.function.is_entry:
                self._declare(param)
        for variable in self.function.variables:
            if variable.space == "param":
                b.declare(variable.name, np.dtype("u1"), variable.size)
        for item in self.function.body or ():
            if isinstance(item, PtxLabel):
                self._next()
                self.labels[item.name] = self.blocks[-1].index
            else:
                try:
                    self._instruction(item)
                except (KeyError, IndexError, TypeError, AttributeError):  # of types and operands that do not exist
                    self.b.fail(item)
        self._append_return()
        for block, make in self._jumps:
            block.end = make(self._label, block.index + 1)
        return self._finish(local_size)

    def _declare(self, param: Param) -> None:
        """Declare the register or the `.param` variable of a parameter or result."""
        if param.space == "reg":
            self.b.declare(param.name, dtype_of(param.type))
        else:
            self.b.declare(param.name, np.dtype("u1"), param.size)

    def _label(self, name: str) -> int:
        """Return the block of a label. Raise ArtifactError for an undefined one."""
        if name not in self.labels:
            raise ArtifactError(
                f"{self.b.module}:{self.function.line}: '{self.function.name}' jumps to '{name}', no label of it"
            )
        return self.labels[name]

    def _next(self) -> CodeBlock:
        """Return the last block if it is empty and open, else append a new one and return it."""
        last = self.blocks[-1]
        if last.steps or last.end or last.sync or self._closed:
            self.blocks.append(CodeBlock(len(self.blocks)))
            self._closed = False
        return self.blocks[-1]

    def _append_return(self) -> None:
        self._next()
        self._terminate(Instruction("ret", (), (), self.function.line))

    def _note(self, block: CodeBlock, instruction: Instruction, guarded: bool, steps: int = 1) -> None:
        """Record the registers that the last instruction of a block accesses, and count it."""
        b = self.b
        block.accesses.append((b.reads, b.writes, guarded))
        block.count += steps
        block.line = block.line or instruction.line
        b.reads, b.writes = set(), set()

    def _instruction(self, instruction: Instruction) -> None:
        """Translate an instruction into a closure of the current block."""
        if is_terminator(instruction):
            self._terminate(instruction)
            return
        handler = HANDLERS.get(instruction.opcode)
        if handler is None:
            self.b.fail(instruction)
        b = self.b
        mask = instruction_set.waits_for(instruction)
        if mask is not None:
            if instruction.guard is not None:
                self._skip_unless(instruction)
            block = self._next()
            block.sync = (b.source(instruction, instruction.operands[mask], "b32") if mask >= 0 else -1, instruction)
            block.steps.append(b.take(handler(b, instruction)))
            self._note(block, instruction, guarded=False)
            self._closed = instruction.guard is not None  # What is skipped is one block.
            return
        step = b.take(handler(b, instruction))
        block = self.blocks[-1] if not self._closed else self._next()
        if instruction.guard is not None:
            step = guarded(b, instruction, step)
        block.steps.append(step)
        self._note(block, instruction, instruction.guard is not None)

    def _skip_unless(self, instruction: Instruction) -> None:
        """Emit a branch around a guarded instruction that is not a closure of its own."""
        assert instruction.guard is not None
        block = self.blocks[-1] if not self._closed else self._next()
        slot, runs_if = guard_of(self.b, instruction)
        self._note(block, instruction, guarded=False)
        self._jumps.append((block, lambda _, after: branch_if(slot, not runs_if, after + 1, after)))
        self._closed = True
        self._next()

    def _terminate(self, instruction: Instruction) -> None:
        """Translate an instruction that ends a block."""
        if instruction.guard is not None and instruction.opcode != "bra":
            self._skip_unless(instruction)
        block = self.blocks[-1] if not self._closed else self._next()
        make = TERMINATORS[instruction.opcode](self.b, instruction, self.function)
        if self.b._prelude:
            block.steps.append(self.b.take(lambda regs: None))
        self._note(block, instruction, guarded=False)
        self._jumps.append((block, make))
        self._closed = True

    # -- Register allocation ------------------------------------------------------------------------------------

    def _finish(self, local_size: int) -> FunctionCode:
        """Place the registers in arrays, and return the code.

        A register whose values do not leave their block shares an array with others.
        """
        b = self.b
        blocks_of: dict[int, set[int]] = {}
        exposed: set[int] = set()
        for block in self.blocks:
            written: set[int] = set()
            for reads, writes, guarded_ in block.accesses:
                for register in self._registers(reads):
                    blocks_of.setdefault(register, set()).add(block.index)
                    if register not in written:
                        exposed.add(register)
                for register in self._registers(writes):
                    blocks_of.setdefault(register, set()).add(block.index)
                    if register not in written and guarded_:
                        exposed.add(register)
                    written.add(register)
        block_local = {r for r, blocks in blocks_of.items() if len(blocks) == 1 and r not in exposed}
        kinds: list[tuple[Any, int]] = []
        placed = [-1] * len(b.storages)
        for register, storage in enumerate(b.storages):
            if register not in block_local and register in blocks_of:
                placed[register] = len(kinds)
                kinds.append((storage.dtype, storage.count))
        outer_stores = len(kinds)
        self._place_inner(block_local, placed, kinds)
        for block in self.blocks:
            self._describe(block, block_local, placed)
        slots = list(b.slots)
        bound = [slot for slot, operand in enumerate(slots) if isinstance(operand, Unused | Special)]
        bound += [
            slot
            for slot, operand in enumerate(slots)
            if isinstance(operand, RegisterView) and placed[operand.storage] >= 0
        ]
        template = [None if isinstance(operand, RegisterView | Special | Unused) else operand for operand in slots]
        pool = RegisterPool(kinds, list(range(outer_stores)))
        return FunctionCode(
            self.function.name, self.function, b, self.blocks, slots, template, bound, placed, kinds, pool, local_size
        )

    def _registers(self, slots: set[int]) -> list[int]:
        return [what.storage for slot in slots if isinstance(what := self.b.slots[slot], RegisterView)]

    def _place_inner(self, block_local: set[int], placed: list[int], kinds: list[tuple[Any, int]]) -> None:
        """Let registers that live inside one block share arrays: an array is free after its register's last use."""
        arrays_of_kind: dict[tuple[Any, int], list[int]] = {}
        for block in self.blocks:
            last_access: dict[int, int] = {}
            for access, (reads, writes, _) in enumerate(block.accesses):
                for register in self._registers(reads | writes):
                    if register in block_local:
                        last_access[register] = access
            free_arrays = {kind: list(stores) for kind, stores in arrays_of_kind.items()}
            for access, (reads, writes, _) in enumerate(block.accesses):
                accessed = [r for r in self._registers(reads | writes) if r in block_local]
                for register in accessed:
                    if placed[register] < 0:
                        kind = (self.b.storages[register].dtype, self.b.storages[register].count)
                        if free_arrays.get(kind):
                            placed[register] = free_arrays[kind].pop()
                        else:
                            placed[register] = len(kinds)
                            kinds.append(kind)
                            arrays_of_kind.setdefault(kind, []).append(placed[register])
                for register in set(accessed):
                    if last_access[register] == access:
                        free_arrays.setdefault(kinds[placed[register]], []).append(placed[register])

    def _describe(self, block: CodeBlock, inner: set[int], placed: list[int]) -> None:
        """Compute the slots and registers of a frame that a block accesses."""
        slots = set().union(*(reads | writes for reads, writes, _ in block.accesses)) if block.accesses else set()
        block.slots = sorted(slots)
        registers = set(self._registers(slots))
        block.inner = sorted({placed[r] for r in registers & inner})
        block.outer = sorted({placed[r] for r in registers - inner})
        for _, writes, _ in block.accesses:
            block.writes |= {placed[r] for r in self._registers(writes) if r not in inner}
        block.accesses = []


def guard_of(builder: FunctionBuilder, instruction: Instruction) -> tuple[int, bool]:
    """Return the slot of an instruction's guard and the value at which the instruction runs."""
    runs_if = not isinstance(instruction.guard, Not)
    register = instruction.guard.operand if isinstance(instruction.guard, Not) else instruction.guard
    assert isinstance(register, Register)
    return builder.source(instruction, register, BOOL), runs_if


def guarded(builder: FunctionBuilder, instruction: Instruction, step: Step) -> Step:
    """Return the closure for the threads whose guard holds: it runs on copies of the registers unless all do."""
    accessed, written = sorted(builder.reads | builder.writes), sorted(builder.writes)
    slot, wanted = guard_of(builder, instruction)

    def run(regs: list[Any]) -> None:
        """Run `step` for the threads whose predicate is as wanted: on copies of the accessed registers unless these are
        all threads.
        """
        guard = regs[slot]
        count = np.count_nonzero(guard)
        n = regs[0].n
        if not wanted:
            count = n - count
        if count == n:
            step(regs)
        elif count:
            positions = np.flatnonzero(guard if wanted else ~guard)
            copies = regs.copy()
            copies[0] = regs[0].some(positions)
            for accessed_slot in accessed:
                value = regs[accessed_slot]
                if isinstance(value, np.ndarray) and value.ndim:
                    copies[accessed_slot] = value[positions]
            step(copies)
            for accessed_slot in written:
                regs[accessed_slot][positions] = copies[accessed_slot]

    return run


def symbols_of(variables: tuple[Variable, ...]) -> dict[str, int | Special]:
    """Offsets of a function's local variables into its frame."""
    symbols: dict[str, int | Special] = {}
    end = 0
    for variable in variables:
        if variable.space == "local":
            end = -(-end // variable.align) * variable.align
            symbols[variable.name] = Special("local", np.dtype("u8"), end)
            end += variable.size
    return symbols


__all__ = ["CodeBlock", "FunctionCode", "PtxSymbol", "Translator", "symbols_of"]
