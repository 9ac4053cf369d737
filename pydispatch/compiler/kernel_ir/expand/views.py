"""Expansion of memref views (subview, reshape, transpose, cast) into `memref.reinterpret_cast`.

Offset, sizes and strides are computed in arith. `pyd.layout` queries the ones that are dynamic in the memref's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerType,
    MemRefType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernel_ir.build import INDEX, Build, Index, constant_or_value
from pydispatch.compiler.kernel_ir.expand.layout import LayoutOp
from pydispatch.compiler.kernel_ir.expand.rule import Rule
from pydispatch.compiler.kernel_ir.readers import attribute, mixed_values, op_name, reassociation, segments, unsupported
from pydispatch.compiler.kernel_ir.types import layout_of
from pydispatch.errors import CompileError


@dataclass(frozen=True)
class Strided:
    """Strided layout of a memref that is a view of another memref.

    Attributes:
        storage: The memref that it is a view of.
        offset: Index of its first element in `storage`.
        sizes: Number of elements along each dimension.
        strides: For each dimension, the distance in elements of `storage` between adjacent elements.
    """

    storage: SSAValue
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]


def strided(op: Operation, value: SSAValue) -> Strided:
    """Return the strided layout of a memref: its offset, sizes and strides, of which static ones are ints.

    The storage is the operand of the reinterpret_cast that defines the memref. A memref with another definition is its
    own storage, and dynamic parts of its layout are queried at run time. Raises CompileError at `op` if the value is no
    memref.

    Args:
        op: An operation that uses it.
        value: The memref.
    """
    if not isinstance(value.type, MemRefType):
        raise unsupported(op)
    source = value.owner
    if isinstance(source, memref.ReinterpretCastOp):
        _, *parts = segments(source, 4)
        names = ("static_offsets", "static_sizes", "static_strides")
        (start,), extents, steps = (
            mixed_values(source, name, part, read=constant_or_value) for name, part in zip(names, parts, strict=True)
        )
        return Strided(source.operands[0], start, tuple(extents), tuple(steps))
    # Static parts of the layout are in the type, dynamic ones are queried: offset, then sizes, then strides.
    offset, sizes, strides = layout_of(value.type)
    stated = (offset, *sizes, *strides)  # by the type; None for a dynamic part
    queried = _layout(value, len(stated)) if None in stated else ()
    resolved = [queried[index] if part is None else part for index, part in enumerate(stated)]
    end_of_sizes = 1 + len(sizes)
    return Strided(value, resolved[0], tuple(resolved[1:end_of_sizes]), tuple(resolved[end_of_sizes:]))


def _layout(value: SSAValue, count: int) -> Sequence[SSAValue]:
    """Return the offset, sizes and strides of a memref, `count` values, as they are known at run time.

    They are the results of a `pyd.layout`, which is inserted directly after the definition of the memref on first use.
    """
    for use in value.uses:
        if isinstance(use.operation, LayoutOp):
            return use.operation.results
    layout = LayoutOp.create(operands=[value], result_types=[INDEX] * count)
    owner = value.owner
    if isinstance(owner, Block):  # an argument is defined at the beginning of its block
        block, following = owner, owner.first_op
    else:
        assert owner.parent is not None
        block, following = owner.parent, owner.next_op
    assert following is not None
    layout.location = owner.location if isinstance(owner, Operation) else following.location
    block.insert_op_before(layout, following)
    return layout.results


def _cast(build: Build, layout: Strided, type_: Attribute) -> SSAValue:
    """Insert a `memref.reinterpret_cast` of a storage to this type and `layout`, and return the memref.

    Offset, sizes and strides are properties, with DYNAMIC_INDEX for each value, which is an operand instead.
    """
    operands, properties = [layout.storage], dict[str, Attribute]()
    operand_counts = [1]  # the storage
    groups: dict[str, Sequence[Index]] = {
        "static_offsets": (layout.offset,),
        "static_sizes": layout.sizes,
        "static_strides": layout.strides,
    }
    for name, entries in groups.items():
        static = [entry if isinstance(entry, int) else DYNAMIC_INDEX for entry in entries]
        properties[name] = DenseArrayBase.from_list(i64, static)
        dynamic = [entry for entry in entries if not isinstance(entry, int)]
        operands += dynamic
        operand_counts.append(len(dynamic))
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(IntegerType(32), operand_counts)
    return build.let(memref.ReinterpretCastOp.create(operands=operands, result_types=[type_], properties=properties))


def _cast_to_result_type(build: Build, op: Operation, view: Strided) -> list[SSAValue]:
    """Emit a reinterpret_cast of `view` to the result type of `op`, and return it, the expansion of `op`.

    Where the type states a static offset, size or stride, it replaces the computed one of `view`. Raises CompileError
    if the result is no memref, or has another rank than `view`.
    """
    type_ = op.results[0].type
    if not isinstance(type_, MemRefType):
        raise unsupported(op)
    offset, sizes, strides = layout_of(type_)  # by the type; None for each dynamic one
    if len(sizes) != len(view.sizes):
        raise CompileError(f"{op_name(op)} gives rank {len(view.sizes)}, its type {type_} has rank {len(sizes)}")
    layout = Strided(
        view.storage,
        _stated_or_computed(offset, view.offset),
        tuple(map(_stated_or_computed, sizes, view.sizes)),
        tuple(map(_stated_or_computed, strides, view.strides)),
    )
    return [_cast(build, layout, type_)]


def _stated_or_computed(stated: int | None, computed: Index) -> Index:
    """Return the offset, size or stride that a type states; the computed one if the type states none."""
    return computed if stated is None else stated


def _cast_view(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `memref.cast`."""
    return _cast_to_result_type(build, op, strided(op, op.operands[0]))


