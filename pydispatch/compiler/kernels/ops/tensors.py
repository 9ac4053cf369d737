"""Properties of tensors and buffers of a kernel, and errors at operations that cannot be lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


def unsupported(op: Operation, why: str) -> CompileError:
    """Return the error for an operation that cannot be lowered, located at it; `why` is a clause, such as "it has no
    size", that completes the message.
    """
    return CompileError(f"operation '{op.name}' cannot be compiled into a kernel: {why}", location_of(op))


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """Return the type of a tensor value."""
    assert isinstance(value.type, TensorType)
    return value.type


def collapsed(buffer: SSAValue, dim: int) -> Operation:
    """Build the operation that views a contiguous buffer with dimensions `dim` and `dim + 1` as one.

    The size of dimension `dim + 1` is static.
    """
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    shape = list(type_.get_shape())
    joined_size = shape[dim] * shape[dim + 1] if shape[dim] >= 0 else DYNAMIC_INDEX
    # The dimensions of the buffer that are each dimension of the view, such as [[0], [1, 2], [3]] for `dim` = 1.
    groups = [[i] for i in range(dim)] + [[dim, dim + 1]] + [[i] for i in range(dim + 2, len(shape))]
    return memref.CollapseShapeOp(
        operands=[buffer],
        result_types=[MemRefType(type_.element_type, [*shape[:dim], joined_size, *shape[dim + 2 :]])],
        properties={"reassociation": ArrayAttr([ArrayAttr([IntegerAttr(i, 64) for i in g]) for g in groups])},
    )


def covers(builder: Builder, row: Sequence[Index], indices: Sequence[Index], dims: Sequence[Index]) -> bool:
    """Return whether code that computes one element of a tensor computes a whole row, as its loops run.

    A row is all elements with the same leading indices. The code covers it if its element has these leading indices,
    and each other index is the counter of a loop of its own over the whole dimension. Of a tensor of 8 x 100 elements,
    code at [%r, %j] covers the row [%r] if a loop counts %j from 0 to 100. Code at [%r, 5] does not, nor does code
    inside of an `scf.if`.

    Args:
        builder: Builder of the block with the code.
        row: Leading indices that all elements of the row have.
        indices: Indices of the element that the code computes.
        dims: Sizes of the tensor.
    """
    for level in builder.chain():
        # The block is a branch, which may not run for every element, or memory that it loads from changes in the loop.
        if level.pins_loads:
            return False
    if list(indices[: len(row)]) != list(row):
        return False
    # Each of the other indices is the counter of a loop, and no two have the same loop (as [%j, %j], a diagonal).
    inner = indices[len(row) :]
    counted = [i for i in inner if isinstance(i, SSAValue)]  # others are constants, for dimensions of size 1
    return len(set(counted)) == len(counted) and all(
        builder.is_counter(i, n) for i, n in zip(inner, dims[len(row) :], strict=True)
    )


def zero_attribute(type: Attribute) -> Any:
    """Return the attribute of the constant zero of a scalar type."""
    if isinstance(type, IndexType | IntegerType):
        return IntegerAttr(0, type)
    return FloatAttr(0.0, cast(Any, type))


def body_of(function: func.FuncOp) -> Block:
    """Return the only block of a function."""
    return function.body.block
