"""Prints a host program (docs/program.md) for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.commands import COMMANDS, words_of
from pydispatch.formats.program.opcodes import MATH_FUNCTIONS, NONE, OPCODES, Access, BufferKind, Opcode, dtype_name
from pydispatch.formats.program.procedure_text import ProcedureText
from pydispatch.formats.program.records import Records
from pydispatch.formats.program.steps import CheckKind
from pydispatch.formats.program.tables import HostOperand

HEADER = 32
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


class ProgramText(Records):
    """Printer of a host program."""

    def render(self) -> str:
        """Return the text of the whole program, table by table."""
        w = self.words
        lines = []
        executables = self.table(w[5], w[6], 6)
        for i, e in enumerate(executables):
            conditions = [str(c[0]) if c[0] != NONE else "always" for c in self.table(e[3], e[4], 1)]
            constants = "" if e[2] == NONE else f", constants from function {e[2]}"
            name = self.string(e[0], e[1])
            lines.append(f"executable {i} @{name}: variant conditions [{', '.join(conditions)}]{constants}")
        for i, x in enumerate(self.table(w[7], w[8], 6)):
            owner = executables[x[0]] if x[0] < len(executables) else None
            name = self.string(owner[0], owner[1]) if owner else "?"
            export = self.string(x[2], x[3])
            lines.append(f"export {i} @{name}::@{export}: ordinal {x[1]}, {x[4]} constants, {x[5]} bindings")
        for i, q in enumerate(self.table(w[9], w[10], 8)):
            key = f'"{self.string(q[0], q[1])}" :: "{self.string(q[2], q[3])}"'
            lines.append(f"query {i} {key}, default {q[4] | q[5] << 32}")
        parameters = self.table(w[23], w[24], 8)
        derived = self.derived()
        for i, c in enumerate(self.table(w[11], w[12], 8)):
            where = f"{self.string(c[0], c[1])} at {c[2] | c[3] << 32}"
            if i in derived:
                where = f"derived by function {derived[i]}"
            elif c[6] != NONE:
                where = self.parameter(parameters[c[6]]) if c[6] < len(parameters) else f"parameter {c[6]}"
            lines.append(f"constant {i} {where}, {c[4] | c[5] << 32} bytes")
        for i, g in enumerate(self.table(w[17], w[18], 12)):
            lines.append(f"global {i} " + self.state(g))
        for i, k in enumerate(self.table(w[21], w[22], 12)):
            kind = CheckKind(k[0]).name.lower() if k[0] < len(CheckKind) else f"kind {k[0]}"
            lines.append(f"check {i} {kind} {self.string(k[1], k[2])} at {self.string(k[3], k[4])}")
        lines += self.command_lines()
        for record in self.table(w[13], w[14], 20):
            lines += self.function(record)
        names = [self.string(r[0], r[1]) for r in self.table(w[13], w[14], 20)]
        for record in self.table(w[15], w[16], 16):
            lines += ProcedureText(self, names).render(record)
        for (i,) in self.table(w[19], w[20], 1):
            lines.append(f"initializer: procedure {i}")
        return "\n".join(lines) + "\n"

    def derived(self) -> dict[int, int]:
        """Return, for each constant that is computed at load, the number of the function that computes it."""
        functions, computed_by = self.table(self.words[13], self.words[14], 20), {}
        for function, first, *_ in self.table(self.words[25], self.words[26], 4):
            count = functions[function][8] if function < len(functions) else 1
            computed_by.update(dict.fromkeys(range(first, first + min(count, self.words[12])), function))
        return computed_by

    def command_lines(self) -> list[str]:
        return [f"host command {i} {name}{signature_text(o)}" for i, (name, o) in enumerate(self.commands())]

    def commands(self) -> list[tuple[str, list[HostOperand]]]:
        """Return the names and operands of the host commands that the program calls."""
        commands = []
        for c in self.table(self.words[27], self.words[28], 6):
            operands = []
            for kind, access, dtype, rank, at, _ in self.table(c[2], c[3], 6):
                halves = [low | high << 32 for low, high in self.table(at, rank, 2)]
                sizes = None if kind else tuple(-1 if size >> 63 else size for size in halves)
                if access not in {int(flag) for flag in Access}:
                    raise ArtifactError(f"program.bin: access {access} to an operand of a host command does not exist")
                operands.append(HostOperand(dtype, sizes, Access(access)))
            commands.append((self.string(c[0], c[1]), operands))
        return commands

    def shape(self, offset: int, rank: int) -> str:
        """Return a shape as text, such as `2x?x`, from `rank` sizes of two words each."""
        dims = [low | high << 32 for low, high in self.table(offset, rank, 2)]
        return "".join(f"{'?' if d >> 63 else d}x" for d in dims)

    def parameters(self) -> list[dict[str, Any]]:
        """Return scope, key, type and shape of each parameter, as in the manifest."""
        return [
            {
                "scope": self.string(p[0], p[1]),
                "key": self.string(p[2], p[3]),
                "type": dtype_name(p[4]),
                "shape": [low | high << 32 for low, high in self.table(p[6], p[5], 2)],
            }
            for p in self.table(self.words[23], self.words[24], 8)
        ]

    def parameter(self, record: tuple[int, ...]) -> str:
        name = f'"{self.string(record[0], record[1])}" :: "{self.string(record[2], record[3])}"'
        return f"parameter {name} {self.shape(record[6], record[5])}{dtype_name(record[4])}"

    def state(self, record: tuple[int, ...]) -> str:
        """Return the text of a global's record."""
        shape = "scalar " if record[2] else self.shape(record[5], record[4])
        value = record[7] | record[8] << 32
        start = f" = {value - (1 << 64) if value >> 63 else value}" if record[2] else ""
        start = f" = constant {record[6]}" if not record[2] and record[6] != NONE else start
        mutable, name = "mutable " if record[9] & 1 else "", self.string(record[0], record[1])
        return f"{mutable}@{name}: {shape}{dtype_name(record[3])}{start}"

    def function(self, record: tuple[int, ...]) -> list[str]:
        """Return the lines of a function's record: signature, buffers, instructions, results."""
        visibility = "public" if record[4] & 1 else "private"
        lines = [
            f"function {visibility} @{self.string(record[0], record[1])} {self.string(record[2], record[3])}".rstrip()
        ]
        flat = [word for (word,) in self.table(record[13], record[14], 1)]
        for i, a in enumerate(self.table(record[5], record[6], 8)):
            halves = words_of(flat, a[3], 2 * a[2])
            dims = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
            shape = "".join(f"{'?' if d >> 63 else d}x" for d in dims)
            lines.append(f"  argument {i} {self.string(a[4], a[5])}: {'scalar ' if a[0] else shape}{dtype_name(a[1])}")
        for i, b in enumerate(self.table(record[9], record[10], 6)):
            size = "" if b[2] == NONE else f", r{b[2]} bytes"
            kind = BufferKind(b[0]).name.lower() if b[0] < len(BufferKind) else f"kind {b[0]}"
            tile = f", {b[5]} bytes a tile" if b[5] else ""
            lines.append(f"  buffer {i}: {kind} {b[1]}{size}, regions {b[3]}..{b[4]}{tile}")
        for instruction in self.table(record[11], record[12], 5):
            lines.append("  " + self.instruction(instruction, flat))
        for i, x in enumerate(self.table(record[7], record[8], 8)):
            if x[0]:
                lines.append(f"  result {i}: {dtype_name(x[1])} = r{x[6]}")
            else:
                shape = "".join(f"[r{register}]x" for register in words_of(flat, x[3], x[2]))
                tied = f", may take over argument {x[7] - 1}" if x[7] else ""
                lines.append(f"  result {i}: {shape}{dtype_name(x[1])} in buffer {x[6]}{tied}")
        return lines

    def chains(self) -> list[tuple[str, list[str]]]:
        """Return pairs (function, exports), one per tile-fused dispatch sequence, in order."""
        exports = [f"@{self.string(x[2], x[3])}" for x in self.table(self.words[7], self.words[8], 6)]
        chains: list[tuple[str, list[str]]] = []
        for record in self.table(self.words[13], self.words[14], 20):
            flat = [word for (word,) in self.table(record[13], record[14], 1)]
            known: dict[int, int] = {}
            begun: list[str] = []
            for opcode, dst, a, b, c in self.table(record[11], record[12], 5):
                if opcode == Opcode.CONST:
                    known[dst] = b | c << 32
                elif opcode & 0xFFFF == Opcode.DISPATCH:
                    ordinal = known.get(words_of(flat, a, 1)[0], NONE)
                    name = exports[ordinal] if ordinal < len(exports) else "one of several exports"
                    if opcode >> 16:
                        begun.append(name)
                        continue
                    begun = [name]
                    chains.append((self.string(record[0], record[1]), begun))
        return [(function, names) for function, names in chains if len(names) > 1]

    def instruction(self, words: tuple[int, ...], pool: list[int]) -> str:
        """Return the text of one instruction."""
        opcode, modifier = words[0] & 0xFFFF, words[0] >> 16
        dst, a, b, c = words[1:]
        op = OPCODES.get(opcode)
        if op is None:
            return f"unknown opcode {opcode}"
        name = op.name.lower()
        if op is Opcode.CONST:
            value = b | c << 32
            return f"r{dst} = {value - (1 << 64) if value >> 63 else value}"
        if op is Opcode.DIM:
            return f"r{dst} = dim {b} of argument {a}"
        if op in (Opcode.SCALAR, Opcode.QUERY, Opcode.VARIANT):
            return f"r{dst} = {name} {a}" + (" exists" if modifier else "")
        if op in (Opcode.CHECK_EQ, Opcode.CHECK):
            condition = f"r{a} == r{b}" if op is Opcode.CHECK_EQ else f"r{a}"
            return f"check {condition}, {self.string(*words_of(pool, c, 2))!r}"
        if op in COMMANDS:
            chain = f", {b} workgroups a tile" if op is Opcode.DISPATCH and b else ""
            return f"region {c}: {COMMANDS[op](pool, a)}{chain}{' of the same chain' if modifier else ''}"
        if op in (Opcode.CMP, Opcode.FCMP):
            predicate = PREDICATES[modifier >> 8] if op is Opcode.CMP and modifier >> 8 < 10 else str(modifier >> 8)
            return f"r{dst} = {name}.{modifier & 0xFF} {predicate} r{a}, r{b}"
        values = zip("abc", (a, b, c), strict=True)
        operands = [f"r{value}" for operand, value in values if operand in op.registers]
        if op is Opcode.FMATH:
            operands.append(MATH_FUNCTIONS[b] if b < len(MATH_FUNCTIONS) else str(b))
        elif op in (Opcode.FCVT, Opcode.SITOFP, Opcode.UITOFP, Opcode.FPTOSI, Opcode.FPTOUI):
            operands.append(f"from {b}")
        return f"r{dst} = {name}{f'.{modifier}' if modifier else ''} {', '.join(operands)}"


def signature_text(operands: Sequence[HostOperand]) -> str:
    """Return the operands of a host command as text, such as `(?xf32, 4xf32 written, i32)`."""

    def one(operand: HostOperand) -> str:
        shape = "".join(f"{'?' if size < 0 else size}x" for size in operand.sizes or ())
        return f"{shape}{dtype_name(operand.dtype)}{operand.access.label}"

    return f"({', '.join(map(one, operands))})"


def chains_of(program: bytes | memoryview) -> list[tuple[str, list[str]]]:
    """Return pairs (function, exports), one per tile-fused dispatch sequence; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).chains()
    except ArtifactError:  # loading reports the fault
        return []


def commands_of(program: bytes | memoryview) -> list[tuple[str, list[HostOperand]]]:
    """Return the names and operands of the host commands of a program; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).commands()
    except ArtifactError:  # loading reports the fault
        return []


def parameters_of(program: bytes | memoryview) -> list[dict[str, Any]]:
    """Return the parameters of a program, as in the manifest; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).parameters()
    except ArtifactError:  # loading reports the fault
        return []