def _subview(build: Build, op: Operation) -> list[SSAValue]:
    """Expand a `memref.subview`: its offsets, in elements of the source, move the start, and strides are multiplied.

    A subview of 8x6 with the strides [6, 1], at the offsets [1, 2] with the steps [2, 1], begins 1 * 6 + 2 = 8 elements
    later, and has the strides [12, 1].
    """
    source = strided(op, op.operands[0])
    _, offset_operands, size_operands, stride_operands = segments(op, 4)

    def part(name: str, operands: Sequence[SSAValue]) -> list[Index]:
        """Return the offsets, sizes or strides of the subview `op`, by the name of their property.

        Static entries and constant operands are integers. `operands` are those of the dynamic entries.
        """
        return mixed_values(op, name, operands, read=constant_or_value)

    offset = source.offset
    for start, stride in zip(part("static_offsets", offset_operands), source.strides, strict=True):
        offset = build.plus(offset, build.times(start, stride))
    taken_sizes = part("static_sizes", size_operands)
    taken_strides = [
        build.times(step, stride)
        for step, stride in zip(part("static_strides", stride_operands), source.strides, strict=True)
    ]
    kept = _kept_dimensions(op, taken_sizes, taken_strides)  # the result may lack dimensions of size 1
    sizes, strides = tuple(taken_sizes[i] for i in kept), tuple(taken_strides[i] for i in kept)
    return _cast_to_result_type(build, op, Strided(source.storage, offset, sizes, strides))


def _kept_dimensions(op: Operation, sizes: Sequence[Index], strides: Sequence[Index]) -> list[int]:
    """Return the dimensions of the source that remain in a subview, whose result may lack dimensions of size 1.

    Dimensions of size 1 are dropped such that the sizes and strides of the remaining ones match the result type: of
    sizes [1, 4, 1] for a result of sizes [4, 1], dimensions 1 and 2 remain. Raises CompileError if they cannot match.

    sizes, strides: those of the subview in each dimension of the source.
    """
    type_ = op.results[0].type
    if not isinstance(type_, MemRefType):
        raise unsupported(op)
    _, wanted_sizes, wanted_strides = layout_of(type_)
    to_drop = len(sizes) - len(wanted_sizes)
    kept: list[int] = []
    for dimension, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        position = len(kept)  # position in the result of the next dimension that is kept
        remaining, needed = len(sizes) - dimension - 1, len(wanted_sizes) - position
        cannot_be_dropped = not to_drop or size != 1
        fits = needed > 0 and _fits(size, wanted_sizes[position]) and _fits(stride, wanted_strides[position])
        # Where it fits and could be dropped, a size that the type of the result does not state is left for a later one.
        is_expected = fits and (remaining < needed or wanted_sizes[position] == 1)
        if cannot_be_dropped or is_expected:
            kept.append(dimension)
        else:
            to_drop -= 1
    if to_drop or len(kept) != len(wanted_sizes):
        raise CompileError(f"the subview's result type {type_} does not follow from its sizes")
    return kept


