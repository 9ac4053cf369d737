"""Operand patterns that state which words of a SPIR-V instruction are ids, for renumbering a module.

The patterns follow the machine-readable grammar of SPIR-V 1.6, for the instructions that compute shaders use: T type of
the result, R result, I id, L literal word, S string, M memory access, G image operands, C loop control, W cases of a
switch, P operation of a specialization constant; `?` optional, `*` any number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from pydispatch.formats.spirv.instruction import Fail, SpirvInstruction
from pydispatch.formats.spirv.names import Op

PATTERNS = {
    "TRII": "77 86 103 105 128-152 161-167 170-191 194-199 334-336 338-340 343-344 401-403 4432 5631",
    "TRI": "69 83-84 100-102 104 106-107 109-122 124 126-127 154-160 168 200 204-205 207-215 300 316 321 333 400 "
           "4421-4422 4428-4430 5056",
    "TRIII": "60 78 169 202-203 227 232-233 304 318 337 341 345-348 365-366",
    "TRILII?": "349-364",
    "TRIIII": "201 229 234-242 5614-5615 6035",
    "": "0 56 218-219 252-253 255 317 4416 5380",
    "TR": "1 41-42 46 48-49 55 303 5381",
    "TRIIG?": "87 91 95 98 305 309 313 320",
    "TRIIIG?": "89 93 96-97 307 311 314-315",
    "R": "19-20 26 73 248",
    "I": "220-221 249 254 5630",
    "TRI*": "44 51 80 245",
    "TRIIG": "88 92 306 310",
    "TRIIIG": "90 94 308 312",
    "S": "2 4 10 330",
    "RS": "7 11 31",
    "IL*": "16 71 75",
    "TRII*": "57 65-66",
    "III": "224 302 319",
    "TRIIL?": "4450-4452",
    "TRIIIL?": "4453-4455",
    "RIL": "23-24",
    "RI": "27 29",
    "IL": "39 247",
    "TRL*": "43 50",
    "TRIII*": "67 70",
    "TRIL": "68 123",
    "TRIIL*": "79 82",
    "II": "225 301",
    "TRIIIIII": "230-231",
    "ILI*": "331-332",
    "LLI?S?": "3",
    "IS": "5",
    "ILS": "6",
    "ILL": "8",
    "TRILI*": "12",
    "LL": "14",
    "LISI*": "15",
    "L": "17",
    "RLL": "21",
    "RLL?": "22",
    "RILLLLLLL?": "25",
    "RII": "28",
    "RI*": "30",
    "RLI": "32",
    "RII*": "33",
    "TRLLL": "45",
    "TRP": "52",
    "TRLI": "54",
    "TRLI?": "59",
    "TRIM?": "61",
    "IIM?": "62",
    "IIM?M?": "63",
    "IIIM?M?": "64",
    "ILL*": "72 5632",
    "ILLL*": "5633",
    "II*": "74",
    "TRIL*": "81",
    "IIIG?": "99",
    "IIII": "228",
    "IIC": "246",
    "IIIL*": "250",
    "IIW": "251",
    "TRILI": "342",
}  # fmt: skip
"""Pattern of operands → the opcodes with these operands: numbers and ranges of numbers, both ends included.

A pattern has a letter for each operand: T type of the result, R result, I id, L literal word, S string, M memory
access, G image operands, C loop control, W cases of a switch, P operation of a specialization constant. `?` follows an
optional operand, `*` one that occurs any number of times."""

WRITTEN_POINTERS: dict[int, int] = {
    Op.STORE: 1, Op.COPY_MEMORY: 1, Op.COPY_MEMORY_SIZED: 1, Op.ATOMIC_STORE: 1, Op.ATOMIC_FLAG_CLEAR: 1,
    Op.ATOMIC_FLAG_TEST_AND_SET: 3, Op.ATOMIC_F_MIN: 3, Op.ATOMIC_F_MAX: 3, Op.ATOMIC_F_ADD: 3,
    **dict.fromkeys(range(Op.ATOMIC_EXCHANGE, Op.ATOMIC_LAST + 1), 3),
}  # fmt: skip
"""Opcode of an instruction that writes memory → index of the word with the pointer to it."""

_PLAIN_OPERANDS = frozenset("TRIL*?")
"""Letters of patterns whose operands take one word each: type, result, id, literal, repetition, optional."""
_MAX_CACHED_WORDS = 32
"""Maximum number of words of an instruction whose operand positions are cached; those of a longer one are computed
each time."""
_KNOWN_MEMORY_BITS = 0x3F
"""Bits of memory operands whose further words are known; a mask with other bits is refused."""
_MEMORY_ALIGNED = 0x2  # bit of the mask of memory operands: a literal follows, the alignment
_MEMORY_IDS = (0x8, 0x10)
"""Bits of the mask of memory operands that an id follows: the scope of MakePointerAvailable or MakePointerVisible."""
_IMAGE_ID_COUNTS = {0x1: 1, 0x2: 1, 0x4: 2, 0x8: 1, 0x10: 1, 0x20: 1, 0x40: 1, 0x80: 1, 0x100: 1, 0x200: 1, 0x10000: 1}
"""Bit of a mask of image operands → number of ids that follow the mask for it. The ids have the order of the bits: 0x4
is Grad, with two derivatives."""
_IMAGE_FLAGS = 0xC00 | 0x1000 | 0x2000 | 0x4000
"""Bits of a mask of image operands that have no ids, such as SignExtend (0x1000)."""


@functools.cache
def patterns() -> dict[int, str]:
    """Return the operand pattern of each opcode: PATTERNS, with each range of opcodes expanded."""
    by_opcode: dict[int, str] = {}
    for pattern, text in PATTERNS.items():
        for part in text.split():
            low, _, high = part.partition("-")
            by_opcode.update(dict.fromkeys(range(int(low), int(high or low) + 1), pattern))
    return by_opcode


def _no_words(selector: int) -> int:
    """Fail, as the `case_words` of a walk for the cache: an OpSwitch, which alone has case literals, is not cached."""
    raise AssertionError(selector)


Positions = tuple[int, int, tuple[int, ...]]
"""Indices in an instruction's words of its type, of its result (0 for none), and of the other ids."""


