"""Verification of `tensor` operations that xDSL lacks: static sizes, bounds and types.

An invalid program must not compute a wrong result. Therefore static properties are checked here; dynamic ones are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.syntax import DYNAMIC, dynamic_dims
from pydispatch.ir.dialects.linalg.shape import numbers


def shape_of(value: SSAValue) -> tuple[int | None, ...]:
    """Return the sizes of a tensor, None for dynamic ones."""
    assert isinstance(value.type, TensorType)
    return tuple(None if n < 0 else n for n in value.type.get_shape())


def element_of(value: SSAValue) -> Attribute:
    """Return the element type of a tensor."""
    assert isinstance(value.type, TensorType)
    element: Attribute = value.type.element_type
    return element


def _static_numbers(static: DenseArrayBase[Any], dynamic: Sequence[SSAValue], plural: str) -> list[int | None]:
    """Return the numbers of a list such as `[4, %n]`, with None in place of operands: [4, None].

    `static` is then [4, DYNAMIC] and `dynamic` is (%n). Raise VerifyException unless there is an operand for each
    DYNAMIC. `plural` says in the message what the numbers are, such as "offset(s)".
    """
    values = [None if n == DYNAMIC else n for n in numbers(static)]
    if values.count(None) != len(dynamic):
        raise VerifyException(f"{values.count(None)} dynamic {plural} in the list, got {len(dynamic)} value(s)")
    return values


def verify_yield(op: Operation, element: Attribute, *, rank: int) -> None:
    """Check the body of a pad or generate: an index argument per dimension, and one yielded value of type `element`."""
    block = op.regions[0].block
    if len(block.args) != rank:
        raise VerifyException(f"the body takes {len(block.args)} index(es), expected {rank}, one for each dimension")
    terminator = block.last_op
    types = [v.type for v in terminator.operands] if terminator is not None else []
    if types != [element]:
        raise VerifyException(f"the body yields ({', '.join(map(str, types))}), expected ({element})")


def may_be_equal(actual: int | None, expected: int | None) -> bool:
    """Return whether two sizes may be equal; None is a dynamic size."""
    return actual is None or expected is None or actual == expected


def shape_text(shape: Sequence[int | None]) -> str:
    """Return sizes as messages print them, such as "4x?"; None is a dynamic size."""
    return "x".join("?" if n is None else str(n) for n in shape) or "no dimensions"


def _verify_same_element(op: Operation, lhs: SSAValue, rhs: SSAValue) -> None:
    """Verify that two operands or results of `op` have the same element type."""
    if element_of(lhs) != element_of(rhs):
        raise VerifyException(f"{lhs.type} and {rhs.type} differ in their elements")


def _verify_pad(op: tensor.PadOp) -> None:
    """Verify a tensor.pad: its amounts of padding, the shape of the result, and its body."""
    source, result = shape_of(op.source), shape_of(op.result)
    low, high = _static_numbers(op.static_low, op.low, "amounts"), _static_numbers(op.static_high, op.high, "amounts")
    for amounts in (low, high):
        if len(amounts) != len(source):
            raise VerifyException(f"{len(amounts)} amount(s) of padding for {len(source)} dimension(s)")
        if any(n is not None and n < 0 for n in amounts):
            raise VerifyException(f"amounts of padding are not negative, got {shape_text(amounts)}")
    _verify_same_element(op, op.source, op.result)
    padded: list[int | None] = []  # size of the source + padding before and after it; None if one of these is dynamic
    for size, before, after in zip(source, low, high, strict=True):
        padded.append(None if size is None or before is None or after is None else size + before + after)
    # Where the padded size is None, the result may have any size, also a static one.
    if len(result) != len(padded) or any(p is not None and r != p for r, p in zip(result, padded, strict=True)):
        raise VerifyException(f"the result is {op.result.type}, expected the shape {shape_text(padded)}")
    verify_yield(op, element_of(op.source), rank=len(source))


def _verify_slice(op: tensor.ExtractSliceOp | tensor.InsertSliceOp, whole: SSAValue, part: SSAValue) -> None:
    """Verify a slice `part` that is extracted from, or inserted into, `whole`: its rank, element type and bounds.

    Offsets, sizes and strides that are operands are unknown here (None), and are not compared. `part` may lack
    dimensions in which the slice has the size 1: a slice of the sizes 1x4 may be a tensor<4xf32>. Raise VerifyException
    if the slice is invalid.
    """
    offsets = _static_numbers(op.static_offsets, op.offsets, "offset(s)")
    sizes = _static_numbers(op.static_sizes, op.sizes, "size(s)")
    strides = _static_numbers(op.static_strides, op.strides, "stride(s)")
    shape = shape_of(whole)
    if not len(offsets) == len(sizes) == len(strides) == len(shape):
        raise VerifyException(
            f"{len(offsets)} offset(s), {len(sizes)} size(s) and {len(strides)} stride(s) for {whole.type}, "
            f"expected {len(shape)} of each"
        )
    _verify_same_element(op, whole, part)
    # The bounds along each dimension, and the shape of `part`.
    for axis, (offset, size, stride, n) in enumerate(zip(offsets, sizes, strides, shape, strict=True)):
        if size is not None and size < 0:
            raise VerifyException(f"the size {size} of dimension {axis} is negative")
        _check_bounds(axis, offset, size, stride, n)
    if not _is_rank_reduced(sizes, shape_of(part)):
        raise VerifyException(
            f"{part.type} does not have the sizes {shape_text(sizes)}, of which only ones may be left out"
        )


def _check_bounds(axis: int, offset: int | None, size: int | None, stride: int | None, dim_size: int | None) -> None:
    """Check that a slice, from `offset` on `size` elements at a distance of `stride`, is inside a dimension of the size
    `dim_size`, as far as these numbers are static (not None).

    `axis` is the index of the dimension in messages.
    """
    if offset is not None and offset < 0:
        raise VerifyException(f"the offset {offset} of dimension {axis} is negative")
    if stride == 0 and size is not None and size > 1:
        raise VerifyException(f"the stride of dimension {axis} is 0")
    if offset is None or size is None or dim_size is None or size == 0:  # an empty slice has no element out of bounds
        return
    last: int | None
    if size == 1:
        last = offset  # the stride of a single element does not matter
    else:
        last = None if stride is None else offset + (size - 1) * stride
    for element in (offset, last):
        if element is not None and not 0 <= element < dim_size:
            raise VerifyException(f"element {element} of dimension {axis} is outside of its {dim_size} element(s)")


def _is_rank_reduced(sizes: Sequence[int | None], shape: Sequence[int | None]) -> bool:
    """Return whether `shape` is `sizes`, or `sizes` without some of its unit sizes; None is a dynamic size."""
    if not sizes:
        return not shape
    size, *others = sizes
    if shape and may_be_equal(size, shape[0]) and _is_rank_reduced(others, shape[1:]):
        return True  # the shape has the size
    return size == 1 and _is_rank_reduced(others, shape)  # the shape lacks the unit size


def _verify_extract_slice(op: tensor.ExtractSliceOp) -> None:
    """Check the slice against its source and the type of the result."""
    _verify_slice(op, op.source, op.result)


def _verify_insert_slice(op: tensor.InsertSliceOp) -> None:
    """Check the slice, and that the result has the type of the tensor that it is inserted into."""
    _verify_slice(op, op.dest, op.source)
    if op.result.type != op.dest.type:
        raise VerifyException(f"the result is {op.result.type}, expected the type of `dest`, {op.dest.type}")


def _verify_collapse_shape(op: tensor.CollapseShapeOp) -> None:
    """Verify a tensor.collapse_shape: the groups of dimensions and the element type."""
    _check_reassociation(op, expanded=shape_of(op.src), collapsed=shape_of(op.result))
    _verify_same_element(op, op.src, op.result)


def _verify_expand_shape(op: tensor.ExpandShapeOp) -> None:
    """Verify a tensor.expand_shape: `output_shape`, the groups of dimensions and the element type."""
    source, result = shape_of(op.src), shape_of(op.result)
    sizes = _static_numbers(op.static_output_shape, op.dynamic_output_shape, "size(s)")
    if len(sizes) != len(result) or not all(may_be_equal(s, r) for s, r in zip(sizes, result, strict=True)):
        raise VerifyException(f"output_shape is {shape_text(sizes)}, but the result is {op.result.type}")
    _check_reassociation(op, expanded=result, collapsed=source)
    _verify_same_element(op, op.src, op.result)


def _check_reassociation(
    op: tensor.CollapseShapeOp | tensor.ExpandShapeOp, expanded: Sequence[int | None], collapsed: Sequence[int | None]
) -> None:
    """Verify the reassociation of a reshape, which states the dimensions that are merged or split.

    Group i lists the dimensions of `expanded` whose sizes multiply to size i of `collapsed`: [[0, 1], [2]] is valid
    between the expanded shape 2x3x4 and the collapsed shape 6x4. Products with a dynamic size (None) are not checked.
    """
    groups = [[int(i.value.data) for i in group] for group in op.reassociation]
    if not groups:  # between rank 0 and unit sizes, such as tensor<f32> and tensor<1x1xf32>
        if collapsed or any(n not in (1, None) for n in expanded):
            raise VerifyException(f"[] is between a tensor without dimensions and ones, not {shape_text(expanded)}")
        return
    if [i for group in groups for i in group] != list(range(len(expanded))):
        raise VerifyException(
            f"{groups} do not name the {len(expanded)} dimension(s) of {shape_text(expanded)} in order"
        )
    if len(groups) != len(collapsed):
        raise VerifyException(
            f"{len(groups)} group(s) for the {len(collapsed)} dimension(s) of {shape_text(collapsed)}"
        )
    for group, size in zip(groups, collapsed, strict=True):
        sizes = [expanded[i] for i in group]
        if size is None or None in sizes:
            continue
        if prod(n for n in sizes if n is not None) != size:
            raise VerifyException(
                f"{shape_text(expanded)} and {shape_text(collapsed)}: the dimensions {group} do not make {size}"
            )


def _verify_from_elements(op: tensor.FromElementsOp) -> None:
    """Verify that the result of a tensor.from_elements has static sizes, and an operand for each element."""
    shape = shape_of(op.result)
    if None in shape:
        raise VerifyException(f"{op.result.type} needs static sizes")
    count = prod(n for n in shape if n is not None)
    if count != len(op.elements):
        raise VerifyException(f"{op.result.type} has {count} element(s), got {len(op.elements)}")


def _constant_index(value: SSAValue) -> int | None:
    """Return the value of an index defined by `arith.constant`; None for other values."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant":
        attribute = owner.properties.get("value")
        return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else None
    return None