def _fits(computed: Index, stated: int | None) -> bool:
    """Return whether a computed size or stride may be that of a type; a stated None, or a value, may be any number."""
    is_unknown = stated is None or not isinstance(computed, int)
    return is_unknown or computed == stated


def _expand_shape(build: Build, op: Operation) -> list[SSAValue]:
    """Expand a `memref.expand_shape`, which splits dimensions of the source, to a reinterpret_cast.

    A source 6x4 with the strides [4, 1] that the groups [[0, 1], [2]] split into 2x?x4 gives the sizes [2, 3, 4] and
    the strides [12, 4, 1]. Without an operand for it, a dynamic size is the source size divided by the other sizes of
    its group. From the innermost dimension of a group outwards, each stride is the inner stride times the inner size.

    Raises:
        CompileError: More than one size of a group is neither static nor an operand.
    """
    source = strided(op, op.operands[0])
    # The dynamic sizes of `output_shape`. Programs without this list have no such operands: their sizes stay None here.
    dynamic = iter(op.operands[1:])
    sizes: list[Index | None] = [
        constant_or_value(next(dynamic)) if size is None and len(op.operands) > 1 else size
        for size in layout_of(op.results[0].type).sizes
    ]
    # In each group, compute the size that is not stated, then the strides.
    strides: list[Index] = [0] * len(sizes)
    for dimension, group in enumerate(reassociation(op)):
        _infer_size(build, sizes, group, source.sizes[dimension])
        stride = source.strides[dimension]  # stride of the innermost dimension of the group
        for i in reversed(group):
            strides[i], size = stride, sizes[i]
            assert size is not None
            if i != group[0]:  # no dimension of the group uses a stride after the outermost one
                stride = build.times(stride, size)
    known_sizes = tuple(size for size in sizes if size is not None)  # all: this only narrows the type
    return _cast_to_result_type(build, op, Strided(source.storage, source.offset, known_sizes, tuple(strides)))


def _infer_size(build: Build, sizes: list[Index | None], group: Sequence[int], source_size: Index) -> None:
    """Set the size of a group that is None, if there is one: the source size divided by the other sizes of the group.

    Raises CompileError if several sizes are None.
    """
    unknown = [i for i in group if sizes[i] is None]
    if len(unknown) > 1:
        raise CompileError("memref.expand_shape with several open dimensions in one group", note="give output_shape")
    if unknown:
        static_sizes = [size for i in group if isinstance(size := sizes[i], int)]
        sizes[unknown[0]] = _quotient(build, source_size, prod(static_sizes))


def _quotient(build: Build, size: Index, divisor: int) -> Index:
    """Return a size divided by the product of other sizes; 0 if one of those is 0, as there are no elements."""
    if divisor == 0:
        return 0
    if isinstance(size, int):
        return size // divisor
    return size if divisor == 1 else build.binary(arith.DivUIOp, size, divisor)


def _collapse_shape(build: Build, op: Operation) -> list[SSAValue]:
    """Expand a `memref.collapse_shape`: a group has the product of its sizes, and its innermost stride."""
    source = strided(op, op.operands[0])
    sizes: list[Index] = []
    strides: list[Index] = []
    for group in reassociation(op):
        size: Index = 1
        for i in group:
            size = build.times(size, source.sizes[i])
        sizes.append(size)
        # The stride of a dimension of size 1 is arbitrary, so the innermost other one has the stride of the group.
        inner = (source.strides[i] for i in reversed(group) if source.sizes[i] != 1)
        strides.append(next(inner, source.strides[group[-1]]))
    return _cast_to_result_type(build, op, Strided(source.storage, source.offset, tuple(sizes), tuple(strides)))


