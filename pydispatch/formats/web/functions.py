"""Functions of a host program as data for a page, and what keeps a program out of one."""

from __future__ import annotations

from typing import Any

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.program.commands import COMMANDS, Copy, Dispatch, Fill, words_of
from pydispatch.formats.program.opcodes import HIGH_WORD, NONE, OPCODES, BufferKind, Opcode, dtype_name, element_bits
from pydispatch.formats.program.text import ProgramText

Json = dict[str, Any]

_PAGE_MATH = {
    Opcode.FADD,
    Opcode.FSUB,
    Opcode.FMUL,
    Opcode.FDIV,
    Opcode.FNEG,
    Opcode.FCVT,
    Opcode.SITOFP,
    Opcode.UITOFP,
}
_PAGE_FORMATS = (32, 64)
_FLOATS = set(range(Opcode.FADD, Opcode.ABS))


class WebProgram(ProgramText):
    """Printer of a host program as JSON for pydispatch.js."""

    def functions(self) -> list[Json]:
        """Return all functions in order; raise InvalidArgumentError if a public one cannot run in a page."""
        w = self.words
        for record in self.table(w[15], w[16], 16):
            name = self.string(record[0], record[1])
            if record[4] & 1:
                raise InvalidArgumentError(
                    f"@{name} is a procedure (it has loops or branches on values, reads elements, or uses globals); "
                    "a page runs functions whose commands follow from the shapes alone"
                )
        if w[20]:
            raise InvalidArgumentError("the program has initializers of globals, which a page does not run")
        for name, _ in self.commands():
            raise InvalidArgumentError(f"the program calls the host command '{name}'; a page has no host commands")
        return [self._function(record) for record in self.table(w[13], w[14], 20)]

    def constants(self) -> list[Json]:
        """Return the source of each constant: a range of a member, or a result of a function.

        Raises InvalidArgumentError for a constant that is supplied when the program is loaded.
        """
        parameters = self.table(self.words[23], self.words[24], 8)
        functions = self.table(self.words[13], self.words[14], 20)
        constants: list[Json] = []
        for c in self.table(self.words[11], self.words[12], 8):
            if c[6] != NONE:
                name = self.parameter(parameters[c[6]]) if c[6] < len(parameters) else f"parameter {c[6]}"
                raise InvalidArgumentError(f"{name} is given at load; a page needs weights that are in the artifact")
            size = c[4] | c[5] << 32
            constants.append({"member": self.string(c[0], c[1]), "offset": c[2] | c[3] << 32, "bytes": size})
        for function, first, *_ in self.table(self.words[25], self.words[26], 4):
            if function >= len(functions) or first + functions[function][8] > len(constants):
                raise ArtifactError(f"program.bin: constants {first} and up are derived by no function of the program")
            for i in range(functions[function][8]):
                constants[first + i] = {"function": function, "result": i, "bytes": constants[first + i]["bytes"]}
        return constants

    def exports(self) -> list[tuple[int, int, int]]:
        """Return the executable, the ordinal and the number of constants of each export."""
        return [(x[0], x[1], x[4]) for x in self.table(self.words[7], self.words[8], 6)]

    def executables(self) -> list[tuple[int | None, list[int | None]]]:
        """Return the functions of each executable, None for none.

        The first computes the constants. The others, one per variant, return whether the variant supports the device.
        """

        def value_of(word: int) -> int | None:
            return None if word == NONE else word

        return [
            (value_of(e[2]), [value_of(c) for (c,) in self.table(e[3], e[4], 1)])
            for e in self.table(self.words[5], self.words[6], 6)
        ]

    def queries(self) -> list[Json]:
        return [
            {"category": self.string(q[0], q[1]), "key": self.string(q[2], q[3]), "default": str(q[4] | q[5] << 32)}
            for q in self.table(self.words[9], self.words[10], 8)
        ]

    def _function(self, record: tuple[int, ...]) -> Json:
        """Return a function's record as JSON."""
        name = self.string(record[0], record[1])
        pool = [word for (word,) in self.table(record[13], record[14], 1)]
        arguments, results = [], []
        for a in self.table(record[5], record[6], 8):
            halves = words_of(pool, a[3], 2 * a[2])
            sizes = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
            shape = None if a[0] else [-1 if size >> 63 else size for size in sizes]
            arguments.append({"name": self.string(a[4], a[5]), "type": dtype_name(a[1]), "shape": shape, **_bits(a[1])})
        for x in self.table(record[7], record[8], 8):
            where = {"shape": None, "register": x[6]} if x[0] else {"shape": words_of(pool, x[3], x[2]), "buffer": x[6]}
            results.append({"name": self.string(x[4], x[5]), "type": dtype_name(x[1]), **where, **_bits(x[1])})
        buffers = []
        for b in self.table(record[9], record[10], 6):
            kind = BufferKind(b[0]).name.lower() if b[0] < len(BufferKind) else "unknown"
            buffers.append({"kind": kind, "index": b[1], "bytes": None if b[2] == NONE else b[2]})
        return {
            "name": name, "public": bool(record[4] & 1), "signature": self.string(record[2], record[3]),
            "arguments": arguments, "results": results, "buffers": buffers,
            "code": [self._code(words, pool, name) for words in self.table(record[11], record[12], 5)],
        }  # fmt: skip

    def _code(self, words: tuple[int, ...], pool: list[int], where: str) -> Json:
        """Return an instruction as JSON; raise InvalidArgumentError if pages cannot execute it. `where` is the
        function's name."""
        op, modifier = OPCODES.get(words[0] & 0xFFFF), words[0] >> 16
        dst, a, b, c = words[1:]
        if op is None:
            raise ArtifactError(f"program.bin: @{where} has the unknown opcode {words[0] & 0xFFFF}")
        if op in COMMANDS:
            return self._command(COMMANDS[op](pool, a))
        name = op.name.lower()
        if op is Opcode.CONST:
            return {"op": name, "to": dst, "value": str(_signed(b | c << 32))}
        if op in (Opcode.CHECK, Opcode.CHECK_EQ):
            return {"op": name, "a": a, "b": b, "message": self.string(*words_of(pool, c, 2))}
        formats = [modifier, b] if op is Opcode.FCVT else [modifier]
        if op in _FLOATS and (op not in _PAGE_MATH or any(element not in _PAGE_FORMATS for element in formats)):
            raise InvalidArgumentError(
                f"@{where} computes {name} of {modifier} bits on the host; a page computes integers, and sums, "
                "products and conversions of f32 and f64"
            )
        instruction: Json = {"op": name, "to": dst, "a": a, "b": b, "c": c, "width": modifier}
        if op is Opcode.CMP:
            instruction |= {"width": modifier & 0xFF, "predicate": modifier >> 8}
        return instruction

    def _command(self, command: Any) -> Json:
        """Return a dispatch, fill or copy as JSON."""
        if isinstance(command, Dispatch):
            return {
                "op": "dispatch", "export": command.export, "grid": list(command.grid),
                "constants": [[k & ~HIGH_WORD, 32 if k & HIGH_WORD else 0] for k in command.constants],
                "bindings": [[b.buffer, _register(b.offset), _register(b.length)] for b in command.bindings],
            }  # fmt: skip
        if isinstance(command, Fill):
            to = command.target
            return {
                "op": "fill", "to": [to.buffer, _register(to.offset), _register(to.length)],
                "pattern": command.pattern, "patternBytes": command.pattern_bytes,
            }  # fmt: skip
        assert isinstance(command, Copy)
        return {
            "op": "copy", "from": [command.source, _register(command.source_offset)],
            "to": [command.target, _register(command.target_offset)], "bytes": command.length,
        }  # fmt: skip


def _register(word: int) -> int | None:
    return None if word == NONE else word


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _bits(dtype: int) -> dict[str, int]:
    return {"bits": element_bits(dtype)}
