"""Assignment of a function's registers to stores, arrays over threads that several registers may share. A slot is the
index of an operand in the list that instructions get; several slots may be views of one register.
"""

from __future__ import annotations

from typing import Any

from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, RegisterView
from pydispatch.runtime.simulators.ptx.code import CodeBlock

StoreKind = tuple[Any, int]
"""(dtype, bytes of a `.param` variable or 0) of a store: only registers of one kind can share an array."""


class RegisterStores:
    """Assignment of the registers of one function to stores, and for each block the stores that it accesses.

    A register is an index of `FunctionBuilder.storages`. It has a store of its own if several blocks of code access it,
    or if a block may read a value that is older than the block's run. All other registers are local to a block, and
    share stores. Their values begin and end within the block.

    Attributes:
        store_of: Register → index of its store; -1 for a register that no instruction accesses.
        kinds: Kind of each store. Stores of one register are before the shared ones.
        unshared_count: Number of stores that have one register. They begin as zeros.
    """

    def __init__(self, blocks: list[CodeBlock], builder: FunctionBuilder) -> None:
        """Assign a store, an array over the threads, to each register that the blocks of code access.

        Registers whose values outlive a block have stores of their own, which come first. Registers whose values begin
        and end within one block share stores. `CodeBlock.accesses` states which registers a block reads and writes.
        """
        self._blocks, self._builder = blocks, builder
        blocks_of, exposed = self._find_uses()
        self._block_local = {r for r, uses in blocks_of.items() if len(uses) == 1 and r not in exposed}
        self.store_of = [-1] * len(builder.storages)
        self.kinds: list[StoreKind] = []
        for register in range(len(builder.storages)):
            if register in blocks_of and register not in self._block_local:
                self._add_store(register)
        self.unshared_count = len(self.kinds)
        self._assign_shared_stores()

    def _find_uses(self) -> tuple[dict[int, set[int]], set[int]]:
        """Return the indices of the blocks that access each register, and the exposed registers.

        A block is a straight sequence of instructions. A register is exposed if a block may read it before the block
        has written it for all threads: its value then comes from another block.
        """
        blocks_of: dict[int, set[int]] = {}
        exposed: set[int] = set()
        for block in self._blocks:
            written: set[int] = set()
            for reads, writes, is_guarded in block.accesses:
                for register in self._registers(reads):
                    blocks_of.setdefault(register, set()).add(block.index)
                    if register not in written:
                        exposed.add(register)
                for register in self._registers(writes):
                    blocks_of.setdefault(register, set()).add(block.index)
                    if register not in written and is_guarded:  # threads that skip the write keep an older value
                        exposed.add(register)
                    written.add(register)
        return blocks_of, exposed

    def _registers(self, slots: set[int]) -> list[int]:
        """Return the registers that some slots are views of."""
        operands = [self._builder.slots[slot] for slot in slots]
        return [operand.storage for operand in operands if isinstance(operand, RegisterView)]

    def _kind(self, register: int) -> StoreKind:
        """Return the kind of store that a register needs."""
        storage = self._builder.storages[register]
        return storage.dtype, storage.count

    def _add_store(self, register: int) -> None:
        """Add a store for a register."""
        self.store_of[register] = len(self.kinds)
        self.kinds.append(self._kind(register))

    def _assign_shared_stores(self) -> None:
        """Assign stores to the registers that are local to a block, so that registers share a store where they can.

        A register is local to a block of code if only that block accesses it, and writes it before reading it.
        `store_of` receives the index of each register's store.

        A store is the array of a register over the threads. Registers of one kind (dtype and size) can share a store if
        their values are not needed at once: they are in different blocks, or the last access to one of them is in an
        earlier instruction than the first access to the other one.

        Example:
            In `add %r1, %a, %b; mul %r2, %r1, %c; sub %r3, %r2, %d`, with registers of one kind, of which %r1, %r2 and
            %r3 are local to the block: %r1 and %r2 get two stores, because mul accesses both. %r3 gets that of %r1.
        """
        shared: dict[StoreKind, list[int]] = {}  # all shared stores so far
        for block in self._blocks:
            # Registers of each instruction, and the last instruction of the block that accesses each. All shared stores
            # are free at the start of a block.
            accesses = [self._local_registers(reads | writes) for reads, writes, _ in block.accesses]
            last_access = {register: n for n, registers in enumerate(accesses) for register in registers}
            free = {kind: list(stores) for kind, stores in shared.items()}
            for n, registers in enumerate(accesses):
                # Assign stores to the registers that occur for the first time: a free one, else a new one.
                for register in registers:
                    kind = self._kind(register)
                    if self.store_of[register] >= 0:
                        continue
                    if free.get(kind):
                        self.store_of[register] = free[kind].pop()
                    else:
                        self._add_store(register)
                        shared.setdefault(kind, []).append(self.store_of[register])
                # Free the stores of the registers that do not occur later.
                for register in set(registers):
                    if last_access[register] == n:
                        free.setdefault(self._kind(register), []).append(self.store_of[register])

    def _local_registers(self, slots: set[int]) -> list[int]:
        """Return the registers that some slots are views of and that are local to a block."""
        return [register for register in self._registers(slots) if register in self._block_local]

    def summarize_accesses(self, block: CodeBlock) -> None:
        """Set the slots and stores of a block from its `accesses`, and clear `accesses`, which only translation needs.

        Block-local stores are those of the registers in `_block_local`, whose values begin and end within the block.
        Other stores are live: their values come from another block, or may be used by one.
        """
        slots: set[int] = set().union(*(access.reads | access.writes for access in block.accesses))
        registers = set(self._registers(slots))
        block.slots = sorted(slots)
        block.block_local_stores = sorted({self.store_of[r] for r in registers & self._block_local})
        block.live_stores = sorted({self.store_of[r] for r in registers - self._block_local})
        for access in block.accesses:
            block.writes |= {self.store_of[r] for r in self._registers(access.writes) if r not in self._block_local}
        block.accesses = []