@functools.lru_cache(maxsize=4096)
def _positions_by_length(opcode: int, count: int) -> Positions | None:
    """Return the positions of ids in an instruction of `count` words; None if they depend on the values of its words.

    Such an instruction has strings, masks or other operands that determine which words follow.
    """
    pattern = patterns().get(opcode)
    if pattern is None or count > _MAX_CACHED_WORDS or not _PLAIN_OPERANDS.issuperset(pattern):
        return None
    any_words = list(range(count))  # the values do not matter: no operand of a plain pattern determines what follows
    inst = SpirvInstruction(opcode, any_words, at=0)
    try:
        return _walked_positions(inst, fail=lambda index, message: ValueError(message), case_words=_no_words)
    except ValueError:  # too few or too many words: locate_ids() walks again, for an error with the index
        return None


def locate_ids(inst: SpirvInstruction, bound: int, fail: Fail, case_words: Callable[[int], int]) -> None:
    """Set `type_word`, `result_word` and `id_positions` of an instruction, and check that its ids are below the bound.

    The words of `%4 = OpAccessChain %2 %3 %5` are the opcode, 2, 4, 3 and 5: `type_word` is 1, `result_word` 2, and
    `id_positions` (3, 4).

    Args:
        inst: The instruction.
        bound: Bound of the module's ids.
        fail: (index of a word in the module, message) → the exception to raise if the operands do not fit the opcode,
            an id is out of bounds, or the opcode is unknown.
        case_words: Id of the selector of an OpSwitch → number of words of a literal in its cases: 2 for a selector of
            64 bits, else 1.
    """
    # Where each operand is one word, the opcode and the number of words determine the positions, which are cached.
    # Other instructions, with masks, strings, cases or very many words, are walked operand by operand.
    layout = _positions_by_length(inst.op, len(inst.words))
    if layout is None:
        if inst.op not in patterns():
            raise fail(inst.at, f"opcode {inst.op}, which the linker does not know")
        layout = _walked_positions(inst, fail, case_words)
    inst.type_word, inst.result_word, inst.id_positions = layout
    for position in (inst.type_word, inst.result_word, *inst.id_positions):
        if position and not 0 < inst.words[position] < bound:
            raise fail(inst.at + position, f"id {inst.words[position]}, the bound is {bound}")


def _walked_positions(inst: SpirvInstruction, fail: Fail, case_words: Callable[[int], int]) -> Positions:
    """Return the positions of ids by walking over the operands along the opcode's pattern.

    Where the pattern has masks or strings, their values determine how many words follow.
    `case_words` returns the number of words of a case literal of an OpSwitch, from the id of its selector.
    """
    walk = _Walk(inst, fail, case_words)
    walk.consume_pattern(patterns()[inst.op])
    return walk.type_position, walk.result_position, tuple(walk.id_positions)


