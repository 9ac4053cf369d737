"""Instructions and functions of SPIR-V modules, as every reader of modules has them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pydispatch.formats.spirv.names import Op

Fail = Callable[[int, str], Exception]
"""(index of a word in the module, message) → the error to raise."""


@dataclass(slots=True)
class SpirvInstruction:
    """Instruction of a SPIR-V module, as the readers of modules return it.

    Attributes:
        op: Opcode.
        words: All words of the instruction; the first holds the word count and the opcode.
        at: Index of the first word in the module.
        type_word: Index in `words` of the type id; 0 without one, and before `operands.locate_ids`.
        result_word: Index in `words` of the result id; 0 without one, and before `operands.locate_ids`.
        id_positions: Indices in `words` of the other ids.
    """

    op: int
    words: list[int]
    at: int
    type_word: int = 0
    result_word: int = 0
    id_positions: Sequence[int] = ()

    @property
    def id(self) -> int:
        """Return the id of the result; 0 if there is none."""
        return self.words[self.result_word] if self.result_word else 0

    @property
    def type_id(self) -> int:
        """Id of the result type; 0 if the instruction has none."""
        return self.words[self.type_word] if self.type_word else 0

    def uses(self) -> Iterator[int]:
        """Yield the ids that the instruction uses, including its type."""
        if self.type_word:
            yield self.words[self.type_word]
        for position in self.id_positions:
            yield self.words[position]

    def text(self, position: int, fail: Fail) -> tuple[str, int]:
        """Return the string that starts at the word with index `position`, and the index of the word after it.

        A string is zero-terminated; raise an error of `fail` if the instruction ends before its zero byte.
        """
        raw = bytearray()
        for index in range(position, len(self.words)):
            word_bytes = self.words[index].to_bytes(4, "little")
            text_bytes, zero, _ = word_bytes.partition(b"\0")
            raw += text_bytes
            if zero:
                return raw.decode("utf-8", "replace"), index + 1
        raise fail(self.at + position, "a string without an end")


@dataclass
class SpirvFunction:
    """Function of a SPIR-V module, as the readers of modules return it.

    Attributes:
        head: Its OpFunction.
        parameters: Its OpFunctionParameter instructions.
        body: The other instructions, from the first label on, without OpFunctionEnd; empty for a declaration.
    """

    head: SpirvInstruction
    parameters: list[SpirvInstruction] = field(default_factory=list)
    body: list[SpirvInstruction] = field(default_factory=list)

    def append(self, inst: SpirvInstruction, fail: Fail) -> None:
        """Add a parameter or an instruction of the body; raise an error of `fail` if it may not follow those so far."""
        if inst.op == Op.FUNCTION_PARAMETER:
            if self.body:
                raise fail(inst.at, "a parameter after the beginning of a function")
            self.parameters.append(inst)
        else:
            if not self.body and inst.op != Op.LABEL:
                raise fail(inst.at, f"a function begins with opcode {inst.op}, expected a label")
            self.body.append(inst)


def text_words(text: str) -> list[int]:
    """Encode a string as SPIR-V words: UTF-8, zero-terminated, padded to 4 bytes."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))
