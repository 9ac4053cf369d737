"""Lowering of invocation ids, shuffles and ballots to LLVM IR for NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.readers import gpu_dimension, integer
from pydispatch.compiler.kernel_ir.simt.shuffle import DOWN, INDEX, XOR
from pydispatch.compiler.kernel_ir.types import bit_width

_MODES = {DOWN: "down", INDEX: "idx", XOR: "bfly"}
"""Mode of a shuffle -> its name in intrinsics."""


def _thread(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.thread_id`."""
    emitter.define(op.results[0], emitter.platform.grid(emitter, "thread", gpu_dimension(op)))


def _join_words(emitter: FunctionEmitter, words: Sequence[str], type_: str) -> str:
    """Emit the integer of the LLVM type `type_` that consists of 32-bit words, the lowest first; return its name."""
    if len(words) == 1:
        return words[0]
    let = emitter.body.let
    result = let(f"zext i32 {words[0]} to {type_}")
    for position, word in enumerate(words[1:], 1):
        high = let(f"shl {type_} {let(f'zext i32 {word} to {type_}')}, {32 * position}")
        result = let(f"or {type_} {result}, {high}")
    return result


def _shuffle(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a shuffle, which reads a value of another lane, to shuffles of its 32-bit words.

    A value whose bits do not fill its last word is extended with zeros, and the result is truncated: an f16 is moved as
    the low half of one word, an f64 as two words.
    """
    type_ = op.results[0].type
    llvm_type, width, let = scalar(type_), bit_width(type_), emitter.body.let
    integer_type, value = f"i{width}", emitter.get(op.operands[0])
    if llvm_type != integer_type:
        value = let(f"bitcast {llvm_type} {value} to {integer_type}")
    word_bits = -(-width // 32) * 32
    words_type = f"i{word_bits}"
    if word_bits != width:
        value = let(f"zext {integer_type} {value} to {words_type}")
    words = [_word(emitter, value, word_bits, start) for start in range(0, word_bits, 32)]
    result = _join_words(emitter, _shuffled_words(emitter, op, words), words_type)
    if word_bits != width:
        result = let(f"trunc {words_type} {result} to {integer_type}")
    if llvm_type != integer_type:
        result = let(f"bitcast {integer_type} {result} to {llvm_type}")
    emitter.define(op.results[0], result)


def _shuffled_words(emitter: FunctionEmitter, op: Operation, words: list[str]) -> list[str]:
    """Emit a shuffle of each 32-bit word, with the mode, offset and participating lanes of `op`; return the results."""
    mode, lanes = _MODES[integer(op, "mode")], integer(op, "lanes")
    participants = (1 << lanes) - 1  # one bit for each lane that takes part: lanes 0 to `lanes` - 1
    signed_mask = participants - (1 << 32) if participants >> 31 else participants  # as LLVM prints an i32
    # The lane to read, or its distance from the reading lane: an operand, or an attribute if it is constant.
    source = emitter.get(op.operands[1]) if len(op.operands) > 1 else str(integer(op, "offset"))
    # In all three modes (`_MODES`), an invocation that would read a lane after `last_lane` reads its own value instead.
    # Without this limit it would read a lane that does not take part, whose value is undefined.
    last_lane = str(lanes - 1)
    arguments = (("i32", source), ("i32", last_lane))
    name = f"llvm.nvvm.shfl.sync.{mode}.i32"
    return [emitter.intrinsic(name, "i32", ("i32", str(signed_mask)), ("i32", word), *arguments) for word in words]


def _word(emitter: FunctionEmitter, value: str, bits: int, start: int) -> str:
    """Emit the 32-bit word that begins at bit `start` of an integer of `bits` bits."""
    if bits == 32:
        return value
    shifted = emitter.body.let(f"lshr i{bits} {value}, {start}") if start else value
    return emitter.body.let(f"trunc i{bits} {shifted} to i32")


def _ballot(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.ballot`, in which all lanes of the warp take part."""
    arguments = (("i32", "-1"), ("i1", emitter.get(op.operands[0])))
    emitter.define(op.results[0], emitter.intrinsic("llvm.nvvm.vote.ballot.sync", "i32", *arguments))


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.shuffle": _shuffle, "gpu.ballot": _ballot}
"""Name of an operation → function that emits LLVM IR for it."""