class _Walk:
    """Walk over the operands of one instruction along its pattern; collects the positions of ids.

    `consume_pattern` is called once with the pattern, a key of `PATTERNS`. The attributes below then have the
    positions: indices in the words of the instruction, whose word 0 is the opcode.

    Attributes:
        words: Words of the instruction.
        opcode: Its opcode.
        index_in_module: Index of its word 0 in the module, for messages.
        next: Position of the next word to consume.
        end: Number of its words, the position after the last one.
        type_position: Position of the type of the result; 0 for none.
        result_position: Position of the id of the result; 0 for none.
        id_positions: Positions of the other ids.
    """

    def __init__(self, inst: SpirvInstruction, fail: Fail, case_words: Callable[[int], int]) -> None:
        """Begin after the opcode of `inst`.

        Args:
            inst: The instruction.
            fail: (index of a word in the module, message) → the error to raise.
            case_words: Id of a switch's selector → number of words of a literal in its cases.
        """
        self.words, self.opcode = inst.words, inst.op
        self.index_in_module = inst.at
        self.next, self.end = 1, len(inst.words)  # positions in `words`, whose word 0 is the opcode
        self.fail = fail
        self.case_words = case_words
        self.type_position = self.result_position = 0  # 0: the instruction has none
        self.id_positions: list[int] = []

    def consume_pattern(self, pattern: str) -> None:
        """Consume the operands of a pattern, which must be all words of the instruction.

        The pattern of OpLoad, "TRIM?", consumes the type, the result, the id of the pointer and, if words are left,
        memory operands. "TRI*", that of OpCompositeConstruct, consumes all words after the result as ids.
        """
        for kind, mark in re.findall(r"([A-Z])([*?]?)", pattern):  # "RI*" has the pairs ("R", "") and ("I", "*")
            if mark == "*":
                while self.next < self.end:
                    self.consume(kind)
            elif mark == "?":
                if self.next < self.end:
                    self.consume(kind)
            else:
                self.consume(kind)
        if self.next != self.end:
            raise self.fail(
                self.index_in_module, f"opcode {self.opcode} has {self.end - self.next} operand words too many"
            )

    def word(self) -> int:
        """Consume one word and return it."""
        if self.next >= self.end:
            raise self.fail(self.index_in_module, f"opcode {self.opcode} has {self.end} words, which are too few")
        word = self.words[self.next]
        self.next += 1
        return word

    def consume(self, kind: str) -> None:
        """Consume one operand of the kind that a pattern letter denotes, and record the positions of ids.

        I, L, T and R are operands of one word. S is a string. The others have a variable number of words: memory
        operands (M), image operands (G), the control of a loop (C), the cases of a switch (W), and the operation of an
        OpSpecConstantOp with its operands (P).
        """
        if kind == "I":  # an id
            self.id_positions.append(self.next)
            self.word()
        elif kind == "L":  # a literal word
            self.word()
        elif kind == "T":  # the id of the result's type
            self.type_position = self.next
            self.word()
        elif kind == "R":  # the id of the result
            self.result_position = self.next
            self.word()
        elif kind == "S":  # a string, whose last word has a zero byte
            while 0 not in self.word().to_bytes(4, "little"):
                pass
        else:
            consume = {
                "M": self._consume_memory_operands, "G": self._consume_image_operands, "C": self._consume_loop_control,
                "W": self._consume_switch_cases, "P": self._consume_constant_operation,
            }[kind]  # fmt: skip
            consume()

    def _consume_memory_operands(self) -> None:
        """Consume memory operands: a mask, the alignment if the mask has the bit Aligned, and an id for each of the
        bits MakePointerAvailable and MakePointerVisible."""
        mask = self.word()
        if mask & ~_KNOWN_MEMORY_BITS:
            raise self.fail(self.index_in_module, f"memory access 0x{mask:X}, which the linker does not know")
        if mask & _MEMORY_ALIGNED:
            self.word()
        for bit in _MEMORY_IDS:
            if mask & bit:
                self.consume("I")

    def _consume_image_operands(self) -> None:
        """Consume image operands: a mask, then one or two ids for each of its bits that is not a mere flag."""
        mask = self.word()
        unknown = mask & ~_IMAGE_FLAGS
        for bit, id_count in _IMAGE_ID_COUNTS.items():
            if mask & bit:
                unknown &= ~bit
                for _ in range(id_count):
                    self.consume("I")
        if unknown:
            raise self.fail(self.index_in_module, f"image operands 0x{mask:X}, which the linker does not know")

    def _consume_loop_control(self) -> None:
        """Consume loop control, the last operand: a mask, then parameters up to the end, which are all literals."""
        self.word()
        self.next = self.end

    def _consume_switch_cases(self) -> None:
        """Consume the pairs (literal, label) of an OpSwitch."""
        selector = self.words[1]
        words_per_literal = self.case_words(selector)  # depends on the selector's type: 2 for 64 bits, else 1
        while self.next < self.end:
            for _ in range(words_per_literal):
                self.word()
            self.consume("I")  # the label

    def _consume_constant_operation(self) -> None:
        """Consume the operation of an OpSpecConstantOp, an opcode, and the operands that this opcode has.

        They are those of the opcode's pattern without TR: the OpSpecConstantOp itself has the type and the result. The
        operation must not be an OpSpecConstantOp (P).
        """
        opcode = self.word()
        pattern = patterns().get(opcode, "")
        is_excluded = opcode in (Op.FUNCTION_CALL, Op.LOAD, Op.EXT_INST)  # have results, but compute no constants
        if not pattern.startswith("TR") or "P" in pattern or is_excluded:
            raise self.fail(
                self.index_in_module, f"opcode {opcode} in a specialization constant, which the linker does not know"
            )
        self.consume_pattern(pattern.removeprefix("TR"))
