"""Cloning of the scalar bodies of tensor operations (generics, pads, generates) into a kernel, for one element."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import unsupported
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import constant_index

_INDEX_AND_TENSOR_OPS = frozenset({"linalg.index", "tensor.extract", "tensor.dim", "tensor.rank"})
"""Operations of scalar bodies that read the loop indices or a tensor: a kernel computes them, and clones others."""


def clone_block(
    elements: Elements,
    build: Builder,
    block: Block,
    mapping: dict[SSAValue, SSAValue],
    point: Sequence[Index],
    reassociable: Container[Operation] = (),
) -> list[SSAValue]:
    """Clone the operations of a block, and return the operands of its terminator as kernel values.

    The block is scalar code of the dispatch function, such as the body of a `linalg.generic`. The terminator itself is
    not cloned.

    Args:
        elements: Tensors of the kernel.
        build: Receives the clones.
        block: The block.
        mapping: Kernel value of each argument of the block. The results of the clones are added to it.
        point: Index of each loop, which `linalg.index` returns; empty for a body without loops.
        reassociable: Operations of the block whose clones get the fast-math flag `reassoc`.
    """
    terminator = block.last_op
    for op in block.ops:
        if op is terminator:
            break
        clone_op(elements, build, op, mapping, point, reassociable)
    return [] if terminator is None else [resolve(elements, mapping, value) for value in terminator.operands]


def resolve(elements: Elements, mapping: dict[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    """Return the kernel value of a scalar that a body reads.

    A value that the body defines is in `mapping`. Any other one is a scalar of the dispatch function.
    """
    known = mapping.get(value)
    return elements.scalar(value) if known is None else known


def clone_op(
    elements: Elements,
    build: Builder,
    op: Operation,
    mapping: dict[SSAValue, SSAValue],
    point: Sequence[Index],
    reassociable: Container[Operation] = (),
) -> None:
    """Clone one scalar operation of a body, and add its results to `mapping`.

    `linalg.index`, `tensor.dim` and `tensor.rank` become indices, `tensor.extract` the computation of the element. The
    clone of a pure operation with one result is hoisted out of the loops that define none of its operands. If the
    kernel has computed an equal operation before, its result is used instead of a clone.

    Args:
        elements: Tensors of the kernel.
        build: Receives the clone.
        op: The operation.
        mapping: Value of the body -> its value in the kernel.
        point: Index of each loop, which `linalg.index` returns; empty for a body without loops.
        reassociable: Operations whose clones get the fast-math flag `reassoc`, and are neither hoisted nor shared.

    Raises:
        CompileError: The operation computes tensors, or is a `tensor.dim` whose dimension is no constant.
    """
    if op.name in _INDEX_AND_TENSOR_OPS:
        mapping[op.results[0]] = _index_or_element(elements, build, op, mapping, point)
        return
    if any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        raise unsupported(op, "it computes tensors inside scalar code")
    # The clone, without the location of `op`: the builder sets its own.
    operands = [resolve(elements, mapping, value) for value in op.operands]
    properties = _copied_properties(elements, op, may_reassociate=op in reassociable)
    copy = type(op).create(
        operands=operands,
        result_types=[r.type for r in op.results],
        properties=properties,
        attributes={k: v for k, v in op.attributes.items() if k != "loc"},
        regions=[_clone_region(elements, build, op, region, mapping, point) for region in op.regions],
    )
    if info_of(op).is_pure and not op.regions and len(op.results) == 1 and op not in reassociable:
        mapping[op.results[0]] = build.pure(copy)
        return
    build.add(copy)
    mapping.update(zip(op.results, copy.results, strict=True))


def _index_or_element(
    elements: Elements, build: Builder, op: Operation, mapping: dict[SSAValue, SSAValue], point: Sequence[Index]
) -> SSAValue:
    """Return the kernel value of an operation in `_INDEX_AND_TENSOR_OPS`: a loop index, a size, a rank, or an element.

    `linalg.index` is an entry of `point`, the index of each loop. `tensor.extract` computes an element of a tensor at
    indices that the body has computed.

    Raises:
        CompileError: The dimension of a `tensor.dim` is no constant.
    """

    def index_of(value: SSAValue) -> Index:
        """Return the kernel value of an index; an integer if it is constant."""
        known = constant_index(value)
        return resolve(elements, mapping, value) if known is None else known

    if op.name == "linalg.index":
        dimension = op.properties["dim"].value.data  # type: ignore[attr-defined]
        return build.value(point[dimension])
    if op.name == "tensor.extract":
        return _extract(elements, build, op.operands[0], [index_of(v) for v in op.operands[1:]])
    if op.name == "tensor.rank":
        return build.index(op.operands[0].type.get_num_dims())  # type: ignore[attr-defined]
    axis = constant_index(op.operands[1])  # of `tensor.dim`
    if axis is None:
        raise unsupported(op, "which dimension it asks for is not known while compiling")
    return build.value(elements.dims(op.operands[0])[axis])


def _extract(elements: Elements, build: Builder, source: SSAValue, indices: Sequence[Index]) -> SSAValue:
    """Emit the element of a tensor at computed indices, and return it.

    Indices are clamped to the tensor, and the element of an empty tensor is zero. So no index that a program computes
    reads memory outside of the tensor.
    """
    assert isinstance(source.type, TensorType)
    element, sizes = source.type.element_type, elements.dims(source)
    clamped = [build.clamp(i, n) for i, n in zip(indices, sizes, strict=True)]
    return build.choose(
        build.not_empty(sizes), lambda b: elements.at(b, source, clamped), lambda b: elements.zero(b, element)
    )


def _copied_properties(elements: Elements, op: Operation, may_reassociate: bool = False) -> dict[str, Attribute]:
    """Return the properties for the clone of an operation: those of the operation, except for the fast-math flags.

    The flag `reassoc` is added if `may_reassociate`. The flag `arcp`, which permits a division to become a product with
    the reciprocal, is removed for targets that ask for exact rounding (`reassociate = false`).
    """
    attribute = op.properties.get("fastmath")
    flags = set(attribute.data) if isinstance(attribute, arith.FastMathFlagsAttr) else set[FastMathFlag]()
    new_flags = flags | {FastMathFlag.REASSOC} if may_reassociate else flags
    if not elements.reassociate:
        new_flags = new_flags - {FastMathFlag.ALLOW_RECIP}
    if new_flags == flags:
        return dict(op.properties)
    return {**op.properties, "fastmath": arith.FastMathFlagsAttr(sorted(new_flags, key=lambda flag: flag.value))}


def _clone_region(
    elements: Elements, build: Builder, op: Operation, region: Region, mapping: dict[SSAValue, SSAValue],
    point: Sequence[Index],
) -> Region:  # fmt: skip
    """Return a clone of a region of a scalar operation `op`, such as a branch of `scf.if`.

    `mapping` has the kernel value of each value of the body, and `point` the index of each loop, which `linalg.index`
    returns. Values that the region defines are not added to `mapping`: they do not exist outside.

    Raises:
        CompileError: The region has several blocks.
    """
    if not region.blocks:  # an `scf.if` without an else branch
        return Region()
    if len(region.blocks) > 1:
        raise unsupported(op, "its region has several blocks")
    source = region.block
    block = Block(arg_types=[a.type for a in source.args])
    inner = build.nested(block, pins_loads=True)  # loads may be out of bounds where the region does not run
    inner_mapping = dict(mapping)
    inner_mapping.update(zip(source.args, block.args, strict=True))
    # The operations but for the terminator, and then the terminator with their values as operands.
    values = clone_block(elements, inner, source, inner_mapping, point)
    if source.last_op is not None:
        terminator = type(source.last_op).create(
            operands=values, properties=source.last_op.properties, attributes=source.last_op.attributes
        )
        inner.add(terminator)
        set_location(terminator, source.last_op)
    return Region(block)


def scalarized(elements: Elements, build: Builder, op: Operation, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Emit an elementwise tensor operation on single elements, and return its results.

    Args:
        elements: Tensors of the kernel.
        build: Receives the operation.
        op: The operation on tensors.
        operands: For each operand of `op`, its element; an operand that is a scalar is its own element.
    """
    types = [r.type.element_type if isinstance(r.type, TensorType) else r.type for r in op.results]
    copy = type(op).create(
        operands=operands, result_types=types, properties=_copied_properties(elements, op),
        attributes={k: v for k, v in op.attributes.items() if k != "loc"},
    )  # fmt: skip
    if len(types) == 1:
        return [build.pure(copy)]
    build.add(copy)
    return list(copy.results)