def _transpose(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `memref.transpose`: permute sizes and strides."""
    source, order = strided(op, op.operands[0]), attribute(op, "permutation")
    if not isinstance(order, AffineMapAttr):
        raise unsupported(op)
    axes = [expr.position for expr in order.data.results if isinstance(expr, AffineDimExpr)]
    if sorted(axes) != list(range(len(source.sizes))):
        raise CompileError(
            f"memref.transpose by {order.data}, which is no permutation of {len(source.sizes)} dimensions"
        )
    sizes, strides = (tuple(parts[i] for i in axes) for parts in (source.sizes, source.strides))
    return _cast_to_result_type(build, op, Strided(source.storage, source.offset, sizes, strides))


def _reshape(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `memref.reshape` of contiguous elements: dynamic sizes are loaded from its second operand."""
    source, shape = strided(op, op.operands[0]), op.operands[1]
    if not isinstance(shape.type, MemRefType):
        raise unsupported(op)
    sizes: list[Index] = []
    for axis, size in enumerate(layout_of(op.results[0].type).sizes):
        if size is None:  # dynamic: element `axis` of the shape operand, which may be an integer of another type
            operands, type_ = [shape, build.value(axis)], shape.type.element_type
            loaded = build.let(memref.LoadOp.create(operands=operands, result_types=[type_]))
            if not isinstance(type_, IndexType):
                loaded = build.let(arith.IndexCastOp.create(operands=[loaded], result_types=[INDEX]))
            sizes.append(loaded)
        else:
            sizes.append(size)
    view = Strided(source.storage, source.offset, tuple(sizes), build.strides(sizes))  # row-major strides
    return [_cast(build, view, op.results[0].type)]


def _extract_strided_metadata(build: Build, op: Operation) -> list[SSAValue]:
    """Expand the query of a memref's base (a memref of rank 0 at offset 0), offset, sizes and strides."""
    source = strided(op, op.operands[0])
    base = _cast(build, Strided(source.storage, 0, sizes=(), strides=()), op.results[0].type)
    return [base, *(build.value(part) for part in (source.offset, *source.sizes, *source.strides))]


def _dim(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `memref.dim`."""
    source, index = strided(op, op.operands[0]), constant_or_value(op.operands[1])
    if isinstance(index, int):
        if not 0 <= index < len(source.sizes):
            raise CompileError(f"memref.dim {index} of a memref of rank {len(source.sizes)}")
        return [build.value(source.sizes[index])]
    # A dynamic index: choose by comparisons, the last size if all others do not match.
    size: Index = source.sizes[-1] if source.sizes else 0
    for dimension in reversed(range(len(source.sizes) - 1)):
        size = build.select(build.compare("eq", index, dimension), source.sizes[dimension], size)
    return [build.value(size)]


def _rank(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `memref.rank`."""
    return [build.value(len(strided(op, op.operands[0]).sizes))]


def _same(build: Build, op: Operation) -> list[SSAValue]:
    """Expand an operation that leaves values and addresses as they are: return its operands in the result types."""
    sources: list[SSAValue] = []
    for operand, result in zip(op.operands, op.results, strict=True):
        kinds = type(operand.type), type(result.type)
        if kinds in ((IndexType, IntegerType), (IntegerType, IndexType)):
            operand = build.let(arith.IndexCastOp.create(operands=[operand], result_types=[result.type]))
        elif operand.type != result.type and isinstance(result.type, MemRefType):
            operand = _cast(build, strided(op, operand), result.type)
        sources.append(operand)
    return sources


RULES: dict[str, Rule] = {
    "memref.cast": _cast_view,
    "memref.memory_space_cast": _same,
    "memref.subview": _subview,
    "memref.expand_shape": _expand_shape,
    "memref.collapse_shape": _collapse_shape,
    "memref.transpose": _transpose,
    "memref.reshape": _reshape,
    "memref.extract_strided_metadata": _extract_strided_metadata,
    "iree_codegen.extract_strided_metadata": _extract_strided_metadata,
    "memref.dim": _dim,
    "memref.rank": _rank,
    "builtin.unrealized_conversion_cast": _same,
    "util.optimization_barrier": _same,
    "util.assume.int": _same,
}
"""Name of an operation -> its expansion. `memref.view` has none: its offset is in bytes, and targets differ in how
they address bytes."""
