"""Local rewrites of host functions that let dispatches form well: one row for each rule.

Common subexpressions and dead operations are eliminated; views of views, of splats and of constants are folded. No
value changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, TensorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.analysis.destinations import slice_of
from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import producer_of_kind
from pydispatch.compiler.analysis.sizes import dynamic_sizes, size_of, sizes_of, term_of
from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.fusion.dim_orders import (
    elementwise_before_transposition,
    pad_before_transposition,
    write_as_computed,
    write_as_read,
)
from pydispatch.compiler.fusion.elimination import erase_unused, merge_equal_operations
from pydispatch.compiler.fusion.folded_reshapes import fold_inverse_reshape, fold_reshape_of_reshape
from pydispatch.compiler.fusion.maps import (
    drop_unit_dimensions,
    elementwise_without_unit_dimensions,
    pad_without_unit_dimensions,
    read_through_copies,
    slice_without_unit_dimensions,
)
from pydispatch.compiler.fusion.reshapes import collapse_after
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.ir.core.dense import splat as splat_constant
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.linalg import regions
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import structured
from pydispatch.ir.values import constant_index, shape_of

Rule = Callable[[Operation], "SSAValue | None"]
"""Rewrite of an operation: a function that returns the value to replace its only result; None if it does not apply.

The rule inserts new operations before the operation; `simplify` replaces the result and erases the operation. A rule
that does not apply inserts nothing, unless it leaves the operation without readers."""


def simplify(function: Operation) -> None:
    """Rewrite the bodies of a host function in place until no rule applies.

    Each round merges equal operations, applies to each operation the first rule of RULES that succeeds, and erases
    operations without readers.
    """
    changed = True
    while changed:
        changed = False
        for region in function.regions:
            for block in region.blocks:
                merge_equal_operations(block, {})
        for op in list(walk(function)):
            if op.parent is None or op is function:  # no parent: erased by a rule for an earlier operation
                continue
            if op.name == "linalg.generic":
                _replace_unread_outputs(op)
            changed = _apply_first_rule(op) or changed
        changed = erase_unused(function) or changed


def _apply_first_rule(op: Operation) -> bool:
    """Replace an operation by the first of its rules that applies, and return whether one does."""
    common_rules = ELEMENTWISE if info_of(op).elementwise and op.results else ()
    previous = op.prev_op
    for rule in (*RULES.get(op.name, ()), *common_rules):
        value = rule(op)
        # A fold may return a value of another type, such as the operand of a padding of width 0 whose result type has
        # dynamic sizes. Readers would need a cast, so the operation stays.
        if value is not None and value.type == op.results[0].type:
            value.name_hint = value.name_hint or op.results[0].name_hint
            op.results[0].replace_all_uses_with(value)
            erase_op(op)
            return True
        # `simplify` would erase such operations and begin another round, in which the rule inserts them again.
        has_inserted_only = op.prev_op is not previous and op.results[0].uses
        assert not has_inserted_only, f"{rule.__name__} inserted operations without replacing {op.name}"
    return False


def _replace_unread_outputs(op: Operation) -> None:
    """Replace initial values that the body of a linalg.generic does not read by empty tensors.

    This removes the dependence on the operations that compute them. A generic that cannot be lowered is left for the
    error: it may not write all elements of its results.
    """
    generic = structured(op)
    if cannot_lower(generic):
        return
    body, first_output = generic.block, len(generic.inputs)
    for index, value in enumerate(generic.outputs):
        is_read = body.args[first_output + index].uses.get_length() > 0
        is_empty = isinstance(value.owner, Operation) and value.owner.name == "tensor.empty"
        if is_read or is_empty or not isinstance(value.type, TensorType):
            continue
        op.operands[first_output + index] = insert_before(tensor.EmptyOp(dynamic_sizes(value, op), value.type), op)


# -- rules


def _fold_same_type(op: Operation) -> SSAValue | None:
    """Replace an operation whose result has the type of its operand by the operand."""
    return op.operands[0] if op.operands[0].type == op.results[0].type else None


def _fold_inverse_bitcast(op: Operation) -> SSAValue | None:
    """Fold a bitcast of a bitcast that restores the type and the sizes of the source."""
    inner = op.operands[0].owner
    if not isinstance(inner, tensors.TensorBitCastOp):
        return None
    source = inner.operands[0]
    is_inverse = source.type == op.results[0].type and sizes_of(source) == sizes_of(op.results[0])
    return source if is_inverse else None


def _fold_same_shape(op: Operation) -> SSAValue | None:
    """Replace a reshape whose source has the type, and certainly the sizes, of the result by its source.

    A reshape keeps the number of elements, which determines a single dynamic size. It does not determine two dynamic
    sizes, as in a reshape of [2, 3] to [3, 2] of type tensor<?x?xf32>, nor one beside a static size of 0.
    """
    sizes = shape_of(op.results[0])
    is_determined = sum(n < 0 for n in sizes) <= 1 and 0 not in sizes
    return _fold_same_type(op) if is_determined else None


def _fold_cast_of_cast(op: Operation) -> SSAValue | None:
    """Fold a cast of a cast, unless the inner one asserts that a dynamic size has a static value."""
    inner = producer_of_kind(op.operands[0], "tensor.cast")
    if inner is None:
        return None
    source_shape, inner_shape, result_shape = map(shape_of, (inner.operands[0], op.operands[0], op.results[0]))
    inner_asserts_size = any(new >= 0 and old < 0 for new, old in zip(inner_shape, source_shape, strict=True))
    if inner_asserts_size:
        return None
    if source_shape == result_shape:
        return inner.operands[0]
    return insert_before(tensor.CastOp(inner.operands[0], cast("TensorType[Attribute]", op.results[0].type)), op)


def _splat_value(value: SSAValue) -> Attribute | None:
    """Return the element of a constant whose elements are equal; None for other values."""
    op = producer_of_kind(value, "arith.constant")
    dense = op.properties.get("value") if op is not None else None
    return splat_of(dense)


def _fold_view_of_splat(op: Operation) -> SSAValue | None:
    """Fold a view of a splat, or of a constant with equal elements, to a splat of the result type."""
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    if not type_.has_static_shape():  # a dynamic splat would need its sizes as operands
        return None
    splat = producer_of_kind(op.operands[0], "tensor.splat")
    if splat is not None:
        return insert_before(tensor.SplatOp(splat.operands[0], [], type_), op)
    element = _splat_value(op.operands[0])
    if element is None:
        return None
    return insert_before(arith.ConstantOp(splat_constant(type_, _number(element))), op)


def _number(element: Attribute) -> int | float:
    """Return the number of an integer or float attribute."""
    return element.value.data  # type: ignore[attr-defined]


def _fold_view_of_empty(op: Operation) -> SSAValue | None:
    """Fold a view of an empty tensor to an empty tensor of the result type, if that is static."""
    type_ = op.results[0].type
    if producer_of_kind(op.operands[0], "tensor.empty") is None or not isinstance(type_, TensorType):
        return None
    return insert_before(tensor.EmptyOp([], type_), op) if type_.has_static_shape() else None


def _fold_extract(op: Operation) -> SSAValue | None:
    """Fold the extraction of an element from a splat, from `tensor.from_elements`, or from a constant.

    Return the element: the operand of the splat or of from_elements, or a new constant. Return None for other sources,
    and if an index is not constant, unless all elements are equal.
    """
    source = op.operands[0]
    splat = producer_of_kind(source, "tensor.splat")
    if splat is not None:
        return splat.operands[0]
    element = _splat_value(source)
    if element is None:  # elements differ: the index decides
        flat = _constant_flat_index(op.operands[1:], shape_of(source))
        producer = producer_of_kind(source, "tensor.from_elements", "arith.constant")
        if flat is None or producer is None:
            return None
        if producer.name == "tensor.from_elements":
            return producer.operands[flat]
        dense = producer.properties.get("value")
        if not isinstance(dense, DenseIntOrFPElementsAttr):
            return None
        element = next(a for i, a in enumerate(dense.iter_attrs()) if i == flat)
    return insert_before(arith.ConstantOp(element), op)  # type: ignore[arg-type]


def _constant_flat_index(indices: Sequence[SSAValue], shape: Sequence[int]) -> int | None:
    """Return the row-major position of the element at `indices` in a tensor of sizes `shape`.

    Return None unless all indices are constants in bounds.
    """
    flat = 0
    for value, size in zip(indices, shape, strict=True):
        index = constant_index(value)
        if index is None or size < 0 or not 0 <= index < size:
            return None
        flat = flat * size + index
    return flat


def _fold_constant_elements(op: Operation) -> SSAValue | None:
    """Fold `tensor.from_elements` of at least one element, all constants, to a constant tensor."""
    values = [v.owner.value for v in op.operands if isinstance(v.owner, arith.ConstantOp)]
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    if len(values) != len(op.operands) or not values:
        return None
    return insert_before(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [_number(v) for v in values])), op)


def _fold_whole_slice(op: Operation) -> SSAValue | None:
    """Replace the extraction of all of a tensor, or an insertion that overwrites all of it, by the source tensor.

    An insertion stays if its source may have other sizes than the destination: the call then has to be refused.
    """
    is_extraction = op.name == "tensor.extract_slice"
    # The sliced tensor, and the tensor that is extracted from it or inserted into it.
    whole, inner = (op.operands[0], op.results[0]) if is_extraction else (op.operands[1], op.operands[0])
    if sizes_of(inner) != sizes_of(whole):
        return None
    for axis, (offset, size, stride) in enumerate(zip(*slice_of(op).components, strict=True)):
        # An int, or a symbolic term: equal terms are equal sizes.
        terms = [n if isinstance(n, int) else term_of(n) for n in (offset, size, stride)]
        if terms != [0, size_of(whole, axis), 1]:
            return None
    return op.operands[0]


def _fold_no_padding(op: Operation) -> SSAValue | None:
    """Fold padding whose widths are all the constant 0, unless `nofold` asks for a copy."""
    pad = cast(tensor.PadOp, op)
    # A dynamic width is a nonzero marker in the static ones.
    has_padding = any(int(n) for n in (*pad.static_low.get_values(), *pad.static_high.get_values()))
    return op.operands[0] if not has_padding and pad.nofold is None else None


def _fold_copy(op: Operation) -> SSAValue | None:
    """Replace a generic that yields one of its inputs unchanged, at the same indices, by this input."""
    generic = structured(op)
    terminator = generic.block.last_op
    if len(op.results) != 1 or generic.has_reduction_loops or terminator is None:
        return None
    if cannot_lower(generic):  # it may not write all elements of its result
        return None
    yielded = terminator.operands[0]
    if not isinstance(yielded, BlockArgument) or yielded.owner is not generic.block:
        return None
    is_input = yielded.index < len(generic.inputs)
    if terminator is not generic.block.first_op or not is_input:
        return None
    has_same_indices = generic.maps[yielded.index] == generic.maps[-1]
    return generic.inputs[yielded.index] if has_same_indices else None


def _size_in(shape: SSAValue, axis: int, op: Operation) -> SSAValue:
    """Return the size of an axis as an index, read before `op` from a tensor `shape` that has the size of each axis."""
    element_type = cast("TensorType[Attribute]", shape.type).element_type
    index = insert_before(arith.ConstantOp.from_int_and_width(axis, IndexType()), op)
    size = insert_before(tensor.ExtractOp(shape, [index], element_type), op)
    return size if isinstance(size.type, IndexType) else insert_before(arith.IndexCastOp(size, IndexType()), op)


def _reshape_by_values(op: Operation) -> SSAValue | None:
    """Replace a tensor.reshape, whose sizes are elements of a tensor, by a flow.tensor.reshape with sizes as operands.

    Return the result of the new reshape.
    """
    source, shape = op.operands
    result = op.results[0].type
    assert isinstance(result, TensorType)
    # The dynamic sizes of the result are elements of `shape`; those of the source are its own.
    result_dims = [_size_in(shape, axis, op) for axis, n in enumerate(result.get_shape()) if n < 0]
    source_dims = dynamic_sizes(source, op)
    reshape = tensors.TensorReshapeOp(operands=[source, source_dims, result_dims], result_types=[result])
    return insert_before(reshape, op)


def _compute_positions(op: Operation) -> SSAValue | None:
    """Replace a constant [0, 1, 2, ...] by a generic that yields the index of each element.

    Analyses then see that elements are indices, and kernels load nothing.
    """
    value = op.properties.get("value")
    if not isinstance(value, NumPyArrayAttr) or not value.is_iota:  # is_iota: of rank 1 only
        return None
    type_: TensorType[Attribute] = value.type
    body, index = Block(arg_types=[type_.element_type]), regions.IndexOp(0)
    cast = arith.IndexCastOp(index.result, type_.element_type)
    body.add_ops([index, cast, YieldOp(cast.result)])
    empty = insert_before(tensor.EmptyOp([], type_), op)
    maps, loops = affine_maps([AffineMap.identity(1)]), iterator_types(["parallel"])
    return insert_before(GenericOp([], [empty], Region(body), maps, loops, [type_]), op)


def _fold_single_operand(op: Operation) -> SSAValue | None:
    """Fold a concatenation of one operand."""
    return op.operands[0] if len(op.operands) == 1 else None


ELEMENTWISE: Sequence[Rule] = (elementwise_without_unit_dimensions, elementwise_before_transposition)
"""Rules of all elementwise operations, after those of the operation in RULES."""

RULES: dict[str, Sequence[Rule]] = {
    "tensor.cast": (_fold_same_type, _fold_cast_of_cast, _fold_view_of_splat, _fold_view_of_empty),
    **dict.fromkeys(
        ("tensor.expand_shape", "tensor.collapse_shape"),
        (_fold_same_type, _fold_view_of_splat, _fold_view_of_empty, fold_inverse_reshape, fold_reshape_of_reshape),
    ),
    "flow.tensor.reshape": (_fold_same_shape, _fold_view_of_splat, _fold_view_of_empty),
    "tensor.reshape": (_fold_view_of_splat, _fold_view_of_empty, _reshape_by_values),
    "tensor.bitcast": (_fold_same_type,),
    "flow.tensor.bitcast": (_fold_inverse_bitcast,),
    "tensor.extract": (_fold_extract,),
    "tensor.from_elements": (_fold_constant_elements,),
    "tensor.extract_slice": (
        _fold_whole_slice,
        slice_without_unit_dimensions,
        _fold_view_of_splat,
        _fold_view_of_empty,
    ),
    "tensor.insert_slice": (_fold_whole_slice,),
    "tensor.pad": (_fold_no_padding, pad_before_transposition, pad_without_unit_dimensions),
    "tensor.concat": (_fold_single_operand,),
    "flow.tensor.constant": (_compute_positions,),
    "linalg.generic": (
        _fold_copy,
        drop_unit_dimensions,
        read_through_copies,
        write_as_read,
        write_as_computed,
        collapse_after,
    ),
}
"""Name of an operation → its rules in the order of trial."""