def _verify_element_access(op: tensor.ExtractOp | tensor.InsertOp) -> None:
    """Verify the number of indices of a tensor.extract or tensor.insert, and that constant ones are in bounds."""
    target = op.tensor if isinstance(op, tensor.ExtractOp) else op.dest
    shape = shape_of(target)
    if len(op.indices) != len(shape):
        raise VerifyException(f"{target.type} has {len(shape)} dimension(s), got {len(op.indices)} index(es)")
    parent = op.parent_op()
    if isinstance(op, tensor.ExtractOp) and parent is not None and parent.name.startswith(("func.", "util.", "scf.")):
        return  # an extract in host code checks its bounds at run time
    for axis, (index, n) in enumerate(zip(op.indices, shape, strict=True)):
        element = _constant_index(index)
        if element is not None and n is not None and not 0 <= element < n:
            raise VerifyException(f"element {element} of dimension {axis} is outside of its {n} element(s)")


def _verify_cast(op: tensor.CastOp) -> None:
    """Verify that the static sizes of a tensor.cast's types do not contradict each other."""
    source, dest = op.source, op.dest
    if not isinstance(source.type, TensorType) or not isinstance(dest.type, TensorType):  # an unranked tensor
        return
    _verify_same_element(op, source, dest)
    sizes, new_sizes = shape_of(source), shape_of(dest)
    if len(sizes) != len(new_sizes) or not all(may_be_equal(n, m) for n, m in zip(sizes, new_sizes, strict=True)):
        raise VerifyException(f"{source.type} cannot be {dest.type}: their sizes differ")


