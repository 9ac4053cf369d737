"""pyd.splice: one shuffle of two vectors."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.alias_scopes import ProductRole
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import address, load, shuffled
from pydispatch.compiler.emit.llvm.types import memory_type_of
from pydispatch.compiler.kernel_ir.types import alignment
from pydispatch.ir.dialects.pyd.splice import SpliceOp


def _splice(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.splice`, which cuts one line from two adjacent ones: `into` = (`low` ++ `high`)[first : first + size].

    A line is a memref of one dimension; all three have the same size. Lines 0 1 2 3 and 4 5 6 7 with `first` 3 give
    3 4 5 6. The code is two loads of whole lines, a shuffle and a store.
    """
    splice = cast(SpliceOp, op)
    low, high, into = map(emitter.memref, (splice.low, splice.high, splice.into))
    if any(line.strides[0] != 1 for line in (low, high, into)):
        raise emitter.error("pyd.splice needs lines that are contiguous")
    (size,), first = into.sizes, splice.first.value.data
    assert isinstance(size, int)
    type_ = f"<{size} x {memory_type_of(into.element)}>"
    low_vector, high_vector = (load(emitter, line, type_, 0, role=ProductRole.UNRELATED) for line in (low, high))
    vector = shuffled(emitter, type_, low_vector, high_vector, range(first, first + size))
    access = f"align {alignment(into.element)}{emitter.access_metadata(into)}"
    emitter.body.emit(f"store {type_} {vector}, ptr {address(emitter, into, 0)}, {access}")


ROWS: dict[str, Lowering] = {"pyd.splice": _splice}
"""Name of an operation → function that emits LLVM IR for it."""
