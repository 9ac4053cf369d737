"""Detection of functions that can observe 64-bit indices; all others compute indices in 32 bits."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.scan import Ops

CASTS = ("arith.index_cast", "arith.index_castui")


def index_width(ops: Ops) -> int:
    """Return 64 where a function can tell that indices have 64 bits, else 32.

    It can where it stores an index, makes a wider integer of one, or makes one of a wider integer and an integer of any
    index. Addresses in large buffers are not looked at.
    """
    results = (r.type for same in ops.values() for op in same for r in op.results)
    if any(isinstance(t, MemRefType) and isinstance(t.element_type, IndexType) for t in results):
        return 64
    casts = [(op.operands[0].type, op.results[0].type) for name in CASTS for op in ops.get(name, ())]
    enters = any(_is_wide(given) for given, _ in casts)
    leaves = [made for given, made in casts if isinstance(given, IndexType)]
    return 64 if any(_is_wide(t) for t in leaves) or (enters and leaves) else 32


def _is_wide(type_: Attribute) -> bool:
    return isinstance(type_, IntegerType) and type_.width.data > 32
