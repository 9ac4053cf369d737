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
    taking = (1 << integer(op, "lanes")) - 1
    raw, value = f"i{width}", emitter.get(op.operands[0])
    if spelled != raw:
        value = let(f"bitcast {spelled} {value} to {raw}")
    whole = -(-width // 32) * 32
    if whole != width:
        value = let(f"zext {raw} {value} to i{whole}")
    words = [_word(emitter, value, whole, start) for start in range(0, whole, 32)]
    arguments = (("i32", str(integer(op, "offset"))), ("i32", "31"))
    mask = ("i32", str(taking - (1 << 32) if taking >> 31 else taking))
    name = f"llvm.nvvm.shfl.sync.{mode}.i32"
    moved = [emitter.intrinsic(name, "i32", mask, ("i32", word), *arguments) for word in words]
    result = moved[0]
    if whole > 32:
        result = let(f"zext i32 {moved[0]} to i{whole}")
        for position, word in enumerate(moved[1:], 1):
            high = let(f"shl i{whole} {let(f'zext i32 {word} to i{whole}')}, {32 * position}")
            result = let(f"or i{whole} {result}, {high}")
    if whole != width:
        result = let(f"trunc i{whole} {result} to {raw}")
    emitter.define(op.results[0], result if spelled == raw else let(f"bitcast {raw} {result} to {spelled}"))


def _word(emitter: FunctionEmitter, value: str, whole: int, start: int) -> str:
    if whole == 32:
        return value
    moved = emitter.body.let(f"lshr i{whole} {value}, {start}") if start else value
    return emitter.body.let(f"trunc i{whole} {moved} to i32")


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.shuffle": _shuffle}
