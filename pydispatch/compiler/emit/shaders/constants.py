"""Constants of the layout and of the executable as 32-bit words, with one meaning in every shader language.

A scalar of 64 bits is two words, the low one first. A narrower scalar is the low bits of one word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.registers import E, Registers, V
from pydispatch.compiler.kernel_ir.readers import attribute, integer, symbol
from pydispatch.compiler.kernel_ir.types import bit_width


class Constants(Registers[E, V]):
    """Lowerings of reads of constants, those of a dispatch and those of an executable, for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation. E is the type
    of the emitter of an entry point, V the type of a value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def layout_word(self, emitter: E, index: int) -> V:
        """Emit the load of the 32-bit word `index` of the layout constants, which each dispatch passes."""

    @abstractmethod
    def executable_word(self, emitter: E, index: int) -> V:
        """Return the 32-bit word `index` of the executable constants, which are set before the shader is compiled."""

    @abstractmethod
    def joined(self, emitter: E, type_: Attribute, low: V, high: V) -> V:
        """Emit the register of a 64-bit type from its low and its high word."""

    # Lowerings

    def layout_constant(self, emitter: E, op: Operation) -> None:
        """Lower `hal.interface.constant.load`: read a scalar from one or two words, in the entry block, once."""
        ordinal, type_ = integer(op, "ordinal"), op.results[0].type  # ordinal: number of its first word
        count, layout_words = _layout_word_count(emitter, op, ordinal), emitter.layout.constants
        if ordinal + count > layout_words:
            raise emitter.error(
                f"constant {ordinal} of type {type_} lies outside the layout, which has {layout_words} words"
            )
        key = ("constant", ordinal, type_)
        scalar = emitter.at_entry(key, lambda: self._scalar(emitter, type_, count, ordinal, self.layout_word))
        emitter.define(op.results[0], scalar)

    def executable_constant(self, emitter: E, op: Operation) -> None:
        """Lower `hal.executable.constant.load`: read a scalar from the word or words of its key, in the entry block."""
        # The list of keys has one for each word, so that the key of a 64-bit constant is in it twice.
        key, type_, keys = symbol(op, "key"), op.results[0].type, emitter.constant_keys
        if key not in keys:
            raise emitter.error(
                f"executable constant '{key}' has no hal.executable.constant.block",
                f"defined are: {', '.join(keys) or 'none'}",
            )
        ordinal = keys.index(key)
        # An executable constant of type index is always one word, unlike one of the layout (`_layout_word_count`).
        count = 2 if not isinstance(type_, IndexType) and bit_width(type_) > 32 else 1
        if count == 2 and tuple(keys[ordinal : ordinal + 2]) != (key, key):
            raise emitter.error(f"executable constant '{key}' is one 32-bit word, got {type_}")
        scalar = emitter.at_entry(
            ("executable constant", ordinal, type_),
            lambda: self._scalar(emitter, type_, count, ordinal, self.executable_word),
        )
        emitter.define(op.results[0], scalar)

    def _scalar(
        self, emitter: E, type_: Attribute, count: int, ordinal: int, word: Callable[[E, int], V]
    ) -> V:  # fmt: skip
        """Emit a scalar of the type `type_` from one or two words, and return its register.

        Args:
            emitter: Emitter of the entry point.
            type_: Type of the scalar.
            count: Words of the scalar, 1 or 2.
            ordinal: Number of its first word, the low one.
            word: Emits a word by its number.
        """
        width, low = emitter.width(type_), word(emitter, ordinal)
        if width == 64:  # of one word, if it is a 64-bit index: the high half is 0
            high = word(emitter, ordinal + 1) if count == 2 else emitter.constant(0, i32)
            return self.joined(emitter, type_, low, high)
        if width == 1:
            return self.resized(emitter, low, from_width=32, to_width=1)
        if not isinstance(type_, IndexType):
            low = self.sign_extended(emitter, low, bits=bit_width(type_), width=32)
        return self.from_bits(emitter, low, type_)

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            "hal.interface.constant.load": self.layout_constant,
            "hal.executable.constant.load": self.executable_constant,
        }


def _layout_word_count(emitter: ShaderFunction[Any], op: Operation, ordinal: int) -> int:
    """Return how many 32-bit words, 1 or 2, the layout constant that `op` loads takes; it begins at word `ordinal`.

    An index takes the next word as well, unless the layout ends or another constant begins there. In a kernel written
    by hand, whose loads have the attribute `layout`, an index is one word.
    """
    type_ = op.results[0].type
    if not isinstance(type_, IndexType):
        return 2 if bit_width(type_) > 32 else 1
    if attribute(op, "layout") is not None:
        return 1
    others = emitter.ops.get(op.name, ())  # the loads of constants of this kernel
    is_taken = any(integer(other, "ordinal") == ordinal + 1 for other in others if other is not op)
    return 2 if ordinal + 1 < emitter.layout.constants and not is_taken else 1
