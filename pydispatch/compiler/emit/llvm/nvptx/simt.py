"""Lowering of invocation ids and shuffles to LLVM IR for NVIDIA GPUs."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.readers import attribute, integer
from pydispatch.compiler.kernel_ir.simt.shuffle import DOWN
from pydispatch.compiler.kernel_ir.types import bit_width


def _thread(emitter: FunctionEmitter, op: Operation) -> None:
    dimension = attribute(op, "dimension")
    letter = str(getattr(getattr(dimension, "data", None), "value", "x"))
    emitter.define(op.results[0], emitter.platform.grid(emitter, "thread", "xyz".index(letter)))


def _shuffle(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a shuffle to 32-bit shuffles; a narrower value is extended to one word."""
    type_ = op.results[0].type
    spelled, width, let = scalar(type_), bit_width(type_), emitter.body.let
    mode = "down" if integer(op, "mode") == DOWN else "idx"
    participants = (1 << integer(op, "lanes")) - 1
    raw, value = f"i{width}", emitter.get(op.operands[0])
    if spelled != raw:
        value = let(f"bitcast {spelled} {value} to {raw}")
    word_bits = -(-width // 32) * 32
    if word_bits != width:
        value = let(f"zext {raw} {value} to i{word_bits}")
    words = [_word(emitter, value, word_bits, start) for start in range(0, word_bits, 32)]
    arguments = (("i32", str(integer(op, "offset"))), ("i32", "31"))
    mask = ("i32", str(participants - (1 << 32) if participants >> 31 else participants))
    name = f"llvm.nvvm.shfl.sync.{mode}.i32"
    shuffled = [emitter.intrinsic(name, "i32", mask, ("i32", word), *arguments) for word in words]
    result = shuffled[0]
    if word_bits > 32:
        result = let(f"zext i32 {shuffled[0]} to i{word_bits}")
        for position, word in enumerate(shuffled[1:], 1):
            high = let(f"shl i{word_bits} {let(f'zext i32 {word} to i{word_bits}')}, {32 * position}")
            result = let(f"or i{word_bits} {result}, {high}")
    if word_bits != width:
        result = let(f"trunc i{word_bits} {result} to {raw}")
    emitter.define(op.results[0], result if spelled == raw else let(f"bitcast {raw} {result} to {spelled}"))


def _word(emitter: FunctionEmitter, value: str, bits: int, start: int) -> str:
    """Emit the 32-bit word of an integer that begins at bit `start`."""
    if bits == 32:
        return value
    shifted = emitter.body.let(f"lshr i{bits} {value}, {start}") if start else value
    return emitter.body.let(f"trunc i{bits} {shifted} to i32")


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.shuffle": _shuffle}
