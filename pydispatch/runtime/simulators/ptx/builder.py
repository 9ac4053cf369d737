"""Slots of a function's operands (registers, constants, special values), by which closures read and write them.
A closure is `step(regs)`: regs[FRAME_SLOT] is the `Frame` that runs, regs[slot] a NumPy array over its threads, or a
scalar that holds for all of them. Several slots may be views of one register, one per type that instructions see it as.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import (
    SIZES,
    Immediate,
    Instruction,
    Not,
    Operand,
    PtxFunction,
    PtxSymbol,
    Register,
    RegisterPair,
    Vector,
)
from pydispatch.runtime.simulators.ptx.elements import BOOL, UNSIGNED, dtype_of, literal

FRAME_SLOT = 0
"""Index of the running `Frame` in the argument `regs` of closures; other slots hold registers and constants."""
Step = Callable[[list[Any]], None]
"""Closure of an instruction: `step(regs)` runs it for the threads of a frame, whose operands are in `regs` by slot."""
_SUPPORTED_PTX = (
    "the interpreter runs PTX of compute capability up to 9.0 without textures, surfaces, clusters and wgmma"
)
"""Part of the message about an instruction that is not simulated."""


@dataclass(frozen=True)
class Storage:
    """Register of a function, or `.param` variable.

    Attributes:
        name: Name in the text.
        dtype: Type of a register as it is stored; u1 (bytes) for a `.param` variable.
        count: Bytes of a `.param` variable; 0 for a register.
    """

    name: str
    dtype: np.dtype[Any]
    count: int = 0


@dataclass(frozen=True)
class RegisterView:
    """Register that an instruction reads or writes as another type, or an element of a `.param` variable.

    Attributes:
        storage: Index of the register or variable in `FunctionBuilder.storages`.
        dtype: Type as which the instruction reads or writes it.
        offset: Byte offset in a `.param` variable; 0 for a register.
    """

    storage: int
    dtype: np.dtype[Any]
    offset: int = 0

    def of(self, base: Any) -> Any:
        """Return the part of a register's array that this view selects, as an array of `dtype`, [threads].

        Of a u32 register, a view as u16 has the low 16 bits of each element: every second one of the 16-bit halves.

        base: the array of the whole register, [threads], or of a `.param` variable, [threads, bytes].
        """
        if base.ndim == 2:  # the bytes of a `.param` variable, [threads, bytes]
            return base[:, self.offset : self.offset + self.dtype.itemsize].view(self.dtype)[:, 0]
        if base.dtype == self.dtype:
            return base
        viewed = base.view(self.dtype)
        ratio = base.itemsize // self.dtype.itemsize
        return viewed if ratio == 1 else viewed[::ratio]  # the low part of a wider register comes first in memory


@dataclass(frozen=True)
class Special:
    """Value that is computed on first use in a frame: %tid.x, the address of a local variable, a kernel parameter.

    Attributes:
        name: Name of a special register in the text; or "local" (address of a local variable), "param" (address of a
            kernel parameter) or "parameter" (its value).
        dtype: Type that the instruction reads it as.
        offset: Bytes of the variable or parameter from the start of its memory; 0 for a special register.
    """

    name: str
    dtype: np.dtype[Any]
    offset: int = 0


@dataclass(frozen=True)
class Unused:
    """Target of a result that the instruction does not store (`_`); `dtype` is its type."""

    dtype: np.dtype[Any]


class FunctionBuilder:
    """Builder of the operands of one function's closures: each operand has a slot in the list that closures receive.

    Handlers of instructions get the slots of operands by `source` and `target`, or by `bind` for all at once, and
    return a closure that reads and writes `regs[slot]`. The translator then takes the closure by `take`.

    Attributes:
        module: Name of the module, for messages.
        symbols: Name of a variable or function → its address, or a special value if it is known only at launch.
        functions: Name → function of the module.
        storages: Registers and `.param` variables of the function.
        slots: Operand of each slot: a `RegisterView`, `Special`, `Unused`, or a NumPy scalar for a constant; None for
            slot 0, which holds the frame, and for temporary values.
        reads: Slots of registers that the current instruction reads. The translator assigns a new set after each one.
        writes: Slots of registers that the current instruction writes. The translator assigns a new set, too.

    Args:
        lines: Lines of the module's text, for messages.
        types: Name of a register → its PTX type.
        is_special: Tells whether a name is that of a special register, such as %tid.x.
    """

    def __init__(
        self,
        module: str,
        lines: Sequence[str],
        types: dict[str, str],
        symbols: Mapping[str, int | Special],
        is_special: Callable[[str], bool],
        functions: Mapping[str, PtxFunction],
    ) -> None:
        """Declare the registers of a function; its instructions are translated later. For parameters, see the class."""
        self.module = module
        self._is_special = is_special
        self._lines, self.symbols, self.functions = lines, symbols, functions
        self.storages: list[Storage] = []  # registers and `.param` variables
        self._index: dict[str, int] = {}  # name of a register or variable → its index in `storages`
        for name, type_ in types.items():
            has_number_type = type_ in SIZES and SIZES[type_] <= 8  # b128 is stored as opaque bytes
            self.declare(name, dtype_of(type_) if has_number_type else None)
        self.slots: list[Any] = [None]  # operand of each slot; slot 0 is the frame
        self._slot_of: dict[Any, int] = {}  # operand → its slot
        self.reads: set[int] = set()  # slots that the current instruction reads
        self.writes: set[int] = set()  # slots that the current instruction writes
        self._prelude: list[Step] = []  # steps that compute operands of the current instruction, such as !p

    def declare(self, name: str, dtype: np.dtype[Any] | None, count: int = 0) -> int:
        """Declare a register or `.param` variable, and return its index in `storages`.

        Args:
            name: Its name.
            dtype: Type of a register; None for types that no instruction here accepts, such as b128. u1 for a `.param`
                variable.
            count: Bytes of a `.param` variable; 0 for a register.
        """
        if dtype is not None and dtype != BOOL:
            dtype = UNSIGNED[dtype.itemsize]  # stored by its size; instructions see it through views of their types
        self._index[name] = len(self.storages)
        opaque = np.dtype("V16")  # has the bytes of the largest type, b128
        self.storages.append(Storage(name, dtype or opaque, count))
        return self._index[name]

    def storage(self, name: str) -> int | None:
        """Return the index of a register or `.param` variable in `storages`; None if it is not declared."""
        return self._index.get(name)

    def fail(self, instruction: Instruction, why: str = "is not known") -> NoReturn:
        """Raise an ArtifactError that names the line and the instruction."""
        raise ArtifactError(f"{self.module}:{instruction.line}: '{self.text(instruction)}' {why}; {_SUPPORTED_PTX}")

    def require_modifiers(
        self, instruction: Instruction, allowed: Container[str], words: Iterable[str] | None = None
    ) -> None:
        """Raise ArtifactError if an instruction has a modifier that would have no effect here: one not in `allowed`.

        words: the modifiers that are checked; None for all.
        """
        for word in instruction.modifiers if words is None else words:
            if word not in allowed:
                self.fail(instruction, f"has '.{word}', which is not simulated")

    def text(self, instruction: Instruction) -> str:
        """Return the source line of an instruction, or its name and modifiers if the text lacks the line."""
        return self.line(instruction.line) or ".".join((instruction.opcode, *instruction.modifiers))

    def line(self, line_number: int) -> str:
        """Return a line of the text, from 1."""
        return self._lines[line_number - 1].strip() if 0 < line_number <= len(self._lines) else ""

    def _slot(self, key: Any, value: Any) -> int:
        """Return the slot of an operand, added on first use.

        key: identifies the operand among those of the function. value: its entry in `slots`.
        """
        slot = self._slot_of.get(key)
        if slot is None:
            slot = self._slot_of[key] = len(self.slots)
            self.slots.append(value)
        return slot

    def scratch(self) -> int:
        """Reserve a slot for temporary values of one instruction."""
        self.slots.append(None)
        return len(self.slots) - 1

    def constant(self, value: Any) -> int:
        """Return the slot of a NumPy scalar."""
        return self._slot((value.dtype.str, value.tobytes()), value)

    def special(self, name: str, dtype: np.dtype[Any], offset: int = 0) -> int:
        """Return the slot of a special value that the current instruction reads; for the arguments see `Special`."""
        slot = self._slot(("special", name, dtype.str, offset), Special(name, dtype, offset))
        self.reads.add(slot)
        return slot

    def view(self, storage: int, dtype: np.dtype[Any], offset: int = 0) -> int:
        """Return the slot of register number `storage` seen as a type. offset: bytes, in a `.param` variable."""
        return self._slot((storage, dtype.str, offset), RegisterView(storage, dtype, offset))

    def source(self, instruction: Instruction, operand: Operand | None, type_: str | np.dtype[Any]) -> int:
        """Return the slot of an operand that an instruction reads as a type, for all kinds of operands but addresses.

        The slot is the operand's index in the list `regs` that closures receive: regs[slot] is a constant, or an array
        with an element per thread. Of a register wider than the type, the low bytes are read.

        type_: a PTX type such as "u32", or a NumPy type.
        """
        dtype = dtype_of(type_) if isinstance(type_, str) else type_
        if isinstance(operand, Immediate):
            return self.constant(literal(operand, dtype))
        if isinstance(operand, PtxSymbol):
            return self._symbol(instruction, operand, dtype)
        if isinstance(operand, Not):
            return self._negated(instruction, operand)
        if not isinstance(operand, Register):
            self.fail(instruction, f"has an operand of an unexpected kind: {operand}")
        storage = self._index.get(operand.name)
        if storage is None:
            if not self._is_special(operand.name):
                self.fail(instruction, f"reads {operand.name}, which is not declared")
            return self.special(operand.name, dtype)
        stored = self.storages[storage].dtype
        # A predicate is no number, and a 128-bit register (kind V, opaque bytes) is of no type.
        is_same_kind = (stored == BOOL) == (dtype == BOOL) and stored.kind != "V"
        if not is_same_kind or stored.itemsize < dtype.itemsize:
            self.fail(instruction, f"reads {operand.name} of {_bits(stored)} as {_bits(dtype)}")
        slot = self.view(storage, dtype)
        self.reads.add(slot)
        return slot

    def _symbol(self, instruction: Instruction, operand: PtxSymbol, dtype: np.dtype[Any]) -> int:
        """Return the slot of the address of a variable or function.

        It is a constant, or a `Special` for an address that is known only at launch, such as that of a local variable.
        """
        address = self.symbols.get(operand.name)
        if address is None:
            self.fail(instruction, f"names '{operand.name}', which is not declared")
        if isinstance(address, Special):
            return self.special(address.name, dtype, address.offset + operand.offset)
        return self.constant(literal(Immediate(address + operand.offset), dtype))

    def _negated(self, instruction: Instruction, operand: Not) -> int:
        """Return the slot of the negation of a predicate; a closure computes it before the instruction runs."""
        operand_slot, slot = self.source(instruction, operand.operand, BOOL), self.scratch()

        def negate(regs: list[Any]) -> None:
            """Store the negation of the predicate for each thread."""
            regs[slot] = np.logical_not(regs[operand_slot])

        self._prelude.append(negate)
        return slot

    def target(
        self, instruction: Instruction, operand: Operand | None, type_: str | np.dtype[Any], widen: bool = False
    ) -> int:
        """Return the slot of a result, and record that the current instruction writes it.

        The slot is the index of the result in `regs`, the list that the instruction's closure receives. The closure
        stores the result by `regs[slot][...] = values`. The slot is a view of the register as the type of the result:
        for `add.s32 %r1, ...` the register %r1, which is stored as u32, seen as int32.

        Args:
            instruction: The instruction.
            operand: The register; None or `_` if the result is not stored. Then the closure writes to an array that no
                instruction reads.
            type_: PTX or NumPy type of the result.
            widen: Whether the register may be wider than the type (ld, cvt). The view then has the size of the
                register, and NumPy extends the values that are assigned to it: by their sign for a signed type, else by
                zeros. For `ld.s8` into a register of 32 bits it is int32.
        """
        dtype = dtype_of(type_) if isinstance(type_, str) else type_
        if operand is None or (isinstance(operand, Register) and operand.name == "_"):
            slot = self._slot(("unused", dtype.str), Unused(dtype))
            self.reads.add(slot)  # so that frames give the slot an array
            return slot
        storage = self._index.get(operand.name) if isinstance(operand, Register) else None
        if storage is None:
            self.fail(instruction, f"cannot write to {operand}")
        stored = self.storages[storage].dtype
        if widen and stored.itemsize > dtype.itemsize and stored.kind == "u":  # not a 128-bit register, kind V
            dtype = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{stored.itemsize}")
        # A predicate is no number, and a 128-bit register (kind V, opaque bytes) is of no type.
        is_same_kind = (stored == BOOL) == (dtype == BOOL) and stored.kind != "V"
        if not is_same_kind or stored.itemsize != dtype.itemsize:
            self.fail(instruction, f"writes {_bits(dtype)} to {operand.name} of {_bits(stored)}")  # type: ignore[union-attr]
        slot = self.view(storage, dtype)
        self.writes.add(slot)
        return slot

    def register_size(self, operand: Operand | None) -> int | None:
        """Return the bytes of a declared register; None for other operands, also for special registers."""
        storage = self._index.get(operand.name) if isinstance(operand, Register) else None
        return None if storage is None else self.storages[storage].dtype.itemsize

    def operands(self, instruction: Instruction, count: int, *, most: int | None = None) -> tuple[Operand | None, ...]:
        """Return the operands of an instruction. An unused result, `_`, is None.

        Raise ArtifactError unless it has `count` operands, or from `count` to `most`.
        """
        if not count <= len(instruction.operands) <= (most or count):
            self.fail(
                instruction,
                f"has {len(instruction.operands)} operands, expected {count}" + (f" to {most}" if most else ""),
            )
        return instruction.operands

    def sources(
        self, instruction: Instruction, type_: str | np.dtype[Any], operands: Sequence[Operand | None]
    ) -> list[int]:
        """Return the slots of operands that an instruction reads as one type."""
        return [self.source(instruction, operand, type_) for operand in operands]

    def bind(
        self, instruction: Instruction, target_type: str | np.dtype[Any], *source_types: str | np.dtype[Any]
    ) -> tuple[int, ...]:
        """Return the slots of `opcode d, a, b, ...;`: of the target d, then of the sources a, b, ...

        Args:
            instruction: The instruction.
            target_type: PTX or NumPy type of d.
            source_types: Type of each of a, b, ...

        Raises:
            ArtifactError: An operand is missing, left over, or not of its type.
        """
        target, *sources = self.operands(instruction, 1 + len(source_types))
        slots = [self.source(instruction, operand, type_) for operand, type_ in zip(sources, source_types, strict=True)]
        return self.target(instruction, target, target_type), *slots

    @property
    def has_prelude(self) -> bool:
        """Whether steps must compute operands before the current instruction: negated predicates, such as !p."""
        return bool(self._prelude)

    def take(self, step: Step) -> Step:
        """Return a closure that computes the instruction's negated operands, if it has any, and then runs `step`."""
        if not self._prelude:
            return step
        compute_operands = self.take_prelude()

        def with_prelude(regs: list[Any]) -> None:
            """Compute the negated operands, then run the instruction."""
            compute_operands(regs)
            step(regs)

        return with_prelude

    def take_prelude(self) -> Step:
        """Return a closure that computes an instruction's negated operands; the next instruction begins without any."""
        prelude, self._prelude = tuple(self._prelude), []

        def run_prelude(regs: list[Any]) -> None:
            """Run the steps of the prelude, which compute one negated operand each."""
            for step in prelude:
                step(regs)

        return run_prelude


def pair(operand: Operand | None) -> tuple[Operand | None, Operand | None]:
    """Return the operands (d, p) of `d|p`, and (d, None) for `d`."""
    return (operand.first, operand.second) if isinstance(operand, RegisterPair) else (operand, None)


def items(operand: Operand | None) -> tuple[Operand | None, ...]:
    """Return the operands of a vector `{a, b}`, or a single operand `a` as a tuple of one."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def _bits(dtype: np.dtype[Any]) -> str:
    """Return the width of a register as messages print it: "32 bits", "a predicate"."""
    if dtype.kind == "V":
        return "128 bits, which no instruction here takes"
    return "a predicate" if dtype == BOOL else f"{8 * dtype.itemsize} bits"
