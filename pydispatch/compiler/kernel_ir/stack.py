"""Stack memory of a function: its limit, the share that optimizations may use, and what the function allocates."""

from __future__ import annotations

import math
from contextlib import suppress

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp

from pydispatch.compiler.kernel_ir.storage import is_shared_by_workgroup
from pydispatch.compiler.kernel_ir.types import storage_bytes
from pydispatch.errors import CompileError
from pydispatch.ir.core.walk import walk

MAX_STACK_BYTES = 64 << 10
"""Maximum size of the stack memory of a function, in bytes; compilation fails above. Workers may run on small stacks,
whose overflow is not detected."""

MOST_OPTIMIZED_BYTES = 48 << 10
"""Stack memory of a function, in bytes, up to which optimizations move values to the stack. It is less than
`MAX_STACK_BYTES`, as the emitter allocates more after them, such as the arguments of imports: no function may fail to
compile because it was optimized. A smaller value leaves more values in workgroup memory."""


def stack_bytes(function: FuncOp) -> int:
    """Return the bytes that a function allocates on the stack: all that the workgroup does not share."""
    total = 0
    for op in walk(function):
        type_ = op.results[0].type if isinstance(op, memref.AllocOp | memref.AllocaOp) else None
        if isinstance(type_, MemRefType) and type_.has_static_shape() and not is_shared_by_workgroup(op, type_):
            with suppress(CompileError):  # the emitter reports elements that memory cannot hold
                total += storage_bytes(type_.element_type, math.prod(type_.get_shape()))
    return total