def _verify_dim(op: tensor.DimOp) -> None:
    """Verify that the tensor has the dimension that a tensor.dim asks for, if its index is a constant."""
    index = _constant_index(op.index)
    if isinstance(op.source.type, TensorType):
        rank = op.source.type.get_num_dims()
        if index is None and rank == 0:  # no index is valid
            raise VerifyException(f"{op.source.type} has no dimension")
        if index is not None and not 0 <= index < rank:
            raise VerifyException(f"{op.source.type} has no dimension {index}")


def _verify_empty(op: tensor.EmptyOp) -> None:
    """Check that a tensor.empty has a value for each dynamic size of its type."""
    expected = dynamic_dims(op.tensor.type)
    if len(op.dynamic_sizes) != expected:
        raise VerifyException(f"{op.tensor.type} has {expected} dynamic size(s), got {len(op.dynamic_sizes)} value(s)")


def _verify_reshape(op: tensor.ReshapeOp) -> None:
    """Check a tensor.reshape: static types have equal numbers of elements, and the shape operand has one entry for each
    dimension of the result."""
    source, shape, result = op.source.type, op.shape.type, op.result.type
    assert isinstance(source, TensorType) and isinstance(shape, TensorType) and isinstance(result, TensorType)
    if source.element_type != result.element_type:
        raise VerifyException(f"a reshape keeps the element type, got {source} to {result}")
    if len(shape.get_shape()) != 1 or shape.get_shape()[0] not in (result.get_num_dims(), DYNAMIC):
        raise VerifyException(f"the shape of {result} has {result.get_num_dims()} entries, got {shape}")
    if source.has_static_shape() and result.has_static_shape() and prod(source.get_shape()) != prod(result.get_shape()):
        raise VerifyException(f"{source} and {result} have different numbers of elements")


CHECKS: dict[Any, Callable[[Any], None]] = {
    tensor.PadOp: _verify_pad,
    tensor.ExtractSliceOp: _verify_extract_slice,
    tensor.InsertSliceOp: _verify_insert_slice,
    tensor.CollapseShapeOp: _verify_collapse_shape,
    tensor.ExpandShapeOp: _verify_expand_shape,
    tensor.FromElementsOp: _verify_from_elements,
    tensor.ExtractOp: _verify_element_access,
    tensor.InsertOp: _verify_element_access,
    tensor.CastOp: _verify_cast,
    tensor.DimOp: _verify_dim,
    tensor.EmptyOp: _verify_empty,
    tensor.ReshapeOp: _verify_reshape,
}
"""Check of each operation class; it raises VerifyException."""
